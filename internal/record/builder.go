package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// A Builder makes a batch of magic 2 record by record.
type Builder struct {
	BaseOffset    Offset
	LeaderEpoch   Epoch
	Codec         Codec
	Level         int   // DefaultLevel for Kafka's
	ProducerID    int64 // -1 none; NewBuilder sets all three to -1
	ProducerEpoch int16
	BaseSequence  int32
	// Attributes are bits besides the codec: AttrLogAppendTime (give the records that time), AttrTransactional, AttrControl,
	// AttrDeleteHorizon.
	Attributes    int16
	DeleteHorizon int64 // ms; with AttrDeleteHorizon it takes the place of the base timestamp
	// LastOffsetDelta is kept when it is larger than the last record's: compaction leaves offsets without records at a batch's end.
	LastOffsetDelta int32

	records  []byte // encoded, not yet compressed
	count    int32
	next     int32 // the delta that Add gives
	baseTime int64
	maxTime  int64
	err      error
}

// NewBuilder returns a builder of uncompressed batches from no producer.
func NewBuilder() *Builder {
	return &Builder{Level: DefaultLevel, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}
}

// Add appends a record; its Offset is ignored: deltas count from 0. AddAt keeps offset deltas (gaps), as compaction needs.
func (b *Builder) Add(r Record) { b.AddAt(b.next, r) }

// AddAt appends a record at a delta, which is greater than those before.
func (b *Builder) AddAt(offsetDelta int32, r Record) {
	if offsetDelta < b.next {
		b.err = fmt.Errorf("record: offset delta %d after %d", offsetDelta, b.next-1)
		return
	}
	if b.count == 0 {
		b.maxTime = r.Timestamp
		b.baseTime = r.Timestamp
		if b.Attributes&AttrDeleteHorizon != 0 {
			b.baseTime = b.DeleteHorizon
		}
	}
	b.maxTime = max(b.maxTime, r.Timestamp)
	b.records = appendRecord(b.records, r, r.Timestamp-b.baseTime, offsetDelta)
	b.count++
	b.next = offsetDelta + 1
}

func (b *Builder) Len() int  { return int(b.count) }                // records so far
func (b *Builder) Size() int { return HeaderSize + len(b.records) } // bytes before compression, header included

// Batch finishes the batch, appends it to dst, and makes the builder empty again; its settings stay.
func (b *Builder) Batch(dst []byte) ([]byte, error) {
	defer b.clear()
	if b.err != nil {
		return dst, b.err
	}
	if b.count == 0 {
		return dst, errors.New("record: a batch without records")
	}
	start := len(dst)
	dst = append(dst, make([]byte, HeaderSize)...)
	if b.Codec == None {
		dst = append(dst, b.records...)
	} else {
		var err error
		if dst, err = Compress(dst, b.records, b.Codec, b.Level); err != nil {
			return dst[:start], err
		}
	}
	if int64(len(dst)-start) > math.MaxInt32 {
		return dst[:start], fmt.Errorf("record: a batch of %d bytes", len(dst)-start)
	}
	putHeader(Batch(dst[start:]), header{
		baseOffset: b.BaseOffset, leaderEpoch: b.LeaderEpoch, attributes: b.Attributes&^AttrCodecMask | int16(b.Codec),
		lastOffsetDelta: max(b.LastOffsetDelta, b.next-1), baseTimestamp: b.baseTime, maxTimestamp: b.maxTime,
		producerID: b.ProducerID, producerEpoch: b.ProducerEpoch, baseSequence: b.BaseSequence, count: b.count,
	})
	return dst, nil
}

func (b *Builder) clear() {
	b.records, b.count, b.next, b.err = b.records[:0], 0, 0, nil
}

// header is what stands before the records, without length, magic and checksum, which follow from the rest.
type header struct {
	baseOffset      Offset
	leaderEpoch     Epoch
	attributes      int16
	lastOffsetDelta int32
	baseTimestamp   int64
	maxTimestamp    int64
	producerID      int64
	producerEpoch   int16
	baseSequence    int32
	count           int32
}

