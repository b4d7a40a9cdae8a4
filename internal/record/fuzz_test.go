package record

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// seeds are batches and messages of every kind, good and bad.
func seeds(f *testing.F) (all [][]byte) {
	for name := range fixtures {
		all = append(all, fixture(f, name))
	}
	for _, s := range []string{twoRecords, fromProducer, commitMarker, leaderChange, deleteHorizon, emptied, messageV0, messageV1} {
		all = append(all, unhex(f, s))
	}
	for _, payload := range hostile() {
		all = append(all, carrying(fixture(f, "F1"), None, payload))
	}
	for c := None; c <= Zstd; c++ {
		all = append(all, batchOf(f, c, at(1), Record{Timestamp: 2, Headers: []Header{{"h", nil}}}, Record{Value: bytes.Repeat([]byte("v"), 300)}))
		if c != None { // which would be 200 KiB to mutate
			all = append(all, batchOf(f, c, Record{Value: make([]byte, 3*windowBytes), Headers: []Header{{"h", nil}}}, at(1)))
		}
		if c < Zstd {
			all = append(all, wrap(f, oldMessage{magic: 1, offset: 1}, c, oldMessage{magic: 1}, oldMessage{magic: 1, offset: 1}))
		}
	}
	logs, _ := filepath.Glob(filepath.Join("..", "..", "..", "shared", "cli", "fixtures", "*", "*.log"))
	for _, log := range logs {
		if b, err := os.ReadFile(log); err == nil && len(b) < 10_000 {
			all = append(all, b)
		}
	}
	return all
}

// Any bytes can be walked: no panic, no end later than the bytes', nothing beyond the bound inflated.
func FuzzReader(f *testing.F) {
	for _, b := range seeds(f) {
		f.Add(b)
	}
	const limit = 1 << 16
	f.Fuzz(func(t *testing.T, src []byte) {
		var r Reader
		for len(src) > 0 {
			e, err := FirstEntry(src)
			if err != nil {
				if _, format := errors.AsType[*FormatError](err); !format && err != io.ErrUnexpectedEOF {
					t.Fatalf("%T: %v", err, err)
				}
				return
			}
			src = src[len(e):]
			_, _, _, _ = e.Check(), e.BaseOffset()+e.LastOffset(), e.MaxTimestamp(), e.LeaderEpoch()
			if e.Magic() == 2 {
				_ = e.Batch().LastSequence()
			}
			if err := r.ResetEntry(e, limit); err != nil {
				wantKnownError(t, err)
				continue
			}
			found, first, firstTime := false, Offset(0), int64(0)
			n := 0
			for ; r.Next(); n++ {
				rec := r.Record()
				if !found && rec.Timestamp >= 2 {
					found, first, firstTime = true, rec.Offset, rec.Timestamp
				}
				if len(rec.Key)+len(rec.Value) > max(limit, len(e)) {
					t.Fatalf("a key and value of %d bytes", len(rec.Key)+len(rec.Value))
				}
				for _, h := range rec.Headers {
					_ = h.Key + string(h.Value)
				}
			}
			if n > max(limit, len(e)) {
				t.Fatalf("%d records from %d bytes", n, len(e))
			}
			if r.Err() != nil {
				wantKnownError(t, r.Err())
			} else if e.Magic() == 2 && n != int(e.Batch().Count()) {
				t.Fatalf("%d records, where the header says %d", n, e.Batch().Count())
			} else if o, ms, err := e.FindTime(math.MinInt64, 2, limit); found && (o != first || ms != firstTime || err != nil) {
				t.Fatalf("the first record at 2 ms is found at %d (%d), %v; it is at %d (%d)", o, ms, err, first, firstTime)
			}
		}
	})
}

func wantKnownError(t *testing.T, err error) {
	t.Helper()
	_, format := errors.AsType[*FormatError](err)
	_, large := errors.AsType[*TooLargeError](err)
	if !format && !large {
		t.Fatalf("%T: %v", err, err)
	}
}

// What Validate accepts, a Reader reads: as many records as the header says, numbered 0, 1, 2, with the times that the
// verdict tells, under a checksum that is right. Encoding it anew changes nothing of that.
func FuzzValidate(f *testing.F) {
	for i, b := range seeds(f) {
		f.Add(b, uint8(i), i%2 == 0)
	}
	f.Fuzz(func(t *testing.T, src []byte, to uint8, appendTime bool) {
		b := Batch(bytes.Clone(src))
		if len(b) >= HeaderSize { // else no mutation would get past these
			b.SetBaseOffset(0)
			b.sum()
		}
		rules := Rules{Partition: "fuzz-0", Now: 5000, LogAppendTime: appendTime, TimestampBeforeMaxMs: math.MaxInt64,
			TimestampAfterMaxMs: math.MaxInt64, Recompress: to%2 == 0, Codec: Codec(to / 2 % 5), Level: DefaultLevel,
			MaxBytes: 1 << 20, InflateMax: 1 << 20}
		sent := bytes.Clone(b)
		v, err := Validate(b, rules, nil)
		if err != nil {
			if _, ok := errors.AsType[*InvalidError](err); !ok {
				t.Fatalf("%T: %v", err, err)
			}
			if !bytes.Equal(b, sent) {
				t.Fatal("refused, but changed")
			}
			return
		}
		if !v.Batch.ChecksumValid() || v.Batch.MaxTimestamp() != v.MaxTimestamp || v.Batch.IsLogAppendTime() != appendTime {
			t.Fatalf("header %x, verdict %+v", []byte(v.Batch[:HeaderSize]), v)
		}
		if want := Batch(sent).Codec(); !rules.Recompress && v.Batch.Codec() != want || rules.Recompress && v.Batch.Codec() != rules.Codec {
			t.Fatalf("codec %v to %v", want, v.Batch.Codec())
		}
		var r Reader
		if err := r.Reset(v.Batch, 2<<20); err != nil {
			t.Fatal(err)
		}
		n, newest := Offset(0), int64(-1)
		for ; r.Next(); n++ {
			if r.Record().Offset != n {
				t.Fatalf("record %d has offset %d", n, r.Record().Offset)
			}
			newest = max(newest, r.Record().Timestamp)
		}
		if r.Err() != nil || n != Offset(v.Batch.Count()) || v.Batch.LastOffset() != n-1 {
			t.Fatalf("%d records of %d, last offset %d: %v", n, v.Batch.Count(), v.Batch.LastOffset(), r.Err())
		}
		if newest != v.MaxTimestamp {
			t.Fatalf("newest record of %d, verdict %d", newest, v.MaxTimestamp)
		}
	})
}

// Any bytes can be inflated: no panic, and no more than was allowed.
func FuzzDecompress(f *testing.F) {
	for _, src := range samples() {
		if len(src) > 100_000 {
			continue
		}
		for _, c := range codecs {
			packed, err := Compress(nil, src, c, DefaultLevel)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(packed, uint8(c))
		}
	}
	const limit = 1 << 18
	f.Fuzz(func(t *testing.T, src []byte, codec uint8) {
		c := Codec(codec % 8)
		out, err := Decompress(nil, src, c, limit)
		if err != nil {
			wantKnownError(t, err)
			return
		}
		if len(out) > limit {
			t.Fatalf("%v: %d bytes inflate to %d", c, len(src), len(out))
		}
		packed, err := Compress(nil, out, c, DefaultLevel)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Decompress(nil, packed, c, limit); err != nil || !bytes.Equal(again, out) {
			t.Fatalf("%v: %d bytes come back as %d, %v", c, len(out), len(again), err)
		}
	})
}
