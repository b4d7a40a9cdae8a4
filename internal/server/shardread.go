package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/quire-log/quire/internal/group"
	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/storage"
)

// A logReader reads a coordinator's log ahead of who replays it, so that a load takes as long as the slowest of three and not as all of
// them: one goroutine reads and checks batches, the next finds the records of those that are plain, and the third replays them.
type logReader struct {
	log     *storage.Log
	end     storage.Offset // where it stops
	atOnce  int64          // bytes
	gone    func() bool    // nobody wants the log any more
	damaged func(storage.Offset, error)
	bytes   int64        // of batches; to be looked at when pieces is closed
	ahead   *group.Ahead // prepares records, if it is not nil

	filled chan *piece // what was read and is to be cut, in order; closed at the end
	pieces chan *piece // what is to be replayed, in order; closed at the end
	used   chan *piece // what was replayed, to be filled again
}

// A piece is what one read of the log brought: batches, and once they are cut, records, and between them batches that whoever replays
// them cuts itself.
type piece struct {
	buf   []byte
	from  storage.Offset // what lies before is not of the log any more
	sizes []int32        // of the entries that buf begins with; below 0: of one that is damaged, or lies before from
	spans []record.Span  // of buf
	whole []wholeBatch
	err   error // the log cannot be read from here on

	prepared []group.Prepared // of spans, one each, if records are prepared
}

// A wholeBatch is a batch of a piece that is compressed or part of a transaction, a marker, or a message of an old set. It was checked.
type wholeBatch struct {
	after int // how many of the piece's spans come before it
	batch record.Entry
	from  storage.Offset // what lies before is not of the log any more
}

// piecesAhead are the pieces of a load: one is replayed, one is cut, one is filled, and the others make up for any of these being slower
// for a while. They share the load's buffer with what is found in them, which takes more than the bytes of small records do.
const piecesAhead = 6

// pieces are kept with memory for the largest read that they were used for.
var pieces = sync.Pool{New: func() any { return new(piece) }}

// readLog begins to read a log, with a buffer of so many bytes.
func readLog(log *storage.Log, buffer int, gone func() bool, damaged func(storage.Offset, error)) *logReader {
	r := &logReader{log: log, end: log.EndOffset(), atOnce: max(int64(buffer)*2/5/piecesAhead, 1), gone: gone, damaged: damaged}
	r.filled, r.pieces, r.used = make(chan *piece, piecesAhead), make(chan *piece, piecesAhead), make(chan *piece, piecesAhead)
	for range cap(r.used) {
		r.used <- pieces.Get().(*piece)
	}
	return r
}

// done gives a piece back that was replayed.
func (r *logReader) done(p *piece) {
	clear(p.whole)
	p.sizes, p.spans, p.prepared, p.whole, p.err = p.sizes[:0], p.spans[:0], p.prepared[:0], p.whole[:0], nil
	r.used <- p
}

// close lets the memory go, when all pieces were given back.
func (r *logReader) close() {
	for range cap(r.used) {
		pieces.Put(<-r.used)
	}
}

// fill reads until the end, or until the log cannot be read.
func (r *logReader) fill() {
	defer close(r.filled)
	for at := r.log.StartOffset(); at < r.end; {
		next, err := r.read(at)
		if err != nil {
			p := <-r.used
			p.err = err
			r.filled <- p
			return
		}
		if next <= at { // what lies before the end are no batches, but offsets of some that are gone
			return
		}
		at = next
	}
}

// cut finds the records of what fill has read.
func (r *logReader) cut() {
	defer close(r.pieces)
	for p := range r.filled {
		pos := 0
		for _, size := range p.sizes {
			if size > 0 {
				r.entry(p, record.Entry(p.buf[pos:pos+int(size):pos+int(size)]), pos)
			}
			pos += int(max(size, -size))
		}
		r.pieces <- p
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
		p := <-r.used
		p.buf = slices.Grow(p.buf[:0], int(region.Len))[:region.Len]
		p.from = at
		n, err := region.File.ReadAt(p.buf, region.Pos)
		switch {
		case n == len(p.buf):
			next, err = r.check(p, next)
		case err == nil || errors.Is(err, io.EOF):
			err = io.ErrUnexpectedEOF
		}
		r.filled <- p
		if err != nil {
			return next, fmt.Errorf("at offset %d: %w", at, err)
		}
	}
	return next, nil
}

// check finds the batches of a piece and checks their sums, and returns the offset behind them.
func (r *logReader) check(p *piece, next storage.Offset) (storage.Offset, error) {
	for left := p.buf; len(left) > 0; {
		e, err := record.FirstEntry(left)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			break // the bytes end within a batch
		} else if err != nil {
			return next, err
		}
		size := int32(len(e))
		if e.LastOffset() < p.from {
			size = -size
		} else if err := e.Check(); err != nil {
			r.damaged(e.BaseOffset(), err)
			size = -size
		}
		p.sizes = append(p.sizes, size)
		next = e.LastOffset() + 1
		left = left[len(e):]
		r.bytes += int64(len(e))
	}
	return next, nil
}

// entry adds to p what is at a position of it. What lies before p.from is left out.
func (r *logReader) entry(p *piece, e record.Entry, pos int) {
	n := len(p.spans)
	if !isPlain(e) {
		p.whole = append(p.whole, wholeBatch{n, e, p.from})
		return
	}
	var err error
	if p.spans, err = record.AppendSpans(p.spans, e.Batch(), pos); err != nil {
		r.damaged(e.BaseOffset(), err)
	}
	if e.BaseOffset() < p.from {
		rest := slices.DeleteFunc(p.spans[n:], func(s record.Span) bool { return s.Offset < p.from })
		p.spans = p.spans[:n+len(rest)]
	}
	if r.ahead == nil {
		return
	}
	p.prepared = slices.Grow(p.prepared[:n], len(p.spans)-n)[:len(p.spans)]
	for i := n; i < len(p.spans); i++ {
		s := &p.spans[i]
		r.ahead.Prepare(&p.prepared[i], s.Key(p.buf), s.Value(p.buf), int64(s.Offset))
	}
}

// isPlain tells whether a batch is nothing but records as they are.
func isPlain(e record.Entry) bool {
	return e.Magic() == 2 && e.Codec() == record.None && !e.Batch().IsControl() && !e.Batch().IsTransactional()
}
