package group

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
)

// JoinGroup lets a member into a classic group: versions 0-9. v1 has a rebalance timeout, which is the session's before; from v4
// on a dynamic member first gets an id to join with; v5 has static members; v9 lets a static leader keep its assignment. The
// reply is held until the rebalance moves on.
func (s *Shard) JoinGroup(now time.Time, client Client, req *kmsg.JoinGroupRequest, reply func(*kmsg.JoinGroupResponse)) Effect {
	refuse := func(code int16) Effect {
		resp := forVersion(&kmsg.JoinGroupResponse{ErrorCode: code, Generation: -1, MemberID: req.MemberID}, req.Version)
		return Effect{Then: func(error) { reply(resp) }}
	}
	session := time.Duration(req.SessionTimeoutMillis) * time.Millisecond
	g := s.groups[req.Group]
	switch {
	case req.Group == "" || len(req.Group) > maxName:
		return refuse(codeInvalidGroup)
	case len(client.ID) > maxName || len(req.MemberID) > kmeta.MaxPlainString || len(text(req.InstanceID)) > maxName || len(req.ProtocolType) > maxName ||
		slices.ContainsFunc(req.Protocols, func(p kmsg.JoinGroupRequestProtocol) bool { return len(p.Name) > maxName }):
		return refuse(codeInvalidRequest)
	case session < s.config.MinSessionTimeout || session > s.config.MaxSessionTimeout:
		return refuse(codeInvalidSession)
	case g != nil && g.other != nil:
		return refuse(codeInconsistentProtocol)
	case g != nil && g.consumer != nil:
		return g.consumer.classicJoin(now, client, req, reply)
	case req.MemberID != "" && (g == nil || g.classic == nil):
		return refuse(codeUnknownMember)
	}
	if g != nil && g.classic != nil {
		return g.classic.joinGroup(now, client, req, reply)
	}
	if req.ProtocolType == "" || len(req.Protocols) == 0 {
		return refuse(codeInconsistentProtocol)
	}
	// A group is in the log before anybody is told of it.
	g = s.groupOf(strings.Clone(req.Group))
	g.classic = newClassicGroup(g)
	c := g.classic
	c.setState(now, stateEmpty)
	g.watch(now)
	return Effect{Records: []Record{emptyRecord(g.name, now)}, Then: func(err error) {
		if err != nil {
			if g.classic == c && len(c.members) == 0 && len(c.pendingJoins) == 0 {
				g.classic = nil
				g.keepOrForget()
			}
			refuse(codeOf(err)).Then(nil)
			return
		}
		if g.classic != c {
			refuse(codeUnknownMember).Then(nil) // deleted meanwhile
			return
		}
		if e := c.joinGroup(now, client, req, reply); e.Then != nil {
			e.Then(nil) // a first join has no records: its rebalance waits for a timer at least
		}
	}}
}

