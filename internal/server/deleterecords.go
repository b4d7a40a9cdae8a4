package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/replica"
	"github.com/quire-log/quire/internal/wire"
)

// DeleteRecords, versions 0-2 (2: flexible): raises the start of a partition's log, so that what lies before it is gone.
// Alone, a node is done when its own log start is raised; the timeout is for followers.
func (n *Node) handleDeleteRecords(_ context.Context, req *wire.Request) wire.Response {
	var m kmsg.DeleteRecordsRequest
	if err := req.Decode(&m); err != nil {
		return wire.Close(err)
	}
	img := n.controller.Image()
	resp := m.ResponseKind().(*kmsg.DeleteRecordsResponse)
	for i := range m.Topics {
		t := &m.Topics[i]
		rt := kmsg.NewDeleteRecordsResponseTopic()
		rt.Topic = t.Topic
		for j := range t.Partitions {
			p := &t.Partitions[j]
			rp := kmsg.NewDeleteRecordsResponseTopicPartition()
			rp.Partition = p.Partition
			rp.LowWatermark, rp.ErrorCode = n.deleteRecords(img, t.Topic, p.Partition, p.Offset)
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return wire.Reply(resp)
}

func (n *Node) deleteRecords(img *metadata.Image, topic string, partition int32, offset int64) (lowWatermark int64, code int16) {
	if t := img.Topic(topic); t == nil || partition < 0 || int(partition) >= len(t.Partitions) {
		return invalidOffset, codeUnknownTopicOrPartition
	}
	if internalTopic(topic) {
		return invalidOffset, codeInvalidTopic
	}
	p, log, code := n.leaderOf(img, topic, partition, -1)
	if code != codeNone {
		return invalidOffset, code
	}
	if c := log.Config(); c.Compact && !c.Delete {
		return invalidOffset, codePolicyViolation
	}
	low, err := p.DeleteRecords(replica.Offset(offset))
	if err != nil {
		code, _ := errorCode(err)
		return invalidOffset, code
	}
	return int64(low), codeNone
}
