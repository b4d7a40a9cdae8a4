package group

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
)

// A consumerGroup is a group that the coordinator assigns for (KIP-848). What is said here is durable, but for what is marked. keeps I1
type consumerGroup struct {
	g *group
	s *Shard

	epoch        int32 // raised when subscriptions or their topics change
	metadataHash int64
	members      map[string]*consumerMember
	regexes      map[string][]string // topics by regular expression, as resolved last

	assignmentEpoch int32 // the group epoch that target was made for
	assignedMs      int64
	target          map[string]partitions // by member id

	// static and owners are found in members: ids by instance, and who has a partition, or has yet to give it up.
	static map[string]string
	owners map[kmeta.UUID]map[int32]string

	dirty     bool      // soft: the image changed since topics were looked at
	refreshAt time.Time // soft: when regular expressions are resolved anew
}

// Member states, as the log has them.
const (
	memberStable     int8 = 0
	memberUnrevoked  int8 = 1 // it has partitions to give up
	memberUnreleased int8 = 2 // it waits for partitions that others have
)

// Epochs with a meaning.
const (
	leaveEpoch       = -1
	staticLeaveEpoch = -2
	// newGroupEpoch is before the first record: Kafka's first group epoch is 2.
	newGroupEpoch = 1
)

// A consumerMember is one member. All but its timers is durable, and replaced as a whole rather than changed.
type consumerMember struct {
	id, instance         string
	rack                 *string
	clientID, clientHost string
	topics               []string
	regex                string
	rebalanceTimeoutMs   int32
	assignor             *string
	classic              *kmeta.ClassicMemberMetadata

	epoch, previous   int32
	state             int8
	assigned          partitions
	revoking          partitions
	described, placed bool // the log has its metadata, its current assignment

	session, revocation *timer // soft
}

func newConsumerGroup(g *group) *consumerGroup {
	return &consumerGroup{
		g: g, s: g.s, epoch: newGroupEpoch, members: map[string]*consumerMember{}, regexes: map[string][]string{},
		target: map[string]partitions{}, static: map[string]string{}, owners: map[kmeta.UUID]map[int32]string{}, dirty: true,
	}
}

// replayConsumer is Replay for the records of consumer groups.
func (s *Shard) replayConsumer(key kmeta.Key, value kmeta.Value) {
	group := func(name string) *consumerGroup {
		g := s.groups[name]
		if value != nil && (g == nil || g.consumer == nil) {
			g = s.groupOf(name)
			g.consumer = newConsumerGroup(g)
		}
		if g == nil {
			return nil
		}
		return g.consumer
	}
	switch k := key.(type) {
	case *kmeta.ConsumerGroupMetadataKey:
		c := group(k.GroupID)
		if c == nil {
			return
		}
		if v, ok := value.(*kmeta.ConsumerGroupMetadataValue); ok {
			c.epoch, c.metadataHash = v.Epoch, v.MetadataHash
			return
		}
		c.stop()
		c.g.consumer = nil
		c.g.keepOrForget()
	case *kmeta.ConsumerGroupMemberMetadataKey:
		if c := group(k.GroupID); c != nil {
			v, _ := value.(*kmeta.ConsumerGroupMemberMetadataValue)
			c.replayMember(k.MemberID, v)
		}
	case *kmeta.ConsumerGroupTargetAssignmentMetadataKey:
		if c := group(k.GroupID); c != nil {
			c.assignmentEpoch, c.assignedMs = 0, 0
			if v, ok := value.(*kmeta.ConsumerGroupTargetAssignmentMetadataValue); ok {
				c.assignmentEpoch, c.assignedMs = v.AssignmentEpoch, v.AssignmentTimestamp
			}
		}
	case *kmeta.ConsumerGroupTargetAssignmentMemberKey:
		if c := group(k.GroupID); c != nil {
			if v, ok := value.(*kmeta.ConsumerGroupTargetAssignmentMemberValue); ok {
				id := k.MemberID
				if m := c.members[id]; m != nil {
					id = m.id // which is there already
				}
				c.target[id] = targetOf(v.TopicPartitions)
			} else {
				delete(c.target, k.MemberID)
			}
		}
	case *kmeta.ConsumerGroupCurrentMemberAssignmentKey:
		if c := group(k.GroupID); c != nil {
			v, _ := value.(*kmeta.ConsumerGroupCurrentMemberAssignmentValue)
			c.replayCurrent(k.MemberID, v)
		}
	case *kmeta.ConsumerGroupRegularExpressionKey:
		if c := group(k.GroupID); c != nil {
			if v, ok := value.(*kmeta.ConsumerGroupRegularExpressionValue); ok {
				c.regexes[k.RegularExpression] = v.Topics
			} else {
				delete(c.regexes, k.RegularExpression)
			}
		}
	}
}

