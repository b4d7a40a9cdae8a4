package storage

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
)

// reservedIDs is how many of the smallest ids have a meaning of their own, or may get one: no random id is among them.
const reservedIDs = 100

func (id TopicID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// ParseTopicID reads an id's text.
func ParseTopicID(s string) (TopicID, error) {
	var id TopicID
	if len(s) != base64.RawURLEncoding.EncodedLen(len(id)) {
		return TopicID{}, fmt.Errorf("id %.40q has %d characters, want 22", s, len(s))
	}
	// Not strict: Java's decoder, too, passes over the last character's four spare bits.
	n, err := base64.RawURLEncoding.Decode(id[:], []byte(s))
	if err == nil && n != len(id) { // the decoder skips line ends
		err = errors.New("line end within")
	}
	if err != nil {
		return TopicID{}, fmt.Errorf("id %q: %w", s, err)
	}
	return id, nil
}

// RandomID draws an id for a topic or a directory: a version 4 uuid, whose text never begins with a dash, lest a tool take it for an option.
func RandomID() TopicID {
	for {
		var id TopicID
		rand.Read(id[:]) // never fails
		id[6] = id[6]&0x0f | 0x40
		id[8] = id[8]&0x3f | 0x80
		if id.String()[0] != '-' {
			return id
		}
	}
}

// reserved tells whether id is one of those that Kafka keeps for itself.
func (id TopicID) reserved() bool {
	for _, b := range id[:15] {
		if b != 0 {
			return false
		}
	}
	return id[15] < reservedIDs
}
