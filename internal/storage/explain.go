package storage

import (
	"fmt"
	"math"
	"time"
)

// A Because is a setting that decides about data: the key to look up where its value came from.
type Because struct {
	Setting string `json:"setting,omitempty"`
	Value   string `json:"value,omitempty"`
	Says    string `json:"says"`
}

// A SegmentReport says what keeps a segment, and until when.
type SegmentReport struct {
	BaseOffset Offset `json:"baseOffset"`
	EndOffset  Offset `json:"endOffset"` // the next one's base
	Bytes      int64  `json:"bytes"`
	Active     bool   `json:"active"`
	// LargestTimestamp counts for retention.ms: of its records or, when none has one, the file's.
	LargestTimestamp int64     `json:"largestTimestamp"`
	Future           bool      `json:"future"` // that lies ahead of the clock, and holds up all that follows
	Kept             []Because `json:"keptBy"` // none: it goes at the next check
	Goes             *Because  `json:"goesBy,omitempty"`
	// Earliest is when time alone lets it go, in ms; -1: time alone never does.
	Earliest int64 `json:"earliest"`
}

// A RetentionReport says why a partition's data is still there.
type RetentionReport struct {
	Partition     string          `json:"partition"`
	Now           int64           `json:"now"`
	CleanupPolicy string          `json:"cleanupPolicy"`
	LogStart      Offset          `json:"logStartOffset"`
	LogEnd        Offset          `json:"logEndOffset"`
	HighWatermark Offset          `json:"highWatermark"`
	Bytes         int64           `json:"bytes"`
	Clock         string          `json:"clock"` // whose timestamps count
	Segments      []SegmentReport `json:"segments"`
	Age           AgeBounds       `json:"age"`
}

// AgeBounds are the ages that a record can reach under a topic's settings, in ms; -1: no bound.
type AgeBounds struct {
	Least int64  `json:"least"` // it is kept that long, unless a size limit comes first
	Most  int64  `json:"most"`  // it is gone by then, as long as records keep coming or the segment's all expire
	Says  string `json:"says"`
}

// A retentionState is what explaining retention needs to know.
type retentionState struct {
	partition TopicPartition
	now       int64
	cfg       Config
	start     Offset
	end       Offset
	hw        Offset
	checkMs   int64 // log.retention.check.interval.ms
	segments  []SegmentInfo
}

