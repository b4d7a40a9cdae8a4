package group

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
)

// A world is a shard, its log and a clock that tests move by hand.
type world struct {
	t      testing.TB
	s      *Shard
	now    time.Time
	log    []Entry
	batch  []int // where batches begin
	image  *metadata.Image
	config Config
	ids    byte
	events []Event
	fail   error // what appends end with
	held   []Effect
	hold   bool // appended and replayed, but not committed yet
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, now: time.UnixMilli(1_800_000_000_000), config: DefaultConfig(), image: imageOf(t, "orders:4", "payments:3")}
	w.s = w.shard()
	w.s.Loaded(w.now)
	return w
}

func (w *world) shard() *Shard {
	return NewShard(Options{
		Config: w.config, Image: func() *metadata.Image { return w.image },
		OnEvent: func(e Event) { w.events = append(w.events, e) },
		NewID:   func() kmeta.UUID { w.ids++; return kmeta.UUID{15: w.ids} },
	})
}

// topicID is the id that imageOf gives a topic.
func topicID(name string) (id kmeta.UUID) {
	copy(id[:], "id of "+name)
	return id
}

// imageOf makes an image of topics, each "name:partitions" or "name:partitions:id".
func imageOf(t testing.TB, topics ...string) *metadata.Image {
	r := metadata.NewReplayer(metadata.Empty())
	var recs []kmeta.Record
	for _, topic := range topics {
		parts := strings.Split(topic, ":")
		id := topicID(parts[0])
		if len(parts) > 2 {
			id = topicID(parts[2])
		}
		recs = append(recs, &kmeta.TopicRecord{Name: parts[0], TopicID: id})
		n := 0
		fmt.Sscan(parts[1], &n)
		for p := range n {
			recs = append(recs, &kmeta.PartitionRecord{TopicID: id, PartitionID: int32(p), Replicas: []int32{1}, ISR: []int32{1}, Leader: 1})
		}
	}
	image, _, err := r.Replay(recs, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// do carries out an effect as the runtime does.
func (w *world) do(e Effect) {
	w.t.Helper()
	if len(e.Records) > 0 {
		if w.fail != nil {
			if e.Then != nil {
				e.Then(w.fail)
			}
			return
		}
		w.batch = append(w.batch, len(w.log))
		for _, r := range e.Records {
			entry := Entry{Record: r, Offset: int64(len(w.log)), Producer: e.Producer}
			w.log = append(w.log, entry)
			if err := w.s.Replay(&entry); err != nil {
				w.t.Fatal(err)
			}
		}
		if w.hold {
			w.held = append(w.held, e)
			return
		}
	}
	if e.Then != nil {
		e.Then(nil)
	}
}

// pass lets time go by, timer by timer.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	end := w.now.Add(d)
	for {
		at, ok := w.s.NextTimer()
		if !ok || at.After(end) {
			break
		}
		w.now = later(w.now, at)
		w.do(w.s.Tick(w.now))
	}
	w.now = end
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// commitHeld lets what is held be committed.
func (w *world) commitHeld(err error) {
	held := w.held
	w.hold, w.held = false, nil
	for _, e := range held {
		if e.Then != nil {
			e.Then(err)
		}
	}
}

// restart loads a new shard from the log.
func (w *world) restart() {
	w.t.Helper()
	w.s.Unload()
	w.commitHeld(kerr.NotCoordinator)
	w.s = w.shard()
	for _, e := range w.log {
		if err := w.s.Replay(&e); err != nil {
			w.t.Fatal(err)
		}
	}
	w.s.Loaded(w.now)
}

// lines are the log since a length, as Kafka's tools print it.
func (w *world) lines(since int) string {
	var b strings.Builder
	for _, e := range w.log[since:] {
		b.WriteString(recordLine(w.t, e.Record) + "\n")
	}
	return b.String()
}

func recordLine(t testing.TB, r Record) string {
	k, err := kmeta.ReadKey(kmeta.OffsetsLog, r.Key)
	if err != nil {
		t.Fatal(err)
	}
	line := string(kmeta.AppendKeyJSON(nil, k, false)) + " "
	if r.Value == nil {
		return line + "<DELETE>"
	}
	v, version, err := kmeta.ReadVersioned(k, r.Value)
	if err != nil {
		t.Fatal(err)
	}
	return line + string(kmeta.AppendVersionedJSON(nil, v, version, false))
}

// A joiner is a classic member as a client sees itself.
type joiner struct {
	w          *world
	group, id  string
	instance   *string
	kind       string
	protocols  []string
	metadata   []byte
	session    time.Duration
	rebalance  time.Duration
	version    int16
	generation int32
	join       *kmsg.JoinGroupResponse // the last answer; nil: held
	sync       *kmsg.SyncGroupResponse
	answers    int
}

func (w *world) joiner(group string) *joiner {
	return &joiner{w: w, group: group, kind: "connect", protocols: []string{"p"}, metadata: []byte("m"), session: 10 * time.Second, rebalance: 20 * time.Second, version: 9}
}

func (j *joiner) sendJoin() *joiner {
	j.w.t.Helper()
	req := &kmsg.JoinGroupRequest{
		Version: j.version, Group: j.group, MemberID: j.id, InstanceID: j.instance, ProtocolType: j.kind,
		SessionTimeoutMillis: int32(j.session.Milliseconds()), RebalanceTimeoutMillis: int32(j.rebalance.Milliseconds()),
	}
	for _, p := range j.protocols {
		req.Protocols = append(req.Protocols, kmsg.JoinGroupRequestProtocol{Name: p, Metadata: j.metadata})
	}
	j.join = nil
	j.w.do(j.w.s.JoinGroup(j.w.now, Client{"client", "/127.0.0.1"}, req, func(r *kmsg.JoinGroupResponse) {
		j.join = r
		j.answers++
		if r.ErrorCode == 0 || r.ErrorCode == codeMemberIDRequired {
			j.id, j.generation = r.MemberID, r.Generation
		}
	}))
	return j
}

// enter joins, with an id first if need be.
func (j *joiner) enter() *joiner {
	j.w.t.Helper()
	j.sendJoin()
	if j.join != nil && j.join.ErrorCode == codeMemberIDRequired {
		j.sendJoin()
	}
	return j
}

func (j *joiner) sendSync(assignments map[string]string) *joiner {
	j.w.t.Helper()
	req := &kmsg.SyncGroupRequest{Version: 5, Group: j.group, MemberID: j.id, InstanceID: j.instance, Generation: j.generation}
	for _, id := range slices.Sorted(maps.Keys(assignments)) {
		req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: id, MemberAssignment: []byte(assignments[id])})
	}
	j.sync = nil
	j.w.do(j.w.s.SyncGroup(j.w.now, req, func(r *kmsg.SyncGroupResponse) { j.sync = r }))
	return j
}

