package server

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/txn"
	"github.com/quire-log/quire/internal/wire"
)

// producerIDs hands out producer ids from a block that the controller has given this node: no id is given twice, not over restarts either.
type producerIDs struct {
	// allocate gets the next block; it is durable when it returns.
	allocate func(ctx context.Context) (first int64, n int32, err error)

	// mu guards the block, and is held while the next one is got: those who come meanwhile need it too.
	mu        sync.Mutex
	next, end int64
}

func newProducerIDs(allocate func(ctx context.Context) (first int64, n int32, err error)) *producerIDs {
	return &producerIDs{allocate: allocate}
}

func (p *producerIDs) take(ctx context.Context) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == p.end {
		first, n, err := p.allocate(ctx)
		if err != nil {
			return -1, err
		}
		p.next, p.end = first, first+int64(n)
	}
	id := p.next
	p.next++
	return id, nil
}

// freshProducerID takes an id for a transactional producer. code: none can be had.
func (n *Node) freshProducerID(ctx context.Context) (id int64, code int16) {
	id, err := n.producerIDs.take(ctx)
	if err != nil {
		n.log.Error("no producer id could be given", "error", err)
		code, _ = errorCode(err)
		return -1, code
	}
	return id, codeNone
}

// InitProducerId, versions 0-5: v2 flexible, v3 producer id and epoch of one who goes on, v4 knows PRODUCER_FENCED, v5 TRANSACTION_ABORTABLE.
// Without a transactional id each call gives a new producer id of epoch 0. With one, its coordinator says what the producer is.
func (n *Node) handleInitProducerID(ctx context.Context, req *wire.Request) wire.Response {
	var m kmsg.InitProducerIDRequest
	if err := req.Decode(&m); err != nil {
		return wire.Close(err)
	}
	resp := m.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	switch {
	case (m.ProducerID == -1) != (m.ProducerEpoch == -1), m.TransactionalID != nil && *m.TransactionalID == "":
		resp.ErrorCode = codeInvalidRequest
	case m.TransactionalID != nil:
		n.initTransactional(ctx, &m, resp)
	default:
		id, code := n.freshProducerID(ctx)
		if resp.ErrorCode = code; code == codeNone {
			resp.ProducerID, resp.ProducerEpoch = id, 0
		}
	}
	return wire.Reply(resp)
}

func (n *Node) initTransactional(ctx context.Context, m *kmsg.InitProducerIDRequest, resp *kmsg.InitProducerIDResponse) {
	in := txn.Init{TransactionalID: *m.TransactionalID, TimeoutMs: m.TransactionTimeoutMillis, ProducerID: m.ProducerID, ProducerEpoch: m.ProducerEpoch}
	fresh := int64(-1)
	for {
		answer, err := onTxn(n.transactions, in.TransactionalID, func(s *txnMachine, now time.Time, reply func(txn.Initialised)) txn.Effect {
			return s.InitProducerID(now, in, fresh, reply)
		})
		if err != nil {
			resp.ErrorCode = err.Code
			return
		}
		if answer.NeedsID && fresh == -1 {
			if fresh, resp.ErrorCode = n.freshProducerID(ctx); resp.ErrorCode != codeNone {
				return
			}
			continue
		}
		resp.ErrorCode = txnCode(answer.Code, m.Version >= 4, m.Version >= 5)
		resp.ProducerID, resp.ProducerEpoch = answer.ProducerID, answer.ProducerEpoch
		return
	}
}
