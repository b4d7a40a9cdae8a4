package group

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
)

// ConsumerGroupHeartbeat is how a member of a consumer group joins, lives and leaves: versions 0-1, v1 has the member choose its
// id and adds regular expressions, which are RE2 and must match a topic's whole name. The answer is never held.
func (s *Shard) ConsumerGroupHeartbeat(now time.Time, client Client, req *kmsg.ConsumerGroupHeartbeatRequest, reply func(*kmsg.ConsumerGroupHeartbeatResponse)) Effect {
	refuse := func(code int16, format string, args ...any) Effect {
		resp := &kmsg.ConsumerGroupHeartbeatResponse{Version: req.Version, ErrorCode: code}
		if format != "" {
			resp.ErrorMessage = ptr(fmt.Sprintf(format, args...))
		}
		return Effect{Then: func(error) { reply(resp) }}
	}
	if !s.config.ConsumerProtocol {
		return refuse(codeUnsupportedVersion, "")
	}
	if code, message := s.checkHeartbeat(req); code != 0 {
		return refuse(code, "%s", message)
	}
	g := s.groups[req.Group]
	if req.MemberEpoch < 0 {
		if g == nil || g.consumer == nil {
			return refuse(codeNoGroup, "Group %s not found.", req.Group)
		}
		return g.consumer.leave(now, req, reply)
	}
	var before []Record // what must go before the group can be one of consumers
	var c *consumerGroup
	switch {
	case g != nil && g.consumer != nil:
		c = g.consumer
	case g != nil && g.other != nil:
		return refuse(codeNoGroup, "Group %s is not a consumer group.", req.Group)
	case req.MemberEpoch != 0:
		return refuse(codeNoGroup, "Group %s not found.", req.Group)
	case g != nil && g.classic != nil && g.classic.state != stateEmpty:
		var ok bool
		if before, c, ok = g.classic.upgrade(now); !ok {
			return refuse(codeNoGroup, "Group %s is not a consumer group.", req.Group)
		}
	default:
		c = newConsumerGroup(&group{s: s, name: strings.Clone(req.Group)})
		if g != nil && g.inLog {
			before = []Record{tombstone(&kmeta.GroupMetadataKey{Group: g.name})}
		}
	}
	d, code, message := c.admit(now, client, req)
	if code != 0 {
		return refuse(code, "%s", message)
	}
	d.recs = before
	d.subscribe()
	d.bump()
	d.assign()
	d.reconcile(req)
	m, image := d.m, s.opts.Image()
	resp := &kmsg.ConsumerGroupHeartbeatResponse{
		Version: req.Version, MemberID: &m.id, MemberEpoch: m.epoch,
		HeartbeatIntervalMillis: int32(s.heartbeatInterval(c.g.name).Milliseconds()),
	}
	if req.MemberEpoch == 0 || full(req) || !m.assigned.same(d.was.assigned) {
		resp.Assignment = m.assigned.response()
	}
	return Effect{Records: d.recs, Then: func(err error) {
		if err != nil {
			reply(&kmsg.ConsumerGroupHeartbeatResponse{Version: resp.Version, ErrorCode: codeOf(err)})
			return
		}
		if g := s.groups[c.g.name]; g != nil && g.consumer != nil {
			g.watch(now)
			if s.opts.Image() == image {
				g.consumer.dirty = false
			}
			if !now.Before(g.consumer.refreshAt) {
				g.consumer.refreshAt = now.Add(s.config.RegexRefreshInterval)
			}
			if len(before) > 0 {
				s.event(Event{Group: g.name, Kind: EventMigrated, Cause: "to the consumer protocol"})
				g.consumer.loaded(now)
			}
			if live := g.consumer.members[m.id]; live != nil {
				g.consumer.heard(now, live)
				g.consumer.watchRevocation(now, live)
			}
		}
		d.tell()
		reply(resp)
	}}
}

func full(req *kmsg.ConsumerGroupHeartbeatRequest) bool {
	return req.RebalanceTimeoutMillis != -1 && (req.SubscribedTopicNames != nil || req.SubscribedTopicRegex != nil) && req.Topics != nil
}

