package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"golang.org/x/sync/errgroup"
)

// LoadLogs opens every partition's log that it finds, several at a time, recovering where needed. keep tells what metadata says of a
// directory (topic id as found in partition.metadata, zero if none): false makes it -stray. nil keeps all.
//
// keep is asked again when a directory that failed is taken back, and may answer otherwise then.
//
// A log that cannot be opened stays as it is and is named by Dirs, and by CreateLog; the others go on. An error means that ctx ended: what
// is open until then is closed by Close.
func (m *Manager) LoadLogs(ctx context.Context, keep func(tp TopicPartition, id TopicID) bool) error {
	m.mu.Lock()
	m.keep = keep
	m.mu.Unlock()
	var dirs errgroup.Group
	for _, d := range m.dirs {
		if d.offline() == nil && !d.metadataOnly {
			dirs.Go(func() error { return m.loadDir(ctx, d, keep) })
		}
	}
	return dirs.Wait()
}

func (m *Manager) loadDir(ctx context.Context, d *dataDir, keep func(TopicPartition, TopicID) bool) error {
	begun := time.Now()
	m.log.Info("loading logs", "directory", d.path, "logs", len(d.found.live), "clean", d.clean)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(1, m.o.RecoveryThreads))
	for _, f := range d.found.live {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			m.load(d, f, keep)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := d.there(); err != nil { // what could not be opened came to nothing with it: the prober reads it anew
		d.fail(err)
		return nil
	}
	m.forgetGone(d)
	m.log.Info("loaded logs", "directory", d.path, "logs", len(d.found.live), "took", time.Since(begun))
	return nil
}

// forgetGone drops the checkpoints' entries of what a directory that was gone through has not.
func (m *Manager) forgetGone(d *dataDir) {
	d.retainOnly(func(tp TopicPartition) bool {
		m.mu.RLock()
		defer m.mu.RUnlock()
		return m.failed[tp].dir == d
	}, func(tp TopicPartition) bool {
		m.mu.RLock()
		defer m.mu.RUnlock()
		return m.logs[tp] != nil && m.logs[tp].dir == d
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	d.loaded = true
}

// kept is what LoadLogs was told to ask.
func (m *Manager) kept() func(TopicPartition, TopicID) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.keep
}

// load opens one log. Its failure is kept, not returned.
func (m *Manager) load(d *dataDir, f foundDir, keep func(TopicPartition, TopicID) bool) {
	stripe := m.stripe(f.tp)
	stripe.Lock()
	defer stripe.Unlock()
	m.mu.RLock()
	ended := m.ended
	m.mu.RUnlock()
	if ended {
		return
	}
	m.loadAs(d, f, keep, d.clean, false)
}

// loadAs is load, the stripe held. doubted: see open.
func (m *Manager) loadAs(d *dataDir, f foundDir, keep func(TopicPartition, TopicID) bool, clean, doubted bool) {
	dir := path.Join(d.path, f.name)
	id, err := m.topicIDIn(d, dir)
	switch {
	case err != nil:
	case keep != nil && !keep(f.tp, id):
		err = m.makeStray(d, f, id)
		if err == nil {
			return
		}
	default:
		err = m.open(d, f.tp, id, true, clean, doubted)
	}
	if err != nil {
		m.log.Error("log cannot be opened: its partition is offline, its files stay as they are", "partition", f.tp.String(), "directory", dir, "error", err)
		m.o.Events(Event{Partition: f.tp, Kind: "log-failed", Offset: -1, Cause: err.Error()})
		m.mu.Lock()
		m.failed[f.tp] = failedLog{d, f.name, err, doubted}
		d.partitions++
		m.mu.Unlock()
	}
}

// topicIDIn returns the topic id in a partition's directory, zero without a partition.metadata. That the file is missing is believed only
// of a directory that is there.
func (m *Manager) topicIDIn(d *dataDir, dir string) (TopicID, error) {
	name := path.Join(dir, partitionMetaName)
	id, err := readPartitionMetadata(m.o.FS, name)
	if !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	if err := d.there(); err != nil {
		return TopicID{}, err
	}
	if id, err = readPartitionMetadata(m.o.FS, name); !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	_, err = m.o.FS.Stat(dir)
	return TopicID{}, err
}

// open opens the log of tp in d, whose entries in the checkpoints hold for it. doubted: an fsync of its files
// may have failed since they were last opened. The caller holds tp's stripe.
func (m *Manager) open(d *dataDir, tp TopicPartition, id TopicID, idRead, clean, doubted bool) error {
	d.mu.Lock()
	recovery, start := d.checkpoints[recoveryPoints].kept[tp], d.checkpoints[logStarts].kept[tp]
	d.mu.Unlock()
	l, err := OpenLog(LogOptions{
		FS:            m.o.FS,
		Dir:           path.Join(d.path, tp.String()),
		Partition:     tp,
		TopicID:       id,
		TopicIDRead:   idRead,
		Config:        m.o.ConfigFor(tp.Topic),
		Clean:         clean,
		Doubted:       doubted,
		RecoveryPoint: recovery,
		LogStart:      start,
		SyncParent:    d.syncNames,
		DiskFull:      &d.disk.full,
		Events:        m.o.Events,
		Failed:        func() { m.prober.logFailed(tp) },
		Compacts:      m.cleaner.rouse,
	})
	if err != nil {
		return err
	}
	h := &heldLog{tp: tp, log: l, dir: d}
	h.watermark.Store(-1)
	m.mu.RLock()
	if hw, ok := m.restored[tp]; ok {
		h.watermark.Store(int64(hw))
	}
	m.mu.RUnlock()
	d.adopt(h, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.logs[tp] = h
		d.partitions++
	})
	return nil
}

