package storage

import (
	"sync"
	"time"
)

// eventsMax bounds how many events a ring keeps.
const eventsMax = 10_000

// An EventRing keeps the last events, so that whoever asks why data went can be told.
type EventRing struct {
	mu    sync.Mutex // guards the fields below
	kept  []TimedEvent
	added uint64
}

// A TimedEvent is an event and when it was.
type TimedEvent struct {
	At time.Time
	Event
}

// Add keeps an event; the oldest goes when there are too many.
func (r *EventRing) Add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := TimedEvent{time.Now(), e}
	if len(r.kept) < eventsMax {
		r.kept = append(r.kept, t)
	} else {
		r.kept[r.added%eventsMax] = t
	}
	r.added++
}

// Last returns up to n events that want picks, the newest first.
func (r *EventRing) Last(n int, want func(*Event) bool) (found []TimedEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := uint64(1); i <= uint64(len(r.kept)) && len(found) < n; i++ {
		e := r.kept[(r.added-i)%eventsMax]
		if want == nil || want(&e.Event) {
			found = append(found, e)
		}
	}
	return found
}
