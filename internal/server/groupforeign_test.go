package server

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// joinAs is a join of a protocol that the coordinator knows nothing of.
func joinAs(group, kind, protocol string, metadata []byte, v int16) *kmsg.JoinGroupRequest {
	r := version(kmsg.NewPtrJoinGroupRequest(), v)
	r.Group, r.ProtocolType, r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = group, kind, 10000, 10000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = protocol, metadata
	r.Protocols = append(r.Protocols, p)
	return r
}

// Schema registries ("sr") and Connect use groups for ends of their own: what they say is carried as it is, up to a megabyte of it.
func TestForeignProtocols(t *testing.T) {
	n, c := groupsNode(t, "", "group.initial.rebalance.delay.ms", "0")
	for _, q := range []struct {
		kind, protocol string
		metadata       []byte
		assignment     int
	}{
		{"sr", "v0", []byte(`{"version":1,"host":"localhost","port":8081,"master_eligibility":true}`), 90},
		{"connect", "sessioned", []byte{0, 3, 0xff, 0, 0xfe}, 1_000_000},
		{"sr", "v0", bytes.Repeat([]byte{0xff}, 100<<10), 1 << 20},
	} {
		group := fmt.Sprint(q.kind, "-", len(q.metadata))
		assignment := bytes.Repeat([]byte{0xa5, 0, 0xff}, q.assignment/3)
		join := joinAs(group, q.kind, q.protocol, q.metadata, 5)
		j := c.ask(join).(*kmsg.JoinGroupResponse)
		if j.ErrorCode != kerr.MemberIDRequired.Code {
			t.Fatalf("%s: %d", group, j.ErrorCode)
		}
		join.MemberID = j.MemberID
		j = c.ask(join).(*kmsg.JoinGroupResponse)
		if j.ErrorCode != 0 || j.LeaderID != j.MemberID || j.Protocol == nil || *j.Protocol != q.protocol || len(j.Members) != 1 || !bytes.Equal(j.Members[0].ProtocolMetadata, q.metadata) {
			t.Fatalf("%s: %+v", group, j)
		}
		sync := version(kmsg.NewPtrSyncGroupRequest(), 5)
		sync.Group, sync.MemberID, sync.Generation, sync.ProtocolType, sync.Protocol = group, j.MemberID, j.Generation, &q.kind, &q.protocol
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = j.MemberID, assignment
		sync.GroupAssignment = append(sync.GroupAssignment, a)
		s := c.ask(sync).(*kmsg.SyncGroupResponse)
		if large := len(assignment)+len(q.metadata) > 1<<20; s.ErrorCode != 0 || !bytes.Equal(s.MemberAssignment, assignment) {
			// What does not fit into a record of the coordinator's topic is refused, and nothing is lost but the assignment.
			if !large || s.ErrorCode == 0 {
				t.Fatalf("%s: code %d, %d bytes of %d", group, s.ErrorCode, len(s.MemberAssignment), len(assignment))
			}
		}
		describe := version(kmsg.NewPtrDescribeGroupsRequest(), 5)
		describe.Groups = []string{group}
		d := c.ask(describe).(*kmsg.DescribeGroupsResponse).Groups[0]
		if d.ProtocolType != q.kind || s.ErrorCode == 0 && (d.State != "Stable" || !bytes.Equal(d.Members[0].MemberAssignment, assignment)) {
			t.Errorf("%s: %s %s %s", group, d.ProtocolType, d.State, d.Protocol)
		}
		other := c.ask(joinAs(group, "consumer", "range", nil, 3)).(*kmsg.JoinGroupResponse)
		if other.ErrorCode != kerr.InconsistentGroupProtocol.Code {
			t.Errorf("%s: a consumer is let in, %d", group, other.ErrorCode)
		}
	}
	_ = n
}

// Thousands of joins whose connections are gone at once leave nothing: no goroutine, no member, no group that waits for them.
func TestJoinsOfDeadConnections(t *testing.T) {
	n, c := groupsNode(t, "", "group.initial.rebalance.delay.ms", "0", "group.min.session.timeout.ms", "10")
	c.ask(version(kmsg.NewPtrApiVersionsRequest(), 0))
	before := runtime.NumGoroutine()
	const joins = 2000
	for i := range joins {
		d := dialNode(t, n)
		r := joinAs(fmt.Sprint("g", i%20), "consumer", "range", []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, int16(3+i%3))
		r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 50, 50
		d.send(r)
		d.nc.Close()
	}
	list := version(kmsg.NewPtrListGroupsRequest(), 5)
	list.StatesFilter = []string{"Stable", "PreparingRebalance", "CompletingRebalance"}
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		busy, now := len(c.ask(list).(*kmsg.ListGroupsResponse).Groups), runtime.NumGoroutine()
		if busy == 0 && now < before+joins/100 { // the node's own may be a few more than before
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("%d groups are not empty, %d goroutines, %d before", busy, now, before)
		}
	}
	for _, s := range n.groups.all() {
		members, _ := consult(t.Context(), n.groups, s.partition, func(m *groupMachine, _ time.Time, reply func(int)) effect {
			reply(m.Members())
			return effect{}
		})
		if members != 0 {
			t.Errorf("partition %d: %d members and ids are left", s.partition, members)
		}
	}
}
