package storage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/quire-log/quire/internal/record"
)

// cleanBeside is what a cleaning may have in memory beside its map.
const cleanBeside = 16 << 20

// A cleaning's memory is that of its map and little beside it, however much it reads: its units, marks, inflated batches and the codecs'
// own state together stay within cleanBeside. What is in use is looked at for each paceBytes that are read or written.
func TestCleanMemory(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(10)) // so that what is in use is what is reachable, or nearly
	for _, codec := range []record.Codec{record.None, record.Zstd} {
		cfg := DefaultConfig()
		cfg.Compact, cfg.Delete, cfg.SegmentBytes, cfg.TimestampAfterMaxMs = true, false, 4<<20, 1<<60
		l := openDisk(t, cfg)
		rng := rand.New(rand.NewPCG(1, 1))
		value := make([]byte, 1000)
		for written := 0; written < 24<<20; {
			b := record.NewBuilder()
			b.Codec = codec
			for b.Size() < 64<<10 {
				for i := range value {
					value[i] = "0123456789abcdef"[rng.IntN(16)]
				}
				b.Add(record.Record{Timestamp: 1000, Key: fmt.Append(nil, rng.IntN(6_000)), Value: value})
			}
			out, err := b.Batch(nil)
			if err == nil {
				_, err = l.Append(out, AppendOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
			written += len(out)
		}
		if err := l.Roll(); err != nil {
			t.Fatal(err)
		}
		inUse := func() int64 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc + m.StackInuse)
		}
		runtime.GC()
		runtime.GC() // what pools had is gone
		before := inUse()
		var mu sync.Mutex // guards most: the reader and the pass are two goroutines
		most := int64(0)
		round := cleanRound{memory: 128 << 20, load: 0.9, workers: cleanWorkers, pace: func(context.Context, int) error {
			mu.Lock()
			defer mu.Unlock()
			most = max(most, inUse())
			return nil
		}}
		if _, _, err := round.run(t.Context(), l, 0, l.EndOffset(), 2000); err != nil {
			t.Fatal(err)
		}
		table := int64(len(round.m.slots) * mapSlotSize)
		beside := most - before - table
		t.Logf("%v: map %d KiB, beside it %d KiB", codec, table>>10, beside>>10)
		if beside > cleanBeside {
			t.Errorf("%v: %d bytes beside a map of %d", codec, beside, table)
		}
		l.Abandon()
	}
}