func (j *joiner) heartbeat() int16 {
	return j.w.s.Heartbeat(j.w.now, &kmsg.HeartbeatRequest{Version: 4, Group: j.group, MemberID: j.id, InstanceID: j.instance, Generation: j.generation})
}

func (j *joiner) leave(version int16) (resp *kmsg.LeaveGroupResponse) {
	j.w.t.Helper()
	req := &kmsg.LeaveGroupRequest{Version: version, Group: j.group, MemberID: j.id}
	if version >= 3 {
		req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: j.id, InstanceID: j.instance}}
	}
	j.w.do(j.w.s.LeaveGroup(j.w.now, req, func(r *kmsg.LeaveGroupResponse) { resp = r }))
	return resp
}

// form brings members into one generation and gives each its assignment.
func (w *world) form(members ...*joiner) {
	w.t.Helper()
	for _, j := range members {
		j.enter()
	}
	for range 5 { // the initial delay, extended while they come
		if slices.ContainsFunc(members, func(j *joiner) bool { return j.join == nil }) {
			w.pass(w.config.InitialRebalanceDelay)
		}
	}
	assignments := map[string]string{}
	for _, j := range members {
		if j.join == nil || j.join.ErrorCode != 0 {
			w.t.Fatalf("join: %+v", j.join)
		}
		assignments[j.id] = "for " + j.id
	}
	for _, j := range members {
		if j.id == j.join.LeaderID {
			j.sendSync(assignments)
		}
	}
	for _, j := range members {
		if j.id != j.join.LeaderID {
			j.sendSync(nil)
		}
		if j.sync == nil || string(j.sync.MemberAssignment) != "for "+j.id {
			w.t.Fatalf("sync: %+v", j.sync)
		}
	}
}

