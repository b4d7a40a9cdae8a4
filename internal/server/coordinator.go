package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/wire"
)

// FindCoordinator, versions 0-6: v1 asks for a kind of key, v4 for several keys at once, v6 may ask for share groups.
// No coordinator runs yet, so every key of a kind that exists is answered COORDINATOR_NOT_AVAILABLE, which clients try again.

const (
	coordinatorGroup       = 0
	coordinatorTransaction = 1
	coordinatorShare       = 2
)

func (n *Node) handleFindCoordinator(_ context.Context, req *wire.Request) wire.Response {
	var r kmsg.FindCoordinatorRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	resp := r.ResponseKind().(*kmsg.FindCoordinatorResponse)
	reason := kerr.CoordinatorNotAvailable
	switch r.CoordinatorType {
	case coordinatorGroup, coordinatorTransaction:
	case coordinatorShare:
		if r.Version < 6 {
			reason = kerr.InvalidRequest
		}
	default:
		reason = kerr.InvalidRequest
	}
	message := reason.Description
	if r.Version < 4 {
		resp.ErrorCode, resp.ErrorMessage = reason.Code, &message
		resp.NodeID, resp.Port = -1, -1
		return wire.Reply(resp)
	}
	for _, key := range r.CoordinatorKeys {
		c := kmsg.NewFindCoordinatorResponseCoordinator()
		c.Key, c.ErrorCode, c.ErrorMessage = key, reason.Code, &message
		c.NodeID, c.Port = -1, -1
		resp.Coordinators = append(resp.Coordinators, c)
	}
	return wire.Reply(resp)
}
