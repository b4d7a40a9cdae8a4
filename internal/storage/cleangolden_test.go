package storage

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quire-log/quire/internal/golden"
	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

// cleanerConfigs are goldenConfigs with what the cleaner needs to know.
func cleanerConfigs(t testing.TB, name string) func(topic string) Config {
	t.Helper()
	plain := goldenConfigs(t, name)
	b, err := os.ReadFile(golden.Shared(t, "golden", name, "admin.txt"))
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]string{}
	for _, m := range topicLine.FindAllSubmatch(b, -1) {
		set[string(m[1])] = string(m[2])
	}
	return func(topic string) Config {
		c := plain(topic)
		c.Delete, c.RetentionMs = false, -1
		c.Compact = strings.Contains(set[topic], "cleanup.policy=compact")
		for s := range strings.SplitSeq(set[topic], ",") {
			key, value, _ := strings.Cut(s, "=")
			n, _ := strconv.ParseInt(value, 10, 64)
			switch key {
			case "delete":
				c.Delete = true
			case "delete.retention.ms":
				c.DeleteRetentionMs = n
			case "min.compaction.lag.ms":
				c.MinCompactionLagMs = n
			case "retention.ms":
				c.RetentionMs = n
			case "min.cleanable.dirty.ratio":
				c.MinCleanableDirtyRatio, _ = strconv.ParseFloat(value, 64)
			}
		}
		return c
	}
}

var beginLine = regexp.MustCompile(`(?m)^\[(\S+ \S+?),(\d+)\] INFO Cleaner 0: Beginning cleaning of log (\S+) `)

// cleanedAt is when Kafka cleaned a partition last: what the delete horizons that it wrote tell or, to the moment, its log.
func cleanedAt(t *testing.T, name, partition string, after string, retention int64) int64 {
	log, err := os.ReadFile(golden.Shared(t, "golden", name, "cleaner-log.txt"))
	if err != nil {
		t.Fatal(err)
	}
	now := int64(0)
	for _, m := range beginLine.FindAllSubmatch(log, -1) {
		if string(m[3]) == partition {
			at, err := time.Parse(time.DateTime, string(m[1]))
			if err != nil {
				t.Fatal(err)
			}
			ms, _ := strconv.Atoi(string(m[2]))
			now = at.UnixMilli() + int64(ms)
		}
	}
	logs, _ := filepath.Glob(filepath.Join(after, "*.log"))
	for _, f := range logs {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for len(b) > 0 {
			e, err := record.FirstEntry(b)
			if err != nil {
				t.Fatal(err)
			}
			if e.Magic() == 2 && e.Batch().HasDeleteHorizon() {
				if at := e.Batch().BaseTimestamp() - retention; at >= now && at < now+60_000 {
					now = at
				}
			}
			b = b[len(e):]
		}
	}
	return now
}

// Kafka's dirty directories, cleaned here at the time at which Kafka cleaned them, become what they became there: the same segments,
// indexes, and batches to the byte, compressed ones to the record.
func TestGoldenCompacted(t *testing.T) {
	for _, part := range []string{"1", "2"} {
		before, after := "compacted-"+part+"-before", "compacted-"+part+"-after"
		t.Run(part, func(t *testing.T) {
			root, want := golden.Unpack(t, before), golden.Unpack(t, after)
			cfg := cleanerConfigs(t, before)
			was, err := readOffsetCheckpoint(vfs.OS(), filepath.Join(root, "data", cleanerFile))
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			is, err := readOffsetCheckpoint(vfs.OS(), golden.Shared(t, "golden", after, "cleaner-offset-checkpoint"))
			if err != nil {
				t.Fatal(err)
			}
			for _, dir := range partitionDirs(t, root) {
				base := filepath.Base(dir)
				tp, _, _ := parseDirName(base)
				if strings.HasPrefix(base, "__") {
					continue
				}
				t.Run(base, func(t *testing.T) {
					l := openGolden(t, filepath.Dir(dir), base, cfg, nil)
					defer l.Abandon()
					c := cfg(tp.Topic)
					now := cleanedAt(t, after, base, filepath.Join(want, "data", base), c.DeleteRetentionMs)
					checkpoint, known := was[tp]
					if !known {
						checkpoint = -1
					}
					if _, cleaned := is[tp]; now == 0 && cleaned && is[tp] != was[tp] {
						t.Fatal("no time of cleaning")
					} else if now == 0 {
						now = time.Date(2026, 11, 29, 23, 58, 0, 0, time.UTC).UnixMilli()
					}
					if _, err := l.DeleteOldSegments(l.EndOffset()); err != nil { // Kafka's cleaner begins with it
						t.Fatal(err)
					}
					v, err := l.cleanView(checkpoint, l.EndOffset())
					if err != nil {
						t.Fatal(err)
					}
					plan := planClean(now, v)
					if due := is[tp] != was[tp]; plan.Due != due {
						t.Fatalf("due %v, in Kafka %v: %s", plan.Due, due, plan.Why)
					}
					if plan.Due {
						round := cleanRound{memory: 128 << 20, load: 0.9, workers: cleanWorkers}
						end, stats, err := round.run(t.Context(), l, plan.First, plan.Limit, now)
						if err != nil {
							t.Fatal(err)
						}
						if end != is[tp] {
							t.Errorf("cleaned up to %d, Kafka to %d (%v)", end, is[tp], &stats)
						}
					}
					if err := l.Close(); err != nil {
						t.Fatal(err)
					}
					compareSegments(t, dir, filepath.Join(want, "data", base), strings.HasPrefix(base, "codec-"))
				})
			}
		})
	}
}

