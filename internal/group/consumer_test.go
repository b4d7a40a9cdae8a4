package group

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
)

type beat = func(*kmsg.ConsumerGroupHeartbeatRequest)

// heartbeat sends one; a first one begins with what it must say.
func (w *world) heartbeat(group, member string, epoch int32, change ...beat) (resp *kmsg.ConsumerGroupHeartbeatResponse) {
	w.t.Helper()
	req := &kmsg.ConsumerGroupHeartbeatRequest{Version: 1, Group: group, MemberID: member, MemberEpoch: epoch, RebalanceTimeoutMillis: -1}
	for _, c := range change {
		c(req)
	}
	w.do(w.s.ConsumerGroupHeartbeat(w.now, Client{"client", "/127.0.0.1"}, req, func(r *kmsg.ConsumerGroupHeartbeatResponse) { resp = r }))
	if resp == nil && !w.hold {
		w.t.Fatal("a heartbeat is not answered")
	}
	return resp
}

func subscribe(topics ...string) beat {
	return func(r *kmsg.ConsumerGroupHeartbeatRequest) {
		r.RebalanceTimeoutMillis, r.SubscribedTopicNames, r.Topics = 30000, append([]string{}, topics...), []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
}

func owning(p partitions) beat {
	return func(r *kmsg.ConsumerGroupHeartbeatRequest) {
		r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		for _, tp := range p.target() {
			r.Topics = append(r.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: tp.TopicID, Partitions: tp.Partitions})
		}
	}
}

// A consumer is a member as a client sees itself: it gives up at once what it is told to.
type consumer struct {
	w         *world
	group, id string
	epoch     int32
	own       partitions
	change    []beat
}

func (w *world) consumer(group, id string, change ...beat) *consumer {
	return &consumer{w: w, group: group, id: id, own: partitions{}, change: change}
}

func (c *consumer) beat() int16 {
	c.w.t.Helper()
	change := []beat{owning(c.own)}
	if c.epoch == 0 {
		change = c.change
	}
	r := c.w.heartbeat(c.group, c.id, c.epoch, change...)
	switch {
	case r == nil: // not yet: to this client it is lost
		return 0
	case r.ErrorCode == codeFencedEpoch || r.ErrorCode == codeUnknownMember:
		c.epoch, c.own = 0, partitions{}
	case r.ErrorCode == 0:
		c.epoch = r.MemberEpoch
		if r.Assignment != nil {
			var own gathered
			for _, t := range r.Assignment.Topics {
				for _, p := range t.Partitions {
					own.add(t.TopicID, p, 0)
				}
			}
			c.own = own.partitions()
		}
	}
	return r.ErrorCode
}

// settle lets members heartbeat until nothing changes.
func (w *world) settle(members ...*consumer) string {
	w.t.Helper()
	for range 6 {
		w.pass(2 * time.Second)
		for _, m := range members {
			if code := m.beat(); code != 0 {
				w.t.Fatalf("%s: code %d", m.id, code)
			}
		}
	}
	return w.show(members...)
}

func (w *world) show(members ...*consumer) string {
	var out []string
	for _, m := range members {
		var parts []string
		for _, t := range m.own {
			parts = append(parts, fmt.Sprint(w.image.TopicByID(t.topic).Name, t.numbers()))
		}
		out = append(out, fmt.Sprintf("%s %s", m.id, strings.Join(parts, "+")))
	}
	return strings.Join(out, "; ")
}

