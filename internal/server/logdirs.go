package server

import (
	"cmp"
	"context"
	"path"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/replica"
	"github.com/quire-log/quire/internal/storage"
	"github.com/quire-log/quire/internal/wire"
)

// DescribeLogDirs, versions 1-5: v3 has an error of the whole answer, v4 the volume's sizes, v5 tells cordoned directories.
// Null topics mean all partitions; the directories are listed in either case.

func (n *Node) handleDescribeLogDirs(_ context.Context, req *wire.Request) wire.Response {
	var r kmsg.DescribeLogDirsRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	resp := r.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	var wanted map[string][]int32
	if r.Topics != nil {
		wanted = map[string][]int32{}
		for _, t := range r.Topics {
			wanted[t.Topic] = append(wanted[t.Topic], t.Partitions...)
		}
		for _, partitions := range wanted {
			slices.Sort(partitions)
		}
	}
	var cordoned []kmeta.UUID
	if self := n.controller.Image().Broker(n.id); self != nil {
		cordoned = self.CordonedDirectories
	}
	for _, d := range n.logs.Dirs() {
		rd := kmsg.NewDescribeLogDirsResponseDir()
		rd.Dir, rd.TotalBytes, rd.UsableBytes = d.Path, d.Usage.Total, d.Usage.Usable
		rd.IsCordoned = slices.Contains(cordoned, kmeta.UUID(d.ID))
		if d.Err != nil {
			rd.ErrorCode, rd.TotalBytes, rd.UsableBytes = kerr.KafkaStorageError.Code, -1, -1
			resp.Dirs = append(resp.Dirs, rd)
			continue
		}
		rd.Topics = n.describeLogs(d.Path, wanted)
		resp.Dirs = append(resp.Dirs, rd)
	}
	return wire.Reply(resp)
}

func has(sorted []int32, partition int32) bool {
	_, found := slices.BinarySearch(sorted, partition)
	return found
}

// describeLogs describes the logs of a directory that are wanted (nil: all; else sorted), by topic and partition.
func (n *Node) describeLogs(dir string, wanted map[string][]int32) []kmsg.DescribeLogDirsResponseDirTopic {
	type row struct {
		tp storage.TopicPartition
		p  *replica.Partition
	}
	var rows []row
	for _, p := range n.replicas.Partitions() {
		tp := p.TopicPartition()
		if p.Log() != nil && path.Dir(p.Log().Dir()) == path.Clean(dir) && (wanted == nil || has(wanted[tp.Topic], tp.Partition)) {
			rows = append(rows, row{tp, p})
		}
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.tp.Topic, b.tp.Topic), cmp.Compare(a.tp.Partition, b.tp.Partition))
	})
	var topics []kmsg.DescribeLogDirsResponseDirTopic
	for _, row := range rows {
		if len(topics) == 0 || topics[len(topics)-1].Topic != row.tp.Topic {
			t := kmsg.NewDescribeLogDirsResponseDirTopic()
			t.Topic = row.tp.Topic
			topics = append(topics, t)
		}
		p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		p.Partition, p.Size = row.tp.Partition, row.p.Log().Size()
		p.OffsetLag = max(0, int64(row.p.HighWatermark()-row.p.Log().EndOffset()))
		t := &topics[len(topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	return topics
}
