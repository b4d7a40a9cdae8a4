package tools

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/storage"
)

// A verifiedIndex is an index whose entries are read one by one while its log is walked. A missing one is empty: the next start builds
// it anew. The first bad byte ends it.
type verifiedIndex struct {
	v      *verifier
	name   string
	f      *os.File
	r      *bufio.Reader
	entry  []byte
	pos    int64 // of entry
	count  int64 // entries not yet read
	active bool  // a node that was killed leaves zeros behind the entries of its last segment
	some   bool  // entry holds one
}

func newVerifiedIndex(v *verifier, name string, entrySize int, active bool) *verifiedIndex {
	x := &verifiedIndex{v: v, name: name, entry: make([]byte, entrySize), pos: -int64(entrySize), active: active}
	f, size, err := openFile(name)
	if err != nil {
		if asJava(err).class != "java.nio.file.NoSuchFileException" {
			v.bad(name, -1, err.Error())
		}
		return x
	}
	x.f, x.r, x.count = f, bufio.NewReaderSize(f, dumpChunk), size/int64(entrySize)
	if rest := size % int64(entrySize); rest != 0 {
		x.bad(size-rest, fmt.Sprintf("%d bytes at the end are no whole entry, which has %d", rest, entrySize))
		return x
	}
	x.next()
	return x
}

func (x *verifiedIndex) close() {
	if x.f != nil {
		x.f.Close()
	}
}

func (x *verifiedIndex) bad(pos int64, why string) {
	x.v.bad(x.name, pos, why)
	x.some, x.count = false, 0
}

// next moves to the next entry, if there is one.
func (x *verifiedIndex) next() {
	if x.some = x.count > 0; !x.some {
		return
	}
	x.count--
	x.pos += int64(len(x.entry))
	if _, err := io.ReadFull(x.r, x.entry); err != nil {
		x.bad(x.pos, err.Error())
		return
	}
	if x.active && allZero(x.entry) && x.onlyZerosLeft() {
		x.some, x.count = false, 0
	}
}

// onlyZerosLeft reads to the file's end.
func (x *verifiedIndex) onlyZerosLeft() bool {
	at := x.pos + int64(len(x.entry))
	chunk := make([]byte, dumpChunk)
	for {
		n, err := x.f.ReadAt(chunk, at)
		if !allZero(chunk[:n]) {
			return false
		}
		if err != nil {
			return errors.Is(err, io.EOF)
		}
		at += int64(n)
	}
}

// An offsetCheck holds an .index against its log. An index is a hint, so an entry is good if a search that follows it finds what it
// looks for: it points at a batch that does not begin behind its offset.
type offsetCheck struct {
	idx     *verifiedIndex
	base    record.Offset
	last    record.Offset
	lastPos int32
}

// batch checks the entries that point at a batch or at nothing before it.
func (c *offsetCheck) batch(b *dumpedBatch) {
	for c.idx.some {
		e := storage.ParseOffsetEntry(c.idx.entry, c.base)
		switch {
		case e.Offset <= c.last || e.Pos <= c.lastPos:
			c.idx.bad(c.idx.pos, fmt.Sprintf("the entry of offset %d at position %d does not rise above the one before it, of %d at %d", e.Offset, e.Pos, c.last, c.lastPos))
			return
		case int64(e.Pos) > b.pos:
			return
		case int64(e.Pos) < b.pos:
			c.idx.bad(c.idx.pos, fmt.Sprintf("it points at position %d, where no batch begins", e.Pos))
			return
		case e.Offset < c.base || b.lastOffset < e.Offset && b.lastOffset < c.base:
			c.idx.bad(c.idx.pos, fmt.Sprintf("offset %d lies before its segment", e.Offset))
			return
		case b.Batch != nil && b.BaseOffset() > e.Offset:
			c.idx.bad(c.idx.pos, fmt.Sprintf("offset %d is said to be at position %d, where the batch begins at offset %d", e.Offset, e.Pos, b.BaseOffset()))
			return
		}
		c.last, c.lastPos = e.Offset, e.Pos
		c.idx.next()
	}
}

