package txn

import "time"

// An End is an EndTxn.
type End struct {
	Producer
	Commit  bool
	Version int16 // of the client's protocol: V0, or V2, where the epoch rises with each transaction
}

// An Ended is the answer.
type Ended struct {
	Code int16
	// With V2, what the producer goes on with; else, and unless Code is 0, -1.
	ProducerID    int64
	ProducerEpoch int16
	// NeedsID: nothing was done, and the event is to be tried again with a producer id at hand that nobody has had.
	NeedsID bool
}

// EndTxn decides the producer's transaction. The answer comes when the decision is committed; markers follow.
// freshID is an unused producer id, which V2 needs when epochs have run out; -1: none is at hand.
func (s *Shard) EndTxn(now time.Time, req End, freshID int64, reply func(Ended)) Effect {
	fail := func(code int16) Effect {
		return answer(func() { reply(Ended{Code: code, ProducerID: noProducer, ProducerEpoch: noEpoch}) })
	}
	if req.TransactionalID == "" {
		return fail(codeInvalidRequest)
	}
	t := s.ids[req.TransactionalID]
	if t == nil {
		return fail(codeInvalidMapping)
	}
	v2 := req.Version >= V2
	// With V2 the state alone does not tell an EndTxn that comes again from the next one: the epoch does.
	again, current := false, req.Epoch == t.epoch
	if v2 {
		again = req.ID == t.producerID && int32(req.Epoch)+1 == int32(t.epoch) ||
			req.ID == t.previousID && req.Epoch == exhausted && t.epoch == 0 // it got another producer id
	}
	if v2 && t.state.prepared() && (req.ID == t.producerID && current || req.ID == t.nextID && req.Epoch == 0) {
		return fail(codeConcurrent) // the next transaction's end, by what the answer to the last one said
	}
	if req.ID != t.producerID && !again {
		return fail(codeInvalidMapping)
	}
	switch {
	case t.fenced(),
		!v2 && !current,
		v2 && (t.state == Ongoing || t.state == Empty) && !current,
		v2 && t.state.prepared() && !again,
		v2 && !current && !again:
		return fail(codeProducerFenced)
	}
	wanted := CompleteAbort
	if req.Commit {
		wanted = CompleteCommit
	}
	switch {
	case t.state.prepared():
		if t.state.complete() == wanted {
			return fail(codeConcurrent)
		}
		return fail(codeInvalidTxnState)
	case t.state == Ongoing:
	case (again || !v2) && t.state == wanted:
		return answer(func() { reply(t.ended(v2)) })
	case again || !v2 || req.Commit:
		return fail(codeInvalidTxnState)
	default: // an abort of a transaction without partitions, of which the coordinator was never told
	}
	state := PrepareAbort
	if req.Commit {
		state = PrepareCommit
	}
	n := t.next(state, now)
	n.version = min(req.Version, V2)
	last := t.lastEpoch
	if t.state != Ongoing {
		n.partitions, n.start = nil, n.lastUpdate
	}
	if v2 {
		if t.exhaustedEpoch() {
			if freshID == noProducer {
				return answer(func() { reply(Ended{ProducerID: noProducer, ProducerEpoch: noEpoch, NeedsID: true}) })
			}
			n.nextID = freshID
		}
		last = t.epoch
		n.epoch++
	}
	return s.prepare(t.id, n, last, func(err error) {
		if err != nil {
			reply(Ended{Code: codeOf(err), ProducerID: noProducer, ProducerEpoch: noEpoch})
			return
		}
		done := transaction{transit: n}
		done.transit = done.completed(now)
		reply(done.ended(v2))
	})
}

func (t *transaction) ended(v2 bool) Ended {
	if !v2 {
		return Ended{ProducerID: noProducer, ProducerEpoch: noEpoch}
	}
	return Ended{ProducerID: t.producerID, ProducerEpoch: t.epoch}
}

// fence aborts an open transaction for good: with an epoch that no client has had, so that its producer can write no more.
func (s *Shard) fence(now time.Time, t *transaction, then func(error)) Effect {
	n := t.next(PrepareAbort, now)
	n.epoch++
	return s.prepare(t.id, n, noEpoch, then)
}

// prepare is the effect that decides a transaction. Once it is committed, markers are asked for (I3).
func (s *Shard) prepare(id string, n transit, last int16, then func(error)) Effect {
	return s.write(id, n, last, func(err error) {
		if err == nil {
			t := transaction{id: id, transit: n}
			s.opts.Markers(t.markers())
		}
		then(err)
	})
}

func (t *transaction) markers() Markers {
	return Markers{
		TransactionalID: t.id, ProducerID: t.producerID, ProducerEpoch: t.epoch, Commit: t.state == PrepareCommit,
		Version: t.version, Partitions: t.partitions,
	}
}

// completed is what a prepared transaction becomes. Where the epochs of its producer id have run out it goes on with another.
func (t *transaction) completed(now time.Time) transit {
	n := t.next(t.state.complete(), now)
	n.partitions = nil
	if t.version >= V2 && t.nextID != noProducer {
		n.producerID, n.epoch = t.nextID, 0
	}
	return n
}

// MarkersWritten completes the transaction whose markers are all in their logs. Unless reply is told 0, this is to be called again. What
// no longer stands, since it was completed before, is no error.
func (s *Shard) MarkersWritten(now time.Time, m Markers, reply func(code int16)) Effect {
	t := s.ids[m.TransactionalID]
	if t == nil || !t.state.prepared() || t.producerID != m.ProducerID || t.epoch != m.ProducerEpoch {
		return answer(func() { reply(0) })
	}
	return s.write(t.id, t.completed(now), t.lastEpoch, func(err error) { reply(codeOf(err)) })
}
