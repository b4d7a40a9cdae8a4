package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/storage"
)

// A logReader reads a coordinator's log ahead of who replays it, so that a load takes as long as the slower of the two, not as both. It
// reads and checks batches, and cuts those that are plain into records.
type logReader struct {
	log     *storage.Log
	end     storage.Offset // where it stops
	atOnce  int64          // bytes
	gone    func() bool    // nobody wants the log any more
	damaged func(storage.Offset, error)
	bytes   int64 // of batches; to be looked at when cuts is closed
	reader  record.Reader

	cuts   chan *cut    // what is to be replayed, in order; closed at the end
	used   chan *cut    // what was replayed, to be filled again
	unused chan *[]byte // buffers of which nothing is to be replayed any more
}

// A cut is a piece of the log.
type cut struct {
	records []coordEntry // views of a buffer, with no producer
	// batch comes after them, if it is not nil: one that is compressed or part of a transaction, a marker, or a message of an old set.
	// Whoever replays it cuts it; it was checked.
	batch record.Entry
	from  storage.Offset // what lies before is not of the log any more
	buf   *[]byte        // if not nil, the last views of it are in this cut
	err   error          // the log cannot be read from here on
}

const (
	// cutRecords are in a cut, and the rest of the batch with which there are as many.
	cutRecords = 1024
	// cutsAhead bounds the cuts that wait to be replayed.
	cutsAhead = 2
)

// loadBuffers are as large as the largest read that they were used for.
var loadBuffers = sync.Pool{New: func() any { return new([]byte) }}

// readLog begins to read a log. The reader has two buffers, which have room for atOnce bytes together.
func readLog(log *storage.Log, atOnce int, gone func() bool, damaged func(storage.Offset, error)) *logReader {
	r := &logReader{log: log, end: log.EndOffset(), atOnce: int64(max(atOnce/2, 1)), gone: gone, damaged: damaged}
	r.cuts, r.used, r.unused = make(chan *cut, cutsAhead), make(chan *cut, cutsAhead+2), make(chan *[]byte, 2)
	for range cap(r.used) {
		r.used <- new(cut)
	}
	for range cap(r.unused) {
		r.unused <- loadBuffers.Get().(*[]byte)
	}
	return r
}

// done gives a cut back that was replayed.
func (r *logReader) done(c *cut) {
	if c.buf != nil {
		r.unused <- c.buf
	}
	*c = cut{records: c.records[:0]}
	r.used <- c
}

// close gives the buffers back, when all cuts were.
func (r *logReader) close() {
	for range cap(r.unused) {
		loadBuffers.Put(<-r.unused)
	}
}

// run reads until the end, or until the log cannot be read.
func (r *logReader) run() {
	defer close(r.cuts)
	for at := r.log.StartOffset(); at < r.end; {
		next, err := r.read(at)
		if err != nil {
			c := <-r.used
			c.err = err
			r.cuts <- c
			return
		}
		if next <= at { // what lies before the end are no batches, but offsets of some that are gone
			return
		}
		at = next
	}
}

// read reads once, and returns the offset that follows.
func (r *logReader) read(at storage.Offset) (next storage.Offset, err error) {
	if r.gone() {
		return at, context.Canceled
	}
	d, err := r.log.Read(at, storage.ReadOptions{MaxBytes: r.atOnce, Limit: r.end, MinOneBatch: true})
	if err != nil {
		var moved *storage.OutOfRangeError
		if start := r.log.StartOffset(); errors.As(err, &moved) && at < start {
			return start, nil // retention was faster
		}
		return at, err
	}
	defer d.Release()
	next = at
	for _, region := range d.Regions {
		buf := <-r.unused
		if int64(cap(*buf)) < region.Len {
			*buf = make([]byte, region.Len)
		}
		b := (*buf)[:region.Len]
		n, err := region.File.ReadAt(b, region.Pos)
		switch {
		case n == len(b):
			next, err = r.cut(b, at, next, buf)
		default:
			r.unused <- buf
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
		}
		if err != nil {
			return next, fmt.Errorf("at offset %d: %w", at, err)
		}
	}
	return next, nil
}

// cut cuts the batches in b, of which what lies before offset from is left out, and returns the offset behind them. buf is what holds b.
func (r *logReader) cut(b []byte, from, next storage.Offset, buf *[]byte) (storage.Offset, error) {
	c := <-r.used
	send := func() {
		r.cuts <- c
		c = <-r.used
	}
	var err error
	for len(b) > 0 {
		var e record.Entry
		if e, err = record.FirstEntry(b); err != nil {
			break
		}
		if e.LastOffset() >= from {
			if err := e.Check(); err != nil {
				r.damaged(e.BaseOffset(), err)
			} else if !isPlain(e) {
				c.batch, c.from = e, from
				send()
			} else {
				r.records(e, from, c)
				if len(c.records) >= cutRecords {
					send()
				}
			}
		}
		next = e.LastOffset() + 1
		b = b[len(e):]
		r.bytes += int64(len(e))
	}
	c.buf = buf
	r.cuts <- c
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return next, nil // the bytes end within a batch
	}
	return next, err
}

// isPlain tells whether a batch is nothing but records as they are.
func isPlain(e record.Entry) bool {
	return e.Magic() == 2 && e.Codec() == record.None && !e.Batch().IsControl() && !e.Batch().IsTransactional()
}

// records adds a batch's records to c.
func (r *logReader) records(e record.Entry, from storage.Offset, c *cut) {
	if err := r.reader.ResetEntry(e, loadInflateMax); err != nil {
		r.damaged(e.BaseOffset(), err)
		return
	}
	for r.reader.Next() {
		if x := r.reader.Record(); x.Offset >= from {
			c.records = append(c.records, coordEntry{coordRecord{x.Key, x.Value}, int64(x.Offset), nil})
		}
	}
	if err := r.reader.Err(); err != nil {
		r.damaged(e.BaseOffset(), err)
	}
}
