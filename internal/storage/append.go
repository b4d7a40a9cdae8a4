package storage

import (
	"errors"
	"fmt"
	"sync"

	"github.com/quire-log/quire/internal/record"
)

// An Origin is who made a batch.
type Origin int

const (
	FromClient      Origin = iota // validated by every rule
	FromCoordinator               // control batches allowed; times and bytes kept
)

// AppendOptions go with an append of the leader.
type AppendOptions struct {
	LeaderEpoch Epoch
	Origin      Origin
	// VerifyUnknownProducer: a producer that this log does not know must begin at sequence 0 (transactions v2).
	VerifyUnknownProducer bool
	// NewEpochPerTransaction: a marker's epoch must be newer than its producer's, unless no transaction is open: then it is a
	// marker come twice (transactions v2).
	NewEpochPerTransaction bool
	// Verification is what a client's transactional batch needs to open a transaction; nil: nothing is needed.
	Verification *Verification
}

// Appended is where a batch went.
type Appended struct {
	BaseOffset, LastOffset Offset
	LogAppendTime          int64 // ms; -1 unless the topic's times are the broker's; for a duplicate, the first one's
	LogStart               Offset
	Duplicate              bool // nothing was written: the offsets are those of the first time
}

// An UnexpectedOffsetError refuses a follower's batches: their offsets do not follow the log's end, or each other.
type UnexpectedOffsetError struct {
	Partition TopicPartition
	Offset    Offset // of a batch
	Want      Offset // the least that it could have been
}

func (e *UnexpectedOffsetError) Error() string {
	return fmt.Sprintf("%s: a batch begins at offset %d, want %d or more", e.Partition, e.Offset, e.Want)
}

// scratch holds what validation needs to encode a batch anew.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// Append writes one batch at the end, with its base offset, epoch and, by the topic's rules, times stamped in. batch is changed in place
// and not kept. Errors: *record.InvalidError, *SequenceError, *RecordListTooLargeError, *DiskFullError, *FailedError.
// When flush.messages demands it, it returns only after an fsync that covers the batch (concurrent appends share one).
func (l *Log) Append(batch record.Batch, o AppendOptions) (Appended, error) {
	cfg := l.config.Load()
	now := nowMs()
	appendTime := int64(-1)
	if o.Origin == FromClient {
		if l.diskFull != nil && l.diskFull.Load() {
			return Appended{}, &DiskFullError{l.partition, errDiskWatermark}
		}
		// Neither offsets nor the log's state matter here, so producers of one partition are validated side by side.
		buf := scratch.Get().(*[]byte)
		defer scratch.Put(buf)
		v, err := record.Validate(batch, cfg.rules(now, l.name), (*buf)[:0])
		if err != nil {
			l.future.refused(err, batch, cfg, now)
			return Appended{}, err
		}
		if v.Rewritten && cap(v.Batch) <= pooledMax {
			*buf = v.Batch
		}
		batch = v.Batch
		if cfg.LogAppendTime {
			appendTime = now
		}
	} else if b, err := record.FirstBatch(batch); err != nil || len(b) != len(batch) || b.LastOffsetDelta() < 0 {
		return Appended{}, &record.InvalidError{Fault: record.FaultInvalid, Message: "not one whole batch"}
	}

	l.mu.Lock()
	a, err := l.append(batch, o, cfg)
	l.mu.Unlock()
	if err != nil {
		return Appended{}, err
	}
	if !a.Duplicate {
		a.LogAppendTime = appendTime
		if ahead := batch.MaxTimestamp() - now; ahead > futureTolerance && o.Origin == FromClient {
			l.noteFuture(a, ahead, cfg, now)
		}
		if err := l.flushIfDue(cfg, a.LastOffset+1); err != nil {
			return Appended{}, err
		}
	}
	return a, nil
}

// append is Append of a sound batch. mu is held. The order is Kafka's: epoch, size, roll, producer.
func (l *Log) append(b record.Batch, o AppendOptions, cfg *Config) (Appended, error) {
	if err := l.usable(); err != nil {
		return Appended{}, err
	}
	base := l.EndOffset()
	b.SetBaseOffset(base)
	b.SetLeaderEpoch(o.LeaderEpoch)
	last := b.LastOffset()
	if o.LeaderEpoch >= 0 && o.LeaderEpoch != l.epochs.latest() {
		l.epochs.assign(o.LeaderEpoch, base)
	}
	if len(b) > int(cfg.SegmentBytes) {
		return Appended{}, &RecordListTooLargeError{l.partition, len(b), cfg.SegmentBytes}
	}
	if err := l.rollIfDue(base, int64(len(b)), b.MaxTimestamp(), last, cfg); err != nil {
		return Appended{}, err
	}
	var m *marker
	if b.HasProducer() {
		first, refused, mark, err := l.judge(b, base, o)
		if err != nil || refused {
			return first, err
		}
		m = mark
	}
	pos := l.active.seg.size.Load()
	if err := l.write(b, pos); err != nil {
		return Appended{}, err
	}
	l.index(found{pos, int64(len(b)), base, last}, b.MaxTimestamp(), cfg)
	if b.HasProducer() {
		if err := l.noteProducer(b, m, o.NewEpochPerTransaction); err != nil {
			return Appended{}, err
		}
	}
	l.publish(last+1, pos+int64(len(b)))
	return Appended{BaseOffset: base, LastOffset: last, LogAppendTime: -1, LogStart: l.StartOffset()}, nil
}

