package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/wire"
)

// CreateTopics, versions 2-7: v4 lets -1 stand for the defaults, v5 answers with the settings that came of it, v7 with the id.
// DeleteTopics, versions 1-6: v5 has messages, v6 deletes by id too. CreatePartitions, versions 0-3.
// Kafka's timeouts matter only where other nodes must agree: here the answer is the outcome.

func (n *Node) handleCreateTopics(ctx context.Context, req *wire.Request) wire.Response {
	var r kmsg.CreateTopicsRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	resp := n.controller.CreateTopics(ctx, &r)
	return wire.Reply(resp)
}

func (n *Node) handleDeleteTopics(ctx context.Context, req *wire.Request) wire.Response {
	var r kmsg.DeleteTopicsRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	return wire.Reply(n.controller.DeleteTopics(ctx, &r))
}

func (n *Node) handleCreatePartitions(ctx context.Context, req *wire.Request) wire.Response {
	var r kmsg.CreatePartitionsRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	return wire.Reply(n.controller.CreatePartitions(ctx, &r))
}
