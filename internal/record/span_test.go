package record

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

func TestSpans(t *testing.T) {
	long := bytes.Repeat([]byte("v"), 10_000)
	b := batchOf(t, None,
		Record{Offset: 0, Timestamp: 5, Key: []byte("key"), Value: []byte("value")},
		Record{Offset: 1, Timestamp: 1 << 40, Key: []byte("gone")},
		Record{Offset: 2, Value: []byte{}},
		Record{Offset: 3, Key: []byte("k"), Value: long, Headers: []Header{{"h", []byte("x")}}},
		Record{Offset: 4, Key: long[:100], Value: long[:8100]},
	)
	const before = 7
	buf := append(make([]byte, before), b...)
	spans, err := AppendSpans(nil, b, before)
	if err != nil || len(spans) != 5 {
		t.Fatalf("%d spans, %v", len(spans), err)
	}
	wantSpans(t, buf, spans, b)
	if spans[1].Value(buf) != nil || spans[2].Key(buf) != nil || spans[2].Value(buf) == nil {
		t.Error("null and empty are not told apart")
	}
}

// wantSpans compares spans with what a Reader finds.
func wantSpans(t *testing.T, buf []byte, spans []Span, b Batch) {
	t.Helper()
	var r Reader
	if err := r.Reset(b, 0); err != nil {
		t.Fatal(err)
	}
	n := 0
	for ; r.Next(); n++ {
		want := r.Record()
		if n == len(spans) {
			t.Fatalf("%d spans, and a Reader has more", n)
		}
		s := spans[n]
		if key, value := s.Key(buf), s.Value(buf); s.Offset != want.Offset || !bytes.Equal(key, want.Key) || !bytes.Equal(value, want.Value) ||
			(key == nil) != (want.Key == nil) || (value == nil) != (want.Value == nil) {
			t.Fatalf("span %d is %d %q %q, want %d %q %q", n, s.Offset, key, value, want.Offset, want.Key, want.Value)
		}
	}
	if n != len(spans) {
		t.Fatalf("%d spans, and a Reader has %d records", len(spans), n)
	}
}

// Spans are what a Reader finds, in good batches and in bad ones.
func FuzzSpans(f *testing.F) {
	for _, b := range seeds(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		e, err := FirstEntry(src)
		if err != nil || e.Magic() != 2 || e.Codec() != None {
			return
		}
		b := e.Batch()
		spans, err := AppendSpans(nil, b, 0)
		var r Reader
		want := r.Reset(b, 0)
		if want == nil {
			wantSpans(t, src, spans, b)
			for r.Next() {
			}
			want = r.Err()
		}
		if fmt.Sprint(err) != fmt.Sprint(want) {
			t.Fatalf("%v, and a Reader says %v", err, want)
		}
	})
}

// commits is a batch as group coordinators write them.
func commits(t testing.TB) Batch {
	var records []Record
	for i := range 16 {
		key, _ := hex.DecodeString(fmt.Sprintf("0001000967726f75702d3132330001740000%04x", i))
		value, _ := hex.DecodeString("0004000000000000002affffffff01" + strings.Repeat("00", 8) + "00")
		records = append(records, Record{Offset: Offset(i), Timestamp: 1, Key: key, Value: value})
	}
	return batchOf(t, None, records...)
}

func BenchmarkSpans(b *testing.B) {
	batch := commits(b)
	var spans []Span
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if spans, err = AppendSpans(spans[:0], batch, 0); err != nil || len(spans) != 16 {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadCommits(b *testing.B) {
	batch := commits(b)
	var r Reader
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Reset(batch, 0); err != nil {
			b.Fatal(err)
		}
		for r.Next() {
		}
		if r.Err() != nil {
			b.Fatal(r.Err())
		}
	}
}
