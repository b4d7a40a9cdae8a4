package replica

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/storage"
)

// A Partition is one replica on this node.
type Partition struct {
	nodeID int32
	tp     TopicPartition
	id     kmeta.UUID

	// mu is held shared by appends, so that they can share an fsync, and alone by whoever changes state:
	// an append is of the epoch that it was checked against. It is taken before the log's own lock.
	mu    sync.RWMutex
	state atomic.Pointer[state] // stored under mu, loaded without it where no append follows

	retried pace

	highWatermark atomic.Int64 // only rises, but for a new log (I2)

	waiters waiterList
}

// A state is immutable.
type state struct {
	log         *storage.Log // nil: not open, then err says why
	err         error        // not nil: offline
	leader      int32        // -1 none
	leaderEpoch Epoch        // -1: nothing was said yet
	inSync      int
	replicas    int
	minISR      int
	gone        bool // no longer of this node
	// reopen, if not nil, opens the log that could not be opened for want of room or of descriptors; mu is held.
	reopen func() (*storage.Log, error)
}

func newPartition(nodeID int32, tp TopicPartition, id kmeta.UUID) *Partition {
	p := &Partition{nodeID: nodeID, tp: tp, id: id}
	p.state.Store(&state{leader: -1, leaderEpoch: -1})
	return p
}

func (p *Partition) TopicPartition() TopicPartition { return p.tp }
func (p *Partition) TopicID() kmeta.UUID            { return p.id }

// Log is nil while the partition is offline.
func (p *Partition) Log() *storage.Log { return p.state.Load().log }

// change replaces the state and wakes who waits. keeps I3
func (p *Partition) change(f func(*state) error) error {
	p.mu.Lock()
	next := *p.state.Load()
	err := f(&next)
	if err == nil {
		p.state.Store(&next)
	}
	p.mu.Unlock()
	p.wake()
	return err
}

// agrees tells whether the partition is already what the controller says of it.
func (p *Partition) agrees(said *metadata.Partition) bool {
	s := p.state.Load()
	return s.log != nil && s.log.Err() == nil && s.err == nil && s.leader == said.Leader && s.leaderEpoch == said.LeaderEpoch &&
		s.inSync == len(said.ISR) && s.replicas == len(said.Replicas)
}

// lead follows what the controller says of the partition; log is what to serve it from, nil if none could be opened. keeps I1
func (p *Partition) lead(log *storage.Log, said *metadata.Partition, minISR int) error {
	return p.change(func(s *state) error {
		if said.Leader == p.nodeID && said.LeaderEpoch == s.leaderEpoch && s.lost(log) {
			return errShorter
		}
		begins := said.Leader == p.nodeID && log != nil && (s.log != log || s.leader != said.Leader || s.leaderEpoch != said.LeaderEpoch)
		if begins {
			if err := log.AssignEpoch(said.LeaderEpoch); err != nil {
				return err
			}
		}
		if log != nil && log != s.log {
			p.take(s, log)
		}
		s.leader, s.leaderEpoch, s.inSync, s.replicas, s.minISR = said.Leader, said.LeaderEpoch, len(said.ISR), len(said.Replicas), minISR
		if begins && !slices.ContainsFunc(said.ISR, func(id int32) bool { return id != p.nodeID }) {
			// Nobody else need agree, so everything in the log is agreed on.
			p.raise(log.EndOffset())
		}
		return nil
	})
}

// take makes a log the one to serve from: what kept it from being opened, or failed the one before, is past. A recovery may have found
// less in it than was acknowledged, and then no more can be given out.
func (p *Partition) take(s *state, log *storage.Log) {
	s.log, s.err, s.reopen = log, nil, nil
	for {
		hw := p.highWatermark.Load()
		if end := int64(log.EndOffset()); hw <= end || p.highWatermark.CompareAndSwap(hw, end) {
			return
		}
	}
}

// retake has a partition whose log failed, or could not be opened, serve from the one that open gives. keeps I1
func (p *Partition) retake(open func() (*storage.Log, error)) {
	if p.state.Load().healthy() {
		return
	}
	p.change(func(s *state) error {
		if s.gone || s.healthy() {
			return nil
		}
		p.open(s, open)
		return nil
	})
}

// healthy tells whether there is a log, and nothing is known to be wrong with it.
func (s *state) healthy() bool { return s.log != nil && s.log.Err() == nil && s.err == nil }

// lost tells whether log, which takes the place of the one before, has less than that had given out.
func (s *state) lost(log *storage.Log) bool {
	return log != nil && s.log != nil && log != s.log && log.EndOffset() < s.log.EndOffset()
}

// errShorter: a log came back with less than it had, and its partition waits for a new leader epoch.
var errShorter = errors.New("its log was taken back without all that it had")

// open has the partition serve from the log that open gives, in the epoch that it is in, or be offline. mu is held.
func (p *Partition) open(s *state, open func() (*storage.Log, error)) {
	log, err := open()
	if err == nil && s.leader == p.nodeID {
		err = log.AssignEpoch(s.leaderEpoch)
	}
	if err != nil {
		s.err = err
		return
	}
	p.take(s, log)
	if s.leader == p.nodeID && s.inSync == 1 {
		p.raise(log.EndOffset())
	}
}

// fail takes the partition offline.
func (p *Partition) fail(err error) {
	p.change(func(s *state) error {
		s.err = err
		return nil
	})
}