// putHeader writes the header of b, whose payload is in place, and its checksum.
func putHeader(b Batch, h header) {
	binary.BigEndian.PutUint64(b[0:], uint64(h.baseOffset))
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-LogOverhead))
	binary.BigEndian.PutUint32(b[12:], uint32(h.leaderEpoch))
	b[magicOffset] = 2
	binary.BigEndian.PutUint16(b[21:], uint16(h.attributes))
	binary.BigEndian.PutUint32(b[23:], uint32(h.lastOffsetDelta))
	binary.BigEndian.PutUint64(b[27:], uint64(h.baseTimestamp))
	binary.BigEndian.PutUint64(b[35:], uint64(h.maxTimestamp))
	binary.BigEndian.PutUint64(b[43:], uint64(h.producerID))
	binary.BigEndian.PutUint16(b[51:], uint16(h.producerEpoch))
	binary.BigEndian.PutUint32(b[53:], uint32(h.baseSequence))
	binary.BigEndian.PutUint32(b[57:], uint32(h.count))
	b.sum()
}

// AppendEmpty appends to dst what compaction leaves of a batch none of whose records it keeps: a header without records
// that still holds the batch's offsets and its producer's sequence.
func AppendEmpty(dst []byte, of Batch) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, HeaderSize)...)
	putHeader(Batch(dst[start:]), header{
		baseOffset: of.BaseOffset(), leaderEpoch: of.LeaderEpoch(),
		attributes:      of.Attributes() & (AttrLogAppendTime | AttrTransactional | AttrControl),
		lastOffsetDelta: of.LastOffsetDelta(), baseTimestamp: -1, maxTimestamp: of.MaxTimestamp(),
		producerID: of.ProducerID(), producerEpoch: of.ProducerEpoch(), baseSequence: of.BaseSequence(),
	})
	return dst
}

// AppendCompressed appends to dst a batch that is not compressed with its records compressed by c, also when that makes them no smaller.
// level is as Compress has it. Of its header only what must changes: a batch without a producer has no sequence either, whatever it said.
func AppendCompressed(dst []byte, of Batch, c Codec, level int) ([]byte, error) {
	if of.Codec() != None {
		return dst, fmt.Errorf("record: a batch that is compressed already, by %s", of.Codec())
	}
	start := len(dst)
	dst, err := Compress(append(dst, of[:HeaderSize]...), of.Payload(), c, level)
	if err != nil {
		return dst[:start], err
	}
	if int64(len(dst)-start) > math.MaxInt32 {
		return dst[:start], fmt.Errorf("record: a batch of %d bytes", len(dst)-start)
	}
	baseSequence := of.BaseSequence()
	if !of.HasProducer() {
		baseSequence = -1
	}
	putHeader(Batch(dst[start:]), header{
		baseOffset: of.BaseOffset(), leaderEpoch: of.LeaderEpoch(), attributes: of.Attributes()&attrKnown | int16(c),
		lastOffsetDelta: of.LastOffsetDelta(), baseTimestamp: of.BaseTimestamp(), maxTimestamp: of.MaxTimestamp(),
		producerID: of.ProducerID(), producerEpoch: of.ProducerEpoch(), baseSequence: baseSequence, count: of.Count(),
	})
	return dst, nil
}

// appendRecord appends a record, its length first.
func appendRecord(dst []byte, r Record, timestampDelta int64, offsetDelta int32) []byte {
	size := 1 + varintSize(timestampDelta) + varintSize(int64(offsetDelta)) +
		sizedSize(len(r.Key), r.Key == nil) + sizedSize(len(r.Value), r.Value == nil) + varintSize(int64(len(r.Headers)))
	for _, h := range r.Headers {
		size += sizedSize(len(h.Key), false) + sizedSize(len(h.Value), h.Value == nil)
	}
	dst = binary.AppendVarint(dst, int64(size))
	dst = append(dst, 0)
	dst = binary.AppendVarint(dst, timestampDelta)
	dst = binary.AppendVarint(dst, int64(offsetDelta))
	dst = appendSized(dst, r.Key)
	dst = appendSized(dst, r.Value)
	dst = binary.AppendVarint(dst, int64(len(r.Headers)))
	for _, h := range r.Headers {
		dst = binary.AppendVarint(dst, int64(len(h.Key)))
		dst = append(dst, h.Key...)
		dst = appendSized(dst, h.Value)
	}
	return dst
}

func sizedSize(n int, null bool) int {
	if null {
		return 1
	}
	return varintSize(int64(n)) + n
}

func appendSized(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 1) // -1
	}
	dst = binary.AppendVarint(dst, int64(len(b)))
	return append(dst, b...)
}
