package tools

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/storage"
)

// dumpSnapshotMax bounds what is read of a .snapshot file: a million producers.
const dumpSnapshotMax = 64 << 20

// An index is told from its segment's other files, which Kafka looks for by their absolute names.

// sibling is the file of the same segment with another suffix.
func sibling(name, suffix string) string {
	stem, _, _ := strings.Cut(filepath.Base(name), ".")
	dir := strings.TrimSuffix(absolute(name), "/"+filepath.Base(name))
	return dir + "/" + stem + suffix
}

// entries reads an index's entries in order, of which the file has count.
type entries struct {
	r     *bufio.Reader
	count int64
	entry []byte
}

func newEntries(f *os.File, size int64, entrySize int) *entries {
	return &entries{r: bufio.NewReaderSize(f, dumpChunk), count: size / int64(entrySize), entry: make([]byte, entrySize)}
}

func (e *entries) next() error {
	if _, err := io.ReadFull(e.r, e.entry); err != nil {
		return throw("java.io.IOException", err.Error())
	}
	return nil
}

// openIndex opens an index and its segment's log.
func openIndex(name string) (base record.Offset, log, index *os.File, logSize, size int64, err error) {
	if base, err = baseOffset(name); err != nil {
		return
	}
	if log, logSize, err = openFile(sibling(name, ".log")); err != nil {
		return
	}
	if index, size, err = openFile(name); err != nil {
		log.Close()
	}
	return
}

func (d *dump) index(name string) error {
	base, log, file, logSize, size, err := openIndex(name)
	if err != nil {
		return err
	}
	defer log.Close()
	defer file.Close()
	all := newEntries(file, size, storage.OffsetEntrySize)
	if all.count == 0 {
		fmt.Fprintf(d.out, "%s is empty.\n", name)
		return nil
	}
	if d.sanityOnly {
		var last [storage.OffsetEntrySize]byte
		if _, err := file.ReadAt(last[:], (all.count-1)*storage.OffsetEntrySize); err != nil {
			return throw("java.io.IOException", err.Error())
		}
		if e := storage.ParseOffsetEntry(last[:], base); e.Offset < base {
			return corruptIndex("Corrupt index found, index file %s has non-zero size but the last offset is %d which is less than the base offset %d", absolute(name), e.Offset, base)
		}
		if size%storage.OffsetEntrySize != 0 {
			return corruptIndex("Index file %s is corrupt, found %d bytes which is neither positive nor a multiple of %d", absolute(name), size, storage.OffsetEntrySize)
		}
		fmt.Fprintf(d.out, "%s passed sanity check.\n", name)
		return nil
	}
	for i := range all.count {
		if err := all.next(); err != nil {
			return err
		}
		e := storage.ParseOffsetEntry(all.entry, base)
		if e.Offset == base && i > 0 {
			return nil // the zeros behind the entries of an index in use
		}
		if e.Pos < 0 {
			return throw(illegalArgument, fmt.Sprintf("Invalid position: %d in read from FileRecords(size=%d, file=%s, start=0, end=2147483647)", e.Pos, logSize, sibling(name, ".log")))
		}
		if int64(e.Pos) > logSize {
			return throw(illegalArgument, fmt.Sprintf("Slice from position %d exceeds end position of FileRecords(size=%d, file=%s, start=0, end=2147483647)", e.Pos, logSize, sibling(name, ".log")))
		}
		w := batchWalk{f: log, name: sibling(name, ".log"), pos: int64(e.Pos), end: min(logSize, int64(e.Pos)+d.maxMessage)}
		b, err := w.next()
		if err != nil {
			return err
		}
		if b == nil {
			return throw("java.util.NoSuchElementException", "")
		}
		if b.lastOffset != e.Offset {
			d.mismatches.add(absolute(name), int64(e.Offset), int64(b.lastOffset))
		}
		if !d.verifyOnly {
			fmt.Fprintf(d.out, "offset: %d position: %d\n", e.Offset, e.Pos)
		}
	}
	return nil
}

func corruptIndex(format string, a ...any) error {
	return throw("org.apache.kafka.storage.internals.log.CorruptIndexException", fmt.Sprintf(format, a...))
}

