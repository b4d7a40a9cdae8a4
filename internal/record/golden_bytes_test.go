package record

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"
)

// unhex reads hex with any white space in it.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// example is 2026-01-01T00:00:00Z, the time from which the examples count.
const example = 1767225600000

// Batches as Kafka writes them: what a Builder makes of the same records must be these bytes.
var (
	twoRecords = `00000000 00000000 0000004c 00000003 02 0dcd8f8b 0000 00000001 0000019b76daa800 0000019b76daa805
		ffffffffffffffff ffff ffffffff 00000002 2200000004 6b31 0a 68656c6c6f 02 0268 0276 10000a0204 6b32 0100`
	fromProducer = `0000000000000002 00000039 00000003 02 e815e16b 0000 00000000 0000019b76daa80a 0000019b76daa80a
		0000000000000fa0 0000 00000000 00000001 0e000000 01 0278 00`
	commitMarker = `0000000000000005 00000042 00000003 02 cc70544e 0030 00000000 0000019b76daa814 0000019b76daa814
		0000000000000fa0 0001 ffffffff 00000001 20000000 08 00000001 0c 000000000007 00`
	leaderChange = `0000000000000000 0000004f 00000001 02 ad691498 0020 00000000 0000019b76daa800 0000019b76daa800
		ffffffffffffffff ffff ffffffff 00000001 3a000000 08 00000002 26 0000 00000001 02 00000001 00 02 00000001 00 00 00`
	deleteHorizon = `000000000000000a 0000003d 00000003 02 2445423f 0040 00000000 0000019b7c010400 0000019b76daa800
		ffffffffffffffff ffff ffffffff 00000001 1600 ffefb252 00 04 6b31 01 00`
	emptied = `0000000000000014 00000031 00000003 02 15ecafd4 0000 00000003 ffffffffffffffff 0000019b76daa800
		0000000000000fa0 0000 00000007 00000000`
	messageV1 = `0000000000000000 00000018 8b1aa760 01 00 0000019b76daa800 00000001 6b 00000001 76`
	messageV0 = `0000000000000000 00000010 1fecd70a 00 00 00000001 6b 00000001 76`
)

func TestBuilderBytes(t *testing.T) {
	for _, q := range []struct {
		name  string
		want  string
		build func(b *Builder)
	}{
		{"two records", twoRecords, func(b *Builder) {
			b.Add(Record{Timestamp: example, Key: []byte("k1"), Value: []byte("hello"), Headers: []Header{{"h", []byte("v")}}})
			b.Add(Record{Timestamp: example + 5, Key: []byte("k2")})
		}},
		{"from a producer", fromProducer, func(b *Builder) {
			b.BaseOffset, b.ProducerID, b.ProducerEpoch, b.BaseSequence = 2, 4000, 0, 0
			b.Add(Record{Timestamp: example + 10, Value: []byte("x")})
		}},
		{"commit marker", commitMarker, func(b *Builder) {
			b.BaseOffset, b.ProducerID, b.ProducerEpoch, b.Attributes = 5, 4000, 1, AttrTransactional|AttrControl
			b.Add(Record{Timestamp: example + 20, Key: AppendControlKey(nil, ControlCommit), Value: []byte{0, 0, 0, 0, 0, 7}})
		}},
		{"leader change", leaderChange, func(b *Builder) {
			b.LeaderEpoch, b.Attributes = 1, AttrControl
			b.Add(Record{Timestamp: example, Key: AppendControlKey(nil, ControlLeaderChange),
				Value: unhex(t, "0000 00000001 02 00000001 00 02 00000001 00 00")})
		}},
		{"delete horizon", deleteHorizon, func(b *Builder) {
			b.BaseOffset, b.Attributes, b.DeleteHorizon = 10, AttrDeleteHorizon, example+86400000
			b.Add(Record{Timestamp: example, Key: []byte("k1")})
		}},
	} {
		t.Run(q.name, func(t *testing.T) {
			b := NewBuilder()
			b.LeaderEpoch = 3
			q.build(b)
			size := b.Size()
			got, err := b.Batch([]byte("before"))
			if err != nil {
				t.Fatal(err)
			}
			want := unhex(t, q.want)
			if !bytes.Equal(got, append([]byte("before"), want...)) {
				t.Errorf("batch\n got %x\nwant %x", got[6:], want)
			}
			if size != len(want) || b.Size() != HeaderSize || b.Len() != 0 {
				t.Errorf("size %d, then %d with %d records; want %d, then an empty builder", size, b.Size(), b.Len(), len(want))
			}
			if !Batch(want).ChecksumValid() || Entry(want).Check() != nil {
				t.Errorf("checksum %08x is taken for wrong", Batch(want).CRC())
			}
		})
	}
}

