package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Rules are what a log demands of the batches that clients produce (facts: log-behaviour.md §1, rows 13-23).
type Rules struct {
	Partition            string // as messages name it, such as orders-3
	Now                  int64  // ms
	LogAppendTime        bool
	TimestampBeforeMaxMs int64
	TimestampAfterMaxMs  int64
	Compacted            bool  // records need keys
	Codec                Codec // what the log stores, when Recompress
	Recompress           bool  // compression.type is not "producer"
	Level                int
	MaxBytes             int // max.message.bytes, of the batch as received and after recompression
	InflateMax           int // bound on the inflated payload; 0: DefaultInflateMax
}

// DefaultInflateMax bounds what the records of a batch may inflate to. They pass by in a window, so it is a bound on time
// rather than on memory: a second's work or so. A gzipped batch of the default max.message.bytes cannot reach it.
const DefaultInflateMax = 1 << 30

// A Verdict is what became of a batch that was accepted.
type Verdict struct {
	// Batch is the batch to store: the one given, patched in place, or a new one when a rule demanded to encode it anew.
	Batch        Batch
	MaxTimestamp int64 // ms, of its records; the broker's with LogAppendTime; -1 when none has a time
	// OffsetOfMax is the delta of the first record that has MaxTimestamp (with append time: 0).
	OffsetOfMax int32
	Rewritten   bool
}

// Validate checks one batch from a client by the rules, assigns times, and re-encodes only when it must: when the log's
// codec is not the batch's, or when the deltas of its offsets are not 0, 1, 2 and so on. What it returns may alias b or buf.
// buf is scratch for a batch that must be encoded anew. The error is an *InvalidError, and b is as it was.
//
// Compressed records are inflated through a window and encoded anew through one, so what they inflate to is never held.
func Validate(b Batch, rules Rules, buf []byte) (Verdict, error) {
	if err := checkHeader(b, &rules); err != nil {
		return Verdict{}, err
	}
	if rules.InflateMax == 0 {
		rules.InflateMax = DefaultInflateMax
	}
	target := b.Codec()
	if rules.Recompress {
		target = rules.Codec
	}
	v := validations.get()
	defer v.close()
	v.batch, v.rules, v.target, v.buf = b, rules, target, buf
	v.rewrite = target != b.Codec()
	err := v.run()
	if err == errRenumber { // found too late to begin copying: once more, from the start
		v.rewrite = true
		err = v.run()
	}
	if err != nil {
		return Verdict{}, v.refuse(err)
	}
	verdict := Verdict{Batch: b, MaxTimestamp: v.maxTimestamp, OffsetOfMax: v.offsetOfMax}
	if rules.LogAppendTime {
		verdict.MaxTimestamp, verdict.OffsetOfMax = rules.Now, 0
	}
	if v.rewrite {
		if verdict.Batch, err = v.finish(verdict.MaxTimestamp); err != nil {
			return Verdict{}, err
		}
		verdict.Rewritten = true
		return verdict, nil
	}
	b.SetMaxTimestamp(verdict.MaxTimestamp, rules.LogAppendTime)
	return verdict, nil
}

// checkHeader is what can be said without looking at the records, in Kafka's order.
func checkHeader(b Batch, rules *Rules) error {
	whole, err := FirstBatch(b)
	switch {
	case err == io.ErrUnexpectedEOF:
		return invalid(FaultCorrupt, "The batch of %d bytes ends before it should, in topic partition %s", len(b), rules.Partition)
	case err != nil:
		fault := FaultCorrupt
		if len(b) >= MinEntry && b.Magic() != 2 {
			fault = FaultInvalid
		}
		return invalid(fault, "Malformed batch in topic partition %s: %v", rules.Partition, err)
	case len(whole) < len(b):
		return invalid(FaultInvalid, "%d bytes after the only batch that topic partition %s takes at a time", len(b)-len(whole), rules.Partition)
	case b.BaseOffset() != 0:
		return invalid(FaultInvalid, "The baseOffset of the record batch in the append to %s should be 0, but it is %d", rules.Partition, b.BaseOffset())
	case len(b) > rules.MaxBytes:
		return invalid(FaultTooLarge, "The record batch size in the append to %s is %d bytes which exceeds the maximum configured value of %d).", rules.Partition, len(b), rules.MaxBytes)
	case !b.ChecksumValid():
		return invalid(FaultCorrupt, "Record is corrupt (stored crc = %d) in topic partition %s.", b.CRC(), rules.Partition)
	case !b.Codec().known():
		return invalid(FaultUnsupportedCodec, "Unknown compression type id: %d", b.Codec())
	}
	// The last offset is a sum in 64 bits, so a delta of 2147483647 does not wrap.
	last, count := int64(b.LastOffset()), int64(b.Count())
	switch {
	case last < 0:
		return invalid(FaultInvalid, "Batch has an invalid offset range: [0, %d] in topic partition %s", last, rules.Partition)
	case count <= 0:
		return invalid(FaultInvalid, "Invalid reported count for record batch: %d in topic partition %s", count, rules.Partition)
	case last+1 != count:
		return invalid(FaultInvalid, "Inconsistent batch offset range [0, %d] and count of records %d in topic partition %s", last, count, rules.Partition)
	case b.IsControl():
		return invalid(FaultInvalid, "Clients are not allowed to write control records in topic partition %s", rules.Partition)
	case b.HasProducer() && b.BaseSequence() < 0:
		return invalid(FaultInvalid, "Invalid sequence number %d in record batch with producerId %d in topic partition %s", b.BaseSequence(), b.ProducerID(), rules.Partition)
	}
	return nil
}

