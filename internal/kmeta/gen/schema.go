package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// A message is one paragraph of the schema: a record, a control record or a struct.
type message struct {
	kind      string // record, control, struct; an entry's halves are a key and a value
	log       string // of a key or value: offsets, transactions, shares
	number    int
	name      string // as Kafka has it, without "Record"
	doc       []string
	low, high int
	steps     []step // which metadata.version a version is written from
	lowest    bool
	flexible  int // the first version that is flexible
	fields    []*field
}

// never is the flexible version of what is not flexible at any.
const never = 1 << 15

// A step says from which level of metadata.version on a version is written.
type step struct{ version, level int }

// A field is one line of a message.
type field struct {
	name     string // as Kafka has it
	typ      string // of an element, if array
	array    bool
	strct    *message // what typ names, if it is a struct
	nullable bool
	since    int
	until    int // the last version that has it; 0: the highest
	tag      int // -1: none
	def      string
	doc      string
}

// parse reads a schema. Errors name the line.
func parse(src string) ([]*message, error) {
	var (
		messages []*message
		structs  = map[string]*message{}
		doc      []string
		open     *message
		key      *message // the other half of an entry that is open
	)
	for n, line := range strings.Split(src, "\n") {
		fail := func(format string, args ...any) error {
			return fmt.Errorf("line %d: %s", n+1, fmt.Sprintf(format, args...))
		}
		text, comment, commented := strings.Cut(line, "#")
		comment = strings.TrimSpace(comment)
		words := strings.Fields(text)
		switch {
		case len(words) == 0 && commented:
			doc = append(doc, comment)
		case len(words) == 0:
			doc, open = nil, nil
		case !strings.HasPrefix(line, "\t"):
			m, err := parseHead(words)
			if err != nil {
				return nil, fail("%v", err)
			}
			m.doc, doc, open = doc, nil, m
			if m.kind == "value" {
				key = &message{kind: "key", log: m.log, number: m.number, name: m.name, flexible: never}
				messages = append(messages, key)
			}
			messages = append(messages, m)
			if m.kind == "struct" {
				structs[m.name] = m
			}
		case open == nil:
			return nil, fail("a field outside of a paragraph")
		default:
			to := open
			if words[0] == "key" && open.kind == "value" {
				words, to = words[1:], key
			}
			f, err := parseField(words, structs)
			if err != nil {
				return nil, fail("%v", err)
			}
			f.doc = comment
			to.fields = append(to.fields, f)
		}
	}
	return messages, nil
}

// logs has the Go constants of the logs that entries are of.
var logs = map[string]string{"offsets": "OffsetsLog", "transactions": "TransactionsLog", "shares": "SharesLog"}

func parseHead(words []string) (*message, error) {
	m := &message{kind: words[0]}
	switch {
	case m.kind == "struct" && (len(words) == 2 || len(words) == 4 && words[2] == "flexible"):
		m.name = words[1]
		if len(words) == 4 {
			return m, m.setFlexible(words[3])
		}
		return m, nil
	case m.kind == "entry" && len(words) >= 6 && words[4] == "versions" && logs[words[1]] != "":
		m.kind, m.log = "value", words[1]
		words = words[1:] // from here on as a record
	case (m.kind == "record" || m.kind == "control") && len(words) >= 5 && words[3] == "versions":
	default:
		return nil, fmt.Errorf("%q begins no paragraph", strings.Join(words, " "))
	}
	m.name = words[2]
	var err error
	if m.number, err = strconv.Atoi(words[1]); err != nil {
		return nil, err
	}
	if _, err = fmt.Sscanf(words[4], "%d-%d", &m.low, &m.high); err != nil {
		return nil, fmt.Errorf("versions %q: %w", words[4], err)
	}
	at, flexible := false, false
	for _, w := range words[5:] {
		switch {
		case m.kind == "value" && w == "flexible":
			flexible = true
		case flexible:
			if err = m.setFlexible(w); err != nil {
				return nil, err
			}
			flexible = false
		case w == "at":
			at = true
		case w == "lowest":
			m.lowest = true
		case at:
			var s step
			if _, err := fmt.Sscanf(w, "%d:%d", &s.version, &s.level); err != nil {
				return nil, fmt.Errorf("step %q: %w", w, err)
			}
			m.steps = append(m.steps, s)
		default:
			return nil, fmt.Errorf("%q is not known here", w)
		}
	}
	return m, nil
}

func (m *message) setFlexible(since string) (err error) {
	if since == "never" {
		m.flexible = never
		return nil
	}
	m.flexible, err = strconv.Atoi(since)
	return err
}

