package storage

import (
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/quire-log/quire/internal/vfs"
)

// A Data is what a read found: whole bytes of .log files. Release it once, after the last use of its regions.
type Data struct {
	Regions []vfs.Region // in order; today one, since an answer ends at its segment's end
	Size    int64        // bytes of all regions
	// First is the base offset of the first batch, at or below the offset asked for.
	First Offset
	// UpperBound bounds the offsets that may be in Size bytes: for AbortedTransactions.
	UpperBound Offset
	held       *segment
}

// Release lets go of the files. It may be called on the zero Data.
func (d *Data) Release() {
	if d.held != nil {
		d.held.release()
		*d = Data{}
	}
}

// ReadOptions bound a read.
type ReadOptions struct {
	MaxBytes int64
	// Limit is the first offset not to be shown: high watermark, last stable offset, or log end.
	Limit Offset
	// MinOneBatch: the first batch is returned whole though it exceeds MaxBytes.
	MinOneBatch bool
}

// listRetries bounds how often a read begins again because retention took the segment that it had chosen.
const listRetries = 100

// Read finds the batch that holds offset, or the next after it, and returns it and what follows within the bounds. Empty at Limit.
// The bytes may end in the middle of a batch for MaxBytes, never for Limit: no batch that reaches it is shown.
// *OutOfRangeError when offset < log start or > log end.
func (l *Log) Read(offset Offset, o ReadOptions) (Data, error) {
	for range listRetries {
		d, err := l.read(offset, o)
		if !errors.Is(err, errSegmentGone) {
			return d, err
		}
		if err := l.readable(); err != nil {
			return Data{}, err
		}
	}
	return Data{}, &FailedError{l.partition, errSegmentGone}
}

// readable is nil, or why a log whose segments are gone cannot be read.
func (l *Log) readable() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.usable()
}

func (l *Log) read(offset Offset, o ReadOptions) (Data, error) {
	segs := l.list()
	start, end := l.StartOffset(), l.EndOffset()
	if offset < start || offset > end {
		return Data{}, &OutOfRangeError{l.partition, offset, start, end}
	}
	limit := min(o.Limit, end)
	i := sort.Search(len(segs), func(i int) bool { return segs[i].base > offset }) - 1
	for i = max(i, 0); i < len(segs) && offset < limit && segs[i].base < limit; i++ {
		next := Offset(-1)
		if i+1 < len(segs) {
			next = segs[i+1].base
		}
		d, ok, err := l.readSegment(segs[i], next, offset, limit, o)
		if ok || err != nil {
			return d, err
		}
	}
	return Data{First: offset, UpperBound: offset}, nil
}

// readSegment reads from one segment; next is its successor's base, -1 for none. ok: the read ends here, perhaps empty.
func (l *Log) readSegment(s *segment, next, offset, limit Offset, o ReadOptions) (d Data, ok bool, err error) {
	// The size before the end: then all within it is below the end (see Log).
	size := s.size.Load()
	end := l.EndOffset()
	f, err := s.acquire()
	if err != nil {
		return d, false, err
	}
	defer func() {
		if d.held == nil {
			s.release()
		}
	}()
	first, ok, err := l.locate(s, f, offset, size)
	if err != nil || !ok {
		return d, false, err
	}
	if first.last >= limit {
		if first.last >= end {
			err = l.checkEnd(s, f, offset)
		}
		return Data{First: offset, UpperBound: offset}, true, err
	}
	stop, bound := size, next
	if next < 0 {
		bound = end
	}
	if bound > limit {
		b, beyond, err := l.locate(s, f, limit, size)
		if err != nil {
			return d, false, err
		}
		if beyond {
			stop = b.pos
		}
		bound = limit
	}
	n := stop - first.pos
	if n > o.MaxBytes {
		n = max(o.MaxBytes, 0)
		if o.MinOneBatch && n < first.size {
			n = first.size
		}
		if n == 0 {
			return Data{First: first.first, UpperBound: first.first}, true, nil
		}
		if l.anyAborted.Load() {
			if bound, err = l.upperBound(s, first.pos+n, bound); err != nil {
				return d, false, err
			}
		}
	}
	return Data{
		Regions: []vfs.Region{{File: f, Pos: first.pos, Len: n}}, Size: n,
		First: first.first, UpperBound: bound, held: s,
	}, true, nil
}

