package classic

import (
	"errors"
	"fmt"
	"iter"

	"github.com/quire-log/quire/internal/segments"
	"github.com/quire-log/quire/internal/vfs"
)

// A place is where in the files an offset is. The caller releases it, unless it is at the log's end.
type place struct {
	seg    *segment // nil: the log's end
	file   vfs.File
	pos    int64
	rest   int64 // bytes from pos to the end of what the file shows
	offset Offset
}

func (p *place) release() {
	if p.seg != nil {
		p.seg.release()
		*p = place{}
	}
}

// listRetries bounds how often a read begins again because a deletion took the segment that it had chosen.
const listRetries = 100

// locate finds the entry at offset. overHoles: where offset is the end of a file and the next begins behind a hole, that next
// one is meant.
func (l *Log) locate(offset Offset, overHoles bool) (place, error) {
	for range listRetries {
		p, err := l.locateOnce(offset, overHoles)
		if !errors.Is(err, segments.ErrGone) {
			return p, err
		}
		l.mu.Lock()
		closed := l.closed
		l.mu.Unlock()
		if closed {
			return place{}, &FailedError{l.partition, errClosed}
		}
	}
	return place{}, fmt.Errorf("%s: %w", l.partition, segments.ErrGone)
}

func (l *Log) locateOnce(offset Offset, overHoles bool) (place, error) {
	end := l.EndOffset() // before the segments: see Log
	segs := l.segments.Load()
	outside := func() error { return &OutOfRangeError{l.partition, offset, segs[0].base, end} }
	if offset < segs[0].base || offset > end {
		return place{}, outside()
	}
	if offset == end {
		return place{offset: offset}, nil
	}
	i := find(segs, offset)
	s := segs[i]
	if offset < s.base {
		if !overHoles || offset != segs[i-1].end() {
			return place{}, outside()
		}
		offset = s.base
		if offset == end {
			return place{offset: offset}, nil
		}
	}
	pos, size := int64(offset-s.base), s.size.Load()
	f, err := s.acquire()
	if err != nil {
		return place{}, err
	}
	begins, err := s.begins(f, pos, size)
	if err == nil && !begins {
		err = outside()
	}
	if err != nil {
		s.release()
		return place{}, err
	}
	return place{s, f, pos, size - pos, offset}, nil
}

// ReadOptions bound a read.
type ReadOptions struct {
	Bytes int // the chunk that is read at first, at least 1
	// BytesMax bounds the chunk, which is doubled while no entry fits; less than Bytes: it is not doubled.
	BytesMax int
	Buffer   []byte // what was read before and is no longer needed: its room is used again
}

// A MessageSet is whole entries that lie behind each other.
type MessageSet struct {
	First Offset // of the first entry: beyond the offset that was asked for when a hole begins there
	bytes []byte
}

// Next is the offset behind the last entry, which the next read asks for.
func (m MessageSet) Next() Offset { return m.First + Offset(len(m.bytes)) }

// Bytes are the entries as they are in the file.
func (m MessageSet) Bytes() []byte { return m.bytes }

// All goes through the entries. Their CRCs were not looked at: see Entry.Check.
func (m MessageSet) All() iter.Seq2[Offset, Entry] {
	return func(yield func(Offset, Entry) bool) {
		for pos := 0; pos < len(m.bytes); {
			e, err := FirstEntry(m.bytes[pos:])
			if err != nil {
				return // not within the bytes that whole left
			}
			if !yield(m.First+Offset(pos), e) {
				return
			}
			pos += len(e)
		}
	}
}

// whole is how many of b's bytes are whole entries, and why the next is none; nil: all are.
func whole(b []byte) (n int, fault error) {
	for n < len(b) {
		e, err := FirstEntry(b[n:])
		if err != nil {
			return n, err
		}
		n += len(e)
	}
	return n, nil
}