func (s *Shard) checkHeartbeat(req *kmsg.ConsumerGroupHeartbeatRequest) (int16, string) {
	blank := func(s *string) bool { return s != nil && strings.TrimSpace(*s) == "" }
	switch {
	case strings.TrimSpace(req.Group) == "":
		return codeInvalidRequest, "GroupId can't be empty."
	case len(req.Group) > maxName || len(req.MemberID) > maxName || len(text(req.InstanceID)) > maxName || len(text(req.SubscribedTopicRegex)) > maxName:
		return codeInvalidRequest, fmt.Sprintf("GroupId, MemberId, InstanceId and SubscribedTopicRegex can't be longer than %d bytes.", maxName)
	case blank(req.InstanceID):
		return codeInvalidRequest, "InstanceId can't be empty."
	case blank(req.RackID):
		return codeInvalidRequest, "RackId can't be empty."
	case (req.Version >= 1 || req.MemberEpoch != 0) && strings.TrimSpace(req.MemberID) == "":
		return codeInvalidRequest, "MemberId can't be empty."
	case req.MemberEpoch == 0 && req.RebalanceTimeoutMillis == -1:
		return codeInvalidRequest, "RebalanceTimeoutMs must be provided in first request."
	case req.MemberEpoch == 0 && (req.Topics == nil || len(req.Topics) > 0):
		return codeInvalidRequest, "TopicPartitions must be empty when (re-)joining."
	case req.MemberEpoch == 0 && req.SubscribedTopicNames == nil && (req.SubscribedTopicRegex == nil || *req.SubscribedTopicRegex == ""):
		return codeInvalidRequest, "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
	case req.MemberEpoch == staticLeaveEpoch && req.InstanceID == nil:
		return codeInvalidRequest, "InstanceId can't be null."
	case req.MemberEpoch < staticLeaveEpoch:
		return codeInvalidRequest, fmt.Sprintf("MemberEpoch is %d, but must be greater than or equal to -2.", req.MemberEpoch)
	case req.ServerAssignor != nil && !slices.Contains(s.config.ConsumerAssignors, *req.ServerAssignor):
		return codeUnsupportedAssignor, fmt.Sprintf("ServerAssignor %s is not supported. Supported assignors: %s.", *req.ServerAssignor, strings.Join(s.config.ConsumerAssignors, ", "))
	}
	if r := text(req.SubscribedTopicRegex); r != "" {
		if _, err := compileRegex(r); err != nil {
			return codeInvalidRegex, fmt.Sprintf("SubscribedTopicRegex `%s` is not a valid regular expression: %v.", r, err)
		}
	}
	return 0, ""
}

func compileRegex(r string) (*regexp.Regexp, error) { return regexp.Compile(`\A(?:` + r + `)\z`) }

// groupConfig is a group's own value of a time, within the broker's bounds.
func (s *Shard) groupConfig(group, key string, broker, low, high time.Duration) time.Duration {
	v, ok := s.opts.Image().Config(metadata.GroupResource, group, key)
	if !ok {
		return broker
	}
	ms, err := strconv.ParseInt(v, 10, 32)
	if err != nil {
		return broker
	}
	return min(max(time.Duration(ms)*time.Millisecond, low), high)
}

func (s *Shard) sessionTimeout(group string) time.Duration {
	c := &s.config
	return s.groupConfig(group, "consumer.session.timeout.ms", c.ConsumerSessionTimeout, c.ConsumerMinSessionTimeout, c.ConsumerMaxSessionTimeout)
}

func (s *Shard) heartbeatInterval(group string) time.Duration {
	c := &s.config
	return s.groupConfig(group, "consumer.heartbeat.interval.ms", c.ConsumerHeartbeatInterval, c.ConsumerMinHeartbeatInterval, c.ConsumerMaxHeartbeatInterval)
}

func (s *Shard) assignmentInterval(group string) time.Duration {
	c := &s.config
	return s.groupConfig(group, "consumer.assignment.interval.ms", c.ConsumerAssignmentInterval, c.ConsumerMinAssignmentInterval, c.ConsumerMaxAssignmentInterval)
}

