package tools

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/record"
)

const (
	// dumpChunk is read at a time where bytes only pass by.
	dumpChunk = 64 << 10
	// dumpInflateMax bounds what a batch may inflate to.
	dumpInflateMax = 256 << 20
)

// dumpCRC is the table of CRC-32C, which batches of magic 2 have.
var dumpCRC = crc32.MakeTable(crc32.Castagnoli)

// A dumpedBatch is the head of a batch in a file.
type dumpedBatch struct {
	record.Batch // the header alone, of magic 2
	pos, size    int64
	magic        int8
	lastOffset   record.Offset
	legacyTime   int64 // of magic below 2
	attributes   int16
	crc          uint32
	valid        bool
}

// batchWalk goes through the batches of a file from pos to end.
type batchWalk struct {
	f        *os.File
	name     string
	pos, end int64
	chunk    []byte
}

// next reads the head of the next batch; nil at the end, which is where no whole batch fits.
func (w *batchWalk) next() (*dumpedBatch, error) {
	if w.pos >= w.end-record.MinEntry {
		return nil, nil
	}
	var head [record.HeaderSize]byte
	n, err := w.f.ReadAt(head[:], w.pos)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, throw("java.io.IOException", err.Error())
	}
	if n < record.MinEntry {
		return nil, nil
	}
	size, err := record.EntrySize(head[:n])
	if err != nil {
		return nil, throw(kafkaErrors+"CorruptRecordException", fmt.Sprintf("Found record size %d smaller than minimum record overhead (%d) in file %s.",
			int32(binary.BigEndian.Uint32(head[8:])), 14, w.name))
	}
	if w.pos > w.end-size {
		return nil, nil
	}
	b := &dumpedBatch{pos: w.pos, size: size, magic: int8(head[record.MinEntry-1]), lastOffset: record.Offset(binary.BigEndian.Uint64(head[:]))}
	w.pos += size
	if b.magic < 0 || b.magic > 1 {
		b.Batch = record.Batch(head[:])
		if n < record.HeaderSize {
			return nil, throw("java.io.EOFException", fmt.Sprintf("Failed to read `file header` from file channel. Expected to read %d bytes, but reached end of file after reading %d bytes. Started read from position %d.",
				record.HeaderSize, n, b.pos))
		}
		b.lastOffset = b.LastOffset()
		b.attributes, b.crc = b.Attributes(), b.CRC()
		return b, nil
	}
	b.crc = binary.BigEndian.Uint32(head[record.LogOverhead:])
	b.attributes, b.legacyTime = int16(head[record.MinEntry]), -1
	if b.magic == 1 {
		b.legacyTime = int64(binary.BigEndian.Uint64(head[record.MinEntry+1:]))
	}
	return b, nil
}

// toEnd looks whether the heads of the batches from here to the end make sense. The walk itself stays where it is.
func (w *batchWalk) toEnd() error {
	ahead := batchWalk{f: w.f, name: w.name, pos: w.pos, end: w.end}
	for {
		if b, err := ahead.next(); b == nil || err != nil {
			return err
		}
	}
}

// check computes the checksum, reading the batch piece by piece.
func (w *batchWalk) check(b *dumpedBatch) error {
	from, table := b.pos+record.MinEntry-1, crc32.IEEETable
	if b.Batch != nil {
		from, table = b.pos+21, dumpCRC
		if b.size < record.HeaderSize {
			return nil
		}
	}
	if w.chunk == nil {
		w.chunk = make([]byte, dumpChunk)
	}
	sum := uint32(0)
	for end := b.pos + b.size; from < end; {
		part := w.chunk[:min(int64(len(w.chunk)), end-from)]
		if _, err := w.f.ReadAt(part, from); err != nil {
			return throw("java.io.IOException", err.Error())
		}
		sum = crc32.Update(sum, table, part)
		from += int64(len(part))
	}
	b.valid = sum == b.crc
	return nil
}

func (b *dumpedBatch) codec() record.Codec { return record.Codec(b.attributes & record.AttrCodecMask) }

func (b *dumpedBatch) control() bool { return b.Batch != nil && b.IsControl() }

func (b *dumpedBatch) timestampType() string {
	switch {
	case b.magic == 0:
		return "NoTimestampType"
	case b.attributes&record.AttrLogAppendTime != 0:
		return "LogAppendTime"
	}
	return "CreateTime"
}

