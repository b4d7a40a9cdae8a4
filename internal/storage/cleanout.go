package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

// A cleanOutput is a segment while compaction writes it: files whose names end in .cleaned, which whoever opens the log removes.
//
//	.cleaned   half-written              removed by the next Open
//	.swap      whole, durable            completed by the next Open: it takes the place of what it was made from
//	(final)    among the log's segments
type cleanOutput struct {
	l       *Log
	s       *segment
	f       vfs.File
	builder *indexBuilder
	txns    []abortedTxn
	most    int64 // bytes that it takes
	size    int64 // bytes handed to write
	flushed int64 // bytes of them in the file
	begun   int64 // bytes of those that are on their way to the disk
	writes  sync.WaitGroup
	writing atomic.Bool // one of them goes on
	buf     []byte
	next    Offset // after the last batch; the base while there is none
	// published: it is among the log's segments, and remove has nothing to do.
	published bool
}

// newCleanOutput makes the .cleaned files of a segment based at base. buf lends its room for batches that wait to be written.
func newCleanOutput(l *Log, base Offset, cfg *Config, buf []byte) (_ *cleanOutput, err error) {
	s := newSegment(l.at, base, 0)
	o := &cleanOutput{l: l, s: s, builder: newIndexBuilder(s, cfg), most: math.MaxInt32, buf: buf[:0], next: base}
	defer func() {
		if err != nil {
			o.remove()
		}
	}()
	if err := removeIfThere(l.at, s.name(txnIndexSuffix)+cleanedSuffix); err != nil {
		return nil, err
	}
	open := func(suffix string) (vfs.File, error) {
		return l.at.fs.OpenFile(l.at.path(s.name(suffix)+cleanedSuffix), createFlags|os.O_TRUNC, 0o644)
	}
	if o.f, err = open(logSuffix); err != nil {
		return nil, err
	}
	// The indexes' files stay open until they have their final names, by which lookups open them.
	if o.builder.x.offsets.file, err = open(indexSuffix); err != nil {
		return nil, err
	}
	if o.builder.x.times.file, err = open(timeIndexSuffix); err != nil {
		return nil, err
	}
	return o, nil
}