// finish checks what is left when the log has ended at an offset.
func (c *offsetCheck) finish(end record.Offset) {
	switch {
	case c.idx.some:
		e := storage.ParseOffsetEntry(c.idx.entry, c.base)
		c.idx.bad(c.idx.pos, fmt.Sprintf("it points at position %d, where no batch begins", e.Pos))
	case c.last >= end:
		c.idx.bad(c.idx.pos, fmt.Sprintf("it names offset %d, and the log ends at %d", c.last, end))
	}
}

// A timeCheck holds a .timeindex against its log: up to an entry's offset nothing is later than the entry's time.
type timeCheck struct {
	idx      *verifiedIndex
	base     record.Offset
	latest   int64 // of the batches so far
	last     record.Offset
	lastTime int64
}

func (c *timeCheck) batch(b *dumpedBatch) {
	for c.idx.some {
		e := storage.ParseTimeEntry(c.idx.entry, c.base)
		if e.Offset >= b.lastOffset {
			break
		}
		if !c.check(e) {
			return
		}
	}
	c.latest = max(c.latest, b.time())
}

func (c *timeCheck) check(e storage.TimeEntry) bool {
	why := ""
	switch {
	case e.Offset < c.base:
		why = fmt.Sprintf("offset %d lies before its segment", e.Offset)
	case e.Timestamp < c.lastTime || e.Offset < c.last:
		why = fmt.Sprintf("the entry of time %d and offset %d does not rise above the one before it, of %d and %d", e.Timestamp, e.Offset, c.lastTime, c.last)
	case c.latest > e.Timestamp:
		why = fmt.Sprintf("up to offset %d nothing is said to be later than %d, but a record there is of %d", e.Offset, e.Timestamp, c.latest)
	}
	if why != "" {
		c.idx.bad(c.idx.pos, why)
		return false
	}
	c.last, c.lastTime = e.Offset, e.Timestamp
	c.idx.next()
	return true
}

func (c *timeCheck) finish(end record.Offset) {
	for c.idx.some {
		e := storage.ParseTimeEntry(c.idx.entry, c.base)
		if e.Offset >= end && e.Offset > c.base { // an empty segment's only entry may name its base
			c.idx.bad(c.idx.pos, fmt.Sprintf("it names offset %d, and the log ends at %d", e.Offset, end))
			return
		}
		if !c.check(e) {
			return
		}
	}
}

// time is the latest of a batch in ms, -1 without any.
func (b *dumpedBatch) time() int64 {
	if b.Batch != nil {
		return b.MaxTimestamp()
	}
	return b.legacyTime
}

// txnIndex reads a .txnindex, if there is one: aborted transactions in the order of their ends, which lie in the segment.
func (v *verifier) txnIndex(name string, base, end record.Offset) {
	x := newVerifiedIndex(v, name, storage.TxnEntrySize, false)
	defer x.close()
	last := record.Offset(-1)
	for ; x.some; x.next() {
		e := storage.ParseTxnEntry(x.entry)
		why := ""
		switch {
		case e.Version != 0:
			why = fmt.Sprintf("version %d, of which nothing is known", e.Version)
		case e.FirstOffset > e.LastOffset:
			why = fmt.Sprintf("a transaction from offset %d to %d", e.FirstOffset, e.LastOffset)
		case e.LastOffset <= last:
			why = fmt.Sprintf("a transaction that ends at offset %d, after one that ends at %d", e.LastOffset, last)
		case e.LastOffset < base || e.LastOffset >= end:
			why = fmt.Sprintf("a transaction that ends at offset %d, outside of its segment (%d to %d)", e.LastOffset, base, end-1)
		}
		if why != "" {
			x.bad(x.pos, why)
			return
		}
		last = e.LastOffset
	}
}
