package record

import "encoding/binary"

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
func (b Batch) LastSequence() int32 { panic("unwritten") }

// SetMaxTimestamp sets the batch's largest time and, when appendTime, marks it as the broker's; the checksum is made right.
func (b Batch) SetMaxTimestamp(ms int64, appendTime bool) { panic("unwritten") }

// ChecksumValid recomputes the CRC-32C.
func (b Batch) ChecksumValid() bool { panic("unwritten") }

// EntrySize is the size in bytes of the entry (batch, or message of an old set) that src begins with, from the first LogOverhead bytes alone.
// The error is a *FormatError when the length is negative or less than any entry's. src may be shorter than the entry.
func EntrySize(src []byte) (int64, error) { panic("unwritten") }

// FirstBatch returns the batch of magic 2 that src begins with. io.ErrUnexpectedEOF when src ends before it does;
// *FormatError for nonsense or another magic. The checksum is not looked at.
func FirstBatch(src []byte) (Batch, error) { panic("unwritten") }

// A FormatError says what is wrong with bytes that should be a batch.
type FormatError struct {
	Reason string // such as "batch length -1" or "crc 9e3b01aa, want 5c07d2f1"
}

func (e *FormatError) Error() string { return e.Reason }