// judge applies a producer's rules to its batch. done: the batch is a duplicate, and first says where it is. Otherwise m is the
// marker in a control batch. mu is held; nothing is changed.
func (l *Log) judge(b record.Batch, base Offset, o AppendOptions) (first Appended, done bool, m *marker, err error) {
	p := l.producers.byID[b.ProducerID()]
	var r ruling
	if b.IsControl() {
		mark, ok, err := readMarker(b, &l.producers.reader)
		if err != nil {
			return first, false, nil, &record.InvalidError{Fault: record.FaultInvalid, Message: err.Error()}
		}
		if ok {
			m = &mark
			r = checkMarker(p, b, mark, base, o)
		}
	} else {
		if p != nil && o.Origin == FromClient {
			if d, ok := p.duplicate(b); ok {
				return Appended{BaseOffset: d.firstOffset(), LastOffset: d.lastOffset, LogAppendTime: d.timestamp, LogStart: l.StartOffset(), Duplicate: true}, true, nil, nil
			}
		}
		if o.Verification != nil && b.IsTransactional() {
			r = l.checkVerified(p, b, base, o.Verification)
		}
		if r.ok() {
			r = checkData(p, b, base, o)
		}
	}
	if !r.ok() {
		return first, false, nil, &SequenceError{l.partition, r.fault, r.message}
	}
	return first, false, m, nil
}

// rollIfDue begins a new segment if the rules demand it of a set of n bytes that begins at first. mu is held.
func (l *Log) rollIfDue(first Offset, n, maxTime int64, last Offset, cfg *Config) error {
	cause, err := l.rollCause(n, maxTime, last, cfg)
	if err != nil {
		return l.diskError(err)
	}
	if cause == "" {
		return nil
	}
	return l.roll(first, cause)
}

// write puts bytes at pos, the end of the active segment. When that fails, what was written is taken back; when that fails too,
// the log is failed (I6). mu is held.
func (l *Log) write(b []byte, pos int64) error {
	n, err := l.active.file.WriteAt(b, pos)
	if err == nil && n == len(b) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("%s: %d of %d bytes were written", l.active.seg.name(logSuffix), n, len(b))
	}
	if undo := l.active.file.Truncate(pos); undo != nil {
		return l.fail(errors.Join(err, undo))
	}
	return l.diskError(err)
}

// index notes a batch that was written: its timestamp, its place, and index entries if they are due. mu is held.
func (l *Log) index(b found, maxTime int64, cfg *Config) {
	a := &l.active
	a.seg.observe(maxTime, b.last)
	if b.pos == 0 {
		a.firstTime, a.hasFirstTime = maxTime, true
	}
	if a.sinceIndex > int64(cfg.IndexInterval) && !a.offsets.full(0) {
		largest, _ := a.seg.largestSoFar()
		addIndexEntries(a.seg.base, a.offsets, a.times, b.last, b.pos, largest)
		a.sinceIndex = 0
	}
	a.sinceIndex += b.size
	base := int64(a.seg.base)
	a.seg.ring.Load().add(int64(b.first)-base, int64(b.last)-base, b.pos, b.size)
}

// noteProducer changes the producers' state for a batch that was written. A .txnindex that cannot be written fails the log:
// readers would be shown what was aborted. newEpochs is AppendOptions.NewEpochPerTransaction. mu is held.
func (l *Log) noteProducer(b record.Batch, m *marker, newEpochs bool) error {
	if b.IsControl() && m == nil {
		return nil
	}
	if m != nil {
		l.takeBack(b.ProducerID(), endedBelow(b.ProducerEpoch(), newEpochs))
	} else {
		delete(l.verifications, b.ProducerID()) // data has used it
	}
	done, ended := l.producers.apply(b, m)
	if !ended {
		return nil
	}
	a := abortedTxn{done.producerID, done.first, done.last, l.producers.txns.stableAfter(done)}
	l.producers.txns.complete(done)
	if !done.aborted {
		return nil
	}
	s := l.active.seg
	txns := s.aborted()
	if err := writeTxnEntry(l.at, s.base, len(txns), a); err != nil && !isDiskFull(err) {
		return l.fail(err)
	}
	// On a full disk the entry stays in memory: it is written with the next one, or by recovery.
	s.setAborted(append(txns, a))
	l.anyAborted.Store(true)
	return nil
}

// publish shows readers what was written. mu is held.
func (l *Log) publish(end Offset, size int64) {
	l.producers.end = end
	l.end.Store(int64(end))
	l.active.seg.size.Store(size)
}

