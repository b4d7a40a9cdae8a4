package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"hash"
	"strconv"
)

// Bounds of a credential's iterations, Kafka's.
const (
	IterationsMin = 4096
	IterationsMax = 16384
)

// A ScramHash is the hash function of a SCRAM mechanism.
type ScramHash struct {
	Name   string // of the mechanism
	Number int8   // of the mechanism in Kafka's requests and records
	Size   int    // of the hash and of every key, in bytes
	New    func() hash.Hash
}

// The two SCRAM mechanisms of Kafka.
var (
	ScramSHA256 = &ScramHash{Name: "SCRAM-SHA-256", Number: 1, Size: sha256.Size, New: sha256.New}
	ScramSHA512 = &ScramHash{Name: "SCRAM-SHA-512", Number: 2, Size: sha512.Size, New: sha512.New}
)

// ScramByNumber returns nil for a number of no mechanism.
func ScramByNumber(n int8) *ScramHash {
	for _, h := range []*ScramHash{ScramSHA256, ScramSHA512} {
		if h.Number == n {
			return h
		}
	}
	return nil
}

// Keys are what a server keeps of a password that was salted and iterated: enough to check a client's proof and to prove
// itself, but not to log in.
func (h *ScramHash) Keys(saltedPassword []byte) (storedKey, serverKey []byte) {
	return h.digest(h.mac(saltedPassword, "Client Key")), h.mac(saltedPassword, "Server Key")
}

func (h *ScramHash) mac(key []byte, text string) []byte {
	m := hmac.New(h.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}

func (h *ScramHash) digest(b []byte) []byte {
	d := h.New()
	d.Write(b)
	return d.Sum(nil)
}

// A Credential is what is kept of a user's password.
type Credential struct {
	Salt, StoredKey, ServerKey []byte
	Iterations                 int32
}

// Scram is a SCRAM mechanism of RFC 5802 and RFC 7677, without channel binding: neither side sends the password, each
// proves that it knows what follows from it.
//
//	client  n,,n=USER,r=NONCE
//	server  r=NONCE+MORE,s=SALT,i=ITERATIONS
//	client  c=biws,r=NONCE+MORE,p=PROOF
//	server  v=SIGNATURE
//
// Names are compared as they are sent, without SASLprep, as in Kafka.
type Scram struct {
	hash   *ScramHash
	lookup func(user string) (Credential, bool)
	nonce  func() string
	// secret is what challenges of unknown users are made from: the same user gets the same salt until the server is
	// started again, as a known one would. keeps I2
	secret []byte
}

// NewScram makes a SCRAM that asks lookup for the credentials of users, at each login.
func NewScram(h *ScramHash, lookup func(user string) (Credential, bool)) *Scram {
	s := &Scram{hash: h, lookup: lookup, nonce: rand.Text, secret: make([]byte, 32)}
	rand.Read(s.secret)
	return s
}

func (s *Scram) Name() string    { return s.hash.Name }
func (s *Scram) Begin() Exchange { return &scramExchange{scram: s} }

// unknownSaltSize is as long as the salts that Kafka's tools make.
const unknownSaltSize = 26

// credential returns a user's, or one like it that no proof fits. Extensions may say that the name is a delegation token's: there are none.
func (s *Scram) credential(m *scramFirst) (c Credential, known bool) {
	if !m.tokenAuth {
		if c, known = s.lookup(m.user); known {
			return c, true
		}
	}
	return Credential{
		Salt:       ScramSHA256.mac(s.secret, s.hash.Name+" "+m.user)[:unknownSaltSize],
		StoredKey:  make([]byte, s.hash.Size),
		ServerKey:  make([]byte, s.hash.Size),
		Iterations: IterationsMin,
	}, false
}

type scramExchange struct {
	scram *Scram
	step  int8
	done  bool

	first      *scramFirst
	credential Credential
	known      bool
	nonce      string // both parts
	challenge  string
}

func (e *scramExchange) User() string {
	if !e.done {
		return ""
	}
	return e.first.user
}

func (e *scramExchange) Step(token []byte) (answer []byte, done bool, err error) {
	e.step++
	var reason string
	switch e.step {
	case 1:
		answer, reason = e.challengeOf(token)
	case 2:
		answer, reason = e.verify(token)
		e.done = reason == ""
	default:
		reason = reasonOver
	}
	if reason != "" {
		e.step = 2 // nothing follows a failure. keeps I1
		return nil, false, malformed(e.scram.hash.Name, reason)
	}
	return answer, e.done, nil
}

func (e *scramExchange) challengeOf(token []byte) (answer []byte, reason string) {
	if e.first, reason = parseScramFirst(string(token)); reason != "" {
		return nil, reason
	}
	e.credential, e.known = e.scram.credential(e.first)
	e.nonce = e.first.nonce + e.scram.nonce()
	e.challenge = "r=" + e.nonce + ",s=" + base64.StdEncoding.EncodeToString(e.credential.Salt) + ",i=" + strconv.Itoa(int(e.credential.Iterations))
	return []byte(e.challenge), ""
}

func (e *scramExchange) verify(token []byte) (answer []byte, reason string) {
	m, reason := parseScramFinal(string(token))
	switch {
	case reason != "":
		return nil, reason
	case m.binding != base64.StdEncoding.EncodeToString([]byte(e.first.header)):
		return nil, "the last message repeats another header than the first one had"
	case m.nonce != e.nonce:
		return nil, "the last message has another nonce"
	}
	// The proof is the client's key under a pad that only who knows the stored key can take off.
	h := e.scram.hash
	conversation := e.first.bare + "," + e.challenge + "," + m.withoutProof
	clientKey := make([]byte, h.Size)
	fits := subtle.ConstantTimeEq(int32(len(m.proof)), int32(h.Size))
	if fits == 1 {
		subtle.XORBytes(clientKey, m.proof, h.mac(e.credential.StoredKey, conversation))
	}
	fits &= subtle.ConstantTimeCompare(h.digest(clientKey), e.credential.StoredKey)
	if fits != 1 || !e.known {
		return nil, "wrong user or password"
	}
	signature := h.mac(e.credential.ServerKey, conversation)
	return []byte("v=" + base64.StdEncoding.EncodeToString(signature)), ""
}
