package storage

import "errors"

// flushIfDue flushes when flush.messages demands it, so that end is covered.
func (l *Log) flushIfDue(cfg *Config, end Offset) error {
	if int64(end-l.RecoveryPoint()) < cfg.FlushMessages {
		return nil
	}
	return l.flushTo(end)
}

// Flush fsyncs everything below the end offset and moves the recovery point there. Concurrent calls share an fsync.
func (l *Log) Flush() error { return l.flushTo(l.EndOffset()) }

// flushTo returns once the recovery point is at or beyond end, unless the log was cut below it meanwhile.
func (l *Log) flushTo(end Offset) error {
	if err := l.Err(); err != nil {
		return err
	}
	if l.RecoveryPoint() >= min(end, l.EndOffset()) {
		l.flushed.Store(nowMs())
		return nil
	}
	return l.syncs.Do(true, l.sync)
}

// sync makes the log durable up to its end or, unless all is wanted, up to the active segment's base, and moves the recovery
// point. Only one runs at a time.
func (l *Log) sync(all bool) error {
	l.mu.Lock()
	if err := l.usable(); err != nil {
		l.mu.Unlock()
		return err
	}
	segs, end, cuts := l.list(), l.EndOffset(), l.truncations
	renamed := l.renamed
	newFiles, snapshots := !l.active.named || renamed, l.producers.snapshots
	l.renamed = false
	proven := end // where the recovery point may go: not beyond a line of an epoch that a full disk does not take (I8)
	if err := l.epochs.save(end); isDiskFull(err) {
		proven = l.epochs.unsavedFrom(end)
	} else if err != nil {
		l.mu.Unlock()
		return l.diskError(err)
	}
	// The snapshots of segments that are synced now are worth keeping, too.
	synced := l.synced
	var snaps []Offset
	for _, o := range snapshots {
		if o > synced && o <= segs[len(segs)-1].base {
			snaps = append(snaps, o)
		}
	}
	l.mu.Unlock()

	last := len(segs) - 1
	for i, s := range segs {
		if i == last && !all {
			end = s.base
			break
		}
		if i < last && segs[i+1].base <= synced && !s.cut.Load() {
			continue
		}
		if err := l.syncSegment(s, i < last); err != nil {
			return l.syncError(err, renamed)
		}
		newFiles = newFiles || i < last
	}
	if newFiles {
		for _, o := range snaps {
			if err := syncFile(l.at.fs, l.at.path(fileName(o, snapshotSuffix))); err != nil && !isDamage(err) {
				return l.syncError(err, renamed)
			}
		}
		if err := l.at.fs.SyncDir(l.Dir()); err != nil {
			return l.syncError(err, renamed)
		}
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	if l.truncations != cuts {
		// Bytes were taken back while others were synced; what is at these offsets now was perhaps not. Whoever needs it asks again.
		return nil
	}
	if newFiles && l.active.seg == segs[last] {
		l.active.named = true
	}
	l.synced = max(l.synced, end)
	if proven = min(proven, end); proven > l.RecoveryPoint() {
		l.recoveryPoint.Store(int64(proven))
	}
	l.flushed.Store(nowMs())
	return nil
}

// syncError makes the error of a sync. One that found no descriptor has synced nothing, and the next one begins anew.
func (l *Log) syncError(err error, renamed bool) error {
	if !noDescriptor(err) {
		return l.fail(err)
	}
	l.mu.Lock()
	l.renamed = l.renamed || renamed
	l.mu.Unlock()
	return &DiskFullError{l.partition, err}
}

// nameError makes the error of an fsync of the directory whose names have not been relied on yet.
func (l *Log) nameError(err error) error {
	if noDescriptor(err) {
		return &DiskFullError{l.partition, err}
	}
	return l.fail(err)
}

// syncSegment fsyncs a segment's .log and, of a closed one, its indexes. Those of the active segment are built anew by a
// recovery that finds the recovery point in it, so they need no fsync. A segment that is gone needs none either.
func (l *Log) syncSegment(s *segment, closed bool) (err error) {
	f, err := s.acquire()
	if errors.Is(err, errSegmentGone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer s.release()
	cut := s.cut.Swap(false)
	defer func() {
		if cut && err != nil {
			s.cut.Store(true) // its indexes may not have been synced
		}
	}()
	if err := f.Sync(); err != nil {
		return err
	}
	if !closed {
		return nil
	}
	if x := s.idx.Load(); x != nil {
		for _, x := range []*indexFile{x.offsets, x.times} {
			if err := x.sync(); err != nil && !isDamage(err) {
				return err
			}
		}
	}
	if len(s.aborted()) > 0 {
		if err := syncFile(l.at.fs, l.at.path(s.name(txnIndexSuffix))); err != nil && !isDamage(err) {
			return err
		}
	}
	return nil
}

// flushRolled is the goroutine that a roll starts: it makes closed segments durable until none is left that is not.
func (l *Log) flushRolled(quit <-chan struct{}) {
	for {
		select {
		case <-quit:
			return
		default:
		}
		// A failure fails the log: the next append says so.
		err := l.syncs.Do(false, l.sync)
		if l.background.Ended("flush", func() bool { return err != nil || l.closedDurable() }) {
			return
		}
	}
}

// closedDurable tells whether every closed segment is durable.
func (l *Log) closedDurable() bool {
	segs := l.list()
	return l.RecoveryPoint() >= segs[len(segs)-1].base
}