func (w *world) commit(group, member string, generation int32, topic string, partition int32, offset int64, change ...func(*kmsg.OffsetCommitRequest)) (code int16) {
	w.t.Helper()
	req := &Commit{Request: kmsg.OffsetCommitRequest{Version: 8, Group: group, MemberID: member, Generation: generation, RetentionTimeMillis: -1, Topics: []kmsg.OffsetCommitRequestTopic{{
		Topic: topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: partition, Offset: offset, LeaderEpoch: -1}},
	}}}}
	for _, c := range change {
		c(&req.Request)
	}
	code = -100
	w.do(w.s.OffsetCommit(w.now, req, func(r *kmsg.OffsetCommitResponse) { code = r.Topics[0].Partitions[0].ErrorCode }))
	return code
}

func (w *world) committed(group, topic string, partition int32, stable bool) (offset int64, code int16) {
	req := &kmsg.OffsetFetchRequestGroup{Group: group, MemberEpoch: -1, Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic, Partitions: []int32{partition}}}}
	p := w.s.OffsetFetch(w.now, req, 8, stable).Topics[0].Partitions[0]
	return p.Offset, p.ErrorCode
}

func (w *world) want(what string, got, want any) {
	w.t.Helper()
	g, _ := json.Marshal(got)
	v, _ := json.Marshal(want)
	if !bytes.Equal(g, v) {
		w.t.Errorf("%s: %s, want %s", what, g, v)
	}
}

func TestFirstRecords(t *testing.T) {
	w := newWorld(t)
	a := w.joiner("g")
	w.form(a)
	w.pass(time.Second)
	a.leave(5)
	got := w.lines(0)
	want := strings.ReplaceAll(`{"type":2,"data":{"group":"g"}} {"version":3,"data":{"protocolType":"","generation":0,"protocol":null,"leader":null,"currentStateTimestamp":1800000000000,"members":[]}}
{"type":2,"data":{"group":"g"}} {"version":3,"data":{"protocolType":"connect","generation":1,"protocol":"p","leader":"ID","currentStateTimestamp":1800000003000,"members":[{"memberId":"ID","groupInstanceId":null,"clientId":"client","clientHost":"/127.0.0.1","rebalanceTimeout":20000,"sessionTimeout":10000,"subscription":"bQ==","assignment":"Zm9yIGNsaWVudC0wMDAwMDAwMC0wMDAwLTAwMDAtMDAwMC0wMDAwMDAwMDAwMDE="}]}}
{"type":2,"data":{"group":"g"}} {"version":3,"data":{"protocolType":"connect","generation":2,"protocol":null,"leader":null,"currentStateTimestamp":1800000004000,"members":[]}}
`, "ID", "client-00000000-0000-0000-0000-000000000001")
	if got != want {
		t.Errorf("log:\n%s\nwant\n%s", got, want)
	}
}

func TestAbandonedIDs(t *testing.T) {
	w := newWorld(t)
	for range 50 {
		d := w.joiner("g").sendJoin()
		w.want("first join", d.join.ErrorCode, codeMemberIDRequired)
	}
	w.want("groups", len(w.s.groups["g"].classic.pendingJoins), 50)
	m := w.joiner("g").enter()
	w.pass(3 * time.Second)
	w.want("a real member", m.join.ErrorCode, 0)
	m.sendSync(map[string]string{m.id: "x"})
	for range 4 {
		w.pass(4 * time.Second)
		w.want("heartbeat", m.heartbeat(), 0)
	}
	w.want("ids left", len(w.s.groups["g"].classic.pendingJoins), 0)
	w.joiner("pending").sendJoin()
	var code int16 = -1
	w.do(w.s.DeleteGroup(w.now, "pending", func(c int16) { code = c }))
	w.want("deleting a group of ids", code, 0)
	if w.s.groups["pending"] != nil {
		t.Error("the group is still there")
	}
}

