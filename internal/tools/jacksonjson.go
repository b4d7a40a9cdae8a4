package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Some tools take a file of JSON, and answer for what is wrong with it in the words of Jackson, the library that Kafka
// reads JSON with.

// A jacksonValue is a piece of JSON: nil, bool, json.Number, string, []any or map[string]any.
type jacksonValue struct{ v any }

const jacksonOffsetUnknown = "[Source: REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled); line: %d, column: %d]"

// readJackson reads the first value of a text. An empty text is a value too, and no kind of it. The error is Jackson's complaint.
func readJackson(text string) (jacksonValue, error) {
	var v any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	switch err := decoder.Decode(&v); {
	case err == nil:
		return jacksonValue{v}, nil
	case errors.Is(err, io.EOF):
		return jacksonValue{missingJSON{}}, nil
	default:
		return jacksonValue{}, errors.New(jacksonComplaint(text, err))
	}
}

// missingJSON is what there is in an empty text.
type missingJSON struct{}

// jacksonComplaint says what is wrong with a text as Jackson does, as far as Go's decoder tells.
func jacksonComplaint(text string, err error) string {
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	if !ok { // it ends too early
		return jacksonEnd(text)
	}
	at := max(int(syntax.Offset)-1, 0)
	r, _ := utf8.DecodeRuneInString(text[min(at, len(text)):])
	odd := func(wanted string) string {
		return fmt.Sprintf("Unexpected character ('%c' (code %d)): %s", r, r, wanted)
	}
	is := func(part string) bool { return strings.Contains(syntax.Error(), part) }
	switch {
	case is("unexpected end"):
		return jacksonEnd(text)
	case is("in string literal"):
		return fmt.Sprintf("Illegal unquoted character ((CTRL-CHAR, code %d)): has to be escaped using backslash to be included in string value", r)
	case is("object key string"):
		return odd("was expecting double-quote to start field name")
	case is("after object key:value"):
		return odd("was expecting comma to separate Object entries")
	case is("after object key"):
		return odd("was expecting a colon to separate field name and value")
	case is("after array element"):
		return odd("was expecting comma to separate Array entries")
	}
	word := func(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) || c == '_' || c == '$' }
	from := strings.LastIndexFunc(text[:at], func(c rune) bool { return !word(c) }) + 1
	to := len(text)
	if n := strings.IndexFunc(text[at:], func(c rune) bool { return !word(c) }); n >= 0 {
		to = at + n
	}
	if from < to && !unicode.IsDigit(rune(text[from])) {
		return fmt.Sprintf("Unrecognized token '%s': was expecting (JSON String, Number, Array, Object or token 'null', 'true' or 'false')", text[from:to])
	}
	return odd("expected a valid value (JSON String, Number, Array, Object or token 'null', 'true' or 'false')")
}

// jacksonEnd is the complaint about a text that ends inside of something.
func jacksonEnd(text string) string {
	type open struct {
		kind         string
		line, column int
	}
	var stack []open
	quoted, escaped := false, false
	line, column := 1, 0
	for _, c := range text {
		column++
		switch {
		case escaped:
			escaped = false
		case quoted:
			escaped, quoted = c == '\\', c != '"'
		case c == '"':
			quoted = true
		case c == '{':
			stack = append(stack, open{"Object", line, column})
		case c == '[':
			stack = append(stack, open{"Array", line, column})
		case (c == '}' || c == ']') && len(stack) > 0:
			stack = stack[:len(stack)-1]
		case c == '\n':
			line, column = line+1, 0
		}
	}
	if quoted || len(stack) == 0 {
		return "Unexpected end-of-input: was expecting closing quote for a string value"
	}
	inner := stack[len(stack)-1]
	return fmt.Sprintf("Unexpected end-of-input: expected close marker for %s (start marker at "+jacksonOffsetUnknown+")", inner.kind, inner.line, inner.column)
}

// text is the JSON itself, as Jackson prints it.
func (j jacksonValue) text() string {
	if _, ok := j.v.(missingJSON); ok {
		return ""
	}
	return jsonText(j.v)
}

func (j jacksonValue) object() (map[string]any, error) {
	o, ok := j.v.(map[string]any)
	if !ok {
		return nil, jsonMapping("Expected JSON object, received " + j.text())
	}
	return o, nil
}

// field returns a part of an object, which must be there.
func (j jacksonValue) field(name string) (jacksonValue, error) {
	o, err := j.object()
	if err != nil {
		return jacksonValue{}, err
	}
	v, ok := o[name]
	if !ok {
		return jacksonValue{}, jsonMapping("No such field exists: `" + name + "`")
	}
	return jacksonValue{v}, nil
}

// array returns the parts of a list; kind is what the complaint calls it.
func (j jacksonValue) array(kind string) ([]jacksonValue, error) {
	list, ok := j.v.([]any)
	if !ok {
		return nil, jsonMapping("Expected " + kind + ", received " + j.text())
	}
	all := make([]jacksonValue, len(list))
	for i, v := range list {
		all[i].v = v
	}
	return all, nil
}

// What complaints call a list, depending on how it is asked for.
const (
	jacksonArray  = "JSON array"
	jacksonListOf = "`JSON array` value"
)

func (j jacksonValue) str() (string, error) {
	s, ok := j.v.(string)
	if !ok {
		return "", jsonMapping("Expected `String` value, received " + j.text())
	}
	return s, nil
}

func (j jacksonValue) int32() (int32, error) {
	n, err := jsonInt(j.v, "Integer", math.MaxInt32)
	return int32(n), err
}

// int32s reads a list of numbers.
func (j jacksonValue) int32s() ([]int32, error) {
	list, err := j.array(jacksonListOf)
	if err != nil {
		return nil, err
	}
	all := make([]int32, len(list))
	for i, v := range list {
		if all[i], err = v.int32(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// strs reads a list of texts.
func (j jacksonValue) strs() ([]string, error) {
	list, err := j.array(jacksonListOf)
	if err != nil {
		return nil, err
	}
	all := make([]string, len(list))
	for i, v := range list {
		if all[i], err = v.str(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// version is the field of that name, 1 if there is none.
func (j jacksonValue) version() (int32, error) {
	o, err := j.object()
	if err != nil {
		return 0, err
	}
	v, ok := o["version"]
	if !ok {
		return 1, nil
	}
	return jacksonValue{v}.int32()
}

// readFileAsString reads a file as Java's Utils do, with their complaint.
func readFileAsString(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", throw("java.io.IOException", "Unable to read file "+path)
	}
	return string(text), nil
}