// makeStray renames a directory that metadata does not know. Nothing is deleted: should metadata be wrong, the data is there.
func (m *Manager) makeStray(d *dataDir, f foundDir, id TopicID) error {
	name := formatDirName(f.tp, dirStray)
	cause := fmt.Sprintf("metadata knows no partition %s with topic id %v on this node", f.tp, id)
	if id == (TopicID{}) {
		cause = "its " + partitionMetaName + " is missing, so that nothing tells which topic it belonged to"
	}
	m.log.Error("stray partition: its directory is renamed and kept, a new and empty one may take its place; if this surprises you, stop the node and look at it",
		"partition", f.tp.String(), "directory", path.Join(d.path, f.name), "renamed", path.Join(d.path, name), "cause", cause)
	m.o.Events(Event{Partition: f.tp, Kind: "stray", Offset: -1, Cause: cause})
	return m.rename(d, f.name, name)
}

func (m *Manager) rename(d *dataDir, name, newName string) error {
	if err := m.o.FS.Rename(path.Join(d.path, name), path.Join(d.path, newName)); err != nil {
		return err
	}
	return m.o.FS.SyncDir(d.path)
}

// CreateLog makes and opens a partition's log in the directory with the fewest partitions. An open log of the same topic id is returned as it is.
// Errors: *TopicIDError, *FailedError when there is a log that could not be opened, *DirsOfflineError when there may be one: see CreateNewLog.
func (m *Manager) CreateLog(tp TopicPartition, id TopicID) (*Log, error) {
	return m.create(tp, id, false)
}

// CreateNewLog is CreateLog for a partition that has just come into being, so that no directory which is offline can hold it.
func (m *Manager) CreateNewLog(tp TopicPartition, id TopicID) (*Log, error) {
	return m.create(tp, id, true)
}

func (m *Manager) create(tp TopicPartition, id TopicID, isNew bool) (*Log, error) {
	stripe := m.stripe(tp)
	stripe.Lock()
	defer stripe.Unlock()
	m.mu.RLock()
	held, failed, ended := m.logs[tp], m.failed[tp], m.ended
	m.mu.RUnlock()
	switch {
	case ended:
		return nil, errEnded
	case held != nil:
		if have := held.log.TopicID(); have != id && have != (TopicID{}) && id != (TopicID{}) {
			return nil, &TopicIDError{tp, have, id}
		}
		return held.log, nil
	case failed.err != nil:
		if !isDiskFull(failed.err) {
			return nil, &FailedError{tp, failed.err}
		}
		return m.reopen(tp, id, failed)
	}
	if !isNew {
		if unread := m.unreadDirs(); len(unread) > 0 {
			return nil, &DirsOfflineError{tp, unread}
		}
	}
	var tried []*dataDir
	var errs []error
	for {
		d := m.claim(tried)
		if d == nil {
			return nil, &FailedError{tp, errors.Join(append(errs, errors.New("no data directory is online"))...)}
		}
		err := m.createIn(d, tp, id)
		m.mu.Lock()
		d.claims--
		m.mu.Unlock()
		if err == nil {
			if !isNew {
				m.missed(d, tp)
			}
			return m.Log(tp), nil
		}
		if !isDirFault(err) {
			return nil, err
		}
		d.fail(err)
		tried, errs = append(tried, d), append(errs, err)
	}
}

// missed says that a partition begins anew which was there before.
func (m *Manager) missed(d *dataDir, tp TopicPartition) {
	const cause = "no data directory had the log of this partition, which is not new: it begins again, empty. What it held is lost to this node, " +
		"unless it was never made, since the node ended right after the partition came into being"
	m.log.Warn(cause, "partition", tp.String(), "directory", path.Join(d.path, tp.String()))
	m.o.Events(Event{Partition: tp, Kind: "log-missing", Offset: 0, Cause: cause})
}

// reopen opens a log that the start could not, for want of room or of descriptors. The caller holds tp's stripe.
func (m *Manager) reopen(tp TopicPartition, id TopicID, failed failedLog) (*Log, error) {
	d := failed.dir
	have, err := readPartitionMetadata(m.o.FS, path.Join(d.path, failed.name, partitionMetaName))
	if err == nil && have != id && id != (TopicID{}) {
		return nil, &TopicIDError{tp, have, id}
	}
	if err == nil {
		d.mu.Lock()
		clean := d.clean
		d.mu.Unlock()
		err = m.open(d, tp, have, true, clean && !failed.doubted, failed.doubted)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.failed[tp] = failedLog{d, failed.name, err, failed.doubted}
		return nil, &FailedError{tp, err}
	}
	delete(m.failed, tp)
	d.partitions-- // it was counted as a failed one, too
	m.log.Info("a log that could not be opened is open now", "partition", tp.String(), "directory", d.path)
	return m.logs[tp].log, nil
}

