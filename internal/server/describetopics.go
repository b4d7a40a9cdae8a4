package server

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/controller"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/wire"
)

// DescribeTopicPartitions, version 0: topics in the order of their names, a page of partitions at a time, with the eligible leader
// replicas. An empty list means all topics. The cursor names the partition that the next page begins with.

func (n *Node) handleDescribeTopicPartitions(_ context.Context, req *wire.Request) wire.Response {
	var r kmsg.DescribeTopicPartitionsRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	resp := r.ResponseKind().(*kmsg.DescribeTopicPartitionsResponse)
	img := n.controller.Image()
	names := make([]string, 0, len(r.Topics))
	for _, t := range r.Topics {
		names = append(names, t.Topic)
	}
	all := len(names) == 0
	if all {
		for t := range img.Topics() {
			names = append(names, t.Name)
		}
	} else {
		slices.Sort(names)
		names = slices.Compact(names)
	}
	first := int32(0)
	if c := r.Cursor; c != nil {
		i, found := slices.BinarySearch(names, c.Topic)
		if c.Partition < 0 || !all && !found {
			return wire.Reply(refuseTopics(&r, resp))
		}
		names = names[i:]
		if found {
			first = c.Partition
		}
	}
	room := max(1, min(int(r.ResponsePartitionLimit), n.describeMax))
	v := n.view(img, req.Conn)
	for _, name := range names {
		if room == 0 {
			resp.NextCursor = cursor(name, first)
			break
		}
		t := img.Topic(name)
		if t == nil {
			if !all {
				resp.Topics = append(resp.Topics, unknownTopic(name))
			}
			first = 0
			continue
		}
		rt := kmsg.NewDescribeTopicPartitionsResponseTopic()
		rt.Topic, rt.TopicID, rt.IsInternal, rt.AuthorizedOperations = &t.Name, t.ID, isInternal(t.Name), topicOperations
		end := min(int(first)+room, len(t.Partitions))
		for i := int(first); i < end; i++ {
			rt.Partitions = append(rt.Partitions, v.describe(i, t.Partitions[i]))
		}
		room -= len(rt.Partitions)
		resp.Topics = append(resp.Topics, rt)
		if end < len(t.Partitions) {
			resp.NextCursor = cursor(name, int32(end))
			break
		}
		first = 0
	}
	return wire.Reply(resp)
}

func cursor(topic string, partition int32) *kmsg.DescribeTopicPartitionsResponseNextCursor {
	c := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	c.Topic, c.Partition = topic, partition
	return &c
}

func unknownTopic(name string) kmsg.DescribeTopicPartitionsResponseTopic {
	rt := kmsg.NewDescribeTopicPartitionsResponseTopic()
	rt.Topic, rt.IsInternal, rt.ErrorCode = &name, isInternal(name), kerr.UnknownTopicOrPartition.Code
	if controller.CheckTopicName(name) != nil {
		rt.ErrorCode = kerr.InvalidTopicException.Code
	}
	return rt
}

// refuseTopics answers a cursor that does not belong to the request. The answer has no place but the topics for an error.
func refuseTopics(r *kmsg.DescribeTopicPartitionsRequest, resp *kmsg.DescribeTopicPartitionsResponse) *kmsg.DescribeTopicPartitionsResponse {
	for _, t := range r.Topics {
		rt := kmsg.NewDescribeTopicPartitionsResponseTopic()
		rt.Topic, rt.ErrorCode = &t.Topic, kerr.InvalidRequest.Code
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func (v *view) describe(n int, p *metadata.Partition) kmsg.DescribeTopicPartitionsResponseTopicPartition {
	rp := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
	rp.Partition, rp.LeaderID, rp.LeaderEpoch = int32(n), p.Leader, int32(p.LeaderEpoch)
	rp.Replicas, rp.ISR = p.Replicas, p.ISR
	rp.EligibleLeaderReplicas, rp.LastKnownELR = notNil(p.ELR), notNil(p.LastKnownELR)
	rp.OfflineReplicas = v.offline(p)
	rp.ErrorCode = v.leaderCode(p, 13)
	if rp.ErrorCode != 0 {
		rp.LeaderID = -1
	}
	return rp
}

// notNil keeps an empty list from being written as null.
func notNil(ids []int32) []int32 {
	if ids == nil {
		return []int32{}
	}
	return ids
}