func (d *dump) timeIndex(name string) error {
	base, log, file, logSize, size, err := openIndex(name)
	if err != nil {
		return err
	}
	defer log.Close()
	defer file.Close()
	offsets, offsetsSize, err := openFile(sibling(name, ".index"))
	if err != nil {
		return err
	}
	defer offsets.Close()
	all := newEntries(file, size, storage.TimeEntrySize)
	if d.sanityOnly {
		return d.timeIndexSanity(name, base, file, size, all.count)
	}
	lookup := positionLookup{f: offsets, count: offsetsSize / storage.OffsetEntrySize, base: base}
	previous, walked := int64(-1), int64(-1)
	for i := range all.count {
		if err := all.next(); err != nil {
			return err
		}
		e := storage.ParseTimeEntry(all.entry, base)
		if e.Offset == base && i > 0 {
			return nil
		}
		pos, err := lookup.find(e.Offset)
		if err != nil {
			return err
		}
		if pos < 0 || int64(pos) > logSize {
			return throw(illegalArgument, fmt.Sprintf("Slice from position %d exceeds end position of FileRecords(size=%d, file=%s, start=0, end=2147483647)", pos, logSize, sibling(name, ".log")))
		}
		w := batchWalk{f: log, name: sibling(name, ".log"), pos: int64(pos), end: logSize}
		// Kafka walks from each entry to the log's end, and stops at a nonsense size behind all that the index names. One
		// walk from the lowest position says the same.
		if walked < 0 || w.pos < walked {
			if err := w.toEnd(); err != nil {
				return err
			}
			walked = w.pos
		}
		if err := d.timeEntry(name, &w, e, previous); err != nil {
			return err
		}
		if !d.verifyOnly {
			fmt.Fprintf(d.out, "timestamp: %d offset: %d\n", e.Timestamp, e.Offset)
		}
		previous = e.Timestamp
	}
	return nil
}

// timeEntry holds an entry against the batch that it names.
func (d *dump) timeEntry(name string, w *batchWalk, e storage.TimeEntry, previous int64) error {
	path := absolute(name)
	for {
		b, err := w.next()
		switch {
		case err != nil:
			return err
		case b == nil:
			d.absent.add(path, int64(e.Offset), -1)
			return nil
		case b.lastOffset < e.Offset:
			continue
		case b.lastOffset > e.Offset:
			d.absent.add(path, int64(e.Offset), int64(b.lastOffset))
			return nil
		}
		found, err := d.maxTimestamp(w, b)
		if err != nil {
			return err
		}
		if found != e.Timestamp {
			d.times.add(path, e.Timestamp, found)
		}
		if previous >= e.Timestamp {
			d.disorder.add(path, e.Timestamp, previous)
		}
		return nil
	}
}

// maxTimestamp looks at every record of a batch; -1 if it has none.
func (d *dump) maxTimestamp(w *batchWalk, b *dumpedBatch) (int64, error) {
	e, err := d.read(w, b)
	if err != nil {
		return 0, err
	}
	if err := d.records.ResetEntry(e, dumpInflateMax); err != nil {
		return 0, invalidRecord(err)
	}
	most := int64(-1)
	for d.records.Next() {
		most = max(most, d.records.Record().Timestamp)
	}
	if err := d.records.Err(); err != nil {
		return 0, invalidRecord(err)
	}
	return most, nil
}

func (d *dump) timeIndexSanity(name string, base record.Offset, file *os.File, size, count int64) error {
	if count > 0 {
		var first, last [storage.TimeEntrySize]byte
		_, err := file.ReadAt(first[:], 0)
		if err == nil {
			_, err = file.ReadAt(last[:], (count-1)*storage.TimeEntrySize)
		}
		if err != nil {
			return throw("java.io.IOException", err.Error())
		}
		a, z := storage.ParseTimeEntry(first[:], base), storage.ParseTimeEntry(last[:], base)
		const head = "Corrupt time index found, time index file (%s) has non-zero size but the last "
		if z.Timestamp < a.Timestamp {
			return corruptIndex(head+"timestamp is %d which is less than the first timestamp %d", absolute(name), z.Timestamp, a.Timestamp)
		}
		if z.Offset < base {
			return corruptIndex(head+"offset is %d which is less than the first offset %d", absolute(name), z.Offset, base)
		}
	}
	if size%storage.TimeEntrySize != 0 {
		return corruptIndex("Time index file %s is corrupt, found %d bytes which is neither positive nor a multiple of %d", absolute(name), size, storage.TimeEntrySize)
	}
	fmt.Fprintf(d.out, "%s passed sanity check.\n", name)
	return nil
}

// positionLookup finds where in the log to look for an offset, by its .index. It searches as Kafka does, hot end first: on an
// index whose entries do not rise, such as one with zeros behind them, the way decides what is found.
type positionLookup struct {
	f     *os.File
	count int64
	base  record.Offset
}

// hotEntries are those at an index's end that Kafka searches by themselves.
const hotEntries = 8192 / storage.OffsetEntrySize

