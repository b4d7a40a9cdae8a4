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

// loadRecords is how many commits BenchmarkLoadOffsets has loaded: 750 MB.
const loadRecords = 10_000_000

// BenchmarkLoadOffsets loads a partition of __consumer_offsets, which holds commits as the coordinator writes them, 16 to a batch:
//
//	group-by-group  of 1,000 groups on 100 partitions each; a group commits all of its partitions at a time
//	groups-mixed    of the same, but a group commits one partition, and then it is the next group's turn
//	compacted       of 100,000 groups on 100 partitions each, all once: what compaction leaves
//
// load is beside two measures of what there is to be read: pread only has the bytes copied out of the page cache; read is plain reading,
// what anybody who consumes the log has to do, by the same means: find and read the pieces, check each batch's sum, and walk its records.
// Neither keeps anything of what it has read. Each order takes 750 MB on disk.
func BenchmarkLoadOffsets(b *testing.B) {
	for _, order := range []struct {
		name string
		of   func(i int) (group, partition int)
	}{
		{"group-by-group", func(i int) (int, int) { return i / 100 % 1000, i % 100 }},
		{"groups-mixed", func(i int) (int, int) { return i % 1000, i / 1000 % 100 }},
		{"compacted", func(i int) (int, int) { return i / 100, i % 100 }},
	} {
		b.Run(order.name, func(b *testing.B) {
			n, _ := groupsNode(b, b.TempDir(), "offsets.topic.num.partitions", "1", "log.cleaner.enable", "false")
			p := n.replicas.Partition(offsetsTopic, 0)
			fillOffsets(b, p, order.of)
			b.Run("pread", func(b *testing.B) {
				b.SetBytes(p.Log().Size())
				for b.Loop() {
					readAll(b, p.Log(), n.groups.loadBuffer, nil)
				}
			})
			b.Run("read", func(b *testing.B) {
				b.SetBytes(p.Log().Size())
				for b.Loop() {
					if read := readAll(b, p.Log(), n.groups.loadBuffer, new(record.Reader)); read != loadRecords {
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
		v := kmeta.OffsetCommitValue{Offset: int64(i), CommitTimestamp: now, ExpireTimestamp: -1, TopicID: kmeta.UUID{1, 2, 3}}
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

// readAll reads a log as a consumer would, and counts its records; without a reader, it looks at no more of them than where batches
// begin and end.
func readAll(b *testing.B, log *storage.Log, atOnce int, reader *record.Reader) (records int) {
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
				at, left = e.LastOffset()+1, left[len(e):]
				if reader == nil {
					continue
				}
				if err := errors.Join(e.Check(), reader.ResetEntry(e, loadInflateMax)); err != nil {
					b.Fatal(err)
				}
				for reader.Next() {
					records++
				}
				if reader.Err() != nil {
					b.Fatal(reader.Err())
				}
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
