package group

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
)

// A state is where a classic group is in a rebalance:
//
//	Empty ──join──> PreparingRebalance ──all joined, or time is up──> CompletingRebalance ──leader's sync──> Stable
//	  ^                  ^     │                                            │                                  │
//	  └──nobody joined───┼─────┘      <──join, leave, timeout, no sync──────┴────────────────────<─────────────┘
type state int8

const (
	stateEmpty state = iota
	statePreparing
	stateCompleting
	stateStable
	stateDead
)

func (s state) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"}[s]
}

// newMemberJoinTimeout is how long a member that never had a generation may wait for its first: its connection may be gone.
const newMemberJoinTimeout = 5 * time.Minute

// A classicGroup is a group whose leader assigns. All of it is soft but for what record writes. keeps I2
type classicGroup struct {
	g *group
	s *Shard

	state        state
	generation   int32
	protocolType string // kept by an empty group
	protocol     string // empty: none
	leader       string // a member's id; empty: none
	stateMs      int64  // since when the state holds; -1: an old record didn't say

	members []*classicMember // in the order in which they came
	byID    map[string]*classicMember
	static  map[string]*classicMember // by instance id

	pendingJoins map[string]*timer // ids that were handed out and have not joined yet
	waitingJoins int               // members whose join is held

	// topics are what the members of a group of consumers subscribe to; nil: not known, so it may be any.
	topics map[string]struct{}

	rebalance timer // ends PreparingRebalance, or one step of the initial delay
	syncs     timer // ends the wait for SyncGroups

	// initial is whether the rebalance that is being prepared is the first of an empty group, which waits for more members for
	// initialLeft at most; newcomer, whether one came in the present step.
	initial     bool
	initialLeft time.Duration
	newcomer    bool
}

// A classicMember is one member. Its bytes are its own copies.
type classicMember struct {
	id, instance         string // instance is empty for a dynamic one
	clientID, clientHost string
	sessionTimeout       time.Duration
	rebalanceTimeout     time.Duration
	protocols            []classicProtocol // by preference
	assignment           []byte

	join    func(*kmsg.JoinGroupResponse) // held; nil: none is
	joinAt  int16                         // its version
	sync    func(*kmsg.SyncGroupResponse)
	synced  bool // has got this generation's assignment
	isNew   bool // has had no generation yet
	session timer
}

type classicProtocol struct {
	name     string
	metadata []byte
}

func newClassicGroup(g *group) *classicGroup {
	c := &classicGroup{
		g: g, s: g.s, stateMs: -1,
		byID: map[string]*classicMember{}, static: map[string]*classicMember{}, pendingJoins: map[string]*timer{},
	}
	c.rebalance.fire = c.rebalanceTimeUp
	c.syncs.fire = c.syncTimeUp
	return c
}

// load makes the group what the log says, with sessions that begin now.
func (c *classicGroup) load(now time.Time, v *kmeta.GroupMetadataValue) {
	c.generation, c.protocolType, c.protocol, c.leader = v.Generation, v.ProtocolType, text(v.Protocol), text(v.Leader)
	c.stateMs = v.CurrentStateTimestamp
	for i := range v.Members {
		from := &v.Members[i]
		m := &classicMember{
			id: from.MemberID, instance: text(from.GroupInstanceID), clientID: from.ClientID, clientHost: from.ClientHost,
			sessionTimeout:   time.Duration(from.SessionTimeout) * time.Millisecond,
			rebalanceTimeout: time.Duration(from.RebalanceTimeout) * time.Millisecond,
			protocols:        []classicProtocol{{c.protocol, from.Subscription}},
			assignment:       from.Assignment, synced: true,
		}
		c.insert(m)
		c.s.arm(&m.session, now.Add(m.sessionTimeout))
	}
	if len(c.members) > 0 {
		c.state = stateStable
	}
	c.findTopics()
}

// record is the group as the log keeps it, with assignments that may be about to be theirs.
func (c *classicGroup) record(assignments map[string][]byte) Record {
	v := &kmeta.GroupMetadataValue{ProtocolType: c.protocolType, Generation: c.generation, CurrentStateTimestamp: c.stateMs}
	if c.protocol != "" {
		v.Protocol = &c.protocol
	}
	if c.leader != "" {
		v.Leader = &c.leader
	}
	for _, m := range c.members {
		to := kmeta.ClassicMember{
			MemberID: m.id, ClientID: m.clientID, ClientHost: m.clientHost,
			RebalanceTimeout: int32(m.rebalanceTimeout.Milliseconds()), SessionTimeout: int32(m.sessionTimeout.Milliseconds()),
			Subscription: m.metadata(c.protocol), Assignment: m.assignment,
		}
		if m.instance != "" {
			to.GroupInstanceID = &m.instance
		}
		if assignments != nil {
			to.Assignment = assignments[m.id]
		}
		v.Members = append(v.Members, to)
	}
	return newRecord(&kmeta.GroupMetadataKey{Group: c.g.name}, v, 3)
}