func TestTwoMembers(t *testing.T) {
	w := newWorld(t)
	a, b := w.joiner("g"), w.joiner("g")
	a.metadata, b.metadata = []byte("of a"), []byte("of b")
	w.form(a)
	w.want("alone", a.generation, 1)
	b.enter()
	w.want("b waits", b.join, nil)
	w.want("a learns of it", a.heartbeat(), codeRebalance)
	a.sendJoin()
	w.want("both are there", fmt.Sprint(a.join != nil, b.join != nil, a.generation, b.generation), "true true 2 2")
	w.want("the leader stays", b.join.LeaderID, a.id)
	w.want("members", fmt.Sprint(len(a.join.Members), len(b.join.Members)), "2 0")
	w.want("metadata", string(a.join.Members[1].ProtocolMetadata), "of b")
	w.want("between join and sync", b.heartbeat(), 0)
	b.sendSync(nil)
	w.want("b waits for the leader", b.sync, nil)
	a.sendSync(map[string]string{a.id: "all"})
	w.want("left out: empty, not null", fmt.Sprintf("%d %#v", b.sync.ErrorCode, b.sync.MemberAssignment), "0 []byte{}")
	w.want("stable", w.s.DescribeGroup(w.now, "g", 6).State, "Stable")
	a.sendJoin()
	w.want("the leader joins again", b.heartbeat(), codeRebalance)
	w.pass(9 * time.Second)
	b.heartbeat()
	w.pass(9 * time.Second)
	b.heartbeat()
	w.pass(3 * time.Second)
	w.want("after the rebalance timeout b is out", fmt.Sprint(b.heartbeat(), a.join.ErrorCode, len(a.join.Members)), "25 0 1")
}

func TestLeaderNeverSyncs(t *testing.T) {
	w := newWorld(t)
	a, b := w.joiner("g"), w.joiner("g")
	w.form(a, b)
	a.sendJoin()
	b.sendJoin()
	leader, follower := a, b
	follower.sendSync(nil)
	w.want("held", follower.sync, nil)
	for range 4 {
		w.pass(6 * time.Second)
		leader.heartbeat()
	}
	w.want("a new round", follower.sync.ErrorCode, codeRebalance)
	w.want("the leader is out", leader.heartbeat(), codeUnknownMember)
	follower.sendJoin()
	w.want("the follower leads", follower.join.LeaderID, follower.id)
}

func TestSessions(t *testing.T) {
	w := newWorld(t)
	a, b := w.joiner("g"), w.joiner("g")
	w.form(a, b)
	w.pass(6 * time.Second)
	w.want("a lives", a.heartbeat(), 0)
	w.pass(6 * time.Second)
	w.want("b is out", fmt.Sprint(a.heartbeat(), b.heartbeat()), fmt.Sprint(codeRebalance, codeUnknownMember))
	a.sendJoin()
	a.sendSync(map[string]string{a.id: "x"})
	w.pass(11 * time.Second)
	d := w.s.DescribeGroup(w.now, "g", 5)
	w.want("nobody is left", fmt.Sprintf("%s %d %s", d.State, len(d.Members), d.ProtocolType), "Empty 0 connect")
	w.want("causes", w.events[len(w.events)-3].Cause, "session timeout")
}

func TestHeldJoinOfADeadConnection(t *testing.T) {
	w := newWorld(t)
	a := w.joiner("g")
	a.session, a.rebalance = 30*time.Minute, time.Hour
	w.form(a)
	b := w.joiner("g").enter()
	for range 9 {
		w.pass(time.Minute)
		a.heartbeat()
	}
	w.want("b is given up after five minutes", b.join.ErrorCode, codeUnknownMember)
}

