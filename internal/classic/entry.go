package classic

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/quire-log/quire/internal/record"
)

const (
	lengthSize = 4
	// headerMin and headerMax are what stands before the payload, with magic 0 and 1.
	headerMin = lengthSize + 1 + 4
	headerMax = lengthSize + 1 + 1 + 4

	magicPos = lengthSize
	attrsPos = magicPos + 1

	codecMask = 3 // of the attributes
)

// PayloadMax is what one payload can have at most: the length is 32 bits, with sign.
const PayloadMax = math.MaxInt32 - (headerMax - lengthSize)

// A MagicError means that an entry is of a form that nobody knows.
type MagicError struct{ Magic byte }

func (e *MagicError) Error() string { return fmt.Sprintf("unknown magic %d", e.Magic) }

// A LengthError means that a length leaves no room for a header.
type LengthError struct{ Length int32 }

func (e *LengthError) Error() string { return fmt.Sprintf("impossible length %d", e.Length) }

// A CodecError means that a payload is compressed by something that nobody knows.
type CodecError struct{ Attributes byte }

func (e *CodecError) Error() string {
	return fmt.Sprintf("unknown codec %d in attributes %#02x", e.Attributes&codecMask, e.Attributes)
}

// A CRCError means that a payload is not what was written.
type CRCError struct{ Stored, Computed uint32 }

func (e *CRCError) Error() string { return fmt.Sprintf("crc %08x, want %08x", e.Computed, e.Stored) }

// A PartialError means that the bytes end before the entry that begins in them does.
type PartialError struct {
	Need, Have int64 // bytes; Need is headerMin while the length is not known
}

func (e *PartialError) Error() string {
	return fmt.Sprintf("the entry ends at byte %d of %d", e.Need, e.Have)
}

// A header is what stands before a payload.
type header struct {
	size  int64 // of the entry
	magic byte
	attrs byte // 0 with magic 0
	crc   uint32
	bytes int64 // before the payload
}

// parseHeader reads the header at the beginning of b, which are the first of have bytes. *LengthError and *MagicError say that
// no entry begins here, *PartialError that it may be one and ends beyond have.
func parseHeader(b []byte, have int64) (h header, err error) {
	if len(b) < headerMin {
		if len(b) >= lengthSize {
			if length := int32(binary.BigEndian.Uint32(b)); length < headerMin-lengthSize {
				return h, &LengthError{length}
			}
		}
		return h, &PartialError{headerMin, have}
	}
	length := int32(binary.BigEndian.Uint32(b))
	if length < headerMin-lengthSize {
		return h, &LengthError{length}
	}
	h.size, h.magic, h.bytes = lengthSize+int64(length), b[magicPos], headerMin
	switch h.magic {
	case 0:
	case 1:
		if length < headerMax-lengthSize {
			return h, &LengthError{length}
		}
		h.bytes = headerMax
		if len(b) < headerMax {
			return h, &PartialError{h.size, have}
		}
		h.attrs = b[attrsPos]
	default:
		return h, &MagicError{h.magic}
	}
	h.crc = binary.BigEndian.Uint32(b[h.bytes-4:])
	if h.size > have {
		return h, &PartialError{h.size, have}
	}
	return h, nil
}

func (h header) codec() (record.Codec, error) {
	switch c := record.Codec(h.attrs & codecMask); c {
	case record.None, record.Gzip, record.Snappy:
		return c, nil
	}
	return 0, &CodecError{h.attrs}
}

// An Entry is the bytes of one entry. Its methods ask for a whole one, as FirstEntry returns it.
type Entry []byte

// FirstEntry cuts the entry off the beginning of b, without looking at its CRC. *PartialError: b ends before the entry does.
func FirstEntry(b []byte) (Entry, error) {
	h, err := parseHeader(b, int64(len(b)))
	if err != nil {
		return nil, err
	}
	return b[:h.size:h.size], nil
}

func (e Entry) header() header {
	h, _ := parseHeader(e, int64(len(e)))
	return h
}

func (e Entry) Magic() byte { return e[magicPos] }

// Attributes are 0 with magic 0, which has none.
func (e Entry) Attributes() byte { return e.header().attrs }

