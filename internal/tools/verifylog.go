package tools

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/storage"
)

// A verifiedPartition is the directory of a partition. Its segments are read in order, the lowest first.
type verifiedPartition struct {
	v    *verifier
	dir  string
	logs []string
	end  record.Offset // of the segment before; -1: this is the first
}

// segment reads a segment's log and holds its indexes against it.
func (p *verifiedPartition) segment(name string) {
	v := p.v
	v.segments++
	base, err := baseOffset(name)
	if err != nil {
		v.bad(name, -1, "the name is not that of a segment: 20 digits, the offset of its first record")
		return
	}
	f, size, err := openFile(name)
	if err != nil {
		v.bad(name, -1, err.Error())
		return
	}
	defer f.Close()
	if base < p.end {
		v.bad(name, 0, fmt.Sprintf("it begins at offset %d, and the segment before it ends at %d", base, p.end))
	}
	stem := strings.TrimSuffix(name, ".log")
	active := name == p.logs[len(p.logs)-1]
	w := &verifiedLog{v: v, f: f, name: name, size: size, end: base}
	offsets := newVerifiedIndex(v, stem+".index", storage.OffsetEntrySize, active)
	times := newVerifiedIndex(v, stem+".timeindex", storage.TimeEntrySize, active)
	defer offsets.close()
	defer times.close()
	oc, tc := offsetCheck{idx: offsets, base: base, last: -1, lastPos: -1}, timeCheck{idx: times, base: base, latest: -1, lastTime: -1}
	whole := w.walk(func(b *dumpedBatch) {
		oc.batch(b)
		tc.batch(b)
	})
	if whole { // what lies behind a bad byte is not known
		oc.finish(w.end)
		tc.finish(w.end)
		v.txnIndex(stem+".txnindex", base, w.end)
	}
	p.end = max(w.end, base)
}

// A verifiedLog is a file of batches.
type verifiedLog struct {
	v    *verifier
	f    *os.File
	name string
	size int64
	end  record.Offset // the least that the next batch may begin at
}

// walk reads batch after batch and hands each good one on. It tells of the first bad byte, and returns whether there is none.
func (w *verifiedLog) walk(each func(*dumpedBatch)) bool {
	walk := batchWalk{f: w.f, name: w.name, end: w.size}
	for walk.pos < w.size {
		pos, why := w.batch(&walk, each)
		if why != "" {
			if w.end > 0 {
				why += fmt.Sprintf(" (good up to offset %d)", w.end-1)
			}
			w.v.bad(w.name, pos, why)
			return false
		}
	}
	return true
}

// batch reads the next batch. why is "" if it is good.
func (w *verifiedLog) batch(walk *batchWalk, each func(*dumpedBatch)) (pos int64, why string) {
	pos = walk.pos
	head := make([]byte, record.MinEntry)
	if n, err := w.f.ReadAt(head, pos); err != nil && !errors.Is(err, io.EOF) {
		return pos, err.Error()
	} else if n < record.MinEntry {
		return pos, fmt.Sprintf("the file ends after %d bytes of a batch's head: a write that was cut short", n)
	}
	size, err := record.EntrySize(head)
	switch {
	case err != nil && allZero(head):
		return pos, "zeros where a batch should begin: room that was never written to"
	case err != nil:
		return pos, err.Error()
	case size > w.size-pos:
		return pos, fmt.Sprintf("the file ends %d bytes before this batch of %d does: a write that was cut short, or a bad length", size-(w.size-pos), size)
	}
	if magic := int8(head[record.MinEntry-1]); magic < 0 || magic > 2 {
		return pos + record.MinEntry - 1, fmt.Sprintf("magic %d, which no version of Kafka has", magic)
	}
	walk.pos = pos
	b, err := walk.next()
	if err != nil {
		return pos, asJava(err).text()
	}
	if b == nil { // batchWalk is stricter about the last bytes of a file
		return pos, "the file ends inside this batch"
	}
	if err := walk.check(b); err != nil {
		return pos, asJava(err).text()
	}
	if !b.valid {
		return pos, fmt.Sprintf("the checksum of the batch is %08x, and not that of its bytes", b.crc)
	}
	first, why := w.records(b)
	switch {
	case why != "":
		return pos, why
	case first < w.end:
		return pos, fmt.Sprintf("the batch begins at offset %d, though the one before it ends at %d", first, w.end-1)
	case b.lastOffset < first:
		return pos, fmt.Sprintf("the batch ends at offset %d, before it begins, at %d", b.lastOffset, first)
	}
	w.v.batches++
	w.end = b.lastOffset + 1
	w.v.bar.add(b.size, filepath.Base(filepath.Dir(w.name)))
	each(b)
	return pos, ""
}

// records reads the records of a batch whose checksum is right, and returns the offset of the first.
func (w *verifiedLog) records(b *dumpedBatch) (first record.Offset, why string) {
	v := w.v
	if int64(cap(v.buf)) < b.size {
		v.buf = make([]byte, b.size)
	}
	v.buf = v.buf[:b.size]
	if _, err := w.f.ReadAt(v.buf, b.pos); err != nil {
		return 0, err.Error()
	}
	e, err := record.FirstEntry(v.buf)
	if err == nil {
		err = e.Check()
	}
	if err == nil {
		err = v.reader.ResetEntry(e, record.DefaultInflateMax)
	}
	if err != nil {
		return 0, err.Error()
	}
	first = b.lastOffset
	if b.magic == 2 {
		first = b.BaseOffset()
	}
	last := record.Offset(-1)
	for v.reader.Next() {
		offset := v.reader.Record().Offset
		v.records++
		if b.magic < 2 {
			first = min(first, offset)
		}
		if offset <= last || offset > b.lastOffset || offset < first {
			return 0, fmt.Sprintf("a record of offset %d in a batch of offsets %d to %d, after one of %d", offset, first, b.lastOffset, last)
		}
		last = offset
	}
	if err := v.reader.Err(); err != nil {
		return 0, err.Error()
	}
	return first, ""
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
