package group

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// rebalanceOrComplete begins a rebalance, or completes the one that is being prepared if that was the last to wait for.
func (c *classicGroup) rebalanceOrComplete(now time.Time, cause string) Effect {
	if c.state == statePreparing {
		return c.maybeComplete(now)
	}
	return c.prepare(now, cause)
}

func (c *classicGroup) prepare(now time.Time, cause string) Effect {
	if c.state == stateCompleting {
		for _, m := range c.members {
			m.assignment = nil
			if m.sync != nil {
				c.heartbeat(now, m) // it lives: it was us who let it wait
				c.answerSync(m, codeRebalance)
			}
		}
	}
	c.s.stop(&c.syncs)
	c.initial = c.state == stateEmpty
	c.setState(now, statePreparing)
	c.s.event(Event{Group: c.g.name, Kind: EventRebalance, Generation: c.generation, Cause: cause})
	if c.initial {
		delay := c.s.config.InitialRebalanceDelay
		c.newcomer = false
		c.initialLeft = max(c.rebalanceTimeout()-delay, 0)
		c.s.arm(&c.rebalance, now.Add(delay))
		return Effect{}
	}
	if c.allJoined() {
		return c.complete(now)
	}
	c.s.arm(&c.rebalance, now.Add(c.rebalanceTimeout()))
	return Effect{}
}

func (c *classicGroup) allJoined() bool {
	return c.waitingJoins == len(c.members) && len(c.pendingJoins) == 0
}

func (c *classicGroup) maybeComplete(now time.Time) Effect {
	if c.state == statePreparing && !c.initial && c.allJoined() {
		return c.complete(now)
	}
	return Effect{}
}

// rebalanceTimeUp ends a step of the initial delay, which begins again while new members come, or the wait for all to join.
func (c *classicGroup) rebalanceTimeUp(now time.Time) Effect {
	if c.state != statePreparing {
		return Effect{}
	}
	if c.initial && c.newcomer && c.initialLeft > 0 {
		c.newcomer = false
		delay := min(c.s.config.InitialRebalanceDelay, c.initialLeft)
		c.initialLeft -= delay
		c.s.arm(&c.rebalance, now.Add(delay))
		return Effect{}
	}
	return c.complete(now)
}

// complete begins the next generation with those who joined. Static members that did not are kept, until their sessions end.
func (c *classicGroup) complete(now time.Time) Effect {
	c.s.stop(&c.rebalance)
	for _, m := range slices.Clone(c.members) {
		if m.join == nil && m.instance == "" {
			c.remove(m, codeUnknownMember)
			c.s.event(Event{Group: c.g.name, Kind: EventTimedOut, Member: m.id, Generation: c.generation, Cause: "rebalance timeout"})
		}
	}
	if l := c.byID[c.leader]; l != nil && l.join == nil {
		// A static leader that did not come cannot assign.
		i := slices.IndexFunc(c.members, func(m *classicMember) bool { return m.join != nil })
		if i < 0 {
			c.s.arm(&c.rebalance, now.Add(c.rebalanceTimeout()))
			return Effect{}
		}
		c.leader = c.members[i].id
	}
	c.initial = false
	c.generation++
	if len(c.members) == 0 {
		c.protocol, c.leader = "", ""
		c.setState(now, stateEmpty)
		c.findTopics()
		c.s.event(Event{Group: c.g.name, Kind: EventEmpty, Generation: c.generation})
		return Effect{Records: []Record{c.record(nil)}}
	}
	c.protocol = c.selectProtocol()
	c.setState(now, stateCompleting)
	c.findTopics()
	for _, m := range c.members {
		m.synced = false
		if m.join == nil {
			continue
		}
		m.isNew = false
		c.heartbeat(now, m)
		c.answerJoin(m, c.joinAnswer(m))
	}
	c.s.arm(&c.syncs, now.Add(c.rebalanceTimeout()))
	return Effect{}
}