// A draft is what a heartbeat makes of a group: the group itself does not change before replay.
type draft struct {
	c    *consumerGroup
	now  time.Time
	recs []Record

	was      consumerMember  // as the member was; of a new one, nothing
	m        *consumerMember // as it will be; nil: members go
	gone     map[string]struct{}
	isNew    bool
	replaced string // id of the static member that it takes the place of
	reported bool   // the request says what the member owns:
	owned    partitions

	regexes  map[string][]string // those that change; nil topics: nobody uses it any more
	epoch    int32
	hash     int64
	bumped   string // why
	target   map[string]partitions
	targetAt int32
}

// admit finds the member that a heartbeat is of, or lets a new one in. Nothing is changed.
func (c *consumerGroup) admit(now time.Time, client Client, req *kmsg.ConsumerGroupHeartbeatRequest) (*draft, int16, string) {
	d := &draft{
		c: c, now: now, epoch: c.epoch, hash: c.metadataHash, target: c.target, targetAt: c.assignmentEpoch, regexes: map[string][]string{},
		reported: req.Topics != nil, owned: requested(req.Topics),
	}
	id := req.MemberID
	m := c.members[id]
	joins := req.MemberEpoch == 0
	if req.InstanceID != nil {
		holder := c.members[c.static[*req.InstanceID]]
		switch {
		case holder == nil && !joins:
			return nil, codeUnknownMember, fmt.Sprintf("Instance id %s is unknown.", *req.InstanceID)
		case holder == nil:
			m = nil
		case holder.id == id:
			m = holder
		case !joins:
			return nil, codeFencedInstance, fmt.Sprintf("Static member %s with instance id %s was fenced.", id, *req.InstanceID)
		case holder.epoch != staticLeaveEpoch:
			return nil, codeUnreleasedInstance, fmt.Sprintf("Static member %s with instance id %s cannot join the group because the instance id is owned by another member.", id, *req.InstanceID)
		default:
			d.replaced = holder.id
			m = holder
		}
	}
	switch {
	case m == nil && !joins:
		return nil, codeUnknownMember, fmt.Sprintf("Member %s is not a member of group %s.", id, c.g.name)
	case m == nil && len(c.members) >= c.s.config.ConsumerMaxSize:
		return nil, codeGroupFull, fmt.Sprintf("The consumer group has reached its maximum capacity of %d members.", c.s.config.ConsumerMaxSize)
	case m == nil:
		if id == "" {
			id = c.s.opts.NewID().String()
		}
		m = &consumerMember{assigned: partitions{}, revoking: partitions{}, rebalanceTimeoutMs: -1}
		d.isNew = true
	case !joins:
		if req.MemberEpoch > m.epoch {
			return nil, codeFencedEpoch, fmt.Sprintf("The consumer group member has a greater member epoch (%d) than the one known by the group coordinator (%d). The member must abandon all its partitions and rejoin.", req.MemberEpoch, m.epoch)
		}
		// An answer may have been lost: then the member comes with the epoch before.
		if req.MemberEpoch < m.epoch && (req.MemberEpoch != m.previous || !d.reported || !d.owned.within(m.assigned)) {
			return nil, codeFencedEpoch, fmt.Sprintf("The consumer group member has a smaller member epoch (%d) than the one known by the group coordinator (%d). The member must abandon all its partitions and rejoin.", req.MemberEpoch, m.epoch)
		}
	}
	d.was = *m
	next := *m
	d.m = &next
	next.id = strings.Clone(id)
	next.session, next.revocation = nil, nil
	if d.replaced != "" {
		next.epoch, next.previous = 0, 0
	} else if joins && !d.isNew && m.epoch == staticLeaveEpoch {
		next.epoch, next.previous = 0, 0
	}
	next.take(client, req)
	return d, 0, ""
}

// take makes a member what its heartbeat says; what is null stays. keeps I6
func (m *consumerMember) take(client Client, req *kmsg.ConsumerGroupHeartbeatRequest) {
	m.clientID, m.clientHost = strings.Clone(client.ID), strings.Clone(client.Host)
	if req.InstanceID != nil {
		m.instance = strings.Clone(*req.InstanceID)
	}
	if req.RackID != nil {
		m.rack = ptr(strings.Clone(*req.RackID))
	}
	if req.RebalanceTimeoutMillis != -1 {
		m.rebalanceTimeoutMs = req.RebalanceTimeoutMillis
	}
	if req.ServerAssignor != nil {
		m.assignor = ptr(strings.Clone(*req.ServerAssignor))
	}
	if req.SubscribedTopicNames != nil {
		m.topics = make([]string, 0, len(req.SubscribedTopicNames))
		for _, t := range req.SubscribedTopicNames {
			m.topics = append(m.topics, strings.Clone(t))
		}
		slices.Sort(m.topics)
		m.topics = slices.Compact(m.topics)
	}
	if req.SubscribedTopicRegex != nil {
		m.regex = strings.Clone(*req.SubscribedTopicRegex)
	}
	m.classic = nil
}