// emptyRecord is the first record of a group: that it is there.
func emptyRecord(name string, now time.Time) Record {
	return newRecord(&kmeta.GroupMetadataKey{Group: name}, &kmeta.GroupMetadataValue{CurrentStateTimestamp: now.UnixMilli()}, 3)
}

func (m *classicMember) metadata(protocol string) []byte {
	for _, p := range m.protocols {
		if p.name == protocol {
			return p.metadata
		}
	}
	return nil
}

func (m *classicMember) instancePtr() *string {
	if m.instance == "" {
		return nil
	}
	return &m.instance
}

// insert makes m a member.
func (c *classicGroup) insert(m *classicMember) {
	m.session.fire = func(now time.Time) Effect { return c.sessionTimeUp(now, m) }
	c.members = append(c.members, m)
	c.byID[m.id] = m
	if m.instance != "" {
		c.static[m.instance] = m
	}
	if c.leader == "" {
		c.leader = m.id
	}
}

// remove takes m out, and answers what it holds.
func (c *classicGroup) remove(m *classicMember, code int16) {
	c.answerJoin(m, &kmsg.JoinGroupResponse{ErrorCode: code})
	c.answerSync(m, code)
	c.s.stop(&m.session)
	c.members = slices.DeleteFunc(c.members, func(o *classicMember) bool { return o == m })
	delete(c.byID, m.id)
	if m.instance != "" && c.static[m.instance] == m {
		delete(c.static, m.instance)
	}
	if c.leader == m.id {
		c.leader = ""
		if len(c.members) > 0 {
			c.leader = c.members[0].id
		}
	}
}

func (c *classicGroup) setState(now time.Time, to state) {
	c.state, c.stateMs = to, now.UnixMilli()
}

// holdJoin keeps the reply until the rebalance has moved on.
func (c *classicGroup) holdJoin(m *classicMember, version int16, reply func(*kmsg.JoinGroupResponse)) {
	if m.join == nil {
		c.waitingJoins++
	} else {
		// The client asked twice: the first answer would reach nobody who waits for it, but it must come. keeps I3
		c.answerJoin(m, &kmsg.JoinGroupResponse{ErrorCode: codeRebalance})
		c.waitingJoins++
	}
	m.join, m.joinAt = reply, version
}

// answerJoin sends a held join's answer, if one is held.
func (c *classicGroup) answerJoin(m *classicMember, resp *kmsg.JoinGroupResponse) {
	if m.join == nil {
		return
	}
	c.waitingJoins--
	reply := m.join
	m.join = nil
	if resp.MemberID == "" {
		resp.MemberID = m.id
	}
	if resp.ErrorCode != 0 {
		resp.Generation = -1
	}
	reply(forVersion(resp, m.joinAt))
}

// forVersion puts what a version needs into a join's answer.
func forVersion(resp *kmsg.JoinGroupResponse, version int16) *kmsg.JoinGroupResponse {
	resp.Version = version
	if resp.Protocol == nil && version < 7 {
		resp.Protocol = new(string)
	}
	return resp
}

func (c *classicGroup) answerSync(m *classicMember, code int16) {
	if m.sync == nil {
		return
	}
	reply := m.sync
	m.sync = nil
	reply(c.syncAnswer(m, code))
}

func (c *classicGroup) syncAnswer(m *classicMember, code int16) *kmsg.SyncGroupResponse {
	if code != 0 {
		return &kmsg.SyncGroupResponse{ErrorCode: code, MemberAssignment: []byte{}}
	}
	m.synced = true
	resp := &kmsg.SyncGroupResponse{ProtocolType: ptr(c.protocolType), Protocol: ptr(c.protocol), MemberAssignment: m.assignment}
	if resp.MemberAssignment == nil {
		resp.MemberAssignment = []byte{} // for a member that the leader left out; null is for nobody
	}
	return resp
}

func ptr[T any](v T) *T { return &v }

