package record

import (
	"bytes"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// drawRecord draws any record that a producer could send.
func drawRecord(t *rapid.T) Record {
	sized := rapid.OneOf(rapid.Just([]byte(nil)), rapid.SliceOfN(rapid.Byte(), 0, 200), rapid.Map(rapid.IntRange(0, 20_000), func(n int) []byte {
		return bytes.Repeat([]byte{byte(n)}, n)
	}))
	r := Record{Timestamp: rapid.Int64().Draw(t, "timestamp"), Key: sized.Draw(t, "key"), Value: sized.Draw(t, "value")}
	for range rapid.IntRange(0, 3).Draw(t, "headers") {
		r.Headers = append(r.Headers, Header{rapid.String().Draw(t, "name"), sized.Draw(t, "header")})
	}
	return r
}

// What a Builder was given, a Reader gives back: null and empty kept apart, headers in their order, gaps where they were.
func TestBuilderToReader(t *testing.T) {
	var r Reader // one for all, so that what it keeps of one batch would show in the next
	b := NewBuilder()
	rapid.Check(t, func(t *rapid.T) {
		b.Codec = Codec(rapid.IntRange(int(None), int(Zstd)).Draw(t, "codec"))
		b.BaseOffset = Offset(rapid.Int64Range(0, math.MaxInt64>>1).Draw(t, "base"))
		b.LeaderEpoch = Epoch(rapid.Int32().Draw(t, "epoch"))
		b.ProducerID, b.ProducerEpoch, b.BaseSequence = rapid.Int64Min(-1).Draw(t, "producer"), rapid.Int16().Draw(t, "producer epoch"), rapid.Int32().Draw(t, "sequence")
		var want []Record
		delta := int32(-1)
		newest := int64(math.MinInt64)
		for range rapid.IntRange(1, 30).Draw(t, "records") {
			rec := drawRecord(t)
			delta += rapid.Int32Range(1, 5000).Draw(t, "gap")
			b.AddAt(delta, rec)
			rec.Offset = b.BaseOffset + Offset(delta)
			want = append(want, rec)
			newest = max(newest, rec.Timestamp)
		}
		size := b.Size()
		batch, err := b.Batch(nil)
		if err != nil {
			t.Fatal(err)
		}
		h, err := FirstBatch(batch)
		if err != nil || len(h) != len(batch) || !h.ChecksumValid() {
			t.Fatalf("%v, %d bytes of %d, checksum valid %v", err, len(h), len(batch), h.ChecksumValid())
		}
		if h.Codec() == None && len(h) != size {
			t.Fatalf("size %d, then %d bytes", size, len(h))
		}
		if h.BaseOffset() != b.BaseOffset || h.LastOffsetDelta() != delta || h.Count() != int32(len(want)) || h.MaxTimestamp() != newest ||
			h.LeaderEpoch() != b.LeaderEpoch || h.ProducerID() != b.ProducerID || h.ProducerEpoch() != b.ProducerEpoch || h.BaseSequence() != b.BaseSequence {
			t.Fatalf("header %x", batch[:HeaderSize])
		}
		if err := r.Reset(h, size); err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !r.Next() {
				t.Fatalf("no record at %d: %v", w.Offset, r.Err())
			}
			if got := r.Record(); !same(*got, w) {
				t.Fatalf("got %+v, want %+v", got, w)
			}
		}
		if r.Next() || r.Err() != nil {
			t.Fatalf("goes on after the last: %v", r.Err())
		}
	})
}

func same(a, b Record) bool {
	if a.Offset != b.Offset || a.Timestamp != b.Timestamp || !sameBytes(a.Key, b.Key) || !sameBytes(a.Value, b.Value) || len(a.Headers) != len(b.Headers) {
		return false
	}
	for i, h := range a.Headers {
		if h.Key != b.Headers[i].Key || !sameBytes(h.Value, b.Headers[i].Value) {
			return false
		}
	}
	return true
}

// sameBytes tells null from empty.
func sameBytes(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

func TestBuilderRefuses(t *testing.T) {
	b := NewBuilder()
	if _, err := b.Batch(nil); err == nil {
		t.Error("a batch without records")
	}
	b.AddAt(5, Record{})
	b.AddAt(5, Record{})
	if got, err := b.Batch([]byte("before")); err == nil || string(got) != "before" {
		t.Errorf("the same delta twice: %q, %v", got, err)
	}
	b.Codec = 7
	b.Add(Record{})
	if got, err := b.Batch([]byte("before")); err == nil || string(got) != "before" {
		t.Errorf("codec 7: %q, %v", got, err)
	}
	b.Codec, b.Level = Gzip, 11
	b.Add(Record{})
	if _, err := b.Batch(nil); err == nil {
		t.Error("gzip level 11")
	}
	b.Level = DefaultLevel
	b.Add(Record{})
	if _, err := b.Batch(nil); err != nil {
		t.Errorf("after errors: %v", err)
	}
}

func TestVarints(t *testing.T) {
	for _, v := range []int64{0, -1, 1, 63, -64, 64, 8191, 8192, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64} {
		b := appendVarints(nil, v)
		if got, n := varint64(append(b, 0x55)); got != v || n != len(b) || varintSize(v) != n {
			t.Errorf("%d: read as %d from %d bytes, size %d", v, got, n, varintSize(v))
		}
		if got, n := varint32(b); v == int64(int32(v)) && (got != int32(v) || n != len(b)) {
			t.Errorf("%d: read as %d from %d bytes", v, got, n)
		}
		for cut := range b {
			if _, n := varint64(b[:cut]); n != 0 {
				t.Errorf("%d: cut off at %d, read from %d bytes", v, cut, n)
			}
		}
	}
	for _, q := range []struct {
		hex  string
		want int32
		n    int
	}{
		{"8000", 0, 2},                // longer than needed
		{"828080800 0", 1, 5},         // much longer
		{"feffffff0f", 2147483647, 5}, // the largest
		{"feffffff7f", 2147483647, 5}, // bits beyond 32 are dropped, as Java does
		{"ffffffffff", 0, 0},          // no end after 5 bytes
		{"80808080800 0", 0, 0},
	} {
		if got, n := varint32(unhex(t, q.hex)); got != q.want || n != q.n {
			t.Errorf("%s: %d from %d bytes, want %d from %d", q.hex, got, n, q.want, q.n)
		}
	}
	if _, n := varint64(bytes.Repeat([]byte{0x80}, 11)); n != 0 {
		t.Error("a varint of 11 bytes is read")
	}
}