func (m *consumerMember) record(group string) Record {
	v := &kmeta.ConsumerGroupMemberMetadataValue{
		RackID: m.rack, ClientID: m.clientID, ClientHost: m.clientHost, SubscribedTopicNames: m.topics, SubscribedTopicRegex: &m.regex,
		RebalanceTimeoutMs: m.rebalanceTimeoutMs, ServerAssignor: m.assignor, ClassicMemberMetadata: m.classic,
	}
	if m.instance != "" {
		v.InstanceID = &m.instance
	}
	return newRecord(&kmeta.ConsumerGroupMemberMetadataKey{GroupID: group, MemberID: m.id}, v, 0)
}

func (m *consumerMember) currentRecord(group string) Record {
	return newRecord(&kmeta.ConsumerGroupCurrentMemberAssignmentKey{GroupID: group, MemberID: m.id}, &kmeta.ConsumerGroupCurrentMemberAssignmentValue{
		MemberEpoch: m.epoch, PreviousMemberEpoch: m.previous, State: m.state, AssignedPartitions: m.assigned.owned(), PartitionsPendingRevocation: m.revoking.owned(),
	}, 0)
}

func targetRecord(group, member string, p partitions) Record {
	return newRecord(&kmeta.ConsumerGroupTargetAssignmentMemberKey{GroupID: group, MemberID: member}, &kmeta.ConsumerGroupTargetAssignmentMemberValue{TopicPartitions: p.target()}, 0)
}

func removal(group, member string) []Record {
	return []Record{
		tombstone(&kmeta.ConsumerGroupCurrentMemberAssignmentKey{GroupID: group, MemberID: member}),
		tombstone(&kmeta.ConsumerGroupTargetAssignmentMemberKey{GroupID: group, MemberID: member}),
		tombstone(&kmeta.ConsumerGroupMemberMetadataKey{GroupID: group, MemberID: member}),
	}
}

func samePtr(a, b *string) bool { return (a == nil) == (b == nil) && text(a) == text(b) }

// subscribe writes the member if something of it is new, and resolves its regular expression.
func (d *draft) subscribe() {
	c, m, was := d.c, d.m, &d.was
	if d.replaced != "" {
		d.recs = append(d.recs, removal(c.g.name, d.replaced)...)
	}
	subscription := d.isNew || !slices.Equal(m.topics, was.topics) || m.regex != was.regex
	if subscription || d.replaced != "" || m.instance != was.instance || !samePtr(m.rack, was.rack) || m.clientID != was.clientID || m.clientHost != was.clientHost ||
		m.rebalanceTimeoutMs != was.rebalanceTimeoutMs || !samePtr(m.assignor, was.assignor) || was.classic != nil {
		d.recs = append(d.recs, m.record(c.g.name))
	}
	if d.replaced != "" {
		if t, ok := c.target[d.replaced]; ok {
			d.target = maps.Clone(c.target)
			delete(d.target, d.replaced)
			d.target[m.id] = t
			d.recs = append(d.recs, targetRecord(c.g.name, m.id, t))
		}
	}
	if was.regex != "" && was.regex != m.regex && !d.uses(was.regex) {
		d.regexes[was.regex] = nil
		d.recs = append(d.recs, tombstone(&kmeta.ConsumerGroupRegularExpressionKey{GroupID: c.g.name, RegularExpression: was.regex}))
	}
	if m.regex != "" {
		topics, known := c.regexes[m.regex]
		if !known || c.dirty || !d.now.Before(c.refreshAt) {
			now := c.resolve(m.regex)
			if !known || !slices.Equal(topics, now) {
				d.regexes[m.regex] = now
				subscription = true
				d.recs = append(d.recs, c.regexRecord(d.now, m.regex, now))
			}
		}
	}
	switch {
	case d.isNew:
		d.bumped = "a new member joins"
	case subscription:
		d.bumped = "a member's subscription changed"
	}
}