func removeIfThere(at *place, name string) error {
	if err := at.fs.Remove(at.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// fits tells whether an entry of n bytes that ends at last can be in this segment: positions and offsets must fit an index.
func (o *cleanOutput) fits(n int, last Offset) bool {
	return (o.size+int64(n) <= o.most || o.size == 0) && last-o.s.base < deltaLimit
}

// add appends an entry of the log.
func (o *cleanOutput) add(b []byte) error {
	e := record.Entry(b)
	o.builder.add(found{pos: o.size, size: int64(len(b)), first: e.BaseOffset(), last: e.LastOffset()}, e.MaxTimestamp())
	o.size += int64(len(b))
	o.next = e.LastOffset() + 1
	if len(o.buf)+len(b) > cap(o.buf) {
		if err := o.flush(); err != nil {
			return err
		}
		if len(b) > cap(o.buf) {
			return o.write(b)
		}
	}
	o.buf = append(o.buf, b...)
	return nil
}

func (o *cleanOutput) flush() error {
	b := o.buf
	o.buf = o.buf[:0]
	if len(b) == 0 {
		return nil
	}
	return o.write(b)
}

func (o *cleanOutput) write(b []byte) error {
	wrote, err := o.f.WriteAt(b, o.flushed)
	o.flushed += int64(wrote)
	if o.flushed-o.begun >= writebackBytes && o.writing.CompareAndSwap(false, true) {
		pos, n := o.begun, o.flushed-o.begun
		o.begun = o.flushed
		o.writes.Go(func() {
			vfs.StartWriteback(o.f, pos, n)
			o.writing.Store(false)
		})
	}
	return err
}

// writebackBytes are written before the disk is set to work on them, so that the fsync of a large segment is not all that is waited for
// in the end.
const writebackBytes = 2 << 20

// seal makes the files whole and durable, names apart; beside: by fsyncs side by side. They get the time of the last segment that they
// were made from.
func (o *cleanOutput) seal(modified int64, beside bool) error {
	if err := o.flush(); err != nil {
		return err
	}
	o.writes.Wait()
	o.builder.finish()
	x := o.builder.x
	steps := []func() error{x.offsets.seal, x.times.seal, o.f.Sync}
	if len(o.txns) > 0 {
		steps = append(steps, o.writeTxnIndex)
	}
	if err := doAll(steps, beside); err != nil {
		return err
	}
	s := o.s
	s.size.Store(o.size)
	s.idx.Store(x)
	s.setAborted(o.txns)
	s.mu.Lock()
	s.modified = modified
	s.mu.Unlock()
	s.desc.Adopt(o.f)
	return o.l.at.fs.Chtimes(o.l.at.path(s.name(logSuffix)+cleanedSuffix), time.UnixMilli(modified))
}

// doAll takes steps one after another up to the first that fails, or all of them side by side.
func doAll(steps []func() error, beside bool) error {
	if !beside {
		for _, do := range steps {
			if err := do(); err != nil {
				return err
			}
		}
		return nil
	}
	errs := make([]error, len(steps))
	var wait sync.WaitGroup
	for i, do := range steps {
		wait.Go(func() { errs[i] = do() })
	}
	wait.Wait()
	return errors.Join(errs...)
}

func (o *cleanOutput) writeTxnIndex() error {
	f, err := o.l.at.fs.OpenFile(o.l.at.path(o.s.name(txnIndexSuffix)+cleanedSuffix), createFlags|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	var b []byte
	for _, a := range o.txns {
		b = appendTxnEntry(b, a)
	}
	if _, err = f.WriteAt(b, 0); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// seal brings an index that is written apart from its name to its file, durably, and leaves that open.
func (x *indexFile) seal() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.write(); err != nil {
		return err
	}
	if err := x.file.Truncate(int64(x.count() * x.entrySize)); err != nil {
		return err
	}
	if err := x.file.Sync(); err != nil {
		return err
	}
	x.touched = false
	return nil
}

// suffixes are those of the files that it has.
func (o *cleanOutput) suffixes() []string {
	if len(o.txns) > 0 {
		return segmentSuffixes[:]
	}
	return segmentSuffixes[:3]
}

// rename gives the files other names, that of the .log first: the indexes alone are no segment.
func (o *cleanOutput) rename(from, to string) error {
	at := o.l.at
	for _, suffix := range o.suffixes() {
		name := at.path(o.s.name(suffix))
		if err := at.fs.Rename(name+from, name+to); err != nil {
			return err
		}
	}
	return nil
}

// remove takes the files away, if they are not the log's yet. Those of a log that failed are left for Open, which knows whether they
// are to take the place of others.
func (o *cleanOutput) remove() {
	if o.published {
		return
	}
	o.writes.Wait()
	if o.f != nil {
		_ = o.f.Close()
	}
	o.builder.x.offsets.drop()
	o.builder.x.times.drop()
	if o.l.Err() != nil {
		return
	}
	for _, suffix := range segmentSuffixes {
		_ = removeIfThere(o.l.at, o.s.name(suffix)+cleanedSuffix)
	}
}

// unswap takes away what of outputs has become .swap, durably: one that a crash left behind its .cleaned neighbours would take the place of
// segments. To be called before any of them is removed.
func unswap(at *place, outputs []*cleanOutput) error {
	for _, o := range outputs {
		for _, suffix := range segmentSuffixes {
			if err := removeIfThere(at, o.s.name(suffix)+swapSuffix); err != nil {
				return err
			}
		}
	}
	return at.fs.SyncDir(*at.dir.Load())
}

// errCleaningAborted ends a cleaning that has lost its ground: segments were deleted or truncated meanwhile, the topic is no longer
// compacted, or the log or the cleaner stops. It is no failure.
var errCleaningAborted = errors.New("cleaning was aborted")

func abortf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errCleaningAborted, fmt.Sprintf(format, args...))
}