// wait takes the partition offline until reopen succeeds, which whoever needs it next tries.
func (p *Partition) wait(err error, reopen func() (*storage.Log, error)) {
	p.change(func(s *state) error {
		s.err, s.reopen = err, reopen
		return nil
	})
}

// retry opens the log if what kept it from being opened may be over. keeps I1
func (p *Partition) retry() {
	if p.state.Load().reopen == nil || !p.retried.due() {
		return
	}
	p.change(func(s *state) error {
		if s.reopen == nil || s.log != nil || s.gone {
			return nil
		}
		p.open(s, s.reopen)
		return nil
	})
}

// retryPause is between two tries to open a log, however many ask for it.
const retryPause = 100 * time.Millisecond

// A pace lets one through, and the next a pause later. The zero one lets the first through.
type pace struct{ last atomic.Int64 }

func (p *pace) due() bool {
	last, now := p.last.Load(), time.Now().UnixNano()
	return now-last >= int64(retryPause) && p.last.CompareAndSwap(last, now)
}

// leave is the end of the partition on this node.
func (p *Partition) leave() {
	p.change(func(s *state) error {
		s.gone, s.leader = true, -1
		return nil
	})
}

func (p *Partition) configure(c storage.Config, minISR int) {
	p.change(func(s *state) error {
		s.minISR = minISR
		if s.log != nil {
			s.log.SetConfig(c)
		}
		return nil
	})
}

// Leader is who leads, and since which epoch; leader == node id: this one.
func (p *Partition) Leader() (leader int32, epoch Epoch) {
	s := p.state.Load()
	return s.leader, s.leaderEpoch
}

// Gone tells whether this node has no longer a replica: the topic was deleted, or moved away.
func (p *Partition) Gone() bool { return p.state.Load().gone }

// CheckLeader is nil if this node leads and epoch (−1: not given) is the current one: else *NotLeaderError or *EpochError, or *OfflineError.
func (p *Partition) CheckLeader(epoch Epoch) error {
	p.retry()
	return p.check(p.state.Load(), epoch)
}

func (p *Partition) check(s *state, epoch Epoch) error {
	switch {
	case s.err != nil:
		return &OfflineError{p.tp, s.err}
	case s.log != nil && s.log.Err() != nil:
		return &OfflineError{p.tp, s.log.Err()}
	case epoch >= 0 && epoch != s.leaderEpoch:
		return &EpochError{p.tp, epoch, s.leaderEpoch}
	case s.leader != p.nodeID || s.log == nil:
		return &NotLeaderError{p.tp, s.leader, s.leaderEpoch}
	}
	return nil
}

// Append appends for a client or coordinator and moves the high watermark. acks is the request's: -1 demands min.insync.replicas in sync beforehand (*NotEnoughReplicasError).
func (p *Partition) Append(b record.Batch, acks int16, o storage.AppendOptions) (storage.Appended, error) {
	a, err := p.append(b, acks, o)
	if err != nil {
		var failed *storage.FailedError
		if errors.As(err, &failed) {
			p.wake() // those who wait for more are told
			err = &OfflineError{p.tp, err}
		}
		return a, err
	}
	if p.raise(a.LastOffset + 1) {
		p.wake()
	}
	return a, nil
}

func (p *Partition) append(b record.Batch, acks int16, o storage.AppendOptions) (storage.Appended, error) {
	p.retry()
	p.mu.RLock()
	defer p.mu.RUnlock()
	s := p.state.Load()
	if err := p.check(s, -1); err != nil {
		return storage.Appended{}, err
	}
	if least := min(s.minISR, s.replicas); acks == -1 && s.inSync < least {
		return storage.Appended{}, &NotEnoughReplicasError{p.tp, s.inSync, least}
	}
	o.LeaderEpoch = s.leaderEpoch
	return s.log.Append(b, o)
}

// raise moves the high watermark up to offset, and tells whether it moved. keeps I2
func (p *Partition) raise(offset Offset) bool {
	for {
		now := p.highWatermark.Load()
		if int64(offset) <= now {
			return false
		}
		if p.highWatermark.CompareAndSwap(now, int64(offset)) {
			return true
		}
	}
}

// HighWatermark, LastStableOffset: what consumers may see.
func (p *Partition) HighWatermark() Offset { return Offset(p.highWatermark.Load()) }

func (p *Partition) LastStableOffset() Offset {
	hw := p.HighWatermark()
	if log := p.Log(); log != nil {
		return log.LastStableOffset(hw)
	}
	return hw
}

// Bounds are log start, last stable offset, high watermark and log end of one moment, for a leader; the error is CheckLeader's.
func (p *Partition) Bounds() (storage.Bounds, error) {
	p.mu.RLock() // no other log takes this one's place meanwhile
	defer p.mu.RUnlock()
	s := p.state.Load()
	if err := p.check(s, -1); err != nil {
		return storage.Bounds{}, err
	}
	return s.log.Bounds(p.HighWatermark), nil
}

// DeleteRecords raises the log start (offset -1: to the high watermark): *storage.OutOfRangeError above it.
func (p *Partition) DeleteRecords(offset Offset) (lowWatermark Offset, err error) {
	s := p.state.Load()
	if err := p.check(s, -1); err != nil {
		return -1, err
	}
	hw := p.HighWatermark()
	if offset == -1 {
		offset = hw
	}
	if offset < 0 || offset > hw {
		return -1, &storage.OutOfRangeError{Partition: p.tp, Offset: offset, Start: s.log.StartOffset(), End: hw}
	}
	low, err := s.log.DeleteRecords(offset)
	p.wake()
	return low, err
}
