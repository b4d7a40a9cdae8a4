package txn

import (
	"strings"
	"time"
)

// An Init is an InitProducerId with a transactional id.
type Init struct {
	TransactionalID string
	TimeoutMs       int32
	ProducerID      int64 // of a producer that goes on after an error; -1: it begins
	ProducerEpoch   int16
}

// An Initialised is the answer.
type Initialised struct {
	Code          int16
	ProducerID    int64 // -1 unless Code is 0
	ProducerEpoch int16
	// NeedsID: nothing was done, and the event is to be tried again with a producer id at hand that nobody has had.
	NeedsID bool
}

// InitProducerID makes a transactional id its caller's: whoever had it before is fenced, and what it left open is aborted,
// during which callers are told to try again. freshID is an unused producer id; -1: none is at hand.
func (s *Shard) InitProducerID(now time.Time, req Init, freshID int64, reply func(Initialised)) Effect {
	fail := func(code int16) Effect {
		return answer(func() { reply(Initialised{Code: code, ProducerID: noProducer, ProducerEpoch: noEpoch}) })
	}
	needsID := func() Effect {
		return answer(func() { reply(Initialised{ProducerID: noProducer, ProducerEpoch: noEpoch, NeedsID: true}) })
	}
	switch {
	case req.TransactionalID == "":
		return fail(codeInvalidRequest)
	case req.TimeoutMs <= 0 || time.Duration(req.TimeoutMs)*time.Millisecond > s.opts.Config.MaxTimeout:
		return fail(codeInvalidTimeout)
	}
	id := strings.Clone(req.TransactionalID)
	grant := func(n transit, last int16) Effect {
		return s.write(id, n, last, func(err error) {
			if err != nil {
				reply(Initialised{Code: codeOf(err), ProducerID: noProducer, ProducerEpoch: noEpoch})
				return
			}
			reply(Initialised{ProducerID: n.producerID, ProducerEpoch: n.epoch})
		})
	}
	t := s.ids[id]
	if t == nil {
		// A producer that names its id and epoch has outlived its transactional id here: it begins anew.
		if freshID == noProducer {
			return needsID()
		}
		return grant(transit{
			producerID: freshID, previousID: freshID, nextID: noProducer, nextEpochTag: noEpoch,
			timeoutMs: req.TimeoutMs, start: noTimestamp, lastUpdate: now.UnixMilli(),
		}, noEpoch)
	}
	goesOn := req.ProducerID != noProducer
	// The producer id may be the one before only if its epochs had run out: then the answer that named the new one was lost.
	if goesOn && req.ProducerID != t.producerID && !(req.ProducerID == t.previousID && req.ProducerEpoch >= exhausted) {
		return fail(codeProducerFenced)
	}
	if t.state.prepared() {
		return fail(codeConcurrent)
	}
	if t.state == Ongoing {
		if goesOn && req.ProducerEpoch != t.epoch {
			return fail(codeProducerFenced) // one who is fenced must not abort another's transaction
		}
		s.opts.OnEvent(Event{t.id, EventFenced, t.producerID, t.epoch, "another InitProducerId of its transactional id"})
		return s.fence(now, t, func(err error) {
			code := codeConcurrent
			if err != nil {
				code = codeOf(err)
			}
			reply(Initialised{Code: code, ProducerID: noProducer, ProducerEpoch: noEpoch})
		})
	}
	n := t.next(Empty, now)
	n.timeoutMs, n.partitions, n.start = req.TimeoutMs, nil, noTimestamp
	last := noEpoch
	switch {
	case goesOn && req.ProducerEpoch != t.epoch:
		if t.lastEpoch == noEpoch || req.ProducerEpoch != t.lastEpoch {
			return fail(codeProducerFenced)
		}
		return grant(n, t.lastEpoch) // the same answer again
	case t.exhaustedEpoch():
		if freshID == noProducer {
			return needsID()
		}
		n.producerID, n.epoch = freshID, 0
	default:
		n.epoch++
	}
	if goesOn {
		last = t.epoch
	}
	return grant(n, last)
}