func (d *draft) uses(regex string) bool {
	for _, m := range d.members() {
		if m.regex == regex {
			return true
		}
	}
	return false
}

// resolve finds the topics whose whole names a regular expression matches.
func (c *consumerGroup) resolve(regex string) []string {
	topics := []string{}
	re, err := compileRegex(regex)
	if err != nil {
		return topics // from a log of Kafka, whose engine knows a little more
	}
	for t := range c.s.opts.Image().Topics() {
		if re.MatchString(t.Name) {
			topics = append(topics, t.Name)
		}
	}
	return topics
}

func (c *consumerGroup) regexRecord(now time.Time, regex string, topics []string) Record {
	return newRecord(&kmeta.ConsumerGroupRegularExpressionKey{GroupID: c.g.name, RegularExpression: regex}, &kmeta.ConsumerGroupRegularExpressionValue{
		Topics: topics, Version: int64(c.s.opts.Image().Offset()), Timestamp: now.UnixMilli(),
	}, 0)
}

// members are the group's as they will be, by id.
func (d *draft) members() []*consumerMember {
	var out []*consumerMember
	for id, m := range d.c.members {
		if _, gone := d.gone[id]; !gone && id != d.replaced && (d.m == nil || id != d.m.id) {
			out = append(out, m)
		}
	}
	if d.m != nil {
		out = append(out, d.m)
	}
	slices.SortFunc(out, func(a, b *consumerMember) int { return strings.Compare(a.id, b.id) })
	return out
}

// reads are the topics of a member that exist.
func (d *draft) reads(m *consumerMember, image *metadata.Image) map[kmeta.UUID]*metadata.Topic {
	topics := map[kmeta.UUID]*metadata.Topic{}
	for _, name := range m.topics {
		if t := image.Topic(name); t != nil {
			topics[t.ID] = t
		}
	}
	if m.regex != "" {
		matched, ok := d.regexes[m.regex]
		if !ok {
			matched = d.c.regexes[m.regex]
		}
		for _, name := range matched {
			if t := image.Topic(name); t != nil {
				topics[t.ID] = t
			}
		}
	}
	return topics
}

// bump raises the group epoch if subscriptions or their topics changed.
func (d *draft) bump() {
	if d.bumped == "" && !d.c.dirty {
		return
	}
	if hash := d.hashOf(d.members()); hash != d.hash {
		d.hash = hash
		if d.bumped == "" {
			d.bumped = "topics changed"
		}
	}
	if d.bumped == "" {
		return
	}
	d.epoch++
	d.recs = append(d.recs, epochRecord(d.c.g.name, d.epoch, d.hash))
}

func epochRecord(group string, epoch int32, hash int64) Record {
	return newRecord(&kmeta.ConsumerGroupMetadataKey{GroupID: group}, &kmeta.ConsumerGroupMetadataValue{Epoch: epoch, MetadataHash: hash}, 0)
}

// hashOf is a number that is another when the topics that members read are: their ids, names or numbers of partitions. 0 is none.
func (d *draft) hashOf(members []*consumerMember) int64 {
	image := d.c.s.opts.Image()
	all := map[string]*metadata.Topic{}
	for _, m := range members {
		for _, t := range d.reads(m, image) {
			all[t.Name] = t
		}
	}
	if len(all) == 0 {
		return 0
	}
	h := fnv.New64a()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t := all[name]
		_, _ = h.Write(t.ID[:])
		_, _ = h.Write(binary.BigEndian.AppendUint32(append([]byte(name), 0), uint32(len(t.Partitions))))
	}
	return int64(h.Sum64())
}

