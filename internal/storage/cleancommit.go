package storage

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// cleanCommits make the outputs of groups durable and put them in the place of what they were made from, in the order in which they
// were added, while the next groups are copied. One goroutine seals, one swaps, so that what they wait for, which is the disk, is waited
// for side by side; wait is their end. A group is never swapped before the one ahead of it: a tombstone that is gone from a later one
// must not leave behind what it deleted in an earlier one. After one that failed no other is swapped.
//
// What waits is bounded, since the outputs' indexes are in memory until then (1/200 of their bytes) and their files open: commitWaiting
// passes, of commitWaitingBytes together. A larger one waits alone.
type cleanCommits struct {
	room      *semaphore.Weighted // nil: each is committed by add
	queue     chan *cleanPass
	both      sync.WaitGroup
	failed    atomic.Bool
	committed []*cleanPass // of the one that swaps; and err
	err       error
}

const (
	commitWaiting      = 8
	commitWaitingBytes = 256 << 20
)

func newCleanCommits(beside bool) *cleanCommits {
	k := &cleanCommits{}
	if !beside {
		return k
	}
	k.room = semaphore.NewWeighted(commitWaitingBytes)
	k.queue = make(chan *cleanPass, commitWaiting)
	sealed := make(chan *cleanPass)
	k.both.Go(func() {
		defer close(sealed)
		for p := range k.queue {
			if !k.failed.Load() {
				p.failed = p.seal()
			}
			sealed <- p
		}
	})
	k.both.Go(func() {
		for p := range sealed {
			k.take(p)
			k.room.Release(p.waits)
		}
	})
	return k
}

// add hands over a pass that is whole, and with it its removal. false: one before it failed, and wait says how.
func (k *cleanCommits) add(p *cleanPass) bool {
	if k.room == nil {
		p.failed = p.seal()
		k.take(p)
		return k.err == nil
	}
	for _, o := range p.outs {
		p.waits += o.size
	}
	p.waits = min(p.waits, commitWaitingBytes)
	_ = k.room.Acquire(context.Background(), p.waits) // not for longer than the disk takes
	k.queue <- p
	return !k.failed.Load()
}

// take swaps a sealed pass, unless one before it failed.
func (k *cleanCommits) take(p *cleanPass) {
	switch {
	case k.err != nil:
		p.remove()
		return
	case p.failed == nil:
		p.failed = p.swap()
	}
	if p.failed != nil {
		k.failed.Store(true)
		k.err = p.failed
		p.remove()
		return
	}
	k.committed = append(k.committed, p)
}

// wait returns once nothing is left to do, and counts what was done.
func (k *cleanCommits) wait(stats *CleanStats) error {
	if k.room != nil {
		close(k.queue)
		k.both.Wait()
	}
	for _, p := range k.committed {
		stats.add(p)
	}
	return k.err
}
