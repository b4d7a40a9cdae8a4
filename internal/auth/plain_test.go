package auth

import (
	"strings"
	"testing"
)

func TestPlain(t *testing.T) {
	p := NewPlain(map[string]string{"alice": "alice-secret", "ünï": "pä\"ss"})
	const wrong = "Authentication failed: Invalid username or password"
	for _, q := range []struct{ token, user, message string }{
		{"\x00alice\x00alice-secret", "alice", ""},
		{"alice\x00alice\x00alice-secret", "alice", ""},
		{"\x00ünï\x00pä\"ss", "ünï", ""},
		{"\x00alice\x00alice-secreT", "", wrong},
		{"\x00alice\x00alice-secret ", "", wrong},
		{"\x00mallory\x00alice-secret", "", wrong},
		{"bob\x00mallory\x00x", "", wrong},
		{"bob\x00alice\x00alice-secret", "", "Authentication failed: Client requested an authorization id that is different from username"},
		{"", "", invalidCredentials("PLAIN")},
		{"alice\x00alice-secret", "", invalidCredentials("PLAIN")},
		{"\x00alice\x00", "", invalidCredentials("PLAIN")},
		{"\x00\x00alice-secret", "", invalidCredentials("PLAIN")},
		{"\x00alice\x00alice-secret\x00", "", invalidCredentials("PLAIN")},
		{"\x00alice\x00\xff", "", invalidCredentials("PLAIN")},
	} {
		e := p.Begin()
		answer, done, err := e.Step([]byte(q.token))
		var message string
		if err != nil {
			message = err.(*Failure).Message
		}
		if message != q.message || e.User() != q.user || done != (q.message == "") || len(answer) > 0 {
			t.Errorf("%q: user %q, done %v, %q; want %q, %q", q.token, e.User(), done, message, q.user, q.message)
		}
		if err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "mallory")) {
			t.Errorf("%q: the reason tells: %v", q.token, err)
		}
		if _, again, err := e.Step([]byte("\x00alice\x00alice-secret")); err == nil || again { // keeps I1
			t.Errorf("%q: a second token was taken", q.token)
		}
	}
}

// Digests of unknown users are zeros: nobody may find a password for them.
func TestPlainWithoutUsers(t *testing.T) {
	if _, done, err := NewPlain(nil).Begin().Step([]byte("\x00a\x00b")); done || err == nil {
		t.Error("a PLAIN without users let somebody in")
	}
}
