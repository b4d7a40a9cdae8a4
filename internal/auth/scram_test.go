package auth

import (
	"crypto/pbkdf2"
	"encoding/base64"
	"strings"
	"testing"
)

// user makes a lookup that knows one user.
func user(t testing.TB, h *ScramHash, name, password string, salt []byte, iterations int32) func(string) (Credential, bool) {
	t.Helper()
	salted, err := pbkdf2.Key(h.New, password, salt, int(iterations), h.Size)
	if err != nil {
		t.Fatal(err)
	}
	c := Credential{Salt: salt, Iterations: iterations}
	c.StoredKey, c.ServerKey = h.Keys(salted)
	return func(asked string) (Credential, bool) { return c, asked == name }
}

// The example of RFC 7677, section 3.
const (
	rfcSalt      = "W22ZaJ0SNY7soEsUEjb6gQ=="
	rfcFirst     = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
	rfcMore      = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
	rfcChallenge = "r=rOprNGfwEbeRWgbNEkqO" + rfcMore + ",s=" + rfcSalt + ",i=4096"
	rfcFinal     = "c=biws,r=rOprNGfwEbeRWgbNEkqO" + rfcMore + ",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
	rfcSignature = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
)

func rfcScram(t testing.TB) *Scram {
	salt, _ := base64.StdEncoding.DecodeString(rfcSalt)
	s := NewScram(ScramSHA256, user(t, ScramSHA256, "user", "pencil", salt, 4096))
	s.nonce = func() string { return rfcMore }
	return s
}

func TestScramRFC7677(t *testing.T) {
	e := rfcScram(t).Begin()
	answer, done, err := e.Step([]byte(rfcFirst))
	if string(answer) != rfcChallenge || done || err != nil {
		t.Fatalf("challenge %q, %v, %v; want %q", answer, done, err, rfcChallenge)
	}
	if e.User() != "" {
		t.Errorf("%s is logged in before the proof", e.User())
	}
	answer, done, err = e.Step([]byte(rfcFinal))
	if string(answer) != rfcSignature || !done || err != nil {
		t.Fatalf("signature %q, %v, %v; want %q", answer, done, err, rfcSignature)
	}
	if e.User() != "user" {
		t.Errorf("user %q", e.User())
	}
	if _, done, err := e.Step([]byte(rfcFinal)); done || err == nil {
		t.Error("a proof was taken twice")
	}
}

// Whatever is wrong with the last message, it ends the exchange.
func TestScramProofs(t *testing.T) {
	proof := rfcFinal[strings.Index(rfcFinal, ",p=")+3:]
	raw, _ := base64.StdEncoding.DecodeString(proof)
	for bit := range len(raw) * 8 {
		changed := append([]byte(nil), raw...)
		changed[bit/8] ^= 1 << (bit % 8)
		final := strings.Replace(rfcFinal, proof, base64.StdEncoding.EncodeToString(changed), 1)
		refused(t, rfcScram(t).Begin(), rfcFirst, final)
	}
	for _, final := range []string{
		"", ",p=", "c=biws", strings.Replace(rfcFinal, proof, "", 1), strings.Replace(rfcFinal, proof, "AAAA", 1), strings.Replace(rfcFinal, proof, "*", 1), rfcFinal + "\n",
		strings.Replace(rfcFinal, "VQ=", "VR=", 1),
		strings.Replace(rfcFinal, "c=biws", "c=eSws", 1), strings.Replace(rfcFinal, "c=biws", "d=biws", 1), strings.Replace(rfcFinal, "c=biws,", "", 1),
		strings.Replace(rfcFinal, rfcMore, "", 1), strings.Replace(rfcFinal, "r=r", "r=s", 1), strings.Replace(rfcFinal, ",p=", ",x=1,p=", 1),
	} {
		refused(t, rfcScram(t).Begin(), rfcFirst, final)
	}
}

func refused(t *testing.T, e Exchange, first, final string) {
	t.Helper()
	if _, _, err := e.Step([]byte(first)); err != nil {
		t.Fatal(err)
	}
	answer, done, err := e.Step([]byte(final))
	if err == nil || done || answer != nil || e.User() != "" {
		t.Fatalf("%s: let in", final)
	}
	if m := err.(*Failure).Message; m != "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256" {
		t.Errorf("%s: the client is told %q", final, m)
	}
	if _, done, err := e.Step([]byte(rfcFinal)); err == nil || done { // keeps I1
		t.Errorf("%s: the right proof was taken after it", final)
	}
}