func (c *classicGroup) joinGroup(now time.Time, client Client, req *kmsg.JoinGroupRequest, reply func(*kmsg.JoinGroupResponse)) Effect {
	answer := func(resp *kmsg.JoinGroupResponse) Effect {
		resp = forVersion(resp, req.Version)
		return Effect{Then: func(error) { reply(resp) }}
	}
	refuse := func(code int16, id string) Effect {
		return answer(&kmsg.JoinGroupResponse{ErrorCode: code, Generation: -1, MemberID: id})
	}
	m := c.byID[req.MemberID]
	switch c.state {
	case statePreparing:
		if (m == nil || m.join == nil) && c.waitingJoins >= c.s.config.MaxSize {
			if m != nil {
				c.remove(m, codeGroupFull)
			}
			return refuse(codeGroupFull, req.MemberID)
		}
	case stateCompleting, stateStable:
		if m == nil && len(c.members) >= c.s.config.MaxSize {
			return refuse(codeGroupFull, req.MemberID)
		}
	}
	if !c.supports(req.ProtocolType, req.Protocols) {
		return refuse(codeInconsistentProtocol, req.MemberID)
	}
	if req.MemberID == "" {
		if req.InstanceID != nil {
			id := *req.InstanceID + "-" + javaUUID(c.s.opts.NewID())
			if old := c.static[*req.InstanceID]; old != nil {
				return c.replace(now, old, id, client, req, reply)
			}
			return c.addMember(now, id, client, req, reply)
		}
		id := client.ID + "-" + javaUUID(c.s.opts.NewID())
		if req.Version < 4 {
			return c.addMember(now, id, client, req, reply)
		}
		t := &timer{fire: func(now time.Time) Effect { return c.joinNeverCame(now, id) }}
		c.pendingJoins[id] = t
		c.s.arm(t, now.Add(time.Duration(req.SessionTimeoutMillis)*time.Millisecond))
		return refuse(codeMemberIDRequired, id)
	}
	if t := c.pendingJoins[req.MemberID]; t != nil && req.InstanceID == nil {
		c.s.stop(t)
		delete(c.pendingJoins, req.MemberID)
		return c.addMember(now, strings.Clone(req.MemberID), client, req, reply)
	}
	m, code := c.check(req.MemberID, req.InstanceID)
	if code != 0 {
		return refuse(code, req.MemberID)
	}
	switch {
	case c.state == stateEmpty:
		return refuse(codeUnknownMember, req.MemberID)
	case c.state == statePreparing:
		return c.updateMember(now, m, req, reply, "a member joins again")
	case !m.same(req.Protocols):
		return c.updateMember(now, m, req, reply, "a member's metadata changed")
	case c.state == stateStable && m.id == c.leader:
		// It may know of partitions that nobody else has noticed.
		return c.updateMember(now, m, req, reply, "the leader joins again")
	}
	// Its answer got lost.
	return answer(c.joinAnswer(m))
}

// joinAnswer tells a member the present generation; only the leader learns who the members are.
func (c *classicGroup) joinAnswer(m *classicMember) *kmsg.JoinGroupResponse {
	resp := &kmsg.JoinGroupResponse{
		Generation: c.generation, ProtocolType: ptr(c.protocolType), Protocol: ptr(c.protocol), LeaderID: c.leader, MemberID: m.id,
		Members: []kmsg.JoinGroupResponseMember{},
	}
	if m.id == c.leader {
		resp.Members = c.memberList()
	}
	return resp
}

func (c *classicGroup) memberList() []kmsg.JoinGroupResponseMember {
	list := make([]kmsg.JoinGroupResponseMember, 0, len(c.members))
	for _, m := range c.members {
		list = append(list, kmsg.JoinGroupResponseMember{MemberID: m.id, InstanceID: m.instancePtr(), ProtocolMetadata: m.metadata(c.protocol)})
	}
	return list
}

// javaUUID is an id in the form of Java's: groups of hex digits.
func javaUUID(u kmeta.UUID) string {
	const digits = "0123456789abcdef"
	b := make([]byte, 0, 36)
	for i, x := range u {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			b = append(b, '-')
		}
		b = append(b, digits[x>>4], digits[x&0xf])
	}
	return string(b)
}

func (m *classicMember) same(protocols []kmsg.JoinGroupRequestProtocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(have classicProtocol, p kmsg.JoinGroupRequestProtocol) bool {
		return have.name == p.Name && bytes.Equal(have.metadata, p.Metadata)
	})
}

// take makes a member what its join says. keeps I6
func (m *classicMember) take(req *kmsg.JoinGroupRequest) {
	m.sessionTimeout = time.Duration(req.SessionTimeoutMillis) * time.Millisecond
	m.rebalanceTimeout = m.sessionTimeout
	if req.Version >= 1 {
		m.rebalanceTimeout = time.Duration(req.RebalanceTimeoutMillis) * time.Millisecond
	}
	m.protocols = make([]classicProtocol, len(req.Protocols))
	for i, p := range req.Protocols {
		m.protocols[i] = classicProtocol{strings.Clone(p.Name), bytes.Clone(p.Metadata)}
	}
}