func (l *positionLookup) entry(i int64) (storage.OffsetEntry, error) {
	var b [storage.OffsetEntrySize]byte
	if _, err := l.f.ReadAt(b[:], i*storage.OffsetEntrySize); err != nil {
		return storage.OffsetEntry{}, throw("java.io.IOException", err.Error())
	}
	return storage.ParseOffsetEntry(b[:], l.base), nil
}

// find returns the position of the last entry not above offset, 0 without one.
func (l *positionLookup) find(offset record.Offset) (int32, error) {
	if l.count == 0 {
		return 0, nil
	}
	hot := max(0, l.count-1-hotEntries)
	e, err := l.entry(hot)
	if err != nil {
		return 0, err
	}
	low, high := hot, l.count-1
	if e.Offset >= offset {
		first, err := l.entry(0)
		if err != nil || first.Offset > offset {
			return 0, err
		}
		low, high = 0, hot
	}
	for low < high {
		mid := (low + high + 1) / 2
		e, err := l.entry(mid)
		switch {
		case err != nil:
			return 0, err
		case e.Offset > offset:
			high = mid - 1
		case e.Offset < offset:
			low = mid
		default:
			return e.Pos, nil
		}
	}
	e, err = l.entry(low)
	return e.Pos, err
}

func (d *dump) txnIndex(name string) error {
	if _, err := baseOffset(name); err != nil {
		return err
	}
	f, size, err := openFile(name)
	if err != nil {
		return err
	}
	defer f.Close()
	all := newEntries(f, size, storage.TxnEntrySize)
	for range all.count {
		if err := all.next(); err != nil {
			return err
		}
		e := storage.ParseTxnEntry(all.entry)
		fmt.Fprintf(d.out, "version: %d producerId: %d firstOffset: %d lastOffset: %d lastStableOffset: %d\n",
			e.Version, e.ProducerID, e.FirstOffset, e.LastOffset, e.LastStableOffset)
	}
	return nil
}

func (d *dump) snapshot(name string) error {
	f, size, err := openFile(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if size > dumpSnapshotMax {
		return throw("java.io.IOException", fmt.Sprintf("%s has %d bytes, more than the %d of any snapshot of producers", name, size, dumpSnapshotMax))
	}
	b, err := io.ReadAll(io.LimitReader(f, size))
	if err != nil {
		return throw("java.io.IOException", err.Error())
	}
	producers, err := storage.ParseProducerSnapshot(b)
	if err != nil {
		if err := d.out.Flush(); err != nil {
			return nil
		}
		fmt.Fprintln(d.err, snapshotComplaint(b, err))
		return nil
	}
	for _, p := range producers {
		txn := "OptionalLong.empty"
		if p.TxnFirstOffset >= 0 {
			txn = fmt.Sprintf("OptionalLong[%d]", p.TxnFirstOffset)
		}
		fmt.Fprintf(d.out, "producerId: %d producerEpoch: %d coordinatorEpoch: %d currentTxnFirstOffset: %s lastTimestamp: %d",
			p.ProducerID, p.Epoch, p.CoordinatorEpoch, txn, p.LastTimestamp)
		if p.LastOffset >= 0 {
			fmt.Fprintf(d.out, " firstSequence: %d lastSequence: %d lastOffset: %d offsetDelta: %d timestamp: %d",
				p.FirstSequence, p.LastSequence, p.LastOffset, p.OffsetDelta, p.LastTimestamp)
		}
		fmt.Fprintln(d.out)
	}
	return nil
}

// snapshotComplaint tells in Kafka's words why a .snapshot file cannot be read.
func snapshotComplaint(b []byte, err error) string {
	const crcPos, crcFrom, head = 2, 6, 10
	why := err.Error()
	if len(b) < head {
		return "Snapshot failed schema validation: null"
	}
	version, count := binary.BigEndian.Uint16(b), int32(binary.BigEndian.Uint32(b[crcFrom:]))
	stored, computed := binary.BigEndian.Uint32(b[crcPos:]), crc32.Checksum(b[crcFrom:], dumpCRC)
	switch {
	case version != 1:
		why = fmt.Sprintf("Snapshot contained an unknown file version %d", int16(version))
	case int64(count) > int64(len(b)-head):
		why = fmt.Sprintf("Tried to allocate a collection of size %d, but there are only %d bytes remaining.", count, len(b)-head)
	case stored != computed:
		return fmt.Sprintf("Snapshot is corrupt (CRC is no longer valid). Stored crc: %d. Computed crc: %d", stored, computed)
	}
	return "Snapshot failed schema validation: " + why
}