// log dumps a .log or .checkpoint file.
func (d *dump) log(name string, decode decoder) error {
	if strings.HasSuffix(name, ".log") {
		start, err := baseOffset(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(d.out, "Log starting offset: %d\n", start)
	} else {
		title, err := checkpointTitle(name)
		if err != nil {
			return err
		}
		fmt.Fprintln(d.out, title)
	}
	f, size, err := openFile(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if d.maxBytes < 0 {
		return throw(illegalArgument, fmt.Sprintf("Invalid size: %d in read from FileRecords(size=%d, file=%s, start=0, end=2147483647)", d.maxBytes, size, name))
	}
	w := batchWalk{f: f, name: name, end: min(size, d.maxBytes)}
	last := int64(-1)
	for {
		b, err := w.next()
		if err != nil {
			return err
		}
		if b == nil {
			break
		}
		if err := w.check(b); err != nil {
			return err
		}
		if err := d.batch(b); err != nil {
			return err
		}
		if d.deep {
			if last, err = d.recordsOf(&w, b, decode, last); err != nil {
				return err
			}
		}
	}
	if rest := w.end - w.pos; rest > 0 && d.wholeFile() {
		fmt.Fprintf(d.out, "Found %d invalid bytes at the end of %s\n", rest, filepath.Base(name))
	}
	return nil
}

// batch prints the line of a batch.
func (d *dump) batch(b *dumpedBatch) error {
	maxTimestamp := b.legacyTime
	if b.Batch != nil {
		maxTimestamp = b.MaxTimestamp()
		horizon := "OptionalLong.empty"
		if b.HasDeleteHorizon() {
			horizon = fmt.Sprintf("OptionalLong[%d]", b.BaseTimestamp())
		}
		fmt.Fprintf(d.out, "baseOffset: %d lastOffset: %d count: %d baseSequence: %d lastSequence: %d producerId: %d producerEpoch: %d"+
			" partitionLeaderEpoch: %d isTransactional: %t isControl: %t deleteHorizonMs: %s",
			b.BaseOffset(), b.lastOffset, b.Count(), b.BaseSequence(), b.LastSequence(), b.ProducerID(), b.ProducerEpoch(),
			b.LeaderEpoch(), b.IsTransactional(), b.IsControl(), horizon)
	} else {
		fmt.Fprintf(d.out, "offset: %d", b.lastOffset)
	}
	if b.codec() > record.Zstd {
		return throw(illegalArgument, fmt.Sprintf("Unknown compression type id: %d", b.codec()))
	}
	_, err := fmt.Fprintf(d.out, " position: %d %s: %d size: %d magic: %d compresscodec: %s crc: %d isvalid: %t\n",
		b.pos, b.timestampType(), maxTimestamp, b.size, b.magic, b.codec(), b.crc, b.valid)
	return err
}

// read reads a batch whole. Its size was held against the file's before, so a claim alone allocates nothing.
func (d *dump) read(w *batchWalk, b *dumpedBatch) (record.Entry, error) {
	if int64(cap(d.buf)) < b.size {
		d.buf = make([]byte, b.size)
	}
	d.buf = d.buf[:b.size]
	if _, err := w.f.ReadAt(d.buf, b.pos); err != nil {
		return nil, throw("java.io.IOException", err.Error())
	}
	if b.Batch != nil {
		d.buf[record.MinEntry-1] = 2 // a later magic is read as if it were this one
	}
	e, err := record.FirstEntry(d.buf)
	if err != nil {
		return nil, invalidRecord(err)
	}
	return e, nil
}

func invalidRecord(err error) error {
	return throw("org.apache.kafka.common.InvalidRecordException", err.Error())
}

// recordsOf prints the records of a batch. It returns the offset of the last.
func (d *dump) recordsOf(w *batchWalk, b *dumpedBatch, decode decoder, last int64) (int64, error) {
	e, err := d.read(w, b)
	if err != nil {
		return last, err
	}
	if err := d.records.ResetEntry(e, dumpInflateMax); err != nil {
		return last, invalidRecord(err)
	}
	for d.records.Next() {
		r := d.records.Record()
		if int64(r.Offset) != last+1 {
			d.gaps.add(absolute(w.name), last, int64(r.Offset))
		}
		last = int64(r.Offset)
		if err := d.record(b, r, decode); err != nil {
			return last, err
		}
		if err := d.out.WriteByte('\n'); err != nil {
			return last, err
		}
	}
	if err := d.records.Err(); err != nil {
		return last, invalidRecord(err)
	}
	return last, nil
}

func sizeOf(field []byte) int {
	if field == nil {
		return -1
	}
	return len(field)
}

// record prints the line of a record, but for its end.
func (d *dump) record(b *dumpedBatch, r *record.Record, decode decoder) error {
	prefix := "| "
	if !d.skipMetadata {
		fmt.Fprintf(d.out, "| offset: %d %s: %d keySize: %d valueSize: %d", r.Offset, b.timestampType(), r.Timestamp, sizeOf(r.Key), sizeOf(r.Value))
		if b.Batch != nil {
			fmt.Fprintf(d.out, " sequence: %d headerKeys: [", sequenceOf(b, r))
			for i := range r.Headers {
				if i > 0 {
					d.out.WriteByte(',')
				}
				d.out.WriteString(javaText([]byte(r.Headers[i].Key)))
			}
			d.out.WriteByte(']')
		} else {
			m := d.records.Message()
			fmt.Fprintf(d.out, " isValid: %t crc: %d", m.Check() == nil, m.CRC())
		}
		prefix = " "
		if b.control() {
			if err := d.control(r); err != nil {
				return err
			}
		}
	}
	if !d.contents || b.control() {
		return nil
	}
	key, value, err := decode(r)
	if err != nil {
		return err
	}
	if key != nil {
		d.out.WriteString(prefix + "key: ")
		d.out.WriteString(*key)
		prefix = " "
	}
	if value != nil {
		d.out.WriteString(prefix + "payload: ")
		d.out.WriteString(*value)
	}
	return nil
}

// sequenceOf counts on from the batch's first sequence.
func sequenceOf(b *dumpedBatch, r *record.Record) int32 {
	base := b.BaseSequence()
	if base < 0 {
		return -1
	}
	return int32((int64(base) + int64(r.Offset-b.BaseOffset())) & math.MaxInt32)
}

// control prints what a control record says.
func (d *dump) control(r *record.Record) error {
	typ, err := record.ParseControlKey(r.Key)
	if err != nil {
		return invalidRecord(err)
	}
	if typ == record.ControlAbort || typ == record.ControlCommit {
		epoch, err := record.ParseEndTxnMarker(r.Value)
		if err != nil {
			return invalidRecord(err)
		}
		outcome := "ABORT"
		if typ == record.ControlCommit {
			outcome = "COMMIT"
		}
		fmt.Fprintf(d.out, " endTxnMarker: %s coordinatorEpoch: %d", outcome, epoch)
		return nil
	}
	c, version, err := kmeta.ReadControl(int16(typ), r.Value)
	if err != nil {
		if _, unknown := errors.AsType[*kmeta.TypeError](err); unknown {
			fmt.Fprintf(d.out, " controlType: UNKNOWN(%d)", typ)
			return nil
		}
		return invalidRecord(err)
	}
	space := " "
	if typ == record.ControlLeaderChange {
		space = ": "
	}
	fmt.Fprintf(d.out, " %s%s%s", c.TypeName(), space, kmeta.AppendControlJSON(nil, c, version))
	return nil
}

// A decoder turns a record into what stands after "key:" and "payload:"; nil leaves the part out.
type decoder func(r *record.Record) (key, value *string, err error)

// decoder returns the one that the command line asks for.
func (d *dump) decoder(set *joptSet) (decoder, error) {
	switch {
	case set.has("offsets-decoder"):
		return decodeCoordinator(kmeta.OffsetsLog), nil
	case set.has("transaction-log-decoder"):
		return decodeCoordinator(kmeta.TransactionsLog), nil
	case set.has("cluster-metadata-decoder"):
		return decodeMetadata, nil
	case set.has("remote-log-metadata-decoder"):
		return decodeRemoteLog, nil
	case set.has("share-group-state-decoder"):
		return decodeCoordinator(kmeta.SharesLog), nil
	}
	value, err := fieldDecoder(set, "value-decoder-class")
	if err != nil {
		return nil, err
	}
	key, err := fieldDecoder(set, "key-decoder-class")
	if err != nil {
		return nil, err
	}
	return func(r *record.Record) (k, v *string, err error) {
		if r.Key != nil {
			if k, err = key(r.Key); err != nil {
				return nil, nil, err
			}
		}
		if r.Value != nil {
			v, err = value(r.Value)
		}
		return k, v, err
	}, nil
}

// fieldDecoder makes the decoder of a class. Only those that come with Kafka are known.
func fieldDecoder(set *joptSet, option string) (func([]byte) (*string, error), error) {
	class, _, err := set.text(option)
	if err != nil {
		return nil, err
	}
	number := func(size int, text func(b []byte) string) func([]byte) (*string, error) {
		return func(b []byte) (*string, error) {
			if len(b) < size {
				return nil, throw("java.nio.BufferUnderflowException", "")
			}
			s := text(b)
			return &s, nil
		}
	}
	switch strings.TrimPrefix(class, "org.apache.kafka.tools.api.") {
	case "StringDecoder":
		return number(0, javaText), nil
	case "DefaultDecoder": // Java prints the array's address. The bytes are of more use.
		return number(0, func(b []byte) string { return string(b) }), nil
	case "IntegerDecoder":
		return number(4, func(b []byte) string { return strconv.Itoa(int(int32(binary.BigEndian.Uint32(b)))) }), nil
	case "LongDecoder":
		return number(8, func(b []byte) string { return strconv.FormatInt(int64(binary.BigEndian.Uint64(b)), 10) }), nil
	}
	return nil, throw("java.lang.RuntimeException", "Failed to load decoder class").because(throw("java.lang.ClassNotFoundException", class))
}

// javaText decodes UTF-8 as Java does: each longest beginning of a character that does not go on becomes one U+FFFD.
func javaText(b []byte) string { return string(appendJavaText(nil, b)) }
