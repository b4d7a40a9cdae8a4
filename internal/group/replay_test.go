package group

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/quire-log/quire/internal/kmeta"
)

// The quick way of reading a commit reads what the slow one reads, and refuses what it does not know.
func FuzzReadCommit(f *testing.F) {
	for _, v := range []kmeta.OffsetCommitValue{
		{Offset: 42, LeaderEpoch: 5, CommitTimestamp: 1 << 40, ExpireTimestamp: -1},
		{Offset: -1, LeaderEpoch: -1, Metadata: "a note", CommitTimestamp: 7, ExpireTimestamp: -1, TopicID: kmeta.UUID{1, 2, 3}},
		{Metadata: string(bytes.Repeat([]byte("x"), 126)), ExpireTimestamp: -1},
		{Metadata: string(bytes.Repeat([]byte("x"), 127)), ExpireTimestamp: -1},
		{Metadata: string(bytes.Repeat([]byte("x"), 300)), ExpireTimestamp: -1},
		{Offset: 1, ExpireTimestamp: 9},
	} {
		for version := int16(0); version <= 4; version++ {
			f.Add(byte(1), kmeta.AppendVersioned(nil, &v, version))
		}
	}
	f.Add(byte(0), kmeta.AppendVersioned(nil, &kmeta.LegacyOffsetCommitValue{Offset: 3, Metadata: "m", CommitTimestamp: 8}, 0))
	f.Fuzz(func(t *testing.T, kind byte, value []byte) {
		kind &= 1
		quick, slow := committed{leaderEpoch: -1, expireMs: -1}, committed{leaderEpoch: -1, expireMs: -1}
		note, ok := quick.read(kind, value)
		kept := topicOffsets{topic: &topicName{name: "t"}}
		kept.put(0, &committed{metadata: "of before", expireMs: -1}, nil)
		kept.put(0, &quick, note)
		quick = kept.committed(0, kept.find(0))
		err := slow.readOther(kind, value)
		switch {
		case ok && err != nil:
			t.Fatalf("%x: %+v, but %v", value, quick, err)
		case ok && quick != slow:
			t.Fatalf("%x: %+v, want %+v", value, quick, slow)
		case !ok && err == nil && kind == 1 && binary.BigEndian.Uint16(value) == 4 && len(slow.metadata) < 127 && len(value) == 2+8+4+1+len(slow.metadata)+8+1:
			t.Fatalf("%x is not read quickly", value)
		}
	})
}

// Replaying a commit of a partition that is known allocates nothing.
func TestReplayAllocates(t *testing.T) {
	s := newWorld(t).shard()
	w := offsetWriter{group: "g", recs: make([]Record, 0, 1)}
	w.add("orders", 0, &kmeta.OffsetCommitValue{Offset: 7, Metadata: "a note", ExpireTimestamp: -1, TopicID: topicID("orders")}, 4)
	e := Entry{Record: w.recs[0], Offset: 1}
	if n := testing.AllocsPerRun(1000, func() {
		if err := s.Replay(&e); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
