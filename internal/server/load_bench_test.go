package server

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quire-log/quire/internal/group"
	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/replica"
	"github.com/quire-log/quire/internal/storage"
)

// loadRecords is how many commits BenchmarkLoadOffsets has loaded: about a gigabyte.
const loadRecords = 10_000_000

// BenchmarkLoadOffsets reads a partition of __consumer_offsets, batch by batch and record by record, and loads it: commits of 1,000 groups to 100
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
				b.SetBytes(p.Log().Size())
				for b.Loop() {
					if read := readAll(b, p.Log(), n.groups.loadBuffer); read != loadRecords {
						b.Fatalf("%d records", read)
					}
				}
				b.ReportMetric(float64(loadRecords)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
			})
			b.Run("load", func(b *testing.B) {
				loadAll(b, n, p)
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

// readAll reads a log as a consumer would, and counts its records.
func readAll(b *testing.B, log *storage.Log, atOnce int) (records int) {
	var reader record.Reader
	var buf []byte
	for at := log.StartOffset(); at < log.EndOffset(); {
		d, err := log.Read(at, storage.ReadOptions{MaxBytes: int64(atOnce), Limit: log.EndOffset(), MinOneBatch: true})
		if err != nil {
			b.Fatal(err)
		}
		for _, r := range d.Regions {
			buf = slices.Grow(buf[:0], int(r.Len))[:r.Len]
			if _, err := r.File.ReadAt(buf, r.Pos); err != nil {
				b.Fatal(err)
			}
			for left := buf; len(left) > 0; {
				e, err := record.FirstEntry(left)
				if err != nil {
					break
				}
				if err := errors.Join(e.Check(), reader.ResetEntry(e, loadInflateMax)); err != nil {
					b.Fatal(err)
				}
				for reader.Next() {
					records++
				}
				at, left = e.LastOffset()+1, left[len(e):]
			}
		}
		d.Release()
	}
	return records
}

// loadAll loads the machine of a partition of the offsets topic.
func loadAll(b *testing.B, n *Node, p *replica.Partition) {
	b.SetBytes(p.Log().Size())
	b.ReportAllocs()
	report := processorTime(b)
	for b.Loop() {
		s := newShard(&shards[*groupMachine]{
			topic: offsetsTopic, ctx: n.groups.ctx, loads: make(chan struct{}, 1), loadBuffer: n.groups.loadBuffer, log: n.log, find: n.groups.find,
			make: func(int32) *groupMachine {
				return &groupMachine{node: n, Shard: group.NewShard(group.Options{Config: group.DefaultConfig(), Image: n.controller.Image})}
			},
		}, 0, 0)
		if err := s.read(); err != nil {
			b.Fatal(err)
		}
	}
	report(b)
	b.ReportMetric(float64(loadRecords)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
