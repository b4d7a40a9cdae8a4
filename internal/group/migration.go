package group

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
)

// A live group changes its protocol when the first member by the consumer protocol comes, and back when the last of them goes, as
// far as group.consumer.migration.policy lets it. In between, members by the classic protocol are members of a consumer group:
// their generation is their member epoch, and each gets its assignment from the coordinator.

func (s *Shard) policy(way string) bool {
	return strings.EqualFold(s.config.MigrationPolicy, "bidirectional") || strings.EqualFold(s.config.MigrationPolicy, way)
}

// upgrade makes a consumer group of a classic one: the records for that, and the group as they make it.
func (c *classicGroup) upgrade(now time.Time) ([]Record, *consumerGroup, bool) {
	s := c.s
	if !s.policy("upgrade") || c.protocolType != kmeta.ConsumerProtocolType || len(c.members) > s.config.ConsumerMaxSize || len(c.members) == 0 {
		return nil, nil, false
	}
	image := s.opts.Image()
	name := c.g.name
	recs := []Record{tombstone(&kmeta.GroupMetadataKey{Group: name})}
	var targets, currents []Record
	for _, m := range c.members {
		said := m.metadata(c.protocol)
		if said == nil {
			said = m.protocols[0].metadata // it joined after the protocol was chosen
		}
		sub, _, err := kmeta.ReadSubscription(said)
		if err != nil {
			return nil, nil, false
		}
		next := &consumerMember{
			id: m.id, instance: m.instance, rack: sub.RackID, clientID: m.clientID, clientHost: m.clientHost, topics: sortedTopics(sub.Topics),
			rebalanceTimeoutMs: int32(m.rebalanceTimeout.Milliseconds()), classic: m.classicMetadata(),
			epoch: c.generation, previous: c.generation, assigned: partitions{}, revoking: partitions{},
		}
		if a, _, err := kmeta.ReadAssignment(m.assignment); err == nil {
			next.assigned = named(image, a.AssignedPartitions, c.generation)
		}
		recs = append(recs, next.record(name))
		targets = append(targets, targetRecord(name, m.id, next.assigned))
		currents = append(currents, next.currentRecord(name))
	}
	recs = append(recs, epochRecord(name, c.generation, 0))
	recs = append(append(recs, targets...), newRecord(&kmeta.ConsumerGroupTargetAssignmentMetadataKey{GroupID: name},
		&kmeta.ConsumerGroupTargetAssignmentMetadataValue{AssignmentEpoch: c.generation}, 0))
	recs = append(recs, currents...)
	scratch := NewShard(Options{Config: s.config, Image: s.opts.Image, OnEvent: s.opts.OnEvent, NewID: s.opts.NewID})
	for _, r := range recs {
		if err := scratch.Replay(&Entry{Record: r}); err != nil {
			return nil, nil, false
		}
	}
	return recs, scratch.groups[name].consumer, true
}

func (m *classicMember) classicMetadata() *kmeta.ClassicMemberMetadata {
	out := &kmeta.ClassicMemberMetadata{SessionTimeoutMs: int32(m.sessionTimeout.Milliseconds())}
	for _, p := range m.protocols {
		out.SupportedProtocols = append(out.SupportedProtocols, kmeta.ClassicProtocol{Name: p.name, Metadata: p.metadata})
	}
	return out
}

func sortedTopics(topics []string) []string {
	topics = slices.Sorted(slices.Values(topics))
	return slices.Compact(topics)
}

// named are partitions by the topics' names; topics that are not there are left out.
func named(image *metadata.Image, in []kmeta.ConsumerTopicPartitions, epoch int32) partitions {
	var g gathered
	for _, tp := range in {
		if t := image.Topic(tp.Topic); t != nil {
			for _, partition := range tp.Partitions {
				g.add(t.ID, partition, epoch)
			}
		}
	}
	return g.partitions()
}

// byName is the reverse of named.
func byName(image *metadata.Image, p partitions) (out []kmeta.ConsumerTopicPartitions) {
	for _, tp := range p {
		if t := image.TopicByID(tp.topic); t != nil {
			out = append(out, kmeta.ConsumerTopicPartitions{Topic: t.Name, Partitions: tp.numbers()})
		}
	}
	return out
}

