package record

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// kib is a batch of 16 KiB in records of 1 KiB that look like JSON.
func kib(t testing.TB, c Codec) Batch {
	var records []Record
	for i := range 16 {
		var value []byte
		for j := 0; len(value) < 1000; j++ {
			value = fmt.Appendf(value, `{"id":%d,"name":"customer-%d","amount":%d.%02d,"open":%v},`, i*1000+j, (i*j*7919)%10007, i*j, j, j%3 == 0)
		}
		records = append(records, Record{Timestamp: 1000 + int64(i), Key: fmt.Appendf(nil, "key-%d", i), Value: value[:1000]})
	}
	return batchOf(t, c, records...)
}

func BenchmarkValidate(b *testing.B) {
	for c := None; c <= Zstd; c++ {
		b.Run(c.String(), func(b *testing.B) {
			batch, rules := kib(b, c), lenient()
			b.SetBytes(16 << 10)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Validate(batch, rules, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkWalk is validation without the checksum.
func BenchmarkWalk(b *testing.B) {
	batch, rules := kib(b, None), lenient()
	v := validation{batch: batch, rules: rules}
	b.ReportAllocs()
	for b.Loop() {
		if err := v.run(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRecompress(b *testing.B) {
	for _, c := range codecs {
		b.Run("none to "+c.String(), func(b *testing.B) {
			batch, rules := kib(b, None), lenient()
			rules.Recompress, rules.Codec, rules.Level = true, c, DefaultLevel
			buf := make([]byte, 0, 64<<10)
			b.SetBytes(16 << 10)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Validate(batch, rules, buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkReader(b *testing.B) {
	for c := None; c <= Zstd; c++ {
		b.Run(c.String(), func(b *testing.B) {
			batch := kib(b, c)
			var r Reader
			b.SetBytes(16 << 10)
			b.ReportAllocs()
			for b.Loop() {
				if err := r.Reset(batch, 1<<20); err != nil {
					b.Fatal(err)
				}
				for r.Next() {
				}
				if r.Err() != nil {
					b.Fatal(r.Err())
				}
			}
		})
	}
}

func BenchmarkBuilder(b *testing.B) {
	w := NewBuilder()
	record := Record{Timestamp: 1, Key: []byte("key"), Value: make([]byte, 1000)}
	var buf []byte
	b.SetBytes(16 << 10)
	b.ReportAllocs()
	for b.Loop() {
		for range 16 {
			w.Add(record)
		}
		var err error
		if buf, err = w.Batch(buf[:0]); err != nil {
			b.Fatal(err)
		}
	}
}

// Validation allocates nothing once its buffers are warm, whatever the codec; nor does reading.
func TestNoAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector has pools forget")
	}
	// A collection empties pools, but not in every run.
	allocs := func(f func()) float64 {
		n := testing.AllocsPerRun(100, f)
		for try := 0; n >= 1 && try < 9; try++ {
			n = min(n, testing.AllocsPerRun(100, f))
		}
		return n
	}
	for c := None; c <= Zstd; c++ {
		batch, rules := kib(t, c), lenient()
		if n := allocs(func() {
			if _, err := Validate(batch, rules, nil); err != nil {
				t.Fatal(err)
			}
		}); n >= 1 {
			t.Errorf("validating %v: %v allocations", c, n)
		}
		var r Reader
		if n := allocs(func() {
			if err := r.Reset(batch, 1<<20); err != nil {
				t.Fatal(err)
			}
			for r.Next() {
			}
		}); n >= 1 {
			t.Errorf("reading %v: %v allocations", c, n)
		}
	}
}

// events is a batch of about size bytes before compression, whose records of 1 KiB are JSON with random numbers in it: it inflates to about
// four times what it takes by zstd, and 2.5 times by lz4, as much traffic of services does.
func events(t testing.TB, c Codec, size int) Batch {
	rng := rand.New(rand.NewPCG(1, 0))
	verbs := []string{"viewed", "added", "removed", "paid", "shipped", "returned", "rated", "searched"}
	var records []Record
	for i := range size >> 10 {
		var value []byte
		for len(value) < 1000 {
			value = fmt.Appendf(value, `{"user":"u-%06d","session":"%016x","event":"%s","amount":%d.%02d,"item":%d},`,
				rng.IntN(1e6), rng.Uint64(), verbs[rng.IntN(len(verbs))], rng.IntN(500), rng.IntN(100), rng.IntN(20_000))
		}
		records = append(records, Record{Timestamp: 1000 + int64(i), Value: value[:1000]})
	}
	return batchOf(t, c, records...)
}

// BenchmarkValidateEvents counts the bytes that were sent, as GOALS of brokers do: MB/s of compressed bytes.
func BenchmarkValidateEvents(b *testing.B) {
	for _, size := range []int{16 << 10, 1 << 20} {
		for _, c := range []Codec{None, LZ4, Zstd, Snappy, Gzip} {
			b.Run(fmt.Sprintf("%v/%dKiB", c, size>>10), func(b *testing.B) {
				batch, rules := events(b, c, size), lenient()
				rules.MaxBytes = 2 << 20
				b.SetBytes(int64(len(batch)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Validate(batch, rules, nil); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(size)/float64(len(batch)), "inflation")
			})
		}
	}
}