// Codec is how the payload is compressed; *CodecError when nobody knows.
func (e Entry) Codec() (record.Codec, error) { return e.header().codec() }

func (e Entry) CRC() uint32 { return e.header().crc }

// Payload is the payload as stored: compressed, if it is.
func (e Entry) Payload() []byte { return e[e.header().bytes:] }

// Check says what is wrong with an entry: *CodecError or *CRCError.
func (e Entry) Check() error {
	h := e.header()
	if _, err := h.codec(); err != nil {
		return err
	}
	if crc := crc32.ChecksumIEEE(e[h.bytes:]); crc != h.crc {
		return &CRCError{h.crc, crc}
	}
	return nil
}

// nestingMax bounds how deep compressed entries may lie in each other; 0.7's producers wrap once.
const nestingMax = 4

var errNesting = fmt.Errorf("compressed entries lie more than %d deep in each other", nestingMax)

// Messages calls f with the payload of each message in e: its own or, when it is compressed, those of the entries that it
// inflates to, in their order. Inside, CRCs are looked at. All that is inflated for one call is at most limit bytes
// (*record.TooLargeError beyond). The payloads are f's only until it returns; an error of f ends the walk and is returned.
func (e Entry) Messages(limit int, f func(payload []byte) error) error {
	return e.messages(&limit, 0, f)
}

func (e Entry) messages(limit *int, depth int, f func([]byte) error) error {
	codec, err := e.Codec()
	if err != nil {
		return err
	}
	if codec == record.None {
		return f(e.Payload())
	}
	if depth == nestingMax {
		return errNesting
	}
	inflated, err := record.Decompress(nil, e.Payload(), codec, *limit)
	if err != nil {
		return err
	}
	*limit -= len(inflated)
	for pos := 0; pos < len(inflated); {
		inner, err := FirstEntry(inflated[pos:])
		if err == nil {
			err = inner.Check()
		}
		if err != nil {
			return &InnerError{pos, err}
		}
		if err := inner.messages(limit, depth+1, f); err != nil {
			return err
		}
		pos += len(inner)
	}
	return nil
}

// An InnerError reports bytes inside a compressed payload that are no entry.
type InnerError struct {
	Pos int // in what the payload inflates to
	Err error
}

func (e *InnerError) Error() string {
	return fmt.Sprintf("no valid entry at byte %d of the inflated payload: %v", e.Pos, e.Err)
}
func (e *InnerError) Unwrap() error { return e.Err }

// A Message is what is appended.
type Message struct {
	Magic   byte         // 0 or 1
	Codec   record.Codec // of the payload: None, or with magic 1 Gzip or Snappy (see Pack)
	Payload []byte
}

func (m Message) check() error {
	switch {
	case m.Magic > 1:
		return &MagicError{m.Magic}
	case m.Codec < record.None || m.Codec > record.Snappy || m.Magic == 0 && m.Codec != record.None:
		return fmt.Errorf("magic %d has no codec %v", m.Magic, m.Codec)
	}
	return nil
}

// size is of the entry.
func (m Message) size() int {
	if m.Magic == 0 {
		return headerMin + len(m.Payload)
	}
	return headerMax + len(m.Payload)
}

// appendEntry appends m as an entry.
func appendEntry(dst []byte, m Message) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(m.size()-lengthSize))
	dst = append(dst, m.Magic)
	if m.Magic != 0 {
		dst = append(dst, byte(m.Codec))
	}
	dst = binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(m.Payload))
	return append(dst, m.Payload...)
}

// Pack compresses payloads into one message of magic 1, as 0.7's producers did.
func Pack(codec record.Codec, payloads ...[]byte) (Message, error) {
	if codec != record.Gzip && codec != record.Snappy {
		return Message{}, fmt.Errorf("messages are packed by gzip or snappy, not %v", codec)
	}
	if len(payloads) == 0 {
		return Message{}, errors.New("no messages to pack")
	}
	var run []byte
	for _, p := range payloads {
		run = appendEntry(run, Message{Magic: 1, Payload: p})
	}
	packed, err := record.Compress(nil, run, codec, record.DefaultLevel)
	return Message{Magic: 1, Codec: codec, Payload: packed}, err
}
