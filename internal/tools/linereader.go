package tools

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// lineReader makes a record of each line: [headers DELIMITER][key SEPARATOR]value.
type lineReader struct {
	topic                              string
	parseKey, parseHeaders             bool
	keySeparator                       string
	headersDelimiter, headersSeparator string
	headerKeySeparator                 string
	splitHeaders                       *regexp.Regexp
	ignoreErrors                       bool   // what cannot be parsed belongs to the value
	nullMarker                         string // stands for null if hasNull
	hasNull                            bool
	line                               int // number of the last one
}

const lineReaderClass = "org.apache.kafka.tools.LineMessageReader"

// newLineReader reads the properties of a reader. Its errors are *javaError.
func newLineReader(props clientConfig) (*lineReader, error) {
	r := &lineReader{topic: props["topic"], keySeparator: "\t", headersDelimiter: "\t", headersSeparator: ",", headerKeySeparator: ":"}
	isTrue := func(key string) bool { return strings.EqualFold(strings.TrimSpace(props[key]), "true") }
	r.parseKey, r.parseHeaders, r.ignoreErrors = isTrue("parse.key"), isTrue("parse.headers"), isTrue("ignore.error")
	separators := []struct {
		key  string
		text *string
	}{
		{"headers.delimiter", &r.headersDelimiter}, {"headers.separator", &r.headersSeparator},
		{"headers.key.separator", &r.headerKeySeparator}, {"key.separator", &r.keySeparator},
	}
	for _, s := range separators {
		if text, ok := props[s.key]; ok {
			*s.text = text
		}
	}
	// The headers' three separators must differ, but the key's may be like any of them.
	for i, a := range separators[:3] {
		for _, b := range separators[i+1 : 3] {
			if *a.text == *b.text {
				return nil, throw(kafkaException, a.key+" and "+b.key+" may not be equal")
			}
		}
	}
	r.nullMarker, r.hasNull = props["null.marker"], has(props, "null.marker")
	for _, key := range []string{"key.separator", "headers.separator", "headers.delimiter", "headers.key.separator"} {
		for _, s := range separators {
			if s.key == key && r.hasNull && *s.text == r.nullMarker {
				return nil, throw(kafkaException, "null.marker and "+key+" may not be equal")
			}
		}
	}
	split, err := regexp.Compile(r.headersSeparator)
	if err != nil {
		return nil, throw("java.util.regex.PatternSyntaxException", err.Error())
	}
	r.splitHeaders = split
	return r, nil
}

func has(m clientConfig, key string) bool { _, ok := m[key]; return ok }

// record parses a line.
func (r *lineReader) record(line string) (*kgo.Record, error) {
	r.line++
	headers, hasHeaders, rest, err := r.cut(r.parseHeaders, line, line, r.headersDelimiter, "headers delimiter")
	if err != nil {
		return nil, err
	}
	key, hasKey, value, err := r.cut(r.parseKey, rest, line, r.keySeparator, "key separator")
	if err != nil {
		return nil, err
	}
	rec := &kgo.Record{Topic: r.topic, Value: r.bytes(value)}
	if hasKey {
		rec.Key = r.bytes(key)
	}
	if hasHeaders && !r.isNull(headers) {
		rec.Headers, err = r.headers(headers)
	}
	return rec, err
}

// cut takes what comes before a separator, if it is asked to.
func (r *lineReader) cut(wanted bool, text, line, separator, what string) (before string, ok bool, rest string, err error) {
	if !wanted {
		return "", false, text, nil
	}
	before, rest, ok = strings.Cut(text, separator)
	if ok {
		return before, true, rest, nil
	}
	if !r.ignoreErrors {
		err = throw(kafkaException, fmt.Sprintf("No %s found on line number %d: '%s'", what, r.line, line))
	}
	return "", false, text, err
}

func (r *lineReader) isNull(text string) bool { return r.hasNull && text == r.nullMarker }

// bytes returns a field's bytes, nil for null.
func (r *lineReader) bytes(text string) []byte {
	if r.isNull(text) {
		return nil
	}
	return []byte(text)
}

func (r *lineReader) headers(text string) ([]kgo.RecordHeader, error) {
	pairs := r.splitHeaders.Split(text, -1)
	for len(pairs) > 1 && pairs[len(pairs)-1] == "" { // as Java's split
		pairs = pairs[:len(pairs)-1]
	}
	headers := make([]kgo.RecordHeader, 0, len(pairs))
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, r.headerKeySeparator)
		switch {
		case !ok && r.ignoreErrors:
			headers = append(headers, kgo.RecordHeader{Key: pair})
			continue
		case !ok:
			return nil, throw(kafkaException, fmt.Sprintf("No header key separator found in pair '%s' on line number %d", pair, r.line))
		case r.isNull(key):
			return nil, throw(kafkaException, fmt.Sprintf("Header keys should not be equal to the null marker '%s' as they can't be null", r.nullMarker))
		}
		headers = append(headers, kgo.RecordHeader{Key: key, Value: r.bytes(value)})
	}
	return headers, nil
}

// lineScanner splits input into lines as Java does: at \n, \r or \r\n, and bytes that are no UTF-8 become U+FFFD.
type lineScanner struct {
	in *bufio.Reader
	// skipLF says that the last line ended in \r, so that a \n belongs to it. The next byte is not waited for.
	skipLF bool
	line   []byte
}

func newLineScanner(in io.Reader) *lineScanner {
	return &lineScanner{in: bufio.NewReaderSize(in, 64<<10)}
}

// next returns the next line; io.EOF after the last.
func (s *lineScanner) next() (string, error) {
	s.line = s.line[:0]
	for {
		if s.skipLF {
			first, err := s.in.Peek(1)
			if err == nil && first[0] == '\n' {
				s.in.Discard(1)
			}
			s.skipLF = false
		}
		if s.in.Buffered() == 0 {
			if _, err := s.in.Peek(1); err == io.EOF && len(s.line) > 0 {
				return s.text(), nil
			} else if err != nil {
				return "", err
			}
		}
		chunk, _ := s.in.Peek(s.in.Buffered())
		for i, c := range chunk {
			if c != '\n' && c != '\r' {
				continue
			}
			s.line = append(s.line, chunk[:i]...)
			s.skipLF = c == '\r'
			s.in.Discard(i + 1)
			return s.text(), nil
		}
		s.line = append(s.line, chunk...)
		s.in.Discard(len(chunk))
	}
}

func (s *lineScanner) text() string {
	if utf8.Valid(s.line) {
		return string(s.line)
	}
	return string([]rune(string(s.line)))
}
