package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/wire"
)

// CreateDelegationToken and DescribeDelegationToken, versions 1-3, RenewDelegationToken and ExpireDelegationToken, versions 1-2, as a
// broker without delegation.token.secret.key answers them: v2 is flexible, v3 names the requester beside the owner.

// tokenRefusal is why a connection gets no token: nobody has said who it is, or the feature is off.
func tokenRefusal(conn *wire.Conn) int16 {
	if conn.User() == "" {
		return kerr.DelegationTokenRequestNotAllowed.Code
	}
	return kerr.DelegationTokenAuthDisabled.Code
}

func (n *Node) handleCreateDelegationToken(_ context.Context, req *wire.Request) wire.Response {
	var r kmsg.CreateDelegationTokenRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	resp := r.ResponseKind().(*kmsg.CreateDelegationTokenResponse)
	resp.ErrorCode = tokenRefusal(req.Conn)
	resp.IssueTimestamp, resp.ExpiryTimestamp, resp.MaxTimestamp = -1, -1, -1
	return wire.Reply(resp)
}

func (n *Node) handleRenewDelegationToken(_ context.Context, req *wire.Request) wire.Response {
	var r kmsg.RenewDelegationTokenRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	resp := r.ResponseKind().(*kmsg.RenewDelegationTokenResponse)
	resp.ErrorCode, resp.ExpiryTimestamp = tokenRefusal(req.Conn), -1
	return wire.Reply(resp)
}

func (n *Node) handleExpireDelegationToken(_ context.Context, req *wire.Request) wire.Response {
	var r kmsg.ExpireDelegationTokenRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	resp := r.ResponseKind().(*kmsg.ExpireDelegationTokenResponse)
	resp.ErrorCode, resp.ExpiryTimestamp = tokenRefusal(req.Conn), -1
	return wire.Reply(resp)
}

func (n *Node) handleDescribeDelegationToken(_ context.Context, req *wire.Request) wire.Response {
	var r kmsg.DescribeDelegationTokenRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	resp := r.ResponseKind().(*kmsg.DescribeDelegationTokenResponse)
	resp.ErrorCode = tokenRefusal(req.Conn)
	return wire.Reply(resp)
}