func TestEndTxnMarkerBytes(t *testing.T) {
	stamped := func(commit bool) string {
		b := Batch(AppendEndTxnMarker(nil, 4000, 1, commit, 7, example+20))
		b.SetBaseOffset(5)
		b.SetLeaderEpoch(3)
		return hex.EncodeToString(b)
	}
	commit := hex.EncodeToString(unhex(t, commitMarker))
	if got := stamped(true); got != commit {
		t.Errorf("commit\n got %s\nwant %s", got, commit)
	}
	abort := commit[:2*0x45] + "00" + commit[2*0x46:]
	abort = abort[:2*17] + "384e8206" + abort[2*21:]
	if got := stamped(false); got != abort {
		t.Errorf("abort\n got %s\nwant %s", got, abort)
	}

	var r Reader
	if err := r.Reset(unhex(t, commitMarker), 0); err != nil || !r.Next() {
		t.Fatal(err, r.Err())
	}
	kind, err := ParseControlKey(r.Record().Key)
	if err != nil || kind != ControlCommit {
		t.Errorf("type %d, %v", kind, err)
	}
	epoch, err := ParseEndTxnMarker(r.Record().Value)
	if err != nil || epoch != 7 {
		t.Errorf("coordinator epoch %d, %v", epoch, err)
	}
}

func TestControlKeys(t *testing.T) {
	for _, q := range []struct {
		key  string
		want ControlType
		ok   bool
	}{
		{"0000 0001", ControlCommit, true},
		{"0000 0006", ControlKRaftVoters, true},
		{"0007 0001", ControlCommit, true}, // a later version begins as this one does
		{"0000 0063", 99, true},            // readers pass over it
		{"0000 0001 ff", ControlCommit, true},
		{"ffff 0001", 0, false},
		{"0000 00", 0, false},
		{"", 0, false},
	} {
		if got, err := ParseControlKey(unhex(t, q.key)); got != q.want || (err == nil) != q.ok {
			t.Errorf("key %q: %d, %v", q.key, got, err)
		}
	}
	for _, value := range []string{"", "0000 000000", "ffff 00000001"} {
		if epoch, err := ParseEndTxnMarker(unhex(t, value)); err == nil {
			t.Errorf("marker %q: epoch %d", value, epoch)
		}
	}
}

func TestEmptyBatchBytes(t *testing.T) {
	b := NewBuilder()
	b.BaseOffset, b.LeaderEpoch, b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Codec = 20, 3, 4000, 0, 7, Zstd
	for range 4 {
		b.Add(Record{Timestamp: example, Value: []byte("gone")})
	}
	full, err := b.Batch(nil)
	if err != nil {
		t.Fatal(err)
	}
	got := AppendEmpty(nil, full)
	if want := unhex(t, emptied); !bytes.Equal(got, want) {
		t.Errorf("empty batch\n got %x\nwant %x", got, want)
	}
	var r Reader
	if err := r.Reset(got, 0); err != nil || r.Next() || r.Err() != nil {
		t.Errorf("an empty batch reads as %v, %v, %v", err, r.Record(), r.Err())
	}
	if last := Batch(got).LastSequence(); last != 10 {
		t.Errorf("last sequence %d, want 10", last)
	}
}

func TestHeaderAccessors(t *testing.T) {
	b, err := FirstBatch(append(unhex(t, deleteHorizon), "and more"...))
	if err != nil {
		t.Fatal(err)
	}
	if b.BaseOffset() != 10 || b.LastOffset() != 10 || b.Length() != 61 || b.LeaderEpoch() != 3 || b.Magic() != 2 ||
		b.BaseTimestamp() != example+86400000 || b.MaxTimestamp() != example || b.Count() != 1 || b.HasProducer() ||
		!b.HasDeleteHorizon() || b.IsControl() || b.IsTransactional() || b.IsLogAppendTime() || b.LastSequence() != -1 ||
		b.ProducerEpoch() != -1 || b.Codec() != None || len(b) != 73 {
		t.Errorf("header read wrongly: %x", []byte(b))
	}
	b = unhex(t, fromProducer)
	if !b.HasProducer() || b.ProducerID() != 4000 || b.ProducerEpoch() != 0 || b.BaseSequence() != 0 || b.LastSequence() != 0 {
		t.Errorf("producer read wrongly: %x", []byte(b))
	}
}

func TestSequenceWraps(t *testing.T) {
	b := NewBuilder()
	b.ProducerID, b.ProducerEpoch, b.BaseSequence = 1, 0, 2147483645
	for range 5 {
		b.Add(Record{})
	}
	batch, err := b.Batch(nil)
	if err != nil {
		t.Fatal(err)
	}
	if last := Batch(batch).LastSequence(); last != 1 {
		t.Errorf("last sequence %d, want 1", last)
	}
}

