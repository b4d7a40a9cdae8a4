package server

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/replica"
	"github.com/quire-log/quire/internal/storage"
)

// A shard is a machine with its log. Events happen one after another: whoever comes first carries out those of all who come
// meanwhile, and the records of many events share one append.
type shard[M machine] struct {
	owner     *shards[M]
	partition int32
	epoch     replica.Epoch // the leadership that it lives for
	due       atomic.Int64  // when its machine has something to do, ns; never

	// mu guards the fields below. Nothing is taken under it.
	mu    sync.Mutex
	idle  sync.Cond // busy became false
	state shardState
	busy  bool // somebody carries out events, or loads: machine and log are theirs
	queue []*event[M]
	spare []*event[M] // the memory of a queue, to be used again

	// The rest belongs to whoever made the shard busy.
	m  M
	ok bool // there is a machine
	shardLog
}

type shardState int8

const (
	shardLoading shardState = iota
	shardLeading
	shardFailed // its log cannot be read
	shardClosed
)

// refusal is what clients are told instead of an answer.
func (s shardState) refusal() error {
	switch s {
	case shardLeading:
		return nil
	case shardLoading:
		return kerr.CoordinatorLoadInProgress
	}
	return kerr.NotCoordinator
}

// An event is something that happens to a machine: one of decide, ticks and marker.
type event[M machine] struct {
	decide func(m M, now time.Time) effect
	ticks  bool // everything that is due is done
	marker *markerEvent
	// refuse is called instead if the machine cannot be asked. May be nil.
	refuse func(error)
}

func (e *event[M]) fail(err error) {
	if e.refuse != nil {
		e.refuse(err)
	}
}

// A markerEvent is the end of a transaction on its way into the log.
type markerEvent struct {
	producer coordProducer
	commit   bool
	batch    record.Batch
	options  storage.AppendOptions
	done     chan error // of capacity 1
}

func newShard[M machine](c *shards[M], partition int32, epoch replica.Epoch) *shard[M] {
	s := &shard[M]{owner: c, partition: partition, epoch: epoch, busy: true}
	s.idle.L = &s.mu
	s.due.Store(never)
	s.builder = record.NewBuilder()
	s.builder.Codec, s.builder.BaseSequence = c.codec, c.sequence
	return s
}

// do lets an event happen, now or, if somebody is at it, soon. It may be over when do returns.
func (s *shard[M]) do(e *event[M]) {
	s.mu.Lock()
	if err := s.state.refusal(); err != nil {
		s.mu.Unlock()
		e.fail(err)
		return
	}
	s.queue = append(s.queue, e)
	if s.busy {
		s.mu.Unlock()
		return
	}
	s.busy = true
	s.mu.Unlock()
	if s.round() {
		// The one who came first has done its own and what came with it. The rest is not its to wait for.
		s.owner.work.Go(func() {
			for s.round() {
			}
		})
	}
}

// sharedMax bounds the events that share an append, so that none waits for too many others.
const sharedMax = 4096

// round carries out the events that wait. False: none is left and the shard is idle again, or it is being loaded anew.
func (s *shard[M]) round() (more bool) {
	s.mu.Lock()
	events, refusal := s.queue, s.state.refusal()
	s.queue, s.spare = s.spare[:0], nil
	s.mu.Unlock()

	left := events
	for len(left) > 0 && refusal == nil && !s.stale {
		n := min(len(left), sharedMax)
		s.carryOut(left[:n])
		left = left[n:]
	}
	if s.stale {
		refusal = kerr.CoordinatorLoadInProgress
	}
	for _, e := range left {
		e.fail(refusal)
	}
	clear(events)

	s.mu.Lock()
	if s.stale {
		s.reload() // unlocks
		return false
	}
	defer s.mu.Unlock()
	s.spare = events[:0]
	if len(s.queue) > 0 {
		return true
	}
	s.busy = false
	s.idle.Broadcast()
	return false
}

// reload throws the machine away, whose state is not that of the log, and begins to load another. mu is held, and is given back. keeps S1
func (s *shard[M]) reload() {
	left := s.queue
	s.queue = nil
	if s.state == shardLeading {
		s.state = shardLoading
	}
	s.mu.Unlock()
	for _, e := range left {
		e.fail(kerr.CoordinatorLoadInProgress)
	}
	s.discard()
	s.owner.work.Go(func() { s.load(nil) })
}

// discard ends the machine: what waits in it is answered.
func (s *shard[M]) discard() {
	s.due.Store(never)
	if s.ok {
		s.m.unload()
		s.tell(nil)
		var none M
		s.m, s.ok = none, false
	}
}

// carryOut lets events happen, in order. Several events share an append: each is replayed as it comes, so that the next one sees
// it, and what they reply is held back until all is written. The records of a single one are written first and then replayed.
func (s *shard[M]) carryOut(events []*event[M]) {
	now := time.Now()
	s.begin(s.replica)
	for i, e := range events {
		var err error
		switch {
		case e.marker != nil:
			err = s.carryMarker(e.marker)
		case e.ticks:
			err = s.tick(now)
		default:
			err = s.take(s.m, e.decide(s.m, now), now, len(events) > 1 && !s.careful)
		}
		if err != nil && s.stale {
			for _, e := range events[i+1:] {
				e.fail(kerr.CoordinatorLoadInProgress)
			}
			break
		}
	}
	s.flush(s.m)
	if s.stale {
		return
	}
	if due, ok := s.m.nextTimer(); ok {
		ns := due.UnixNano()
		s.due.Store(ns)
		if ns < s.owner.wake.Load() {
			s.owner.rouse()
		}
	} else {
		s.due.Store(never)
	}
}

// tick does what is due. The rest of very much stays for the next round: the timer is then still due.
func (s *shard[M]) tick(now time.Time) error {
	for range sharedMax {
		if due, ok := s.m.nextTimer(); !ok || due.After(now) {
			return nil
		}
		if err := s.take(s.m, s.m.tick(now), now, false); err != nil {
			return err
		}
	}
	return nil
}

func (s *shard[M]) carryMarker(e *markerEvent) error {
	err := s.flush(s.m)
	if err == nil {
		err = s.appendMarker(e)
	}
	if err == nil {
		s.m.replayMarker(e.producer.id, e.producer.epoch, e.commit)
	}
	e.done <- err
	return err
}

// close lets no more events in. What was let in is answered.
func (s *shard[M]) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = shardClosed
}

// end waits until nobody uses the shard, and ends its machine. It was closed before. keeps S4
func (s *shard[M]) end() {
	s.mu.Lock()
	for s.busy {
		s.idle.Wait()
	}
	s.busy = true
	s.mu.Unlock()
	s.discard()
	s.mu.Lock()
	s.busy = false
	s.mu.Unlock()
}

// release is called by a reply: whoever waits for it goes on once everything decided before it is committed. keeps S2
func (s *shard[M]) release(h finisher) { s.released = append(s.released, h) }
