package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/replica"
	"github.com/quire-log/quire/internal/wire"
)

// OffsetForLeaderEpoch, versions 2-4: where the epoch that a client knows ends in this log, so that it can tell whether it has
// read what was truncated. v3 names who asks, v4 is flexible.
func (n *Node) handleOffsetForLeaderEpoch(_ context.Context, req *wire.Request) wire.Response {
	var m kmsg.OffsetForLeaderEpochRequest
	if err := req.Decode(&m); err != nil {
		return wire.Close(err)
	}
	img := n.controller.Image()
	resp := m.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	for i := range m.Topics {
		t := &m.Topics[i]
		rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
		rt.Topic = t.Topic
		for j := range t.Partitions {
			p := &t.Partitions[j]
			rp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			rp.Partition, rp.LeaderEpoch, rp.EndOffset = p.Partition, -1, invalidOffset
			_, log, code := n.leaderOf(img, t.Topic, p.Partition, p.CurrentLeaderEpoch)
			if rp.ErrorCode = code; code == codeNone {
				epoch, end := log.EndOffsetForEpoch(replica.Epoch(p.LeaderEpoch))
				rp.LeaderEpoch, rp.EndOffset = int32(epoch), int64(end)
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return wire.Reply(resp)
}
