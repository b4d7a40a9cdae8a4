package auth

import (
	"maps"
	"strings"
	"testing"
)

func TestParseJAAS(t *testing.T) {
	for _, q := range []struct {
		text, class string
		options     map[string]string
	}{
		{"a.b.C required;", "a.b.C", map[string]string{}},
		{" a.b.C\n\tREQUIRED  k=v ; ", "a.b.C", map[string]string{"k": "v"}},
		{`a.b.C optional user_alice="alice-secret" user_bob='b"o\'b';`, "a.b.C", map[string]string{"user_alice": "alice-secret", "user_bob": `b"o'b`}},
		{`a.B sufficient k="a;b=c // d" /* e; */ l=m // n` + "\n;", "a.B", map[string]string{"k": "a;b=c // d", "l": "m"}},
		{`a.B requisite k="\101\60\t\\\z\7" "l m"=1;`, "a.B", map[string]string{"k": "A0\t\\z\a", "l m": "1"}},
		{`a.B required k="" user_a@b.c-d_e$="ä";`, "a.B", map[string]string{"k": "", "user_a@b.c-d_e$": "ä"}},
	} {
		m, err := ParseJAAS(q.text)
		if err != nil || m.Class != q.class || !maps.Equal(m.Options, q.options) {
			t.Errorf("%s: %+v, %v", q.text, m, err)
		}
	}
}

// keeps I4: errors say where, and nothing of what stands there.
func TestParseJAASErrors(t *testing.T) {
	for _, q := range []struct {
		text   string
		column int
		want   string
	}{
		{"", 1, "class is expected"},
		{";", 1, "class is expected"},
		{"a.B", 4, "required"},
		{"a.B needed;", 5, "required"},
		{"a.B required", 13, "semicolon"},
		{"a.B required k=hunter2", 23, "semicolon"},
		{"a.B required hunter2;", 21, "equals sign"},
		{"a.B required k=;", 16, "value"},
		{"a.B required k==hunter2;", 16, "value"},
		{"a.B required =hunter2;", 14, "key"},
		{`a.B required k="hunter2;`, 16, "quote"},
		{`a.B required k="hunter2\`, 16, "quote"},
		{"a.B required k=\"hun\nter2\";", 16, "quote"},
		{"a.B required k=hunter2!;", 23, "quotes"},
		{"a.B required k=a k=hunter2;", 18, "twice"},
		{"a.B required; c.D required k=hunter2;", 15, "one login module"},
		{"a.B required /* k=hunter2;", 14, "comment"},
	} {
		_, err := ParseJAAS(q.text)
		je, ok := err.(*JAASError)
		if !ok {
			t.Errorf("%q: %v", q.text, err)
			continue
		}
		if je.Column != q.column || !strings.Contains(err.Error(), q.want) || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%q: %v, want column %d and %q", q.text, err, q.column, q.want)
		}
	}
}

func TestPlainUsers(t *testing.T) {
	const head = "org.apache.kafka.common.security.plain.PlainLoginModule required "
	users, err := PlainUsers(head + `username="admin" password="x" user_alice="alice-secret" user_bob="b";`)
	if want := map[string]string{"alice": "alice-secret", "bob": "b"}; err != nil || !maps.Equal(users, want) {
		t.Errorf("%v, %v", users, err)
	}
	for text, want := range map[string]string{
		head + `user_="x";`:          "names no user",
		head + `user_alice="";`:      "empty password",
		`a.B required user_a="x";`:   "PlainLoginModule",
		head + `user_alice="hunter2`: "column",
	} {
		if _, err := PlainUsers(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := CheckScramJAAS("org.apache.kafka.common.security.scram.ScramLoginModule required;"); err != nil {
		t.Error(err)
	}
	if err := CheckScramJAAS(head + ";"); err == nil || !strings.Contains(err.Error(), "ScramLoginModule") {
		t.Errorf("PLAIN's module for SCRAM: %v", err)
	}
}

func FuzzParseJAAS(f *testing.F) {
	f.Add(`org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice-secret" user_bob='b\101' /* c */;`)
	f.Add("a.B optional k=v // c\n;")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseJAAS(text)
		if err != nil {
			if je, ok := err.(*JAASError); !ok || je.Column < 1 || je.Column > len(text)+1 {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		// Written anew, everything in quotes, it says the same.
		quote := func(s string) string {
			return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`).Replace(s) + `"`
		}
		again := m.Class + " required"
		for k, v := range m.Options {
			again += " " + quote(k) + "=" + quote(v)
		}
		if b, err := ParseJAAS(again + ";"); err != nil || b.Class != m.Class || !maps.Equal(b.Options, m.Options) {
			t.Fatalf("%q: %q: %+v, %v", text, again, b, err)
		}
	})
}
