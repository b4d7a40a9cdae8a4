package server

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
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
		} else if time.Since(begin) > 10*time.Second {
			t.Fatalf("the group is %s", g.State)
		}
	}
	go n.Close(t.Context())
	if r := c.receive(join).(*kmsg.JoinGroupResponse); r.ErrorCode != 16 {
		t.Errorf("the join was answered %d, want 16", r.ErrorCode)
	}
}
