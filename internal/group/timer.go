package group

import (
	"container/heap"
	"time"
)

// A timer fires once after its deadline. Its place in the heap may be earlier than the deadline: a heartbeat then only moves the
// deadline, and the heap is put right when that place comes up.
type timer struct {
	fire     func(now time.Time) Effect
	deadline time.Time // zero: does not run
	due      time.Time // its place in the heap
	index    int       // in the heap, plus one; 0: not in it
}

type timerHeap []*timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

func (h *timerHeap) Push(x any) {
	t := x.(*timer)
	*h = append(*h, t)
	t.index = len(*h)
}

func (h *timerHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.index = 0
	return t
}

// arm lets t fire at a time, whatever was said before.
func (s *Shard) arm(t *timer, at time.Time) {
	t.deadline = at
	switch {
	case s.over:
	case t.index == 0:
		t.due = at
		heap.Push(&s.timers, t)
	case at.Before(t.due):
		t.due = at
		heap.Fix(&s.timers, t.index-1)
	}
}

// stop takes t out.
func (s *Shard) stop(t *timer) {
	t.deadline = time.Time{}
	if t.index != 0 {
		heap.Remove(&s.timers, t.index-1)
	}
}

// expired takes one timer out whose deadline has come, nil if there is none.
func (s *Shard) expired(now time.Time) *timer {
	for len(s.timers) > 0 && !s.timers[0].due.After(now) {
		t := s.timers[0]
		if t.deadline.After(now) {
			t.due = t.deadline
			heap.Fix(&s.timers, 0)
			continue
		}
		heap.Pop(&s.timers)
		t.deadline = time.Time{}
		return t
	}
	return nil
}
