package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/quire-log/quire/internal/group"
	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/storage"
)

// BenchmarkLoadOffsets loads a partition of __consumer_offsets with commits of 1,000 groups to 100 partitions each, 16 to a batch.
func BenchmarkLoadOffsets(b *testing.B) {
	const records = 400_000
	n, _ := groupsNode(b, b.TempDir(), "offsets.topic.num.partitions", "1")
	p := n.replicas.Partition(offsetsTopic, 0)
	builder := record.NewBuilder()
	builder.BaseSequence = 0
	var buf []byte
	for i := range records {
		k := kmeta.OffsetCommitKey{Group: fmt.Sprint("group-", i%1000), Topic: "t", Partition: int32(i / 1000 % 100)}
		v := kmeta.OffsetCommitValue{Offset: int64(i), CommitTimestamp: time.Now().UnixMilli(), ExpireTimestamp: -1}
		builder.Add(record.Record{Timestamp: time.Now().UnixMilli(), Key: kmeta.AppendKey(nil, &k), Value: kmeta.AppendVersioned(nil, &v, 4)})
		if builder.Len() == 16 {
			var err error
			if buf, err = builder.Batch(buf[:0]); err != nil {
				b.Fatal(err)
			}
			if _, err := p.Append(buf, -1, storage.AppendOptions{Origin: storage.FromCoordinator}); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.SetBytes(p.Log().Size())
	b.ReportAllocs()
	report := processorTime(b)
	b.ResetTimer()
	for b.Loop() {
		s := newShard(n.groups, 0, 0)
		s.owner = &shards[*groupMachine]{
			topic: offsetsTopic, ctx: n.groups.ctx, loads: make(chan struct{}, 1), loadBuffer: n.groups.loadBuffer, log: n.log, find: n.groups.find,
			make: func(int32) *groupMachine {
				return &groupMachine{node: n, Shard: group.NewShard(group.Options{Config: group.DefaultConfig(), Image: n.controller.Image})}
			},
		}
		if err := s.read(); err != nil {
			b.Fatal(err)
		}
	}
	report(b)
	b.ReportMetric(float64(records)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
