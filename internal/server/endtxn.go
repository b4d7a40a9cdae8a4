package server

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/txn"
	"github.com/quire-log/quire/internal/wire"
)

// EndTxn, versions 0-5: v2 knows PRODUCER_FENCED, v3 is flexible, v4 knows TRANSACTION_ABORTABLE; v5 is transactions v2, whose answer
// has the producer id and epoch of the next transaction. The answer comes once the outcome is decided; markers follow it.
func (n *Node) handleEndTxn(ctx context.Context, req *wire.Request) wire.Response {
	var m kmsg.EndTxnRequest
	if err := req.Decode(&m); err != nil {
		return wire.Close(err)
	}
	resp := m.ResponseKind().(*kmsg.EndTxnResponse)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	end := txn.End{Producer: txn.Producer{TransactionalID: m.TransactionalID, ID: m.ProducerID, Epoch: m.ProducerEpoch}, Commit: m.Commit}
	if m.Version >= 5 {
		end.Version = txn.V2
	}
	fresh := int64(-1)
	for {
		answer, err := onTxn(n.transactions, m.TransactionalID, func(s *txnMachine, now time.Time, reply func(txn.Ended)) txn.Effect {
			return s.EndTxn(now, end, fresh, reply)
		})
		if err != nil {
			resp.ErrorCode = err.Code
			break
		}
		if answer.NeedsID && fresh == -1 {
			var code int16
			if fresh, code = n.freshProducerID(ctx); code != codeNone {
				resp.ErrorCode = code
				break
			}
			continue
		}
		resp.ErrorCode = txnCode(answer.Code, m.Version >= 2, m.Version >= 4)
		if m.Version >= 5 {
			resp.ProducerID, resp.ProducerEpoch = answer.ProducerID, answer.ProducerEpoch
		}
		break
	}
	return wire.Reply(resp)
}