// SyncGroup gives a member its assignment: versions 0-5. v3 has static members, v5 repeats the protocol. The reply is held until
// the leader has said who gets what.
func (s *Shard) SyncGroup(now time.Time, req *kmsg.SyncGroupRequest, reply func(*kmsg.SyncGroupResponse)) Effect {
	version := req.Version
	send := func(resp *kmsg.SyncGroupResponse) {
		resp.Version = version
		reply(resp)
	}
	refuse := func(code int16) Effect {
		return Effect{Then: func(error) { send(&kmsg.SyncGroupResponse{ErrorCode: code, MemberAssignment: []byte{}}) }}
	}
	g := s.groups[req.Group]
	switch {
	case req.Group == "":
		return refuse(codeInvalidGroup)
	case g != nil && g.consumer != nil:
		return g.consumer.classicSync(now, req, send)
	case g == nil || g.classic == nil:
		return refuse(codeUnknownMember)
	}
	c := g.classic
	m, code := c.check(req.MemberID, req.InstanceID)
	switch {
	case code != 0:
		return refuse(code)
	case req.Generation != c.generation:
		return refuse(codeIllegalGeneration)
	case req.ProtocolType != nil && *req.ProtocolType != c.protocolType, req.Protocol != nil && *req.Protocol != c.protocol:
		return refuse(codeInconsistentProtocol)
	}
	switch c.state {
	case stateEmpty, stateDead:
		return refuse(codeUnknownMember)
	case statePreparing:
		return refuse(codeRebalance)
	case stateStable:
		c.heartbeat(now, m)
		resp := c.syncAnswer(m, 0)
		c.stopSyncs()
		return Effect{Then: func(error) { send(resp) }}
	}
	c.answerSync(m, codeRebalance) // of a request whose sender did not wait
	m.sync = send
	if m.id != c.leader {
		return Effect{}
	}
	assignments := make(map[string][]byte, len(c.members))
	for _, a := range req.GroupAssignment {
		if m := c.byID[a.MemberID]; m != nil {
			assignments[m.id] = slices.Clone(a.MemberAssignment)
		}
	}
	generation := c.generation
	return Effect{Records: []Record{c.record(assignments)}, Then: func(err error) {
		if c.state != stateCompleting || c.generation != generation {
			return // a rebalance began meanwhile, and answered the syncs
		}
		if err != nil {
			for _, m := range c.members {
				m.assignment = nil
				c.answerSync(m, codeOf(err))
			}
			c.prepare(now, "the assignment could not be written") // has no effect at once: nobody has joined
			return
		}
		c.setState(now, stateStable)
		c.s.event(Event{Group: c.g.name, Kind: EventStable, Generation: c.generation})
		for _, m := range c.members {
			m.assignment = assignments[m.id]
		}
		for _, m := range c.members {
			if m.sync != nil {
				c.heartbeat(now, m)
				c.answerSync(m, 0)
			}
		}
		c.stopSyncs()
	}}
}

// stopSyncs ends the wait for SyncGroups if all came.
func (c *classicGroup) stopSyncs() {
	if !slices.ContainsFunc(c.members, func(m *classicMember) bool { return !m.synced }) {
		c.s.stop(&c.syncs)
	}
}

// syncTimeUp removes those who did not ask for their assignment.
func (c *classicGroup) syncTimeUp(now time.Time) Effect {
	if c.state != stateCompleting && c.state != stateStable {
		return Effect{}
	}
	late := false
	for _, m := range slices.Clone(c.members) {
		if !m.synced && m.sync == nil {
			late = true
			c.remove(m, codeUnknownMember)
			c.s.event(Event{Group: c.g.name, Kind: EventTimedOut, Member: m.id, Instance: m.instance, Generation: c.generation, Cause: "no SyncGroup within the rebalance timeout"})
		}
	}
	if !late {
		return Effect{}
	}
	return c.prepare(now, "members did not sync")
}

// sessionTimeUp removes a member that was silent. One whose reply is held has no reason to speak, unless it is new: then it waits
// for five minutes, and its connection may long be gone.
func (c *classicGroup) sessionTimeUp(now time.Time, m *classicMember) Effect {
	if c.byID[m.id] != m || c.state == stateDead {
		return Effect{}
	}
	cause := "session timeout"
	switch waits := m.join != nil || m.sync != nil; {
	case m.isNew:
		cause = "no first generation within five minutes"
	case waits:
		c.heartbeat(now, m)
		return Effect{}
	}
	c.remove(m, codeUnknownMember)
	c.s.event(Event{Group: c.g.name, Kind: EventTimedOut, Member: m.id, Instance: m.instance, Generation: c.generation, Cause: cause})
	return c.rebalanceOrComplete(now, "a member timed out")
}

