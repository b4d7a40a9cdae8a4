package group

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
)

// dump is all that is durable of a shard, and what Loaded makes of it.
func dump(s *Shard) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.groups)) {
		g := s.groups[name]
		if !g.inLog && g.consumer == nil && len(g.offsets) == 0 && len(g.pending) == 0 {
			continue // soft: ids were handed out
		}
		fmt.Fprintf(&b, "%s inLog=%v\n", name, g.inLog)
		show := func(o offsets) {
			o.each(func(topic string, partition int32, c *committed) bool {
				fmt.Fprintf(&b, "  %s-%d %d %d %q %d %d %v\n", topic, partition, c.offset, c.leaderEpoch, c.metadata, c.commitMs, c.expireMs, c.topicID)
				return true
			})
		}
		show(g.offsets)
		for _, id := range slices.Sorted(maps.Keys(g.pending)) {
			fmt.Fprintf(&b, "  pending of %d\n", id)
			show(g.pending[id])
		}
		if c := g.consumer; c != nil {
			fmt.Fprintf(&b, "  epoch %d hash %d, target of %d at %d, regexes %v, static %v\n", c.epoch, c.metadataHash, c.assignmentEpoch, c.assignedMs, c.regexes, c.static)
			for _, id := range slices.Sorted(maps.Keys(c.members)) {
				m := c.members[id]
				fmt.Fprintf(&b, "  %s %q %v %q %d/%d %d has %v gives up %v\n", id, m.instance, m.topics, m.regex, m.epoch, m.previous, m.state, m.assigned, m.revoking)
			}
			for _, id := range slices.Sorted(maps.Keys(c.target)) {
				fmt.Fprintf(&b, "  target %s %v\n", id, c.target[id])
			}
			for _, id := range slices.Sorted(maps.Keys(c.members)) {
				c.members[id].assigned.each(func(topic kmeta.UUID, p, _ int32) bool {
					if c.owners[topic][p] != id {
						fmt.Fprintf(&b, "  %v-%d of %s is said to be of %s\n", topic, p, id, c.owners[topic][p])
					}
					return true
				})
			}
		}
	}
	return b.String()
}

// classics are the classic groups as a load makes them.
func classics(s *Shard) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.groups)) {
		if c := s.groups[name].classic; c != nil && s.groups[name].inLog {
			fmt.Fprintf(&b, "%s %s %d %q %q %q\n", name, c.state, c.generation, c.protocolType, c.protocol, c.leader)
			for _, m := range c.members {
				fmt.Fprintf(&b, "  %s %q %v %v %q %q\n", m.id, m.instance, m.sessionTimeout, m.rebalanceTimeout, m.metadata(c.protocol), m.assignment)
			}
		}
	}
	return b.String()
}

// load replays a log into a new shard.
func (w *world) load(log []Entry) *Shard {
	w.t.Helper()
	s := w.shard()
	for _, e := range log {
		if err := s.Replay(&e); err != nil {
			w.t.Fatal(err)
		}
	}
	return s
}

// compact is what compaction may leave of a log whose first records were cleaned: of each key the last, without tombstones.
func compact(log []Entry, cleaned int, tombstones bool) (out []Entry) {
	last := map[string]int{}
	for i, e := range log[:cleaned] {
		last[string(e.Key)] = i
	}
	for i, e := range log {
		if i >= cleaned || last[string(e.Key)] == i && (e.Value != nil || tombstones) {
			out = append(out, e)
		}
	}
	return out
}

// A simulation is clients of both protocols that do what comes to a die's mind.
type simulation struct {
	*world
	r       *rand.Rand
	classic []*simClassic
	modern  []*consumer
	asked   int // requests
	told    int // replies
	steps   int
}

// A simClassic is a client by the classic protocol: what it waits for, and how far it is.
type simClassic struct {
	*joiner
	waits, joined, synced bool
}

// act is what such a client does next.
func (sim *simulation) act(j *simClassic) {
	switch {
	case j.waits:
	case j.id == "" || !j.joined:
		sim.join(j)
	case !j.synced:
		sim.sync(j)
	default:
		switch j.heartbeat() {
		case 0:
		case codeUnknownMember, codeFencedInstance:
			j.id, j.joined, j.synced = "", false, false
		default:
			j.joined, j.synced = false, false
		}
	}
}

var simGroups = []string{"red", "green", "blue"}

