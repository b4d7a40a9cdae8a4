package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/controller"
	"github.com/quire-log/quire/internal/wire"
)

// DescribeUserScramCredentials and AlterUserScramCredentials, version 0. Keys and salts are never told.

func (n *Node) handleDescribeUserScramCredentials(_ context.Context, req *wire.Request) wire.Response {
	var r kmsg.DescribeUserSCRAMCredentialsRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	return wire.Reply(controller.DescribeScramCredentials(n.controller.Image(), &r))
}

func (n *Node) handleAlterUserScramCredentials(ctx context.Context, req *wire.Request) wire.Response {
	var r kmsg.AlterUserSCRAMCredentialsRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	return wire.Reply(n.controller.AlterScramCredentials(ctx, &r))
}
