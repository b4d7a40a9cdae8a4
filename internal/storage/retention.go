package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"
)

// A policy decides about a log's oldest segments. It is asked for each in turn, the oldest first, until it says no. Another
// policy is another function in policies.
type policy struct {
	name string
	on   func(cfg *Config) bool
	// begin looks at the log and returns the decision about segment i: why it goes, or "".
	begin func(v *retentionView) func(i int) (cause string, err error)
}

// A retentionView is the log as a retention pass sees it.
type retentionView struct {
	l        *Log
	cfg      *Config
	segments []*segment
	start    Offset
	now      int64 // ms
	shed     int   // oldest segments that the disk's budget demands: see Manager.shed
}

var policies = []policy{
	{
		name: "log start offset",
		on:   func(*Config) bool { return true },
		begin: func(v *retentionView) func(int) (string, error) {
			return func(i int) (string, error) {
				if i+1 < len(v.segments) && v.segments[i+1].base <= v.start {
					return fmt.Sprintf("it lies below the log start offset %d", v.start), nil
				}
				return "", nil
			}
		},
	},
	{
		name: "retention.bytes",
		on:   func(c *Config) bool { return c.Delete && c.RetentionBytes >= 0 },
		begin: func(v *retentionView) func(int) (string, error) {
			total := int64(0)
			for _, s := range v.segments {
				total += s.size.Load()
			}
			over := total - v.cfg.RetentionBytes
			return func(i int) (string, error) {
				size := v.segments[i].size.Load()
				if over-size < 0 {
					return "", nil
				}
				over -= size
				return fmt.Sprintf("retention.bytes %d: the log has %d more", v.cfg.RetentionBytes, over+size), nil
			}
		},
	},
	{
		name: "retention.ms",
		on:   func(c *Config) bool { return c.Delete && c.RetentionMs >= 0 },
		begin: func(v *retentionView) func(int) (string, error) {
			return func(i int) (string, error) {
				ms, err := v.l.retentionTime(v.segments[i])
				if err != nil || ms > v.now || v.now-ms <= v.cfg.RetentionMs {
					return "", err
				}
				return fmt.Sprintf("retention.ms %d: its newest record is %d ms old", v.cfg.RetentionMs, v.now-ms), nil
			}
		},
	},
	{
		// Quire's own: Kafka knows no limit for all logs of a disk together.
		name: "retention.disk.percent",
		on:   func(c *Config) bool { return c.Delete },
		begin: func(v *retentionView) func(int) (string, error) {
			return func(i int) (string, error) {
				if i < v.shed {
					return "retention.disk.percent is exceeded, and it is among the oldest segments of the disk", nil
				}
				return "", nil
			}
		},
	},
}

// DeleteOldSegments applies retention (log start, size, time: facts log-behaviour.md §8) to segments wholly below hw; it returns how many went.
func (l *Log) DeleteOldSegments(hw Offset) (int, error) { return l.deleteOldSegments(hw, 0) }

