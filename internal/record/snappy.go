package record

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/klauspost/compress/s2"
)

// Snappy payloads come in two forms. Java's writes the xerial frame, and so do we:
//
//	0         8         12            16       20
//	+---------+---------+-------------+--------+-------+--------+-------
//	|  magic  | version | minVersion  | length | block | length | block …
//	+---------+---------+-------------+--------+-------+--------+-------
//
// in big-endian, each block being raw snappy of at most 32 KiB; a new frame may begin where a length would stand.
// Others send one raw block without a frame.
const (
	xerialMagic      = "\x82SNAPPY\x00"
	xerialHeader     = xerialMagic + "\x00\x00\x00\x01\x00\x00\x00\x01"
	xerialVersion    = 1
	xerialMagicStart = 0x82534e41 // its first bytes, read as a length
	snappyBlockBytes = 32 << 10
)

var snappyInflaters = pool[*snappyInflater]{new: func() *snappyInflater { return &snappyInflater{} }}

type snappyInflater struct {
	blocks
	src    []byte
	framed bool
}

func (s *snappyInflater) reset(src []byte) error {
	s.src, s.block = src, nil
	s.framed = len(src) >= len(xerialHeader) && string(src[:len(xerialMagic)]) == xerialMagic
	if s.framed {
		return s.cutHeader()
	}
	if len(src) == 0 {
		return &FormatError{"snappy: empty"}
	}
	return nil
}

func (s *snappyInflater) cutHeader() error {
	if len(s.src) < len(xerialHeader) || string(s.src[:len(xerialMagic)]) != xerialMagic {
		return &FormatError{"snappy: malformed frame header"}
	}
	if v := int32(binary.BigEndian.Uint32(s.src[len(xerialMagic):])); v < xerialVersion {
		return &FormatError{fmt.Sprintf("snappy: frame version %d", v)}
	}
	s.src = s.src[len(xerialHeader):]
	return nil
}

func (s *snappyInflater) Read(p []byte) (int, error) {
	for len(s.block) == 0 {
		if len(s.src) == 0 {
			return 0, io.EOF
		}
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.block)
	s.block = s.block[n:]
	return n, nil
}

// next inflates the next block.
func (s *snappyInflater) next() error {
	block := s.src
	if s.framed {
		if len(s.src) < 4 {
			return &FormatError{"snappy: ends within a block's length"}
		}
		size := binary.BigEndian.Uint32(s.src)
		if size == xerialMagicStart {
			return s.cutHeader()
		}
		if uint64(size) > uint64(len(s.src)-4) {
			return &FormatError{fmt.Sprintf("snappy: block of %d bytes, with %d left", size, len(s.src)-4)}
		}
		block = s.src[4 : 4+size]
		s.src = s.src[4+size:]
	} else {
		s.src = nil
	}
	n, ok := snappySize(block)
	if !ok {
		return &FormatError{"snappy: malformed block"}
	}
	out, err := s2.Decode(s.room(n), block)
	if err != nil {
		return &FormatError{fmt.Sprintf("snappy: %v", err)}
	}
	s.block = out
	return nil
}

func (s *snappyInflater) close() {
	s.src = nil
	s.clear()
	snappyInflaters.put(s)
}

// snappySize is how many bytes a raw block inflates to, by its elements and not by its word alone. It also keeps out
// what only S2, the library's larger format, would take: a copy from offset 0.
func snappySize(block []byte) (size int, ok bool) {
	claimed, n := binary.Uvarint(block)
	if n <= 0 || claimed > 1<<31-1 {
		return 0, false
	}
	b := block[n:]
	total := uint64(0)
	for len(b) > 0 {
		tag := b[0]
		length, head := uint64(tag>>2)+1, 1
		offset := uint32(1)
		switch tag & 3 {
		case 0: // literal; lengths beyond 60 stand in the next 1 to 4 bytes
			if extra := int(tag>>2) - 59; extra > 0 {
				if len(b) < 1+extra {
					return 0, false
				}
				length = 1
				for i := range extra {
					length += uint64(b[1+i]) << (8 * i)
				}
				head = 1 + extra
			}
			if length > uint64(len(b)-head) {
				return 0, false
			}
			head += int(length)
		case 1: // copy of 4 to 11 bytes
			if len(b) < 2 {
				return 0, false
			}
			length, head = uint64(tag>>2&7)+4, 2
			offset = uint32(tag>>5)<<8 | uint32(b[1])
		case 2: // copies of 1 to 64 bytes
			if len(b) < 3 {
				return 0, false
			}
			head = 3
			offset = uint32(binary.LittleEndian.Uint16(b[1:]))
		case 3:
			if len(b) < 5 {
				return 0, false
			}
			head = 5
			offset = binary.LittleEndian.Uint32(b[1:])
		}
		if offset == 0 || uint64(offset) > total && tag&3 != 0 {
			return 0, false
		}
		total += length
		b = b[head:]
	}
	return int(claimed), total == claimed
}

var snappyDeflaters = pool[*snappyDeflater]{new: func() *snappyDeflater { return &snappyDeflater{} }}

type snappyDeflater struct {
	out     []byte
	pending []byte // of less than a block
}

func openSnappyDeflater(dst []byte) deflater {
	s := snappyDeflaters.get()
	s.out, s.pending = append(dst, xerialHeader...), s.pending[:0]
	return s
}

func (s *snappyDeflater) Write(p []byte) (int, error) {
	n := len(p)
	s.pending = eachBlock(s.pending, p, snappyBlockBytes, s.flush)
	return n, nil
}

func (s *snappyDeflater) flush(block []byte) {
	at := len(s.out) + 4
	s.out = grow(s.out, 4+s2.MaxEncodedLen(len(block)))
	encoded := s2.EncodeSnappy(s.out[at:cap(s.out)], block)
	binary.BigEndian.PutUint32(s.out[at-4:at], uint32(len(encoded)))
	s.out = s.out[:at+len(encoded)]
}

func (s *snappyDeflater) size() int { return len(s.out) }

func (s *snappyDeflater) finish() ([]byte, error) {
	if len(s.pending) > 0 {
		s.flush(s.pending)
	}
	out := s.out
	s.out = nil
	snappyDeflaters.put(s)
	return out, nil
}

// eachBlock cuts what was pending and p into blocks of size, hands them to flush, and returns what is pending now.
func eachBlock(pending, p []byte, size int, flush func([]byte)) []byte {
	if len(pending) > 0 {
		n := min(size-len(pending), len(p))
		pending, p = append(pending, p[:n]...), p[n:]
		if len(pending) < size {
			return pending
		}
		flush(pending)
		pending = pending[:0]
	}
	for len(p) >= size {
		flush(p[:size])
		p = p[size:]
	}
	return append(pending, p...)
}

// grow makes room for n more bytes in b's capacity and leaves its length as it is, but that the n bytes may be sliced.
func grow(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	return append(b, make([]byte, n)...)[:len(b)]
}
