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

// A logReader reads a coordinator's log ahead of who replays it, so that a load takes as long as the slower of the two, not as both. It
// reads and checks batches, and finds the records of those that are plain.
type logReader struct {
	log     *storage.Log
	end     storage.Offset // where it stops
	atOnce  int64          // bytes
	gone    func() bool    // nobody wants the log any more
	damaged func(storage.Offset, error)
	bytes   int64        // of batches; to be looked at when pieces is closed
	ahead   *group.Ahead // prepares records, if it is not nil

	pieces chan *piece // what is to be replayed, in order; closed at the end
	used   chan *piece // what was replayed, to be filled again
}

// A piece is what one read of the log brought: records, and between them batches that whoever replays them cuts itself.
type piece struct {
	buf   []byte
	spans []record.Span // of buf
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

// piecesAhead are the pieces of a load: one is replayed, one is filled, and the others make up for either being slower for a while.
// They share the load's buffer with what is found in them, which takes more than the bytes of small records do.
const piecesAhead = 5

// pieces are kept with memory for the largest read that they were used for.
var pieces = sync.Pool{New: func() any { return new(piece) }}

// readLog begins to read a log, with a buffer of so many bytes.
func readLog(log *storage.Log, buffer int, gone func() bool, damaged func(storage.Offset, error)) *logReader {
	r := &logReader{log: log, end: log.EndOffset(), atOnce: max(int64(buffer)*2/5/piecesAhead, 1), gone: gone, damaged: damaged}
	r.pieces, r.used = make(chan *piece, piecesAhead), make(chan *piece, piecesAhead)
	for range cap(r.used) {
		r.used <- pieces.Get().(*piece)
	}
	return r
}

// done gives a piece back that was replayed.
func (r *logReader) done(p *piece) {
	clear(p.whole)
	p.spans, p.prepared, p.whole, p.err = p.spans[:0], p.prepared[:0], p.whole[:0], nil
	r.used <- p
}

// close lets the memory go, when all pieces were given back.
func (r *logReader) close() {
	for range cap(r.used) {
		pieces.Put(<-r.used)
	}
}

// run reads until the end, or until the log cannot be read.
func (r *logReader) run() {
	defer close(r.pieces)
	for at := r.log.StartOffset(); at < r.end; {
		next, err := r.read(at)
		if err != nil {
			p := <-r.used
			p.err = err
			r.pieces <- p
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
		p := <-r.used
		p.buf = slices.Grow(p.buf[:0], int(region.Len))[:region.Len]
		n, err := region.File.ReadAt(p.buf, region.Pos)
		switch {
		case n == len(p.buf):
			next, err = r.cut(p, at, next)
		case err == nil || errors.Is(err, io.EOF):
			err = io.ErrUnexpectedEOF
		}
		r.pieces <- p
		if err != nil {
			return next, fmt.Errorf("at offset %d: %w", at, err)
		}
	}
	return next, nil
}

// cut finds the batches of a piece, of which what lies before offset from is left out, and returns the offset behind them.
func (r *logReader) cut(p *piece, from, next storage.Offset) (storage.Offset, error) {
	for left := p.buf; len(left) > 0; {
		e, err := record.FirstEntry(left)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			break // the bytes end within a batch
		} else if err != nil {
			return next, err
		}
		if e.LastOffset() >= from {
			r.entry(p, e, len(p.buf)-len(left), from)
		}
		next = e.LastOffset() + 1
		left = left[len(e):]
		r.bytes += int64(len(e))
	}
	return next, nil
}

// entry adds to p what is at a position of it.
func (r *logReader) entry(p *piece, e record.Entry, pos int, from storage.Offset) {
	err := e.Check()
	switch {
	case err != nil:
	case !isPlain(e):
		p.whole = append(p.whole, wholeBatch{len(p.spans), e, from})
	default:
		n := len(p.spans)
		p.spans, err = record.AppendSpans(p.spans, e.Batch(), pos)
		if e.BaseOffset() < from {
			rest := slices.DeleteFunc(p.spans[n:], func(s record.Span) bool { return s.Offset < from })
			p.spans = p.spans[:n+len(rest)]
		}
		if r.ahead != nil {
			p.prepared = slices.Grow(p.prepared[:n], len(p.spans)-n)[:len(p.spans)]
			for i := n; i < len(p.spans); i++ {
				s := &p.spans[i]
				r.ahead.Prepare(&p.prepared[i], s.Key(p.buf), s.Value(p.buf), int64(s.Offset))
			}
		}
	}
	if err != nil {
		r.damaged(e.BaseOffset(), err)
	}
}

// isPlain tells whether a batch is nothing but records as they are.
func isPlain(e record.Entry) bool {
	return e.Magic() == 2 && e.Codec() == record.None && !e.Batch().IsControl() && !e.Batch().IsTransactional()
}