func TestStaticMembers(t *testing.T) {
	for _, version := range []int16{5, 9} {
		w := newWorld(t)
		a, b := w.joiner("g"), w.joiner("g")
		a.instance, b.instance = kmsg.StringPtr("one"), kmsg.StringPtr("two")
		w.form(a, b)
		old := *a
		a.id, a.version = "", version
		n := len(w.log)
		a.sendJoin()
		w.want("no rebalance", fmt.Sprint(a.join.ErrorCode, a.join.Generation, b.heartbeat()), fmt.Sprint(0, b.generation, 0))
		w.want("a record", len(w.log)-n, 1)
		w.want("skips", a.join.SkipAssignment, version == 9)
		w.want("believes to lead", a.join.LeaderID == a.id, version == 9)
		w.want("the old id", old.heartbeat(), codeFencedInstance)
		as := func(r *kmsg.OffsetCommitRequest) { r.InstanceID = a.instance }
		w.want("a commit of the old id", w.commit("g", old.id, old.generation, "orders", 0, 1, as), codeFencedInstance)
		w.want("a commit of the new id", w.commit("g", a.id, a.join.Generation, "orders", 0, 2, as), 0)
		a.sendSync(nil)
		w.want("its assignment", string(a.sync.MemberAssignment), "for "+old.id)
		w.want("an instance that is unknown", (&joiner{w: w, group: "g", id: a.id, instance: kmsg.StringPtr("x")}).heartbeat(), codeUnknownMember)
		a.id, a.protocols = "", []string{"p", "q"}
		w.fail = errors.New("no space")
		a.metadata = []byte("changed")
		a.sendJoin()
		w.want("not written", a.join.ErrorCode, -1)
		w.fail = nil
		w.want("b does not notice", b.heartbeat(), 0)
		req := &kmsg.LeaveGroupRequest{Version: 5, Group: "g", Members: []kmsg.LeaveGroupRequestMember{{InstanceID: a.instance}, {MemberID: "nobody"}}}
		w.do(w.s.LeaveGroup(w.now, req, func(r *kmsg.LeaveGroupResponse) {
			w.want("leave", fmt.Sprint(r.ErrorCode, r.Members[0].ErrorCode, r.Members[1].ErrorCode), "0 0 25")
		}))
		w.want("b learns", b.heartbeat(), codeRebalance)
	}
}

func TestRefusals(t *testing.T) {
	w := newWorld(t)
	w.config.MaxSize = 2
	w.s.SetConfig(w.config)
	a, b := w.joiner("g"), w.joiner("g")
	w.form(a, b)
	third := w.joiner("g").enter()
	w.want("full", third.join.ErrorCode, codeGroupFull)
	for _, test := range []struct {
		what   string
		change func(*joiner)
		want   int16
	}{
		{"no group id", func(j *joiner) { j.group = "" }, codeInvalidGroup},
		{"session too short", func(j *joiner) { j.session = time.Second }, codeInvalidSession},
		{"session too long", func(j *joiner) { j.session = time.Hour }, codeInvalidSession},
		{"other type", func(j *joiner) { j.group, j.kind = "h", "consumer" }, codeInconsistentProtocol},
		{"no common protocol", func(j *joiner) { j.group, j.protocols = "h", []string{"z"} }, codeInconsistentProtocol},
		{"no protocols", func(j *joiner) { j.group, j.protocols = "new", nil }, codeInconsistentProtocol},
		{"unknown member", func(j *joiner) { j.group, j.id = "h", "nobody" }, codeUnknownMember},
		{"unknown group", func(j *joiner) { j.group, j.id = "nowhere", "nobody" }, codeUnknownMember},
	} {
		if w.s.groups["h"] == nil {
			w.form(w.joiner("h"))
		}
		j := w.joiner("g")
		test.change(j)
		j.sendJoin()
		w.want(test.what, j.join.ErrorCode, test.want)
		w.want(test.what+", generation", j.join.Generation, -1)
	}
	sync := func(change func(*kmsg.SyncGroupRequest)) (code int16) {
		req := &kmsg.SyncGroupRequest{Version: 5, Group: "g", MemberID: a.id, Generation: a.generation}
		change(req)
		w.do(w.s.SyncGroup(w.now, req, func(r *kmsg.SyncGroupResponse) { code = r.ErrorCode }))
		return code
	}
	w.want("sync, generation", sync(func(r *kmsg.SyncGroupRequest) { r.Generation = 9 }), codeIllegalGeneration)
	w.want("sync, member", sync(func(r *kmsg.SyncGroupRequest) { r.MemberID = "x" }), codeUnknownMember)
	w.want("sync, protocol", sync(func(r *kmsg.SyncGroupRequest) { r.Protocol = kmsg.StringPtr("x") }), codeInconsistentProtocol)
	w.want("sync, type", sync(func(r *kmsg.SyncGroupRequest) { r.ProtocolType = kmsg.StringPtr("x") }), codeInconsistentProtocol)
	w.want("sync, right", sync(func(r *kmsg.SyncGroupRequest) {}), 0)
	w.want("leave v2, unknown", (&joiner{w: w, group: "g", id: "x"}).leave(2).ErrorCode, codeUnknownMember)
}

