package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/txn"
	"github.com/quire-log/quire/internal/wire"
)

// AddOffsetsToTxn, versions 0-4: a client is going to commit a group's offsets within its transaction. v2 knows PRODUCER_FENCED, v3 is
// flexible, v4 knows TRANSACTION_ABORTABLE. Clients of transactions v2 send none.
func (n *Node) handleAddOffsetsToTxn(ctx context.Context, req *wire.Request) wire.Response {
	var m kmsg.AddOffsetsToTxnRequest
	if err := req.Decode(&m); err != nil {
		return wire.Close(err)
	}
	resp := m.ResponseKind().(*kmsg.AddOffsetsToTxnResponse)
	p := txn.Producer{TransactionalID: m.TransactionalID, ID: m.ProducerID, Epoch: m.ProducerEpoch}
	code := n.transactions.addPartitions(ctx, p, n.offsetsOf(n.controller.Image(), m.Group), txn.V0, nil)
	resp.ErrorCode = txnCode(code, m.Version >= 2, m.Version >= 4)
	return wire.Reply(resp)
}

// offsetsOf is the partition that a group's offsets are in, or are going to be.
func (n *Node) offsetsOf(img *metadata.Image, group string) []kmeta.TxnPartitions {
	partition, ok := n.groups.partitionOf(img, group)
	if !ok {
		// Clients ask for the group's coordinator only afterwards, and the topic is made then.
		partition = javaHash(group) % int32(n.value("offsets.topic.num.partitions").Int64())
	}
	return []kmeta.TxnPartitions{{Topic: offsetsTopic, PartitionIDs: []int32{partition}}}
}
