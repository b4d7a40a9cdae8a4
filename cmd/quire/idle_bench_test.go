package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// An idleMember is a member of a group, by a connection of its own.
type idleMember struct {
	nc         net.Conn
	r          *bufio.Reader
	id, leader string
	generation int32
	all        []kmsg.JoinGroupResponseMember // for the leader
}

func (m *idleMember) send(b *testing.B, req kmsg.Request) {
	b.Helper()
	if _, err := m.nc.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("idle")).AppendRequest(nil, req, 1)); err != nil {
		b.Fatal(err)
	}
}

func (m *idleMember) answer(b *testing.B, req kmsg.Request) kmsg.Response {
	b.Helper()
	var size [4]byte
	if _, err := io.ReadFull(m.r, size[:]); err != nil {
		b.Fatal(err)
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(m.r, body); err != nil {
		b.Fatal(err)
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	body = body[4:]
	if resp.IsFlexible() {
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		b.Fatal(err)
	}
	return resp
}

// BenchmarkIdleMembers has 10,000 members in 1,000 groups, each by a connection of its own, that do nothing but send heartbeats, and reports
// what the process then takes of memory.
func BenchmarkIdleMembers(b *testing.B) {
	const groups, size = 1000, 10
	dir := b.TempDir()
	program := filepath.Join(dir, "quire")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		b.Fatalf("building: %v\n%s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	cmd := exec.Command(program, "serve", "--override", "log.dirs="+filepath.Join(dir, "data"), "--override", "listeners=PLAINTEXT://"+addr,
		"--override", "admin.listener=", "--override", "group.initial.rebalance.delay.ms=10000", "--override", "max.connections=20000", "--override", "max.connections.per.ip=20000")
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	dial := func() net.Conn {
		for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
			if nc, err := net.Dial("tcp", addr); err == nil {
				return nc
			} else if time.Since(begin) > time.Minute {
				b.Fatal(err)
			}
		}
	}
	rss := func() float64 {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		if err != nil {
			b.Skip("how much memory a process has is read from /proc")
		}
		_, rest, _ := strings.Cut(string(text), "VmRSS:")
		kb, err := strconv.Atoi(strings.Fields(rest)[0])
		if err != nil {
			b.Fatal(err)
		}
		return float64(kb) / 1024
	}
	first := &idleMember{nc: dial()}
	first.r = bufio.NewReaderSize(first.nc, 512)
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version, find.CoordinatorKeys = 4, []string{"g"}
	for code := int16(-1); code != 0; {
		first.send(b, find)
		code = first.answer(b, find).(*kmsg.FindCoordinatorResponse).Coordinators[0].ErrorCode
	}
	empty := rss()
	name := func(i int) string { return fmt.Sprint("group-", i/size) }
	members := make([]*idleMember, groups*size)
	joins := make([]*kmsg.JoinGroupRequest, len(members))
	for i := range members {
		m := &idleMember{nc: dial()}
		m.r = bufio.NewReaderSize(m.nc, 512)
		defer m.nc.Close()
		members[i] = m
		r := kmsg.NewPtrJoinGroupRequest()
		r.Version, r.Group, r.ProtocolType, r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 3, name(i), "consumer", 45000, 300000
		p := kmsg.NewJoinGroupRequestProtocol()
		meta := kmsg.NewConsumerMemberMetadata()
		meta.Version, meta.Topics = 1, []string{"orders"}
		p.Name, p.Metadata = "range", meta.AppendTo(nil)
		r.Protocols = append(r.Protocols, p)
		joins[i] = r
		m.send(b, r)
	}
	for i, m := range members {
		resp := m.answer(b, joins[i]).(*kmsg.JoinGroupResponse)
		for resp.ErrorCode == kerr.CoordinatorLoadInProgress.Code {
			m.send(b, joins[i])
			resp = m.answer(b, joins[i]).(*kmsg.JoinGroupResponse)
		}
		if resp.ErrorCode != 0 {
			b.Fatalf("join of %d: %d", i, resp.ErrorCode)
		}
		m.id, m.leader, m.generation, m.all = resp.MemberID, resp.LeaderID, resp.Generation, resp.Members
	}
	sync := kmsg.NewPtrSyncGroupRequest()
	for i, m := range members {
		r := kmsg.NewPtrSyncGroupRequest()
		r.Version, r.Group, r.MemberID, r.Generation = 3, name(i), m.id, m.generation
		if m.id == m.leader {
			for _, other := range m.all {
				a := kmsg.NewSyncGroupRequestGroupAssignment()
				var to kmsg.ConsumerMemberAssignment
				to.Topics = append(to.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: "orders", Partitions: []int32{0}})
				a.MemberID, a.MemberAssignment = other.MemberID, to.AppendTo(nil)
				r.GroupAssignment = append(r.GroupAssignment, a)
			}
		}
		m.send(b, r)
	}
	sync.Version = 3
	for i, m := range members {
		if code := m.answer(b, sync).(*kmsg.SyncGroupResponse).ErrorCode; code != 0 {
			b.Fatalf("sync of %d: %d", i, code)
		}
	}
	full := rss()
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Version = 3
	i := 0
	for b.Loop() {
		m := members[i%len(members)]
		beat.Group, beat.MemberID, beat.Generation = name(i%len(members)), m.id, m.generation
		m.send(b, beat)
		if code := m.answer(b, beat).(*kmsg.HeartbeatResponse).ErrorCode; code != 0 {
			b.Fatalf("heartbeat of %d: %d", i%len(members), code)
		}
		i++
	}
	b.ReportMetric(empty, "MB-before")
	b.ReportMetric(full, "MB-after-joins")
	b.ReportMetric(rss(), "MB")
}