func (c *consumerGroup) memberOf(id string) *consumerMember {
	m := c.members[id]
	if m == nil {
		m = &consumerMember{id: id, assigned: partitions{}, revoking: partitions{}}
		c.members[id] = m
	}
	return m
}

func (c *consumerGroup) replayMember(id string, v *kmeta.ConsumerGroupMemberMetadataValue) {
	if v == nil {
		if m := c.members[id]; m != nil {
			m.described = false
			c.keepMember(m)
		}
		return
	}
	m := c.memberOf(id)
	if m.instance != "" && c.static[m.instance] == id {
		delete(c.static, m.instance)
	}
	m.described = true
	c.share(v)
	m.instance, m.rack, m.clientID, m.clientHost = text(v.InstanceID), v.RackID, v.ClientID, v.ClientHost
	m.topics, m.regex, m.rebalanceTimeoutMs, m.assignor, m.classic = v.SubscribedTopicNames, text(v.SubscribedTopicRegex), v.RebalanceTimeoutMs, v.ServerAssignor, v.ClassicMemberMetadata
	if m.instance != "" {
		c.static[m.instance] = id
	}
}

// share makes what a member says the same memory as what the one before it in the log said, if it is the same.
func (c *consumerGroup) share(v *kmeta.ConsumerGroupMemberMetadataValue) {
	last := &c.s.lastMember
	if last.ClientID == v.ClientID {
		v.ClientID = last.ClientID
	}
	if last.ClientHost == v.ClientHost {
		v.ClientHost = last.ClientHost
	}
	if slices.Equal(last.SubscribedTopicNames, v.SubscribedTopicNames) {
		v.SubscribedTopicNames = last.SubscribedTopicNames
	}
	*last = kmeta.ConsumerGroupMemberMetadataValue{ClientID: v.ClientID, ClientHost: v.ClientHost, SubscribedTopicNames: v.SubscribedTopicNames}
}

func (c *consumerGroup) replayCurrent(id string, v *kmeta.ConsumerGroupCurrentMemberAssignmentValue) {
	m := c.members[id]
	if v == nil && m == nil {
		return
	}
	if m == nil {
		m = c.memberOf(id)
	}
	c.disown(m)
	if v == nil {
		m.epoch, m.previous, m.state, m.assigned, m.revoking, m.placed = 0, 0, memberStable, partitions{}, partitions{}, false
		c.keepMember(m)
		return
	}
	m.placed = true
	m.epoch, m.previous, m.state = v.MemberEpoch, v.PreviousMemberEpoch, v.State
	m.assigned, m.revoking = ownedOf(v.AssignedPartitions, v.MemberEpoch), ownedOf(v.PartitionsPendingRevocation, v.MemberEpoch)
	for _, p := range []partitions{m.assigned, m.revoking} {
		for _, t := range p {
			if c.owners[t.topic] == nil {
				c.owners[t.topic] = map[int32]string{}
			}
			for _, e := range t.parts {
				c.owners[t.topic][e.partition] = m.id
			}
		}
	}
}

