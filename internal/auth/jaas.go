package auth

import (
	"fmt"
	"strings"
)

// A LoginModule is the one entry that a value of sasl.jaas.config may hold:
//
//	CLASS FLAG KEY=VALUE KEY="VALUE" … ;
//
// FLAG is required, requisite, sufficient or optional, and makes no difference where there is one entry. A value with anything but
// letters, digits and -_.$ in it stands in quotes, in which a backslash escapes. Comments are those of Java.
type LoginModule struct {
	Class   string
	Options map[string]string
}

// A JAASError says where a JAAS configuration is not one, without a word of what stands there. keeps I4
type JAASError struct {
	Column int // from 1, in bytes
	Reason string
}

func (e *JAASError) Error() string { return fmt.Sprintf("column %d: %s", e.Column, e.Reason) }

// ParseJAAS reads a value of sasl.jaas.config.
func ParseJAAS(text string) (LoginModule, error) {
	p := jaasParser{text: text}
	m := LoginModule{Options: map[string]string{}}
	t, err := p.next()
	switch {
	case err != nil:
		return m, err
	case t.kind != jaasWord:
		return m, t.fault("a login module's class is expected")
	}
	m.Class = t.text
	if t, err = p.next(); err != nil {
		return m, err
	}
	switch flag := strings.ToLower(t.text); {
	case t.kind == jaasWord && (flag == "required" || flag == "requisite" || flag == "sufficient" || flag == "optional"):
	default:
		return m, t.fault("required, requisite, sufficient or optional is expected after the login module's class")
	}
	for {
		if t, err = p.next(); err != nil {
			return m, err
		}
		switch t.kind {
		case jaasSemicolon:
			if t, err = p.next(); err == nil && t.kind != jaasEnd {
				err = t.fault("one login module is expected, but something follows it")
			}
			return m, err
		case jaasEnd:
			return m, t.fault("a semicolon is expected at the end")
		case jaasWord, jaasQuoted:
		default:
			return m, t.fault("the key of an option is expected")
		}
		key := t
		equals, err := p.next()
		if err != nil {
			return m, err
		}
		value, err := p.next()
		switch {
		case err != nil:
			return m, err
		case equals.kind != jaasEquals:
			return m, equals.fault("an equals sign is expected after the key of an option")
		case value.kind != jaasWord && value.kind != jaasQuoted:
			return m, value.fault("the value of an option is expected after the equals sign")
		}
		if _, twice := m.Options[key.text]; twice {
			return m, key.fault("an option is given twice")
		}
		m.Options[key.text] = value.text
	}
}

type jaasKind int8

const (
	jaasEnd jaasKind = iota
	jaasWord
	jaasQuoted
	jaasEquals
	jaasSemicolon
)

type jaasToken struct {
	kind   jaasKind
	text   string
	column int
}

func (t jaasToken) fault(reason string) error { return &JAASError{t.column, reason} }

// A jaasParser cuts text into tokens.
type jaasParser struct {
	text string
	at   int
}

func (p *jaasParser) next() (jaasToken, error) {
	if err := p.skipBlanks(); err != nil {
		return jaasToken{}, err
	}
	t := jaasToken{column: p.at + 1}
	if p.at == len(p.text) {
		return t, nil
	}
	switch c := p.text[p.at]; {
	case c == '=':
		p.at++
		t.kind = jaasEquals
	case c == ';':
		p.at++
		t.kind = jaasSemicolon
	case c == '"' || c == '\'':
		text, ok := p.quoted(c)
		if !ok {
			return t, t.fault("a quote is not closed")
		}
		t.kind, t.text = jaasQuoted, text
	case isWord(c):
		from := p.at
		for p.at < len(p.text) && isWord(p.text[p.at]) {
			p.at++
		}
		t.kind, t.text = jaasWord, p.text[from:p.at]
	default:
		return t, t.fault("a character that must stand in quotes")
	}
	return t, nil
}

func isWord(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c >= 0x80:
		return true
	}
	return strings.IndexByte("-_.$@", c) >= 0
}

// skipBlanks passes over blanks and comments.
func (p *jaasParser) skipBlanks() error {
	for p.at < len(p.text) {
		rest := p.text[p.at:]
		switch {
		case rest[0] <= ' ':
			p.at++
		case strings.HasPrefix(rest, "//"):
			n := strings.IndexByte(rest, '\n')
			if n < 0 {
				n = len(rest)
			}
			p.at += n
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest[2:], "*/")
			if n < 0 {
				return &JAASError{p.at + 1, "a comment is not closed"}
			}
			p.at += 2 + n + 2
		default:
			return nil
		}
	}
	return nil
}

// quoted reads a string in the quotes that p stands at.
func (p *jaasParser) quoted(quote byte) (text string, closed bool) {
	var b strings.Builder
	for p.at++; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; c {
		case quote:
			p.at++
			return b.String(), true
		case '\n', '\r':
			return "", false
		case '\\':
			if p.at++; p.at == len(p.text) {
				return "", false
			}
			b.WriteByte(p.escaped())
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}

// escaped reads what stands behind a backslash, and leaves p at its last byte: a letter of Java's, up to three octal digits, or the byte itself.
func (p *jaasParser) escaped() byte {
	c := p.text[p.at]
	if '0' <= c && c <= '7' {
		n, most := int(c-'0'), 3
		if c > '3' {
			most = 2
		}
		for digits := 1; digits < most && p.at+1 < len(p.text) && '0' <= p.text[p.at+1] && p.text[p.at+1] <= '7'; digits++ {
			p.at++
			n = 8*n + int(p.text[p.at]-'0')
		}
		return byte(n)
	}
	if i := strings.IndexByte("abfnrtv", c); i >= 0 {
		return "\a\b\f\n\r\t\v"[i]
	}
	return c
}

// The login modules that Kafka ships for the mechanisms of this package.
const (
	plainModule = "org.apache.kafka.common.security.plain.PlainLoginModule"
	scramModule = "org.apache.kafka.common.security.scram.ScramLoginModule"
)

// PlainUsers reads PLAIN's users of a listener's sasl.jaas.config: user_NAME="PASSWORD". The other options are for clients.
func PlainUsers(text string) (map[string]string, error) {
	m, err := parseModule(text, plainModule)
	if err != nil {
		return nil, err
	}
	users := map[string]string{}
	for key, value := range m.Options {
		name, ok := strings.CutPrefix(key, "user_")
		switch {
		case !ok:
		case name == "":
			return nil, fmt.Errorf("an option user_ names no user")
		case value == "":
			return nil, fmt.Errorf("user_%s has an empty password, which no client can send", name)
		default:
			users[name] = value
		}
	}
	return users, nil
}

// CheckScramJAAS checks a listener's sasl.jaas.config for a SCRAM mechanism. It has nothing to say: credentials are in the cluster's metadata.
func CheckScramJAAS(text string) error {
	_, err := parseModule(text, scramModule)
	return err
}

func parseModule(text, class string) (LoginModule, error) {
	m, err := ParseJAAS(text)
	if err == nil && m.Class != class {
		err = fmt.Errorf("the login module must be %s: there is no Java to load another", class)
	}
	return m, err
}
