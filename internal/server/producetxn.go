package server

import (
	"context"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/storage"
	"github.com/quire-log/quire/internal/txn"
	"github.com/quire-log/quire/internal/wire"
)

// Versions of Produce that matter to transactions.
const (
	produceAbortableMin = 11 // knows TRANSACTION_ABORTABLE
	produceAddsMin      = 12 // transactions v2: a partition joins the transaction by being written
)

// A txnCheck is what the transaction's coordinator said of one partition of a request. The zero one is of batches outside transactions.
type txnCheck struct {
	code         int16
	sequence     int32                 // the batch's first
	verification *storage.Verification // to be handed on with the append; nil: none is needed
	log          *storage.Log
}

// checkTransaction asks the coordinator about all partitions that a request begins to write to in its transaction, at once: whether they
// are part of it, or to make them so. The checks are the partitions', in the request's order.
func (n *Node) checkTransaction(ctx context.Context, req *wire.Request, img *metadata.Image, checks []txnCheck) []txnCheck {
	var producer txn.Producer
	var list []kmeta.TxnPartitions
	var asked []int
	adds := req.Version >= produceAddsMin
	verifies := adds || n.verifiesTransactions(img)
	w := walkProduce(req)
	verifies = verifies && w.acks >= -1 && w.acks <= 1
	producer.TransactionalID = w.transactionalID
	for w.nextTopic() {
		t := w.find(img)
		first := true
		for w.nextPartition() {
			checks = append(checks, txnCheck{})
			if !verifies || t == nil || w.partition < 0 || int(w.partition) >= len(t.Partitions) {
				continue
			}
			b, code := onlyBatch(w.records, w.version)
			if code != codeNone || !b.IsTransactional() {
				continue
			}
			p := n.replicas.Partition(t.Name, w.partition)
			if p == nil || p.CheckLeader(-1) != nil {
				continue // the append says so
			}
			log := p.Log()
			v := log.BeginVerification(b.ProducerID(), b.ProducerEpoch(), b.BaseSequence())
			check := &checks[len(checks)-1]
			check.verification, check.log, check.sequence = v, log, b.BaseSequence()
			if v.Open() {
				continue
			}
			producer.ID, producer.Epoch = b.ProducerID(), b.ProducerEpoch()
			if first {
				list = append(list, kmeta.TxnPartitions{Topic: t.Name})
				first = false
			}
			last := &list[len(list)-1]
			last.PartitionIDs = append(last.PartitionIDs, w.partition)
			asked = append(asked, len(checks)-1)
		}
	}
	if len(asked) == 0 {
		return checks
	}
	var each []int16
	var whole int16
	if adds {
		req.Waits()
		whole = n.transactions.addPartitions(ctx, producer, list, txn.V2, func() {
			for _, at := range asked {
				c := &checks[at]
				c.verification = c.log.BeginVerification(producer.ID, producer.Epoch, c.sequence)
			}
		})
	} else {
		each, whole = n.transactions.verify(producer, list)
	}
	for i, at := range asked {
		code := whole
		if code == codeNone && each != nil {
			code = each[i]
		}
		check := &checks[at]
		check.code = produceTxnCode(code, req.Version)
		switch check.code {
		case codeNone, codeNotEnoughReplicas, codeConcurrentTransactions: // it comes again, perhaps after a later one
		default:
			check.log.EndVerification(check.verification)
		}
	}
	return checks
}

// transactionalBatch tells whether records begin with a header that says so.
func transactionalBatch(records []byte) bool {
	return len(records) >= record.HeaderSize && record.Entry(records).Magic() == 2 && record.Batch(records).IsTransactional()
}

// produceTxnCode is what a producer is told for a code of the coordinator. What is to be tried again is NOT_ENOUGH_REPLICAS, which
// clients of every age try again.
func produceTxnCode(code, version int16) int16 {
	switch code {
	case codeProducerFenced:
		return codeInvalidProducerEpoch
	case codeConcurrentTransactions:
		if version >= produceAddsMin {
			return code
		}
		return codeNotEnoughReplicas
	case codeCoordinatorLoadInProgress, codeCoordinatorNotAvailable, codeNotCoordinator:
		return codeNotEnoughReplicas
	case codeTransactionAbortable:
		if version < produceAbortableMin {
			return codeInvalidTxnState
		}
	}
	return code
}
