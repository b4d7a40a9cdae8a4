package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"strings"
	"unicode/utf8"
)

// Plain is the mechanism PLAIN of RFC 4616: the password itself is sent, in the one token that there is.
//
//	+---------+-----+------+-----+----------+   authzid  whom to act as: nobody, or the user itself
//	| authzid | NUL | user | NUL | password |
//	+---------+-----+------+-----+----------+   The answer is empty.
type Plain struct {
	users map[string][sha256.Size]byte // digests of passwords, so that comparing them takes the same time for any two
}

const plainName = "PLAIN"

// NewPlain makes a PLAIN that knows users by their passwords.
func NewPlain(users map[string]string) *Plain {
	p := &Plain{users: make(map[string][sha256.Size]byte, len(users))}
	for user, password := range users {
		p.users[user] = sha256.Sum256([]byte(password))
	}
	return p
}

func (*Plain) Name() string      { return plainName }
func (p *Plain) Begin() Exchange { return &plainExchange{plain: p} }

type plainExchange struct {
	plain *Plain
	over  bool
	user  string // "": not logged in
}

func (e *plainExchange) User() string { return e.user }

func (e *plainExchange) Step(token []byte) (answer []byte, done bool, err error) {
	if e.over {
		return nil, false, malformed(plainName, reasonOver)
	}
	e.over = true
	parts := strings.Split(string(token), "\x00")
	switch {
	case !utf8.Valid(token):
		return nil, false, malformed(plainName, "the token is not UTF-8")
	case len(parts) != 3:
		return nil, false, malformed(plainName, "the token does not have three parts")
	case parts[1] == "":
		return nil, false, malformed(plainName, "no user is named")
	case parts[2] == "":
		return nil, false, malformed(plainName, "no password is given")
	}
	authzid, user, digest := parts[0], parts[1], sha256.Sum256([]byte(parts[2]))
	want, known := e.plain.users[user] // of an unknown user zeros, no password's digest; compared all the same. keeps I2
	if equal := subtle.ConstantTimeCompare(digest[:], want[:]) == 1; !equal || !known {
		return nil, false, &Failure{"Authentication failed: Invalid username or password", "PLAIN: wrong user or password"}
	}
	if authzid != "" && authzid != user {
		return nil, false, &Failure{"Authentication failed: Client requested an authorization id that is different from username",
			"PLAIN: the client wants to act as another user"}
	}
	e.user = user
	return []byte{}, true, nil
}
