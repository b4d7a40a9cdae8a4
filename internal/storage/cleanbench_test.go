package storage

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/quire-log/quire/internal/record"
)

// BenchmarkClean cleans a log of 256 MiB of which each key is there four times, in batches of 16 KiB; MB/s are of what it has before.
func BenchmarkClean(b *testing.B) {
	for _, c := range []struct {
		name  string
		codec record.Codec
		value int
	}{{"plain-1KiB", record.None, 1000}, {"plain-100B", record.None, 100}, {"zstd-1KiB", record.Zstd, 1000}} {
		b.Run(c.name, func(b *testing.B) {
			const total = 256 << 20
			cfg := DefaultConfig()
			cfg.Compact, cfg.Delete, cfg.SegmentBytes, cfg.FileDeleteDelayMs, cfg.TimestampAfterMaxMs = true, false, 64<<20, 0, 1<<60
			rng := rand.New(rand.NewPCG(1, 1))
			keys := total / (c.value + 30) / 4
			pool := make([]byte, 1<<20) // text-like: zstd halves it, or more
			for i := range pool {
				pool[i] = "abcdefghijklmnop"[rng.IntN(16)]
			}
			var inflated int64
			for b.Loop() {
				b.StopTimer()
				l := openDisk(b, cfg)
				inflated = 0
				for inflated < total {
					bld := record.NewBuilder()
					bld.Codec = c.codec
					for bld.Size() < 16<<10 {
						at := rng.IntN(len(pool) - c.value)
						bld.Add(record.Record{Timestamp: 1000, Key: fmt.Appendf(nil, "key-%08d", rng.IntN(keys)), Value: pool[at : at+c.value]})
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
				if err := l.Flush(); err != nil {
					b.Fatal(err)
				}
				v, err := l.cleanView(-1, l.EndOffset())
				if err != nil {
					b.Fatal(err)
				}
				p := planClean(2000, v)
				round := cleanRound{memory: 128 << 20, load: 0.9}
				b.StartTimer()
				_, stats, err := round.run(b.Context(), l, p.First, p.Limit, 2000)
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if testing.Verbose() {
					b.Log(&stats)
				}
				l.Abandon()
				b.StartTimer()
			}
			b.SetBytes(inflated)
		})
	}
}
