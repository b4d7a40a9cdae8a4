package server

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/storage"
	"github.com/quire-log/quire/internal/txn"
	"github.com/quire-log/quire/internal/wire"
)

// TxnOffsetCommit, versions 0-5: offsets that are a group's once the transaction commits. v2 has leader epochs, v3 is flexible and names
// the member, v4 knows TRANSACTION_ABORTABLE; v5 is transactions v2: the partition of the offsets joins the transaction by it.
func (n *Node) handleTxnOffsetCommit(ctx context.Context, req *wire.Request) wire.Response {
	var m kmsg.TxnOffsetCommitRequest
	if err := req.Decode(&m); err != nil {
		return wire.Close(err)
	}
	img := n.controller.Image()
	v, log, code := n.verifyOffsets(ctx, img, &m)
	if code != codeNone {
		return wire.Reply(refuseTxnOffsets(&m, txnCode(code, false, m.Version >= 4)))
	}
	resp, err := askGroup(context.Background(), n, m.Group, func(g *groupMachine, now time.Time, reply func(*kmsg.TxnOffsetCommitResponse)) effect {
		// Markers of this partition are events of the same shard, so none comes between this look and the append.
		if v != nil && !log.Verified(v, m.ProducerID, m.ProducerEpoch) {
			return effect{then: func(error) { reply(refuseTxnOffsets(&m, codeInvalidTxnState)) }}
		}
		return g.effect(g.TxnOffsetCommit(now, &m, reply))
	})
	if err != nil {
		resp = refuseTxnOffsets(&m, err.Code)
	}
	resp.Version = m.Version
	return wire.Reply(resp)
}

// verifyOffsets asks the transaction's coordinator whether the group's offsets may be written within it, unless they were already, and
// with transactions v2 makes them part of it. The verification is nil where it is switched off.
func (n *Node) verifyOffsets(ctx context.Context, img *metadata.Image, m *kmsg.TxnOffsetCommitRequest) (*storage.Verification, *storage.Log, int16) {
	adds := m.Version >= 5
	if !adds && !n.verifiesTransactions(img) {
		return nil, nil, codeNone
	}
	partition, ok := n.groups.partitionOf(img, m.Group)
	if !ok {
		return nil, nil, codeCoordinatorNotAvailable
	}
	p := n.replicas.Partition(offsetsTopic, partition)
	if p == nil || p.CheckLeader(-1) != nil {
		return nil, nil, codeNotCoordinator
	}
	log := p.Log()
	v := log.BeginVerification(m.ProducerID, m.ProducerEpoch, 0)
	if v.Open() {
		return v, log, codeNone
	}
	producer := txn.Producer{TransactionalID: m.TransactionalID, ID: m.ProducerID, Epoch: m.ProducerEpoch}
	list := n.offsetsOf(img, m.Group)
	var code int16
	if adds {
		code = n.transactions.addPartitions(ctx, producer, list, txn.V2, func() { v = log.BeginVerification(m.ProducerID, m.ProducerEpoch, 0) })
	} else {
		var each []int16
		if each, code = n.transactions.verify(producer, list); code == codeNone {
			code = each[0]
		}
		if code == codeConcurrentTransactions {
			code = codeCoordinatorNotAvailable // which old clients try again
		}
	}
	switch code {
	case codeNone:
	case codeConcurrentTransactions, codeCoordinatorLoadInProgress, codeCoordinatorNotAvailable, codeNotCoordinator:
		if code == codeNotCoordinator { // of the transaction: the client asked the right one of the group
			code = codeCoordinatorNotAvailable
		}
	default:
		log.EndVerification(v)
	}
	return v, log, code
}

// refuseTxnOffsets gives every partition a code.
func refuseTxnOffsets(m *kmsg.TxnOffsetCommitRequest, code int16) *kmsg.TxnOffsetCommitResponse {
	resp := m.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
	for _, t := range m.Topics {
		rt := kmsg.NewTxnOffsetCommitResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewTxnOffsetCommitResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}
