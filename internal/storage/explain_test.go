package storage

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

const testHour = int64(3600_000)

func segmentsOf(bytes int64, times ...int64) (all []SegmentInfo) {
	for i, ms := range times {
		all = append(all, SegmentInfo{Offset(i * 10), bytes, ms, i == len(times)-1})
	}
	return all
}

// What keeps each segment, and when it goes.
func TestExplainRetention(t *testing.T) {
	now := 1000 * testHour
	for _, c := range []struct {
		name string
		set  func(s *retentionState)
		want []string // for each segment: "goes: …" or "kept: …", a part of what it says
	}{
		{"by age", func(s *retentionState) { s.cfg.RetentionMs = 10 * testHour },
			[]string{"goes: is 20h0m0s old", "kept: expires in 5h0m0s", "kept: expires in 10h0m0s"}},
		{"the future holds up what follows", func(s *retentionState) {
			s.cfg.RetentionMs = testHour
			s.segments[0].LargestTimestamp = now + 9*testHour
		},
			[]string{"kept: dated 9h0m0s ahead", "kept: waits for one before it", "kept: expires in 1h0m0s"}},
		{"by size", func(s *retentionState) { s.cfg.RetentionMs, s.cfg.RetentionBytes = -1, 150 },
			[]string{"goes: would still have that much", "kept: once the log has 50 bytes more", "kept: once the log has 50 bytes more"}},
		{"no limits", func(s *retentionState) { s.cfg.RetentionMs = -1 },
			[]string{"kept: no limit", "kept: no limit", "kept: no limit"}},
		{"compact", func(s *retentionState) { s.cfg.Delete, s.cfg.Compact = false, true },
			[]string{"kept: without delete", "kept: without delete", "kept: without delete"}},
		{"log start", func(s *retentionState) { s.cfg.Delete, s.start = false, 12 },
			[]string{"goes: below the log start offset 12", "kept: without delete", "kept: without delete"}},
		{"replicas", func(s *retentionState) { s.cfg.RetentionMs, s.hw = 0, 15 },
			[]string{"goes: is 20h0m0s old", "kept: the high watermark 15 is below its end 20", "kept: high watermark"}},
		{"all of it", func(s *retentionState) { s.cfg.RetentionMs = 0; s.now++ },
			[]string{"goes: 20h0m0s", "goes: 5h0m0s", "goes: an empty segment takes its place"}},
	} {
		s := retentionState{partition: testPartition, now: now, cfg: DefaultConfig(), end: 25, hw: 25, checkMs: 300_000,
			segments: segmentsOf(100, now-20*testHour, now-5*testHour, now)}
		c.set(&s)
		r := explainRetention(s)
		for i, v := range r.Segments {
			got := "kept:"
			for _, k := range v.Kept {
				got += " " + k.Says
			}
			if v.Goes != nil {
				got = "goes: " + v.Goes.Says
			}
			kind, says, _ := strings.Cut(c.want[i], ": ")
			if !strings.HasPrefix(got, kind) || !strings.Contains(got, says) {
				t.Errorf("%s, segment %d: %q, want %q", c.name, i, got, c.want[i])
			}
		}
	}
}

// What explaining says goes is what the next pass takes, and nothing else, whatever the settings. In the bubble no time passes from
// the one to the other.
func TestExplainAgreesWithRetention(t *testing.T) { synctest.Test(t, testExplainAgreesWithRetention) }

func testExplainAgreesWithRetention(t *testing.T) {
	for seed := range int64(200) {
		k := newKeyedLog(t, uint64(seed))
		k.write(40)
		n := int64(len(k.l.Segments()))
		c := k.cfg
		c.Delete, c.Compact = seed%4 != 0, false
		c.RetentionBytes = seed%7*500 - 500
		now := nowMs()
		c.RetentionMs = []int64{-1, 0, now - 10_100, now - 10_050}[seed%4]
		k.l.SetConfig(c)
		hw := k.l.EndOffset() - Offset(seed%3*10)
		if _, err := k.l.DeleteRecords(Offset(seed % 11)); err != nil {
			t.Fatal(err)
		}
		r := explainRetention(retentionState{partition: testPartition, now: now, cfg: c, start: k.l.StartOffset(), end: k.l.EndOffset(), hw: hw, segments: k.l.Segments()})
		want := 0
		for _, s := range r.Segments {
			if s.Goes != nil {
				want++
			}
		}
		got, err := k.l.DeleteOldSegments(hw)
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("seed %d: %d of %d segments went, explained were %d (%+v)", seed, got, n, want, c)
		}
		k.l.Abandon()
	}
}

