package storage

import (
	"os"
	"sync"
	"sync/atomic"

	"github.com/quire-log/quire/internal/segments"
	"github.com/quire-log/quire/internal/vfs"
)

// errSegmentGone is what a segment says that was deleted or closed since its list was read: read the list again.
var errSegmentGone = segments.ErrGone

// createFlags are for files that must not be there yet, or whose content no longer counts.
const createFlags = os.O_RDWR | os.O_CREATE

// A segment is a .log file and what belongs to it. Its descriptor is open while somebody reads or appends, and a while longer
// (see segments.File); what is known of a closed segment's indexes is read when first wanted.
type segment struct {
	at   *place
	base Offset
	size atomic.Int64 // bytes that reads may see
	idx  atomic.Pointer[segmentIndexes]
	cut  atomic.Bool              // the file was made shorter since its last fsync
	ring atomic.Pointer[tailRing] // where the last appended batches are; of the active segment
	// count is how many records a closed segment has, once somebody asked.
	count atomic.Pointer[segmentCount]

	desc segments.File // the .log file; gone once it is deleted, or the log closed

	// mu guards the fields below. It is a leaf.
	mu   sync.Mutex
	txns []abortedTxn // what .txnindex holds; loaded at Open

	// largest is the greatest timestamp so far and the last offset of the batch that has it. (-1, base) is none; known says
	// whether it was found out.
	largest      entry
	largestKnown bool
	modified     int64 // ms; the file's time, for segments whose records have none; 0: not known, as while it is active
}

// segmentIndexes are a segment's two indexes, loaded.
type segmentIndexes struct{ offsets, times *indexFile }

func newSegment(at *place, base Offset, size int64) *segment {
	s := &segment{at: at, base: base, largest: entry{-1, int64(base)}}
	s.size.Store(size)
	return s
}

func (s *segment) name(suffix string) string { return fileName(s.base, suffix) }

// OpenFile opens the .log file, as segments.Opener.
func (s *segment) OpenFile() (vfs.File, error) {
	return s.at.fs.OpenFile(s.at.path(s.name(logSuffix)), os.O_RDWR, 0)
}

// acquire opens the .log file if need be, and keeps it open until release.
func (s *segment) acquire() (vfs.File, error) { return s.desc.Acquire(s) }

// release gives back what acquire gave.
func (s *segment) release() { s.desc.Release() }

func (s *segment) isGone() bool { return s.desc.Gone() }

// retire makes the last holder close the file, now or later.
func (s *segment) retire() {
	s.desc.Retire()
	if idx := s.idx.Load(); idx != nil {
		idx.offsets.drop()
		idx.times.drop()
	}
}

// aborted returns the .txnindex entries; the slice only grows at its end.
func (s *segment) aborted() []abortedTxn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.txns
}

func (s *segment) setAborted(txns []abortedTxn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.txns = txns
}

// observe raises the largest timestamp to ms, which the batch ending at last has.
func (s *segment) observe(ms int64, last Offset) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ms > s.largest.a {
		s.largest = entry{ms, int64(last)}
	}
	s.largestKnown = true
}

func (s *segment) largestSoFar() (e entry, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.largest, s.largestKnown
}

func (s *segment) setLargest(e entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.largest, s.largestKnown = e, true
}

// modifiedMs is when the segment's file was last written, in ms. That of a closed segment is asked for once.
func (s *segment) modifiedMs() (int64, error) {
	s.mu.Lock()
	ms := s.modified
	s.mu.Unlock()
	if ms != 0 {
		return ms, nil
	}
	f, err := s.acquire()
	if err != nil {
		return -1, err
	}
	defer s.release()
	closed := s.ring.Load() == nil
	t, err := f.ModTime()
	if err != nil {
		return -1, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if ms = t.UnixMilli(); closed && s.ring.Load() == nil {
		s.modified = ms
	}
	return ms, nil
}

// tailSlots is how many of the last batches a ring remembers.
const tailSlots = 8

// A tailRing remembers where the last appended batches of the active segment are, so that a reader at the tail needs neither
// index nor scan. Its writer is the appender; readers take no lock: a slot that was overtaken while it was read no longer fits
// between its neighbours, and the reader falls back on the index.
//
//	ends[i]   last offset - base << 32 | position
//	heads[i]  base offset - base << 32 | size
type tailRing struct {
	n           atomic.Uint64 // batches so far
	ends, heads [tailSlots]atomic.Uint64
}

func (r *tailRing) add(first, last, pos, size int64) {
	n := r.n.Load()
	r.heads[n%tailSlots].Store(uint64(first)<<32 | uint64(size))
	r.ends[n%tailSlots].Store(uint64(last)<<32 | uint64(pos))
	r.n.Store(n + 1)
}

// A found is a batch in a segment.
type found struct {
	pos, size   int64
	first, last Offset
}

// find returns the first batch whose last offset is not below target (relative to the segment's base). past: target is beyond
// every batch. Neither ok nor past: the ring does not know.
func (r *tailRing) find(target int64) (b found, ok, past bool) {
	n := r.n.Load()
	// The slots read here are overwritten by the second append from now at the soonest.
	i := n
	for ; i > 0 && n-i < tailSlots-2; i-- {
		slot := (i - 1) % tailSlots
		head, end := r.heads[slot].Load(), r.ends[slot].Load()
		if int64(end>>32) < target {
			ok, past = i < n, i == n
			break
		}
		b = found{pos: int64(end & 0xffffffff), size: int64(head & 0xffffffff), first: Offset(head >> 32), last: Offset(end >> 32)}
	}
	if i == 0 && n > 0 && b.pos == 0 {
		ok = true // the segment's very first batch
	}
	if r.n.Load()-n > 1 {
		return found{}, false, false
	}
	return b, ok, past
}
