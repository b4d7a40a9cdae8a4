package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quire-log/quire/internal/vfs"
)

// What fails is offline, and is taken back once it works again:
//
//	failed      a write or an fsync that failed fails its log; the directory is probed at once. A directory that fails the
//	            probe, a checkpoint, the creation of a log or a removal is offline, and all logs in it are failed
//	probed      a file is written, fsynced, read back and removed; the pauses between probes grow from
//	            disk.check.interval.ms to probePauseMax
//	taken back  the directory is read anew as a start reads it; each log that failed is opened and recovered as after a crash,
//	            and what lies beyond its recovery point is written again: see opening.rewrite
//
// The metadata log is not among them: who writes it decides upon what it remembers of it, and must begin anew.

const (
	probeFile     = ".quire-probe" // with .tmp; Kafka ignores plain files that it does not know
	probeBytes    = 4096
	probePauseMax = 30 * time.Second
	// retakePauseMax is the longest pause before a log that failed, on a directory that works, is tried again.
	retakePauseMax = 10 * time.Minute
)

// A prober takes back what failed. One goroutine runs it.
type prober struct {
	wake chan struct{} // of capacity 1: something has failed

	mu     sync.Mutex // a leaf; guards failed
	failed map[TopicPartition]bool

	// The rest belongs to the goroutine.
	dirs map[*dataDir]*pace
	logs map[TopicPartition]*pace
}

// A pace says when something is tried again: after pauses that double.
type pace struct {
	next  time.Time
	pause time.Duration
	told  bool // of a log: that it has failed
}

func (p *pace) due() bool { return !time.Now().Before(p.next) }

// again plans the next try. Pauses begin anew after a long time without one.
func (p *pace) again(least, most time.Duration) {
	if now := time.Now(); now.Sub(p.next) > 2*most {
		p.pause = 0
	}
	p.pause = min(max(least, 2*p.pause), max(least, most))
	p.next = time.Now().Add(p.pause)
}

func newProber() *prober {
	return &prober{wake: make(chan struct{}, 1), failed: map[TopicPartition]bool{}, dirs: map[*dataDir]*pace{}, logs: map[TopicPartition]*pace{}}
}

// rouse has the prober look now.
func (p *prober) rouse() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// logFailed is told by a log that failed, under its lock.
func (p *prober) logFailed(tp TopicPartition) {
	p.mu.Lock()
	p.failed[tp] = true
	p.mu.Unlock()
	p.rouse()
}

// sick are the partitions whose logs failed.
func (p *prober) sick() (tps []TopicPartition) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for tp := range p.failed {
		tps = append(tps, tp)
	}
	return tps
}

func (p *prober) cured(tp TopicPartition) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.failed, tp)
}

func (p *prober) run(ctx context.Context, m *Manager) {
	every := millis(m.o.Disk.CheckMs)
	if every <= 0 {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-tick.C:
		}
		if p.look(ctx, m, every) {
			m.o.Returned()
		}
	}
}

// look probes what failed, and tells whether anything was taken back.
func (p *prober) look(ctx context.Context, m *Manager, every time.Duration) (back bool) {
	for _, d := range m.dirs {
		if d.offline() != nil && p.dirs[d] == nil {
			m.announce(d)
			p.dirs[d] = &pace{}
			p.dirs[d].again(every, probePauseMax)
		}
	}
	for _, tp := range p.sick() {
		back = p.lookAt(m, tp, every) || back
	}
	for tp, pace := range p.logs {
		if !pace.told && time.Since(pace.next) > 2*retakePauseMax {
			delete(p.logs, tp) // its pauses would begin anew
		}
	}
	for d, pace := range p.dirs {
		if ctx.Err() != nil {
			return back
		}
		if !pace.due() {
			continue
		}
		if err := m.takeBack(ctx, d); err != nil {
			pace.again(every, probePauseMax)
			m.log.Info("a data directory is offline still", "directory", d.path, "error", err, "again_in", pace.pause)
			continue
		}
		delete(p.dirs, d)
		back = true
	}
	return back
}