// AppendAsFollower writes batches as they are: offsets at or beyond the end, rising, gaps allowed. Where the log is empty and
// the first batch spans its end, it begins anew at that batch. Errors: *CorruptError, *UnexpectedOffsetError and those of Append.
func (l *Log) AppendAsFollower(batches []byte) (Appended, error) {
	cfg := l.config.Load()
	set, err := l.checkSet(batches)
	if err != nil {
		return Appended{}, err
	}
	l.mu.Lock()
	a, err := l.appendSet(batches, set, cfg)
	l.mu.Unlock()
	if err != nil {
		return Appended{}, err
	}
	if err := l.flushIfDue(cfg, a.LastOffset+1); err != nil {
		return Appended{}, err
	}
	return a, nil
}

// A batchSet is what is known of several batches in a row.
type batchSet struct {
	first, last, firstLast Offset // firstLast is the last offset of the first batch
	maxTime                int64
	legacy                 bool // the first is of magic 0 or 1, whose first offset is not known
}

// checkSet looks at bytes from a leader: whole entries with right checksums, their offsets rising.
func (l *Log) checkSet(batches []byte) (batchSet, error) {
	set := batchSet{maxTime: -1, last: -1}
	size := int64(len(batches))
	for pos := int64(0); pos < size; {
		e, err := record.FirstEntry(batches[pos:])
		if err == nil {
			err = e.Check()
		}
		if err != nil {
			return set, &CorruptError{l.partition, "batches from the leader", pos, set.last, err}
		}
		if pos == 0 {
			set.first, set.firstLast, set.legacy = e.BaseOffset(), e.LastOffset(), e.Magic() < 2
		}
		if e.BaseOffset() <= set.last || e.LastOffset() < e.BaseOffset() {
			return set, &UnexpectedOffsetError{l.partition, e.BaseOffset(), set.last + 1}
		}
		set.last, set.maxTime = e.LastOffset(), max(set.maxTime, e.MaxTimestamp())
		pos += int64(len(e))
	}
	if size == 0 {
		return set, &CorruptError{l.partition, "batches from the leader", 0, -1, errors.New("there are none")}
	}
	return set, nil
}

// appendSet is AppendAsFollower of a sound set. mu is held.
func (l *Log) appendSet(batches []byte, set batchSet, cfg *Config) (Appended, error) {
	if err := l.usable(); err != nil {
		return Appended{}, err
	}
	end := l.EndOffset()
	if set.first < end {
		if end != l.StartOffset() || set.firstLast < end {
			return Appended{}, &UnexpectedOffsetError{l.partition, set.first, end}
		}
		if err := l.restartAt(set.first, fmt.Sprintf("the leader's first batch, %d to %d, spans the start of a log without records", set.first, set.firstLast)); err != nil {
			return Appended{}, err
		}
	}
	err := eachEntry(batches, func(_ int64, e record.Entry) error {
		if epoch := e.LeaderEpoch(); epoch >= 0 && epoch != l.epochs.latest() {
			l.epochs.assign(epoch, e.BaseOffset())
		}
		return nil
	})
	if err != nil {
		return Appended{}, l.diskError(err)
	}
	if len(batches) > int(cfg.SegmentBytes) {
		return Appended{}, &RecordListTooLargeError{l.partition, len(batches), cfg.SegmentBytes}
	}
	rollAt := set.first
	if set.legacy {
		rollAt = max(l.EndOffset(), set.last-deltaLimit+1)
	}
	if err := l.rollIfDue(rollAt, int64(len(batches)), set.maxTime, set.last, cfg); err != nil {
		return Appended{}, err
	}
	pos := l.active.seg.size.Load()
	if err := l.write(batches, pos); err != nil {
		return Appended{}, err
	}
	err = eachEntry(batches, func(at int64, e record.Entry) error {
		l.index(found{pos + at, int64(len(e)), e.BaseOffset(), e.LastOffset()}, e.MaxTimestamp(), cfg)
		if e.Magic() < 2 || !e.Batch().HasProducer() {
			return nil
		}
		b := e.Batch()
		if !b.IsControl() {
			return l.noteProducer(b, nil, false)
		}
		m, ok, err := readMarker(b, &l.producers.reader)
		if err != nil || !ok {
			return nil // the leader took it
		}
		return l.noteProducer(b, &m, false)
	})
	if err != nil {
		return Appended{}, err
	}
	l.publish(set.last+1, pos+int64(len(batches)))
	return Appended{BaseOffset: set.first, LastOffset: set.last, LogAppendTime: -1, LogStart: l.StartOffset()}, nil
}

// eachEntry hands the entries of a sound set to each.
func eachEntry(batches []byte, each func(pos int64, e record.Entry) error) error {
	for pos := int64(0); pos < int64(len(batches)); {
		e, err := record.FirstEntry(batches[pos:])
		if err == nil {
			err = each(pos, e)
		}
		if err != nil {
			return err
		}
		pos += int64(len(e))
	}
	return nil
}
