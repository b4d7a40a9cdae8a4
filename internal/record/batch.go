package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
)

// A record batch of magic 2, big-endian (attributes: bits 0-2 codec, 3 LogAppendTime, 4 transactional, 5 control,
// 6 base timestamp is a delete horizon):
//
//	0            8         12       16    17    21     23              27
//	+------------+---------+--------+-----+-----+------+---------------+----------------+
//	| baseOffset | length  | epoch  |magic| crc | attr |lastOffsetDelta| baseTimestamp  |
//	+------------+---------+--------+-----+-----+------+---------------+----------------+
//	35             43           51            53            57      61
//	+--------------+------------+-------------+-------------+-------+---------
//	| maxTimestamp | producerId |producerEpoch|baseSequence | count | records
//	+--------------+------------+-------------+-------------+-------+---------
//
// length counts the bytes after itself; crc is CRC-32C of everything from attr on.
const (
	HeaderSize  = 61 // of a batch of magic 2
	LogOverhead = 12 // base offset and length, which every entry of a log begins with
	magicOffset = 16
	crcFrom     = 21 // the checksum covers everything from here on
	// MinEntry is the least size at which an entry can be told apart: up to and with its magic byte.
	MinEntry = 17
)

// Attribute bits of a batch.
const (
	AttrCodecMask     = 0x07
	AttrLogAppendTime = 0x08
	AttrTransactional = 0x10
	AttrControl       = 0x20
	AttrDeleteHorizon = 0x40

	attrKnown = 0x7f // the rest is dropped whenever attributes are written
)

// A Batch is one whole batch of magic 2, header first. Its accessors trust its length; FirstBatch and Validate make sure of it.
type Batch []byte

func (b Batch) BaseOffset() Offset     { return Offset(binary.BigEndian.Uint64(b[0:])) }
func (b Batch) Length() int32          { return int32(binary.BigEndian.Uint32(b[8:])) } // bytes after this field
func (b Batch) LeaderEpoch() Epoch     { return Epoch(binary.BigEndian.Uint32(b[12:])) }
func (b Batch) Magic() int8            { return int8(b[magicOffset]) }
func (b Batch) CRC() uint32            { return binary.BigEndian.Uint32(b[17:]) }
func (b Batch) Attributes() int16      { return int16(binary.BigEndian.Uint16(b[21:])) }
func (b Batch) LastOffsetDelta() int32 { return int32(binary.BigEndian.Uint32(b[23:])) }
func (b Batch) BaseTimestamp() int64   { return int64(binary.BigEndian.Uint64(b[27:])) } // ms, or the delete horizon
func (b Batch) MaxTimestamp() int64    { return int64(binary.BigEndian.Uint64(b[35:])) } // ms
func (b Batch) ProducerID() int64      { return int64(binary.BigEndian.Uint64(b[43:])) }
func (b Batch) ProducerEpoch() int16   { return int16(binary.BigEndian.Uint16(b[51:])) }
func (b Batch) BaseSequence() int32    { return int32(binary.BigEndian.Uint32(b[53:])) }
func (b Batch) Count() int32           { return int32(binary.BigEndian.Uint32(b[57:])) }
func (b Batch) Payload() []byte        { return b[HeaderSize:] } // the records, compressed if Codec says so
func (b Batch) LastOffset() Offset     { return b.BaseOffset() + Offset(b.LastOffsetDelta()) }
func (b Batch) Codec() Codec           { return Codec(b.Attributes() & AttrCodecMask) }
func (b Batch) IsLogAppendTime() bool  { return b.Attributes()&AttrLogAppendTime != 0 }
func (b Batch) IsTransactional() bool  { return b.Attributes()&AttrTransactional != 0 }
func (b Batch) IsControl() bool        { return b.Attributes()&AttrControl != 0 }
func (b Batch) HasDeleteHorizon() bool { return b.Attributes()&AttrDeleteHorizon != 0 }
func (b Batch) HasProducer() bool      { return b.ProducerID() >= 0 }
func (b Batch) SetBaseOffset(o Offset) { binary.BigEndian.PutUint64(b[0:], uint64(o)) }  // outside the checksum
func (b Batch) SetLeaderEpoch(e Epoch) { binary.BigEndian.PutUint32(b[12:], uint32(e)) } // outside the checksum

