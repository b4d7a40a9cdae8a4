package server

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/wire"
)

// SaslHandshake, versions 0-1: after v0 tokens come as frames of their own, after v1 in SaslAuthenticate. An unknown mechanism is
// answered with those that there are, and ends the connection, as in Kafka.

func (n *Node) handleSaslHandshake(_ context.Context, req *wire.Request) wire.Response {
	var r kmsg.SASLHandshakeRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	resp := r.ResponseKind().(*kmsg.SASLHandshakeResponse)
	var unknown *wire.UnknownMechanismError
	var err error
	switch resp.SupportedMechanisms, err = req.Conn.BeginLogin(r.Mechanism, r.Version == 0); {
	case errors.As(err, &unknown):
		resp.ErrorCode = kerr.UnsupportedSaslMechanism.Code
		return wire.Fail(resp, err)
	case err != nil:
		resp.ErrorCode, resp.SupportedMechanisms = kerr.IllegalSaslState.Code, nil
	}
	return wire.Reply(resp)
}
