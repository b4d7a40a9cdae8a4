package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quire-log/quire/internal/group"
	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/storage"
)

// loadInflateMax bounds what one batch of a coordinator's log may inflate to: many times what any coordinator writes.
const loadInflateMax = 256 << 20

// loadRetryAfter is how long a log that could not be read is left alone.
const loadRetryAfter = 10 * time.Second

var errNoReplica = errors.New("the node has no log of it")

func (s *shard[M]) name() string { return fmt.Sprintf("%s-%d", s.owner.topic, s.partition) }

// load makes the machine what its log says, and then lets events in. before had the partition until now. The shard is busy, and is
// not when load returns.
func (s *shard[M]) load(before *shard[M]) {
	if before != nil {
		before.end() // keeps S4
	}
	state := shardFailed
	for {
		err := s.read()
		if err == nil {
			state = shardLeading
			break
		}
		if s.owner.ctx.Err() != nil || s.closed() {
			break
		}
		s.owner.log.Error("a coordinator's log cannot be read: its clients wait", "partition", s.name(), "error", err, "again in", loadRetryAfter)
		if !sleep(s.owner.ctx, loadRetryAfter) {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == shardLoading {
		s.state = state
	}
	s.busy = false
	s.idle.Broadcast()
	s.owner.rouse()
}

// sleep returns false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *shard[M]) closed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == shardClosed
}

// read makes a new machine and replays the log from its start to its end, which does not move meanwhile: this node leads, and no
// events are let in.
func (s *shard[M]) read() error {
	c := s.owner
	select {
	case c.loads <- struct{}{}:
		defer func() { <-c.loads }()
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
	begin := time.Now()
	s.replica = c.find(s.partition)
	if s.replica == nil || s.replica.Log() == nil {
		return errNoReplica
	}
	log := s.replica.Log()
	m := c.make(s.partition)
	l := loader{m: m, damaged: func(offset storage.Offset, err error) {
		c.log.Error("a record of a coordinator's log is damaged and has no effect", "partition", s.name(), "offset", int64(offset), "error", err)
	}}
	r := readLog(log, c.loadBuffer, func() bool { return c.ctx.Err() != nil || s.closed() }, l.damaged)
	if pm, ok := any(m).(preparedMachine); ok && log.Size() >= preparedMin {
		l.prepared, r.ahead = pm, group.NewAhead()
	}
	c.work.Go(r.fill)
	c.work.Go(r.cut)
	err := l.replay(r)
	r.close()
	if err != nil {
		m.unload()
		return err
	}
	s.m, s.ok = m, true
	s.stale = false
	m.loaded(time.Now())
	s.due.Store(0) // the timers' goroutine looks when
	if l.records > 0 {
		c.log.Info("a coordinator's log is loaded", "partition", s.name(), "records", l.records, "bytes", r.bytes, "took", time.Since(begin).Round(time.Microsecond).String())
	}
	return nil
}

// A loader replays a log to a machine.
type loader struct {
	m       machine
	damaged func(storage.Offset, error)
	reader  record.Reader
	at      coordEntry // what is replayed
	records int64

	prepared preparedMachine // m, if the reader prepares its records; else nil
}

// A preparedMachine replays records of which much was found out on the goroutine that reads the log.
type preparedMachine interface {
	machine
	// replayPrepared is false of a record that it wants whole. It needs the value of one that is Noted.
	replayPrepared(p *group.Prepared, value []byte) bool
	replayAsIs(p *group.Prepared, e *coordEntry) error
}

// preparedMin is how many bytes of a log are worth the memory that preparing takes.
const preparedMin = 1 << 20

// replay replays all that a reader finds.
func (l *loader) replay(r *logReader) (err error) {
	for p := range r.pieces {
		done := 0
		for _, w := range p.whole {
			l.spans(p, done, w.after)
			l.batch(w.batch, w.from)
			done = w.after
		}
		l.spans(p, done, len(p.spans))
		if p.err != nil {
			err = p.err
		}
		r.done(p)
	}
	return err
}

func (l *loader) spans(p *piece, from, to int) {
	for i := from; i < to; i++ {
		s := &p.spans[i]
		if l.prepared == nil {
			l.record(s.Key(p.buf), s.Value(p.buf), int64(s.Offset), nil)
			continue
		}
		l.records++
		prepared := &p.prepared[i]
		var value []byte
		if prepared.Noted() {
			value = s.Value(p.buf)
		}
		if l.prepared.replayPrepared(prepared, value) {
			continue
		}
		l.at = coordEntry{coordRecord{s.Key(p.buf), s.Value(p.buf)}, int64(s.Offset), nil}
		if err := l.prepared.replayAsIs(prepared, &l.at); err != nil {
			l.damaged(s.Offset, err)
		}
	}
}

func (l *loader) record(key, value []byte, offset int64, producer *coordProducer) {
	l.records++
	l.at = coordEntry{coordRecord{key, value}, offset, producer}
	if err := l.m.replay(&l.at); err != nil {
		l.damaged(storage.Offset(offset), err)
	}
}

// batch replays one batch, or a message of an old set.
func (l *loader) batch(e record.Entry, from storage.Offset) {
	if err := l.reader.ResetEntry(e, loadInflateMax); err != nil {
		l.damaged(e.BaseOffset(), err)
		return
	}
	var producer *coordProducer
	if e.Magic() == 2 {
		b := e.Batch()
		if b.IsControl() {
			l.control(b)
			return
		}
		if b.IsTransactional() {
			producer = &coordProducer{b.ProducerID(), b.ProducerEpoch()}
		}
	}
	for l.reader.Next() {
		r := l.reader.Record()
		if r.Offset < from {
			continue
		}
		l.record(r.Key, r.Value, int64(r.Offset), producer)
	}
	if err := l.reader.Err(); err != nil {
		l.damaged(e.BaseOffset(), err)
	}
}

// control replays the marker of a control batch. Other kinds, and batches that compaction has emptied, say nothing.
func (l *loader) control(b record.Batch) {
	if !l.reader.Next() {
		return
	}
	kind, err := record.ParseControlKey(l.reader.Record().Key)
	if err != nil || kind != record.ControlCommit && kind != record.ControlAbort {
		return
	}
	l.records++
	l.m.replayMarker(b.ProducerID(), b.ProducerEpoch(), kind == record.ControlCommit)
}
