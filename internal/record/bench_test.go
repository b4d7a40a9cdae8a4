package record

import (
	"fmt"
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
	for c := None; c <= Zstd; c++ {
		batch, rules := kib(t, c), lenient()
		if n := testing.AllocsPerRun(100, func() {
			if _, err := Validate(batch, rules, nil); err != nil {
				t.Fatal(err)
			}
		}); n >= 1 {
			t.Errorf("validating %v: %v allocations", c, n)
		}
		var r Reader
		if n := testing.AllocsPerRun(100, func() {
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
