package storage

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"sync"
	"time"
)

// A deletion is files that go at a time.
type deletion struct {
	at    time.Time
	names []string
}

// A deletionQueue is what waits to be unlinked, the first first.
type deletionQueue struct {
	// mu guards the field below. It is a leaf.
	mu    sync.Mutex
	queue []deletion
}

func (q *deletionQueue) add(d deletion) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = append(q.queue, d)
}

func (q *deletionQueue) first() (deletion, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) == 0 {
		return deletion{}, false
	}
	return q.queue[0], true
}

func (q *deletionQueue) pop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = slices.Delete(q.queue, 0, 1)
}

// Truncate cuts the log so that it ends at offset: a batch that reaches it goes whole, and the next offset is offset all the
// same. At or beyond the end only epochs are cut; below the start, the log is emptied and starts at offset.
func (l *Log) Truncate(offset Offset) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	if offset >= l.EndOffset() {
		l.epochs.cutEnd(offset)
		if err := l.epochs.saveIfRoom(math.MaxInt64); err != nil {
			return l.diskError(err)
		}
		return nil
	}
	if offset < l.StartOffset() {
		return l.restartAt(offset, fmt.Sprintf("truncated to %d, below its start %d", offset, l.StartOffset()))
	}
	l.event("truncate", offset, "asked for; the log ended at %d", l.EndOffset())
	l.truncations++
	l.synced = min(l.synced, offset)
	if l.RecoveryPoint() > offset {
		l.recoveryPoint.Store(int64(offset))
	}
	if err := l.cutSegments(offset); err != nil {
		return l.fail(err)
	}
	l.epochs.cutEnd(offset)
	if err := l.epochs.saveIfRoom(math.MaxInt64); err != nil {
		return l.diskError(err)
	}
	if err := l.rewindProducers(offset); err != nil {
		return l.fail(err)
	}
	return nil
}

// cutSegments removes what reaches offset from the files, and publishes the new end. mu is held.
func (l *Log) cutSegments(offset Offset) error {
	segs := l.list()
	n := max(sort.Search(len(segs), func(i int) bool { return segs[i].base > offset }), 1)
	kept, gone := segs[:n:n], segs[n:]
	s := kept[n-1]
	f, err := s.acquire() // kept if it becomes the active one
	if err != nil {
		return err
	}
	if len(gone) > 0 {
		if err := errors.Join(l.active.offsets.finish(false), l.active.times.finish(false)); err != nil {
			s.release()
			return err
		}
		l.active.seg.release()
	} else {
		s.release()
	}
	size := s.size.Load()
	b, ok, err := l.locate(s, f, offset, size)
	if err != nil {
		return err
	}
	x, err := l.indexesOf(s)
	if err != nil {
		return err
	}
	s.ring.Store(new(tailRing))
	if ok {
		size = b.pos
	}
	s.size.Store(size)
	l.segments.Store(kept)
	l.end.Store(int64(offset))
	s.cut.Store(true)
	if err := f.Truncate(size); err != nil {
		return err
	}
	rel := int64(offset - s.base)
	err = errors.Join(x.offsets.growable(), x.times.growable(), x.offsets.cutFrom(byA, rel), x.times.cutFrom(byB, rel))
	if err != nil {
		return err
	}
	txns := s.aborted()
	if i := sort.Search(len(txns), func(i int) bool { return txns[i].lastOffset >= offset }); i < len(txns) {
		txns = slices.Clip(txns[:i])
		s.setAborted(txns)
		if err := rewriteTxnIndex(l.at, s.base, txns); err != nil {
			return err
		}
	}
	if err := l.largestAgain(s, x, size); err != nil {
		return err
	}
	named := l.active.named && len(gone) == 0
	l.becomeActive(activeSegment{seg: s, file: f, offsets: x.offsets, times: x.times, named: named})
	return l.discard(gone)
}

// largestAgain finds a segment's largest timestamp after a cut: that of the last time index entry, or of a batch after it.
func (l *Log) largestAgain(s *segment, x *segmentIndexes, size int64) error {
	largest := entry{-1, int64(s.base)}
	from := int64(0)
	if last, ok := x.times.lastEntry(); ok {
		largest = entry{last.a, int64(s.base) + last.b}
		n, e, _, err := x.offsets.floor(byA, last.b)
		if err != nil {
			return err
		}
		if n > 0 {
			from = e.b
		}
	}
	scan := scanHeaders(l.fileOf(s), from, size, scanChunk)
	defer scan.close()
	for scan.advance() {
		if ms := scan.header.MaxTimestamp(); ms > largest.a {
			largest = entry{ms, int64(scan.last)}
		}
	}
	s.setLargest(largest)
	return scan.err
}

// rewindProducers makes the producers' state that of a log that ends at end. mu is held.
func (l *Log) rewindProducers(end Offset) error {
	ps := l.producers
	if err := ps.removeSnapshots(func(o Offset) bool { return o > end }); err != nil {
		return err
	}
	if _, err := ps.load(l.StartOffset(), end, l.expired()); err != nil {
		return err
	}
	if err := l.replayProducers(l.list(), end); err != nil {
		return err
	}
	return ps.snapshot(false)
}

// TruncateFullyAndStartAt empties the log, which then starts and ends at offset.
func (l *Log) TruncateFullyAndStartAt(offset Offset) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	return l.restartAt(offset, "asked for")
}

// restartAt is TruncateFullyAndStartAt with mu held. When it fails, so has the log.
func (l *Log) restartAt(offset Offset, cause string) error {
	l.event("truncate", offset, "emptied, to start at %d: %s", offset, cause)
	l.truncations++
	gone := l.list()
	l.active.seg.release()
	l.active = activeSegment{}
	err := l.discard(gone)
	if err == nil {
		err = l.producers.removeSnapshots(func(Offset) bool { return true })
	}
	var next activeSegment
	if err == nil {
		next, err = l.createSegment(offset, l.config.Load())
	}
	if err != nil {
		return l.fail(err)
	}
	l.becomeActive(next)
	l.producers.clear(offset)
	// A reader that sees the new list and an old end or start finds nothing, or is out of range: both are true soon.
	l.end.Store(int64(offset))
	l.start.Store(int64(offset))
	l.synced = offset
	l.recoveryPoint.Store(int64(offset))
	l.segments.Store([]*segment{next.seg})
	l.epochs.clear()
	if err := l.epochs.saveIfRoom(math.MaxInt64); err != nil {
		return l.diskError(err)
	}
	return nil
}
