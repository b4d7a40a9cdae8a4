package storage

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

// recoverSegment reads segment i whole: checksums, structure, offsets. It is cut before the first batch that is not right, its
// indexes are made anew, and epochs and producers learn what its batches say. cut tells whether that lost
// offsets which the next segment builds on: not so if it goes on where this one ends now, and what was cut was the zeros of a
// preallocated file, or what a truncation had taken back.
func (op *opening) recoverSegment(segs []*segment, i int, why string) (cut bool, err error) {
	s := segs[i]
	if err := op.producersTo(segs, s.base, op.logStart); err != nil {
		return false, err
	}
	f, err := s.acquire()
	if err != nil {
		return false, err
	}
	defer s.release()
	builder := newIndexBuilder(s, op.config.Load())
	var txns []abortedTxn
	expect := s.base // the least offset that may come
	size := s.size.Load()
	batches := 0
	limit, overlaps, tooFar := s.base+deltaLimit, false, Offset(-1)
	if i+1 < len(segs) {
		limit = min(limit, segs[i+1].base)
	}
	valid, fault, err := walkEntries(f, size, func(pos int64, e record.Entry) error {
		b := found{pos: pos, size: int64(len(e)), first: e.BaseOffset(), last: e.LastOffset()}
		switch {
		case b.first < expect:
			return &record.FormatError{Reason: fmt.Sprintf("offsets %d to %d come after %d", b.first, b.last, expect-1)}
		case b.first-expect >= deltaLimit:
			// No log leaves such a gap. Base offsets lie outside of the checksum: this one's bytes were never written.
			return &record.FormatError{Reason: fmt.Sprintf("offset %d follows %d", b.first, expect-1)}
		case b.last >= limit && limit-s.base < deltaLimit:
			// The log was truncated to there and went on in the next segment; the cut of this one did not survive.
			overlaps = true
			return &record.FormatError{Reason: fmt.Sprintf("offsets %d to %d reach into the next segment, which begins at %d", b.first, b.last, limit)}
		}
		if err := e.Check(); err != nil {
			return err
		}
		if b.last >= limit {
			tooFar = b.first
			return &record.FormatError{Reason: fmt.Sprintf("offset %d is too far from the segment's base", b.last)}
		}
		expect = b.last + 1
		batches++
		builder.add(b, e.MaxTimestamp())
		// The lines of what an unclean stop left unflushed may be missing, or older ones stand in their place: the batches
		// know better. After a clean stop the lines are whole, and what follows this segment is not read again.
		if epoch := e.LeaderEpoch(); epoch > op.epochs.latest() || !op.clean && epoch >= 0 && epoch != op.epochs.epochAt(b.first) {
			op.epochs.assign(epoch, b.first)
		}
		if e.Magic() < 2 {
			return nil
		}
		// A marker that cannot be read is passed over: its checksum is right, so it is what somebody wrote.
		if done, ok, _ := op.producers.replay(e.Batch()); ok {
			a := abortedTxn{done.producerID, done.first, done.last, op.producers.txns.stableAfter(done)}
			op.producers.txns.complete(done)
			if done.aborted {
				txns = append(txns, a)
			}
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	if tooFar > s.base {
		return false, op.split(s, f, valid, tooFar)
	}
	builder.finish()
	op.event("scan", s.base, "%s: %d batches read, offsets end at %d (%s)", s.name(logSuffix), batches, expect, why)
	if valid < size {
		corrupt := &CorruptError{op.partition, s.name(logSuffix), valid, expect - 1, fault}
		op.event("recover", expect, "%v: %d bytes cut", corrupt, size-valid)
		if err := f.Truncate(valid); err != nil {
			return false, err
		}
		s.size.Store(valid)
	}
	if len(txns) > 0 || op.segmentHasTxns(i) {
		if err := rewriteTxnIndex(op.at, s.base, txns); err != nil && !isDiskFull(err) {
			return false, err
		}
		s.setAborted(txns)
		op.anyAborted.Store(true)
	}
	follows := i+1 < len(segs) && (valid == size || overlaps || segs[i+1].base == expect)
	for _, x := range []*indexFile{builder.x.offsets, builder.x.times} {
		if follows {
			if err := x.finish(false); err != nil && !isDiskFull(err) {
				return false, err
			}
		}
	}
	s.idx.Store(builder.x)
	op.producers.end = expect
	if err := op.producers.snapshot(false); err != nil {
		return false, err
	}
	if i == len(segs)-1 || !follows {
		op.end, op.endOK = expect, true
	}
	return valid < size && !follows, nil
}

// errSplit means that a segment was split in two: the directory is to be read again.
var errSplit = errors.New("a segment was split")

// split moves what follows pos, beginning with offset base, to a segment of its own: an index cannot count so far. A crash in
// between leaves both, and the next Open cuts the first where the second begins.
func (op *opening) split(s *segment, f vfs.File, pos int64, base Offset) error {
	op.event("recover", base, "%s is split at byte %d: offset %d is too far from its base", s.name(logSuffix), pos, base)
	half := fileName(base, logSuffix) + cleanedSuffix
	out, err := op.at.fs.OpenFile(op.at.path(half), createFlags|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	buf := getBuffer(recoveryChunk)
	defer putBuffer(buf)
	for at := pos; at < s.size.Load() && err == nil; {
		piece := (*buf)[:min(int64(len(*buf)), s.size.Load()-at)]
		if err = readFull(f, piece, at); err == nil {
			_, err = out.WriteAt(piece, at-pos)
		}
		at += int64(len(piece))
	}
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	if err := op.at.fs.Rename(op.at.path(half), op.at.path(fileName(base, logSuffix))); err != nil {
		return err
	}
	if err := op.at.fs.SyncDir(op.Dir()); err != nil {
		return err
	}
	if err := f.Truncate(pos); err != nil {
		return err
	}
	return errSplit
}

func (op *opening) segmentHasTxns(i int) bool {
	return i < len(op.list.segments) && op.list.segments[i].txnIndex
}

// walkEntries hands every entry of a .log file to each, in order, its bytes read in large pieces and valid during the call. It
// stops where an entry is not whole, or each objects with a *record.FormatError: valid is where that entry begins, fault what was
// wrong. err is the disk's.
func walkEntries(f io.ReaderAt, size int64, each func(pos int64, e record.Entry) error) (valid int64, fault, err error) {
	buf := getBuffer(recoveryChunk)
	defer func() { putBuffer(buf) }()
	for valid < size {
		got := (*buf)[:min(int64(len(*buf)), size-valid)]
		if err := readFull(f, got, valid); err != nil {
			return valid, nil, err
		}
		before := valid
		for rest := got; ; {
			e, err := record.FirstEntry(rest)
			if err == nil {
				err = each(valid, e)
			}
			if errors.Is(err, io.ErrUnexpectedEOF) {
				break // beyond this piece, or beyond the file
			}
			if err != nil {
				return valid, err, nil
			}
			valid += int64(len(e))
			if rest = rest[len(e):]; len(rest) == 0 {
				break
			}
		}
		if valid > before {
			continue
		}
		// Not one whole entry in a full piece: the next is larger, or ends beyond the file.
		need := int64(record.MinEntry)
		if len(got) >= record.MinEntry {
			n, err := record.EntrySize(got)
			if err != nil {
				return valid, err, nil
			}
			need = n
		}
		if need > size-valid {
			return valid, fmt.Errorf("an entry of %d bytes where %d are left", need, size-valid), nil
		}
		putBuffer(buf)
		buf = getBuffer(int(need))
	}
	return valid, nil, nil
}

// producersTo makes the producers' state that of the log below end: from the newest snapshot, and the batches after it.
func (op *opening) producersTo(segs []*segment, end, start Offset) error {
	ps := op.producers
	if ps.end == end {
		return nil
	}
	notes, err := ps.load(start, end, op.expired())
	for _, note := range notes {
		op.event("recover", end, "snapshot removed, and producers are read from the batches: %s", note)
	}
	if err != nil {
		return err
	}
	return op.replayProducers(segs, end)
}

// replayProducers reads the batches from where the producers' state ends to end. On the way it writes the snapshots that the
// last two segments should have.
func (l *Log) replayProducers(segs []*segment, end Offset) error {
	ps := l.producers
	for i, s := range segs {
		if i+1 < len(segs) && segs[i+1].base <= ps.end || s.base >= end {
			continue
		}
		if s.base > ps.end {
			ps.end = s.base
		}
		if i >= len(segs)-2 && s.base == ps.end {
			if err := ps.snapshot(false); err != nil {
				return err
			}
		}
		if err := l.replaySegment(s, end); err != nil {
			return err
		}
	}
	ps.end = max(ps.end, end)
	return nil
}

// replaySegment tells producers of the batches of a segment from their state's end to end.
func (l *Log) replaySegment(s *segment, end Offset) error {
	ps := l.producers
	f, err := s.acquire()
	if err != nil {
		return err
	}
	defer s.release()
	from := int64(0)
	if ps.end > s.base {
		b, ok, err := l.locate(s, f, ps.end, s.size.Load())
		if err != nil || !ok {
			return err
		}
		from = b.pos
	}
	scan := scanHeaders(f, from, s.size.Load(), scanChunk)
	defer scan.close()
	for scan.advance() {
		if scan.first >= end {
			break
		}
		h := scan.header
		if h.Magic() == 2 && h.Batch().HasProducer() {
			b := h.Batch()
			if b.IsControl() {
				e, buf, err := readEntry(f, scan.found)
				if err != nil {
					return err
				}
				l.replayBatch(e.Batch())
				putBuffer(buf)
			} else {
				l.replayBatch(b)
			}
		}
		ps.end = scan.last + 1
	}
	return scan.err
}

// replayBatch tells producers of one batch that the log holds. Its .txnindex entry is there already.
func (l *Log) replayBatch(b record.Batch) {
	if done, ok, _ := l.producers.replay(b); ok {
		l.producers.txns.complete(done)
	}
}