func TestConsumerRecords(t *testing.T) {
	w := newWorld(t)
	r := w.heartbeat("g", "a", 0, subscribe("orders"))
	w.want("answer", fmt.Sprintf("%d %s %d %d %v", r.ErrorCode, *r.MemberID, r.MemberEpoch, r.HeartbeatIntervalMillis, r.Assignment.Topics[0].Partitions), "0 a 2 5000 [0 1 2 3]")
	hash := w.s.groups["g"].consumer.metadataHash
	id := topicID("orders").String()
	want := fmt.Sprintf(`{"type":5,"data":{"groupId":"g","memberId":"a"}} {"version":0,"data":{"instanceId":null,"rackId":null,"clientId":"client","clientHost":"/127.0.0.1","subscribedTopicNames":["orders"],"subscribedTopicRegex":"","rebalanceTimeoutMs":30000,"serverAssignor":null,"classicMemberMetadata":null}}
{"type":3,"data":{"groupId":"g"}} {"version":0,"data":{"epoch":2,"metadataHash":%d}}
{"type":7,"data":{"groupId":"g","memberId":"a"}} {"version":0,"data":{"topicPartitions":[{"topicId":"%s","partitions":[0,1,2,3]}]}}
{"type":6,"data":{"groupId":"g"}} {"version":0,"data":{"assignmentEpoch":2,"assignmentTimestamp":1800000000000}}
{"type":8,"data":{"groupId":"g","memberId":"a"}} {"version":0,"data":{"memberEpoch":2,"previousMemberEpoch":0,"state":0,"assignedPartitions":[{"topicId":"%s","partitions":[0,1,2,3],"assignmentEpochs":[2,2,2,2]}],"partitionsPendingRevocation":[]}}
`, hash, id, id)
	if got := w.lines(0); got != want {
		t.Errorf("log:\n%s\nwant\n%s", got, want)
	}
	w.want("one batch", w.batch, []int{0})
	n := len(w.log)
	w.heartbeat("g", "a", 2)
	w.want("nothing new, nothing written", len(w.log), n)
	w.heartbeat("g", "a", -1)
	want = `{"type":8,"data":{"groupId":"g","memberId":"a"}} <DELETE>
{"type":7,"data":{"groupId":"g","memberId":"a"}} <DELETE>
{"type":5,"data":{"groupId":"g","memberId":"a"}} <DELETE>
{"type":3,"data":{"groupId":"g"}} {"version":0,"data":{"epoch":3}}
`
	if got := w.lines(n); got != want {
		t.Errorf("log:\n%s\nwant\n%s", got, want)
	}
	n = len(w.log)
	w.do(w.s.DeleteGroup(w.now, "g", func(code int16) { w.want("delete", code, 0) }))
	want = `{"type":6,"data":{"groupId":"g"}} <DELETE>
{"type":4,"data":{"groupId":"g"}} <DELETE>
{"type":3,"data":{"groupId":"g"}} <DELETE>
`
	if got := w.lines(n); got != want {
		t.Errorf("log:\n%s\nwant\n%s", got, want)
	}
	w.want("groups", len(w.s.groups), 0)
}

func TestConsumerValidation(t *testing.T) {
	w := newWorld(t)
	assignor, regex, blank := "no-such", "(", " "
	for _, test := range []struct {
		what   string
		group  string
		epoch  int32
		want   int16
		change []beat
	}{
		{"no rebalance timeout", "g", 0, codeInvalidRequest, []beat{subscribe("orders"), func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = -1 }}},
		{"null owned", "g", 0, codeInvalidRequest, []beat{subscribe("orders"), func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = nil }}},
		{"owned", "g", 0, codeInvalidRequest, []beat{subscribe("orders"), owning(partitions{{kmeta.UUID{1}, []partitionEpoch{{0, 0}}}})}},
		{"no names", "g", 0, codeInvalidRequest, []beat{subscribe(), func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = nil }}},
		{"unknown assignor", "g", 0, codeUnsupportedAssignor, []beat{subscribe("orders"), func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = &assignor }}},
		{"bad regex", "g", 0, codeInvalidRegex, []beat{subscribe(), func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = &regex }}},
		{"blank instance", "g", 0, codeInvalidRequest, []beat{subscribe(), func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = &blank }}},
		{"no member id", "g", 0, codeInvalidRequest, []beat{subscribe(), func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID = "" }}},
		{"no group id", "", 0, codeInvalidRequest, []beat{subscribe("orders")}},
		{"-2 without an instance", "g", -2, codeInvalidRequest, nil},
		{"-3", "g", -3, codeInvalidRequest, nil},
		{"unknown group", "g", 5, codeNoGroup, nil},
		{"leaving an unknown group", "g", -1, codeNoGroup, nil},
	} {
		w.want(test.what, w.heartbeat(test.group, "m", test.epoch, test.change...).ErrorCode, test.want)
	}
	w.want("nothing came of it", len(w.log)+len(w.s.groups), 0)
	w.want("no topics at all", w.heartbeat("g", "m", 0, subscribe()).ErrorCode, 0)
	w.want("unknown member", w.heartbeat("g", "n", 5).ErrorCode, codeUnknownMember)
	w.form(w.joiner("classic"))
	w.want("a classic group of another kind", w.heartbeat("classic", "m", 0, subscribe("orders")).ErrorCode, codeNoGroup)
	w.config.ConsumerProtocol = false
	w.s.SetConfig(w.config)
	w.want("switched off", w.heartbeat("h", "m", 0, subscribe()).ErrorCode, codeUnsupportedVersion)
}

