package server

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/replica"
	"github.com/quire-log/quire/internal/storage"
)

// A shardLog writes a machine's records into its partition, and holds back who waits for them. Whoever makes the shard busy uses it.
type shardLog struct {
	replica  *replica.Partition
	builder  *record.Builder
	batch    []byte // the memory of the last batch, to be used again
	maxBatch int    // max.message.bytes

	base int64 // the offset that the next batch gets
	next int64 // the offset of the next record to be replayed
	// stale: the machine's state is not that of the log, and cannot become so again.
	stale bool
	// careful: an append has failed, and none succeeded since. Events do not share one then, so that a full disk does not make
	// every other event a reason to load anew.
	careful bool

	unapplied []coordRecord  // in builder or in the log, not yet replayed
	entry     coordEntry     // what is replayed
	producer  *coordProducer // of what is in builder
	thens     []func(error)
	released  []finisher
}

// A finisher is a *question of any type.
type finisher interface{ finish(error) }

// batchKeptMax is the largest batch whose memory is kept for the next.
const batchKeptMax = 256 << 10

// recordOverhead bounds what a record takes in a batch besides key and value: seven varints and the attributes.
const recordOverhead = 36

// errForeign: somebody else has written into the log, so the machine has not seen all of it.
var errForeign = errors.New("another writer's records came between")

// begin looks up what the next batches have to heed.
func (l *shardLog) begin(p *replica.Partition) {
	if log := p.Log(); log != nil {
		l.base = int64(log.EndOffset())
		l.next, l.maxBatch = l.base, int(log.Config().MaxMessageBytes)
	}
}

// take carries out one effect: shared, with others that follow, else by itself. An error means that an append has failed.
func (l *shardLog) take(m machine, e effect, now time.Time, shared bool) error {
	if e.records != nil && (e.producer != nil || l.producer != nil) {
		if err := l.flush(m); err != nil {
			call(e.then, err)
			return err
		}
	}
	if len(e.records) > 0 {
		l.producer = e.producer
	}
	if e.then != nil {
		l.thens = append(l.thens, e.then)
	}
	if !shared {
		l.unapplied = e.records
	}
	ms := now.UnixMilli()
	for _, r := range e.records {
		if n := l.builder.Len(); n > 0 && l.builder.Size()+recordOverhead+len(r.key)+len(r.value) > l.maxBatch {
			if err := l.write(); err != nil {
				return l.abandon(err)
			}
		}
		l.builder.Add(record.Record{Timestamp: ms, Key: r.key, Value: r.value})
		if shared {
			l.apply(m, r)
		}
	}
	if !shared || e.producer != nil {
		return l.flush(m)
	}
	return nil
}

// apply replays one record, at the offset that it has or is about to get.
func (l *shardLog) apply(m machine, r coordRecord) {
	// An error is of bytes that cannot be read, and the machine has made these a moment ago.
	l.entry = coordEntry{r, l.next, l.producer}
	_ = m.replay(&l.entry)
	l.next++
}

// flush writes what is gathered, replays what is not replayed yet, and tells everybody who waits for it.
func (l *shardLog) flush(m machine) error {
	if err := l.write(); err != nil {
		return l.abandon(err)
	}
	for _, r := range l.unapplied {
		l.apply(m, r)
	}
	l.unapplied, l.producer = nil, nil
	l.call(nil)
	l.tell(nil)
	return nil
}

// abandon gives up what is gathered.
func (l *shardLog) abandon(err error) error {
	l.careful, l.unapplied, l.producer = true, nil, nil
	l.call(err)
	if l.stale {
		l.tell(err) // some were answered by what is not so
	}
	l.tell(nil)
	return err
}

func call(then func(error), err error) {
	if then != nil {
		then(err)
	}
}

// call calls all that waits for an append.
func (l *shardLog) call(err error) {
	for i := 0; i < len(l.thens); i++ {
		l.thens[i](err)
	}
	clear(l.thens)
	l.thens = l.thens[:0]
}

// tell lets everybody go on who was answered. keeps S2
func (l *shardLog) tell(err error) {
	for _, h := range l.released {
		h.finish(err)
	}
	clear(l.released)
	l.released = l.released[:0]
}

// write appends the batch that is gathered, if any.
func (l *shardLog) write() error {
	if l.builder.Len() == 0 {
		return nil
	}
	b := l.builder
	if p := l.producer; p != nil {
		b.ProducerID, b.ProducerEpoch, b.Attributes = p.id, p.epoch, record.AttrTransactional
	}
	batch, err := b.Batch(l.batch[:0])
	b.ProducerID, b.ProducerEpoch, b.Attributes = -1, -1, 0
	if l.batch = batch; cap(batch) > batchKeptMax {
		l.batch = nil
	}
	if err == nil && len(batch) > l.maxBatch {
		err = &record.InvalidError{Fault: record.FaultTooLarge, Message: fmt.Sprintf("a coordinator's record makes a batch of %d bytes, max.message.bytes is %d", len(batch), l.maxBatch)}
	}
	var a storage.Appended
	if err == nil {
		a, err = l.replica.Append(batch, -1, storage.AppendOptions{Origin: storage.FromCoordinator})
	}
	return l.appended(a, err)
}

// appendMarker writes a control batch.
func (l *shardLog) appendMarker(e *markerEvent) error {
	a, err := l.replica.Append(e.batch, -1, e.options)
	if err := l.appended(a, err); err != nil {
		return err
	}
	l.next = l.base
	return nil
}

// appended notes how an append went. Between two of them the machine has replayed either all of what was written, or none of it.
func (l *shardLog) appended(a storage.Appended, err error) error {
	if err != nil {
		// Replayed and not written, or written in part and not replayed. keeps S1
		l.stale = l.stale || l.next != l.base
		return appendError(err)
	}
	if int64(a.BaseOffset) != l.base {
		l.stale = true
		return &coordinatorError{kerr.CoordinatorLoadInProgress, fmt.Errorf("%w offset %d and %d", errForeign, l.base, a.BaseOffset)}
	}
	l.base, l.careful = int64(a.LastOffset)+1, false
	return nil
}