func TestSetMaxTimestamp(t *testing.T) {
	b := Batch(unhex(t, twoRecords))
	was := bytes.Clone(b)
	b.SetMaxTimestamp(example+5, false)
	if !bytes.Equal(b, was) {
		t.Errorf("changed, though nothing was to change: %x", []byte(b))
	}
	b.SetMaxTimestamp(example+9, true)
	if b.MaxTimestamp() != example+9 || !b.IsLogAppendTime() || !b.ChecksumValid() {
		t.Errorf("append time: max %d, attributes %x, checksum valid %v", b.MaxTimestamp(), b.Attributes(), b.ChecksumValid())
	}
	b.SetMaxTimestamp(example+5, false)
	if !bytes.Equal(b, was) {
		t.Errorf("not the same after going back: %x", []byte(b))
	}
}

func TestOldMessageBytes(t *testing.T) {
	for _, q := range []struct {
		hex  string
		time int64
	}{{messageV0, -1}, {messageV1, example}} {
		e, err := FirstEntry(unhex(t, q.hex))
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Check(); err != nil {
			t.Errorf("magic %d: %v", e.Magic(), err)
		}
		var r Reader
		if err := r.ResetEntry(e, 0); err != nil || !r.Next() {
			t.Fatalf("magic %d: %v, %v", e.Magic(), err, r.Err())
		}
		rec := r.Record()
		if rec.Offset != 0 || rec.Timestamp != q.time || string(rec.Key) != "k" || string(rec.Value) != "v" || e.MaxTimestamp() != q.time || e.LeaderEpoch() != -1 {
			t.Errorf("magic %d: %+v", e.Magic(), rec)
		}
		if r.Next() || r.Err() != nil {
			t.Errorf("magic %d: more than one record, or %v", e.Magic(), r.Err())
		}
		e[len(e)-1]++
		if err := e.Check(); err == nil {
			t.Errorf("magic %d: a wrong value passes", e.Magic())
		}
	}
}

// Compressing changes codec, sequence of no producer, length and checksum, and the payload inflates to what it was.
func TestAppendCompressed(t *testing.T) {
	for _, q := range []struct {
		name, plain string
		sequence    int32 // claimed by the batch before
		want        int32
	}{
		{"no producer", twoRecords, 0, -1},
		{"no producer, no sequence", twoRecords, -1, -1},
		{"producer", fromProducer, 0, 0},
		{"producer, later", fromProducer, 17, 17},
	} {
		plain := Batch(unhex(t, q.plain))
		binary.BigEndian.PutUint32(plain[53:], uint32(q.sequence))
		plain.sum()
		for codec := None; codec <= Zstd; codec++ {
			out, err := AppendCompressed([]byte("before"), plain, codec, DefaultLevel)
			if err != nil {
				t.Fatalf("%s, %s: %v", q.name, codec, err)
			}
			b, err := FirstBatch(bytes.TrimPrefix(out, []byte("before")))
			if err != nil || len(b)+len("before") != len(out) || !b.ChecksumValid() {
				t.Fatalf("%s, %s: %v, %x", q.name, codec, err, out)
			}
			if b.Codec() != codec || b.BaseSequence() != q.want {
				t.Errorf("%s, %s: codec %s, sequence %d; want sequence %d", q.name, codec, b.Codec(), b.BaseSequence(), q.want)
			}
			payload, err := Decompress(nil, b.Payload(), codec, 1<<10)
			if err != nil || !bytes.Equal(payload, plain.Payload()) {
				t.Errorf("%s, %s: %v, payload %x", q.name, codec, err, payload)
			}
			same := append(Batch(nil), b[:HeaderSize]...) // but for what was looked at
			copy(same[8:12], plain[8:12])
			copy(same[17:23], plain[17:23])
			copy(same[53:57], plain[53:57])
			if !bytes.Equal(same, plain[:HeaderSize]) {
				t.Errorf("%s, %s: header %x, was %x", q.name, codec, b[:HeaderSize], plain[:HeaderSize])
			}
			if codec == None {
				continue
			}
			if _, err := AppendCompressed(nil, b, codec, DefaultLevel); err == nil {
				t.Errorf("%s, %s: compressed twice", q.name, codec)
			}
		}
	}
	out, err := AppendCompressed(nil, unhex(t, twoRecords), None, DefaultLevel)
	if err != nil || !bytes.Equal(out, unhex(t, twoRecords)) {
		t.Errorf("%v, %x", err, out)
	}
}