func TestReconciliation(t *testing.T) {
	w := newWorld(t)
	a, b := w.consumer("g", "a", subscribe("orders")), w.consumer("g", "b", subscribe("orders"))
	w.want("a alone", w.settle(a), "a orders[0 1 2 3]")
	b.beat()
	w.want("b joins into a group that assigns", w.show(a, b)+" "+w.s.groups["g"].consumer.state().String(), "a orders[0 1 2 3]; b  Reconciling")
	w.pass(2 * time.Second)
	a.beat()
	w.want("a has to give up first", fmt.Sprint(a.epoch, w.s.groups["g"].consumer.members["a"].state), "2 1")
	b.beat()
	w.want("b waits", w.show(b), "b ")
	lost := w.heartbeat("g", "a", a.epoch, owning(a.own)) // this answer never arrives
	w.want("given up", fmt.Sprint(lost.ErrorCode, lost.MemberEpoch), "0 3")
	again := w.heartbeat("g", "a", a.epoch, owning(a.own))
	w.want("the same again", fmt.Sprint(again.ErrorCode, again.MemberEpoch), "0 3")
	w.want("an epoch from the future", w.heartbeat("g", "a", 9).ErrorCode, codeFencedEpoch)
	w.want("the epoch before, owning what it must not", w.heartbeat("g", "a", 2, owning(partitions{{topicID("orders"), []partitionEpoch{{0, 0}, {1, 0}, {2, 0}, {3, 0}}}})).ErrorCode, codeFencedEpoch)
	w.want("both", w.settle(a, b), "a orders[0 1]; b orders[2 3]")
	w.want("state", w.s.groups["g"].consumer.state(), "Stable")
	rejoin := w.heartbeat("g", "a", 0, subscribe("orders"))
	w.want("joining again", fmt.Sprint(rejoin.ErrorCode, rejoin.Assignment != nil), "0 true")
	w.want("b leaves", w.heartbeat("g", "b", -1).MemberEpoch, -1)
	a.epoch = rejoin.MemberEpoch
	w.want("a has all", w.settle(a), "a orders[0 1 2 3]")
	a.change = []beat{subscribe("orders", "payments")}
	a.epoch = 0
	w.want("more topics", w.settle(a), "a orders[0 1 2 3]+payments[0 1 2]")
	was := w.image
	w.image = imageOf(t, "orders:5", "payments:3")
	w.s.OnImage(w.now, &metadata.Delta{Before: was, After: w.image, Changed: []metadata.PartitionChange{{Topic: w.image.Topic("orders"), Partition: 4}}})
	w.want("a topic grows", w.settle(a), "a orders[0 1 2 3 4]+payments[0 1 2]")
	w.restart()
	w.want("after a restart", w.settle(a), "a orders[0 1 2 3 4]+payments[0 1 2]")
	w.pass(46 * time.Second)
	w.want("a's session ends", w.s.ConsumerGroupDescribe(w.now, "g").State, "Empty")
}

func TestRevocationTimeout(t *testing.T) {
	w := newWorld(t)
	a, b := w.consumer("g", "a", subscribe("orders")), w.consumer("g", "b", subscribe("orders"))
	w.settle(a)
	b.beat()
	for range 8 {
		w.pass(5 * time.Second)
		w.heartbeat("g", "a", 2, owning(partitions{{topicID("orders"), []partitionEpoch{{0, 0}, {1, 0}, {2, 0}, {3, 0}}}}))
		b.beat()
	}
	w.want("a is out", w.heartbeat("g", "a", 2).ErrorCode, codeUnknownMember)
	w.want("b has all", w.settle(b), "b orders[0 1 2 3]")
}

func TestStaticConsumers(t *testing.T) {
	w := newWorld(t)
	static := func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = kmsg.StringPtr("i") }
	w.want("a joins", w.heartbeat("g", "a", 0, subscribe("orders"), static).ErrorCode, 0)
	w.want("b while a lives", w.heartbeat("g", "b", 0, subscribe("orders"), static).ErrorCode, codeUnreleasedInstance)
	w.want("a goes for a while", w.heartbeat("g", "a", -2, static).MemberEpoch, -2)
	w.restart()
	w.want("state", w.s.ConsumerGroupDescribe(w.now, "g").State, "Reconciling")
	r := w.heartbeat("g", "b", 0, subscribe("orders"), static)
	w.want("b has the same at once", fmt.Sprint(r.ErrorCode, r.Assignment.Topics[0].Partitions), "0 [0 1 2 3]")
	w.want("a is fenced", w.heartbeat("g", "a", 2, static).ErrorCode, codeFencedInstance)
	w.want("an unknown instance", w.heartbeat("g", "a", 2, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = kmsg.StringPtr("x") }).ErrorCode, codeUnknownMember)
	w.want("members", len(w.s.ConsumerGroupDescribe(w.now, "g").Members), 1)
}

