package auth

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// A scramFirst is a client's first message: a header of GS2, then the part that proofs cover.
//
//	n,a=AUTHZID,n=USER,r=NONCE,EXTENSIONS
//	header      bare
type scramFirst struct {
	header    string
	bare      string
	user      string
	nonce     string
	tokenAuth bool // by an extension of Kafka's, the user is the id of a delegation token
}

// parseScramFirst returns why the message is none, or "". Unknown extensions are passed over, but for the mandatory m=.
func parseScramFirst(s string) (_ *scramFirst, reason string) {
	if !utf8.ValidString(s) {
		return nil, "the first message is not UTF-8"
	}
	flag, rest, _ := strings.Cut(s, ",")
	switch {
	case strings.HasPrefix(flag, "p="):
		return nil, "the client asks for channel binding, which is not offered"
	case flag != "n" && flag != "y":
		return nil, "the first message has no header"
	}
	authzid, bare, ok := strings.Cut(rest, ",")
	if !ok {
		return nil, "the first message has no header"
	}
	m := &scramFirst{header: s[:len(s)-len(bare)], bare: bare}
	parts := strings.Split(bare, ",")
	name, isName := strings.CutPrefix(parts[0], "n=")
	if strings.HasPrefix(parts[0], "m=") {
		return nil, "the client demands an extension that is not known"
	}
	if m.user, ok = unescapeName(name); !isName || !ok || m.user == "" {
		return nil, "the first message names no user"
	}
	if len(parts) < 2 {
		return nil, "the first message has no nonce"
	}
	if m.nonce, ok = strings.CutPrefix(parts[1], "r="); !ok || !printable(m.nonce) {
		return nil, "the first message has no nonce"
	}
	for _, extension := range parts[2:] {
		key, value, ok := strings.Cut(extension, "=")
		if !ok || key == "" {
			return nil, "an extension of the first message has no value"
		}
		m.tokenAuth = m.tokenAuth || key == "tokenauth" && value == "true"
	}
	if authzid != "" {
		as, ok := strings.CutPrefix(authzid, "a=")
		if as, ok2 := unescapeName(as); !ok || !ok2 || as != m.user {
			return nil, "the client wants to act as another user"
		}
	}
	return m, ""
}

// A scramFinal is a client's last message.
type scramFinal struct {
	binding      string // the header of the first message, in base64
	nonce        string
	proof        []byte
	withoutProof string
}

func parseScramFinal(s string) (m scramFinal, reason string) {
	at := strings.LastIndex(s, ",p=")
	if at < 0 {
		return m, "the last message has no proof"
	}
	var err error
	proof := s[at+len(",p="):]
	if m.proof, err = base64.StdEncoding.Strict().DecodeString(proof); err != nil || strings.ContainsAny(proof, "\r\n") {
		return m, "the proof is not base64"
	}
	m.withoutProof = s[:at]
	parts := strings.Split(m.withoutProof, ",")
	var ok bool
	if m.binding, ok = strings.CutPrefix(parts[0], "c="); !ok {
		return m, "the last message does not repeat the header"
	}
	if len(parts) < 2 {
		return m, "the last message has no nonce"
	}
	if m.nonce, ok = strings.CutPrefix(parts[1], "r="); !ok {
		return m, "the last message has no nonce"
	}
	return m, ""
}

// unescapeName reads a name in which =2C stands for a comma and =3D for an equals sign.
func unescapeName(s string) (name string, ok bool) {
	var b strings.Builder
	for {
		plain, rest, escaped := strings.Cut(s, "=")
		b.WriteString(plain)
		switch {
		case !escaped:
			return b.String(), true
		case strings.HasPrefix(rest, "2C"):
			b.WriteByte(',')
		case strings.HasPrefix(rest, "3D"):
			b.WriteByte('=')
		default:
			return "", false
		}
		s = rest[2:]
	}
}

// printable tells whether a nonce has nothing but visible ASCII, and something.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return s != ""
}
