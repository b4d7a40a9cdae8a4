package metadata

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/record"
)

// bootstrapHex is a bootstrap.checkpoint as Kafka writes it at metadata.version 30.
const bootstrapHex = `
	00 00 00 00 00 00 00 00 00 00 00 47 00 00 00 00
	02 93 2d 03 2f 00 20 00 00 00 00 00 00 01 9b 76
	da a8 00 00 00 01 9b 76 da a8 00 ff ff ff ff ff
	ff ff ff ff ff ff ff ff ff 00 00 00 01 2a 00 00
	00 08 00 00 00 03 16 00 00 00 00 00 00 00 00 00
	00 00 00
	00 00 00 00 00 00 00 01 00 00 00 4f 00 00 00 00
	02 b3 83 9b 48 00 00 00 00 00 00 00 00 01 9b 76
	da a8 00 00 00 01 9b 76 da a8 00 ff ff ff ff ff
	ff ff ff ff ff ff ff ff ff 00 00 00 01 3a 00 00
	00 01 2e 01 0c 00 11 6d 65 74 61 64 61 74 61 2e
	76 65 72 73 69 6f 6e 00 1e 00 00
	00 00 00 00 00 00 00 02 00 00 00 3f 00 00 00 00
	02 e0 f1 8d 01 00 20 00 00 00 00 00 00 01 9b 76
	da a8 00 00 00 01 9b 76 da a8 00 ff ff ff ff ff
	ff ff ff ff ff ff ff ff ff 00 00 00 01 1a 00 00
	00 08 00 00 00 04 06 00 00 00 00`

const bootstrapTime = 0x019b76daa800

func bootstrapBytes(t testing.TB) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(bootstrapHex), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSnapshotBytes(t *testing.T) {
	want := bootstrapBytes(t)
	s := &Snapshot{Records: []kmeta.Record{&kmeta.FeatureLevelRecord{Name: MetadataVersion, FeatureLevel: 30}}}
	got, err := s.AppendTo(nil, bootstrapTime)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("snapshot is\n%s\nwant\n%s", hex.Dump(got), hex.Dump(want))
	}
	back, err := ReadSnapshot(want)
	if err != nil || !reflect.DeepEqual(back, s) {
		t.Errorf("it is read as %+v, %v", back, err)
	}
}

// A big snapshot is cut into batches, and a dynamic quorum stands in its header.
func TestSnapshotBatches(t *testing.T) {
	s := &Snapshot{
		Epoch: 7, LastContainedTimestamp: 99,
		KRaftVersion: &kmeta.KRaftVersion{KRaftVersion: 1},
		Voters: &kmeta.KRaftVoters{Voters: []kmeta.QuorumVoter{{
			VoterID: 1, VoterDirectoryID: UUID{1}, Endpoints: []kmeta.VoterEndpoint{{Name: "CONTROLLER", Host: "h", Port: 9}},
			KRaftVersionFeature: kmeta.KRaftVersionRange{MaxSupportedVersion: 1},
		}}},
	}
	for range 2*snapshotBatchRecords + 1 {
		s.Records = append(s.Records, &kmeta.NoOpRecord{})
	}
	big := strings.Repeat("x", 3<<20)
	for range 3 {
		s.Records = append(s.Records, &kmeta.ClearELRRecord{TopicName: big})
	}
	file, err := s.AppendTo(nil, 5)
	if err != nil {
		t.Fatal(err)
	}
	var counts []int32
	for src := file; len(src) > 0; {
		b, err := record.FirstBatch(src)
		if err != nil {
			t.Fatal(err)
		}
		if b.LeaderEpoch() != 7 {
			t.Errorf("a batch of epoch %d", b.LeaderEpoch())
		}
		counts = append(counts, b.Count())
		src = src[len(b):]
	}
	if want := []int32{3, 1024, 1024, 2, 1, 1, 1}; !reflect.DeepEqual(counts, want) {
		t.Errorf("batches of %v records, want %v", counts, want)
	}
	back, err := ReadSnapshot(file)
	if err != nil || !reflect.DeepEqual(back, s) {
		t.Errorf("it does not come back: %v", err)
	}
}

func TestReadSnapshotErrors(t *testing.T) {
	whole := bootstrapBytes(t)
	const data, footer = 0x53, 0xae
	edit := func(f func(b []byte) []byte) []byte { return f(bytes.Clone(whole)) }
	resum := func(b record.Batch) { b.SetMaxTimestamp(bootstrapTime+1, false) }
	for _, test := range []struct {
		name string
		src  []byte
		want string
	}{
		{"empty", nil, "snapshot: byte 0, offset 0: no snapshot footer: the file was not written to its end"},
		{"no footer", whole[:footer], "snapshot: byte 174, offset 2: no snapshot footer: the file was not written to its end"},
		{"cut", whole[:len(whole)-1], "snapshot: byte 174, offset 2: unexpected EOF"},
		{"no header", edit(func(b []byte) []byte {
			record.Batch(b[data:footer]).SetBaseOffset(0)
			return b[data:]
		}), "snapshot: byte 0, offset 0: no snapshot header"},
		{"begins with a footer", edit(func(b []byte) []byte {
			record.Batch(b[footer:]).SetBaseOffset(0)
			return b[footer:]
		}), "snapshot: byte 0, offset 0: record at offset 0: no snapshot header"},
		{"bit flip", edit(func(b []byte) []byte { b[0xa0] ^= 1; return b }), "snapshot: byte 83, offset 1: the checksum is wrong"},
		{"gap", edit(func(b []byte) []byte {
			record.Batch(b[data:footer]).SetBaseOffset(4)
			return b
		}), "snapshot: byte 83, offset 1: a batch at offset 4"},
		{"more after the footer", edit(func(b []byte) []byte {
			return append(b, b[data:footer]...)
		}), "snapshot: byte 249, offset 3: a batch after the snapshot footer"},
		{"unknown record", edit(func(b []byte) []byte {
			b[data+68] = 29
			resum(b[data:footer])
			return b
		}), "snapshot: byte 83, offset 1: record at offset 1: unknown metadata record type 29, version 0"},
		{"leader change", edit(func(b []byte) []byte {
			leader, _ := (&Snapshot{Records: []kmeta.Record{&kmeta.NoOpRecord{}}}).AppendTo(nil, 0)
			n := record.LogOverhead + int(binary.BigEndian.Uint32(leader[8:]))
			builder := record.NewBuilder()
			builder.BaseOffset, builder.Attributes = 1, record.AttrControl
			builder.Add(record.Record{
				Key:   record.AppendControlKey(nil, record.ControlLeaderChange),
				Value: kmeta.AppendControl(nil, &kmeta.LeaderChange{}, 0),
			})
			out, _ := builder.Batch(leader[:n:n])
			return out
		}), "snapshot: byte 83, offset 1: record at offset 1: LeaderChange has no place in a snapshot"},
	} {
		var snapshotErr *SnapshotError
		if _, err := ReadSnapshot(test.src); !errors.As(err, &snapshotErr) || err.Error() != test.want {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
		}
	}
}

func FuzzReadSnapshot(f *testing.F) {
	f.Add(bootstrapBytes(f))
	f.Fuzz(func(t *testing.T, src []byte) {
		s, err := ReadSnapshot(src)
		if err != nil {
			return
		}
		again, err := s.AppendTo(nil, 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ReadSnapshot(again); err != nil {
			t.Fatalf("written again, it cannot be read: %v", err)
		}
	})
}
