package classic

import (
	"container/heap"
	"errors"
	"sync"
	"time"

	"github.com/quire-log/quire/internal/segments"
)

// Flush makes all that was appended before it durable. Concurrent calls share an fsync.
func (l *Log) Flush() error {
	l.mu.Lock()
	err, clean := l.usable(), l.appended == l.flushed
	l.mu.Unlock()
	if err != nil || clean {
		return err
	}
	return l.syncs.Do(true, func(bool) error { return l.sync() })
}

// sync is one fsync. Only one runs at a time.
func (l *Log) sync() error {
	l.mu.Lock()
	if err := l.usable(); err != nil {
		l.mu.Unlock()
		return err
	}
	segs := l.segments.Load()
	s, appended, named, began := segs[len(segs)-1], l.appended, l.named, time.Now()
	l.mu.Unlock()

	f, err := s.acquire()
	if errors.Is(err, segments.ErrGone) {
		return nil // closed, after a flush of its own, or rolled, synced and deleted
	}
	if err != nil {
		return l.fail(err)
	}
	err = f.Sync()
	s.release()
	if err == nil && !named {
		err = l.fs.SyncDir(l.dir)
	}
	if err != nil {
		return l.fail(err)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.segments.Load(); now[len(now)-1] == s {
		l.named = true
	}
	if appended > l.flushed {
		l.flushed = appended
		l.dirtySince = began // what came since did not come before
	}
	return nil
}

// queueFlush tells the flusher of an append to a log that was clean. mu is held.
func (l *Log) queueFlush() {
	if l.config.FlushInterval > 0 && !l.queued {
		l.queued = true
		l.flusher.add(l, l.dirtySince.Add(l.config.FlushInterval))
	}
}

// flushIfDue flushes what has become too old, and returns when the next is due; false: nothing is to be flushed.
func (l *Log) flushIfDue() (due time.Time, more bool) {
	if due, more = l.nextFlush(); !more || time.Now().Before(due) {
		return due, more
	}
	_ = l.Flush() // a failure is final, and what the next append returns
	return l.nextFlush()
}

func (l *Log) nextFlush() (due time.Time, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queued = l.usable() == nil && l.appended > l.flushed
	return l.dirtySince.Add(l.config.FlushInterval), l.queued
}

// A flusher flushes logs whose oldest unflushed message has become too old: one goroutine for all its logs, which lives while
// one of them is to be flushed.
type flusher struct {
	background segments.Background

	// mu guards the field below. A log's mu may be held when it is taken.
	mu    sync.Mutex
	queue flushQueue
}

// add has l flushed at due.
func (f *flusher) add(l *Log, due time.Time) {
	f.mu.Lock()
	heap.Push(&f.queue, flushAt{due, l})
	f.mu.Unlock()
	f.background.Start("flush", f.run)
}

func (f *flusher) run(quit <-chan struct{}) {
	for {
		at, ok := f.next()
		if !ok {
			if f.background.Ended("flush", func() bool { _, ok := f.next(); return !ok }) {
				return
			}
			continue
		}
		timer := time.NewTimer(time.Until(at.due))
		select {
		case <-quit:
			timer.Stop()
			return
		case <-timer.C:
		}
		l := f.pop() // perhaps another than at, which came meanwhile and is due even before
		if due, more := l.flushIfDue(); more {
			f.add(l, due)
		}
	}
}

func (f *flusher) next() (flushAt, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.queue) == 0 {
		return flushAt{}, false
	}
	return f.queue[0], true
}

func (f *flusher) pop() *Log {
	f.mu.Lock()
	defer f.mu.Unlock()
	return heap.Pop(&f.queue).(flushAt).log
}

// stop ends the goroutine; what it had to flush is for Close.
func (f *flusher) stop() { f.background.Stop() }

// A flushAt is a log and when it is to be flushed.
type flushAt struct {
	due time.Time
	log *Log
}

// A flushQueue is a heap by due.
type flushQueue []flushAt

func (q flushQueue) Len() int           { return len(q) }
func (q flushQueue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q flushQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *flushQueue) Push(x any)        { *q = append(*q, x.(flushAt)) }
func (q *flushQueue) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = flushAt{}
	*q = old[:len(old)-1]
	return last
}
