package kmeta

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
)

// A UUID is a topic, directory or incarnation id.
type UUID [16]byte

// Ids with a meaning. A topic and a directory may share one.
var (
	MetadataTopicID     = UUID{15: 1} // the topic __cluster_metadata
	UnassignedDirectory = UUID{15: 1} // the broker has not said yet where the replica is
	LostDirectory       = UUID{15: 2} // the replica is on a directory that failed
)

// reservedUUIDs is how many ids, counted from zero, Kafka keeps for itself.
const reservedUUIDs = 100

// IsReserved says whether Kafka keeps u for itself: the first hundred ids, read as numbers.
func (u UUID) IsReserved() bool {
	return u[15] < reservedUUIDs && [15]byte(u[:15]) == [15]byte{}
}

// String is 22 characters of unpadded base64url.
func (u UUID) String() string { return base64.RawURLEncoding.EncodeToString(u[:]) }

// ParseUUID reads the text form.
func ParseUUID(s string) (u UUID, err error) {
	if len(s) != 22 {
		return UUID{}, fmt.Errorf("uuid %.40q: %d characters, want 22", s, len(s))
	}
	if _, err := base64.RawURLEncoding.Decode(u[:], []byte(s)); err != nil {
		return UUID{}, fmt.Errorf("uuid %q: %w", s, err)
	}
	return u, nil
}

// RandomUUID draws one that is not reserved and does not begin with '-', which would look like a flag on a command line.
// Like Kafka's it is of version 4.
func RandomUUID() (u UUID) {
	for {
		_, _ = rand.Read(u[:]) // never fails
		u[6] = u[6]&0x0f | 0x40
		u[8] = u[8]&0x3f | 0x80
		if u[0]>>2 != 62 && !u.IsReserved() { // 62 is '-' in base64url
			return u
		}
	}
}