var validations = pool[*validation]{new: func() *validation { return new(validation) }}

// A validation is one pass over a batch's records.
type validation struct {
	window
	batch   Batch
	rules   Rules
	target  Codec
	buf     []byte
	rewrite bool
	out     bounded // what the batch becomes, when rewrite

	maxTimestamp int64
	offsetOfMax  int32
	records      []RecordError
	refused      int  // records, of which the first maxRecordErrors are in records
	badTime      bool // one of them for its time
}

// maxRecordErrors is how many records of a batch are named to the client that sent it: enough for a person to read, where
// a hostile batch could have millions.
const maxRecordErrors = 1000

// errRenumber means that the deltas of the records' offsets are not 0, 1, 2 and so on.
var errRenumber = errors.New("record: offsets to be given anew")

// A structureError is about the batch as a whole: its records cannot be told apart.
type structureError string

func (e structureError) Error() string { return string(e) }

// run passes over the records once. Errors: errRenumber, structureError, *FormatError, *TooLargeError, or v.records.
func (v *validation) run() error {
	b := v.batch
	v.maxTimestamp, v.offsetOfMax, v.records, v.refused, v.badTime = -1, 0, nil, 0, false
	v.window.close()
	if v.rewrite {
		if err := v.out.open(v.target, v.rules.Level, v.buf, v.rules.MaxBytes); err != nil {
			return err
		}
	}
	if err := v.window.open(b, v.rules.InflateMax); err != nil {
		return err
	}
	base := b.BaseTimestamp()
	var s sketch
	for i := range b.Count() {
		whole, fault, err := v.window.next(&s)
		if err == nil && fault == "" && !whole {
			fault, err = v.long(&s, i)
		} else if err == nil && fault == "" {
			err = v.short(&s, i)
		}
		if err != nil {
			return err
		}
		if fault != "" {
			return structureError(fault)
		}
		if at := base + s.timestampDelta; at > v.maxTimestamp {
			v.maxTimestamp, v.offsetOfMax = at, i
		}
		v.check(&s, i, base+s.timestampDelta)
	}
	if !v.window.atEnd() {
		if err := v.window.failed(); err != nil {
			return err
		}
		return structureError(faultRemaining)
	}
	if v.refused > 0 {
		return errRecords
	}
	return nil
}

// errRecords stands for v.records.
var errRecords = errors.New("record: some are refused")

// short takes a record that is wholly in view.
func (v *validation) short(s *sketch, i int32) error {
	bytes := v.window.view[:s.size]
	v.window.view = v.window.view[s.size:]
	if !v.rewrite {
		if s.offsetDelta != i {
			return errRenumber
		}
		return nil
	}
	if s.offsetDelta == i {
		_, err := v.out.Write(bytes)
		return err
	}
	if err := v.renumber(s, i); err != nil {
		return err
	}
	_, err := v.out.Write(bytes[s.head:])
	return err
}

// long takes a record whose head alone is in view.
func (v *validation) long(s *sketch, i int32) (fault string, err error) {
	var tee io.Writer
	if v.rewrite {
		tee = &v.out
		if s.offsetDelta == i {
			_, err = tee.Write(v.window.view[:s.head])
		} else {
			err = v.renumber(s, i)
		}
		if err != nil {
			return "", err
		}
	} else if s.offsetDelta != i {
		return "", errRenumber
	}
	v.window.view = v.window.view[s.head:]
	return v.window.walkLong(s, tee)
}

// renumber writes the head of a record anew, with the right offset; the rest of it stays.
func (v *validation) renumber(s *sketch, i int32) error {
	rest := s.size - s.head
	var head [maxVarint32 + 1 + maxVarint64 + maxVarint32]byte
	h := binary.AppendVarint(head[:0], int64(1+varintSize(s.timestampDelta)+varintSize(int64(i))+rest))
	h = append(h, 0)
	h = binary.AppendVarint(h, s.timestampDelta)
	h = binary.AppendVarint(h, int64(i))
	_, err := v.out.Write(h)
	return err
}