// LastSequence is the sequence of the last record; sequences go from 2147483647 back to 0. -1 without one.
func (b Batch) LastSequence() int32 {
	base := b.BaseSequence()
	if base < 0 {
		return -1
	}
	return int32((uint32(base) + uint32(b.LastOffsetDelta())) & math.MaxInt32)
}

// castagnoli is made once: crc32 takes the processor's own instruction for it.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (b Batch) computeCRC() uint32 { return crc32.Checksum(b[crcFrom:], castagnoli) }

// SetMaxTimestamp sets the batch's largest time and, when appendTime, marks it as the broker's; the checksum is made right.
// It leaves the bytes alone when they say so already.
func (b Batch) SetMaxTimestamp(ms int64, appendTime bool) {
	if b.MaxTimestamp() == ms && b.IsLogAppendTime() == appendTime {
		return
	}
	attributes := b.Attributes() & attrKnown &^ AttrLogAppendTime
	if appendTime {
		attributes |= AttrLogAppendTime
	}
	binary.BigEndian.PutUint16(b[21:], uint16(attributes))
	binary.BigEndian.PutUint64(b[35:], uint64(ms))
	b.sum()
}

// SetProducer makes the batch one of a producer, and the checksum right.
func (b Batch) SetProducer(id int64, epoch int16, baseSequence int32) {
	binary.BigEndian.PutUint64(b[43:], uint64(id))
	binary.BigEndian.PutUint16(b[51:], uint16(epoch))
	binary.BigEndian.PutUint32(b[53:], uint32(baseSequence))
	b.sum()
}

// sum makes the checksum right.
func (b Batch) sum() { binary.BigEndian.PutUint32(b[17:], b.computeCRC()) }

// ChecksumValid recomputes the CRC-32C.
func (b Batch) ChecksumValid() bool { return b.CRC() == b.computeCRC() }

// EntrySize is the size in bytes of the entry (batch, or message of an old set) that src begins with, from the first LogOverhead bytes alone.
// The error is a *FormatError when the length is negative or less than any entry's, io.ErrUnexpectedEOF when src is shorter than
// LogOverhead. src may be shorter than the entry.
func EntrySize(src []byte) (int64, error) {
	if len(src) < LogOverhead {
		return 0, io.ErrUnexpectedEOF
	}
	length := int32(binary.BigEndian.Uint32(src[8:]))
	if length < minMessageV0 {
		return 0, &FormatError{fmt.Sprintf("entry length %d, less than %d", length, minMessageV0)}
	}
	return int64(length) + LogOverhead, nil
}

// FirstBatch returns the batch of magic 2 that src begins with. io.ErrUnexpectedEOF when src ends before it does;
// *FormatError for nonsense or another magic. The checksum is not looked at.
func FirstBatch(src []byte) (Batch, error) {
	size, err := EntrySize(src)
	if err != nil {
		return nil, err
	}
	if len(src) < MinEntry {
		return nil, io.ErrUnexpectedEOF
	}
	if magic := int8(src[magicOffset]); magic != 2 {
		return nil, &FormatError{fmt.Sprintf("magic %d, want 2", magic)}
	}
	if size < HeaderSize {
		return nil, &FormatError{fmt.Sprintf("batch length %d, less than a header's %d", size-LogOverhead, HeaderSize-LogOverhead)}
	}
	if int64(len(src)) < size {
		return nil, io.ErrUnexpectedEOF
	}
	return Batch(src[:size:size]), nil
}

// A FormatError says what is wrong with bytes that should be a batch.
type FormatError struct {
	Reason string // such as "batch length -1" or "crc 9e3b01aa, want 5c07d2f1"
}

func (e *FormatError) Error() string { return e.Reason }