// deleteOldSegments is DeleteOldSegments that lets go of so many of the oldest segments besides, if cleanup.policy has delete.
func (l *Log) deleteOldSegments(hw Offset, shed int) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	total := 0
	v := retentionView{l: l}
	for _, p := range policies {
		if err := l.usable(); err != nil {
			return total, err
		}
		v.cfg, v.segments, v.start, v.now, v.shed = l.config.Load(), l.list(), l.StartOffset(), nowMs(), max(0, shed-total)
		if !p.on(v.cfg) {
			continue
		}
		n, err := l.applyPolicy(p, &v, hw)
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// applyPolicy lets go of what a policy lets go. mu is held.
func (l *Log) applyPolicy(p policy, v *retentionView, hw Offset) (int, error) {
	decide := p.begin(v)
	var causes []string
	for i, s := range v.segments {
		bound, last := l.EndOffset(), i == len(v.segments)-1
		if !last {
			bound = v.segments[i+1].base
		}
		if hw < bound || last && s.size.Load() == 0 {
			break
		}
		cause, err := decide(i)
		if err != nil {
			return 0, err
		}
		if cause == "" {
			break
		}
		causes = append(causes, cause)
	}
	n := len(causes)
	if n == 0 {
		return 0, nil
	}
	if n == len(v.segments) {
		if err := l.roll(l.EndOffset(), "every segment is to be deleted, and one must remain"); err != nil {
			return 0, err
		}
	}
	segs := l.list()
	if err := l.raiseStart(segs[n].base, p.name); err != nil {
		return 0, err
	}
	for i, cause := range causes {
		l.event("delete-segment", segs[i].base, "%s, %d bytes: %s", segs[i].name(logSuffix), segs[i].size.Load(), cause)
	}
	if !l.active.named {
		// Old names must not go before the newest is sure to stay: the log would forget where it ends.
		if err := l.at.fs.SyncDir(l.Dir()); err != nil {
			return 0, l.nameError(err)
		}
		l.active.named = true
	}
	kept := segs[n:len(segs):len(segs)]
	l.segments.Store(kept)
	return n, l.discard(segs[:n])
}

// raiseStart moves the log start offset up. mu is held.
func (l *Log) raiseStart(start Offset, cause string) error {
	if start <= l.StartOffset() {
		return nil
	}
	l.start.Store(int64(start))
	if l.RecoveryPoint() < start {
		l.recoveryPoint.Store(int64(start))
	}
	l.event("log-start", start, "%s", cause)
	l.producers.txns.forgetBelow(start)
	if len(l.producers.snapshots) == 0 {
		l.producers.snapped = max(l.producers.snapped, start)
	}
	l.epochs.cutStart(start)
	if err := l.epochs.saveIfRoom(start + 1); err != nil {
		return l.diskError(err)
	}
	return nil
}

// DeleteRecords raises the log start offset to offset, never lowers it, and returns the log start. Whole segments below it go with DeleteOldSegments.
func (l *Log) DeleteRecords(offset Offset) (Offset, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return 0, err
	}
	if end := l.EndOffset(); offset < 0 || offset > end {
		return 0, &OutOfRangeError{l.partition, offset, l.StartOffset(), end}
	}
	if err := l.raiseStart(offset, "records below it were deleted on demand"); err != nil {
		return 0, err
	}
	return l.StartOffset(), nil
}

// discard takes away the files of segments that are no longer in the list: their names end in .deleted now, and they are
// unlinked after file.delete.delay.ms, or at the next start. mu is held.
func (l *Log) discard(gone []*segment) error {
	var names []string
	var errs error
	away := func(name string) {
		err := l.at.fs.Rename(l.at.path(name), l.at.path(name+deletedSuffix))
		switch {
		case err == nil:
			names = append(names, name+deletedSuffix)
		case !errors.Is(err, fs.ErrNotExist):
			errs = errors.Join(errs, err)
		}
	}
	// Until these renames are durable, a crash brings back what was perhaps never synced, and what follows it is not safe.
	l.renamed = true
	for _, s := range gone {
		s.retire()
		for _, suffix := range segmentSuffixes {
			away(s.name(suffix))
		}
		if i, found := slices.BinarySearch(l.producers.snapshots, s.base); found {
			away(fileName(s.base, snapshotSuffix))
			l.producers.snapshots = slices.Delete(slices.Clone(l.producers.snapshots), i, i+1)
		}
	}
	if errs != nil {
		return l.diskError(errs)
	}
	delay := time.Duration(min(l.config.Load().FileDeleteDelayMs, int64(time.Hour/time.Millisecond)*24*365)) * time.Millisecond
	l.deletions.add(deletion{time.Now().Add(delay), names})
	l.background.Start("delete", l.unlinkLater)
	return nil
}

// unlinkLater is the goroutine that removes .deleted files when their time has come, until none is left or the log closes.
func (l *Log) unlinkLater(quit <-chan struct{}) {
	for {
		d, ok := l.deletions.first()
		if !ok {
			if l.background.Ended("delete", func() bool { _, ok := l.deletions.first(); return !ok }) {
				return
			}
			continue
		}
		timer := time.NewTimer(time.Until(d.at))
		select {
		case <-quit:
			timer.Stop()
			return // what is left is removed by the next Open
		case <-timer.C:
		}
		for _, name := range d.names {
			// Whether it fails or not, the next Open tries again.
			_ = l.at.fs.Remove(l.at.path(name))
		}
		l.deletions.pop()
	}
}
