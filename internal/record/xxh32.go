package record

import (
	"encoding/binary"
	"math/bits"
)

// xxh32 is the checksum of lz4 frames, with seed 0. Four lanes take 4 bytes each of every stripe of 16:
//
//	lane = rotl(lane + word*prime2, 13) * prime1
//
// and at the end they are joined, the rest of the bytes mixed in, and the bits spread.
type xxh32 struct {
	lanes [4]uint32
	rest  [16]byte
	n     int // bytes in rest
	total uint32
}

const (
	xxhPrime1 uint32 = 0x9e3779b1
	xxhPrime2 uint32 = 0x85ebca77
	xxhPrime3 uint32 = 0xc2b2ae3d
	xxhPrime4 uint32 = 0x27d4eb2f
	xxhPrime5 uint32 = 0x165667b1
)

func (x *xxh32) reset() {
	p1, p2 := xxhPrime1, xxhPrime2 // variables, since these sums wrap
	*x = xxh32{lanes: [4]uint32{p1 + p2, p2, 0, -p1}}
}

func (x *xxh32) write(p []byte) {
	x.total += uint32(len(p))
	if x.n > 0 {
		n := copy(x.rest[x.n:], p)
		x.n += n
		p = p[n:]
		if x.n < len(x.rest) {
			return
		}
		x.stripes(x.rest[:])
	}
	whole := len(p) &^ 15
	x.stripes(p[:whole])
	x.n = copy(x.rest[:], p[whole:])
}

func (x *xxh32) stripes(p []byte) {
	a, b, c, d := x.lanes[0], x.lanes[1], x.lanes[2], x.lanes[3]
	for ; len(p) >= 16; p = p[16:] {
		a = bits.RotateLeft32(a+binary.LittleEndian.Uint32(p)*xxhPrime2, 13) * xxhPrime1
		b = bits.RotateLeft32(b+binary.LittleEndian.Uint32(p[4:])*xxhPrime2, 13) * xxhPrime1
		c = bits.RotateLeft32(c+binary.LittleEndian.Uint32(p[8:])*xxhPrime2, 13) * xxhPrime1
		d = bits.RotateLeft32(d+binary.LittleEndian.Uint32(p[12:])*xxhPrime2, 13) * xxhPrime1
	}
	x.lanes = [4]uint32{a, b, c, d}
}

func (x *xxh32) sum() uint32 {
	h := x.lanes[2] + xxhPrime5 // of less than a stripe: the seed
	if x.total >= 16 {
		h = bits.RotateLeft32(x.lanes[0], 1) + bits.RotateLeft32(x.lanes[1], 7) +
			bits.RotateLeft32(x.lanes[2], 12) + bits.RotateLeft32(x.lanes[3], 18)
	}
	h += x.total
	p := x.rest[:x.n]
	for ; len(p) >= 4; p = p[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(p)*xxhPrime3, 17) * xxhPrime4
	}
	for _, c := range p {
		h = bits.RotateLeft32(h+uint32(c)*xxhPrime5, 11) * xxhPrime1
	}
	h = (h ^ h>>15) * xxhPrime2
	h = (h ^ h>>13) * xxhPrime3
	return h ^ h>>16
}

func sumXXH32(p []byte) uint32 {
	var x xxh32
	x.reset()
	x.write(p)
	return x.sum()
}
