package storage

import (
	"errors"
	"io/fs"
	"slices"
	"time"
)

// swap puts sealed outputs, ascending, in the place of the segments that they were made from, which is a run of the log's closed
// ones. Readers go on: those who have an old segment open read it to its end, those who look for one find the new list.
//
// A crash at any point leaves either all of what was, or what Open completes to all of what is, because each step is durable before
// the next begins; within a step the names may reach the disk in any order:
//
//	1  .cleaned becomes .swap, output by output from the last      before: the outputs are nothing
//	2  .txnindex files of what they replace become .deleted
//	3  the other files of that become .deleted                     before: Open removes what lies within the offsets of a .swap
//	4  .swap becomes final, output by output from the first
//
// Open ignores a .swap that lies beyond a .cleaned, hence the order of 1. Of those that are left it takes the offsets from the first to the
// last for what is to be removed, hence the order of 4: no final name lies between two of them. Of one output a part may be final: an
// index is the output's, and not of what it replaces, if its .swap is gone. Only a .txnindex need not have had one, which is why those of
// inputs go first: one whose .log has gone is the output's. See ofOutput.
//
// Segments at the end of the run of which nothing was kept lie beyond those offsets. They go one by one, from the first: should some
// come back, then the last ones, so that no record comes back without what has superseded it.
func (l *Log) swap(inputs []*segment, outputs []*cleanOutput, truncations uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return errors.Join(errCleaningAborted, err)
	}
	segs := l.list()
	at := slices.Index(segs, inputs[0])
	switch {
	case at < 0 || at+len(inputs) >= len(segs) || !slices.Equal(segs[at:at+len(inputs)], inputs):
		return abortf("segments of it were deleted meanwhile")
	case l.truncations != truncations:
		return abortf("the log was truncated meanwhile")
	case !l.config.Load().Compact:
		return abortf("cleanup.policy is no longer compact")
	}
	dir := l.Dir()
	for i := len(outputs) - 1; i >= 0; i-- {
		if err := outputs[i].rename(cleanedSuffix, swapSuffix); err != nil {
			if failed := unswap(l.at, outputs); failed != nil {
				return l.fail(errors.Join(err, failed))
			}
			return err
		}
		// From here on a crash may complete the swap, so that an error leaves a directory of which nothing is known.
		if err := l.at.fs.SyncDir(dir); err != nil {
			return l.fail(err)
		}
	}

	list := slices.Concat(segs[:at], make([]*segment, len(outputs)), segs[at+len(inputs):])
	for i, o := range outputs {
		list[at+i], o.published = o.s, true
		if len(o.txns) > 0 {
			l.anyAborted.Store(true)
		}
	}
	// Nobody loads or rebuilds an index by its name while the names change hands.
	l.indexMu.Lock()
	defer l.indexMu.Unlock()
	l.segments.Store(list)
	names, err := l.putAway(inputs, outputs)
	if err == nil {
		err = l.at.fs.SyncDir(dir)
	}
	for _, o := range outputs {
		if err == nil {
			err = o.rename(swapSuffix, "")
		}
		if err == nil {
			err = l.at.fs.SyncDir(dir)
		}
	}
	for _, o := range outputs {
		o.builder.x.offsets.drop()
		o.builder.x.times.drop()
		o.s.release()
	}
	if err != nil {
		return l.fail(err)
	}
	l.deleteLater(names)
	return nil
}

// putAway renames the files of segments that outputs replace, and the producer snapshots of bases that are no more. mu is held.
func (l *Log) putAway(inputs []*segment, outputs []*cleanOutput) (names []string, errs error) {
	away := func(name string) {
		err := l.at.fs.Rename(l.at.path(name), l.at.path(name+deletedSuffix))
		switch {
		case err == nil:
			names = append(names, name+deletedSuffix)
		case !errors.Is(err, fs.ErrNotExist):
			errs = errors.Join(errs, err)
		}
	}
	for _, s := range inputs {
		s.retire()
		away(s.name(txnIndexSuffix))
	}
	if len(names) > 0 && errs == nil {
		errs = l.at.fs.SyncDir(l.Dir())
	}
	if errs != nil {
		return names, errs
	}
	covered := outputs[len(outputs)-1].next // what Open would remove for the outputs ends there
	for _, s := range inputs {
		for _, suffix := range segmentSuffixes[:3] {
			away(s.name(suffix))
		}
		stays := slices.ContainsFunc(outputs, func(o *cleanOutput) bool { return o.s.base == s.base })
		if i, found := slices.BinarySearch(l.producers.snapshots, s.base); found && !stays {
			away(fileName(s.base, snapshotSuffix))
			l.producers.snapshots = slices.Delete(slices.Clone(l.producers.snapshots), i, i+1)
		}
		if s.base >= covered && errs == nil {
			errs = l.at.fs.SyncDir(l.Dir())
		}
		if errs != nil {
			return names, errs
		}
	}
	return names, nil
}

// deleteLater has files unlinked after file.delete.delay.ms, or at the next start.
func (l *Log) deleteLater(names []string) {
	delay := time.Duration(min(l.config.Load().FileDeleteDelayMs, int64(time.Hour/time.Millisecond)*24*365)) * time.Millisecond
	l.deletions.add(deletion{time.Now().Add(delay), names})
	l.background.Start("delete", l.unlinkLater)
}