func newSimulation(t *testing.T, seed uint64) *simulation {
	sim := &simulation{world: newWorld(t), r: rand.New(rand.NewPCG(seed, 0))}
	for i := range 6 {
		j := sim.joiner(simGroups[i%3])
		j.kind, j.metadata = "consumer", kmeta.AppendSubscription(nil, &kmeta.ConsumerSubscription{Topics: []string{"orders"}}, 1)
		if i == 1 {
			j.instance = kmsg.StringPtr("static")
		}
		sim.classic = append(sim.classic, &simClassic{joiner: j})
	}
	regex := "pay.*"
	for i := range 6 {
		change := []beat{subscribe([]string{"orders", "payments"}[:1+i%2]...)}
		if i == 5 {
			change = append(change, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = &regex })
		}
		sim.modern = append(sim.modern, sim.consumer(append(simGroups, "new")[3-i%3], fmt.Sprint("m", i), change...))
	}
	return sim
}

// step does one thing.
func (sim *simulation) step() {
	w := sim.world
	j := sim.classic[sim.r.IntN(len(sim.classic))]
	m := sim.modern[sim.r.IntN(len(sim.modern))]
	switch sim.r.IntN(18) {
	case 0: // out of turn
		sim.join(j)
	case 1:
		sim.sync(j)
	case 2, 3, 4, 5:
		for _, j := range sim.classic {
			sim.act(j)
		}
	case 6:
		if sim.r.IntN(4) == 0 {
			if j.instance == nil {
				j.leave(5)
			}
			j.id, j.joined, j.synced = "", false, false
		}
	case 7, 8, 9:
		m.beat()
		for _, m := range sim.modern {
			if sim.r.IntN(2) == 0 {
				m.beat()
			}
		}
	case 10:
		if sim.r.IntN(4) == 0 && m.epoch > 0 {
			w.heartbeat(m.group, m.id, -1)
			m.epoch, m.own = 0, partitions{}
		}
	case 11:
		w.commit(j.group, j.id, j.generation, "orders", int32(sim.r.IntN(4)), sim.r.Int64N(1000))
		w.commit(m.group, m.id, m.epoch, "payments", int32(sim.r.IntN(3)), sim.r.Int64N(1000), version(9))
		w.commit("simple", "", -1, "orders", int32(sim.r.IntN(4)), sim.r.Int64N(1000))
	case 12:
		w.fail = nil
		if sim.r.IntN(4) == 0 {
			w.fail = errors.New("no space")
		}
	case 13:
		if sim.r.IntN(8) == 0 {
			w.fail = nil
			w.restart()
		}
	case 14:
		if sim.r.IntN(8) == 0 {
			was := w.image
			w.image = imageOf(w.t, fmt.Sprint("orders:", 4+sim.r.IntN(3)), "payments:3")
			d := &metadata.Delta{Before: was, After: w.image}
			if len(was.Topic("orders").Partitions) != len(w.image.Topic("orders").Partitions) {
				d.Changed = []metadata.PartitionChange{{Topic: w.image.Topic("orders")}}
			}
			w.s.OnImage(w.now, d)
		}
	case 16:
		w.hold = true
	case 17:
		w.commitHeld(nil)
	case 15:
		if sim.r.IntN(8) == 0 {
			w.do(w.s.DeleteGroup(w.now, j.group, func(int16) {}))
		}
	}
	w.pass(time.Duration(sim.r.IntN(1500)) * time.Millisecond)
}

func (sim *simulation) join(j *simClassic) {
	req := &kmsg.JoinGroupRequest{
		Version: j.version, Group: j.group, MemberID: j.id, InstanceID: j.instance, ProtocolType: j.kind, SessionTimeoutMillis: 20000, RebalanceTimeoutMillis: 20000,
		Protocols: []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: j.metadata}},
	}
	sim.asked++
	answered := false
	j.waits = true
	sim.do(sim.s.JoinGroup(sim.now, Client{"client", "/127.0.0.1"}, req, func(r *kmsg.JoinGroupResponse) {
		if answered {
			sim.t.Fatal("a join is answered twice")
		}
		answered = true
		sim.told++
		j.waits, j.synced = false, false
		switch j.joined = r.ErrorCode == 0; r.ErrorCode {
		case 0, codeMemberIDRequired:
			j.id, j.generation, j.join = r.MemberID, r.Generation, r
		case codeUnknownMember, codeFencedInstance:
			j.id = ""
		}
	}))
}

func (sim *simulation) sync(j *simClassic) {
	req := &kmsg.SyncGroupRequest{Version: 5, Group: j.group, MemberID: j.id, InstanceID: j.instance, Generation: j.generation}
	if j.join != nil && j.join.LeaderID == j.id {
		for i, m := range j.join.Members {
			a := kmeta.ConsumerAssignment{AssignedPartitions: []kmeta.ConsumerTopicPartitions{{Topic: "orders", Partitions: []int32{int32(i % 4)}}}}
			req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: m.MemberID, MemberAssignment: kmeta.AppendAssignment(nil, &a, 1)})
		}
	}
	sim.asked++
	answered := false
	j.waits = true
	sim.do(sim.s.SyncGroup(sim.now, req, func(r *kmsg.SyncGroupResponse) {
		if answered {
			sim.t.Fatal("a sync is answered twice")
		}
		answered = true
		sim.told++
		j.waits, j.synced = false, r.ErrorCode == 0
		if r.ErrorCode != 0 {
			j.joined = false
		}
	}))
}