func (c *classicGroup) addMember(now time.Time, id string, client Client, req *kmsg.JoinGroupRequest, reply func(*kmsg.JoinGroupResponse)) Effect {
	m := &classicMember{id: id, clientID: strings.Clone(client.ID), clientHost: strings.Clone(client.Host), isNew: true}
	if req.InstanceID != nil {
		m.instance = strings.Clone(*req.InstanceID)
	}
	m.take(req)
	if len(c.members) == 0 {
		c.protocolType = strings.Clone(req.ProtocolType)
	}
	if c.state == statePreparing && c.initial {
		c.newcomer = true
	}
	c.insert(m)
	c.holdJoin(m, req.Version, reply)
	c.s.arm(&m.session, now.Add(newMemberJoinTimeout))
	c.s.event(Event{Group: c.g.name, Kind: EventJoined, Member: m.id, Instance: m.instance, Generation: c.generation})
	return c.rebalanceOrComplete(now, "a new member joins")
}

func (c *classicGroup) updateMember(now time.Time, m *classicMember, req *kmsg.JoinGroupRequest, reply func(*kmsg.JoinGroupResponse), cause string) Effect {
	m.take(req)
	c.holdJoin(m, req.Version, reply)
	c.s.arm(&m.session, now.Add(max(m.sessionTimeout, newMemberJoinTimeout)))
	return c.rebalanceOrComplete(now, cause)
}

// replace puts a static member that came back without its id into the place of the old one. If nothing else changed of a stable
// group, the others need not notice.
func (c *classicGroup) replace(now time.Time, m *classicMember, id string, client Client, req *kmsg.JoinGroupRequest, reply func(*kmsg.JoinGroupResponse)) Effect {
	was := *m
	oldLeader := c.leader
	c.answerJoin(m, &kmsg.JoinGroupResponse{ErrorCode: codeFencedInstance})
	c.answerSync(m, codeFencedInstance)
	c.rename(m, id)
	m.clientID, m.clientHost = strings.Clone(client.ID), strings.Clone(client.Host)
	m.take(req)
	c.s.event(Event{Group: c.g.name, Kind: EventReplaced, Member: id, Instance: m.instance, Generation: c.generation, Cause: "was " + was.id})
	if c.state != stateStable || c.protocol != c.selectProtocol() {
		c.holdJoin(m, req.Version, reply)
		c.s.arm(&m.session, now.Add(max(m.sessionTimeout, newMemberJoinTimeout)))
		return c.rebalanceOrComplete(now, "a static member came back")
	}
	c.heartbeat(now, m)
	version := req.Version
	resp := c.joinAnswer(m)
	if version < 9 {
		// Such a leader would assign anew if it knew that it leads.
		resp.Members, resp.LeaderID = []kmsg.JoinGroupResponseMember{}, oldLeader
	} else {
		resp.SkipAssignment = m.id == c.leader
	}
	return Effect{Records: []Record{c.record(nil)}, Then: func(err error) {
		if err != nil {
			if c.byID[id] == m {
				c.rename(m, was.id)
				m.clientID, m.clientHost, m.sessionTimeout, m.rebalanceTimeout, m.protocols = was.clientID, was.clientHost, was.sessionTimeout, was.rebalanceTimeout, was.protocols
			}
			resp = &kmsg.JoinGroupResponse{ErrorCode: codeOf(err), Generation: -1, MemberID: ""}
		} else {
			c.findTopics()
		}
		reply(forVersion(resp, version))
	}}
}

func (c *classicGroup) rename(m *classicMember, id string) {
	if c.leader == m.id {
		c.leader = id
	}
	delete(c.byID, m.id)
	m.id = id
	c.byID[id] = m
}