func TestAgeBounds(t *testing.T) {
	c := DefaultConfig()
	c.RetentionMs, c.SegmentMs = 600_000, 600_000
	b := ageBounds(&c, 300_000)
	if b.Least != 600_000 || b.Most != 1_500_000 || !strings.Contains(b.Says, "at least 10m0s (retention.ms) and is gone after at most 25m0s") {
		t.Errorf("%+v", b)
	}
	c.RetentionMs = -1
	if b := ageBounds(&c, 1); b.Least != -1 || b.Most != -1 {
		t.Errorf("%+v", b)
	}
}

// Why a log is cleaned or not, by its state alone.
func TestPlanClean(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Compact, cfg.Delete = true, false
	now := 1000 * testHour
	base := func() cleanView {
		c := cfg
		return cleanView{checkpoint: -1, end: 40, stable: 40, cfg: &c, segments: []cleanSegment{
			{0, 100, now - 30*testHour, now - 40*testHour}, {10, 100, now - 20*testHour, now - 25*testHour}, {20, 100, now - 3*testHour, now - 10*testHour}, {30, 100, 0, 0}}}
	}
	for _, c := range []struct {
		name        string
		set         func(v *cleanView)
		first, last Offset
		due         bool
		says        string
	}{
		{"never cleaned", func(*cleanView) {}, 0, 30, true, "ratio 1.000 is above"},
		{"half clean", func(v *cleanView) { v.checkpoint = 20 }, 20, 30, false, "0.333 is not above"},
		{"all clean", func(v *cleanView) { v.checkpoint = 30 }, 30, 30, false, "the active segment begins at 30"},
		{"in mid segment", func(v *cleanView) { v.checkpoint = 15; v.cfg.MinCleanableDirtyRatio = 0.49 }, 15, 30, true, "0.500 is above"},
		{"a transaction is open", func(v *cleanView) { v.stable = 25 }, 0, 20, true, "above"},
		{"too young", func(v *cleanView) { v.cfg.MinCompactionLagMs = 25 * testHour }, 0, 10, true, "above"},
		{"all too young", func(v *cleanView) { v.cfg.MinCompactionLagMs = 100 * testHour }, 0, 0, false, "min.compaction.lag.ms"},
		{"must", func(v *cleanView) { v.checkpoint = 20; v.cfg.MaxCompactionLagMs = 5 * testHour }, 20, 30, true, "max.compaction.lag.ms"},
		{"not yet", func(v *cleanView) { v.checkpoint = 20; v.cfg.MaxCompactionLagMs = 15 * testHour }, 20, 30, false, "not above"},
		{"a checkpoint beyond the end", func(v *cleanView) { v.checkpoint = 41 }, 0, 30, true, "above"},
		{"a checkpoint below the start", func(v *cleanView) { v.checkpoint, v.start = 5, 10 }, 10, 30, true, "above"},
		{"not compacted", func(v *cleanView) { v.cfg.Compact = false }, 0, 0, false, "cleanup.policy"},
	} {
		v := base()
		c.set(&v)
		p := planClean(now, v)
		if got := fmt.Sprint(p.First, p.Limit, p.Due); got != fmt.Sprint(c.first, c.last, c.due) || !strings.Contains(p.Why, c.says) {
			t.Errorf("%s: %s (%s), want %d %d %v, %s", c.name, got, p.Why, c.first, c.last, c.due, c.says)
		}
	}
}

func TestEventRing(t *testing.T) {
	var r EventRing
	for i := range eventsMax + 5 {
		r.Add(Event{Kind: "roll", Offset: Offset(i)})
	}
	last := r.Last(3, func(e *Event) bool { return e.Offset%2 == 0 })
	if len(last) != 3 || last[0].Offset != eventsMax+4 || last[2].Offset != eventsMax {
		t.Errorf("%v", last)
	}
	all := r.Last(1<<30, nil)
	if len(all) != eventsMax || all[len(all)-1].Offset != 5 {
		t.Errorf("%d events, the oldest at %d", len(all), all[len(all)-1].Offset)
	}
}