// unreadDirs are those that were offline from the start, so that nobody knows what they hold.
func (m *Manager) unreadDirs() (paths []string) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, d := range m.dirs {
		if d.offline() != nil && !d.loaded {
			paths = append(paths, d.path)
		}
	}
	return paths
}

func (m *Manager) createIn(d *dataDir, tp TopicPartition, id TopicID) error {
	if err := d.there(); err != nil {
		return err
	}
	// A checkpoint's entry of a former log of this name would, after a crash, cut the new one or pass it as recovered.
	m.mu.Lock()
	delete(m.restored, tp)
	m.mu.Unlock()
	d.forgetIfKept(tp)
	if d.pendingChange() {
		if err := m.writeCheckpoints(d); err != nil {
			return err
		}
	}
	dir := path.Join(d.path, tp.String())
	_, statErr := m.o.FS.Stat(dir)
	err := m.open(d, tp, id, false, true, false)
	if err != nil && errors.Is(statErr, fs.ErrNotExist) {
		_ = m.o.FS.RemoveAll(dir) // it never held anything, but the next start would call it stray
	}
	return err
}

// DeleteLog takes a partition away: its directory is renamed, its checkpoint entries go, and its files after log.segment.delete.delay.ms.
// A log that failed is taken away alike. One that does not exist is an fs.ErrNotExist.
func (m *Manager) DeleteLog(tp TopicPartition) error {
	stripe := m.stripe(tp)
	stripe.Lock()
	defer stripe.Unlock()
	m.mu.RLock()
	held, failed, ended := m.logs[tp], m.failed[tp], m.ended
	m.mu.RUnlock()
	name := formatDirName(tp, dirDeleted)
	var d *dataDir
	switch {
	case ended:
		return errEnded
	case held != nil:
		d = held.dir
		if err := held.log.MarkDeleted(path.Join(d.path, name)); err != nil {
			return err
		}
	case failed.err != nil:
		d = failed.dir
		if err := m.rename(d, failed.name, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err // else it is gone already: see lose
		}
	default:
		return fmt.Errorf("%s: %w", tp, fs.ErrNotExist)
	}
	m.mu.Lock()
	delete(m.logs, tp)
	delete(m.failed, tp)
	delete(m.restored, tp)
	d.partitions--
	m.mu.Unlock()
	m.cleaner.abort(tp, "the partition was deleted")
	d.forget(tp)
	r := removal{dir: d, name: name, tp: tp}
	if held != nil {
		r.log = held.log
	}
	delay := m.deleteDelay.Load()
	m.o.Events(Event{Partition: tp, Kind: "delete-log", Offset: -1, Cause: fmt.Sprintf("the partition was deleted; its files go in %d ms (log.segment.delete.delay.ms)", delay)})
	m.remover.add(r, millis(delay))
	return nil
}

// Truncate is the log's Truncate, after which the checkpoints know of it: were the recovery point on disk still the old one, then after later
// appends and a crash it would vouch for bytes that nobody fsynced. Nothing is to be appended until it returns.
func (m *Manager) Truncate(tp TopicPartition, offset Offset) error {
	return m.truncate(tp, func(l *Log) error { return l.Truncate(offset) })
}

// TruncateFullyAndStartAt is the log's, after which the checkpoints know of it.
func (m *Manager) TruncateFullyAndStartAt(tp TopicPartition, offset Offset) error {
	return m.truncate(tp, func(l *Log) error { return l.TruncateFullyAndStartAt(offset) })
}

func (m *Manager) truncate(tp TopicPartition, cut func(*Log) error) error {
	stripe := m.stripe(tp)
	stripe.Lock()
	defer stripe.Unlock()
	m.mu.RLock()
	h, ended := m.logs[tp], m.ended
	m.mu.RUnlock()
	switch {
	case ended:
		return errEnded
	case h == nil:
		return fmt.Errorf("%s: %w", tp, fs.ErrNotExist)
	}
	if err := cut(h.log); err != nil {
		return err
	}
	m.lowerCleaned(h)
	return errors.Join(m.writeRecoveryPoints(h.dir), m.writeLogStarts(h.dir))
}

// lowerCleaned has what a truncated log gets anew counted as dirty. writeRecoveryPoints writes it.
func (m *Manager) lowerCleaned(h *heldLog) {
	segments := h.log.Segments()
	active := segments[len(segments)-1].BaseOffset
	h.dir.mu.Lock()
	defer h.dir.mu.Unlock()
	if to, ok := h.dir.cleaner.kept[h.tp]; ok && to > active {
		h.dir.cleaner.kept[h.tp] = active
		h.dir.cleaner.changed = true
	}
}
