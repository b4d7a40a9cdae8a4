package server

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/wire"
)

// JoinGroup 0-9, SyncGroup 0-5, Heartbeat 0-4, LeaveGroup 0-5 and ConsumerGroupHeartbeat 0-1: what members of groups say. What the
// versions changed stands with the methods of group.Shard.

// groupOf is the partition that a group belongs to.
func (n *Node) groupOf(name string) (int32, *kerr.Error) {
	p, ok := n.groups.partitionOf(n.controller.Image(), name)
	if !ok {
		return -1, kerr.CoordinatorNotAvailable
	}
	return p, nil
}

// askGroup lets something happen to a group.
func askGroup[T any](ctx context.Context, n *Node, name string, decide func(m *groupMachine, now time.Time, reply func(T)) effect) (T, *kerr.Error) {
	p, code := n.groupOf(name)
	if code != nil {
		var none T
		return none, code
	}
	return consult(ctx, n.groups, p, decide)
}

// askGroupAside is askGroup for what members say when groups change, which is seldom, and whose deciding needs much stack.
func askGroupAside[T any](ctx context.Context, n *Node, name string, decide func(m *groupMachine, now time.Time, reply func(T)) effect) (answer T, code *kerr.Error) {
	p, code := n.groupOf(name)
	if code != nil {
		return answer, code
	}
	q := newQuestion(decide)
	q.aside = true
	return q.put(ctx, n.groups, p)
}

// askGroupLater is askGroupAside for what members say and then wait for each other. It answers with what answer makes of the reply.
func askGroupLater[T any](n *Node, name string, decide func(m *groupMachine, now time.Time, reply func(T)) effect, answer func(T, *kerr.Error) wire.Response) wire.Response {
	q := newQuestion(decide)
	q.aside = true
	p, code := n.groupOf(name)
	if code == nil {
		code = q.begin(n.groups, p)
	}
	if code != nil {
		var none T
		return answer(none, code)
	}
	return wire.Later(q.done, func(done bool) wire.Response { return answer(q.result(done)) })
}

func (n *Node) handleJoinGroup(_ context.Context, req *wire.Request) wire.Response {
	req.Keep() // it is held for longer than its connection may live
	var r kmsg.JoinGroupRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	client := groupClient(req)
	return askGroupLater(n, r.Group, func(m *groupMachine, now time.Time, reply func(*kmsg.JoinGroupResponse)) effect {
		return m.effect(m.JoinGroup(now, client, &r, reply))
	}, func(resp *kmsg.JoinGroupResponse, code *kerr.Error) wire.Response {
		if code != nil {
			resp = r.ResponseKind().(*kmsg.JoinGroupResponse)
			resp.ErrorCode, resp.Generation, resp.MemberID = code.Code, -1, r.MemberID
		}
		resp.Version = r.Version
		return wire.Reply(resp)
	})
}

func (n *Node) handleSyncGroup(_ context.Context, req *wire.Request) wire.Response {
	req.Keep()
	var r kmsg.SyncGroupRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	answer := func(resp *kmsg.SyncGroupResponse, code *kerr.Error) wire.Response {
		if code != nil {
			resp = r.ResponseKind().(*kmsg.SyncGroupResponse)
			resp.ErrorCode, resp.MemberAssignment = code.Code, []byte{}
		}
		resp.Version = r.Version
		return wire.Reply(resp)
	}
	if r.Version >= 5 && (r.ProtocolType == nil || r.Protocol == nil) { // from then on they must be named
		return answer(nil, kerr.InconsistentGroupProtocol)
	}
	return askGroupLater(n, r.Group, func(m *groupMachine, now time.Time, reply func(*kmsg.SyncGroupResponse)) effect {
		return m.effect(m.SyncGroup(now, &r, reply))
	}, answer)
}

func (n *Node) handleHeartbeat(_ context.Context, req *wire.Request) wire.Response {
	var r kmsg.HeartbeatRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	resp := r.ResponseKind().(*kmsg.HeartbeatResponse)
	answer, code := askGroup(context.Background(), n, r.Group, func(m *groupMachine, now time.Time, reply func(int16)) effect {
		reply(m.Heartbeat(now, &r))
		return effect{}
	})
	if resp.ErrorCode = answer; code != nil {
		resp.ErrorCode = code.Code
	}
	if code == kerr.CoordinatorLoadInProgress {
		// The member is known once its group is loaded. Clients before KIP-394 would join anew for this code: as Kafka, all is well.
		resp.ErrorCode = 0
	}
	return wire.Reply(resp)
}

func (n *Node) handleLeaveGroup(_ context.Context, req *wire.Request) wire.Response {
	var r kmsg.LeaveGroupRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	resp, code := askGroupAside(context.Background(), n, r.Group, func(m *groupMachine, now time.Time, reply func(*kmsg.LeaveGroupResponse)) effect {
		return m.effect(m.LeaveGroup(now, &r, reply))
	})
	if code != nil {
		resp = r.ResponseKind().(*kmsg.LeaveGroupResponse)
		resp.ErrorCode = code.Code
	}
	resp.Version = r.Version
	return wire.Reply(resp)
}

func (n *Node) handleConsumerGroupHeartbeat(_ context.Context, req *wire.Request) wire.Response {
	var r kmsg.ConsumerGroupHeartbeatRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	resp := r.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
	if !n.consumerProtocol() {
		resp.ErrorCode = kerr.UnsupportedVersion.Code
		return wire.Reply(resp)
	}
	answer, code := askGroupAside(context.Background(), n, r.Group, func(m *groupMachine, now time.Time, reply func(*kmsg.ConsumerGroupHeartbeatResponse)) effect {
		return m.effect(m.ConsumerGroupHeartbeat(now, groupClient(req), &r, reply))
	})
	if code != nil {
		resp.ErrorCode = code.Code
		return wire.Reply(resp)
	}
	answer.Version = r.Version
	return wire.Reply(answer)
}

// consumerProtocol is whether the cluster has the protocol of KIP-848.
func (n *Node) consumerProtocol() bool { return n.controller.Image().Feature("group.version") > 0 }
