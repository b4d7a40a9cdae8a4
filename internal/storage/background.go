package storage

import (
	"context"
	"errors"
	"math"
	"path"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/quire-log/quire/internal/segments"
)

// The loops of a Manager. Start begins them, Close and Abort wait for their end:
//
//	checkpoints   one loop for each kind; a file is written only when its content has changed, or there is none
//	flush         fsyncs logs that were not for flush.ms
//	retention     has each log drop the segments that its topic's rules let go
//	cleaners      compact logs, one at a time each: see cleaner
//	expiry        has each log forget producers that are silent
//	disks         look how much room is left: see diskWatch
//	prober        takes back logs and directories that failed: see prober
//	removal       removes the directories of deleted partitions, after their delay

// Start begins the background work: flushing, checkpoints, retention, expiry of producers, removal of -delete directories.
func (m *Manager) Start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.started || m.ended {
		return
	}
	m.started = true
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	delay := millis(m.o.InitialTaskDelayMs)
	loop := func(delay time.Duration, everyMs int64, do func(context.Context)) {
		if every := millis(everyMs); every > 0 {
			m.loops.Go(func() { segments.Repeat(ctx, delay, every, do) })
		}
	}
	m.loops.Go(func() { m.eachDir(m.writeMissing)(ctx) })
	loop(delay, m.o.FlushCheckpointMs, m.eachDir(m.writeRecoveryPoints))
	loop(delay, m.o.LogStartCheckpointMs, m.eachDir(m.writeLogStarts))
	loop(0, m.o.HighWatermarkCheckpointMs, m.eachDir(m.hearAndWriteWatermarks))
	loop(delay, m.o.FlushSchedulerMs, m.flushDue)
	loop(delay, m.o.RetentionCheckMs, m.applyRetention)
	loop(millis(m.o.ProducerExpirationCheckMs), m.o.ProducerExpirationCheckMs, m.expireProducers) // not at once: a producer that came back with its log has a while to go on

	for _, d := range m.dirs {
		if d.offline() != nil {
			continue
		}
		for _, name := range d.found.deleted {
			m.remover.add(removal{dir: d, name: name}, millis(m.o.SegmentDeleteDelayMs))
		}
	}
	m.loops.Go(func() { m.remover.run(ctx, m) })
	for _, d := range m.dirs {
		if d.offline() == nil {
			m.watchDisk(d, false)
		}
	}
	loop(millis(m.o.Disk.CheckMs), m.o.Disk.CheckMs, m.watchDisks)
	m.loops.Go(func() { m.prober.run(ctx, m) })
	m.cleaner.start(ctx)
}

