package storage

import (
	"errors"
	"fmt"
	"math"

	"github.com/quire-log/quire/internal/vfs"
)

const (
	// deltaLimit is beyond what an index can say of offsets, counted from its segment's base.
	deltaLimit = math.MaxInt32 + 1
	// segmentBytesLimit is the largest .log file that there can be.
	segmentBytesLimit = math.MaxInt32
	// emptyIndexBytes is how large a .log may be, beyond the index interval, before an index without entries is suspect.
	emptyIndexBytes = 64 << 10
)

// indexesOf returns a segment's indexes. Those of a closed segment are read and checked when they are first wanted, and built
// anew from the .log file when they are missing or cannot be right (I4).
func (l *Log) indexesOf(s *segment) (*segmentIndexes, error) {
	if x := s.idx.Load(); x != nil {
		return x, nil
	}
	l.indexMu.Lock()
	defer l.indexMu.Unlock()
	if x := s.idx.Load(); x != nil {
		return x, nil
	}
	if s.isGone() { // the files of its name may be another's by now
		return nil, errSegmentGone
	}
	f, err := s.acquire()
	if err != nil {
		return nil, err
	}
	defer s.release()
	x, err := l.loadIndexes(s)
	if isDamage(err) {
		x, _, err = l.rebuildIndexes(s, f, err)
	}
	if err != nil {
		return nil, err
	}
	s.idx.Store(x)
	return x, nil
}

// loadIndexes reads a segment's index files and believes them, or returns damage. The largest timestamp is noted.
func (l *Log) loadIndexes(s *segment) (*segmentIndexes, error) {
	cfg := l.config.Load()
	x := &segmentIndexes{
		newIndexFile(s.at, s.name(indexSuffix), offsetEntrySize, cfg.IndexBytesMax),
		newIndexFile(s.at, s.name(timeIndexSuffix), timeEntrySize, cfg.IndexBytesMax),
	}
	size := s.size.Load()
	if err := x.offsets.load(deltaLimit, size); err != nil {
		return nil, fmt.Errorf("%s: %w", x.offsets.name, err)
	}
	if err := x.times.load(math.MaxInt64, deltaLimit); err != nil {
		return nil, fmt.Errorf("%s: %w", x.times.name, err)
	}
	last, ok := x.times.lastEntry()
	if !ok {
		if size > 0 {
			return nil, emptyIndex(x.times, size)
		}
		last = entry{-1, 0}
	}
	if x.offsets.count() == 0 && size > emptyIndexBytes+int64(cfg.IndexInterval) {
		return nil, emptyIndex(x.offsets, size)
	}
	s.setLargest(entry{last.a, int64(s.base) + last.b})
	return x, nil
}

func emptyIndex(x *indexFile, size int64) error {
	return &indexDamage{fmt.Sprintf("%s has no entry for a log of %d bytes", x.name, size), x.name}
}

// An indexBuilder makes a segment's two indexes from its batches, in order: the rules by which an append indexes, too.
type indexBuilder struct {
	s          *segment
	interval   int64
	x          *segmentIndexes
	sinceIndex int64
	largest    entry
}

func newIndexBuilder(s *segment, cfg *Config) *indexBuilder {
	b := &indexBuilder{s: s, interval: int64(cfg.IndexInterval), largest: entry{-1, int64(s.base)}}
	b.x = &segmentIndexes{
		newIndexFile(s.at, s.name(indexSuffix), offsetEntrySize, cfg.IndexBytesMax),
		newIndexFile(s.at, s.name(timeIndexSuffix), timeEntrySize, cfg.IndexBytesMax),
	}
	b.x.offsets.touched, b.x.times.touched = true, true
	return b
}

func (b *indexBuilder) add(e found, maxTimestamp int64) {
	if maxTimestamp > b.largest.a {
		b.largest = entry{maxTimestamp, int64(e.last)}
	}
	if b.sinceIndex > b.interval {
		addIndexEntries(b.s.base, b.x.offsets, b.x.times, e.last, e.pos, b.largest)
		b.sinceIndex = 0
	}
	b.sinceIndex += e.size
}

// finish adds the entry with which every time index ends.
func (b *indexBuilder) finish() {
	addTimeEntry(b.s.base, b.x.times, b.largest)
	b.s.setLargest(b.largest)
}

// addIndexEntries indexes the batch at pos that ends at last.
func addIndexEntries(base Offset, offsets, times *indexFile, last Offset, pos int64, largest entry) {
	var buf [entrySizeMax]byte
	offsets.add(appendOffsetEntry(buf[:0], int32(last-base), int32(pos)))
	addTimeEntry(base, times, largest)
}

// addTimeEntry adds an entry to a time index if its timestamp is greater than the last one's.
func addTimeEntry(base Offset, times *indexFile, largest entry) {
	if last, ok := times.lastEntry(); largest.a < 0 || ok && largest.a <= last.a {
		return
	}
	var buf [entrySizeMax]byte
	times.add(appendTimeEntry(buf[:0], largest.a, int32(largest.b-int64(base))))
}

// rebuildIndexes makes both indexes of a segment from its headers, and writes them; a full disk leaves them in memory. It
// returns what the scan saw last, too: its fault, if the .log does not end with a whole entry.
func (l *Log) rebuildIndexes(s *segment, f vfs.File, cause error) (*segmentIndexes, headerScan, error) {
	b := newIndexBuilder(s, l.config.Load())
	scan := scanHeaders(f, 0, s.size.Load(), scanChunk)
	defer scan.close()
	for scan.advance() {
		b.add(scan.found, scan.header.MaxTimestamp())
	}
	if scan.err != nil {
		return nil, scan, scan.err
	}
	b.finish()
	var damage *indexDamage
	if errors.As(cause, &damage) && (damage.emptyFile == b.x.times.name && b.x.times.count() == 0 ||
		damage.emptyFile == b.x.offsets.name && b.x.offsets.count() == 0) {
		b.x.offsets.touched, b.x.times.touched = false, false
	} else {
		l.event("rebuild-index", s.base, "%v: built anew from %s", cause, s.name(logSuffix))
	}
	for _, x := range []*indexFile{b.x.offsets, b.x.times} {
		if err := x.finish(true); err != nil && !isDiskFull(err) {
			return nil, scan, err
		}
	}
	return b.x, scan, nil
}

// largestTime is the greatest timestamp in a segment and the last offset of the batch that has it; (-1, base) if no record has one.
func (l *Log) largestTime(s *segment) (entry, error) {
	if e, known := s.largestSoFar(); known {
		return e, nil
	}
	if _, err := l.indexesOf(s); err != nil {
		return entry{}, err
	}
	e, _ := s.largestSoFar()
	return e, nil
}

// retentionTime is the greatest timestamp in a segment, or its file's time when no record has one.
func (l *Log) retentionTime(s *segment) (int64, error) {
	e, err := l.largestTime(s)
	if err != nil || e.a >= 0 {
		return e.a, err
	}
	return s.modifiedMs()
}
