package segments

import (
	"context"
	"sync"
	"time"
)

// A Background is the goroutines of a log. Each ends by itself or when Stop is called, and is waited for there.
type Background struct {
	wait sync.WaitGroup

	// mu guards the fields below. It is a leaf.
	mu      sync.Mutex
	quit    chan struct{} // closed by Stop; made by the first that starts
	stopped bool
	running map[string]bool
}

// Start runs f, unless a goroutine of that name runs or all were stopped.
func (b *Background) Start(name string, f func(quit <-chan struct{})) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped || b.running[name] {
		return
	}
	if b.quit == nil {
		b.quit, b.running = make(chan struct{}), map[string]bool{}
	}
	b.running[name] = true
	quit := b.quit
	b.wait.Go(func() { f(quit) })
}

// Ended is called by a goroutine about to return, when done, checked under the lock, says that nothing is left to do.
func (b *Background) Ended(name string, done func() bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !done() {
		return false
	}
	delete(b.running, name)
	return true
}

// Stop ends all goroutines and returns when they are gone; none starts any more.
func (b *Background) Stop() {
	b.mu.Lock()
	if !b.stopped {
		b.stopped = true
		if b.quit != nil {
			close(b.quit)
		}
	}
	b.mu.Unlock()
	b.wait.Wait()
}

// Repeat calls do after delay and then every interval, the pause beginning when do has returned, until ctx ends.
func Repeat(ctx context.Context, delay, interval time.Duration, do func(context.Context)) {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		do(ctx)
		timer.Reset(interval)
	}
}
