package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
)

// OffsetFetch answers for one group, versions 1-10; requests before version 8 are put into the form of one group. Every partition
// that is asked for is answered, with -1 if nothing is known of it or of the group; nil Topics are all that were committed.
// v9 checks the member of a consumer group, v10 names topics by id. requireStable refuses what an open transaction will change.
func (s *Shard) OffsetFetch(_ time.Time, req *kmsg.OffsetFetchRequestGroup, version int16, requireStable bool) kmsg.OffsetFetchResponseGroup {
	resp := kmsg.OffsetFetchResponseGroup{Group: req.Group}
	g := s.groups[req.Group]
	if g != nil && g.consumer != nil && version >= 9 && (req.MemberID != nil || req.MemberEpoch >= 0) {
		if resp.ErrorCode = g.consumer.mayFetch(text(req.MemberID), req.MemberEpoch); resp.ErrorCode != 0 {
			return resp
		}
	}
	image := s.opts.Image()
	if req.Topics == nil {
		if g == nil {
			return resp
		}
		var last *kmsg.OffsetFetchResponseGroupTopic
		g.offsets.each(func(topic string, partition int32, c *committed) bool {
			t := image.Topic(topic)
			if orphaned(image, topic, c) {
				return true
			}
			if last == nil || last.Topic != topic {
				resp.Topics = append(resp.Topics, kmsg.OffsetFetchResponseGroupTopic{Topic: topic, TopicID: t.ID})
				last = &resp.Topics[len(resp.Topics)-1]
			}
			last.Partitions = append(last.Partitions, g.fetch(topic, t.ID, partition, requireStable))
			return true
		})
		return resp
	}
	for i := range req.Topics {
		rt := &req.Topics[i]
		out := kmsg.OffsetFetchResponseGroupTopic{Topic: rt.Topic, TopicID: rt.TopicID, Partitions: make([]kmsg.OffsetFetchResponseGroupTopicPartition, 0, len(rt.Partitions))}
		name, id, code := rt.Topic, kmeta.UUID{}, int16(0)
		if version < 10 {
			if t := image.Topic(name); t != nil {
				id = t.ID
			}
		} else if t := image.TopicByID(rt.TopicID); t != nil {
			name, id = t.Name, t.ID
		} else {
			code = codeUnknownTopicID
		}
		for _, partition := range rt.Partitions {
			p := nothingCommitted(partition)
			if p.ErrorCode = code; code == 0 && g != nil {
				p = g.fetch(name, id, partition, requireStable)
			}
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func nothingCommitted(partition int32) kmsg.OffsetFetchResponseGroupTopicPartition {
	return kmsg.OffsetFetchResponseGroupTopicPartition{Partition: partition, Offset: -1, LeaderEpoch: -1, Metadata: kmsg.StringPtr("")}
}

// fetch answers for one partition of a topic as it is now.
func (g *group) fetch(topic string, id kmeta.UUID, partition int32, requireStable bool) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := nothingCommitted(partition)
	if requireStable && g.unstable(topic, partition) {
		p.ErrorCode = codeUnstable
		return p
	}
	c, ok := g.offsets.get(topic, partition)
	if !ok || c.topicID != (kmeta.UUID{}) && c.topicID != id {
		return p // nothing, or of a topic that was deleted and whose cleanup is to come
	}
	p.Offset, p.LeaderEpoch = c.offset, c.leaderEpoch
	if c.metadata != "" {
		note := c.metadata // the answer outlives the offset
		p.Metadata = &note
	}
	return p
}
