package server

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/txn"
	"github.com/quire-log/quire/internal/wire"
)

// DescribeTransactions, version 0: what the coordinator knows of transactional ids. Until a transaction is complete it has all its
// partitions; Kafka leaves out those whose markers are written.
func (n *Node) handleDescribeTransactions(_ context.Context, req *wire.Request) wire.Response {
	var m kmsg.DescribeTransactionsRequest
	if err := req.Decode(&m); err != nil {
		return wire.Close(err)
	}
	resp := m.ResponseKind().(*kmsg.DescribeTransactionsResponse)
	for _, id := range m.TransactionalIDs {
		t := kmsg.NewDescribeTransactionsResponseTransactionState()
		t.TransactionalID = id
		if id == "" {
			t.ErrorCode = codeInvalidRequest
			resp.TransactionStates = append(resp.TransactionStates, t)
			continue
		}
		d, err := onTxn(n.transactions, id, func(s *txnMachine, _ time.Time, reply func(txn.Description)) txn.Effect {
			return txn.Effect{Then: func(error) { reply(s.Describe(id)) }}
		})
		if err != nil {
			t.ErrorCode = err.Code
		} else if t.ErrorCode = d.Code; d.Code == codeNone {
			t.State, t.TimeoutMillis, t.StartTimestamp = d.State.String(), d.TimeoutMs, d.StartMs
			t.ProducerID, t.ProducerEpoch = d.ProducerID, d.ProducerEpoch
			for _, p := range d.Partitions {
				rt := kmsg.NewDescribeTransactionsResponseTransactionStateTopic()
				rt.Topic, rt.Partitions = p.Topic, p.PartitionIDs
				t.Topics = append(t.Topics, rt)
			}
		}
		resp.TransactionStates = append(resp.TransactionStates, t)
	}
	return wire.Reply(resp)
}

// ListTransactions, versions 0-2: v1 filters by duration, v2 by a pattern of ids. It lists the transactions that this node coordinates.
func (n *Node) handleListTransactions(_ context.Context, req *wire.Request) wire.Response {
	var m kmsg.ListTransactionsRequest
	if err := req.Decode(&m); err != nil {
		return wire.Close(err)
	}
	resp := m.ResponseKind().(*kmsg.ListTransactionsResponse)
	f := txn.Filter{ProducerIDs: m.ProducerIDFilters, LongerThanMs: m.DurationFilterMillis}
	if len(m.StateFilters) > 0 {
		f.States = []txn.State{}
	}
	for _, name := range m.StateFilters {
		if s, known := txn.StateNamed(name); known {
			f.States = append(f.States, s)
		} else {
			resp.UnknownStateFilters = append(resp.UnknownStateFilters, name)
		}
	}
	if p := m.TransactionalIDPattern; p != nil && *p != "" {
		var code int16
		if f.Pattern, code = txn.CompilePattern(*p); code != codeNone {
			resp.ErrorCode = code
			return wire.Reply(resp)
		}
	}
	for _, s := range n.transactions.all() {
		listed, err := consult(context.Background(), n.transactions.shards, s.partition, func(m *txnMachine, now time.Time, reply func([]txn.Listed)) effect {
			return effect{then: func(error) { reply(m.List(now, f)) }}
		})
		if err == kerr.CoordinatorLoadInProgress {
			resp.ErrorCode, resp.TransactionStates = err.Code, nil
			break
		}
		for _, l := range listed { // none where it is no longer led
			t := kmsg.NewListTransactionsResponseTransactionState()
			t.TransactionalID, t.ProducerID, t.TransactionState = l.TransactionalID, l.ProducerID, l.State.String()
			resp.TransactionStates = append(resp.TransactionStates, t)
		}
	}
	return wire.Reply(resp)
}
