package storage

import (
	"fmt"

	"github.com/quire-log/quire/internal/record"
)

// duplicateWindow is how many of a producer's last batches are recognised when they come again.
const duplicateWindow = 5

// A sentBatch is what is remembered of a producer's batch.
type sentBatch struct {
	lastSequence int32
	lastOffset   Offset
	delta        int32 // last offset - first offset, and the same of sequences
	timestamp    int64
}

func (b *sentBatch) firstSequence() int32 { return addSequence(b.lastSequence, -b.delta) }
func (b *sentBatch) firstOffset() Offset  { return b.lastOffset - Offset(b.delta) }

// addSequence counts on from a sequence; after 2147483647 comes 0.
func addSequence(sequence, n int32) int32 { return int32((int64(sequence) + int64(n)) & 0x7fffffff) }

// A producer is what a log knows of one.
type producer struct {
	id               int64
	epoch            int16
	coordinatorEpoch int32
	lastTimestamp    int64
	txnStart         Offset      // -1: none is open
	sent             []sentBatch // at most duplicateWindow, oldest first
}

func newProducer(id int64) *producer {
	return &producer{id: id, epoch: -1, coordinatorEpoch: -1, lastTimestamp: -1, txnStart: -1}
}

func (p *producer) lastSequence() int32 {
	if len(p.sent) == 0 {
		return -1
	}
	return p.sent[len(p.sent)-1].lastSequence
}

// duplicate finds the batch with the same epoch and sequences among the last ones.
func (p *producer) duplicate(b record.Batch) (sentBatch, bool) {
	if b.ProducerEpoch() != p.epoch {
		return sentBatch{}, false
	}
	for _, s := range p.sent {
		if s.firstSequence() == b.BaseSequence() && s.lastSequence == b.LastSequence() {
			return s, true
		}
	}
	return sentBatch{}, false
}

// A marker is the content of a control batch that ends a transaction.
type marker struct {
	commit           bool
	coordinatorEpoch int32
}

// readMarker reads the marker in a control batch of a producer. An empty one (all compacted away) and other kinds of control
// record are none.
func readMarker(b record.Batch, r *record.Reader) (marker, bool, error) {
	if err := r.Reset(b, inflateMax); err != nil {
		return marker{}, false, err
	}
	if !r.Next() {
		return marker{}, false, r.Err()
	}
	kind, err := record.ParseControlKey(r.Record().Key)
	if err != nil || kind != record.ControlAbort && kind != record.ControlCommit {
		return marker{}, false, err
	}
	epoch, err := record.ParseEndTxnMarker(r.Record().Value)
	return marker{kind == record.ControlCommit, epoch}, err == nil, err
}

// A ruling is what a producer's rules say of a batch; the zero one lets it pass.
type ruling struct {
	fault   SequenceFault
	message string
}

func (r ruling) ok() bool { return r.fault == 0 }

func refuse(fault SequenceFault, format string, args ...any) ruling {
	return ruling{fault, fmt.Sprintf(format, args...)}
}

// checkData decides whether a producer's data batch may be appended at offset. p is nil when the log does not know it.
// Nothing is changed.
func checkData(p *producer, b record.Batch, offset Offset, o AppendOptions) ruling {
	id, epoch, first := b.ProducerID(), b.ProducerEpoch(), b.BaseSequence()
	if p == nil {
		if o.Origin == FromClient && o.VerifyUnknownProducer && first != 0 {
			return refuse(OutOfOrderSequence, "producer %d is not known here and began with sequence %d at offset %d, want 0", id, first, offset)
		}
		return ruling{}
	}
	if epoch < p.epoch {
		return refuse(OldProducerEpoch, "epoch %d of producer %d at offset %d is older than the last seen, %d", epoch, id, offset, p.epoch)
	}
	if o.Origin == FromClient {
		switch last := p.lastSequence(); {
		case epoch != p.epoch && p.epoch != -1:
			if first != 0 {
				return refuse(OutOfOrderSequence, "sequence %d of producer %d at offset %d is the first of epoch %d after %d, want 0", first, id, offset, epoch, p.epoch)
			}
		case p.epoch == -1: // nothing is known of it
		case int64(first) == int64(last)+1 || first == 0 && last == 1<<31-1:
		default:
			return refuse(OutOfOrderSequence, "sequence %d of producer %d at offset %d follows %d", first, id, offset, last)
		}
	}
	if p.txnStart >= 0 && !b.IsTransactional() {
		return refuse(InvalidTxnState, "producer %d wrote outside its transaction, which is open since offset %d", id, p.txnStart)
	}
	return ruling{}
}

// checkMarker decides the same for a transaction marker.
func checkMarker(p *producer, b record.Batch, m marker, offset Offset, o AppendOptions) ruling {
	if p == nil {
		return ruling{}
	}
	id, epoch := b.ProducerID(), b.ProducerEpoch()
	if epoch < p.epoch || o.NewEpochPerTransaction && epoch == p.epoch && p.txnStart >= 0 {
		return refuse(OldProducerEpoch, "epoch %d in a marker for producer %d at offset %d is not newer than the last seen, %d", epoch, id, offset, p.epoch)
	}
	if m.coordinatorEpoch < p.coordinatorEpoch {
		return refuse(CoordinatorFenced, "coordinator epoch %d in a marker for producer %d at offset %d is older than the last seen, %d",
			m.coordinatorEpoch, id, offset, p.coordinatorEpoch)
	}
	return ruling{}
}

// A completedTxn is a transaction that its marker has ended.
type completedTxn struct {
	producerID  int64
	first, last Offset // last is the marker's
	aborted     bool
}

func (p *producer) adoptEpoch(epoch int16) {
	if p.epoch != epoch {
		p.epoch = epoch
		p.sent = p.sent[:0]
	}
}

// addData notes a data batch that was appended. It tells whether it opened a transaction.
func (p *producer) addData(b record.Batch) (opened bool) {
	p.adoptEpoch(b.ProducerEpoch())
	if len(p.sent) == duplicateWindow {
		copy(p.sent, p.sent[1:])
		p.sent = p.sent[:duplicateWindow-1]
	}
	p.sent = append(p.sent, sentBatch{b.LastSequence(), b.LastOffset(), b.LastOffsetDelta(), b.MaxTimestamp()})
	p.lastTimestamp = b.MaxTimestamp()
	if b.IsTransactional() && p.txnStart < 0 {
		p.txnStart = b.BaseOffset()
		return true
	}
	return false
}

// addMarker notes a marker that was appended. It returns the transaction that it ended, if there was data in it.
func (p *producer) addMarker(b record.Batch, m marker) (completedTxn, bool) {
	p.adoptEpoch(b.ProducerEpoch())
	done := completedTxn{p.id, p.txnStart, b.LastOffset(), !m.commit}
	p.coordinatorEpoch, p.lastTimestamp, p.txnStart = m.coordinatorEpoch, b.MaxTimestamp(), -1
	return done, done.first >= 0
}

func (p *producer) info() ProducerInfo {
	return ProducerInfo{p.id, p.epoch, p.lastSequence(), p.lastTimestamp, p.coordinatorEpoch, p.txnStart}
}
