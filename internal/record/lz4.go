package record

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/pierrec/lz4/v4"
)

// An lz4 payload is one frame; numbers are little-endian:
//
//	0       4     5    6          14
//	+-------+-----+----+----------+----+--------+-------+----------+-----+---+----------+
//	| magic | FLG | BD | content  | HC | length | block | checksum |  …  | 0 | checksum |
//	|       |     |    | size, 8  |    |        |       | 4        |     | 4 | 4        |
//	+-------+-----+----+----------+----+--------+-------+----------+-----+---+----------+
//
// FLG: bits 6-7 version 1, 5 blocks are independent, 4 block checksums, 3 content size, 2 content checksum, 0-1 zero.
// BD: bits 4-6 the largest block (4: 64 KiB … 7: 4 MiB), the others zero. HC is the second byte of xxh32 over FLG to
// content size. A length's highest bit means that the block is stored as it is. The three optional fields are there if
// FLG says so. We write FLG 0x60 and BD 0x40, as Java does.
//
// Like Kafka we refuse blocks that depend on each other, dictionaries, and whatever is not a frame, and do not look at
// what follows the end mark. Unlike Kafka we compare content size and content checksum, since other clients do.
// Messages of magic 0 carry an HC over the wrong bytes, which therefore is not compared there.
//
// The frame is read and written here and the library asked for blocks alone: its own reader takes more than Kafka's does.
const (
	lz4Magic        = 0x184d2204
	lz4FLG          = 0x60
	lz4BD           = 0x40
	lz4BlockBytes   = 64 << 10
	lz4StoredBit    = 1 << 31
	lz4MinFrame     = 4 + 3
	lz4MaxInflation = 255 // times its own size is the most that a block can inflate to
)

var lz4Inflaters = pool[*lz4Inflater]{new: func() *lz4Inflater { return &lz4Inflater{} }}

type lz4Inflater struct {
	blocks
	src      []byte
	flags    byte
	blockMax int
	left     uint64 // of the content size
	content  xxh32
	done     bool
	anyHC    bool // magic 0
}

func (l *lz4Inflater) has(bit byte) bool { return l.flags&(1<<bit) != 0 }

func (l *lz4Inflater) reset(src []byte) error {
	l.src, l.block, l.done = src, nil, false
	if len(src) < lz4MinFrame || binary.LittleEndian.Uint32(src) != lz4Magic {
		return &FormatError{"lz4: not a frame"}
	}
	l.flags = src[4]
	bd := src[5]
	switch {
	case l.flags>>6 != 1:
		return &FormatError{fmt.Sprintf("lz4: frame version %d", l.flags>>6)}
	case !l.has(5):
		return &FormatError{"lz4: blocks that depend on each other"}
	case l.flags&3 != 0, bd&0x8f != 0, bd>>4 < 4:
		return &FormatError{fmt.Sprintf("lz4: flags %02x, block descriptor %02x", l.flags, bd)}
	}
	l.blockMax = 1 << (8 + 2*(bd>>4))
	at := 6
	if l.has(3) {
		at += 8
		if len(src) < at+1 {
			return &FormatError{"lz4: ends within its header"}
		}
		l.left = binary.LittleEndian.Uint64(src[6:])
	}
	if hc := byte(sumXXH32(src[4:at]) >> 8); !l.anyHC && src[at] != hc {
		return &FormatError{fmt.Sprintf("lz4: header checksum %02x, want %02x", src[at], hc)}
	}
	l.content.reset()
	l.src = src[at+1:]
	return nil
}

func (l *lz4Inflater) Read(p []byte) (int, error) {
	for len(l.block) == 0 {
		if l.done {
			return 0, io.EOF
		}
		if err := l.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, l.block)
	l.block = l.block[n:]
	return n, nil
}

// cut32 takes a number off the front of src.
func (l *lz4Inflater) cut32() (uint32, error) {
	if len(l.src) < 4 {
		return 0, &FormatError{"lz4: ends before its end mark"}
	}
	v := binary.LittleEndian.Uint32(l.src)
	l.src = l.src[4:]
	return v, nil
}