func TestRegex(t *testing.T) {
	w := newWorld(t)
	regex := "ord.*"
	a := w.consumer("g", "a", subscribe(), func(r *kmsg.ConsumerGroupHeartbeatRequest) {
		r.SubscribedTopicNames, r.SubscribedTopicRegex = nil, &regex
	})
	w.want("matches", w.settle(a), "a orders[0 1 2 3]")
	was := w.image
	w.image = imageOf(t, "orders:4", "payments:3", "order:1", "reorders:2")
	w.s.OnImage(w.now, &metadata.Delta{Before: was, After: w.image, Created: []*metadata.Topic{w.image.Topic("order")}})
	w.want("whole names", w.settle(a), "a order[0]+orders[0 1 2 3]")
	n := len(w.log)
	w.heartbeat("g", "a", -1)
	if !strings.Contains(w.lines(n), `{"type":16,"data":{"groupId":"g","regularExpression":"ord.*"}} <DELETE>`) {
		t.Errorf("log:\n%s", w.lines(n))
	}
}

func TestConsumerCommits(t *testing.T) {
	w := newWorld(t)
	a := w.consumer("g", "a", subscribe("orders"))
	w.settle(a)
	b := w.consumer("g", "b", subscribe("orders"))
	w.settle(a, b)
	kept := a.own.of(topicID("orders"))[0].partition
	taken := b.own.of(topicID("orders"))[0].partition
	w.want("the right epoch", w.commit("g", "a", a.epoch, "orders", kept, 5, version(9)), 0)
	w.want("an older epoch, had it then", w.commit("g", "a", 2, "orders", kept, 6, version(9)), 0)
	w.want("an older epoch, lost it", w.commit("g", "a", 2, "orders", taken, 6, version(9)), codeStaleEpoch)
	w.want("before it had it", w.commit("g", "a", 1, "orders", kept, 6, version(9)), codeStaleEpoch)
	w.want("a later epoch", w.commit("g", "a", 9, "orders", kept, 6, version(9)), codeStaleEpoch)
	w.want("unknown member", w.commit("g", "x", 2, "orders", kept, 6, version(9)), codeUnknownMember)
	w.want("no member", w.commit("g", "", -1, "orders", kept, 6, version(9)), codeUnknownMember)
	w.want("v8", w.commit("g", "a", a.epoch, "orders", kept, 6), codeUnsupportedVersion)
	fetch := func(member string, epoch int32) int16 {
		return w.s.OffsetFetch(w.now, &kmsg.OffsetFetchRequestGroup{Group: "g", MemberID: &member, MemberEpoch: epoch}, 9, true).ErrorCode
	}
	w.want("fetches", fmt.Sprint(fetch("a", a.epoch), fetch("a", 2), fetch("x", 2), fetch("", -1)), fmt.Sprint(0, codeStaleEpoch, codeUnknownMember, 0))
}