// Read returns the whole entries in a chunk from offset on, none at the log's end. It ends with the file that it begins in.
// *OutOfRangeError: no entry begins at offset; *ChunkTooSmallError: the first is larger than BytesMax; *CorruptError: what is
// there is no entry.
func (l *Log) Read(offset Offset, o ReadOptions) (MessageSet, error) {
	p, err := l.locate(offset, true)
	if err != nil {
		return MessageSet{}, err
	}
	if p.seg == nil {
		return MessageSet{First: p.offset}, nil
	}
	defer p.release()
	for chunk := max(o.Bytes, 1); ; {
		n := int(min(int64(chunk), p.rest))
		if cap(o.Buffer) < n {
			o.Buffer = make([]byte, n)
		}
		b := o.Buffer[:n]
		if err := readFull(p.file, b, p.pos); err != nil {
			return MessageSet{}, fmt.Errorf("%s: %s: %w", l.partition, p.seg.name, err)
		}
		fits, fault := whole(b)
		if fits > 0 {
			return MessageSet{p.offset, b[:fits]}, nil
		}
		var partial *PartialError
		if !errors.As(fault, &partial) || int64(n) == p.rest {
			return MessageSet{}, &CorruptError{l.partition, p.seg.name, p.pos, p.offset, fault}
		}
		if partial.Need > p.rest {
			return MessageSet{}, &CorruptError{l.partition, p.seg.name, p.pos, p.offset, &PartialError{partial.Need, p.rest}}
		}
		if chunk >= o.BytesMax {
			need, err := p.entrySize()
			if err != nil {
				return MessageSet{}, fmt.Errorf("%s: %s: %w", l.partition, p.seg.name, err)
			}
			return MessageSet{}, &ChunkTooSmallError{l.partition, p.offset, need, chunk}
		}
		chunk = min(2*chunk, o.BytesMax)
	}
}

// entrySize is the size that the entry says it has.
func (p *place) entrySize() (int64, error) {
	var b [headerMax]byte
	n := min(p.rest, headerMax)
	if err := readFull(p.file, b[:n], p.pos); err != nil {
		return 0, err
	}
	h, _ := parseHeader(b[:n], p.rest)
	return h.size, nil
}

// A Reset is what a Reader does when its offset is not, or no longer, in the log.
type Reset int

const (
	Fail     Reset = iota // Next returns the *OutOfRangeError
	Earliest              // it goes on at the first offset
	Latest                // it goes on at the log's end
)

// A Reader reads a log from an offset on. It is one goroutine's.
type Reader struct {
	log    *Log
	offset Offset
	reset  Reset
	o      ReadOptions
	resets int
}

// NewReader reads from an offset on. The buffer of o is the reader's own from here on.
func (l *Log) NewReader(from Offset, reset Reset, o ReadOptions) *Reader {
	return &Reader{log: l, offset: from, reset: reset, o: o}
}

// Offset is where the next read begins, Resets how often the reader lost its place.
func (r *Reader) Offset() Offset { return r.offset }
func (r *Reader) Resets() int    { return r.resets }

// Next returns the next entries, which are valid, in memory that the call after it uses again; none at the log's end. An entry
// that is not valid is a *CorruptError, once the reader stands before it.
func (r *Reader) Next() (MessageSet, error) {
	set, err := r.log.Read(r.offset, r.o)
	for r.reset != Fail {
		outside, ok := errors.AsType[*OutOfRangeError](err)
		if !ok {
			break
		}
		to := outside.First
		if r.reset == Latest {
			to = outside.Last
		}
		if to == r.offset {
			break // it would go on being outside
		}
		r.resets++
		r.offset = to
		set, err = r.log.Read(r.offset, r.o) // deletes may have been faster again
	}
	if err != nil {
		return MessageSet{}, err
	}
	if cap(set.bytes) > cap(r.o.Buffer) {
		r.o.Buffer = set.bytes
	}
	for offset, e := range set.All() {
		fault := e.Check()
		if fault == nil {
			continue
		}
		if offset > set.First {
			set.bytes = set.bytes[:offset-set.First]
			break
		}
		segs := r.log.segments.Load()
		s := segs[min(find(segs, offset), len(segs)-1)]
		return MessageSet{}, &CorruptError{r.log.partition, s.name, int64(offset - s.base), offset, fault}
	}
	r.offset = set.Next()
	return set, nil
}
