package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/txn"
	"github.com/quire-log/quire/internal/wire"
)

// AddPartitionsToTxn, versions 0-5: 0-3 are clients', who say what they are going to write: v2 knows PRODUCER_FENCED, v3 is flexible.
// 4 and 5 are brokers', for several transactions at once: they add for clients of transactions v2, or only verify (VerifyOnly).
// v5 knows TRANSACTION_ABORTABLE.
//
// Unlike Kafka, whoever comes while the last transaction still ends waits a moment for that before it is told CONCURRENT_TRANSACTIONS.
func (n *Node) handleAddPartitionsToTxn(ctx context.Context, req *wire.Request) wire.Response {
	var m kmsg.AddPartitionsToTxnRequest
	if err := req.Decode(&m); err != nil {
		return wire.Close(err)
	}
	img := n.controller.Image()
	resp := m.ResponseKind().(*kmsg.AddPartitionsToTxnResponse)
	if m.Version < 4 {
		var list []kmeta.TxnPartitions
		for _, t := range m.Topics {
			list = append(list, kmeta.TxnPartitions{Topic: t.Topic, PartitionIDs: t.Partitions})
		}
		p := txn.Producer{TransactionalID: m.TransactionalID, ID: m.ProducerID, Epoch: m.ProducerEpoch}
		codes := n.addToTxn(ctx, img, p, list, m.Version, false)
		resp.Topics = addedTopics(list, codes)
		return wire.Reply(resp)
	}
	for i := range m.Transactions {
		t := &m.Transactions[i]
		var list []kmeta.TxnPartitions
		for _, topic := range t.Topics {
			list = append(list, kmeta.TxnPartitions{Topic: topic.Topic, PartitionIDs: topic.Partitions})
		}
		p := txn.Producer{TransactionalID: t.TransactionalID, ID: t.ProducerID, Epoch: t.ProducerEpoch}
		codes := n.addToTxn(ctx, img, p, list, m.Version, t.VerifyOnly)
		rt := kmsg.NewAddPartitionsToTxnResponseTransaction()
		rt.TransactionalID, rt.Topics = t.TransactionalID, addedTopicsOf(list, codes)
		resp.Transactions = append(resp.Transactions, rt)
	}
	return wire.Reply(resp)
}

// addToTxn adds the partitions to a transaction, or verifies that they are in it. The codes are the partitions', in order.
func (n *Node) addToTxn(ctx context.Context, img *metadata.Image, p txn.Producer, list []kmeta.TxnPartitions, version int16, verifyOnly bool) []int16 {
	var codes []int16
	unknown := false
	for i := range list {
		t := img.Topic(list[i].Topic)
		for _, q := range list[i].PartitionIDs {
			code := codeOperationNotAttempted
			if t == nil || q < 0 || int(q) >= len(t.Partitions) {
				code, unknown = codeUnknownTopicOrPartition, true
			}
			codes = append(codes, code)
		}
	}
	if unknown {
		return codes
	}
	protocol := txn.V0
	if version >= 4 {
		protocol = txn.V2
	}
	var whole int16
	if verifyOnly {
		each, code := n.transactions.verify(p, list)
		if code == codeNone {
			for i, c := range each {
				codes[i] = txnCode(c, version >= 2, version >= 5)
			}
			return codes
		}
		whole = code
	} else {
		whole = n.transactions.addPartitions(ctx, p, list, protocol, nil)
	}
	for i := range codes {
		codes[i] = txnCode(whole, version >= 2, version >= 5)
	}
	return codes
}

// txnCode is a code of the coordinator in words that the client knows.
func txnCode(code int16, knowsFenced, knowsAbortable bool) int16 {
	switch {
	case code == codeProducerFenced && !knowsFenced:
		return codeInvalidProducerEpoch
	case code == codeTransactionAbortable && !knowsAbortable:
		return codeInvalidTxnState
	}
	return code
}

func addedTopics(list []kmeta.TxnPartitions, codes []int16) []kmsg.AddPartitionsToTxnResponseTopic {
	var topics []kmsg.AddPartitionsToTxnResponseTopic
	for i := range list {
		t := kmsg.NewAddPartitionsToTxnResponseTopic()
		t.Topic = list[i].Topic
		for _, q := range list[i].PartitionIDs {
			p := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
			p.Partition, p.ErrorCode = q, codes[0]
			codes = codes[1:]
			t.Partitions = append(t.Partitions, p)
		}
		topics = append(topics, t)
	}
	return topics
}

func addedTopicsOf(list []kmeta.TxnPartitions, codes []int16) []kmsg.AddPartitionsToTxnResponseTransactionTopic {
	var topics []kmsg.AddPartitionsToTxnResponseTransactionTopic
	for i := range list {
		t := kmsg.NewAddPartitionsToTxnResponseTransactionTopic()
		t.Topic = list[i].Topic
		for _, q := range list[i].PartitionIDs {
			p := kmsg.NewAddPartitionsToTxnResponseTransactionTopicPartition()
			p.Partition, p.ErrorCode = q, codes[0]
			codes = codes[1:]
			t.Partitions = append(t.Partitions, p)
		}
		topics = append(topics, t)
	}
	return topics
}
