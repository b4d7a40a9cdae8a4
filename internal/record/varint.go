package record

import "math/bits"

// Numbers inside records are zig-zag varints, as Java reads them: at most 5 bytes for 32 bits and 10 for 64, longer
// encodings than needed are fine, and bits beyond the type's width are dropped. (encoding/binary refuses those, and
// what a broker refuses to read it must not have stored, or the other way round.)

const (
	maxVarint32 = 5
	maxVarint64 = 10
)

// varint32 reads a number from the beginning of b; n is how many bytes it took, 0 when b ends too early or it never ends.
func varint32(b []byte) (v int32, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		u := uint32(b[0])
		return int32(u>>1) ^ -int32(u&1), 1
	}
	return longVarint32(b)
}

// longVarint32 is the part of varint32 that is not worth inlining; two bytes, as lengths mostly have, come first.
func longVarint32(b []byte) (v int32, n int) {
	if len(b) >= 2 && b[0] >= 0x80 && b[1] < 0x80 {
		u := uint32(b[0]&0x7f) | uint32(b[1])<<7
		return int32(u>>1) ^ -int32(u&1), 2
	}
	var u uint32
	for i, c := range b[:min(len(b), maxVarint32)] {
		u |= uint32(c&0x7f) << (7 * i)
		if c < 0x80 {
			return int32(u>>1) ^ -int32(u&1), i + 1
		}
	}
	return 0, 0
}

// varint64 is varint32 for 64 bits.
func varint64(b []byte) (v int64, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		return int64(b[0]>>1) ^ -int64(b[0]&1), 1
	}
	return longVarint64(b)
}

func longVarint64(b []byte) (v int64, n int) {
	var u uint64
	for i, c := range b[:min(len(b), maxVarint64)] {
		u |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			return int64(u>>1) ^ -int64(u&1), i + 1
		}
	}
	return 0, 0
}

// varintSize is how many bytes the shortest encoding of v takes.
func varintSize(v int64) int {
	u := uint64(v<<1) ^ uint64(v>>63)
	return (bits.Len64(u|1) + 6) / 7
}