// Requests of a group whose first record cannot be written leave nothing behind.
func TestAppendFails(t *testing.T) {
	w := newWorld(t)
	w.fail = errors.New("no space")
	a := w.joiner("g").sendJoin()
	w.want("join", a.join.ErrorCode, -1)
	w.want("groups", len(w.s.groups), 0)
	w.want("commit", w.commit("s", "", -1, "orders", 0, 5), -1)
	w.want("groups", len(w.s.groups), 0)
	w.fail = nil
	b := w.joiner("g")
	w.form(a, b)
	a.sendJoin()
	b.sendJoin()
	w.fail = errors.New("no space")
	b.sendSync(nil)
	a.sendSync(map[string]string{a.id: "x"})
	w.want("syncs", fmt.Sprint(a.sync.ErrorCode, b.sync.ErrorCode), "-1 -1")
	w.want("a new round", a.heartbeat(), codeRebalance)
	if _, ok := w.s.NextTimer(); !ok {
		t.Error("no timer")
	}
}

// Between append and commit the next events are decided.
func TestPipelining(t *testing.T) {
	w := newWorld(t)
	w.hold = true
	a, b := w.joiner("g").sendJoin(), w.joiner("g").sendJoin()
	w.want("a waits for the record", a.join, nil)
	w.want("b is answered by a group that is there", b.join.ErrorCode, codeMemberIDRequired)
	w.commitHeld(nil)
	w.want("a", a.join.ErrorCode, codeMemberIDRequired)
	w.form(a, b)
	a.sendJoin()
	b.sendJoin()
	w.hold, w.held = true, nil
	a.sendSync(map[string]string{a.id: "x", b.id: "y"})
	w.want("stable only when committed", fmt.Sprint(a.sync, w.s.groups["g"].classic.state), "<nil> CompletingRebalance")
	c := w.joiner("g").enter()
	w.want("a new round answers the sync", a.sync.ErrorCode, codeRebalance)
	w.commitHeld(nil)
	w.want("the commit of the old one changes nothing", fmt.Sprint(w.s.groups["g"].classic.state, c.join), "PreparingRebalance <nil>")
}

func TestUnload(t *testing.T) {
	w := newWorld(t)
	b, c := w.joiner("h"), w.joiner("h")
	w.form(b, c)
	a := w.joiner("g").enter()
	b.sendJoin()
	c.sendJoin()
	c.sendSync(nil)
	w.s.Unload()
	w.want("codes", fmt.Sprint(a.join.ErrorCode, c.sync.ErrorCode), fmt.Sprint(codeNotCoordinator, codeNotCoordinator))
	if _, ok := w.s.NextTimer(); ok {
		t.Error("timers run on")
	}
}

func TestReload(t *testing.T) {
	w := newWorld(t)
	members := []*joiner{w.joiner("g"), w.joiner("g"), w.joiner("g")}
	for _, m := range members {
		m.kind, m.metadata = "consumer", kmeta.AppendSubscription(nil, &kmeta.ConsumerSubscription{Topics: []string{"orders"}}, 1)
	}
	w.form(members...)
	w.want("commit", w.commit("g", members[0].id, members[0].generation, "orders", 0, 5), 0)
	w.want("newer", w.commit("g", members[0].id, members[0].generation, "orders", 0, 7), 0)
	before := w.s.DescribeGroup(w.now, "g", 6)
	w.pass(9 * time.Second)
	w.restart()
	w.want("described", w.s.DescribeGroup(w.now, "g", 6), before)
	offset, _ := w.committed("g", "orders", 0, false)
	w.want("offset", offset, 7)
	for _, m := range members[:2] {
		w.want("same generation", m.heartbeat(), 0)
	}
	w.pass(9 * time.Second)
	w.want("not removed too early", fmt.Sprint(members[0].heartbeat(), members[1].heartbeat()), "0 0")
	w.pass(2 * time.Second)
	w.want("the third is out", members[0].heartbeat(), codeRebalance)
}
