package tools

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/quire-log/quire/internal/kmeta"
)

const scramSince int16 = 11 // 3.5-IV2, as the level of metadata.version

const (
	scramIterationsMin = 4096
	scramIterationsMax = 16384
	scramSaltSize      = 26
)

// parseScram reads a credential such as SCRAM-SHA-256=[name=alice,password=alice-secret].
func parseScram(text string) (*kmeta.UserScramCredentialRecord, error) {
	mechanism, rest, ok := strings.Cut(text, "=")
	if !ok {
		return nil, terse("Failed to find equals sign in SCRAM argument '%s'", text)
	}
	var newHash func() hash.Hash
	r := &kmeta.UserScramCredentialRecord{Iterations: scramIterationsMin}
	switch mechanism {
	case "SCRAM-SHA-256":
		newHash, r.Mechanism = sha256.New, 1
	case "SCRAM-SHA-512":
		newHash, r.Mechanism = sha512.New, 2
	default:
		return nil, terse("The add-scram mechanism %s is not supported.", mechanism)
	}
	if !strings.HasPrefix(rest, "[") {
		return nil, terse("Expected configuration string to start with [")
	}
	if !strings.HasSuffix(rest, "]") {
		return nil, terse("Expected configuration string to end with ]")
	}
	settings := make(map[string]string)
	for pair := range strings.SplitSeq(rest[1:len(rest)-1], ",") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, terse("No equals sign found in SCRAM component: %s", pair)
		}
		if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1]
		}
		settings[key] = value
	}
	take := func(key string) (string, bool) {
		value, ok := settings[key]
		delete(settings, key)
		return value, ok
	}
	if r.Name, ok = take("name"); !ok {
		return nil, terse("You must supply 'name' to add-scram")
	}
	var err error
	salt, saltGiven := take("salt")
	if _, salted := settings["saltedpassword"]; salted && !saltGiven {
		return nil, terse("You must supply 'salt' with 'saltedpassword' to add-scram")
	}
	if saltGiven {
		if r.Salt, err = base64.StdEncoding.DecodeString(salt); err != nil {
			return nil, terse("Failed to decode given salt: %s", salt)
		}
	} else {
		r.Salt = make([]byte, scramSaltSize)
		rand.Read(r.Salt)
	}
	if text, ok := take("iterations"); ok {
		n, err := javaInt(text, 32)
		if err != nil {
			return nil, terse("Failed to parse iterations count: %s", text)
		}
		name := strings.ReplaceAll(mechanism, "-", "_")
		switch {
		case n < scramIterationsMin:
			return nil, terse("The 'iterations' value must be >= %d for add-scram using %s", scramIterationsMin, name)
		case n > scramIterationsMax:
			return nil, terse("The 'iterations' value must be <= %d for add-scram using %s", scramIterationsMax, name)
		}
		r.Iterations = int32(n)
	}
	salted, err := saltedPassword(take, newHash, r)
	if err != nil {
		return nil, err
	}
	if len(settings) > 0 {
		return nil, terse("Unknown SCRAM configurations: %s", strings.Join(slices.Sorted(maps.Keys(settings)), ", "))
	}
	stored := newHash()
	stored.Write(keyed(newHash, salted, "Client Key"))
	r.StoredKey, r.ServerKey = stored.Sum(nil), keyed(newHash, salted, "Server Key")
	return r, nil
}

// saltedPassword is given, or follows from a password.
func saltedPassword(take func(string) (string, bool), newHash func() hash.Hash, r *kmeta.UserScramCredentialRecord) ([]byte, error) {
	password, plain := take("password")
	given, salted := take("saltedpassword")
	switch {
	case plain: // which wins, as in Kafka, should both be there
		key, err := pbkdf2.Key(newHash, password, r.Salt, int(r.Iterations), newHash().Size())
		if err != nil {
			return nil, fmt.Errorf("salting the password with %s iterations: %w", strconv.Itoa(int(r.Iterations)), err)
		}
		return key, nil
	case salted:
		key, err := base64.StdEncoding.DecodeString(given)
		if err != nil {
			return nil, terse("Failed to decode given saltedpassword: %s", given)
		}
		return key, nil
	}
	return nil, terse("You must supply one of 'password' or 'saltedpassword' to add-scram")
}

func keyed(newHash func() hash.Hash, key []byte, text string) []byte {
	mac := hmac.New(newHash, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}
