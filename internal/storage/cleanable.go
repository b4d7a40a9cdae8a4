package storage

import (
	"fmt"
	"io"
	"math"

	"github.com/quire-log/quire/internal/record"
)

// A cleanView is what there is to know for deciding whether to clean a log.
type cleanView struct {
	checkpoint Offset // up to where it was cleaned; -1: never
	start, end Offset
	stable     Offset // the last stable offset
	cfg        *Config
	segments   []cleanSegment // ascending; the last is active
}

type cleanSegment struct {
	base  Offset
	bytes int64
	// largest is the segment's greatest time, and first its first batch's: 0 where no setting asks for it.
	largest, first int64
}

// A cleanPlan says what a cleaning would do, and whether it is time for one.
type cleanPlan struct {
	First, Limit      Offset // the dirty part: from there, up to the base of a segment that must stay as it is
	Clean, Dirty      int64  // bytes before First, and from there up to Limit
	Ratio             float64
	Must              bool   // max.compaction.lag.ms is over for something in it
	CheckpointInvalid bool   // the cleaner's checkpoint does not fit the log
	Due               bool   // now is the time
	Why               string // why it is, or is not
	// Bound is why nothing beyond Limit may be cleaned.
	Bound string
}

// planClean decides by a log's state at a time, and by nothing else.
func planClean(now int64, v cleanView) (p cleanPlan) {
	if !v.cfg.Compact {
		p.Why = "cleanup.policy is not compact"
		return p
	}
	active := v.segments[len(v.segments)-1]
	p.First = v.checkpoint
	if v.checkpoint < v.start || v.checkpoint > v.end {
		p.First = v.start
		p.CheckpointInvalid = v.checkpoint >= 0
	}
	p.Limit, p.Bound = active.base, fmt.Sprintf("the active segment begins at %d: it is closed by segment.ms or segment.bytes when the next record comes", active.base)
	if v.stable < p.Limit {
		p.Limit, p.Bound = v.stable, fmt.Sprintf("the last stable offset is %d: a transaction is open, or not all replicas have what follows", v.stable)
	}
	floor := 0
	for i, s := range v.segments {
		if s.base <= p.First {
			floor = i
		}
	}
	if lag := v.cfg.MinCompactionLagMs; lag > 0 {
		for _, s := range v.segments[floor : len(v.segments)-1] {
			if s.largest > now-lag {
				if s.base < p.Limit {
					p.Limit, p.Bound = s.base, fmt.Sprintf("min.compaction.lag.ms %d is not over for the segment at %d", lag, s.base)
				}
				break
			}
		}
	}
	p.Limit = max(p.Limit, p.First)
	for _, s := range v.segments { // whole segments only
		if s.base <= p.Limit {
			active = s
		}
	}
	limit := active.base
	for i, s := range v.segments {
		if s.base < p.First {
			p.Clean += s.bytes
		}
		if i >= floor && s.base < limit {
			p.Dirty += s.bytes
		}
	}
	p.Limit = max(limit, min(p.First, limit))
	if p.Clean+p.Dirty > 0 {
		p.Ratio = float64(p.Dirty) / float64(p.Clean+p.Dirty)
	}
	earliest := int64(math.MaxInt64)
	for _, s := range v.segments[floor : len(v.segments)-1] {
		if s.first > 0 {
			earliest = min(earliest, s.first)
		}
	}
	p.Must = earliest < now-max(v.cfg.MaxCompactionLagMs, 0)
	switch {
	case p.Dirty == 0 || p.Limit <= p.First:
		p.Why = "nothing that may be cleaned is dirty: " + p.Bound
	case p.Must:
		p.Due, p.Why = true, fmt.Sprintf("max.compaction.lag.ms %d is over: its oldest dirty segment begins at the time %d", v.cfg.MaxCompactionLagMs, earliest)
	case p.Ratio > v.cfg.MinCleanableDirtyRatio:
		p.Due, p.Why = true, fmt.Sprintf("the dirty ratio %.3f is above min.cleanable.dirty.ratio %v", p.Ratio, v.cfg.MinCleanableDirtyRatio)
	default:
		p.Why = fmt.Sprintf("the dirty ratio %.3f is not above min.cleanable.dirty.ratio %v", p.Ratio, v.cfg.MinCleanableDirtyRatio)
	}
	return p
}

// cleanView looks at a log as far as its settings make it need to. Bytes of the disk are read only for a max.compaction.lag.ms.
func (l *Log) cleanView(checkpoint, hw Offset) (v cleanView, err error) {
	segs := l.list()
	v = cleanView{checkpoint: checkpoint, start: l.StartOffset(), end: l.EndOffset(), stable: l.LastStableOffset(hw), cfg: l.config.Load()}
	v.segments = make([]cleanSegment, len(segs))
	for i, s := range segs {
		v.segments[i] = cleanSegment{base: s.base, bytes: s.size.Load()}
		if i == len(segs)-1 || !v.cfg.Compact || i+1 < len(segs) && segs[i+1].base <= checkpoint {
			continue
		}
		if v.cfg.MinCompactionLagMs > 0 {
			if v.segments[i].largest, err = l.retentionTime(s); err != nil {
				return v, err
			}
		}
		if v.cfg.MaxCompactionLagMs < math.MaxInt64 {
			if v.segments[i].first, err = s.firstBatchTime(); err != nil {
				return v, err
			}
		}
	}
	return v, nil
}

// firstBatchTime is the greatest time of a segment's first batch; 0 if it has none.
func (s *segment) firstBatchTime() (int64, error) {
	size := s.size.Load()
	if size == 0 {
		return 0, nil
	}
	f, err := s.acquire()
	if err != nil {
		return 0, err
	}
	defer s.release()
	var head [record.HeaderSize]byte
	b := head[:min(size, record.HeaderSize)]
	if err := readFull(f, b, 0); err != nil {
		if err == io.ErrUnexpectedEOF {
			return 0, errSegmentGone // truncated
		}
		return 0, err
	}
	h, _, err := entryHeader(b, size)
	if err != nil {
		return 0, nil // whoever reads it all will say so
	}
	return max(h.MaxTimestamp(), 0), nil
}