// check is what a log demands of a single record.
func (v *validation) check(s *sketch, i int32, timestamp int64) {
	r := &v.rules
	switch {
	case r.Compacted && s.keySize < 0:
		v.blame(i, "Compacted topic cannot accept message without key in topic partition %s", r.Partition)
	case !r.LogAppendTime && timestamp != -1:
		if age := r.Now - timestamp; age > r.TimestampBeforeMaxMs || -age > r.TimestampAfterMaxMs {
			v.badTime = true
			v.blame(i, "Timestamp %d of message with offset %d is out of range. The timestamp should be within [%d, %d]",
				timestamp, s.offsetDelta, r.Now-r.TimestampBeforeMaxMs, r.Now+r.TimestampAfterMaxMs)
		}
	case v.batch.IsLogAppendTime():
		// So a client's LogAppendTime bit passes on a CreateTime topic if its records have times, and is cleared.
		v.badTime = true
		v.blame(i, "Invalid timestamp type in message DefaultRecord(offset=%d, timestamp=%d, key=%d bytes, value=%d bytes). Producer should not set timestamp type to LogAppendTime.",
			s.offsetDelta, timestamp, max(0, s.keySize), max(0, s.valueSize))
	}
}

func (v *validation) blame(i int32, format string, args ...any) {
	if v.refused++; v.refused <= maxRecordErrors {
		v.records = append(v.records, RecordError{Index: int(i), Message: fmt.Sprintf(format, args...)})
	}
}

// refuse turns an error of run into one for the client.
func (v *validation) refuse(err error) error {
	var structure structureError
	var large *TooLargeError
	switch {
	case err == errRecords && v.badTime:
		return &InvalidError{Fault: FaultTimestamp, Message: "One or more records have been rejected due to invalid timestamp", Records: v.records}
	case err == errRecords:
		var first []string
		for _, r := range v.records[:min(3, len(v.records))] {
			first = append(first, fmt.Sprintf("RecordError(batchIndex=%d, message='%s')", r.Index, r.Message))
		}
		return &InvalidError{Fault: FaultInvalid, Records: v.records, Message: fmt.Sprintf(
			"One or more records have been rejected due to %d record errors in total, and only showing the first three errors at most: [%s]",
			v.refused, strings.Join(first, ", "))}
	case errors.As(err, &structure):
		return &InvalidError{Fault: FaultInvalid, Message: string(structure)}
	case errors.As(err, &large):
		return invalid(FaultTooLarge, "The records in topic partition %s inflate to more than %d bytes", v.rules.Partition, large.Limit)
	}
	return invalid(FaultInvalid, "The records in topic partition %s cannot be inflated: %v", v.rules.Partition, err)
}

// finish completes the batch that was encoded anew.
func (v *validation) finish(maxTimestamp int64) (Batch, error) {
	out, err := v.out.finish()
	if err != nil {
		return nil, invalid(FaultInvalid, "The records in topic partition %s cannot be compressed: %v", v.rules.Partition, err)
	}
	if len(out) > v.rules.MaxBytes {
		return nil, invalid(FaultTooLarge, "Message batch size is %d bytes in append to partition %s which exceeds the maximum configured size of %d.",
			len(out), v.rules.Partition, v.rules.MaxBytes)
	}
	b := v.batch
	attributes := b.Attributes()&attrKnown&^(AttrCodecMask|AttrLogAppendTime|AttrDeleteHorizon) | int16(v.target)
	if v.rules.LogAppendTime {
		attributes |= AttrLogAppendTime
	}
	putHeader(out, header{
		leaderEpoch: b.LeaderEpoch(), attributes: attributes, lastOffsetDelta: b.LastOffsetDelta(),
		baseTimestamp: b.BaseTimestamp(), maxTimestamp: maxTimestamp,
		producerID: b.ProducerID(), producerEpoch: b.ProducerEpoch(), baseSequence: b.BaseSequence(), count: b.Count(),
	})
	return out, nil
}

func (v *validation) close() {
	v.window.close()
	v.out.drop()
	buf := v.window.buf
	*v = validation{window: window{buf: buf}}
	validations.put(v)
}

// A Fault is why a batch is refused; server gives each a Kafka error code.
type Fault int

const (
	FaultCorrupt          Fault = iota + 1 // CORRUPT_MESSAGE
	FaultInvalid                           // INVALID_RECORD
	FaultTooLarge                          // MESSAGE_TOO_LARGE
	FaultTimestamp                         // INVALID_TIMESTAMP
	FaultUnsupportedCodec                  // UNKNOWN_SERVER_ERROR, as Kafka says it
)

// An InvalidError says why a batch was refused, and which of its records were at fault.
type InvalidError struct {
	Fault   Fault
	Message string // Kafka's, where it has one
	Records []RecordError
}

// A RecordError names one record of a refused batch.
type RecordError struct {
	Index   int // within the batch
	Message string
}

func (e *InvalidError) Error() string { return e.Message }

func invalid(f Fault, format string, args ...any) error {
	return &InvalidError{Fault: f, Message: fmt.Sprintf(format, args...)}
}