func (c *consumerGroup) disown(m *consumerMember) {
	for _, p := range []partitions{m.assigned, m.revoking} {
		for _, t := range p {
			for _, e := range t.parts {
				if c.owners[t.topic][e.partition] == m.id {
					delete(c.owners[t.topic], e.partition)
				}
			}
			if len(c.owners[t.topic]) == 0 {
				delete(c.owners, t.topic)
			}
		}
	}
}

// keepMember takes a member out of which the log has nothing any more.
func (c *consumerGroup) keepMember(m *consumerMember) {
	if m.described || m.placed {
		return
	}
	c.s.stopAll(m.session, m.revocation)
	if m.instance != "" && c.static[m.instance] == m.id {
		delete(c.static, m.instance)
	}
	delete(c.members, m.id)
}

func (s *Shard) stopAll(timers ...*timer) {
	for _, t := range timers {
		if t != nil {
			s.stop(t)
		}
	}
}

func (c *consumerGroup) stop() {
	for _, m := range c.members {
		c.s.stopAll(m.session, m.revocation)
	}
}

// lives is whether the group still is what its id stands for.
func (c *consumerGroup) lives() bool {
	g := c.s.groups[c.g.name]
	return g != nil && g.consumer == c
}

// loaded begins the members' sessions.
func (c *consumerGroup) loaded(now time.Time) {
	c.refreshAt = now.Add(c.s.config.RegexRefreshInterval)
	for _, m := range c.members {
		c.heard(now, m)
		c.watchRevocation(now, m)
	}
}

// heard is a member's sign of life.
func (c *consumerGroup) heard(now time.Time, m *consumerMember) {
	if m.session == nil {
		id := m.id
		m.session = &timer{fire: func(now time.Time) Effect { return c.fence(now, id, "session timeout") }}
	}
	timeout := c.s.sessionTimeout(c.g.name)
	if m.classic != nil {
		timeout = time.Duration(m.classic.SessionTimeoutMs) * time.Millisecond
	}
	c.s.arm(m.session, now.Add(timeout))
}

// watchRevocation bounds how long a member takes to give partitions up.
func (c *consumerGroup) watchRevocation(now time.Time, m *consumerMember) {
	if m.state != memberUnrevoked {
		c.s.stopAll(m.revocation)
		return
	}
	if m.revocation == nil {
		id := m.id
		m.revocation = &timer{fire: func(now time.Time) Effect { return c.fence(now, id, "rebalance timeout: partitions were not given up") }}
	}
	if m.revocation.index == 0 {
		c.s.arm(m.revocation, now.Add(time.Duration(m.rebalanceTimeoutMs)*time.Millisecond))
	}
}

func (c *consumerGroup) onImage(_ time.Time, d *metadata.Delta) {
	c.dirty = c.dirty || len(d.Created)+len(d.Deleted)+len(d.Changed) > 0
}

// state is the group's, as it is shown.
func (c *consumerGroup) state() consumerState {
	switch {
	case len(c.members) == 0:
		return "Empty"
	case c.epoch > c.assignmentEpoch:
		return "Assigning"
	}
	for _, m := range c.members {
		if m.state != memberStable || m.epoch != c.assignmentEpoch {
			return "Reconciling"
		}
	}
	return "Stable"
}

type consumerState string

func (s consumerState) String() string { return string(s) }

// subscribed is whether a member reads a topic.
func (c *consumerGroup) subscribed(topic string) bool {
	for _, m := range c.members {
		if slices.Contains(m.topics, topic) || m.regex != "" && slices.Contains(c.regexes[m.regex], topic) {
			return true
		}
	}
	return false
}

// tombstones are the records that end an empty group.
func (c *consumerGroup) tombstones(recs []Record) []Record {
	for _, id := range slices.Sorted(maps.Keys(c.target)) {
		recs = append(recs, tombstone(&kmeta.ConsumerGroupTargetAssignmentMemberKey{GroupID: c.g.name, MemberID: id}))
	}
	for _, regex := range slices.Sorted(maps.Keys(c.regexes)) {
		recs = append(recs, tombstone(&kmeta.ConsumerGroupRegularExpressionKey{GroupID: c.g.name, RegularExpression: regex}))
	}
	return append(recs,
		tombstone(&kmeta.ConsumerGroupTargetAssignmentMetadataKey{GroupID: c.g.name}),
		tombstone(&kmeta.ConsumerGroupPartitionMetadataKey{GroupID: c.g.name}),
		tombstone(&kmeta.ConsumerGroupMetadataKey{GroupID: c.g.name}))
}

