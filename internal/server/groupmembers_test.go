package server

import (
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/wire"
)

// What members of groups that there are not are told, at each version.
func TestMembersOfNoGroup(t *testing.T) {
	_, c := groupsNode(t, "")
	for v := int16(0); v <= 5; v++ {
		leave := version(kmsg.NewPtrLeaveGroupRequest(), v)
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID = "nobody"
		leave.Group, leave.MemberID, leave.Members = "none", "nobody", append(leave.Members, m)
		l := c.ask(leave).(*kmsg.LeaveGroupResponse)
		if v < 3 && l.ErrorCode != 25 || v >= 3 && (l.ErrorCode != 0 || len(l.Members) != 1 || l.Members[0].ErrorCode != 25) {
			t.Errorf("LeaveGroup v%d: %+v", v, l)
		}
		sync := version(kmsg.NewPtrSyncGroupRequest(), v)
		sync.Group = "none"
		want := int16(25)
		if v >= 5 { // the protocol must be named
			want = 23
		}
		if s := c.ask(sync).(*kmsg.SyncGroupResponse); s.ErrorCode != want {
			t.Errorf("SyncGroup v%d: %d, want %d", v, s.ErrorCode, want)
		}
	}
}

// A join that is held when the node stops is answered, so that its client looks elsewhere; nothing is left running.
func TestHeldJoinAtTheEnd(t *testing.T) {
	n := dataNode(t, "", "group.initial.rebalance.delay.ms", "60000")
	c := dialNode(t, n)
	c.awaitGroups(n)
	join := version(kmsg.NewPtrJoinGroupRequest(), 3)
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name = "range"
	join.Group, join.ProtocolType, join.Protocols = "g", "consumer", append(join.Protocols, p)
	join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 10000, 100000
	c.send(join)
	other := dialNode(t, n)
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		d := version(kmsg.NewPtrDescribeGroupsRequest(), 5)
		d.Groups = []string{"g"}
		if g := other.ask(d).(*kmsg.DescribeGroupsResponse).Groups[0]; g.State == "PreparingRebalance" {
			break
		} else if time.Since(begin) > time.Minute {
			t.Fatalf("the group is %s", g.State)
		}
	}
	go n.Close(t.Context())
	if r := c.receive(join).(*kmsg.JoinGroupResponse); r.ErrorCode != 16 {
		t.Errorf("the join was answered %d, want 16", r.ErrorCode)
	}
}

// Heartbeats of both protocols leave nothing behind that lives.
func TestHeartbeatsLeaveNothing(t *testing.T) {
	n, c := groupsNode(t, "", "group.initial.rebalance.delay.ms", "0", "log.cleaner.enable", "false")
	join := version(kmsg.NewPtrJoinGroupRequest(), 3)
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name = "range"
	join.Group, join.ProtocolType, join.Protocols = "classic", "consumer", append(join.Protocols, p)
	join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 300000, 300000
	j := c.ask(join).(*kmsg.JoinGroupResponse)
	sync := version(kmsg.NewPtrSyncGroupRequest(), 3)
	sync.Group, sync.MemberID, sync.Generation = "classic", j.MemberID, j.Generation
	if s := c.ask(sync).(*kmsg.SyncGroupResponse); s.ErrorCode != 0 {
		t.Fatalf("sync: %d", s.ErrorCode)
	}
	classic := version(kmsg.NewPtrHeartbeatRequest(), 4)
	classic.Group, classic.MemberID, classic.Generation = "classic", j.MemberID, j.Generation

	first := version(kmsg.NewPtrConsumerGroupHeartbeatRequest(), 1)
	first.Group, first.MemberID, first.RebalanceTimeoutMillis = "consumers", "AAAAAAAAAAAAAAAAAAAAAA", 300000
	first.SubscribedTopicNames, first.Topics = []string{"t"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	f := c.ask(first).(*kmsg.ConsumerGroupHeartbeatResponse)
	if f.ErrorCode != 0 {
		t.Fatalf("joining: %d", f.ErrorCode)
	}
	beat := version(kmsg.NewPtrConsumerGroupHeartbeatRequest(), 1)
	beat.Group, beat.MemberID, beat.MemberEpoch, beat.RebalanceTimeoutMillis = first.Group, first.MemberID, f.MemberEpoch, -1

	reqs := []*wire.Request{
		wire.NewRequest(classic.Key(), classic.Version, nil, classic.AppendTo(nil)),
		wire.NewRequest(beat.Key(), beat.Version, nil, beat.AppendTo(nil)),
	}
	beats := func(times int) uint64 {
		for range times {
			a := n.handleHeartbeat(t.Context(), reqs[0]).Message().(*kmsg.HeartbeatResponse)
			b := n.handleConsumerGroupHeartbeat(t.Context(), reqs[1]).Message().(*kmsg.ConsumerGroupHeartbeatResponse)
			if a.ErrorCode != 0 || b.ErrorCode != 0 {
				t.Fatalf("codes %d, %d", a.ErrorCode, b.ErrorCode)
			}
		}
		var m runtime.MemStats
		for range 3 { // what pools keep is gone after two
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const times = 20_000
	var left uint64
	for range 5 { // what else happens in the process may leave something, but not every time
		before := beats(100)
		if left = beats(times); left <= before+times*20 {
			return
		}
		left -= before
	}
	t.Errorf("%d heartbeats of each kind leave %d bytes", times, left)
}