// millis is ms as a Duration: 0 for none, and for what a Duration cannot hold, so that log.flush.scheduler.interval.ms=9223372036854775807 is never.
func millis(ms int64) time.Duration {
	if ms <= 0 || ms > math.MaxInt64/int64(time.Millisecond) {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

// eachDir runs a write on each directory that is online. A write that failed is tried again at the next turn; whether the directory
// is given up is decided where the error was seen.
func (m *Manager) eachDir(write func(*dataDir) error) func(context.Context) {
	return func(context.Context) {
		for _, d := range m.dirs {
			if d.offline() != nil {
				continue
			}
			if err := write(d); err != nil {
				m.log.Error("checkpoint was not written", "directory", d.path, "error", err)
			}
		}
	}
}

func (m *Manager) writeCheckpoints(d *dataDir) error {
	return errors.Join(m.writeRecoveryPoints(d), m.writeLogStarts(d), m.writeHighWatermarks(d))
}

// writeMissing writes the checkpoints that a directory has never had: one in use has them all soon after its first start.
func (m *Manager) writeMissing(d *dataDir) error {
	d.mu.Lock()
	missing := slices.ContainsFunc(d.checkpoints[:], func(c checkpoint) bool { return c.missing })
	d.mu.Unlock()
	if !missing {
		return nil
	}
	return errors.Join(m.writeRecoveryPoints(d), m.writeLogStarts(d), m.hearAndWriteWatermarks(d))
}

func (m *Manager) writeRecoveryPoints(d *dataDir) error {
	return errors.Join(d.write(recoveryPoints, m.logsOf(d), recoveryPoint), d.writeCleaner())
}

func (m *Manager) writeLogStarts(d *dataDir) error {
	return d.write(logStarts, m.logsOf(d), logStart)
}

func (m *Manager) writeHighWatermarks(d *dataDir) error {
	return d.write(highWatermarks, m.logsOf(d), watermark)
}

func (m *Manager) hearAndWriteWatermarks(d *dataDir) error {
	for _, h := range m.heldIn(d, nil) {
		m.hearWatermark(h)
	}
	return m.writeHighWatermarks(d)
}

func (m *Manager) logsOf(d *dataDir) func([]*heldLog) []*heldLog {
	return func(into []*heldLog) []*heldLog { return m.heldIn(d, into) }
}

func recoveryPoint(h *heldLog) (Offset, bool) { return h.log.RecoveryPoint(), true }

func watermark(h *heldLog) (Offset, bool) {
	hw := h.watermark.Load()
	return Offset(hw), hw >= 0
}

// logStart gives only starts that lie inside the first segment: any other is that segment's name.
func logStart(h *heldLog) (Offset, bool) {
	start := h.log.StartOffset()
	if start == 0 {
		return 0, false // no segment begins below
	}
	if start <= h.log.FirstSegment() {
		return 0, false
	}
	return start, true
}

// flushDue fsyncs the logs that hold something to fsync and were not fsynced for flush.ms.
func (m *Manager) flushDue(ctx context.Context) {
	for _, h := range m.heldIn(nil, nil) {
		if ctx.Err() != nil {
			return
		}
		if h.log.RecoveryPoint() >= h.log.EndOffset() || time.Since(h.log.LastFlush()).Milliseconds() < h.log.Config().FlushMs {
			continue
		}
		if h.log.Err() != nil {
			continue // it said so when it failed
		}
		if err := h.log.Flush(); err != nil {
			m.log.Error("log was not flushed", "partition", h.tp.String(), "error", err)
		}
	}
}

// applyRetention deletes nothing of a log whose high watermark nobody knows.
func (m *Manager) applyRetention(ctx context.Context) {
	for _, h := range m.heldIn(nil, nil) {
		if ctx.Err() != nil {
			return
		}
		m.retainLog(h)
	}
	m.shed(ctx)
}

// retainLog has a log drop what its rules let go, unless it is being cleaned: after that is time enough.
func (m *Manager) retainLog(h *heldLog) {
	m.hearWatermark(h)
	hw, ok := watermark(h)
	if !ok || h.log.Err() != nil || m.cleaner.busy(h.tp) {
		return
	}
	if _, err := h.log.DeleteOldSegments(hw); err != nil {
		m.log.Error("old segments were not deleted", "partition", h.tp.String(), "error", err)
	}
}

func (m *Manager) expireProducers(ctx context.Context) {
	for _, h := range m.heldIn(nil, nil) {
		if ctx.Err() != nil {
			return
		}
		h.log.ExpireProducers()
	}
}

// A removal is a -delete directory that is to go.
type removal struct {
	dir  *dataDir
	name string
	tp   TopicPartition // of log
	log  *Log           // still open for those who read it; nil for one that an earlier run left
	due  time.Time
}

// removals is the queue of directories to be removed.
type removals struct {
	mu    sync.Mutex    // guards the fields below
	queue []removal     // by due, the earliest first
	wake  chan struct{} // closed when another comes first; nil: nobody waits
}

func (r *removals) add(what removal, delay time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	what.due = time.Now().Add(delay)
	at, _ := slices.BinarySearchFunc(r.queue, what.due, func(q removal, due time.Time) int { // after those of the same time
		if q.due.After(due) {
			return 1
		}
		return -1
	})
	r.queue = slices.Insert(r.queue, at, what)
	if at == 0 && r.wake != nil {
		close(r.wake)
		r.wake = nil
	}
}

// next returns when the first removal is due, if there is one, and a channel that closes when another comes first.
func (r *removals) next() (due time.Time, ok bool, wake <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wake == nil {
		r.wake = make(chan struct{})
	}
	if len(r.queue) > 0 {
		return r.queue[0].due, true, r.wake
	}
	return time.Time{}, false, r.wake
}

// pop takes the first removal, which is due.
func (r *removals) pop() removal {
	r.mu.Lock()
	defer r.mu.Unlock()
	what := r.queue[0]
	r.queue[0] = removal{}
	r.queue = r.queue[1:]
	return what
}

func (r *removals) run(ctx context.Context, m *Manager) {
	for {
		due, ok, wake := r.next()
		if !ok {
			select {
			case <-ctx.Done():
				return
			case <-wake:
			}
			continue
		}
		timer := time.NewTimer(time.Until(due))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-wake:
			timer.Stop()
			continue
		case <-timer.C:
		}
		what := r.pop() // if another came first in this moment, that is due as well
		if err := what.do(m); err != nil {
			m.log.Error("directory of a deleted partition was not removed: the next start tries again", "directory", path.Join(what.dir.path, what.name), "error", err)
			if errors.Is(err, syscall.EIO) {
				what.dir.fail(err)
			}
		}
	}
}

func (r removal) do(m *Manager) error {
	if r.log != nil {
		r.log.Abandon()
	}
	if err := m.o.FS.RemoveAll(path.Join(r.dir.path, r.name)); err != nil {
		return err
	}
	m.log.Info("removed the directory of a deleted partition", "directory", path.Join(r.dir.path, r.name))
	return nil
}

// abandon lets go of the logs that wait; their directories are for the next start to remove. No run is under way any more.
func (r *removals) abandon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, what := range r.queue {
		if what.log != nil {
			what.log.Abandon()
		}
	}
	r.queue = nil
}