// check holds the invariants against the shard as it is.
func (sim *simulation) check() {
	t := sim.t
	t.Helper()
	if sim.steps++; sim.steps%25 == 0 {
		live := dump(sim.s)
		if loaded := dump(sim.load(sim.log)); live != loaded {
			t.Fatalf("the shard has\n%s\nand the log says\n%s", live, loaded)
		}
		if strings.Contains(live, "is said to be of") {
			t.Fatalf("owners are wrong:\n%s", live)
		}
	}
	for name, g := range sim.s.groups {
		if g.consumer == nil {
			if c := g.classic; c != nil {
				sim.checkClassic(name, c)
			}
			continue
		}
		owner := map[string]string{}
		for id, m := range g.consumer.members {
			for _, p := range []partitions{m.assigned, m.revoking} {
				p.each(func(topic kmeta.UUID, partition, _ int32) bool {
					key := fmt.Sprint(topic, partition)
					if owner[key] != "" {
						t.Fatalf("%s: %s and %s both have %s", name, owner[key], id, key)
					}
					owner[key] = id
					return true
				})
			}
			if (m.session == nil || m.session.index == 0) && !sim.hold { // it begins with the commit
				t.Fatalf("%s: the session of %s does not run", name, id)
			}
		}
	}
}

func (sim *simulation) checkClassic(name string, c *classicGroup) {
	waiting := 0
	for _, m := range c.members {
		if m.join != nil {
			waiting++
		}
		if c.byID[m.id] != m || m.session.index == 0 {
			sim.t.Fatalf("%s: %s is lost", name, m.id)
		}
	}
	if waiting != c.waitingJoins || len(c.byID) != len(c.members) {
		sim.t.Fatalf("%s: %d joins wait, %d are counted", name, waiting, c.waitingJoins)
	}
	if c.state == statePreparing && c.rebalance.index == 0 {
		sim.t.Fatalf("%s: nothing ends the rebalance", name)
	}
	if (c.state == stateEmpty) != (len(c.members) == 0) && c.state != statePreparing {
		sim.t.Fatalf("%s: %s with %d members", name, c.state, len(c.members))
	}
	if l := c.byID[c.leader]; l == nil && len(c.members) > 0 {
		sim.t.Fatalf("%s: %q leads", name, c.leader)
	}
}

// Clients of both protocols come and go, appends fail, the shard loads anew: I1 and I3 hold, nobody has a partition that another
// has, and once all clients are gone nothing is left but offsets, until these expire too.
func TestSimulation(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 10
	}
	kinds := map[EventKind]int{}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			sim := newSimulation(t, seed)
			for range 300 {
				sim.step()
				sim.check()
			}
			// I1: whatever compaction left.
			want, wantClassic := "", ""
			for i := range 10 {
				cleaned := sim.r.IntN(len(sim.log) + 1)
				log := sim.log
				if i > 0 {
					log = compact(sim.log, cleaned, i%2 == 0)
				}
				s := sim.load(log)
				got := dump(s)
				s.Loaded(sim.now)
				gotClassic := classics(s)
				if i == 0 {
					want, wantClassic = got, gotClassic
				}
				if got != want || gotClassic != wantClassic {
					t.Fatalf("cleaned up to %d:\n%s%s\nwant\n%s%s", cleaned, got, gotClassic, want, wantClassic)
				}
			}
			sim.fail = nil
			sim.commitHeld(nil)
			sim.pass(time.Hour)
			if sim.asked != sim.told {
				t.Errorf("%d requests, %d answers", sim.asked, sim.told)
			}
			for name, g := range sim.s.groups {
				if !g.empty() {
					t.Errorf("%s is not empty: %+v", name, g)
				}
			}
			sim.pass(8 * 24 * time.Hour)
			if n := len(sim.s.groups); n != 0 {
				t.Errorf("%d groups are left:\n%s", n, dump(sim.s))
			}
			if _, ok := sim.s.NextTimer(); ok {
				t.Error("a timer of nobody runs")
			}
			for _, e := range sim.events {
				kinds[e.Kind]++
			}
		})
	}
	for _, kind := range []EventKind{EventJoined, EventLeft, EventTimedOut, EventReplaced, EventRebalance, EventStable, EventEmpty, EventDeleted, EventExpired, EventMigrated} {
		if kinds[kind] == 0 {
			t.Errorf("no simulation came to %q: %v", kind, kinds)
		}
	}
}
