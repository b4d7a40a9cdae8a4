package storage

import (
	"errors"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

// A TimestampOffset answers a lookup by time; Offset -1, Timestamp -1: none.
type TimestampOffset struct {
	Offset      Offset
	Timestamp   int64
	LeaderEpoch Epoch // -1 unknown
}

var noOffset = TimestampOffset{Offset: -1, Timestamp: -1, LeaderEpoch: -1}

// OffsetForTime finds the first record at or after ms, not below the log start. Transaction markers are records here.
func (l *Log) OffsetForTime(ms int64) (TimestampOffset, error) {
	return l.lookup(func() (TimestampOffset, error) {
		start := l.StartOffset()
		for _, s := range l.list() {
			t, err := l.retentionTime(s)
			if err != nil {
				return noOffset, err
			}
			if t < ms {
				continue
			}
			found, err := l.timeInSegment(s, ms, start)
			if err != nil || found.Offset >= 0 {
				return found, err
			}
		}
		return noOffset, nil
	})
}

// OffsetOfMaxTimestamp finds the first record with the greatest time. The log start is not looked at.
func (l *Log) OffsetOfMaxTimestamp() (TimestampOffset, error) {
	return l.lookup(func() (TimestampOffset, error) {
		var newest *segment
		var largest entry
		for _, s := range l.list() {
			e, err := l.largestTime(s)
			if err != nil {
				return noOffset, err
			}
			if newest == nil || e.a > largest.a {
				newest, largest = s, e
			}
		}
		f, err := newest.acquire()
		if err != nil {
			return noOffset, err
		}
		defer newest.release()
		b, ok, err := l.locate(newest, f, Offset(largest.b), newest.size.Load())
		if err != nil || !ok {
			return noOffset, err
		}
		e, buf, err := readEntry(f, b)
		if err != nil {
			return noOffset, err
		}
		defer putBuffer(buf)
		if e.Magic() == 0 {
			return noOffset, nil
		}
		return l.firstRecord(e, newest, b.pos, 0, e.MaxTimestamp())
	})
}

// lookup runs f again when retention took a segment from under it.
func (l *Log) lookup(f func() (TimestampOffset, error)) (TimestampOffset, error) {
	for range listRetries {
		found, err := f()
		if !errors.Is(err, errSegmentGone) {
			return found, err
		}
		if err := l.readable(); err != nil {
			return noOffset, err
		}
	}
	return noOffset, &FailedError{l.partition, errSegmentGone}
}

// timeInSegment finds the first record at or after ms, and not below start, in one segment.
func (l *Log) timeInSegment(s *segment, ms int64, start Offset) (TimestampOffset, error) {
	x, err := l.indexesOf(s)
	if err != nil {
		return noOffset, err
	}
	f, err := s.acquire()
	if err != nil {
		return noOffset, err
	}
	defer s.release()
	// Up to the last entry that is not above ms, no record is at or after ms, unless it is that entry's own batch.
	from := start
	n, last, _, err := x.times.floor(byA, ms)
	if err != nil {
		return noOffset, err
	}
	if n > 0 {
		from = max(from, s.base+Offset(last.b))
	}
	size := s.size.Load()
	b, ok, err := l.locate(s, f, from, size)
	if err != nil || !ok {
		return noOffset, err
	}
	scan := scanHeaders(f, b.pos, size, locateChunk)
	defer scan.close()
	for scan.advance() {
		if scan.header.MaxTimestamp() < ms || scan.last < start {
			continue
		}
		e, buf, err := readEntry(f, scan.found)
		if err != nil {
			return noOffset, err
		}
		found, err := l.firstRecord(e, s, scan.pos, start, ms)
		putBuffer(buf)
		if err != nil || found.Offset >= 0 {
			return found, err
		}
	}
	return noOffset, scan.err
}

// firstRecord finds the first record of a batch that is at or after ms, and not below from. However much the batch inflates to, it passes
// by in a window.
func (l *Log) firstRecord(e record.Entry, s *segment, pos int64, from Offset, ms int64) (TimestampOffset, error) {
	offset, at, err := e.FindTime(from, ms, record.DefaultInflateMax)
	if err != nil {
		return noOffset, &CorruptError{l.partition, s.name(logSuffix), pos, e.BaseOffset() - 1, err}
	}
	if offset < 0 {
		return noOffset, nil
	}
	return TimestampOffset{offset, at, e.LeaderEpoch()}, nil
}

// fileOf is the file of a segment that the caller holds.
func (l *Log) fileOf(s *segment) vfs.File { return s.desc.Held() }