// explainRetention says of each segment which rules keep it, by the same rules as policies.
func explainRetention(s retentionState) RetentionReport {
	r := RetentionReport{
		Partition: s.partition.String(), Now: s.now, CleanupPolicy: policyName(&s.cfg), LogStart: s.start, LogEnd: s.end, HighWatermark: s.hw,
		Clock: "the producers' (message.timestamp.type=CreateTime)", Age: ageBounds(&s.cfg, s.checkMs),
	}
	if s.cfg.LogAppendTime {
		r.Clock = "the broker's (message.timestamp.type=LogAppendTime)"
	}
	for _, g := range s.segments {
		r.Bytes += g.Bytes
	}
	over := r.Bytes - s.cfg.RetentionBytes
	waits := false
	floor := int64(0) // the earliest of those before
	for i, g := range s.segments {
		next := s.end
		if i+1 < len(s.segments) {
			next = s.segments[i+1].BaseOffset
		}
		v := SegmentReport{BaseOffset: g.BaseOffset, EndOffset: next, Bytes: g.Bytes, Active: g.Active, LargestTimestamp: g.LargestTimestamp,
			Future: g.LargestTimestamp > s.now, Earliest: -1}
		keep := func(setting, value, says string, args ...any) {
			v.Kept = append(v.Kept, Because{setting, value, fmt.Sprintf(says, args...)})
		}
		goes := func(setting, value, says string, args ...any) {
			if v.Goes == nil {
				v.Goes = &Because{setting, value, fmt.Sprintf(says, args...)}
			}
		}
		if !g.Active && next <= s.start {
			goes("", "", "it lies below the log start offset %d", s.start)
		}
		switch {
		case !s.cfg.Delete:
			keep("cleanup.policy", r.CleanupPolicy, "without delete nothing goes by age or size")
		default:
			if s.cfg.RetentionBytes >= 0 {
				value := fmt.Sprint(s.cfg.RetentionBytes)
				if over-g.Bytes >= 0 {
					over -= g.Bytes
					goes("retention.bytes", value, "the log would still have that much without it")
				} else {
					keep("retention.bytes", value, "it goes once the log has %d bytes more", g.Bytes-over)
				}
			}
			if s.cfg.RetentionMs >= 0 {
				value := fmt.Sprint(s.cfg.RetentionMs)
				due := add(g.LargestTimestamp, s.cfg.RetentionMs)
				switch {
				case due < s.now:
					goes("retention.ms", value, "its newest record is %s old", age(s.now-g.LargestTimestamp))
				case v.Future:
					keep("retention.ms", value, "its newest record is dated %s ahead of now: it expires %s from now, and nothing after it goes by age before", age(g.LargestTimestamp-s.now), age(due-s.now))
				default:
					keep("retention.ms", value, "its newest record is %s old: it expires in %s", age(s.now-g.LargestTimestamp), age(due-s.now))
				}
				v.Earliest = max(floor, due+1)
				floor = v.Earliest
			}
			if s.cfg.RetentionBytes < 0 && s.cfg.RetentionMs < 0 {
				keep("retention.ms", "-1", "and retention.bytes=-1: there is no limit of age or size")
			}
		}
		if v.Goes != nil {
			v.Kept = nil
		}
		if s.hw < next {
			keep("", "", "the high watermark %d is below its end %d: not all replicas are known to have it", s.hw, next)
			v.Goes = nil
		}
		if g.Active && g.Bytes == 0 {
			v.Kept, v.Goes, v.Earliest = nil, nil, -1
			keep("", "", "it is active and empty: the next record goes here")
		}
		if waits && v.Goes != nil {
			keep("", "", "segments go from the oldest on: it waits for one before it")
			v.Goes = nil
		}
		if v.Goes != nil && g.Active {
			v.Goes.Says += "; an empty segment takes its place first"
		}
		waits = waits || v.Goes == nil
		if v.Goes != nil {
			v.Earliest = s.now
		}
		r.Segments = append(r.Segments, v)
	}
	return r
}

// add is a sum that ends at the largest number instead of going round.
func add(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b-1 {
		return math.MaxInt64 - 1
	}
	return a + b
}

func policyName(c *Config) string {
	switch {
	case c.Compact && c.Delete:
		return "compact,delete"
	case c.Compact:
		return "compact"
	case c.Delete:
		return "delete"
	}
	return ""
}

// age is a span of time as a person says it.
func age(ms int64) string {
	switch {
	case ms >= 1000*24*3600*1000:
		return fmt.Sprintf("%d days", ms/(24*3600*1000))
	case ms >= 48*3600*1000:
		return fmt.Sprintf("%.1f days", float64(ms)/(24*3600*1000))
	}
	return (time.Duration(ms) * time.Millisecond).Round(time.Second).String()
}

// ageBounds says how old a record can become: age counts from the newest record of its segment, which is up to segment.ms younger.
func ageBounds(c *Config, checkMs int64) AgeBounds {
	if !c.Delete || c.RetentionMs < 0 {
		b := AgeBounds{Least: -1, Most: -1, Says: "no age limit"}
		if c.Delete && c.RetentionBytes >= 0 {
			b.Says = fmt.Sprintf("no age limit; the oldest segments go when the log has more than retention.bytes=%d", c.RetentionBytes)
		}
		return b
	}
	b := AgeBounds{Least: c.RetentionMs, Most: add(add(c.RetentionMs, c.SegmentMs), max(checkMs, 0))}
	looked := "it is looked at every log.retention.check.interval.ms"
	if checkMs >= 0 {
		looked = fmt.Sprintf("it is looked at every %s (log.retention.check.interval.ms)", age(checkMs))
	}
	b.Says = fmt.Sprintf("a record is kept for at least %s (retention.ms) and is gone after at most %s: its segment takes records for up to %s (segment.ms), its age counts from the newest of them, and %s",
		age(b.Least), age(b.Most), age(c.SegmentMs), looked)
	if c.RetentionBytes >= 0 {
		b.Least = 0
		b.Says += fmt.Sprintf("; it goes earlier when the log has more than retention.bytes=%d", c.RetentionBytes)
	}
	return b
}

