package server

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/wire"
)

// OffsetFetch 1-10 and OffsetDelete 0: where groups are. What the versions changed stands with the methods of group.Shard.

func (n *Node) handleOffsetFetch(_ context.Context, req *wire.Request) wire.Response {
	var r kmsg.OffsetFetchRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	resp := r.ResponseKind().(*kmsg.OffsetFetchResponse)
	if r.Version >= 8 {
		for i := range r.Groups {
			resp.Groups = append(resp.Groups, n.fetchOffsets(&r, &r.Groups[i]))
		}
		return wire.Reply(resp)
	}
	one := kmsg.NewOffsetFetchRequestGroup()
	one.Group = r.Group
	if r.Topics != nil || r.Version < 2 { // null is all, from v2 on
		one.Topics = make([]kmsg.OffsetFetchRequestGroupTopic, 0, len(r.Topics))
	}
	for _, t := range r.Topics {
		gt := kmsg.NewOffsetFetchRequestGroupTopic()
		gt.Topic, gt.Partitions = t.Topic, t.Partitions
		one.Topics = append(one.Topics, gt)
	}
	g := n.fetchOffsets(&r, &one)
	resp.ErrorCode = g.ErrorCode
	if g.ErrorCode != 0 && r.Version < 2 { // there is no such place yet
		g = refuseOffsets(&one, g.ErrorCode)
	}
	for _, t := range g.Topics {
		rt := kmsg.NewOffsetFetchResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetFetchResponseTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata, rp.ErrorCode = p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return wire.Reply(resp)
}

// fetchOffsets answers for one group of a request.
func (n *Node) fetchOffsets(r *kmsg.OffsetFetchRequest, g *kmsg.OffsetFetchRequestGroup) kmsg.OffsetFetchResponseGroup {
	answer, code := askGroup(context.Background(), n, g.Group, func(m *groupMachine, now time.Time, reply func(kmsg.OffsetFetchResponseGroup)) effect {
		reply(m.OffsetFetch(now, g, r.Version, r.RequireStable))
		return effect{}
	})
	if code != nil {
		answer = kmsg.NewOffsetFetchResponseGroup()
		answer.Group, answer.ErrorCode = g.Group, code.Code
	}
	return answer
}

// refuseOffsets gives every partition that was asked for a code.
func refuseOffsets(g *kmsg.OffsetFetchRequestGroup, code int16) kmsg.OffsetFetchResponseGroup {
	var answer kmsg.OffsetFetchResponseGroup
	for _, t := range g.Topics {
		rt := kmsg.NewOffsetFetchResponseGroupTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata, rp.ErrorCode = p, -1, -1, kmsg.StringPtr(""), code
			rt.Partitions = append(rt.Partitions, rp)
		}
		answer.Topics = append(answer.Topics, rt)
	}
	return answer
}

func (n *Node) handleOffsetDelete(_ context.Context, req *wire.Request) wire.Response {
	var r kmsg.OffsetDeleteRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	resp := r.ResponseKind().(*kmsg.OffsetDeleteResponse)
	if r.Group == "" {
		resp.ErrorCode = kerr.InvalidGroupID.Code
		return wire.Reply(resp)
	}
	answer, code := askGroup(context.Background(), n, r.Group, func(m *groupMachine, now time.Time, reply func(*kmsg.OffsetDeleteResponse)) effect {
		return m.effect(m.OffsetDelete(now, &r, reply))
	})
	if code != nil {
		resp.ErrorCode = code.Code
		return wire.Reply(resp)
	}
	answer.Version = r.Version
	return wire.Reply(answer)
}
