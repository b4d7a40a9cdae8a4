package storage

import (
	"encoding/binary"
	"math/bits"
)

// A sipKey is the secret of a SipHash-2-4 with a result of 128 bits: a pseudorandom function, so that whoever does not know the
// key cannot make two inputs that collide. The offset map needs that: a collision there drops somebody's record.
type sipKey struct{ k0, k1 uint64 }

type sipState struct{ v0, v1, v2, v3 uint64 }

func (s *sipState) round() {
	s.v0 += s.v1
	s.v2 += s.v3
	s.v1 = bits.RotateLeft64(s.v1, 13) ^ s.v0
	s.v3 = bits.RotateLeft64(s.v3, 16) ^ s.v2
	s.v0 = bits.RotateLeft64(s.v0, 32)
	s.v2 += s.v1
	s.v0 += s.v3
	s.v1 = bits.RotateLeft64(s.v1, 17) ^ s.v2
	s.v3 = bits.RotateLeft64(s.v3, 21) ^ s.v0
	s.v2 = bits.RotateLeft64(s.v2, 32)
}

func (s *sipState) word(m uint64) {
	s.v3 ^= m
	s.round()
	s.round()
	s.v0 ^= m
}

// hash is the 128 bits of p, the first half first.
func (k sipKey) hash(p []byte) (lo, hi uint64) {
	s := sipState{k.k0 ^ 0x736f6d6570736575, k.k1 ^ 0x646f72616e646f6d ^ 0xee, k.k0 ^ 0x6c7967656e657261, k.k1 ^ 0x7465646279746573}
	last := uint64(len(p)) << 56
	for ; len(p) >= 8; p = p[8:] {
		s.word(binary.LittleEndian.Uint64(p))
	}
	for i, c := range p {
		last |= uint64(c) << (8 * i)
	}
	s.word(last)
	s.v2 ^= 0xee
	for range 4 {
		s.round()
	}
	lo = s.v0 ^ s.v1 ^ s.v2 ^ s.v3
	s.v1 ^= 0xdd
	for range 4 {
		s.round()
	}
	return lo, s.v0 ^ s.v1 ^ s.v2 ^ s.v3
}