// lookAt sees to a log that failed: its directory may have failed as a whole.
func (p *prober) lookAt(m *Manager, tp TopicPartition, every time.Duration) bool {
	d, why := m.failureOf(tp)
	its := p.logs[tp]
	switch {
	case d == nil:
		p.cured(tp) // deleted, or opened anew, or beyond help
		if its != nil {
			its.told = false
		}
		return false
	case d.offline() != nil:
		return false // it comes back with its directory
	}
	if its == nil {
		its = &pace{}
		p.logs[tp] = its
	}
	first := !its.told
	if first {
		its.told = true
		if its.due() { // else it failed a short while after it was opened anew, and its pause goes on
			its.again(every, retakePauseMax)
		}
		m.log.Error("a log has failed: its partition is offline until its disk works", "partition", tp.String(), "directory", d.path, "error", why)
		m.o.Events(Event{Partition: tp, Kind: "log-failed", Offset: -1, Cause: why.Error()})
	}
	due := its.due()
	if !due && !first {
		return false
	}
	if err := d.probe(); err != nil {
		d.fail(err)
		return false
	}
	if !due {
		return false
	}
	its.again(every, retakePauseMax)
	if !m.retake(d, foundDir{tp.String(), tp}, m.kept()) {
		return false
	}
	p.cured(tp)
	its.told = false
	m.log.Info("a log that failed was opened anew, and its partition is online", "partition", tp.String(), "directory", d.path, "had_failed", why)
	m.o.Events(Event{Partition: tp, Kind: "log-online", Offset: -1, Cause: fmt.Sprintf("its directory %s works; it had failed: %v", d.path, why)})
	return true
}

// failureOf tells where a log that failed, or that its disk kept from being opened, is, and why; nil: there is none such.
func (m *Manager) failureOf(tp TopicPartition) (*dataDir, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if h := m.logs[tp]; h != nil {
		if err := h.log.Err(); err != nil {
			return h.dir, err
		}
		return nil, nil
	}
	if f, ok := m.failed[tp]; ok && isDirFault(f.err) && !errors.Is(f.err, fs.ErrNotExist) {
		return f.dir, f.err
	}
	return nil, nil
}

// announce tells that a directory is offline, and fails the logs in it.
func (m *Manager) announce(d *dataDir) {
	err := d.offline()
	held := m.heldIn(d, nil)
	m.o.Events(Event{Kind: "dir-offline", Offset: -1, Cause: fmt.Sprintf("%s: %v; %d partitions are offline", d.path, err, len(held))})
	for _, h := range held {
		_ = h.log.fail(fmt.Errorf("log directory %s is offline: %w", d.path, err))
	}
}

// there tells whether the directory is there, and the one that it was: where a volume was unmounted is one that is empty, and takes files.
func (d *dataDir) there() error { return d.isThere(d.id()) }

func (d *dataDir) isThere(known TopicID) error {
	meta, formatted, err := Formatted(d.fs, d.path)
	var damaged *DirError
	switch {
	case errors.As(err, &damaged):
		return nil // whoever reads the directory anew looks at it closely
	case noDescriptor(err):
		return nil // that says nothing of the directory
	case err != nil:
		return err
	case !formatted:
		return fmt.Errorf("%s is missing: is the volume mounted?: %w", metaFile, fs.ErrNotExist)
	case known != (TopicID{}) && known != meta.DirectoryID:
		return fmt.Errorf("%s gives directory.id %v, which was %v: %w", metaFile, meta.DirectoryID, known, errOtherVolume)
	}
	return nil
}

var errOtherVolume = errors.New("another volume is mounted there")

// probe tells whether a directory can be used.
func (d *dataDir) probe() error {
	if err := d.there(); err != nil {
		return err
	}
	name := path.Join(d.path, probeFile+".tmp")
	err := d.tryFile(name)
	if isDiskFull(err) {
		err = nil // that is a mode, not a failure
	}
	if rm := d.fs.Remove(name); rm != nil && !errors.Is(rm, fs.ErrNotExist) {
		err = errors.Join(err, rm)
	}
	return err
}

