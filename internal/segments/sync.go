package segments

import "sync"

// A SyncGroup lets those who wait for an fsync share one: while one runs, all who come form the next round; when it ends, the
// first of them to wake leads that round, and the others wait for its end.
type SyncGroup struct {
	// mu guards the fields below. It is a leaf.
	mu      sync.Mutex
	running bool
	next    *syncRound // those who wait for their turn; nil: nobody
}

// A syncRound is one fsync and those who wait for it.
type syncRound struct {
	lead chan struct{} // one token: whoever takes it leads
	done chan struct{} // closed at the end
	all  bool          // somebody wants the active segment synced, too
	err  error
}

// Do returns after a sync that began after Do was called: of all or, when nobody in the round wants more, of closed segments.
// Only one sync runs at a time.
func (g *SyncGroup) Do(all bool, sync func(all bool) error) error {
	g.mu.Lock()
	if !g.running {
		g.running = true
		g.mu.Unlock()
		return g.run(nil, all, sync)
	}
	if g.next == nil {
		g.next = &syncRound{lead: make(chan struct{}, 1), done: make(chan struct{})}
	}
	r := g.next
	r.all = r.all || all
	g.mu.Unlock()
	select {
	case <-r.lead:
		return g.run(r, all, sync)
	case <-r.done:
		return r.err
	}
}

// run leads a round (nil: of one), and hands the lead on.
func (g *SyncGroup) run(r *syncRound, all bool, sync func(all bool) error) error {
	if r != nil {
		g.mu.Lock()
		g.next = nil // whoever comes from here on may have written after the sync began
		all = r.all
		g.mu.Unlock()
	}
	err := sync(all)
	if r != nil {
		r.err = err
		close(r.done)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.next != nil {
		g.next.lead <- struct{}{}
	} else {
		g.running = false
	}
	return err
}
