package storage

import (
	"fmt"
	"maps"
	"testing"

	"github.com/quire-log/quire/internal/record"
)

// Batches that are larger than a unit of the pipe, in bytes, records, or once inflated, are cleaned like others; also when the map is
// full in the middle of one.
func TestCleanLargeBatches(t *testing.T) {
	for _, c := range []struct {
		workers int
		keys    int64
	}{{0, 1 << 20}, {cleanWorkers, 1 << 20}, {0, 7_000}, {cleanWorkers, 7_000}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			cfg := testConfig()
			cfg.Compact, cfg.Delete, cfg.SegmentBytes, cfg.MaxMessageBytes = true, false, 4<<20, 2<<20
			l := openTest(t, newMem(t), cfg)
			defer l.Abandon()
			written, latest := map[Offset]string{}, map[string]Offset{}
			put := func(codec record.Codec, records, value int) {
				b := record.NewBuilder()
				b.Codec = codec
				for i := range records {
					o := l.EndOffset() + Offset(i)
					key := fmt.Sprint("k", (int(o)*7)%15_000)
					if i%5 == 0 {
						key = "often"
					}
					b.Add(record.Record{Timestamp: 1, Key: []byte(key), Value: make([]byte, value)})
					written[o], latest[key] = key, o
				}
				out, err := b.Batch(nil)
				if err == nil {
					_, err = l.Append(out, AppendOptions{})
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				put(record.None, cleanUnitRecords+100, 0)
				put(record.Zstd, 100, cleanInflateMax/90)
				put(record.None, 10, cleanUnitBytes/8)
				put(record.LZ4, cleanUnitRecords+1, 10)
				put(record.None, 3, 10)
			}
			if err := l.Roll(); err != nil {
				t.Fatal(err)
			}
			if err := l.Flush(); err != nil {
				t.Fatal(err)
			}
			first, rounds := Offset(0), 0
			for limit := l.EndOffset(); first < limit; rounds++ {
				round := cleanRound{memory: c.keys * mapSlotSize, load: 0.9, workers: c.workers}
				end, _, err := round.run(t.Context(), l, first, limit, 1000)
				if err != nil || end <= first {
					t.Fatalf("cleaned from %d to %d: %v", first, end, err)
				}
				first = end
			}
			if rounds > 1 != (c.keys < 10_000) {
				t.Errorf("%d rounds", rounds)
			}
			got := map[string]Offset{}
			var r record.Reader
			for _, s := range l.list() {
				f, err := s.acquire()
				if err != nil {
					t.Fatal(err)
				}
				_, fault, err := walkEntries(f, s.size.Load(), func(_ int64, e record.Entry) error {
					if err := e.Check(); err != nil {
						return err
					}
					if err := r.ResetEntry(e, inflateMax); err != nil {
						return err
					}
					for r.Next() {
						key := string(r.Record().Key)
						if written[r.Record().Offset] != key {
							t.Errorf("offset %d has key %s", r.Record().Offset, key)
						}
						got[key] = r.Record().Offset
					}
					return r.Err()
				})
				s.release()
				if fault != nil || err != nil {
					t.Fatal(fault, err)
				}
			}
			if !maps.Equal(got, latest) {
				t.Errorf("%d keys are left, want %d", len(got), len(latest))
			}
		})
	}
}