func (d *dataDir) tryFile(name string) error {
	f, err := d.fs.OpenFile(name, createFlags, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	var wrote, read [probeBytes]byte
	for i := range wrote {
		wrote[i] = byte(rand.Uint32())
	}
	if _, err := f.WriteAt(wrote[:], 0); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if _, err := f.ReadAt(read[:], 0); err != nil {
		return err
	}
	if !bytes.Equal(wrote[:], read[:]) {
		return fmt.Errorf("%s: what was read is not what was written", name)
	}
	return d.fs.SyncDir(d.path)
}

// takeBack brings an offline directory online, if it works again.
func (m *Manager) takeBack(ctx context.Context, d *dataDir) error {
	why := d.offline()
	if err := d.probe(); err != nil {
		return err
	}
	// The lock is of the directory as it is now: the old one may be a file of a volume that is gone.
	if err := d.unlock(); err != nil {
		m.log.Warn("lock was not given back", "directory", d.path, "error", err)
	}
	var err error
	if d.lock, err = lockDir(m.o.FS, d.path); err != nil {
		return err
	}
	found, err := m.readAgain(d)
	if err != nil {
		return err
	}
	if d.metadataOnly {
		d.failure.Store(nil)
		return nil
	}
	begun := time.Now()
	m.log.Info("a data directory works again: its logs are recovered", "directory", d.path, "logs", len(found), "had_failed", why)
	there := map[TopicPartition]bool{}
	var group errgroup.Group
	group.SetLimit(max(1, m.o.RecoveryThreads))
	keep := m.kept()
	for _, f := range found {
		there[f.tp] = true
		group.Go(func() error {
			if ctx.Err() == nil {
				m.retake(d, f, keep)
			}
			return nil
		})
	}
	_ = group.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	// Had it gone meanwhile, what was not found in it would be taken for lost, though it comes back with it.
	if err := d.there(); err != nil {
		for _, h := range m.heldIn(d, nil) {
			_ = h.log.fail(fmt.Errorf("log directory %s is offline: %w", d.path, err))
		}
		return err
	}
	for _, h := range m.heldIn(d, nil) {
		if !there[h.tp] {
			m.lose(d, h)
		}
	}
	m.forgetGone(d)
	d.failure.Store(nil)
	m.watchDisk(d, true)
	m.log.Info("a data directory is online again", "directory", d.path, "logs", len(found), "took", time.Since(begun))
	m.o.Events(Event{Kind: "dir-online", Offset: -1, Cause: fmt.Sprintf("%s works again; %d logs were recovered; it had failed: %v", d.path, len(found), why)})
	return nil
}

// readAgain reads an offline directory as a start would, and makes it one in use.
func (m *Manager) readAgain(d *dataDir) ([]foundDir, error) {
	now := &dataDir{fs: d.fs, log: d.log, path: d.path, brokerEpoch: -1}
	if err := now.read(); err != nil {
		return nil, err
	}
	others := []*dataDir{now}
	for _, o := range m.dirs {
		if o != d && o.offline() == nil {
			others = append(others, o)
		}
	}
	if _, err := checkMetas(others, m.o.NodeID, m.meta.ClusterID); err != nil {
		return nil, err
	}
	var live []foundDir
	for _, f := range now.found.live {
		switch {
		case f.tp.Topic != metadataTopic:
			live = append(live, f)
		case d != m.metadataDir:
			return nil, &DirError{d.path, fmt.Errorf("found %s, which belongs into the metadata directory %s alone", f.name, m.metadataDir.path)}
		}
	}
	if err := now.begin(); err != nil {
		return nil, err
	}
	if now.meta.DirectoryID == (TopicID{}) {
		now.meta = Meta{ClusterID: m.meta.ClusterID, NodeID: m.meta.NodeID, DirectoryID: RandomID()}
		if err := writeMeta(m.o.FS, d.path, now.meta); err != nil {
			return nil, err
		}
	}
	d.mu.Lock()
	d.meta, d.clean, d.brokerEpoch = now.meta, now.clean, now.brokerEpoch
	d.checkpoints, d.cleaner = now.checkpoints, now.cleaner
	d.mu.Unlock()
	m.mu.Lock()
	first := !d.loaded
	for tp, offset := range now.checkpoints[highWatermarks].kept {
		if m.logs[tp] == nil {
			m.restored[tp] = offset
		}
	}
	m.mu.Unlock()
	if first {
		for _, name := range now.found.deleted {
			m.remover.add(removal{dir: d, name: name}, millis(m.o.SegmentDeleteDelayMs))
		}
	}
	return live, nil
}

// retake opens a log that failed, or was never read, and tells whether it is open. keep is LoadLogs's.
func (m *Manager) retake(d *dataDir, f foundDir, keep func(TopicPartition, TopicID) bool) bool {
	stripe := m.stripe(f.tp)
	stripe.Lock()
	defer stripe.Unlock()
	m.mu.RLock()
	old, failed, ended := m.logs[f.tp], m.failed[f.tp], m.ended
	m.mu.RUnlock()
	if ended {
		return false
	}
	if old != nil && (old.dir != d || old.log.Err() == nil) {
		if old.dir == d {
			return true
		}
		// A topic of that name was made anew while the directory was away.
		keep = func(TopicPartition, TopicID) bool { return false }
	}
	doubted := old != nil || failed.dir == d && failed.doubted
	if old != nil && old.dir == d {
		m.cleaner.abort(f.tp, "its log failed")
		old.log.Abandon()
		d.expect(old)
		m.mu.Lock()
		delete(m.logs, f.tp) // the stripe keeps others from making one
		d.partitions--
		m.mu.Unlock()
	}
	if failed.dir == d {
		m.dropFailed(f.tp)
	}
	d.mu.Lock()
	clean := d.clean && !doubted
	d.mu.Unlock()
	m.loadAs(d, f, keep, clean, doubted)
	return m.Log(f.tp) != nil
}

// expect makes the checkpoints' entries of a log that failed those of one that is not open.
func (d *dataDir) expect(h *heldLog) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for kind := range checkpointKinds {
		c := &d.checkpoints[kind]
		if _, known := c.kept[h.tp]; !known && h.saved[kind].ok {
			c.kept[h.tp] = h.saved[kind].offset
		}
	}
	if start, ok := logStart(h); ok && start > d.checkpoints[logStarts].kept[h.tp] { // keeps I3: it was promised
		d.checkpoints[logStarts].kept[h.tp] = start
		d.checkpoints[logStarts].changed = true
	}
}

