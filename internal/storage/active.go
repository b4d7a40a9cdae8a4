package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
)

// createSegment makes the files of a segment based at base; what was there of that name is replaced.
func (l *Log) createSegment(base Offset, cfg *Config) (activeSegment, error) {
	s := newSegment(l.at, base, 0)
	s.largestKnown = true
	f, err := l.at.fs.OpenFile(l.at.path(s.name(logSuffix)), createFlags|os.O_TRUNC, 0o644)
	if err != nil {
		return activeSegment{}, err
	}
	s.desc.Adopt(f)
	s.ring.Store(new(tailRing))
	x := &segmentIndexes{
		newIndexFile(l.at, s.name(indexSuffix), offsetEntrySize, cfg.IndexBytesMax),
		newIndexFile(l.at, s.name(timeIndexSuffix), timeEntrySize, cfg.IndexBytesMax),
	}
	if cfg.Preallocate {
		err = f.Truncate(int64(cfg.SegmentBytes))
	}
	if err == nil {
		err = x.offsets.create()
	}
	if err == nil {
		err = x.times.create()
	}
	if err == nil {
		err = rewriteTxnIndex(l.at, base, nil)
	}
	if err != nil {
		_ = f.Close()
		for _, suffix := range segmentSuffixes {
			_ = l.at.fs.Remove(l.at.path(s.name(suffix)))
		}
		return activeSegment{}, err
	}
	s.idx.Store(x)
	return activeSegment{seg: s, file: f, offsets: x.offsets, times: x.times}, nil
}

// becomeActive makes a segment with open file and growable indexes the one that is appended to. mu is held.
func (l *Log) becomeActive(a activeSegment) {
	cfg := l.config.Load()
	a.opened = nowMs()
	if limit := min(cfg.SegmentJitterMs, cfg.SegmentMs); limit > 0 {
		a.jitterMs = rand.Int64N(limit)
	}
	a.seg.mu.Lock()
	a.seg.modified = 0 // from here on it changes
	a.seg.mu.Unlock()
	l.active = a
}

// activate makes the last segment of an opening the active one, and finds out where the log ends. A segment that was not
// recovered is believed as far as its last index entry; what comes after must be whole batches.
func (op *opening) activate(s *segment) error {
	f, err := s.acquire() // given back when another segment becomes active
	if err != nil {
		return err
	}
	op.active = activeSegment{seg: s, file: f}
	if !op.endOK {
		if err := op.trustTail(s); err != nil {
			return err
		}
	}
	x := s.idx.Load()
	if err := errors.Join(x.offsets.growable(), x.times.growable()); err != nil {
		return err
	}
	s.ring.Store(new(tailRing))
	op.becomeActive(activeSegment{seg: s, file: f, offsets: x.offsets, times: x.times})
	return nil
}

// trustTail finds the end of a log that was stopped cleanly.
func (op *opening) trustTail(s *segment) error {
	x, err := op.loadIndexes(s)
	if err == nil {
		var fault error
		if fault, err = op.tailFromIndex(s, x); fault != nil {
			return op.recoverActive(fault.Error())
		}
	}
	if isDamage(err) {
		var scan headerScan
		if x, scan, err = op.rebuildIndexes(s, op.active.file, err); err == nil {
			if scan.fault != nil {
				return op.recoverActive(scan.fault.Error())
			}
			op.end = s.base
			if scan.size > 0 {
				op.end = scan.last + 1
			}
		}
	}
	if err != nil {
		return err
	}
	s.idx.Store(x)
	return nil
}

// recoverActive recovers the last segment after all.
func (op *opening) recoverActive(fault string) error {
	segs := op.segments.Load()
	_, err := op.recoverSegment(segs, len(segs)-1, "stopped cleanly, but: "+fault)
	return err
}

// tailFromIndex scans from the last index entry to the end of the file. fault: that is not whole batches.
func (op *opening) tailFromIndex(s *segment, x *segmentIndexes) (fault, err error) {
	from := int64(0)
	last, indexed := x.offsets.lastEntry()
	if indexed {
		from = last.b
	}
	scan := scanHeaders(op.active.file, from, s.size.Load(), locateChunk)
	defer scan.close()
	op.end = s.base
	for first := true; scan.advance(); first = false {
		if first && indexed && int64(scan.last-s.base) != last.a {
			return nil, fmt.Errorf("%s: %w", x.offsets.name, damagef("last entry (%d, %d) is not where offset %d is", last.a, last.b, scan.last))
		}
		if scan.first < op.end {
			return fmt.Errorf("offset %d after %d at byte %d", scan.first, op.end-1, scan.pos), nil
		}
		op.end = scan.last + 1
	}
	return scan.fault, scan.err
}

