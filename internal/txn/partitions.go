package txn

import (
	"time"

	"github.com/quire-log/quire/internal/kmeta"
)

// A Producer is who asks for something to be done with its transaction.
type Producer struct {
	TransactionalID string
	ID              int64
	Epoch           int16
}

// AddPartitions makes partitions part of the producer's transaction, and begins one if none is open. version is that of the
// client's protocol: V0 for a client that says itself what it is going to write, V2 where it is written by a broker on the first write.
func (s *Shard) AddPartitions(now time.Time, p Producer, partitions []kmeta.TxnPartitions, version int16, reply func(code int16)) Effect {
	if p.TransactionalID == "" {
		return answer(func() { reply(codeInvalidRequest) })
	}
	t, code := s.owned(p)
	if code == 0 && t.state == Ongoing && t.hasAll(partitions) {
		return answer(func() { reply(0) })
	}
	if code != 0 {
		return answer(func() { reply(code) })
	}
	n := t.next(Ongoing, now)
	n.version = version
	n.partitions = union(t.partitions, partitions)
	if t.state != Ongoing {
		n.start = n.lastUpdate
	}
	return s.write(t.id, n, t.lastEpoch, func(err error) { reply(codeOf(err)) })
}

// VerifyPartition tells whether a partition is part of the producer's open transaction, and changes nothing.
func (s *Shard) VerifyPartition(p Producer, topic string, partition int32) int16 {
	t, code := s.owned(p)
	if code == 0 && !(t.state == Ongoing && t.has(topic, partition)) {
		code = codeTxnAbortable
	}
	return code
}

// owned finds the transaction, if its id is the producer's and nothing is being ended.
func (s *Shard) owned(p Producer) (*transaction, int16) {
	t := s.ids[p.TransactionalID]
	switch {
	case t == nil:
		return nil, codeInvalidMapping
	case t.state.prepared():
		// Before the others: the producer may know the id and epoch that it has after completion already.
		if p.Epoch < t.epoch && p.ID == t.producerID {
			return nil, codeProducerFenced
		}
		return nil, codeConcurrent
	case p.ID != t.producerID:
		return nil, codeInvalidMapping
	case p.Epoch != t.epoch || t.fenced():
		return nil, codeProducerFenced
	}
	return t, 0
}
