package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// randomBatch is a batch with all that a batch can have.
func randomBatch(t testing.TB, rng *rand.Rand) Batch {
	t.Helper()
	b := NewBuilder()
	b.Codec = Codec(rng.IntN(5))
	b.BaseOffset, b.LeaderEpoch = Offset(rng.Int64N(1<<40)), Epoch(rng.IntN(10))
	if rng.IntN(2) == 0 {
		b.ProducerID, b.ProducerEpoch, b.BaseSequence = rng.Int64N(100), 3, rng.Int32()
	}
	for _, bit := range []int16{AttrLogAppendTime, AttrTransactional, AttrDeleteHorizon} {
		if rng.IntN(3) == 0 {
			b.Attributes |= bit
		}
	}
	b.DeleteHorizon = rng.Int64N(1 << 42)
	blob := func(null bool) []byte {
		if null {
			return nil
		}
		p := make([]byte, rng.IntN(200))
		for i := range p {
			p[i] = byte(rng.IntN(4))
		}
		return p
	}
	delta, now := int32(0), rng.Int64N(1<<41)
	for range 1 + rng.IntN(40) {
		r := Record{Timestamp: now + rng.Int64N(200) - 100, Key: blob(rng.IntN(5) == 0), Value: blob(rng.IntN(4) == 0)}
		if rng.IntN(3) == 0 {
			r.Timestamp = now
		}
		for range rng.IntN(3) * rng.IntN(2) {
			r.Headers = append(r.Headers, Header{string(blob(false)), blob(rng.IntN(4) == 0)})
		}
		b.AddAt(delta, r)
		delta += 1 + rng.Int32N(3)*rng.Int32N(2)
	}
	b.LastOffsetDelta = delta + rng.Int32N(4)
	if b.Attributes&AttrLogAppendTime != 0 {
		b.LastOffsetDelta = delta
	}
	out, err := b.Batch(nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A batch of some records of another is the one that decoding and encoding anew gives, to the byte.
func TestRewriteAsBuilder(t *testing.T) {
	var s Skim
	var r Reader
	defer s.Close()
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		b := randomBatch(t, rng)
		keeps := make([]bool, b.Count())
		kept := 0
		odds := rng.IntN(4)
		for i := range keeps {
			if keeps[i] = rng.IntN(4) >= odds; keeps[i] {
				kept++
			}
		}
		sets, horizon := rng.IntN(3) == 0, rng.Int64N(1<<42)

		want := NewBuilder()
		want.BaseOffset, want.LeaderEpoch, want.Codec, want.LastOffsetDelta = b.BaseOffset(), b.LeaderEpoch(), b.Codec(), b.LastOffsetDelta()
		want.ProducerID, want.ProducerEpoch, want.BaseSequence = b.ProducerID(), b.ProducerEpoch(), b.BaseSequence()
		want.Attributes, want.DeleteHorizon = b.Attributes()&^AttrCodecMask, b.BaseTimestamp()
		if sets {
			want.Attributes |= AttrDeleteHorizon
			want.DeleteHorizon = horizon
		}
		if err := r.Reset(b, math.MaxInt32); err != nil {
			t.Fatal(err)
		}
		if err := s.Reset(b, math.MaxInt32); err != nil {
			t.Fatal(err)
		}
		for i := 0; r.Next(); i++ {
			rec := r.Record()
			if !s.Next() || s.Offset() != rec.Offset || !bytes.Equal(s.Key(), rec.Key) || (s.Key() == nil) != (rec.Key == nil) || s.Tombstone() != (rec.Value == nil) {
				t.Fatalf("seed %d, record %d: offset %d, key %q, tombstone %v (%v), want %+v", seed, i, s.Offset(), s.Key(), s.Tombstone(), s.Err(), rec)
			}
			if keeps[i] {
				want.AddAt(int32(rec.Offset-b.BaseOffset()), *rec)
			}
		}
		if s.Next() || s.Err() != nil || r.Err() != nil {
			t.Fatalf("seed %d: %v, %v", seed, s.Err(), r.Err())
		}
		lead := []byte("lead")
		got, err := s.Rewrite(lead, sets, horizon, func(s *Skim) bool { return keeps[s.Index()] })
		if kept == 0 {
			if err == nil || string(got) != "lead" {
				t.Fatalf("seed %d: a batch of no records: %q, %v", seed, got, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		wanted, err := want.Batch([]byte("lead"))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, wanted) {
			t.Fatalf("seed %d, %v, %d of %d records, sets %v:\n%x, want\n%x", seed, b.Codec(), kept, b.Count(), sets, got, wanted)
		}
	}
}

// A record whose numbers are longer than they need be is read, and written as we write it.
func TestRewriteLongNumbers(t *testing.T) {
	body := []byte{7 /* attributes */, 0x80, 0 /* time */, 0 /* offset */, 0x82, 0x00 /* key size 1 */, 'k', 0x03 /* null */, 0}
	b := append(make([]byte, HeaderSize), byte(len(body)*2))
	b = append(b, body...)
	putHeader(b, header{baseOffset: 5, producerID: -1, count: 1})
	var s Skim
	defer s.Close()
	if err := s.Reset(b, 100); err != nil {
		t.Fatal(err)
	}
	if !s.Next() || s.Offset() != 5 || string(s.Key()) != "k" || !s.Tombstone() {
		t.Fatalf("%v", s.Err())
	}
	got, err := s.Rewrite(nil, false, 0, func(*Skim) bool { return true })
	if want := "\x0e\x00\x00\x00\x02k\x01\x00"; err != nil || string(got[HeaderSize:]) != want {
		t.Errorf("%x, %v, want %x", got[HeaderSize:], err, want)
	}
}

// Records that are not in the order of their offsets are put in order, each as it was; one whose offset is not its batch's says so.
func TestRewriteDisordered(t *testing.T) {
	var s Skim
	defer s.Close()
	var r Reader
	for _, c := range []struct {
		deltas []int32
		last   int32
		want   string
	}{
		{[]int32{2, 0, 1}, 2, "10=b 11=c 12=a"},
		{[]int32{0, 2, 1, 3}, 3, "10=a 11=c 12=b 13=d"},
		{[]int32{1, 0, 1, 0}, 3, "10=b 10=d 11=a 11=c"},
		{[]int32{0, 3}, 2, ErrStrayOffset.Error()},
		{[]int32{1, 0, -1}, 2, ErrStrayOffset.Error()},
	} {
		b := Batch(make([]byte, HeaderSize))
		for i, d := range c.deltas {
			b = appendRecord(b, Record{Key: []byte{byte('a' + i)}}, int64(i), d)
		}
		putHeader(b, header{baseOffset: 10, producerID: -1, count: int32(len(c.deltas)), lastOffsetDelta: c.last, baseTimestamp: 1000, maxTimestamp: 1003})
		if err := s.Reset(b, 1000); err != nil {
			t.Fatal(err)
		}
		out, err := s.Rewrite(nil, false, 0, func(*Skim) bool { return true })
		got := fmt.Sprint(err)
		if err == nil {
			got = ""
			if err := Entry(out).Check(); err != nil {
				t.Fatal(err)
			}
			if err := r.Reset(Batch(out), 1000); err != nil {
				t.Fatal(err)
			}
			for r.Next() {
				rec := r.Record()
				if want := 1000 + int64(rec.Key[0]-'a'); rec.Timestamp != want {
					t.Errorf("%v: %s has the time %d, want %d", c.deltas, rec.Key, rec.Timestamp, want)
				}
				got += fmt.Sprintf(" %d=%s", rec.Offset, rec.Key)
			}
			got = got[1:]
			if h := Batch(out); h.LastOffset() != b.LastOffset() || h.MaxTimestamp() != 1000+int64(len(c.deltas)-1) {
				t.Errorf("%v: ends at %d, time %d", c.deltas, h.LastOffset(), h.MaxTimestamp())
			}
		}
		if got != c.want {
			t.Errorf("%v: %s, want %s", c.deltas, got, c.want)
		}
	}
}

// Inflate gives what Decompress does, within the room that there is, and says so when that is not enough.
func TestInflateWithinRoom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	for range 300 {
		b := randomBatch(t, rng)
		want, err := Decompress(nil, b.Payload(), b.Codec(), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		lead := rng.IntN(100)
		dst := append(make([]byte, 0, lead+len(want)+rng.IntN(2)*(zstdBlock+2)), make([]byte, lead)...)
		got, err := Inflate(dst, b)
		var large *TooLargeError
		switch {
		case err == nil:
			if !bytes.Equal(got, want) {
				t.Fatalf("%v: %d bytes, want %d", b.Codec(), len(got), len(want))
			}
			if n := len(got); b.Codec() != None && n > 0 && &got[0] != &dst[:cap(dst)][lead] {
				t.Fatalf("%v: elsewhere than in the room", b.Codec())
			}
		case !errors.As(err, &large) || cap(dst) >= lead+len(want)+zstdBlock:
			t.Fatalf("%v: %v with room for %d of %d", b.Codec(), err, cap(dst)-lead, len(want))
		}
		if _, err := Inflate(nil, b); b.Codec() != None && len(want) > 0 && !errors.As(err, &large) {
			t.Fatalf("%v: %v without room", b.Codec(), err)
		}
	}
}

// Whatever the bytes, a Skim sees the records that a Reader sees, and finds the same wrong with them.
func FuzzSkim(f *testing.F) {
	for seed := range uint64(20) {
		b := randomBatch(f, rand.New(rand.NewPCG(seed, 2)))
		f.Add(b.Count(), b.Attributes(), []byte(b.Payload()))
	}
	f.Add(int32(1), int16(0), []byte{0})
	f.Add(int32(2), int16(0), []byte{0x12, 7, 0x80, 0, 0, 0x82, 0, 'k', 3, 0, 1, 1})
	f.Fuzz(func(t *testing.T, count int32, attributes int16, payload []byte) {
		b := Batch(append(make([]byte, HeaderSize), payload...))
		binary.BigEndian.PutUint32(b[57:], uint32(count))
		binary.BigEndian.PutUint16(b[21:], uint16(attributes))
		binary.BigEndian.PutUint32(b[23:], 1000) // the last offset's delta
		const limit = 1 << 20
		var r Reader
		var s Skim
		defer s.Close()
		wantErr, gotErr := r.Reset(b, limit), s.Reset(b, limit)
		for wantErr == nil && r.Next() {
			rec := r.Record()
			if !s.Next() || s.Offset() != rec.Offset || !bytes.Equal(s.Key(), rec.Key) || (s.Key() == nil) != (rec.Key == nil) || s.Tombstone() != (rec.Value == nil) {
				t.Fatalf("offset %d, key %q, tombstone %v (%v), want %+v", s.Offset(), s.Key(), s.Tombstone(), s.Err(), rec)
			}
		}
		if wantErr == nil {
			wantErr = r.Err()
		}
		if gotErr == nil && s.Next() {
			t.Fatal("one record more than a Reader sees")
		}
		if gotErr == nil {
			gotErr = s.Err()
		}
		if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
			t.Fatalf("error %v, want %v", gotErr, wantErr)
		}
		var format *FormatError
		if wantErr != nil {
			return
		}
		out, err := s.Rewrite(nil, false, 0, func(s *Skim) bool { return true })
		if err != nil {
			if b.Count() > 0 && !errors.As(err, &format) && !errors.Is(err, ErrStrayOffset) {
				t.Fatal(err)
			}
			return
		}
		if err := Entry(out).Check(); err != nil {
			t.Fatal(err)
		}
	})
}