func parseField(words []string, structs map[string]*message) (*field, error) {
	if len(words) < 2 {
		return nil, fmt.Errorf("%q needs a type", words[0])
	}
	f := &field{name: words[0], tag: -1}
	f.typ, f.array = strings.CutPrefix(words[1], "[]")
	f.strct = structs[f.typ]
	if _, ok := scalars[f.typ]; !ok && f.strct == nil && f.typ != "version" || f.array && f.typ == "bytes" {
		return nil, fmt.Errorf("no type %q", words[1])
	}
	for rest := words[2:]; len(rest) > 0; {
		if rest[0] == "nullable" {
			f.nullable, rest = true, rest[1:]
			continue
		}
		if len(rest) == 1 {
			return nil, fmt.Errorf("%q needs a value", rest[0])
		}
		n, err := strconv.Atoi(rest[1])
		if err != nil {
			return nil, err
		}
		switch rest[0] {
		case "since":
			f.since = n
		case "until":
			f.until = n
		case "tag":
			f.tag = n
		case "default":
			f.def = rest[1]
		default:
			return nil, fmt.Errorf("%q is not known here", rest[0])
		}
		rest = rest[2:]
	}
	if f.nullable && !f.array && f.typ != "string" && f.typ != "bytes" && f.strct == nil {
		return nil, fmt.Errorf("a nullable %s has no Go type here", f.typ)
	}
	return f, nil
}

// A scalar is how a type looks in Go: its name, the suffix of the functions that read and write it, its least size on the
// wire where it is flexible and where it is not, and the condition under which %s is not the default.
type scalar struct {
	goType, suffix string
	size, plain    int
	set            string
}

var scalars = map[string]scalar{
	"bool":    {"bool", "Bool", 1, 1, "%s"},
	"int8":    {"int8", "Int8", 1, 1, "%s != 0"},
	"int16":   {"int16", "Int16", 2, 2, "%s != 0"},
	"uint16":  {"uint16", "Uint16", 2, 2, "%s != 0"},
	"int32":   {"int32", "Int32", 4, 4, "%s != 0"},
	"int64":   {"int64", "Int64", 8, 8, "%s != 0"},
	"float64": {"float64", "Float64", 8, 8, "%s != 0"},
	"string":  {"string", "String", 1, 2, `%s != ""`},
	"bytes":   {"[]byte", "Bytes", 1, 4, "len(%s) != 0"},
	"uuid":    {"UUID", "UUID", 16, 16, "%s != (UUID{})"},
}

// goType is the type of the Go field.
func (f *field) goType() string {
	t := f.typ
	if s, ok := scalars[t]; ok {
		t = s.goType
	}
	switch {
	case f.array:
		return "[]" + t
	case f.nullable && f.typ != "bytes":
		return "*" + t
	}
	return t
}

// set is the Go condition under which the field says something, that is, is not its default.
func (f *field) set(x string) string {
	switch {
	case f.nullable:
		return x + " != nil"
	case f.array:
		return "len(" + x + ") != 0"
	case f.def != "":
		return x + " != " + f.def
	}
	return fmt.Sprintf(scalars[f.typ].set, x)
}

// leastSize is the fewest bytes that a value takes on the wire.
func (m *message) leastSize(flexible bool) int {
	n := 0
	if flexible {
		n++ // the tagged section
	}
	for _, f := range m.fields {
		switch {
		case f.tag >= 0 || f.since > 0 || f.until > 0:
		case f.array && flexible, f.strct != nil && f.nullable:
			n++
		case f.array:
			n += 4
		case f.strct != nil:
			n += f.strct.leastSize(flexible)
		default:
			n += scalars[f.typ].least(flexible)
		}
	}
	return n
}

func (s scalar) least(flexible bool) int {
	if flexible {
		return s.size
	}
	return s.plain
}

// goName is a field's name in Go, whose initialisms are upper case.
func goName(kafka string) string {
	words := splitWords(kafka)
	for i, w := range words {
		switch w {
		case "Id", "Isr", "Elr", "Zk":
			words[i] = strings.ToUpper(w)
		case "Ids":
			words[i] = "IDs"
		}
	}
	return strings.Join(words, "")
}

// jsonName is a field's name in the JSON form.
func jsonName(kafka string) string { return strings.ToLower(kafka[:1]) + kafka[1:] }

// constant is Kafka's name of a record type, such as NO_OP_RECORD.
func constant(kafka string) string {
	return strings.ToUpper(strings.Join(splitWords(kafka), "_")) + "_RECORD"
}

// splitWords cuts before each upper case letter.
func splitWords(s string) (words []string) {
	for i, r := range s {
		if unicode.IsUpper(r) || i == 0 {
			words = append(words, "")
		}
		words[len(words)-1] += string(r)
	}
	return words
}
