package storage

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

// BenchmarkClean cleans a log of 512 MiB of which each key is there four times, at random, in batches of 64 KiB before compression;
// MB/s and cpu-s/GiB are of what the records take uncompressed. rss-MiB is what the process has resident at the end beyond what it had at the start,
// of which map-MiB are the map.
func BenchmarkClean(b *testing.B) {
	for _, c := range []struct {
		name  string
		codec record.Codec
		value int
	}{{"plain-1KiB", record.None, 1000}, {"plain-100B", record.None, 100}, {"zstd-1KiB", record.Zstd, 1000}, {"lz4-1KiB", record.LZ4, 1000}} {
		b.Run(c.name, func(b *testing.B) {
			cfg := DefaultConfig()
			cfg.Compact, cfg.Delete, cfg.SegmentBytes, cfg.FileDeleteDelayMs, cfg.TimestampAfterMaxMs = true, false, 32<<20, 0, 1<<60
			from, inflated := benchLog(b, cfg, c.codec, c.value)
			round := cleanRound{memory: 128 << 20, load: 0.9, workers: cleanWorkers}
			resident, busy := residentBytes(b), time.Duration(0)
			b.SetBytes(inflated)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				o := testOptions(vfs.OS(), cfg)
				o.Dir = filepath.Join(b.TempDir(), "orders-3")
				linkDir(b, from, o.Dir)
				l, err := OpenLog(o)
				if err != nil {
					b.Fatal(err)
				}
				v, err := l.cleanView(-1, l.EndOffset())
				if err != nil {
					b.Fatal(err)
				}
				p := planClean(2000, v)
				before := processorTime(b)
				b.StartTimer()
				_, stats, err := round.run(b.Context(), l, p.First, p.Limit, 2000)
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				busy += processorTime(b) - before
				if testing.Verbose() {
					b.Log(&stats)
				}
				if err := l.Close(); err != nil {
					b.Fatal(err)
				}
				if err := os.RemoveAll(o.Dir); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(busy.Seconds()/float64(b.N)/float64(inflated)*(1<<30), "cpu-s/GiB")
			b.ReportMetric(float64(residentBytes(b)-resident)/(1<<20), "rss-MiB")
			b.ReportMetric(float64(len(round.m.slots)*mapSlotSize)/(1<<20), "map-MiB")
		})
	}
}

// benchLog writes a log and closes it; its last segment is empty.
func benchLog(b *testing.B, cfg Config, codec record.Codec, value int) (dir string, inflated int64) {
	b.Helper()
	const total = 512 << 20
	l := openDisk(b, cfg)
	rng := rand.New(rand.NewPCG(1, 1))
	keys := total / (value + 30) / 4
	pool := make([]byte, 1<<20) // of words: zstd makes a third of it, or less
	for i := 0; i < len(pool); {
		word := rng.IntN(500)
		i += copy(pool[i:], fmt.Sprintf("%x ", word*word*word))
	}
	for inflated < total {
		bld := record.NewBuilder()
		bld.Codec = codec
		for bld.Size() < 64<<10 {
			at := rng.IntN(len(pool) - value)
			bld.Add(record.Record{Timestamp: 1000, Key: fmt.Appendf(nil, "key-%08d", rng.IntN(keys)), Value: pool[at : at+value]})
		}
		inflated += int64(bld.Size())
		out, err := bld.Batch(nil)
		if err == nil {
			_, err = l.Append(out, AppendOptions{})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Roll(); err != nil {
		b.Fatal(err)
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	return l.Dir(), inflated
}

// linkDir makes a directory of the files of another, none of which is written to: cleaning replaces files.
func linkDir(b *testing.B, from, to string) {
	b.Helper()
	entries, err := os.ReadDir(from)
	if err == nil {
		err = os.MkdirAll(to, 0o755)
	}
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range entries {
		if err := os.Link(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			b.Fatal(err)
		}
	}
}

// processorTime is what the process has used of processors.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// residentBytes is what the process has in memory, where the system tells.
func residentBytes(b *testing.B) int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		b.Fatal(err)
	}
	return resident * int64(os.Getpagesize())
}
