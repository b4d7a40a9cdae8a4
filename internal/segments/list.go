package segments

import (
	"slices"
	"sync/atomic"
)

// A List is a log's segments, the oldest first: copy-on-write behind one pointer. Any number of goroutines load it, one at a
// time changes it.
type List[S any] struct{ p atomic.Pointer[[]S] }

// Load returns the segments as they are now. Nobody changes the slice, the caller included.
func (l *List[S]) Load() []S {
	if p := l.p.Load(); p != nil {
		return *p
	}
	return nil
}

// Store replaces the list by segs, which the caller gives away.
func (l *List[S]) Store(segs []S) { l.p.Store(&segs) }

// Append adds s as the newest.
func (l *List[S]) Append(s S) {
	segs := l.Load()
	l.Store(append(segs[:len(segs):len(segs)], s))
}

// DropFirst takes the n oldest away and returns them.
func (l *List[S]) DropFirst(n int) []S {
	segs := l.Load()
	l.Store(slices.Clone(segs[n:])) // a part of the old slice would keep what was dropped from being collected
	return segs[:n:n]
}