// ownedSince is the epoch at which the member got a partition.
func (m *consumerMember) ownedSince(topic kmeta.UUID, partition int32) (int32, bool) {
	return m.assigned.since(topic, partition)
}

func (c *consumerGroup) mayCommit(id string, epoch int32, _ bool, version int16) permission {
	if epoch < 0 && len(c.members) == 0 {
		return permission{}
	}
	m := c.members[id]
	stale := codeStaleEpoch
	switch {
	case m == nil:
		return permission{all: codeUnknownMember}
	case m.classic == nil && version < 9:
		return permission{all: codeUnsupportedVersion}
	case m.classic != nil:
		stale = codeIllegalGeneration
	}
	switch {
	case epoch == m.epoch:
		return permission{}
	case epoch > m.epoch || epoch < 0:
		return permission{all: stale}
	}
	return permission{member: m, epoch: epoch, stale: stale}
}

func (c *consumerGroup) mayFetch(id string, epoch int32) int16 {
	if epoch < 0 && id == "" {
		return 0
	}
	switch m := c.members[id]; {
	case m == nil:
		return codeUnknownMember
	case epoch != m.epoch:
		return codeStaleEpoch
	}
	return 0
}

// ConsumerGroupDescribe describes a consumer group: versions 0-1, v1 tells which protocol a member speaks. AuthorizedOperations
// are the caller's to fill in.
func (s *Shard) ConsumerGroupDescribe(_ time.Time, name string) kmsg.ConsumerGroupDescribeResponseGroup {
	d := kmsg.ConsumerGroupDescribeResponseGroup{Group: name, Members: []kmsg.ConsumerGroupDescribeResponseGroupMember{}, AuthorizedOperations: -1 << 31}
	if name == "" {
		d.ErrorCode = codeInvalidGroup
		return d
	}
	g := s.groups[name]
	if g == nil || g.consumer == nil {
		d.ErrorCode, d.ErrorMessage = codeNoGroup, ptr(fmt.Sprintf("Group %s not found.", name))
		if g != nil {
			d.ErrorMessage = ptr(fmt.Sprintf("Group %s is not a consumer group.", name))
		}
		return d
	}
	c := g.consumer
	image := s.opts.Image()
	d.State, d.Epoch, d.AssignmentEpoch, d.AssignorName = c.state().String(), c.epoch, c.assignmentEpoch, c.assignor(nil)
	for _, id := range slices.Sorted(maps.Keys(c.members)) {
		m := c.members[id]
		out := kmsg.ConsumerGroupDescribeResponseGroupMember{
			MemberID: m.id, RackID: m.rack, MemberEpoch: m.epoch, ClientID: m.clientID, ClientHost: m.clientHost,
			SubscribedTopics: append([]string{}, m.topics...), Assignment: describe(image, m.assigned), TargetAssignment: describe(image, c.target[id]), MemberType: 1,
		}
		if m.instance != "" {
			out.InstanceID = ptr(m.instance)
		}
		if m.regex != "" {
			out.SubscribedTopicRegex = ptr(m.regex)
		}
		if m.classic != nil {
			out.MemberType = 0
		}
		d.Members = append(d.Members, out)
	}
	return d
}

func describe(image *metadata.Image, p partitions) kmsg.Assignment {
	a := kmsg.Assignment{TopicPartitions: []kmsg.AssignmentTopicPartition{}}
	for _, tp := range p {
		if t := image.TopicByID(tp.topic); t != nil {
			a.TopicPartitions = append(a.TopicPartitions, kmsg.AssignmentTopicPartition{TopicID: tp.topic, Topic: t.Name, Partitions: tp.numbers()})
		}
	}
	return a
}
