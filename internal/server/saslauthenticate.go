package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/auth"
	"github.com/quire-log/quire/internal/wire"
)

// SaslAuthenticate, versions 0-2: v1 says how long the login holds, v2 is flexible. A failure ends the connection, after the
// delay that it has in common with all others; the client learns that it failed, and nothing more.

func (n *Node) handleSaslAuthenticate(_ context.Context, req *wire.Request) wire.Response {
	var r kmsg.SASLAuthenticateRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	resp := r.ResponseKind().(*kmsg.SASLAuthenticateResponse)
	answer, holds, err := req.Conn.Login(r.SASLAuthBytes)
	var failure *auth.Failure
	switch {
	case errors.As(err, &failure):
		resp.ErrorCode, resp.ErrorMessage = kerr.SaslAuthenticationFailed.Code, &failure.Message
		return wire.Fail(resp, fmt.Errorf("the login failed: %w", err))
	case err != nil:
		message := "SaslAuthenticate request received after successful authentication"
		resp.ErrorCode, resp.ErrorMessage = kerr.IllegalSaslState.Code, &message
	default:
		resp.SASLAuthBytes, resp.SessionLifetimeMillis = answer, holds.Milliseconds()
	}
	return wire.Reply(resp)
}
