package group

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
)

// DescribeGroup describes a classic group for DescribeGroups, versions 0-6: before v6 a group that is not known is "Dead" and no
// error. Only a stable group shows what its members said and got. AuthorizedOperations are the caller's to fill in.
func (s *Shard) DescribeGroup(_ time.Time, name string, version int16) kmsg.DescribeGroupsResponseGroup {
	d := kmsg.DescribeGroupsResponseGroup{Group: name, State: stateDead.String(), Members: []kmsg.DescribeGroupsResponseGroupMember{}, AuthorizedOperations: -1 << 31}
	g := s.groups[name]
	if g == nil || g.consumer != nil || g.other != nil {
		if version >= 6 {
			d.ErrorCode, d.ErrorMessage = codeNoGroup, ptr(fmt.Sprintf("Group %s not found.", name))
			if g != nil {
				d.ErrorMessage = ptr(fmt.Sprintf("Group %s is not a classic group.", name))
			}
		}
		return d
	}
	d.State = stateEmpty.String()
	c := g.classic
	if c == nil {
		return d
	}
	d.State, d.ProtocolType = c.state.String(), c.protocolType
	stable := c.state == stateStable
	if stable {
		d.Protocol = c.protocol
	}
	for _, m := range c.members {
		out := kmsg.DescribeGroupsResponseGroupMember{
			MemberID: m.id, InstanceID: m.instancePtr(), ClientID: m.clientID, ClientHost: m.clientHost,
			ProtocolMetadata: []byte{}, MemberAssignment: []byte{},
		}
		if stable {
			out.ProtocolMetadata = append(out.ProtocolMetadata, m.metadata(c.protocol)...)
			out.MemberAssignment = append(out.MemberAssignment, m.assignment...)
		}
		d.Members = append(d.Members, out)
	}
	return d
}

// ListGroups lists the groups that the filters let through, by name: versions 0-5, v4 filters by state, v5 by type. Filters
// take no heed of case.
func (s *Shard) ListGroups(now time.Time, req *kmsg.ListGroupsRequest) []kmsg.ListGroupsResponseGroup {
	passes := func(filter []string, is string) bool {
		return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, is) })
	}
	var list []kmsg.ListGroupsResponseGroup
	for _, name := range slices.Sorted(maps.Keys(s.groups)) {
		g := s.groups[name]
		l := kmsg.ListGroupsResponseGroup{Group: name, GroupType: "classic", GroupState: stateEmpty.String()}
		switch {
		case g.classic != nil:
			l.ProtocolType, l.GroupState = g.classic.protocolType, g.classic.state.String()
		case g.consumer != nil:
			l.ProtocolType, l.GroupType, l.GroupState = kmeta.ConsumerProtocolType, "consumer", g.consumer.state().String()
		case g.other != nil:
			l.GroupType = strings.ToLower(g.other.kind)
			l.ProtocolType = l.GroupType
			if len(g.other.members) > 0 {
				l.GroupState = stateStable.String()
			}
		}
		if passes(req.StatesFilter, l.GroupState) && passes(req.TypesFilter, l.GroupType) {
			list = append(list, l)
		}
	}
	return list
}

// DeleteGroup deletes a group that is empty, and its offsets, those of open transactions too.
func (s *Shard) DeleteGroup(_ time.Time, name string, reply func(code int16)) Effect {
	refuse := func(code int16) Effect { return Effect{Then: func(error) { reply(code) }} }
	g := s.groups[name]
	switch {
	case g == nil || g.other != nil:
		return refuse(codeNoGroup)
	case g.classic != nil && g.classic.state != stateEmpty, g.consumer != nil && len(g.consumer.members) > 0:
		return refuse(codeNonEmpty)
	}
	var recs []Record
	add := func(topic string, partition int32, _ *committed) bool {
		recs = append(recs, tombstone(&kmeta.OffsetCommitKey{Group: g.name, Topic: topic, Partition: partition}))
		return true
	}
	g.offsets.each(add)
	for _, p := range g.pending {
		p.each(func(topic string, partition int32, c *committed) bool {
			return g.offsets.has(topic, partition) || add(topic, partition, c)
		})
	}
	count := len(recs)
	recs = g.tombstone(recs)
	return Effect{Records: recs, Then: func(err error) {
		if err == nil {
			s.event(Event{Group: name, Kind: EventDeleted, Cause: "DeleteGroups", Count: count})
		}
		reply(codeOf(err))
	}}
}

// OffsetDelete forgets offsets of topics that no member reads: version 0. A group with members that are no consumers keeps all.
func (s *Shard) OffsetDelete(_ time.Time, req *kmsg.OffsetDeleteRequest, reply func(*kmsg.OffsetDeleteResponse)) Effect {
	resp := &kmsg.OffsetDeleteResponse{}
	refuse := func(code int16) Effect {
		resp.ErrorCode = code
		return Effect{Then: func(error) { reply(resp) }}
	}
	g := s.groups[req.Group]
	switch {
	case g == nil || g.other != nil:
		return refuse(codeNoGroup)
	case g.classic != nil && g.classic.state != stateEmpty && g.classic.protocolType != kmeta.ConsumerProtocolType:
		return refuse(codeNonEmpty)
	}
	image := s.opts.Image()
	var recs []Record
	for _, rt := range req.Topics {
		out := kmsg.OffsetDeleteResponseTopic{Topic: rt.Topic}
		t := image.Topic(rt.Topic)
		reads := g.subscribed(rt.Topic) && !g.empty()
		for _, rp := range rt.Partitions {
			p := kmsg.OffsetDeleteResponseTopicPartition{Partition: rp.Partition}
			switch {
			case t == nil || rp.Partition < 0 || int(rp.Partition) >= len(t.Partitions):
				p.ErrorCode = codeUnknownTopic
			case reads:
				p.ErrorCode = codeSubscribed
			case g.offsets.has(rt.Topic, rp.Partition):
				recs = append(recs, tombstone(&kmeta.OffsetCommitKey{Group: g.name, Topic: rt.Topic, Partition: rp.Partition}))
			}
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	if len(recs) == 0 {
		return refuse(0)
	}
	return Effect{Records: recs, Then: func(err error) {
		if err != nil {
			resp.ErrorCode, resp.Topics = codeOf(err), nil
		}
		reply(resp)
	}}
}

// Reads is whether a client is a member of a group, and has a partition.
func (s *Shard) Reads(name string, client Client, topic string, partition int32) bool {
	g := s.groups[name]
	switch {
	case g == nil:
	case g.classic != nil && g.classic.protocolType == kmeta.ConsumerProtocolType:
		for _, m := range g.classic.members {
			if m.clientID != client.ID || m.clientHost != client.Host {
				continue
			}
			a, _, err := kmeta.ReadAssignment(m.assignment)
			if err == nil && slices.ContainsFunc(a.AssignedPartitions, func(p kmeta.ConsumerTopicPartitions) bool {
				return p.Topic == topic && slices.Contains(p.Partitions, partition)
			}) {
				return true
			}
		}
	case g.consumer != nil:
		t := s.opts.Image().Topic(topic)
		for _, m := range g.consumer.members {
			if t != nil && m.clientID == client.ID && m.clientHost == client.Host && m.assigned.has(t.ID, partition) {
				return true
			}
		}
	}
	return false
}

// Members is how many members the groups have, with those whose join is awaited.
func (s *Shard) Members() (n int) {
	for _, g := range s.groups {
		if g.classic != nil {
			n += len(g.classic.members) + len(g.classic.pendingJoins)
		}
		if g.consumer != nil {
			n += len(g.consumer.members)
		}
	}
	return n
}
