package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

// An Entry is one whole entry of a log, of any magic: a Batch, or a message of a set of magic 0 or 1
// (which may be a wrapper around compressed messages). Like Batch it is a view.
//
//	magic 0, 1:  offset 8 | size 4 | crc 4 | magic 1 | attributes 1 | [timestamp 8, magic 1] | key 4+n | value 4+n
//
// crc is CRC-32 (IEEE) of everything from magic on. Attribute bits: 0-2 codec, 3 LogAppendTime (magic 1).
type Entry []byte

const (
	minMessageV0 = 14 // crc, magic, attributes, and the sizes of a null key and value
	minMessageV1 = minMessageV0 + 8

	messageCRC  = LogOverhead
	messageAttr = magicOffset + 1
	messageTime = messageAttr + 1
)

// FirstEntry returns the entry that src begins with; errors as FirstBatch.
func FirstEntry(src []byte) (Entry, error) {
	size, err := EntrySize(src)
	if err != nil {
		return nil, err
	}
	if len(src) < MinEntry {
		return nil, io.ErrUnexpectedEOF
	}
	least := int64(HeaderSize)
	switch magic := int8(src[magicOffset]); magic {
	case 0:
		least = LogOverhead + minMessageV0
	case 1:
		least = LogOverhead + minMessageV1
	case 2:
	default:
		return nil, &FormatError{fmt.Sprintf("unknown magic %d", magic)}
	}
	if size < least {
		return nil, &FormatError{fmt.Sprintf("entry of magic %d and length %d, less than %d", src[magicOffset], size-LogOverhead, least-LogOverhead)}
	}
	if int64(len(src)) < size {
		return nil, io.ErrUnexpectedEOF
	}
	return Entry(src[:size:size]), nil
}

func (e Entry) Magic() int8 { return int8(e[magicOffset]) }

// Batch is e as a batch; only for magic 2.
func (e Entry) Batch() Batch { return Batch(e) }

// Codec is how its records, or the messages inside it, are compressed.
func (e Entry) Codec() Codec {
	if e.Magic() == 2 {
		return e.Batch().Codec()
	}
	return Codec(e[messageAttr] & AttrCodecMask)
}

// IsLogAppendTime says whether its times are the broker's; of magic 0, which has none, false.
func (e Entry) IsLogAppendTime() bool {
	if e.Magic() == 2 {
		return e.Batch().IsLogAppendTime()
	}
	return e.Magic() == 1 && e[messageAttr]&AttrLogAppendTime != 0
}

// LastOffset is that of its last record (a wrapper's own offset is its last message's).
func (e Entry) LastOffset() Offset {
	if e.Magic() == 2 {
		return e.Batch().LastOffset()
	}
	return Offset(binary.BigEndian.Uint64(e))
}

// BaseOffset is that of its first record; for a wrapper of magic 0 or 1, whose first offset only inflating tells, its last.
func (e Entry) BaseOffset() Offset { return Offset(binary.BigEndian.Uint64(e)) }

// MaxTimestamp is the largest time in ms; -1 for magic 0.
func (e Entry) MaxTimestamp() int64 {
	switch e.Magic() {
	case 2:
		return e.Batch().MaxTimestamp()
	case 1:
		return int64(binary.BigEndian.Uint64(e[messageTime:]))
	}
	return -1
}

// LeaderEpoch is -1 for magic 0 and 1.
func (e Entry) LeaderEpoch() Epoch {
	if e.Magic() == 2 {
		return e.Batch().LeaderEpoch()
	}
	return -1
}

// CRC is the checksum that it carries.
func (e Entry) CRC() uint32 {
	if e.Magic() == 2 {
		return e.Batch().CRC()
	}
	return binary.BigEndian.Uint32(e[messageCRC:])
}

func (e Entry) computeCRC() uint32 {
	if e.Magic() == 2 {
		return e.Batch().computeCRC()
	}
	return crc32.ChecksumIEEE(e[magicOffset:])
}

// Check verifies checksum and structure without inflating: nil or a *FormatError.
func (e Entry) Check() error {
	if got, want := e.computeCRC(), e.CRC(); got != want {
		return &FormatError{fmt.Sprintf("crc %08x, want %08x", got, want)}
	}
	if e.Magic() == 2 {
		b := e.Batch()
		switch {
		case b.LastOffsetDelta() < 0:
			return &FormatError{fmt.Sprintf("last offset delta %d", b.LastOffsetDelta())}
		case b.Count() < 0:
			return &FormatError{fmt.Sprintf("record count %d", b.Count())}
		}
		return nil
	}
	m := cutMessage(e)
	if m.bad {
		return &FormatError{"the message's key or value runs past its end"}
	}
	if e.Codec() != None && m.value == nil {
		return &FormatError{"a compressed message without a value"}
	}
	return nil
}
