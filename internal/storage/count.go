package storage

import (
	"errors"
	"io"

	"github.com/quire-log/quire/internal/record"
)

// A segmentCount is how many records a closed segment has; it holds while the file has this size.
type segmentCount struct {
	size, records int64
	exact         bool // false: of message sets, offsets were counted
}

// countBatchMax bounds what one batch may inflate to when the records within it are counted.
const countBatchMax = 16 << 20

// A counter counts the records of a range of offsets.
type counter struct {
	l        *Log
	from, to Offset
	left     int64 // bytes of segments that may still be looked through
	n        int64
	exact    bool
}

// CountRecords counts the records at offsets in [from, to). A log that is not compacted has one at each, and so has the active
// segment, which compaction leaves alone. In others, headers of batches tell; a closed segment is looked through once, and its count
// remembered. bytesMax bounds the bytes of segments that are looked through now: where it is not enough, and in message sets
// before batches, offsets are counted instead, and exact is false; looked is how many bytes they were. Markers of transactions are no
// records where headers are read.
func (l *Log) CountRecords(from, to Offset, bytesMax int64) (n int64, exact bool, looked int64, err error) {
	from, to = max(from, l.StartOffset()), min(to, l.EndOffset())
	if from >= to {
		return 0, true, 0, nil
	}
	if !l.config.Load().Compact {
		return int64(to - from), true, 0, nil
	}
	for range listRetries {
		c := counter{l: l, from: from, to: to, left: bytesMax, exact: true}
		err := c.run(l.list())
		if err == nil {
			return c.n, c.exact, bytesMax - c.left, nil
		}
		if !errors.Is(err, errSegmentGone) {
			return 0, false, 0, err
		}
		if err := l.readable(); err != nil {
			return 0, false, 0, err
		}
	}
	return 0, false, 0, &FailedError{l.partition, errSegmentGone}
}

func (c *counter) run(segs []*segment) error {
	for i, s := range segs {
		if i == len(segs)-1 {
			if from := max(c.from, s.base); from < c.to {
				c.n += int64(c.to - from)
			}
			return nil
		}
		from, to := max(c.from, s.base), min(c.to, segs[i+1].base)
		if from >= to {
			continue
		}
		if err := c.segment(s, from, to, to == segs[i+1].base); err != nil {
			return err
		}
	}
	return nil
}

// segment counts what a closed segment has in [from, to); tail: to is the segment's end.
func (c *counter) segment(s *segment, from, to Offset, tail bool) error {
	size := s.size.Load()
	whole := from == s.base && tail
	if whole {
		if known := s.count.Load(); known != nil && known.size == size {
			c.n, c.exact = c.n+known.records, c.exact && known.exact
			return nil
		}
	}
	f, err := s.acquire()
	if err != nil {
		return err
	}
	defer s.release()
	begin := int64(0)
	if from > s.base {
		b, ok, err := c.l.locate(s, f, from, size)
		if err != nil || !ok {
			return err // nothing is there from that offset on
		}
		begin = b.pos
	}
	if size-begin > c.left {
		c.n, c.exact = c.n+int64(to-from), false
		return nil
	}
	c.left -= size - begin
	scan := scanHeaders(f, begin, size, scanChunk)
	defer scan.close()
	n, exact := int64(0), true
	for scan.advance() && scan.first < to {
		switch {
		case scan.header.Magic() != 2:
			n, exact = n+int64(min(scan.last+1, to)-max(scan.first, from)), false
		case record.Batch(scan.header).IsControl():
		case scan.first >= from && scan.last < to:
			n += int64(record.Batch(scan.header).Count())
		default:
			some, err := countWithin(f, scan.found, from, to)
			if err != nil {
				return err
			}
			n += some
		}
	}
	if scan.err != nil {
		return scan.err
	}
	if whole && scan.at == size {
		s.count.Store(&segmentCount{size, n, exact})
	}
	c.n, c.exact = c.n+n, c.exact && exact
	return nil
}

// countWithin counts the records that a batch has in [from, to).
func countWithin(f io.ReaderAt, b found, from, to Offset) (n int64, err error) {
	e, buf, err := readEntry(f, b)
	if err != nil {
		return 0, err
	}
	defer putBuffer(buf)
	var r record.Reader
	if err := r.ResetEntry(e, countBatchMax); err != nil {
		return 0, err
	}
	for r.Next() {
		if o := r.Record().Offset; o >= from && o < to {
			n++
		}
	}
	return n, r.Err()
}