// assign makes a new target if the group is past the last one, and that is long enough ago.
func (d *draft) assign() {
	c := d.c
	if d.epoch <= c.assignmentEpoch || c.assignmentEpoch > 0 && d.now.UnixMilli()-c.assignedMs < c.s.assignmentInterval(c.g.name).Milliseconds() {
		return
	}
	image := c.s.opts.Image()
	var in []assignee
	for _, m := range d.members() {
		in = append(in, assignee{id: m.id, instance: m.instance, topics: d.reads(m, image), has: d.target[m.id]})
	}
	next := assignors[c.assignor(d)](in)
	for _, id := range slices.Sorted(maps.Keys(next)) {
		if was, ok := d.target[id]; !ok || !was.same(next[id]) {
			d.recs = append(d.recs, targetRecord(c.g.name, id, next[id]))
		}
	}
	d.target, d.targetAt = next, d.epoch
	d.recs = append(d.recs, newRecord(&kmeta.ConsumerGroupTargetAssignmentMetadataKey{GroupID: c.g.name},
		&kmeta.ConsumerGroupTargetAssignmentMetadataValue{AssignmentEpoch: d.epoch, AssignmentTimestamp: d.now.UnixMilli()}, 0))
}

// assignor is the one that most members ask for, else the broker's first.
func (c *consumerGroup) assignor(d *draft) string {
	votes := map[string]int{}
	members := slices.Collect(maps.Values(c.members))
	if d != nil {
		members = d.members()
	}
	for _, m := range members {
		if m.assignor != nil && assignors[*m.assignor] != nil {
			votes[*m.assignor]++
		}
	}
	best := ""
	for _, name := range append(slices.Clone(c.s.config.ConsumerAssignors), slices.Sorted(maps.Keys(votes))...) {
		if assignors[name] != nil && (best == "" || votes[name] > votes[best]) {
			best = name
		}
	}
	if best == "" {
		best = "uniform"
	}
	return best
}

// reconcile brings the member a step towards its target.
func (d *draft) reconcile(req *kmsg.ConsumerGroupHeartbeatRequest) {
	m := d.m
	next, changed := d.step(m, d.target[m.id])
	if changed || d.isNew || d.replaced != "" {
		d.m = next
		d.recs = append(d.recs, next.currentRecord(d.c.g.name))
	}
}

// step is the member after one step towards a target, and whether that is something else than before:
//
//	has partitions to give up, and may still own them      UNREVOKED, its epoch stays
//	has given all up, and what it gets next is all free    STABLE, at the target's epoch
//	                  but somebody else has some of it     UNRELEASED, at the target's epoch
func (d *draft) step(m *consumerMember, target partitions) (*consumerMember, bool) {
	switch m.state {
	case memberStable:
		if m.epoch == d.targetAt && m.assigned.same(target) {
			return m, false
		}
	case memberUnrevoked:
		if !d.reported || d.owned.touches(m.revoking) {
			return m, false
		}
	}
	next := *m
	var stay, leave gathered
	m.assigned.each(func(topic kmeta.UUID, partition, epoch int32) bool {
		if target.has(topic, partition) {
			stay.add(topic, partition, epoch)
		} else {
			leave.add(topic, partition, epoch)
		}
		return true
	})
	next.previous = m.epoch
	if next.revoking = leave.partitions(); len(next.revoking) > 0 && (!d.reported || d.owned.touches(next.revoking)) {
		next.assigned, next.state = stay.partitions(), memberUnrevoked
		return &next, true
	}
	next.revoking = partitions{}
	next.state, next.epoch = memberStable, d.targetAt
	target.each(func(topic kmeta.UUID, partition, _ int32) bool {
		if m.assigned.has(topic, partition) {
			return true // it stays
		}
		switch owner := d.c.owners[topic][partition]; {
		case owner != "" && owner != m.id && owner != d.replaced:
			next.state = memberUnreleased
		default:
			stay.add(topic, partition, d.targetAt)
		}
		return true
	})
	next.assigned = stay.partitions()
	if next.state == m.state && next.epoch == m.epoch && next.assigned.same(m.assigned) && len(m.revoking) == 0 {
		return m, false // still waits for the same
	}
	return &next, true
}

// tell says what happened.
func (d *draft) tell() {
	name := d.c.g.name
	switch {
	case d.isNew:
		d.c.s.event(Event{Group: name, Kind: EventJoined, Member: d.m.id, Instance: d.m.instance, Generation: d.epoch})
	case d.replaced != "":
		d.c.s.event(Event{Group: name, Kind: EventReplaced, Member: d.m.id, Instance: d.m.instance, Generation: d.epoch, Cause: "was " + d.replaced})
	}
	if d.bumped != "" {
		d.c.s.event(Event{Group: name, Kind: EventRebalance, Generation: d.epoch, Cause: d.bumped})
	}
}