// joinNeverCame forgets an id that was handed out.
func (c *classicGroup) joinNeverCame(now time.Time, id string) Effect {
	delete(c.pendingJoins, id)
	return c.maybeComplete(now)
}

// Heartbeat is a member's sign of life: versions 0-4, v3 has static members. It returns the code, and has no other effect.
func (s *Shard) Heartbeat(now time.Time, req *kmsg.HeartbeatRequest) int16 {
	g := s.groups[req.Group]
	switch {
	case req.Group == "":
		return codeInvalidGroup
	case g != nil && g.consumer != nil:
		return g.consumer.classicHeartbeat(now, req)
	case g == nil || g.classic == nil:
		return codeUnknownMember
	}
	c := g.classic
	m, code := c.check(req.MemberID, req.InstanceID)
	switch {
	case code != 0:
		return code
	case req.Generation != c.generation:
		return codeIllegalGeneration
	case c.state == stateEmpty || c.state == stateDead:
		return codeUnknownMember
	}
	c.heartbeat(now, m)
	if c.state == statePreparing {
		return codeRebalance
	}
	return 0
}

// LeaveGroup removes members: versions 0-5. v3 names several, by member or instance id, and answers for each.
func (s *Shard) LeaveGroup(now time.Time, req *kmsg.LeaveGroupRequest, reply func(*kmsg.LeaveGroupResponse)) Effect {
	resp := &kmsg.LeaveGroupResponse{Version: req.Version}
	done := func(e Effect) Effect {
		then := e.Then
		e.Then = func(err error) {
			if then != nil {
				then(err)
			}
			if err != nil {
				resp.ErrorCode, resp.Members = codeOf(err), nil
			}
			reply(resp)
		}
		return e
	}
	g := s.groups[req.Group]
	switch {
	case req.Group == "":
		resp.ErrorCode = codeInvalidGroup
		return done(Effect{})
	case g != nil && g.consumer != nil:
		return done(g.consumer.classicLeave(now, req, resp))
	case g == nil || g.classic == nil:
		if req.Version < 3 {
			resp.ErrorCode = codeUnknownMember
			return done(Effect{})
		}
		for _, l := range req.Members {
			resp.Members = append(resp.Members, kmsg.LeaveGroupResponseMember{MemberID: l.MemberID, InstanceID: l.InstanceID, ErrorCode: codeUnknownMember})
		}
		return done(Effect{})
	}
	c := g.classic
	removed := false
	for _, l := range leavers(req) {
		m, code := c.leaver(l)
		if code == 0 {
			removed = true
			if m == nil {
				c.s.stop(c.pendingJoins[l.MemberID])
				delete(c.pendingJoins, l.MemberID)
			} else {
				c.remove(m, codeUnknownMember)
				c.s.event(Event{Group: c.g.name, Kind: EventLeft, Member: m.id, Instance: m.instance, Generation: c.generation, Cause: text(l.Reason)})
			}
		}
		if req.Version < 3 {
			resp.ErrorCode = code
			continue
		}
		resp.Members = append(resp.Members, kmsg.LeaveGroupResponseMember{MemberID: l.MemberID, InstanceID: l.InstanceID, ErrorCode: code})
	}
	switch {
	case !removed || c.state == stateEmpty:
		return done(Effect{})
	case c.state == statePreparing:
		return done(c.maybeComplete(now))
	}
	return done(c.prepare(now, "a member leaves"))
}

// leavers are who a request is about.
func leavers(req *kmsg.LeaveGroupRequest) []kmsg.LeaveGroupRequestMember {
	if req.Version < 3 {
		return []kmsg.LeaveGroupRequestMember{{MemberID: req.MemberID}}
	}
	return req.Members
}

// leaver finds who leaves; no member and no code is one that has not joined yet.
func (c *classicGroup) leaver(l kmsg.LeaveGroupRequestMember) (*classicMember, int16) {
	if l.InstanceID != nil && l.MemberID == "" {
		if m := c.static[*l.InstanceID]; m != nil {
			return m, 0
		}
		return nil, codeUnknownMember
	}
	if _, ok := c.pendingJoins[l.MemberID]; ok && l.InstanceID == nil {
		return nil, 0
	}
	return c.check(l.MemberID, l.InstanceID)
}