// next inflates the next block, or ends the frame.
func (l *lz4Inflater) next() error {
	word, err := l.cut32()
	if err != nil {
		return err
	}
	if word == 0 {
		return l.end()
	}
	size := int(word &^ lz4StoredBit)
	if size > l.blockMax {
		return &FormatError{fmt.Sprintf("lz4: block of %d bytes, at most %d", size, l.blockMax)}
	}
	if size > len(l.src) {
		return &FormatError{fmt.Sprintf("lz4: block of %d bytes, with %d left", size, len(l.src))}
	}
	block := l.src[:size]
	l.src = l.src[size:]
	if l.has(4) {
		sum, err := l.cut32()
		if err != nil {
			return err
		}
		if got := sumXXH32(block); got != sum {
			return &FormatError{fmt.Sprintf("lz4: block checksum %08x, want %08x", got, sum)}
		}
	}
	l.block = block
	if word&lz4StoredBit == 0 {
		buf := l.room(min(l.blockMax, lz4MaxInflation*size))
		n, err := lz4.UncompressBlock(block, buf)
		if err != nil {
			return &FormatError{fmt.Sprintf("lz4: %v", err)}
		}
		l.block = buf[:n]
	}
	if l.has(2) {
		l.content.write(l.block)
	}
	if l.has(3) {
		if uint64(len(l.block)) > l.left {
			return &FormatError{"lz4: more than its content size"}
		}
		l.left -= uint64(len(l.block))
	}
	return nil
}

func (l *lz4Inflater) end() error {
	l.done = true
	if l.has(3) && l.left > 0 {
		return &FormatError{fmt.Sprintf("lz4: %d bytes less than its content size", l.left)}
	}
	if !l.has(2) {
		return nil
	}
	sum, err := l.cut32()
	if err != nil {
		return err
	}
	if got := l.content.sum(); got != sum {
		return &FormatError{fmt.Sprintf("lz4: content checksum %08x, want %08x", got, sum)}
	}
	return nil
}

func (l *lz4Inflater) close() {
	l.src, l.anyHC = nil, false
	l.clear()
	lz4Inflaters.put(l)
}

// decompressLegacyLZ4 is Decompress for lz4 in messages of magic 0.
func decompressLegacyLZ4(dst, src []byte, limit int) ([]byte, error) {
	in := lz4Inflaters.get()
	defer in.close()
	in.anyHC = true
	if err := in.reset(src); err != nil {
		return dst, err
	}
	return readAll(dst, in, limit)
}

// lz4Fast is the level that stands for the fast compressor, Kafka's default; the other levels, 1 to 17, search deeper.
const lz4Fast = 9

// lz4Depths are the library's levels, which end at 9: Kafka's 10 to 17 are the same as its last.
var lz4Depths = [...]lz4.CompressionLevel{lz4.Level1, lz4.Level2, lz4.Level3, lz4.Level4, lz4.Level5, lz4.Level6, lz4.Level7, lz4.Level8, lz4.Level9}

var lz4Deflaters = pool[*lz4Deflater]{new: func() *lz4Deflater { return &lz4Deflater{} }}

type lz4Deflater struct {
	out     []byte
	pending []byte // of less than a block
	deep    bool
	fast    lz4.Compressor
	hc      *lz4.CompressorHC // made when first wanted: it takes 320 KiB
}

func openLZ4Deflater(level int, dst []byte) deflater {
	l := lz4Deflaters.get()
	l.deep = level != DefaultLevel && level != lz4Fast
	if l.deep {
		if l.hc == nil {
			l.hc = new(lz4.CompressorHC)
		}
		l.hc.Level = lz4Depths[max(1, min(level, len(lz4Depths)))-1]
	}
	l.pending = l.pending[:0]
	descriptor := [...]byte{lz4FLG, lz4BD}
	l.out = binary.LittleEndian.AppendUint32(dst, lz4Magic)
	l.out = append(l.out, lz4FLG, lz4BD, byte(sumXXH32(descriptor[:])>>8))
	return l
}

func (l *lz4Deflater) Write(p []byte) (int, error) {
	n := len(p)
	l.pending = eachBlock(l.pending, p, lz4BlockBytes, l.flush)
	return n, nil
}

func (l *lz4Deflater) flush(block []byte) {
	at := len(l.out) + 4
	l.out = grow(l.out, 4+lz4.CompressBlockBound(len(block)))
	room := l.out[at:cap(l.out)]
	var n int
	var err error
	if l.deep {
		n, err = l.hc.CompressBlock(block, room)
	} else {
		n, err = l.fast.CompressBlock(block, room)
	}
	word := uint32(n)
	if err != nil || n == 0 || n >= len(block) {
		n = copy(room, block)
		word = uint32(n) | lz4StoredBit
	}
	binary.LittleEndian.PutUint32(l.out[at-4:at], word)
	l.out = l.out[:at+n]
}

func (l *lz4Deflater) size() int { return len(l.out) }

func (l *lz4Deflater) finish() ([]byte, error) {
	if len(l.pending) > 0 {
		l.flush(l.pending)
	}
	out := binary.LittleEndian.AppendUint32(l.out, 0)
	l.out = nil
	lz4Deflaters.put(l)
	return out, nil
}