// mayDowngrade is whether a consumer group turns classic when members go.
func (c *consumerGroup) mayDowngrade(gone map[string]struct{}) bool {
	left := 0
	for id, m := range c.members {
		if _, ok := gone[id]; ok {
			continue
		}
		if m.classic == nil || len(m.classic.SupportedProtocols) == 0 {
			return false
		}
		left++
	}
	return left > 0 && left <= c.s.config.MaxSize && c.s.policy("downgrade")
}

// downgrade makes a classic group of what is left. Its members have the assignments that they had, and join anew. The group's epoch
// becomes its generation as it is: members may still commit what they read before they hear that they must join.
func (c *consumerGroup) downgrade(now time.Time, gone map[string]struct{}, told func(error)) Effect {
	s, name := c.s, c.g.name
	image := s.opts.Image()
	var recs []Record
	v := &kmeta.GroupMetadataValue{ProtocolType: kmeta.ConsumerProtocolType, Generation: c.epoch, CurrentStateTimestamp: now.UnixMilli()}
	protocol := c.commonProtocol(gone)
	v.Protocol = &protocol
	for _, id := range slices.Sorted(maps.Keys(c.members)) {
		recs = append(recs, removal(name, id)...)
		m := c.members[id]
		if _, ok := gone[id]; ok {
			continue
		}
		a := kmeta.ConsumerAssignment{AssignedPartitions: byName(image, m.assigned)}
		to := kmeta.ClassicMember{
			MemberID: id, ClientID: m.clientID, ClientHost: m.clientHost, RebalanceTimeout: m.rebalanceTimeoutMs, SessionTimeout: m.classic.SessionTimeoutMs,
			Assignment: kmeta.AppendAssignment(nil, &a, 1),
		}
		if m.instance != "" {
			to.GroupInstanceID = &m.instance
		}
		for _, p := range m.classic.SupportedProtocols {
			if p.Name == protocol {
				to.Subscription = p.Metadata
			}
		}
		if v.Leader == nil {
			v.Leader = ptr(id)
		}
		v.Members = append(v.Members, to)
	}
	for id := range c.target {
		if c.members[id] == nil {
			recs = append(recs, tombstone(&kmeta.ConsumerGroupTargetAssignmentMemberKey{GroupID: name, MemberID: id}))
		}
	}
	for _, regex := range slices.Sorted(maps.Keys(c.regexes)) {
		recs = append(recs, tombstone(&kmeta.ConsumerGroupRegularExpressionKey{GroupID: name, RegularExpression: regex}))
	}
	recs = append(recs,
		tombstone(&kmeta.ConsumerGroupTargetAssignmentMetadataKey{GroupID: name}),
		tombstone(&kmeta.ConsumerGroupMetadataKey{GroupID: name}),
		newRecord(&kmeta.GroupMetadataKey{Group: name}, v, 3))
	return Effect{Records: recs, Then: func(err error) {
		told(err)
		if g := s.groups[name]; err == nil && g != nil && g.classic != nil {
			g.watch(now)
			s.event(Event{Group: name, Kind: EventMigrated, Cause: "to the classic protocol"})
			if g.classic.state == stateStable {
				g.classic.prepare(now, "the group turned classic") // nobody has joined yet, so nothing completes
			}
		}
	}}
}

// commonProtocol is one that all who are left support, the earliest of the first of them; empty if there is none.
func (c *consumerGroup) commonProtocol(gone map[string]struct{}) string {
	counts, n := map[string]int{}, 0
	var first []kmeta.ClassicProtocol
	for _, id := range slices.Sorted(maps.Keys(c.members)) {
		m := c.members[id]
		if _, ok := gone[id]; ok || m.classic == nil {
			continue
		}
		if n++; first == nil {
			first = m.classic.SupportedProtocols
		}
		for _, p := range m.classic.SupportedProtocols {
			counts[p.Name]++
		}
	}
	for _, p := range first {
		if counts[p.Name] == n {
			return p.Name
		}
	}
	return ""
}

// classicMember finds a member by the classic protocol.
func (c *consumerGroup) classicMember(id string, instance *string) (*consumerMember, int16) {
	if instance != nil {
		switch holder := c.members[c.static[*instance]]; {
		case holder == nil:
			return nil, codeUnknownMember
		case holder.id != id:
			return nil, codeFencedInstance
		}
	}
	m := c.members[id]
	if m == nil || m.classic == nil {
		return nil, codeUnknownMember
	}
	return m, 0
}

// mustRejoin is whether a member by the classic protocol has to come for a new generation.
func (c *consumerGroup) mustRejoin(m *consumerMember) bool {
	return m.epoch < c.epoch || m.state == memberUnrevoked || m.state == memberUnreleased && !c.waits(m)
}

