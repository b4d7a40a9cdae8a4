package classic

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
)

// encodeKept bounds the buffers that the pool keeps.
const encodeKept = 4 << 20

var encodeBuffers = sync.Pool{New: func() any { return new([]byte) }}

// Append writes messages behind each other at the log's end, in one write, and returns the offset of the first. What it
// refuses, it refuses before anything is written: *MessageTooLargeError and what an entry cannot hold. When it returns, the
// messages are in the operating system's hands, and on disk as I6 says.
func (l *Log) Append(messages ...Message) (Offset, error) {
	total := 0
	for i, m := range messages {
		if len(m.Payload) > l.config.MessageBytesMax {
			return 0, &MessageTooLargeError{l.partition, i, len(m.Payload), l.config.MessageBytesMax}
		}
		if err := m.check(); err != nil {
			return 0, fmt.Errorf("%s: message %d: %w", l.partition, i, err)
		}
		total += m.size()
	}
	buf := encodeBuffers.Get().(*[]byte)
	run := (*buf)[:0]
	if cap(run) < total {
		run = make([]byte, 0, total)
	}
	for _, m := range messages {
		run = appendEntry(run, m)
	}
	first, err := l.appendRun(run, len(messages))
	if cap(run) <= encodeKept {
		*buf = run
		encodeBuffers.Put(buf)
	}
	return first, err
}

// An InvalidEntryError refuses entries; nothing of their append was written.
type InvalidEntryError struct {
	Partition TopicPartition
	Pos       int // in what was to be appended
	Err       error
}

func (e *InvalidEntryError) Error() string {
	return fmt.Sprintf("%s: no valid entry at byte %d of an append: %v", e.Partition, e.Pos, e.Err)
}
func (e *InvalidEntryError) Unwrap() error { return e.Err }

// AppendEntries is Append for a run of entries as a producer sent it.
func (l *Log) AppendEntries(run []byte) (Offset, error) {
	n, err := checkRun(l.partition, l.config.MessageBytesMax, run)
	if err != nil {
		return 0, err
	}
	return l.appendRun(run, n)
}

// checkRun counts the entries of a run that may be appended, with payloads of at most bytesMax.
func checkRun(tp TopicPartition, bytesMax int, run []byte) (n int, err error) {
	for pos := 0; pos < len(run); n++ {
		e, err := FirstEntry(run[pos:])
		if err == nil {
			err = e.Check()
		}
		if err != nil {
			return 0, &InvalidEntryError{tp, pos, err}
		}
		if bytes := len(e.Payload()); bytes > bytesMax {
			return 0, &MessageTooLargeError{tp, n, bytes, bytesMax}
		}
		pos += len(e)
	}
	return n, nil
}

// errOffsetsEnd means that a log has used up its offsets.
var errOffsetsEnd = errors.New("no offsets are left")

// appendRun writes a run of n valid entries.
func (l *Log) appendRun(run []byte, n int) (Offset, error) {
	first, flush, err := l.write(run, n)
	if err == nil && flush {
		err = l.Flush()
	}
	if err != nil {
		return 0, err
	}
	return first, nil
}

func (l *Log) write(run []byte, n int) (first Offset, flush bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return 0, false, err
	}
	first = l.EndOffset()
	if n == 0 {
		return first, false, nil
	}
	if int64(first) > math.MaxInt64-int64(len(run)) {
		return 0, false, fmt.Errorf("%s: %w", l.partition, errOffsetsEnd)
	}
	s, err := l.writable()
	if err != nil {
		return 0, false, err
	}
	now, pos := time.Now(), s.size.Load()
	if _, err := l.active.WriteAt(run, pos); err != nil {
		return 0, false, l.undo(pos, err)
	}
	s.at.noteRun(pos, run)
	s.size.Store(pos + int64(len(run)))
	l.end.Store(int64(first) + int64(len(run)))
	if l.appended == l.flushed {
		l.dirtySince = now
		l.queueFlush()
	}
	l.appended += int64(n)
	return first, l.config.FlushMessages > 0 && l.appended-l.flushed >= l.config.FlushMessages, nil
}

// writable returns the segment to append to, a new one when the last is full. mu is held.
func (l *Log) writable() (*segment, error) {
	segs := l.segments.Load()
	s := segs[len(segs)-1]
	if s.size.Load() < l.config.SegmentBytes {
		return s, nil
	}
	// First the old file is made durable and then the new one made, so that a crash finds at most the newest torn (I2).
	if err := l.active.Sync(); err != nil {
		return nil, l.fail(err)
	}
	if !l.named {
		if err := l.fs.SyncDir(l.dir); err != nil {
			return nil, l.fail(err)
		}
		l.named = true
	}
	l.flushed = l.appended
	if err := l.create(l.EndOffset()); err != nil {
		return nil, fmt.Errorf("%s: %w", l.partition, err)
	}
	s.release()
	segs = l.segments.Load()
	return segs[len(segs)-1], nil
}

// undo takes back what a failed write at pos left. mu is held.
func (l *Log) undo(pos int64, err error) error {
	// Synced at once: over a truncation that a crash loses, a later entry could lead on to what is taken back here.
	if undone := errors.Join(l.active.Truncate(pos), l.active.Sync()); undone != nil {
		return l.fail(errors.Join(err, undone))
	}
	return fmt.Errorf("%s: %w", l.partition, err)
}