// answerAll answers everything that waits.
func (c *classicGroup) answerAll(code int16) {
	for _, m := range c.members {
		c.answerJoin(m, &kmsg.JoinGroupResponse{ErrorCode: code})
		c.answerSync(m, code)
	}
}

// die ends a group that was deleted, or became one of consumers: who waits in such a one is to come again.
func (c *classicGroup) die() {
	c.answerAll(codeRebalance)
	for _, m := range c.members {
		c.s.stop(&m.session)
	}
	for _, t := range c.pendingJoins {
		c.s.stop(t)
	}
	c.s.stop(&c.rebalance)
	c.s.stop(&c.syncs)
	c.state = stateDead
}

// rebalanceTimeout is the longest of the members'.
func (c *classicGroup) rebalanceTimeout() (longest time.Duration) {
	for _, m := range c.members {
		longest = max(longest, m.rebalanceTimeout)
	}
	return longest
}

// candidates are the protocols that all members support.
func (c *classicGroup) candidates() map[string]int {
	counts := map[string]int{}
	for _, m := range c.members {
		for _, p := range m.protocols {
			counts[p.name]++
		}
	}
	for name, n := range counts {
		if n < len(c.members) {
			delete(counts, name)
		}
	}
	return counts
}

// supports is whether a member with such protocols could be in the group.
func (c *classicGroup) supports(protocolType string, protocols []kmsg.JoinGroupRequestProtocol) bool {
	if c.state == stateEmpty || len(c.members) == 0 {
		return protocolType != "" && len(protocols) > 0
	}
	if protocolType != c.protocolType {
		return false
	}
	common := c.candidates()
	return slices.ContainsFunc(protocols, func(p kmsg.JoinGroupRequestProtocol) bool { _, ok := common[p.Name]; return ok })
}

// selectProtocol lets each member vote for the first of its protocols that all support.
func (c *classicGroup) selectProtocol() string {
	common := c.candidates()
	votes := map[string]int{}
	for _, m := range c.members {
		for _, p := range m.protocols {
			if _, ok := common[p.name]; ok {
				votes[p.name]++
				break
			}
		}
	}
	best := ""
	for name, n := range votes {
		if best == "" || cmp.Or(cmp.Compare(votes[best], n), strings.Compare(name, best)) < 0 {
			best = name
		}
	}
	return best
}

// findTopics reads what the members subscribe to, if they are consumers.
func (c *classicGroup) findTopics() {
	c.topics = nil
	if c.protocolType != kmeta.ConsumerProtocolType {
		return
	}
	topics := map[string]struct{}{}
	if c.protocol == "" && len(c.members) > 0 {
		return
	}
	for _, m := range c.members {
		sub, _, err := kmeta.ReadSubscription(m.metadata(c.protocol))
		if err != nil {
			return // such members may read anything
		}
		for _, t := range sub.Topics {
			topics[t] = struct{}{}
		}
	}
	c.topics = topics
}

// subscribed is whether members of a group of consumers read a topic, or may.
func (c *classicGroup) subscribed(topic string) bool {
	if c.topics == nil {
		return c.protocolType == kmeta.ConsumerProtocolType
	}
	_, ok := c.topics[topic]
	return ok
}

// check finds the member that a request is of. Its instance id, if it has one, must be held by that member.
func (c *classicGroup) check(id string, instance *string) (*classicMember, int16) {
	if instance != nil {
		switch m := c.static[*instance]; {
		case m == nil:
			return nil, codeUnknownMember
		case m.id != id:
			return nil, codeFencedInstance
		default:
			return m, 0
		}
	}
	if m := c.byID[id]; m != nil {
		return m, 0
	}
	return nil, codeUnknownMember
}

// mayCommit decides on the member of an OffsetCommit, and counts it as a heartbeat.
func (c *classicGroup) mayCommit(now time.Time, id string, instance *string, generation int32, txn bool) int16 {
	if generation < 0 && c.state == stateEmpty && !txn {
		return 0 // an administrator, or a consumer without a group
	}
	switch {
	case generation >= 0 || id != "" || instance != nil:
		m, code := c.check(id, instance)
		if code != 0 {
			return code
		}
		if generation != c.generation {
			return codeIllegalGeneration
		}
		if txn {
			return 0
		}
		if c.state == stateCompleting {
			return codeRebalance
		}
		c.heartbeat(now, m)
		return 0
	case txn || c.state == stateEmpty:
		return 0
	}
	return codeUnknownMember
}

func (c *classicGroup) heartbeat(now time.Time, m *classicMember) {
	c.s.arm(&m.session, now.Add(m.sessionTimeout))
}