// waits is whether another member still has something of m's target.
func (c *consumerGroup) waits(m *consumerMember) (waits bool) {
	c.target[m.id].each(func(topic kmeta.UUID, partition, _ int32) bool {
		owner := c.owners[topic][partition]
		waits = owner != "" && owner != m.id
		return !waits
	})
	return waits
}

func (c *consumerGroup) classicHeartbeat(now time.Time, req *kmsg.HeartbeatRequest) int16 {
	m, code := c.classicMember(req.MemberID, req.InstanceID)
	switch {
	case code != 0:
		return code
	case req.Generation != m.epoch:
		return codeIllegalGeneration
	}
	c.heard(now, m)
	if c.mustRejoin(m) {
		return codeRebalance
	}
	return 0
}

// classicJoin is a heartbeat by another name: it says what the member reads and owns, and is answered at once.
func (c *consumerGroup) classicJoin(now time.Time, client Client, req *kmsg.JoinGroupRequest, reply func(*kmsg.JoinGroupResponse)) Effect {
	s := c.s
	refuse := func(code int16, id string) Effect {
		resp := forVersion(&kmsg.JoinGroupResponse{ErrorCode: code, Generation: -1, MemberID: id}, req.Version)
		return Effect{Then: func(error) { reply(resp) }}
	}
	switch {
	case len(c.members) > 0:
	case req.MemberID != "":
		return refuse(codeUnknownMember, req.MemberID)
	case req.ProtocolType == "" || len(req.Protocols) == 0:
		return refuse(codeInconsistentProtocol, "")
	default:
		return c.becomeClassic(now, client, req, reply)
	}
	if req.ProtocolType != kmeta.ConsumerProtocolType || len(req.Protocols) == 0 {
		return refuse(codeInconsistentProtocol, req.MemberID)
	}
	sub, _, err := kmeta.ReadSubscription(req.Protocols[0].Metadata)
	if err != nil {
		return refuse(codeInconsistentProtocol, req.MemberID)
	}
	id := req.MemberID
	var old *consumerMember
	d := &draft{
		c: c, now: now, epoch: c.epoch, hash: c.metadataHash, target: c.target, targetAt: c.assignmentEpoch, regexes: map[string][]string{},
		reported: true, owned: named(s.opts.Image(), sub.OwnedPartitions, 0),
	}
	switch {
	case id == "" && req.InstanceID == nil && req.Version >= 4:
		return refuse(codeMemberIDRequired, client.ID+"-"+javaUUID(s.opts.NewID()))
	case id == "" && req.InstanceID != nil:
		id = *req.InstanceID + "-" + javaUUID(s.opts.NewID())
		if old = c.members[c.static[*req.InstanceID]]; old != nil {
			d.replaced = old.id
		}
	case id == "":
		id = client.ID + "-" + javaUUID(s.opts.NewID())
	case req.InstanceID != nil:
		if holder := c.static[*req.InstanceID]; holder != id {
			if holder == "" {
				return refuse(codeUnknownMember, id)
			}
			return refuse(codeFencedInstance, id)
		}
		old = c.members[id]
	default:
		old = c.members[id]
	}
	if old == nil {
		if len(c.members) >= s.config.ConsumerMaxSize {
			return refuse(codeGroupFull, req.MemberID)
		}
		old, d.isNew = &consumerMember{assigned: partitions{}, revoking: partitions{}}, true
	}
	d.was = *old
	next := *old
	d.m = &next
	next.id, next.session, next.revocation = strings.Clone(id), nil, nil
	next.clientID, next.clientHost = strings.Clone(client.ID), strings.Clone(client.Host)
	if req.InstanceID != nil {
		next.instance = strings.Clone(*req.InstanceID)
	}
	next.rack, next.topics, next.regex = sub.RackID, sortedTopics(sub.Topics), ""
	next.rebalanceTimeoutMs = req.RebalanceTimeoutMillis
	if req.Version < 1 {
		next.rebalanceTimeoutMs = req.SessionTimeoutMillis
	}
	next.classic = &kmeta.ClassicMemberMetadata{SessionTimeoutMs: req.SessionTimeoutMillis}
	for _, p := range req.Protocols {
		next.classic.SupportedProtocols = append(next.classic.SupportedProtocols, kmeta.ClassicProtocol{Name: strings.Clone(p.Name), Metadata: bytes.Clone(p.Metadata)})
	}
	if d.replaced != "" {
		next.epoch, next.previous = 0, 0
	}
	d.was.classic = next.classic // so that subscribe writes the member: what it owns is part of it
	d.was.clientID = ""
	d.subscribe()
	d.bump()
	d.assign()
	d.reconcile(nil)
	m := d.m
	resp := forVersion(&kmsg.JoinGroupResponse{
		Generation: m.epoch, ProtocolType: ptr(kmeta.ConsumerProtocolType), Protocol: ptr(m.classic.SupportedProtocols[0].Name),
		MemberID: m.id, Members: []kmsg.JoinGroupResponseMember{},
	}, req.Version)
	return Effect{Records: d.recs, Then: func(err error) {
		if err != nil {
			resp = forVersion(&kmsg.JoinGroupResponse{ErrorCode: codeOf(err), Generation: -1, MemberID: m.id}, resp.Version)
		} else if live := c.members[m.id]; live != nil && c.lives() {
			c.heard(now, live)
			c.watchRevocation(now, live)
			d.tell()
		}
		reply(resp)
	}}
}

