package replica

import (
	"sync"
	"sync/atomic"
)

// A Waiter is woken by partitions that it watches: a long poll, an acks=all. Make one with NewWaiter, Watch partitions, look, wait on C, look again, Stop.
type Waiter struct {
	C chan struct{} // of capacity 1: many wakes are one

	watches []*watch // each in the list of a partition
}

// A watch is a waiter's place in the list of a partition.
type watch struct {
	waiter     *Waiter
	list       *waiterList
	prev, next *watch
}

// A waiterList are the waiters of one partition. Without any, a wake costs one atomic load.
type waiterList struct {
	count atomic.Int32 // raised before a waiter looks, loaded after what it looks at was stored

	// mu guards the list. Nothing is taken under it.
	mu    sync.Mutex
	first *watch
}

// NewWaiter returns a waiter that watches nothing.
func NewWaiter() *Waiter { return &Waiter{C: make(chan struct{}, 1)} }

// Watch has w woken whenever p's high watermark, last stable offset, log start, leadership or existence changes. A waiter may watch many.
func (p *Partition) Watch(w *Waiter) {
	n := &watch{waiter: w, list: &p.waiters}
	w.watches = append(w.watches, n)
	n.list.add(n)
}

// Stop ends all watching.
func (w *Waiter) Stop() {
	for _, n := range w.watches {
		n.list.remove(n)
	}
	w.watches = nil
}

func (l *waiterList) add(n *watch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count.Add(1)
	n.prev, n.next = nil, l.first
	if l.first != nil {
		l.first.prev = n
	}
	l.first = n
}

func (l *waiterList) remove(n *watch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count.Add(-1)
	if n.prev != nil {
		n.prev.next = n.next
	} else {
		l.first = n.next
	}
	if n.next != nil {
		n.next.prev = n.prev
	}
	n.prev, n.next = nil, nil
}

// wake wakes everybody who watches p.
func (p *Partition) wake() {
	l := &p.waiters
	if l.count.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := l.first; n != nil; n = n.next {
		select {
		case n.waiter.C <- struct{}{}:
		default: // it has not looked since the last wake
		}
	}
}
