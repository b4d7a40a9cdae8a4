package server

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/replica"
	"github.com/quire-log/quire/internal/storage"
)

// A load replays all of a log in its order, whatever batches it is made of and however many are read at once.
func TestLoadReadsAhead(t *testing.T) {
	n, s, _ := counters(t)
	p := n.replicas.Partition("counted", 0)
	var offsets []int64
	var sum int64
	put := func(codec record.Codec, producer int64, records int) {
		t.Helper()
		b := record.NewBuilder()
		if b.Codec = codec; producer >= 0 {
			b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Attributes = producer, 3, -1, record.AttrTransactional
		}
		for range records {
			r := number(int64(len(offsets)))
			b.Add(record.Record{Timestamp: time.Now().UnixMilli(), Key: r.key, Value: r.value})
			sum += int64(len(offsets))
			offsets = append(offsets, int64(p.Log().EndOffset())+int64(b.Len())-1)
		}
		batch, err := b.Batch(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Append(batch, -1, storage.AppendOptions{Origin: storage.FromCoordinator}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 40 {
		put(record.None, -1, 1+i%7)
		if i%5 == 0 {
			put(record.Gzip, -1, 3)
			put(record.Gzip, -1, 2)
		}
		if i%9 == 0 {
			put(record.None, 42, 2)
			marker := record.AppendEndTxnMarker(nil, 42, 3, true, 5, time.Now().UnixMilli())
			if _, err := p.Append(marker, -1, storage.AppendOptions{Origin: storage.FromCoordinator}); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(record.None, -1, 3000)
	put(record.None, -1, 1)
	for _, atOnce := range []int{1, 300, 5000, 1 << 20} {
		load := newShard(&shards[*counter]{
			topic: "counted", ctx: s.ctx, loads: make(chan struct{}, 1), loadBuffer: atOnce, log: n.log, make: s.make,
			find: func(int32) *replica.Partition { return p },
		}, 0, 0)
		if err := load.read(); err != nil {
			t.Fatal(err)
		}
		load.owner.work.Wait()
		if !slices.Equal(load.m.offsets, offsets) || load.m.sum != sum {
			t.Errorf("%d at once: %d records with the sum %d, want %d, %d", atOnce, len(load.m.offsets), load.m.sum, len(offsets), sum)
		}
		if want := slices.Repeat([]string{fmt.Sprint(int64(42), int16(3), true)}, 5); !slices.Equal(load.m.markers, want) {
			t.Errorf("%d at once: markers %v", atOnce, load.m.markers)
		}
	}
}

// A large log of groups, whose records are prepared by who reads it, loads as a small one does: with its tombstones and transactions.
func TestLoadPrepared(t *testing.T) {
	n, _ := groupsNode(t, t.TempDir(), "offsets.topic.num.partitions", "1")
	p := n.replicas.Partition(offsetsTopic, 0)
	put := func(b *record.Builder) {
		t.Helper()
		batch, err := b.Batch(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Append(batch, -1, storage.AppendOptions{Origin: storage.FromCoordinator}); err != nil {
			t.Fatal(err)
		}
	}
	b := record.NewBuilder()
	b.BaseSequence = 0
	commit := func(group string, offset int64) {
		v := kmeta.OffsetCommitValue{Offset: offset, ExpireTimestamp: -1, Metadata: group[:int(offset)%2]}
		b.Add(record.Record{Key: kmeta.AppendKey(nil, &kmeta.OffsetCommitKey{Group: group, Topic: "t"}), Value: kmeta.AppendVersioned(nil, &v, 4)})
	}
	const groups = 50
	for i := range int64(30_000) {
		if commit(fmt.Sprint("g", i%groups), i); b.Len() == 100 {
			put(b)
		}
	}
	b.Add(record.Record{Key: kmeta.AppendKey(nil, &kmeta.OffsetCommitKey{Group: "g1", Topic: "t"})})
	b.Add(record.Record{Key: kmeta.AppendKey(nil, &kmeta.OffsetCommitKey{Group: "g2", Topic: "t"})})
	commit("g2", 7)
	put(b)
	b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Attributes = 42, 3, -1, record.AttrTransactional
	commit("g3", 8)
	put(b)
	marker := record.AppendEndTxnMarker(nil, 42, 3, true, 5, time.Now().UnixMilli())
	if _, err := p.Append(marker, -1, storage.AppendOptions{Origin: storage.FromCoordinator}); err != nil {
		t.Fatal(err)
	}
	if p.Log().Size() < preparedMin {
		t.Fatalf("a log of %d bytes is not large", p.Log().Size())
	}
	load := newShard(&shards[*groupMachine]{
		topic: offsetsTopic, ctx: t.Context(), loads: make(chan struct{}, 1), loadBuffer: 100 << 10, log: n.log, make: n.groups.make,
		find: func(int32) *replica.Partition { return p },
	}, 0, 0)
	if err := load.read(); err != nil {
		t.Fatal(err)
	}
	load.owner.work.Wait()
	for i := range int64(groups) {
		name, want := fmt.Sprint("g", i), 30_000-groups+i
		switch i {
		case 1:
			want = -1
		case 2:
			want = 7
		case 3:
			want = 8
		}
		req := kmsg.OffsetFetchRequestGroup{Group: name, MemberEpoch: -1, Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{0}}}}
		got := load.m.OffsetFetch(time.Now(), &req, 8, false).Topics[0].Partitions[0]
		note := ""
		if want%2 == 1 {
			note = "g"
		}
		if got.Offset != want || *got.Metadata != note {
			t.Errorf("%s is at %d, %q, want %d, %q", name, got.Offset, *got.Metadata, want, note)
		}
	}
}
