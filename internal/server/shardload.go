package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

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
	end := log.EndOffset()
	buf := loadBuffers.Get().(*[]byte)
	defer loadBuffers.Put(buf)
	for at := log.StartOffset(); at < end; {
		if c.ctx.Err() != nil || s.closed() {
			m.unload()
			return context.Canceled
		}
		d, err := log.Read(at, storage.ReadOptions{MaxBytes: int64(c.loadBuffer), Limit: end, MinOneBatch: true})
		if err != nil {
			var moved *storage.OutOfRangeError
			if errors.As(err, &moved) && at < log.StartOffset() {
				at = log.StartOffset() // retention was faster
				continue
			}
			m.unload()
			return err
		}
		next, err := l.take(d, at, buf)
		d.Release()
		if err != nil {
			m.unload()
			return fmt.Errorf("at offset %d: %w", at, err)
		}
		if next <= at { // what lies before the end are no batches, but offsets of some that are gone
			break
		}
		at = next
	}
	s.m, s.ok = m, true
	s.stale = false
	m.loaded(time.Now())
	s.due.Store(0) // the timers' goroutine looks when
	if l.records > 0 {
		c.log.Info("a coordinator's log is loaded", "partition", s.name(), "records", l.records, "bytes", l.bytes, "took", time.Since(begin).Round(time.Microsecond).String())
	}
	return nil
}

// loadBuffers are as large as the largest read that they were used for.
var loadBuffers = sync.Pool{New: func() any { return new([]byte) }}

// A loader replays batches to a machine.
type loader struct {
	m       machine
	damaged func(storage.Offset, error)
	reader  record.Reader
	at      coordEntry // what is replayed
	records int64
	bytes   int64
}

// take replays what a read found, but for what lies before offset from, and returns the offset that follows.
func (l *loader) take(d storage.Data, from storage.Offset, buf *[]byte) (next storage.Offset, err error) {
	next = from
	for _, r := range d.Regions {
		if int64(cap(*buf)) < r.Len {
			*buf = make([]byte, r.Len)
		}
		b := (*buf)[:r.Len]
		if n, err := r.File.ReadAt(b, r.Pos); n < len(b) {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return next, err
		}
		for len(b) > 0 {
			e, err := record.FirstEntry(b)
			if errors.Is(err, io.ErrUnexpectedEOF) {
				break // the bytes end within a batch
			}
			if err != nil {
				return next, err
			}
			if e.LastOffset() >= from {
				l.entry(e, from)
			}
			next = e.LastOffset() + 1
			b = b[len(e):]
			l.bytes += int64(len(e))
		}
	}
	return next, nil
}

// entry replays one batch, or a message of an old set.
func (l *loader) entry(e record.Entry, from storage.Offset) {
	if err := e.Check(); err != nil {
		l.damaged(e.BaseOffset(), err)
		return
	}
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
		l.records++
		l.at = coordEntry{coordRecord{r.Key, r.Value}, int64(r.Offset), producer}
		if err := l.m.replay(&l.at); err != nil {
			l.damaged(r.Offset, err)
		}
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