func TestMigration(t *testing.T) {
	w := newWorld(t)
	w.config.MigrationPolicy = "disabled"
	w.s.SetConfig(w.config)
	classic := w.joiner("g")
	classic.kind, classic.metadata = "consumer", kmeta.AppendSubscription(nil, &kmeta.ConsumerSubscription{Topics: []string{"orders"}}, 1)
	classic.enter()
	w.pass(3 * time.Second)
	all := kmeta.AppendAssignment(nil, &kmeta.ConsumerAssignment{AssignedPartitions: []kmeta.ConsumerTopicPartitions{{Topic: "orders", Partitions: []int32{0, 1, 2, 3}}}}, 1)
	classic.sendSync(map[string]string{classic.id: string(all)})
	w.commit("g", classic.id, classic.generation, "orders", 2, 9)
	w.want("not allowed", w.heartbeat("g", "m", 0, subscribe("orders")).ErrorCode, codeNoGroup)
	w.config.MigrationPolicy = "bidirectional"
	w.s.SetConfig(w.config)
	m := w.consumer("g", "m", subscribe("orders"))
	w.want("a newer member joins", m.beat(), 0)
	kind := func() string { return w.s.ListGroups(w.now, &kmsg.ListGroupsRequest{})[0].GroupType }
	w.want("type", kind(), "consumer")
	own := []int32{0, 1, 2, 3}
	for range 6 {
		w.pass(2 * time.Second)
		if classic.heartbeat() == codeRebalance {
			classic.metadata = kmeta.AppendSubscription(nil, &kmeta.ConsumerSubscription{Topics: []string{"orders"}, OwnedPartitions: []kmeta.ConsumerTopicPartitions{{Topic: "orders", Partitions: own}}}, 1)
			classic.sendJoin().sendSync(nil)
			a, _, err := kmeta.ReadAssignment(classic.sync.MemberAssignment)
			if err != nil {
				t.Fatal(err)
			}
			own = a.AssignedPartitions[0].Partitions
		}
		w.want("beat", m.beat(), 0)
	}
	w.want("shared", fmt.Sprintf("%v %s", own, w.show(m)), "[0 1] m orders[2 3]")
	w.restart()
	w.want("heartbeats after a restart", fmt.Sprint(classic.heartbeat(), m.beat()), "0 0")
	w.want("the newer one leaves", w.heartbeat("g", "m", -1).ErrorCode, 0)
	w.want("type", kind(), "classic")
	w.want("the group rebalances", w.s.DescribeGroup(w.now, "g", 6).State, "PreparingRebalance")
	w.want("what was read is committed", w.commit("g", classic.id, classic.generation, "orders", 0, 7), 0)
	classic.sendJoin()
	w.want("goes on", fmt.Sprint(classic.join.ErrorCode, len(classic.join.Members)), "0 1")
	offset, _ := w.committed("g", "orders", 2, false)
	w.want("offsets are kept", offset, 9)
	w.restart()
	w.want("type after a restart", kind(), "classic")

	e := w.consumer("h", "e", subscribe("orders"))
	e.beat()
	w.heartbeat("h", "e", -1)
	c := w.joiner("h").enter()
	w.pass(3 * time.Second)
	w.want("an empty group turns classic", fmt.Sprintf("%d %s", c.join.ErrorCode, w.s.DescribeGroup(w.now, "h", 6).State), "0 CompletingRebalance")
}

func TestAssignors(t *testing.T) {
	image := imageOf(t, "a:4", "b:4", "c:3")
	topics := func(names ...string) map[kmeta.UUID]*metadata.Topic {
		out := map[kmeta.UUID]*metadata.Topic{}
		for _, n := range names {
			out[topicID(n)] = image.Topic(n)
		}
		return out
	}
	show := func(out map[string]partitions) (s string) {
		for _, id := range slices.Sorted(maps.Keys(out)) {
			s += id
			for _, t := range out[id] {
				s += fmt.Sprint(" ", image.TopicByID(t.topic).Name, t.numbers())
			}
			s += "; "
		}
		return s
	}
	two := []assignee{{id: "x", topics: topics("a", "b")}, {id: "y", topics: topics("a", "b")}, {id: "z", topics: topics("a", "b")}}
	got := show(assignRange(two))
	if want := "x a[0 1] b[0 1]; y a[2] b[2]; z a[3] b[3]; "; got != want {
		t.Errorf("range: %s, want %s", got, want)
	}
	size := func(p partitions) (n int) {
		for _, t := range p {
			n += len(t.parts)
		}
		return n
	}
	first := assignUniform(two)
	if got, want := fmt.Sprint(size(first["x"]), size(first["y"]), size(first["z"])), "3 3 2"; got != want {
		t.Errorf("uniform: %s, want %s", got, want)
	}
	for i := range two {
		two[i].has = first[two[i].id]
	}
	fewer := assignUniform(two[:2])
	for _, id := range []string{"x", "y"} {
		if !first[id].within(fewer[id]) || size(fewer[id]) != 4 {
			t.Errorf("uniform moved partitions of %s: %s, then %s", id, show(first), show(fewer))
		}
	}
	got = show(assignUniform([]assignee{{id: "x", topics: topics("a", "b", "c")}, {id: "y", topics: topics("c")}}))
	if want := "x a[0 1 2 3] b[0 1 2 3]; y c[0 1 2]; "; got != want {
		t.Errorf("uniform, unlike subscriptions: %s, want %s", got, want)
	}
}
