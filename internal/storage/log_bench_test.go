package storage

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{16 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			cfg := DefaultConfig()
			cfg.MaxMessageBytes, cfg.RetentionMs, cfg.RetentionBytes, cfg.FileDeleteDelayMs = 2<<20, -1, 1<<30, 0
			cfg.SegmentBytes = 256 << 20
			l := openDisk(b, cfg)
			defer l.Abandon()
			builder := record.NewBuilder()
			for builder.Size() < size-1200 {
				builder.Add(record.Record{Timestamp: 1000, Value: make([]byte, 1000)})
			}
			template, err := builder.Batch(nil)
			if err != nil {
				b.Fatal(err)
			}
			buf := make([]byte, len(template))
			b.SetBytes(int64(len(template)))
			b.ReportAllocs()
			for b.Loop() {
				copy(buf, template)
				if _, err := l.Append(buf, AppendOptions{}); err != nil {
					b.Fatal(err)
				}
				if l.Size() > 2<<30 {
					b.StopTimer()
					if err := l.TruncateFullyAndStartAt(l.EndOffset()); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
			}
		})
	}
}

// filled is a log of n batches of about 16 KiB.
func filled(b *testing.B, cfg Config, n int) *Log {
	b.Helper()
	l := openDisk(b, cfg)
	builder := record.NewBuilder()
	for range 15 {
		builder.Add(record.Record{Timestamp: 1000, Value: make([]byte, 1000)})
	}
	template, err := builder.Batch(nil)
	if err != nil {
		b.Fatal(err)
	}
	for range n {
		if _, err := l.Append(bytes.Clone(template), AppendOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	return l
}

func BenchmarkReadTail(b *testing.B) {
	l := filled(b, DefaultConfig(), 1000)
	defer l.Abandon()
	end := l.EndOffset()
	b.ReportAllocs()
	for b.Loop() {
		d, err := l.Read(end-15, ReadOptions{MaxBytes: 1 << 20, Limit: end, MinOneBatch: true})
		if err != nil || d.Size == 0 {
			b.Fatal(err)
		}
		d.Release()
	}
}

func BenchmarkReadRandom(b *testing.B) {
	cfg := DefaultConfig()
	cfg.SegmentBytes = 64 << 20
	l := filled(b, cfg, 12_000)
	defer l.Abandon()
	end := l.EndOffset()
	b.ReportAllocs()
	for b.Loop() {
		d, err := l.Read(Offset(rand.Int64N(int64(end))), ReadOptions{MaxBytes: 1 << 20, Limit: end, MinOneBatch: true})
		if err != nil || d.Size == 0 {
			b.Fatal(err)
		}
		d.Release()
	}
}

func BenchmarkRecovery(b *testing.B) {
	l := filled(b, DefaultConfig(), 16_000) // 240 MiB
	dir, size := l.Dir(), l.Size()
	l.Abandon()
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		o := testOptions(vfs.OS(), DefaultConfig())
		o.Dir = dir
		l, err := OpenLog(o)
		if err != nil {
			b.Fatal(err)
		}
		l.Abandon()
	}
}

func BenchmarkOpen10000Segments(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "orders-3")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	for i := range 10_000 {
		one := batch(1, int64(1000+i))
		one.SetBaseOffset(Offset(i))
		for suffix, content := range map[string][]byte{logSuffix: one, indexSuffix: nil, timeIndexSuffix: appendTimeEntry(nil, int64(1000+i), 0)} {
			if err := os.WriteFile(filepath.Join(dir, fileName(Offset(i), suffix)), content, 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	o := testOptions(vfs.OS(), DefaultConfig())
	o.Dir, o.Clean = dir, true
	b.ReportAllocs()
	for b.Loop() {
		l, err := OpenLog(o)
		if err != nil || l.EndOffset() != 10_000 {
			b.Fatal(err)
		}
		l.Abandon()
	}
}