// becomeClassic turns an empty consumer group into a classic one, whose first member joins.
func (c *consumerGroup) becomeClassic(now time.Time, client Client, req *kmsg.JoinGroupRequest, reply func(*kmsg.JoinGroupResponse)) Effect {
	s, name := c.s, c.g.name
	version, id := req.Version, req.MemberID
	recs := append(c.tombstones(nil), emptyRecord(name, now))
	return Effect{Records: recs, Then: func(err error) {
		g := s.groups[name]
		if err != nil || g == nil || g.classic == nil {
			code := codeOf(err)
			if code == 0 {
				code = codeUnknownMember
			}
			reply(forVersion(&kmsg.JoinGroupResponse{ErrorCode: code, Generation: -1, MemberID: id}, version))
			return
		}
		g.watch(now)
		s.event(Event{Group: name, Kind: EventMigrated, Cause: "to the classic protocol"})
		if e := g.classic.joinGroup(now, client, req, reply); e.Then != nil {
			e.Then(nil) // as for a new group
		}
	}}
}

func (c *consumerGroup) classicSync(now time.Time, req *kmsg.SyncGroupRequest, send func(*kmsg.SyncGroupResponse)) Effect {
	resp := &kmsg.SyncGroupResponse{MemberAssignment: []byte{}}
	m, code := c.classicMember(req.MemberID, req.InstanceID)
	switch {
	case code != 0:
		resp.ErrorCode = code
	case req.Generation != m.epoch:
		resp.ErrorCode = codeIllegalGeneration
	case req.ProtocolType != nil && *req.ProtocolType != kmeta.ConsumerProtocolType, req.Protocol != nil && *req.Protocol != m.classic.SupportedProtocols[0].Name:
		resp.ErrorCode = codeInconsistentProtocol
	default:
		c.heard(now, m)
		_, version, err := kmeta.ReadSubscription(m.classic.SupportedProtocols[0].Metadata)
		if err != nil {
			version = 0
		}
		a := kmeta.ConsumerAssignment{AssignedPartitions: byName(c.s.opts.Image(), m.assigned)}
		resp.ProtocolType, resp.Protocol = ptr(kmeta.ConsumerProtocolType), ptr(m.classic.SupportedProtocols[0].Name)
		resp.MemberAssignment = kmeta.AppendAssignment(nil, &a, version)
	}
	return Effect{Then: func(error) { send(resp) }}
}

func (c *consumerGroup) classicLeave(now time.Time, req *kmsg.LeaveGroupRequest, resp *kmsg.LeaveGroupResponse) Effect {
	var going []*consumerMember
	for _, l := range leavers(req) {
		id := l.MemberID
		if id == "" && l.InstanceID != nil {
			id = c.static[*l.InstanceID]
		}
		m, code := c.classicMember(id, l.InstanceID)
		if code == 0 && !slices.Contains(going, m) {
			going = append(going, m)
		}
		if req.Version < 3 {
			resp.ErrorCode = code
			continue
		}
		resp.Members = append(resp.Members, kmsg.LeaveGroupResponseMember{MemberID: l.MemberID, InstanceID: l.InstanceID, ErrorCode: code})
	}
	if len(going) == 0 {
		return Effect{}
	}
	return c.remove(now, going, EventLeft, "")
}