// A CompactionReport says why the cleaner cleans a partition, or does not.
type CompactionReport struct {
	Partition       string  `json:"partition"`
	Due             bool    `json:"due"`
	Says            string  `json:"says"`
	Bound           string  `json:"bound,omitempty"` // why nothing beyond Limit is cleaned
	Running         bool    `json:"running"`
	FirstDirty      Offset  `json:"firstDirtyOffset"`
	Limit           Offset  `json:"firstUncleanableOffset"`
	CleanBytes      int64   `json:"cleanBytes"`
	DirtyBytes      int64   `json:"dirtyBytes"`
	DirtyRatio      float64 `json:"dirtyRatio"`
	LastEnd         int64   `json:"lastEnd"` // ms; 0: not since the start
	LastTookMs      int64   `json:"lastTookMs"`
	LastDid         string  `json:"lastDid,omitempty"`
	Failures        int     `json:"failures"`
	Error           string  `json:"error,omitempty"`
	RetryAt         int64   `json:"retryAt,omitempty"`
	TombstonesUntil string  `json:"tombstones"`
}

// ExplainRetention says what keeps each segment of a partition; nil: it has no open log here.
func (m *Manager) ExplainRetention(tp TopicPartition) *RetentionReport {
	m.mu.RLock()
	h := m.logs[tp]
	m.mu.RUnlock()
	if h == nil {
		return nil
	}
	m.hearWatermark(h)
	hw, _ := watermark(h)
	r := explainRetention(retentionState{
		partition: tp, now: nowMs(), cfg: h.log.Config(), start: h.log.StartOffset(), end: h.log.EndOffset(), hw: hw,
		checkMs: m.o.RetentionCheckMs, segments: h.log.Segments(),
	})
	return &r
}

// AgeBoundsFor says how old a record of a topic with these settings can become.
func (m *Manager) AgeBoundsFor(c Config) AgeBounds { return ageBounds(&c, m.o.RetentionCheckMs) }

// AgeBoundsOf is AgeBoundsFor of a broker whose log.retention.check.interval.ms is checkMs; -1: not known.
func AgeBoundsOf(c Config, checkMs int64) AgeBounds { return ageBounds(&c, checkMs) }

// ExplainCompaction says why a partition is cleaned, or is not; nil: it has no open log here.
func (m *Manager) ExplainCompaction(tp TopicPartition) (*CompactionReport, error) {
	m.mu.RLock()
	h := m.logs[tp]
	m.mu.RUnlock()
	if h == nil {
		return nil, nil
	}
	p, err := m.planFor(h)
	if err != nil {
		return nil, err
	}
	cfg := h.log.Config()
	r := &CompactionReport{Partition: tp.String(), Due: p.Due, Says: p.Why, Bound: p.Bound, FirstDirty: p.First, Limit: p.Limit,
		CleanBytes: p.Clean, DirtyBytes: p.Dirty, DirtyRatio: p.Ratio}
	r.TombstonesUntil = fmt.Sprintf("delete.retention.ms %d after the first cleaning that they survive (%s)", cfg.DeleteRetentionMs, age(cfg.DeleteRetentionMs))
	c := m.cleaner
	c.mu.Lock()
	defer c.mu.Unlock()
	r.Running = c.running[tp] != nil
	if c.cfg.Threads == 0 && cfg.Compact {
		r.Due, r.Says = false, "the cleaner is off (log.cleaner.enable, log.cleaner.threads)"
	}
	if s := c.status[tp]; s != nil && s.Log == h.log {
		if !s.LastEnd.IsZero() {
			r.LastEnd, r.LastTookMs, r.LastDid = s.LastEnd.UnixMilli(), s.Took.Milliseconds(), s.Last.String()
		}
		r.Failures = s.Failures
		if s.Err != nil {
			r.Error, r.RetryAt = s.Err.Error(), s.RetryAt.UnixMilli()
		}
	}
	return r, nil
}