func (m *Manager) dropFailed(tp TopicPartition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f, ok := m.failed[tp]; ok {
		delete(m.failed, tp)
		f.dir.partitions--
	}
}

// lose takes away a log whose directory did not come back. It is not made anew: that would pass for an empty partition.
func (m *Manager) lose(d *dataDir, h *heldLog) {
	stripe := m.stripe(h.tp)
	stripe.Lock()
	defer stripe.Unlock()
	m.mu.Lock()
	mine := m.logs[h.tp] == h
	if mine {
		delete(m.logs, h.tp)
		m.failed[h.tp] = failedLog{d, h.tp.String(), fmt.Errorf("%s is not there any more: %w", path.Join(d.path, h.tp.String()), fs.ErrNotExist), true}
	}
	m.mu.Unlock()
	if !mine {
		return
	}
	h.log.Abandon()
	m.log.Error("a partition's directory did not come back with its data directory: it stays offline", "partition", h.tp.String(), "directory", d.path)
	m.o.Events(Event{Partition: h.tp, Kind: "log-failed", Offset: -1, Cause: fmt.Sprintf("its directory is gone from %s", d.path)})
}

// rewriteStep is how much is read and written at once.
const rewriteStep = 1 << 20

// rewrite writes what lies beyond the recovery point again, as it was read. After an fsync that failed the kernel may count pages as
// written that are in its memory alone: another fsync would pass over them, and its success would prove nothing.
func (op *opening) rewrite() error {
	buf := make([]byte, rewriteStep)
	segs := op.segments.Load()
	for i, s := range segs {
		if i+1 < len(segs) && segs[i+1].base <= op.recoveryPoint {
			continue
		}
		f, err := s.acquire()
		if err != nil {
			return err
		}
		err = rewriteFile(f, s.size.Load(), buf)
		s.release()
		if err != nil {
			return fmt.Errorf("%s: %w", s.name(logSuffix), err)
		}
	}
	return nil
}

func rewriteFile(f vfs.File, size int64, buf []byte) error {
	for pos := int64(0); pos < size; pos += int64(len(buf)) {
		b := buf[:min(int64(len(buf)), size-pos)]
		if _, err := f.ReadAt(b, pos); err != nil {
			return err
		}
		if _, err := f.WriteAt(b, pos); err != nil {
			return err
		}
	}
	return nil
}
