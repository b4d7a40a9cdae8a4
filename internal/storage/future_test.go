package storage

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

// Records that are dated ahead within the limit are taken, counted and warned about, not too often; beyond it each is refused by its index.
func TestFutureClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.TimestampAfterMaxMs = 60_000
		var events []Event
		l, err := OpenLog(LogOptions{FS: vfs.NewMem(), Dir: "t-0", Partition: TopicPartition{"t", 0}, Config: cfg, Events: func(e Event) {
			if e.Kind == "future-timestamp" {
				events = append(events, e)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		add := func(ahead ...time.Duration) error {
			t.Helper()
			b := record.NewBuilder()
			for _, d := range ahead {
				b.Add(record.Record{Timestamp: time.Now().Add(d).UnixMilli(), Value: []byte("v")})
			}
			batch, err := b.Batch(nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = l.Append(batch, AppendOptions{})
			return err
		}
		for _, ahead := range []time.Duration{0, -time.Hour, time.Second, 59 * time.Second, time.Minute} {
			if err := add(0, ahead, -time.Minute); err != nil {
				t.Errorf("%v ahead: %v", ahead, err)
			}
		}
		if taken, refused := l.FutureBatches(); taken != 2 || refused != 0 || len(events) != 1 || !strings.Contains(events[0].Cause, "59s after now") {
			t.Errorf("%d taken, %d refused, events %v", taken, refused, events)
		}
		var invalid *record.InvalidError
		if err := add(0, time.Minute+time.Millisecond, 0, time.Hour); !errors.As(err, &invalid) || invalid.Fault != record.FaultTimestamp ||
			len(invalid.Records) != 2 || invalid.Records[0].Index != 1 || invalid.Records[1].Index != 3 {
			t.Errorf("beyond the limit: %v", err)
		}
		if taken, refused := l.FutureBatches(); taken != 2 || refused != 1 {
			t.Errorf("%d taken, %d refused", taken, refused)
		}
		for range 120 { // for an hour, each half minute
			time.Sleep(30 * time.Second)
			if err := add(30 * time.Second); err != nil {
				t.Fatal(err)
			}
		}
		if taken, _ := l.FutureBatches(); taken != 122 || len(events) != 7 {
			t.Errorf("%d taken, %d events in an hour", taken, len(events))
		}
		if _, err := l.Append(anyBatch(t, 1), AppendOptions{Origin: FromCoordinator}); err != nil {
			t.Fatal(err)
		}
	})
}

// Two logs whose times are the broker's get the same batches at the same times, but for what the clients claim the time to be. Nothing that
// can be asked of the logs tells them apart: not retention nor its explanation, lookups by time, rolls, or time indexes.
func TestNoClientStampCounts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		// rapid gives up a run by a panic, which must not cross the bubble: what it draws is drawn before.
		type step struct {
			kind, records int
			wait          time.Duration
			stamps        [2][]int64
			codec         record.Codec
			lie           [2]int64
		}
		wild := rapid.OneOf(rapid.Int64Range(math.MinInt64, math.MaxInt64-60), rapid.SampledFrom([]int64{-1, 0, 1, math.MaxInt64 - 60, math.MinInt64, 946684800000}), rapid.Int64Range(946684000000, 946690000000))
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			s := step{
				kind: rapid.IntRange(0, 9).Draw(rt, "kind"), records: rapid.IntRange(1, 4).Draw(rt, "records"),
				wait: time.Duration(rapid.Int64Range(0, 90_000).Draw(rt, "wait")) * time.Millisecond, codec: rapid.SampledFrom([]record.Codec{record.None, record.Snappy}).Draw(rt, "codec"),
			}
			for i := range s.stamps {
				base := wild.Draw(rt, "stamp")
				s.lie[i] = wild.Draw(rt, "max timestamp")
				for range s.records { // deltas of one byte, so that the batches are equally long
					stamp := base
					if s.codec == record.None {
						stamp += rapid.Int64Range(0, 60).Draw(rt, "delta")
					}
					s.stamps[i] = append(s.stamps[i], stamp)
				}
			}
			return s
		}), 1, 60).Draw(rt, "steps")
		synctest.Test(t, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.LogAppendTime, cfg.SegmentBytes, cfg.SegmentMs, cfg.RetentionMs, cfg.IndexInterval, cfg.FileDeleteDelayMs = true, 900, 120_000, 600_000, 1, 1000
			fs := [2]*vfs.Mem{vfs.NewMem(), vfs.NewMem()}
			var logs [2]*Log
			for i := range logs {
				l, err := OpenLog(LogOptions{FS: fs[i], Dir: "t-0", Partition: TopicPartition{"t", 0}, Config: cfg})
				if err != nil {
					t.Fatal(err)
				}
				defer l.Abandon()
				logs[i] = l
			}
			for n, s := range steps {
				time.Sleep(s.wait)
				if s.kind == 0 {
					time.Sleep(5 * time.Minute)
				}
				var said [2]string
				for i, l := range logs {
					if s.kind > 0 {
						b := record.NewBuilder()
						b.Codec = s.codec
						for _, stamp := range s.stamps[i] {
							b.Add(record.Record{Timestamp: stamp, Value: []byte("v")})
						}
						batch, err := b.Batch(nil)
						if err != nil {
							t.Fatal(err)
						}
						record.Batch(batch).SetMaxTimestamp(s.lie[i], false) // whatever it says
						_, err = l.Append(batch, AppendOptions{})
						said[i] += fmt.Sprintln("append", err)
					} else {
						_, err := l.DeleteOldSegments(l.EndOffset())
						said[i] += fmt.Sprintln("delete", err)
					}
					said[i] += tell(t, l)
				}
				if said[0] != said[1] {
					t.Errorf("after step %d %+v:\n%s", n, s, cmp.Diff(said[0], said[1]))
					return
				}
			}
			for _, l := range logs {
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
			}
			entries, err := fs[0].ReadDir("t-0")
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if strings.HasSuffix(e.Name(), timeIndexSuffix) && get(t, fs[0], "t-0/"+e.Name()) != get(t, fs[1], "t-0/"+e.Name()) {
					t.Errorf("%s differs", e.Name())
				}
			}
		})
		if t.Failed() {
			rt.FailNow()
		}
	})
}

// tell is all that a log says of times.
func tell(t *testing.T, l *Log) string {
	t.Helper()
	var b strings.Builder
	at, err := l.OffsetOfMaxTimestamp()
	fmt.Fprintln(&b, "max", at, err)
	for d := -15 * time.Minute; d <= time.Minute; d += 20 * time.Second {
		at, err := l.OffsetForTime(time.Now().Add(d).UnixMilli())
		fmt.Fprintln(&b, d, at, err)
	}
	r := explainRetention(retentionState{partition: l.partition, now: nowMs(), cfg: l.Config(), start: l.StartOffset(), end: l.EndOffset(), hw: l.EndOffset(), segments: l.Segments()})
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	taken, refused := l.FutureBatches()
	fmt.Fprintln(&b, string(text), taken, refused)
	return b.String()
}