// compareSegments wants the same segments in two directories; compressed: of batches, only their records need be the same.
func compareSegments(t *testing.T, got, want string, compressed bool) {
	t.Helper()
	names := map[string]bool{}
	for _, dir := range []string{got, want} {
		for _, suffix := range segmentSuffixes {
			all, _ := filepath.Glob(filepath.Join(dir, "*"+suffix))
			for _, f := range all {
				names[filepath.Base(f)] = true
			}
		}
	}
	for n := range names {
		g, gotErr := os.ReadFile(filepath.Join(got, n))
		w, wantErr := os.ReadFile(filepath.Join(want, n))
		if gotErr != nil || wantErr != nil {
			t.Errorf("%s: %v, %v", n, gotErr, wantErr)
			continue
		}
		if bytes.Equal(g, w) {
			continue
		}
		switch {
		case strings.HasSuffix(n, ".log"):
			gb, wb := describeBatches(t, g, compressed), describeBatches(t, w, compressed)
			for i := range max(len(gb), len(wb)) {
				var a, b string
				if i < len(gb) {
					a = gb[i]
				}
				if i < len(wb) {
					b = wb[i]
				}
				if a != b {
					t.Errorf("%s: batch %d is\n%s\nKafka's is\n%s", n, i, a, b)
				}
			}
		case !compressed || strings.HasSuffix(n, txnIndexSuffix):
			t.Errorf("%s: %x\nKafka's: %x", n, g, w)
		}
	}
}

// describeBatches describes the batches of a .log file.
func describeBatches(t *testing.T, b []byte, compressed bool) (all []string) {
	t.Helper()
	var r record.Reader
	for len(b) > 0 {
		e, err := record.FirstEntry(b)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Check(); err != nil {
			t.Error(err)
		}
		h := e.Batch()
		s := fmt.Sprintf("%d-%d epoch %d attributes %x times %d %d producer %d %d %d count %d", h.BaseOffset(), h.LastOffset(), h.LeaderEpoch(), h.Attributes(),
			h.BaseTimestamp(), h.MaxTimestamp(), h.ProducerID(), h.ProducerEpoch(), h.BaseSequence(), h.Count())
		if !compressed {
			s += fmt.Sprintf(" size %d crc %x", len(e), h.CRC())
		}
		if err := r.ResetEntry(e, math.MaxInt32); err != nil {
			t.Fatal(err)
		}
		for r.Next() {
			rec := r.Record()
			s += fmt.Sprintf("\n  %d at %d %q %q %q", rec.Offset, rec.Timestamp, rec.Key, rec.Value, fmt.Sprint(rec.Headers))
		}
		all = append(all, s)
		b = b[len(e):]
	}
	return all
}

// Messages of format 1 become batches, as Kafka's cleaner makes them.
func TestGoldenCompactedOldFormat(t *testing.T) {
	root := golden.Unpack(t, "old-formats")
	dir := filepath.Join(root, "data", "v1-compacted-0")
	want := goldenFiles(t, "old-formats", "recovered", "files.txt")
	cfg := cleanerConfigs(t, "old-formats")
	l := openGolden(t, filepath.Dir(dir), "v1-compacted-0", cfg, nil)
	defer l.Abandon()
	const kafkas = 1795996624664 // the delete horizon that it wrote; delete.retention.ms is 0
	v, err := l.cleanView(-1, l.EndOffset())
	if err != nil {
		t.Fatal(err)
	}
	plan := planClean(kafkas, v)
	round := cleanRound{memory: 128 << 20, load: 0.9}
	if _, _, err := round.run(t.Context(), l, plan.First, plan.Limit, kafkas); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	wantSums(t, root, dir, want, func(n string) bool { return strings.HasSuffix(n, deletedSuffix) || n == epochFileName })
}