func TestScramFirst(t *testing.T) {
	for _, q := range []struct{ message, user, nonce, reason string }{
		{"n,,n=user,r=abc", "user", "abc", ""},
		{"y,,n=user,r=abc", "user", "abc", ""},
		{"n,a=user,n=user,r=abc", "user", "abc", ""},
		{"n,,n=a=2Cb=3D=2C,r=abc", "a,b=,", "abc", ""},
		{"n,,n=user,r=abc,tokenauth=true", "user", "abc", ""},
		{"n,,n=user,r=abc,x=1,yy=a=b", "user", "abc", ""},
		{"n,,n=ünï,r=a~!", "ünï", "a~!", ""},
		{"", "", "", "header"},
		{"n", "", "", "header"},
		{"n,n=user", "", "", "header"},
		{"p=tls-unique,,n=user,r=abc", "", "", "channel binding"},
		{"x,,n=user,r=abc", "", "", "header"},
		{"n,a=other,n=user,r=abc", "", "", "another user"},
		{"n,other,n=user,r=abc", "", "", "another user"},
		{"n,,m=1,n=user,r=abc", "", "", "demands an extension"},
		{"n,,n=,r=abc", "", "", "names no user"},
		{"n,,n=a=b,r=abc", "", "", "names no user"},
		{"n,,n=a=,r=abc", "", "", "names no user"},
		{"n,,user,r=abc", "", "", "names no user"},
		{"n,,n=user", "", "", "nonce"},
		{"n,,n=user,r=", "", "", "nonce"},
		{"n,,n=user,r=a\x00", "", "", "nonce"},
		{"n,,n=user,s=abc", "", "", "nonce"},
		{"n,,n=user,r=abc,x", "", "", "extension"},
		{"n,,n=user,r=abc,", "", "", "extension"},
		{"n,,n=\xff,r=abc", "", "", "UTF-8"},
	} {
		m, reason := parseScramFirst(q.message)
		switch {
		case q.reason != "":
			if !strings.Contains(reason, q.reason) {
				t.Errorf("%q: %q, want %q", q.message, reason, q.reason)
			}
		case reason != "" || m.user != q.user || m.nonce != q.nonce:
			t.Errorf("%q: %+v, %q", q.message, m, reason)
		case m.header+m.bare != q.message:
			t.Errorf("%q: parts %q and %q", q.message, m.header, m.bare)
		case m.tokenAuth != strings.Contains(q.message, "tokenauth"):
			t.Errorf("%q: token %v", q.message, m.tokenAuth)
		}
	}
}

// keeps I2: an unknown user is challenged as a known one is, the same each time, and fails as late.
func TestScramUnknownUser(t *testing.T) {
	for _, h := range []*ScramHash{ScramSHA256, ScramSHA512} {
		s := NewScram(h, func(string) (Credential, bool) { return Credential{}, false })
		s.nonce = func() string { return "more" }
		challenge := func(name string) string {
			e := s.Begin()
			answer, done, err := e.Step([]byte("n,,n=" + name + ",r=nonce"))
			if err != nil || done {
				t.Fatalf("%s: %v, %v", name, done, err)
			}
			// The keys of nobody are zeros: a proof that fits them is easily made, and must not do.
			final := "c=biws,r=noncemore"
			pad := h.mac(make([]byte, h.Size), "n="+name+",r=nonce,"+string(answer)+","+final)
			for _, proof := range [][]byte{pad, make([]byte, h.Size)} {
				if _, done, err := e.Step([]byte(final + ",p=" + base64.StdEncoding.EncodeToString(proof))); err == nil || done || e.User() != "" {
					t.Errorf("%s: nobody was let in", h.Name)
				}
			}
			return string(answer)
		}
		if a, b := challenge("mallory"), challenge("mallory"); a != b {
			t.Errorf("two challenges of one user: %s, %s", a, b)
		}
		if a, b := challenge("mallory"), challenge("oscar"); a == b {
			t.Errorf("one challenge for two users: %s", a)
		}
	}
}

// A delegation token's id is no user's name.
func TestScramToken(t *testing.T) {
	e := rfcScram(t).Begin()
	answer, _, err := e.Step([]byte(rfcFirst + ",tokenauth=true"))
	if err != nil || strings.Contains(string(answer), rfcSalt) {
		t.Errorf("a token's id was challenged as the user of that name: %s, %v", answer, err)
	}
}

func FuzzScram(f *testing.F) {
	for _, s := range []string{rfcFirst, "n,a=user,n=a=2C,r=x,tokenauth=true", "y,,n=user,r=x,e=f"} {
		f.Add(s, rfcFinal)
	}
	scram := rfcScram(f)
	f.Fuzz(func(t *testing.T, first, final string) {
		e := scram.Begin()
		if _, done, err := e.Step([]byte(first)); err != nil || done {
			if done {
				t.Fatal("let in without a proof")
			}
			return
		}
		if _, done, _ := e.Step([]byte(final)); done && (first != rfcFirst || final != rfcFinal) {
			t.Fatalf("%q, %q: let in", first, final)
		}
	})
}

func FuzzPlain(f *testing.F) {
	f.Add("\x00alice\x00alice-secret")
	p := NewPlain(map[string]string{"alice": "alice-secret"})
	f.Fuzz(func(t *testing.T, token string) {
		_, done, err := p.Begin().Step([]byte(token))
		if done == (err != nil) {
			t.Fatalf("%q: done %v, %v", token, done, err)
		}
		if done && strings.TrimPrefix(token, "alice") != "\x00alice\x00alice-secret" {
			t.Fatalf("%q: let in", token)
		}
	})
}
