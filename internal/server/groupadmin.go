package server

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/wire"
)

// ListGroups 0-5, DescribeGroups 0-6, ConsumerGroupDescribe 0-1 and DeleteGroups 0-2: groups as operators see them. What the
// versions changed stands with the methods of group.Shard.

// groupOperations are what anybody may do with a group where no authorizer is, as bits of AclOperation.
const groupOperations = 1<<3 | 1<<6 | 1<<8 | 1<<10 | 1<<11

func (n *Node) handleListGroups(_ context.Context, req *wire.Request) wire.Response {
	var r kmsg.ListGroupsRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	resp := r.ResponseKind().(*kmsg.ListGroupsResponse)
	for _, s := range n.groups.all() {
		groups, code := consult(context.Background(), n.groups, s.partition, func(m *groupMachine, now time.Time, reply func([]kmsg.ListGroupsResponseGroup)) effect {
			reply(m.ListGroups(now, &r))
			return effect{}
		})
		if code == kerr.NotCoordinator {
			continue // another node lists these
		}
		if code != nil {
			resp.ErrorCode, resp.Groups = code.Code, nil
			return wire.Reply(resp)
		}
		resp.Groups = append(resp.Groups, groups...)
	}
	slices.SortFunc(resp.Groups, func(a, b kmsg.ListGroupsResponseGroup) int { return cmp.Compare(a.Group, b.Group) })
	return wire.Reply(resp)
}

func (n *Node) handleDescribeGroups(_ context.Context, req *wire.Request) wire.Response {
	var r kmsg.DescribeGroupsRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	resp := r.ResponseKind().(*kmsg.DescribeGroupsResponse)
	for _, name := range r.Groups {
		g, code := askGroup(context.Background(), n, name, func(m *groupMachine, now time.Time, reply func(kmsg.DescribeGroupsResponseGroup)) effect {
			reply(m.DescribeGroup(now, name, r.Version))
			return effect{}
		})
		if code != nil {
			g = kmsg.NewDescribeGroupsResponseGroup()
			g.Group, g.ErrorCode = name, code.Code
		}
		if r.IncludeAuthorizedOperations && g.ErrorCode == 0 {
			g.AuthorizedOperations = groupOperations
		}
		resp.Groups = append(resp.Groups, g)
	}
	return wire.Reply(resp)
}

func (n *Node) handleConsumerGroupDescribe(_ context.Context, req *wire.Request) wire.Response {
	var r kmsg.ConsumerGroupDescribeRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	resp := r.ResponseKind().(*kmsg.ConsumerGroupDescribeResponse)
	for _, name := range r.Groups {
		g, code := kmsg.NewConsumerGroupDescribeResponseGroup(), kerr.UnsupportedVersion
		if n.consumerProtocol() {
			g, code = askGroup(context.Background(), n, name, func(m *groupMachine, now time.Time, reply func(kmsg.ConsumerGroupDescribeResponseGroup)) effect {
				reply(m.ConsumerGroupDescribe(now, name))
				return effect{}
			})
		}
		if code != nil {
			g = kmsg.NewConsumerGroupDescribeResponseGroup()
			g.Group, g.ErrorCode = name, code.Code
		}
		if r.IncludeAuthorizedOperations && g.ErrorCode == 0 {
			g.AuthorizedOperations = groupOperations
		}
		resp.Groups = append(resp.Groups, g)
	}
	return wire.Reply(resp)
}

func (n *Node) handleDeleteGroups(_ context.Context, req *wire.Request) wire.Response {
	var r kmsg.DeleteGroupsRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	resp := r.ResponseKind().(*kmsg.DeleteGroupsResponse)
	seen := map[string]bool{}
	for _, name := range r.Groups {
		if seen[name] {
			continue
		}
		seen[name] = true
		g := kmsg.NewDeleteGroupsResponseGroup()
		answer, code := askGroup(context.Background(), n, name, func(m *groupMachine, now time.Time, reply func(int16)) effect {
			return m.effect(m.DeleteGroup(now, name, reply))
		})
		if g.Group, g.ErrorCode = name, answer; code != nil {
			g.ErrorCode = code.Code
		}
		resp.Groups = append(resp.Groups, g)
	}
	return wire.Reply(resp)
}
