package tools

import (
	"io"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A formatter writes records for people. Its errors are *javaError.
type formatter interface {
	write(w io.Writer, r *kgo.Record) error
}

const formatterPackage = "org.apache.kafka.tools.consumer."

// newFormatter makes the formatter of a class name; an unknown class is an error of just that name.
func newFormatter(stderr io.Writer, class string, props clientConfig) (formatter, error) {
	name, ours := strings.CutPrefix(class, formatterPackage)
	switch {
	case !ours:
	case name == "DefaultMessageFormatter", name == "LoggingMessageFormatter":
		// The logging one also logs each record, at a level that Kafka's tools do not show.
		return newDefaultFormatter(stderr, props), nil
	case name == "NoOpMessageFormatter":
		return noFormatter{}, nil
	default:
		if f, ok := internalFormatters[name]; ok {
			return f, nil
		}
	}
	return nil, throw("java.lang.ClassNotFoundException", class)
}

type noFormatter struct{}

func (noFormatter) write(io.Writer, *kgo.Record) error { return nil }

// defaultFormatter writes a record's parts with a separator between them and a line's end after the last:
//
//	CreateTime:MS · Partition:P · Offset:O · Delivery:N · Epoch:E · name:value,name:value · key · value
type defaultFormatter struct {
	timestamp, partition, offset, delivery, epoch, headers, key, value bool
	keySeparator, lineSeparator, headersSeparator, nullLiteral         string
	readKey, readValue, readHeader                                     deserializer // nil: the bytes as they are
	buf                                                                []byte
}

func newDefaultFormatter(stderr io.Writer, props clientConfig) *defaultFormatter {
	f := &defaultFormatter{value: true, keySeparator: "\t", lineSeparator: "\n", headersSeparator: ",", nullLiteral: "null"}
	for key, to := range map[string]*bool{"print.timestamp": &f.timestamp, "print.partition": &f.partition, "print.offset": &f.offset, "print.delivery": &f.delivery,
		"print.epoch": &f.epoch, "print.headers": &f.headers, "print.key": &f.key, "print.value": &f.value} {
		if text, ok := props[key]; ok {
			*to = strings.EqualFold(strings.TrimSpace(text), "true")
		}
	}
	for key, to := range map[string]*string{"key.separator": &f.keySeparator, "line.separator": &f.lineSeparator, "headers.separator": &f.headersSeparator, "null.literal": &f.nullLiteral} {
		if text, ok := props[key]; ok {
			*to = text
		}
	}
	for _, d := range []struct {
		key string
		to  *deserializer
	}{{"key.deserializer", &f.readKey}, {"value.deserializer", &f.readValue}, {"headers.deserializer", &f.readHeader}} {
		class, ok := props[d.key]
		if !ok {
			continue
		}
		if *d.to = newDeserializer(class); *d.to == nil {
			logLine(stderr, "ERROR", "Unable to instantiate a deserializer from "+class, formatterPackage+"DefaultMessageFormatter", throw("java.lang.ClassNotFoundException", class))
		}
	}
	return f
}

// write writes what comes before a field that cannot be read, too, as Kafka does.
func (f *defaultFormatter) write(w io.Writer, r *kgo.Record) error {
	f.buf = f.buf[:0]
	err := f.append(r)
	if _, writeErr := w.Write(f.buf); writeErr != nil {
		return writeErr
	}
	return err
}

func (f *defaultFormatter) append(r *kgo.Record) error {
	shown := []bool{f.timestamp, f.partition, f.offset, f.delivery, f.epoch, f.headers, f.key, f.value}
	last := -1
	for i, s := range shown {
		if s {
			last = i
		}
	}
	for i, s := range shown {
		if !s {
			continue
		}
		if err := f.appendPart(i, r); err != nil {
			return err
		}
		if i == last {
			f.buf = append(f.buf, f.lineSeparator...)
		} else {
			f.buf = append(f.buf, f.keySeparator...)
		}
	}
	return nil
}

// appendPart appends the i-th part of a line.
func (f *defaultFormatter) appendPart(i int, r *kgo.Record) error {
	switch i {
	case 0:
		f.appendTimestamp(r)
	case 1:
		f.buf = strconv.AppendInt(append(f.buf, "Partition:"...), int64(r.Partition), 10)
	case 2:
		f.buf = strconv.AppendInt(append(f.buf, "Offset:"...), r.Offset, 10)
	case 3:
		if n := r.DeliveryCount(); n > 0 { // of a member of a share group
			f.buf = strconv.AppendInt(append(f.buf, "Delivery:"...), int64(n), 10)
		} else {
			f.buf = append(f.buf, "Delivery:NOT_PRESENT"...)
		}
	case 4:
		f.buf = append(f.buf, "Epoch:NOT_PRESENT"...)
	case 5:
		if len(r.Headers) == 0 {
			f.buf = append(f.buf, "NO_HEADERS"...)
		}
		for j, h := range r.Headers {
			if j > 0 {
				f.buf = append(f.buf, f.headersSeparator...)
			}
			f.buf = append(append(f.buf, h.Key...), ':')
			if err := f.appendField(f.readHeader, h.Value); err != nil {
				return err
			}
		}
	case 6:
		return f.appendField(f.readKey, r.Key)
	case 7:
		return f.appendField(f.readValue, r.Value)
	}
	return nil
}

func (f *defaultFormatter) appendTimestamp(r *kgo.Record) {
	kind := "CreateTime:"
	switch r.Attrs.TimestampType() {
	case 1:
		kind = "LogAppendTime:"
	case -1:
		f.buf = append(f.buf, "NO_TIMESTAMP"...)
		return
	}
	f.buf = strconv.AppendInt(append(f.buf, kind...), r.Timestamp.UnixMilli(), 10)
}

// appendField appends a field, or the word for null, which is deserialized like any other: so Kafka does it.
func (f *defaultFormatter) appendField(read deserializer, field []byte) error {
	if field == nil {
		field = []byte(f.nullLiteral)
	}
	if read == nil {
		f.buf = append(f.buf, field...)
		return nil
	}
	text, err := read(field)
	f.buf = append(f.buf, text...)
	return err
}
