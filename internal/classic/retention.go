package classic

import (
	"errors"
	"fmt"
	"time"
)

// A Policy looks at a log's segments, the oldest first, and returns how many of the oldest may go. The newest stays whatever it
// says.
type Policy func(segs []SegmentInfo) int

// OlderThan lets go of segments that nobody wrote to for longer than age.
func OlderThan(age time.Duration) Policy {
	return func(segs []SegmentInfo) int {
		now := time.Now()
		n := 0
		for n < len(segs) && now.Sub(segs[n].Modified) > age {
			n++
		}
		return n
	}
}

// Days is OlderThan in days.
func Days(n int) Policy { return OlderThan(time.Duration(n) * 24 * time.Hour) }

// KeepBytes lets go of the oldest segments as long as the newest bytes remain.
func KeepBytes(bytes int64) Policy {
	return func(segs []SegmentInfo) int {
		var total int64
		for _, s := range segs {
			total += s.Bytes
		}
		n := 0
		for n < len(segs) && total-segs[n].Bytes >= bytes {
			total -= segs[n].Bytes
			n++
		}
		return n
	}
}

// Any lets go of what one of the policies does; without policies nothing goes.
func Any(policies ...Policy) Policy {
	return func(segs []SegmentInfo) int {
		n := 0
		for _, p := range policies {
			n = max(n, p(segs))
		}
		return n
	}
}

// Every lets go of what all of the policies do; without policies nothing goes.
func Every(policies ...Policy) Policy {
	return func(segs []SegmentInfo) int {
		if len(policies) == 0 {
			return 0
		}
		n := len(segs)
		for _, p := range policies {
			n = min(n, p(segs))
		}
		return n
	}
}

// DeleteSegments removes the oldest segments that the policy lets go, never the newest, and returns what went. Reads and sends
// that have begun go on from the removed files. After an error the log is without them, while their files may come back with
// the next Open.
func (l *Log) DeleteSegments(p Policy) ([]SegmentInfo, error) {
	l.deleting.Lock()
	defer l.deleting.Unlock()
	infos, err := l.Segments()
	if err != nil {
		return nil, err
	}
	n := min(p(infos), len(infos)-1)
	if n <= 0 {
		return nil, nil
	}
	gone, err := l.drop(n)
	if err != nil {
		return nil, err
	}
	// The oldest first: what a crash leaves of these then ends where the log begins, or before a hole.
	var errs []error
	for _, s := range gone {
		s.desc.Retire()
		errs = append(errs, l.fs.Remove(s.path()))
	}
	errs = append(errs, l.fs.SyncDir(l.dir))
	if err := errors.Join(errs...); err != nil {
		return infos[:n], fmt.Errorf("%s: %w", l.partition, err)
	}
	return infos[:n], nil
}

// drop takes the n oldest segments out of the list.
func (l *Log) drop(n int) ([]*segment, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return nil, err
	}
	if !l.named {
		// Were the newest file's name lost and the others gone, the next Open would give offsets again (I5).
		if err := l.fs.SyncDir(l.dir); err != nil {
			return nil, l.fail(err)
		}
		l.named = true
	}
	return l.segments.DropFirst(n), nil
}
