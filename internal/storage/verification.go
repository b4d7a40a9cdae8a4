package storage

import (
	"fmt"

	"github.com/quire-log/quire/internal/record"
)

// A Verification is one's leave to open a producer's transaction in a log. Between asking the transaction coordinator whether the
// partition is part of the transaction and the append, the transaction may end: its marker then takes back the leave, so that
// no batch opens a transaction that nobody is going to end.
type Verification struct {
	producerID int64
	epoch      int16
	lowest     int32 // the lowest first sequence of the batches that asked for it
	began      int64 // ms
	open       bool  // nothing need be asked: the transaction is open
}

// Open tells that the producer's transaction was open already, so that nobody need be asked.
func (v *Verification) Open() bool { return v.open }

// alreadyOpen are all that need not ask; an append that comes with it finds the transaction still open, or is refused.
var alreadyOpen = &Verification{open: true}

// BeginVerification is called before a producer's transactional batch is appended: it is to be handed on with AppendOptions.
// Batches of a producer that come at the same time share one.
func (l *Log) BeginVerification(producerID int64, epoch int16, firstSequence int32) *Verification {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.producers.byID[producerID]; p != nil && p.txnStart >= 0 && p.epoch == epoch {
		return alreadyOpen
	}
	v := l.verifications[producerID]
	if v == nil || v.epoch < epoch {
		v = &Verification{producerID: producerID, epoch: epoch, lowest: firstSequence, began: nowMs()}
		if l.verifications == nil {
			l.verifications = map[int64]*Verification{}
		}
		l.verifications[producerID] = v
	}
	v.lowest = min(v.lowest, firstSequence)
	return v
}

// Verified tells whether an append that comes with v would be let into a transaction now. It is for those who append with
// FromCoordinator, and let no marker come between.
func (l *Log) Verified(v *Verification, producerID int64, epoch int16) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.producers.byID[producerID]; p != nil && p.txnStart >= 0 && p.epoch == epoch {
		return true
	}
	return !v.open && l.verifications[producerID] == v
}

// Producer is what the log knows of one producer; false: nothing.
func (l *Log) Producer(id int64) (ProducerInfo, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.producers.byID[id]
	if p == nil {
		return ProducerInfo{}, false
	}
	return p.info(), true
}

// EndVerification gives up a verification that came to nothing, and will not come to anything by trying again.
func (l *Log) EndVerification(v *Verification) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.verifications[v.producerID] == v {
		delete(l.verifications, v.producerID)
	}
}

// TakeBackVerification takes a producer's leave, as a marker of that epoch does, where no marker is to be written. newEpochs is
// AppendOptions.NewEpochPerTransaction.
func (l *Log) TakeBackVerification(producerID int64, epoch int16, newEpochs bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.takeBack(producerID, endedBelow(epoch, newEpochs))
}

// endedBelow is the first epoch whose transaction a marker of an epoch does not end. Where each transaction has an epoch of its own, a
// marker has that of the next one, which may have been begun already: the producer hears of the end before its markers are written.
func endedBelow(epoch int16, newEpochs bool) int32 {
	if newEpochs {
		return int32(epoch)
	}
	return int32(epoch) + 1
}

// takeBack takes a producer's leave to open a transaction of an epoch below. mu is held.
func (l *Log) takeBack(producerID int64, below int32) {
	if v := l.verifications[producerID]; v != nil && int32(v.epoch) < below {
		delete(l.verifications, producerID)
	}
}

// checkVerified decides whether a transactional batch may open a transaction, or belongs to an open one. mu is held.
func (l *Log) checkVerified(p *producer, b record.Batch, offset Offset, v *Verification) ruling {
	if p != nil && p.txnStart >= 0 && p.epoch == b.ProducerEpoch() {
		return ruling{}
	}
	if v.open || l.verifications[b.ProducerID()] != v {
		return refuse(InvalidTxnState, "the transaction of producer %d, epoch %d, ended before its batch came to offset %d", b.ProducerID(), b.ProducerEpoch(), offset)
	}
	// A producer that this log does not know may begin anywhere, but not with what it sent later than a batch that waits to be sent again.
	if b.BaseSequence() > v.lowest {
		return refuse(OutOfOrderSequence, "sequence %d of producer %d at offset %d came before %d", b.BaseSequence(), b.ProducerID(), offset, v.lowest)
	}
	return ruling{}
}

// forgetVerifications drops those that were begun as long ago as producers are remembered. mu is held.
func (l *Log) forgetVerifications() {
	limit := nowMs() - l.config.Load().ProducerExpirationMs
	for id, v := range l.verifications {
		if v.began <= limit {
			delete(l.verifications, id)
		}
	}
}

func (v *Verification) String() string {
	return fmt.Sprintf("producer %d, epoch %d, from sequence %d", v.producerID, v.epoch, v.lowest)
}
