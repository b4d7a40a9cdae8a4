package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/quire-log/quire/internal/group"
	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/replica"
	"github.com/quire-log/quire/internal/storage"
)

// loadRecords is how many commits BenchmarkLoadOffsets has loaded: about a gigabyte.
const loadRecords = 10_000_000

// BenchmarkLoadOffsets reads a partition of __consumer_offsets, and makes nothing of it or loads it: commits of 1,000 groups to 100
// partitions each, 16 to a batch. One group commits all of its partitions at a time, or each group one of its own after the other.
func BenchmarkLoadOffsets(b *testing.B) {
	for _, order := range []struct {
		name string
		of   func(i int) (group, partition int)
	}{
		{"group-by-group", func(i int) (int, int) { return i / 100 % 1000, i % 100 }},
		{"groups-mixed", func(i int) (int, int) { return i % 1000, i / 1000 % 100 }},
	} {
		b.Run(order.name, func(b *testing.B) {
			n, _ := groupsNode(b, b.TempDir(), "offsets.topic.num.partitions", "1")
			p := n.replicas.Partition(offsetsTopic, 0)
			fillOffsets(b, p, order.of)
			b.Run("read", func(b *testing.B) {
				loadAll(b, n, p, func() idleMachine { return idleMachine{} })
			})
			b.Run("load", func(b *testing.B) {
				loadAll(b, n, p, func() *groupMachine {
					return &groupMachine{node: n, Shard: group.NewShard(group.Options{Config: group.DefaultConfig(), Image: n.controller.Image})}
				})
			})
		})
	}
}

func fillOffsets(b *testing.B, p *replica.Partition, order func(i int) (group, partition int)) {
	builder := record.NewBuilder()
	builder.BaseSequence = 0
	var buf, key, value []byte
	now := time.Now().UnixMilli()
	for i := range loadRecords {
		g, partition := order(i)
		k := kmeta.OffsetCommitKey{Group: fmt.Sprint("group-", g), Topic: "t", Partition: int32(partition)}
		v := kmeta.OffsetCommitValue{Offset: int64(i), CommitTimestamp: now, ExpireTimestamp: -1}
		key, value = kmeta.AppendKey(key[:0], &k), kmeta.AppendVersioned(value[:0], &v, 4)
		builder.Add(record.Record{Timestamp: now, Key: key, Value: value})
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
}

// loadAll loads machines from a partition of the offsets topic.
func loadAll[M machine](b *testing.B, n *Node, p *replica.Partition, machineOf func() M) {
	b.SetBytes(p.Log().Size())
	b.ReportAllocs()
	report := processorTime(b)
	for b.Loop() {
		s := newShard(&shards[M]{
			topic: offsetsTopic, ctx: n.groups.ctx, loads: make(chan struct{}, 1), loadBuffer: n.groups.loadBuffer, log: n.log, find: n.groups.find,
			make: func(int32) M { return machineOf() },
		}, 0, 0)
		if err := s.read(); err != nil {
			b.Fatal(err)
		}
	}
	report(b)
	b.ReportMetric(float64(loadRecords)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

// An idleMachine makes nothing of what it is told.
type idleMachine struct{}

func (idleMachine) replay(*coordEntry) error            { return nil }
func (idleMachine) replayMarker(int64, int16, bool)     {}
func (idleMachine) loaded(time.Time)                    {}
func (idleMachine) unload()                             {}
func (idleMachine) onImage(time.Time, *metadata.Delta)  {}
func (idleMachine) nextTimer() (t time.Time, some bool) { return t, false }
func (idleMachine) tick(time.Time) effect               { return effect{} }