// checkEnd tells whether the batch at offset claims to end at or beyond the end of the log, which a clean start has not looked for. A reader
// that got nothing for it would wait there for ever. A truncation can look the same for a moment, so it is kept out.
func (l *Log) checkEnd(s *segment, f vfs.File, offset Offset) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok, err := l.locate(s, f, offset, s.size.Load())
	if end := l.EndOffset(); err == nil && ok && b.last >= end {
		err = &CorruptError{l.partition, s.name(logSuffix), b.pos, offset - 1, fmt.Errorf("a batch claims the offsets %d to %d of a log that ends at %d", b.first, b.last, end)}
	}
	return err
}

// upperBound is the offset of the first index entry at or beyond pos, or otherwise.
func (l *Log) upperBound(s *segment, pos int64, otherwise Offset) (Offset, error) {
	x, err := l.indexesOf(s)
	if err != nil {
		return 0, err
	}
	n, _, next, err := x.offsets.floor(byB, pos-1)
	if err != nil || n == x.offsets.count() {
		return otherwise, err
	}
	return min(otherwise, s.base+Offset(next.a)), nil
}

// locate finds the first batch whose last offset is not below target within the first size bytes of a segment. !ok: there is none.
// The most recent batches are remembered; for others it is the index and a scan of headers from there.
func (l *Log) locate(s *segment, f vfs.File, target Offset, size int64) (b found, ok bool, err error) {
	if target >= s.base {
		if r := s.ring.Load(); r != nil {
			b, ok, past := r.find(int64(target - s.base))
			if ok && b.pos+b.size <= size {
				b.first += s.base
				b.last += s.base
				return b, true, nil
			}
			if past || ok {
				return found{}, false, nil // it is not within size yet
			}
		}
	}
	for attempt := 0; ; attempt++ {
		x, err := l.indexesOf(s)
		if err != nil {
			return found{}, false, err
		}
		b, ok, err = l.locateByIndex(s, x, f, target, size)
		if !isDamage(err) || attempt > 0 {
			return b, ok, err
		}
		if err := l.distrust(s, x, f, err); err != nil {
			return found{}, false, err
		}
	}
}

func (l *Log) locateByIndex(s *segment, x *segmentIndexes, f vfs.File, target Offset, size int64) (found, bool, error) {
	n, last, _, err := x.offsets.floor(byA, int64(target-s.base))
	if err != nil {
		return found{}, false, err
	}
	from := int64(0)
	if n > 0 {
		from = last.b
	}
	scan := scanHeaders(f, from, size, locateChunk)
	defer scan.close()
	for first := true; scan.advance(); first = false {
		if first && n > 0 && int64(scan.last-s.base) != last.a {
			return found{}, false, damagef("%s: entry (%d, %d) is not where offset %d is", x.offsets.name, last.a, last.b, scan.last)
		}
		if scan.last >= target {
			return scan.found, true, nil
		}
	}
	if n > 0 && scan.at == from && from < size && scan.err == nil {
		return found{}, false, damagef("%s: entry (%d, %d) is where no batch is", x.offsets.name, last.a, last.b)
	}
	if errors.Is(scan.err, io.ErrUnexpectedEOF) {
		return found{}, false, errSegmentGone // truncated under us
	}
	return found{}, false, scan.err
}

// distrust replaces the indexes of a closed segment, which were found to be wrong, by new ones.
func (l *Log) distrust(s *segment, x *segmentIndexes, f vfs.File, cause error) error {
	l.indexMu.Lock()
	defer l.indexMu.Unlock()
	if s.idx.Load() != x {
		return nil
	}
	if s.isGone() { // compaction has put another in its place, and its indexes by the same names
		return errSegmentGone
	}
	if s.ring.Load() != nil {
		return cause // the active segment's are in memory, and ours
	}
	fresh, _, err := l.rebuildIndexes(s, f, cause)
	if err == nil {
		s.idx.Store(fresh)
	}
	return err
}

// An AbortedTransaction is a producer's transaction that ended in abort.
type AbortedTransaction struct {
	ProducerID  int64
	FirstOffset Offset
}

// AbortedTransactions lists those that overlap [from, upperBound), in the order in which they ended.
func (l *Log) AbortedTransactions(from, upperBound Offset) ([]AbortedTransaction, error) {
	if !l.anyAborted.Load() {
		return nil, nil
	}
	segs := l.list()
	i := max(sort.Search(len(segs), func(i int) bool { return segs[i].base > from })-1, 0)
	var all []AbortedTransaction
	for _, s := range segs[i:] {
		txns := s.aborted()
		j := sort.Search(len(txns), func(j int) bool { return txns[j].lastOffset >= from })
		for _, t := range txns[j:] {
			if t.firstOffset < upperBound {
				all = append(all, AbortedTransaction{t.producerID, t.firstOffset})
			}
			if t.lastStable >= upperBound {
				return all, nil
			}
		}
	}
	return all, nil
}