// finishActive gives the active segment's files the form that a closed segment has. mu is held.
func (l *Log) finishActive(sync bool) error {
	a := &l.active
	largest, _ := a.seg.largestSoFar()
	addTimeEntry(a.seg.base, a.times, largest)
	if err := errors.Join(a.offsets.finish(sync), a.times.finish(sync)); err != nil {
		return err
	}
	size, err := a.file.Size()
	if err != nil {
		return err
	}
	if want := a.seg.size.Load(); size > want {
		a.seg.cut.Store(true)
		if err := a.file.Truncate(want); err != nil {
			return err
		}
		if sync {
			return a.file.Sync()
		}
	}
	return nil
}

// waited tells how long the active segment has waited for its successor when a batch with maxTime comes: by the records' own
// times, or by the clock when they have none.
func (l *Log) waited(maxTime int64) (int64, error) {
	a := &l.active
	if !a.hasFirstTime {
		scan := scanHeaders(a.file, 0, a.seg.size.Load(), locateChunk)
		defer scan.close()
		if !scan.advance() {
			return 0, errors.Join(scan.fault, scan.err)
		}
		a.firstTime, a.hasFirstTime = scan.header.MaxTimestamp(), true
	}
	if a.firstTime >= 0 {
		return maxTime - a.firstTime, nil
	}
	return nowMs() - a.opened, nil
}

// rollCause tells why a set of n bytes, with these times and offsets, begins a new segment; "" if it does not. mu is held.
func (l *Log) rollCause(n int64, maxTime int64, last Offset, cfg *Config) (string, error) {
	a := &l.active
	size := a.seg.size.Load()
	if size > int64(cfg.SegmentBytes)-n {
		return fmt.Sprintf("segment.bytes %d would be exceeded: %d bytes and %d more", cfg.SegmentBytes, size, n), nil
	}
	if size > 0 {
		limit := cfg.SegmentMs
		if cfg.Compact {
			limit = min(limit, cfg.MaxCompactionLagMs)
		}
		waited, err := l.waited(maxTime)
		if err != nil {
			return "", err
		}
		if waited > limit-a.jitterMs {
			return fmt.Sprintf("segment.ms %d, less %d of jitter, is over: %d", limit, a.jitterMs, waited), nil
		}
	}
	switch {
	case a.offsets.full(0):
		return fmt.Sprintf("segment.index.bytes %d is used up by the offset index", cfg.IndexBytesMax), nil
	case a.times.full(1):
		return fmt.Sprintf("segment.index.bytes %d is used up by the time index", cfg.IndexBytesMax), nil
	case last-a.seg.base >= deltaLimit:
		return fmt.Sprintf("offset %d is too far from the base", last), nil
	}
	return "", nil
}

// roll begins a new segment at base, which is not below the log's end. On an error nothing has changed. mu is held.
func (l *Log) roll(base Offset, cause string) error {
	a, cfg := &l.active, l.config.Load()
	old := a.seg
	if old.base == base {
		if old.size.Load() > 0 {
			return l.fail(fmt.Errorf("roll onto the base %d of a segment that is not empty", base))
		}
		// Its indexes were full though it holds nothing: it begins anew.
		if err := errors.Join(a.offsets.reset(cfg.IndexBytesMax), a.times.reset(cfg.IndexBytesMax)); err != nil {
			return l.diskError(err)
		}
		a.sinceIndex = 0
		l.event("roll", base, "%s begins anew, since it is empty: %s", old.name(logSuffix), cause)
		return nil
	}
	next, err := l.createSegment(base, cfg)
	if err != nil {
		return l.diskError(err)
	}
	err = l.finishActive(false)
	if err == nil {
		l.producers.end = max(l.producers.end, base)
		err = l.producers.snapshot(false)
	}
	if err != nil {
		next.seg.retire()
		next.seg.release()
		for _, suffix := range segmentSuffixes {
			_ = l.at.fs.Remove(l.at.path(fileName(base, suffix)))
		}
		return l.diskError(err)
	}
	segs := append(l.list()[:len(l.list()):len(l.list())], next.seg)
	l.becomeActive(next)
	l.segments.Store(segs)
	old.ring.Store(nil)
	old.release()
	l.event("roll", base, "%s", cause)
	l.background.Start("flush", l.flushRolled)
	return nil
}

// Roll closes the active segment, if it holds anything, and begins the next.
func (l *Log) Roll() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	if l.active.seg.size.Load() == 0 {
		return nil
	}
	return l.roll(l.EndOffset(), "asked for")
}
