package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

// A pass of a cleaning is a pipe through which units of a segment go, a piece of the file each:
//
//	read     one goroutine reads, and judges each entry by its header (transactions are followed in the log's order)
//	work     cleanInflaters goroutines verify checksums, inflate, hash keys, and make batches anew; no unit waits for another here
//	use      the pass itself takes the units in the log's order: it fills the map, or writes
//
// So reading, inflating and writing go on side by side, while their memory is bounded: there are cleanInflaters+2 units, each with at
// most cleanUnitBytes of the file and cleanUnitRecords keys, or one larger batch; what inflates to more than cleanInflateMax is left
// to the pass itself, one batch at a time. Besides the map that makes, of the usual batches, some 10 MiB for each cleaner.
const (
	// cleanInflaters work for each cleaner. More would inflate faster, and take more of the machine from those who produce and fetch.
	cleanInflaters = 2
	// cleanUnitBytes are read at once.
	cleanUnitBytes = 256 << 10
	// cleanUnitRecords are in a unit, by what its batches' headers say: 512 KiB of keys' hashes.
	cleanUnitRecords = 16 << 10
	// cleanInflateMax is the most that inflaters inflate a batch to.
	cleanInflateMax = 4 << 20
	// cleanKeepMax is the largest buffer of a unit that is kept for the next.
	cleanKeepMax = 1 << 20
)

// A cleanUnit is a piece of a segment on its way through the pipe.
type cleanUnit struct {
	s       *segment
	pos     int64 // of buf in the file
	buf     []byte
	entries []cleanEntry
	ends    bool  // the segment
	err     error // why there is nothing after the entries

	keys   []hashedKey   // of the entries' records, in the first pass
	out    []byte        // batches made anew, in the second
	worked chan struct{} // has a value once the inflater is done
}

// A cleanEntry is an entry of the log, and what was decided about it.
type cleanEntry struct {
	at, size int    // in the unit's buf
	after    Offset // the last offset before it
	err      error  // what it, or its records, had wrong
	checked  bool   // its checksum was verified by the reader
	large    bool   // left by the inflater for the pass itself

	verdict          // by its header, of the reader
	keysAt, keys int // in the unit's keys
	fate             // by its records, of the inflater
}

// A verdict is what an entry's header tells, and what is known of transactions.
type verdict struct {
	skip   bool        // first pass: its records count for nothing
	drop   bool        // second pass: all its records go
	stays  bool        // as a header, if need be
	idle   bool        // a marker with nothing left to say
	wanted *abortedTxn // an abort that is still wanted, for the transaction index
	legacy bool        // keeps tombstones of formats 0 and 1
}

// A fate is what an inflater made of an entry.
type fate struct {
	stay            stay
	outAt, outBytes int   // in the unit's out, of stayAnew
	seen, kept      int64 // records
}

type stay uint8

const (
	stayNot      stay = iota
	stayVerbatim      // as it is
	stayAnew          // what the unit's out has of it
)

func (u *cleanUnit) entry(e *cleanEntry) record.Entry {
	return record.Entry(u.buf[e.at : e.at+e.size : e.at+e.size])
}

// reset empties a unit; what grew beyond the usual is the collector's.
func (u *cleanUnit) reset() {
	if cap(u.buf) > cleanKeepMax {
		u.buf = nil
	}
	if cap(u.out) > cleanKeepMax {
		u.out = nil
	}
	clear(u.entries)
	u.s, u.buf, u.entries, u.keys, u.out, u.ends, u.err = nil, u.buf[:0], u.entries[:0], u.keys[:0], u.out[:0], false, nil
}

// A cleanWorker is what an inflater has to work with.
type cleanWorker struct {
	skim    record.Skim
	reader  record.Reader // of markers, and of messages of formats 0 and 1
	builder *record.Builder
	records []record.Record // of those that stay; views
	headers []record.Header // theirs
	keys    [warmKeys]hashedKey
	keeps   []uint64 // a bit for each record of a batch
	spooled spoolReader
	sum     Offset // of what was warmed
}

func newCleanWorker() *cleanWorker { return &cleanWorker{builder: record.NewBuilder()} }

// A cleanPipe has the buffers of a cleaner. They serve one pass after another.
type cleanPipe struct {
	units   []*cleanUnit
	workers []*cleanWorker // the last is the pass's own
	backs   []*backWorker  // of the first of them; made when they are wanted
}

// inflaters is how many goroutines work; 0: everything is done by the pass itself, for tests to repeat.
func (p *cleanPipe) make(inflaters int) {
	if len(p.workers) == inflaters+1 {
		return
	}
	p.units, p.workers, p.backs = nil, nil, nil
	for range inflaters + 2 {
		p.units = append(p.units, &cleanUnit{worked: make(chan struct{}, 1)})
	}
	for range inflaters + 1 {
		p.workers = append(p.workers, newCleanWorker())
	}
}

// own is the worker of the pass itself.
func (p *cleanPipe) own() *cleanWorker { return p.workers[len(p.workers)-1] }

// back is worker i for a pass from the end.
func (p *cleanPipe) back(i int) *backWorker {
	for len(p.backs) <= i {
		p.backs = append(p.backs, &backWorker{cleanWorker: p.workers[len(p.backs)]})
	}
	return p.backs[i]
}

// A cleanSteps is what a pass does with segments and units.
type cleanSteps struct {
	begin func(s *segment)                                            // before a segment, in order
	judge func(e record.Entry, v *verdict) (kept bool, _ error)       // of each entry, in order; not kept: it is left out
	work  func(w *cleanWorker, u *cleanUnit, e *cleanEntry, most int) // on each entry; most may be inflated. It sets e.err, and e.large where more is wanted
	use   func(u *cleanUnit) error                                    // in order; errPassEnds ends the pass
}

// errPassEnds ends a pass early, and is no failure.
var errPassEnds = errors.New("the pass ends")

// pass has segments go through the pipe. No goroutine is left when it returns.
func (c *cleanRound) pass(segs []*segment, steps cleanSteps) error {
	c.pipe.make(c.inflaters)
	ctx, cancel := context.WithCancel(c.ctx) // a pass that ends waits for no turn of its reader
	r := &cleanReader{c: c, segs: segs, steps: steps, pacer: cleanPacer{ctx: ctx}}
	defer r.close()
	defer cancel()
	var err error
	if c.inflaters == 0 {
		err = c.passAlone(r)
	} else {
		err = c.passTogether(r, cancel)
	}
	c.stats.BytesRead += r.bytes
	if errors.Is(err, errPassEnds) {
		return nil
	}
	return err
}

func (c *cleanRound) passAlone(r *cleanReader) error {
	u := c.pipe.units[0]
	for more := true; more; {
		u.reset()
		more = r.next(u)
		c.workOn(c.pipe.own(), u, r.steps)
		if err := c.useUnit(u, r.steps); err != nil {
			return err
		}
	}
	return nil
}

func (c *cleanRound) passTogether(r *cleanReader, cancel func()) error {
	n := len(c.pipe.units)
	free, work, ordered := make(chan *cleanUnit, n), make(chan *cleanUnit, n), make(chan *cleanUnit, n)
	quit := make(chan struct{})
	for _, u := range c.pipe.units {
		select {
		case <-u.worked: // of a pass that ended early
		default:
		}
		free <- u
	}
	var wait sync.WaitGroup
	defer wait.Wait()
	defer close(quit)
	defer cancel()
	wait.Go(func() {
		defer close(work)
		defer close(ordered)
		for more := true; more; {
			select {
			case <-quit:
				return
			case u := <-free:
				u.reset()
				more = r.next(u)
				work <- u
				ordered <- u
			}
		}
	})
	for _, w := range c.pipe.workers[:c.inflaters] {
		wait.Go(func() {
			for u := range work {
				c.workOn(w, u, r.steps)
				u.worked <- struct{}{}
			}
		})
	}
	for u := range ordered {
		<-u.worked
		if err := c.useUnit(u, r.steps); err != nil {
			return err
		}
		free <- u
	}
	return nil
}

func (c *cleanRound) workOn(w *cleanWorker, u *cleanUnit, steps cleanSteps) {
	for i := range u.entries {
		e := &u.entries[i]
		if !e.checked {
			e.err = u.entry(e).Check()
		}
		if e.err == nil {
			steps.work(w, u, e, cleanInflateMax)
		}
		if e.err != nil {
			return // what follows is not used
		}
	}
}

// useUnit does what inflaters left, and hands the unit to the pass.
func (c *cleanRound) useUnit(u *cleanUnit, steps cleanSteps) error {
	if err := steps.use(u); err != nil {
		return err
	}
	return u.err
}

// entryError says where an entry is of which something is wrong.
func (c *cleanRound) entryError(u *cleanUnit, e *cleanEntry, err error) error {
	var format *record.FormatError
	var large *record.TooLargeError
	if errors.As(err, &format) || errors.As(err, &large) {
		return &CorruptError{c.l.partition, u.s.name(logSuffix), u.pos + int64(e.at), e.after, err}
	}
	return err
}

// isTooLarge tells whether a batch inflates to more than was allowed.
func isTooLarge(err error) bool {
	if err == nil {
		return false // nearly always, and without an allocation
	}
	var large *record.TooLargeError
	return errors.As(err, &large)
}

// A cleanReader cuts segments into units.
type cleanReader struct {
	c     *cleanRound
	segs  []*segment
	steps cleanSteps
	pacer cleanPacer
	bytes int64 // read, as entries

	s     *segment // nil: between segments
	f     vfs.File
	pos   int64
	after Offset
}

func (r *cleanReader) close() {
	if r.s != nil {
		r.s.release()
		r.s = nil
	}
}

// next fills a unit; false: nothing comes after it.
func (r *cleanReader) next(u *cleanUnit) bool {
	if r.s == nil {
		if len(r.segs) == 0 {
			return false
		}
		s := r.segs[0]
		f, err := s.acquire()
		if err != nil {
			if errors.Is(err, errSegmentGone) {
				err = abortf("%s was deleted meanwhile", s.name(logSuffix))
			}
			u.err = err
			return false
		}
		r.s, r.f, r.pos, r.after, r.segs = s, f, 0, s.base-1, r.segs[1:]
		r.steps.begin(s)
	}
	u.s, u.pos = r.s, r.pos
	size := r.s.size.Load()
	if u.err = r.fill(u, size); u.err != nil {
		return false
	}
	if u.ends = r.pos >= size; u.ends {
		r.close()
	}
	return len(r.segs) > 0 || r.s != nil
}

// fill reads one piece of a segment of size bytes and cuts it into entries, at least one unless the segment ends.
func (r *cleanReader) fill(u *cleanUnit, size int64) error {
	want := min(size-r.pos, cleanUnitBytes)
	for r.pos < size {
		u.buf = slices.Grow(u.buf[:0], int(want))[:want]
		if err := readFull(r.f, u.buf, r.pos); err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) {
				return abortf("%s was truncated meanwhile", r.s.name(logSuffix))
			}
			return err
		}
		pos := r.pos
		if err := r.cut(u); err != nil {
			return err
		}
		if r.pos > pos {
			return nil
		}
		// Not one whole entry in a full piece: it is larger, or ends beyond the file.
		need := int64(record.MinEntry)
		if want >= record.MinEntry {
			n, err := record.EntrySize(u.buf)
			if err != nil {
				return r.corrupt(err)
			}
			need = n
		}
		if need > size-r.pos {
			return r.corrupt(fmt.Errorf("an entry of %d bytes where %d are left", need, size-r.pos))
		}
		want = need
	}
	return nil
}

// cut cuts the whole entries off what was read.
func (r *cleanReader) cut(u *cleanUnit) error {
	records := int64(0)
	for at := 0; at < len(u.buf); {
		e, err := record.FirstEntry(u.buf[at:])
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return r.corrupt(err)
		}
		count := int64(1)
		if e.Magic() == 2 {
			count = int64(e.Batch().Count())
		}
		if records += count; records > cleanUnitRecords && at > 0 {
			return nil
		}
		if err := r.pacer.count(r.c, len(e)); err != nil {
			return err
		}
		// The checksums of data are left to those who work side by side. Markers, whose records are judged here, are few.
		checked := e.Magic() < 2 || e.Batch().IsControl()
		if checked {
			if err := e.Check(); err != nil {
				return r.corrupt(err)
			}
		}
		// large: more records than a unit has, or an unknown number of them.
		large := count > cleanUnitRecords || e.Magic() < 2 && e.Codec() != record.None
		u.entries = append(u.entries, cleanEntry{at: at, size: len(e), after: r.after, checked: checked, large: large})
		last := len(u.entries) - 1
		kept, err := r.steps.judge(e, &u.entries[last].verdict)
		if err != nil || !kept {
			u.entries = u.entries[:last]
		}
		if err != nil {
			return r.corrupt(err)
		}
		r.bytes += int64(len(e))
		r.after = e.LastOffset()
		r.pos += int64(len(e))
		at += len(e)
	}
	return nil
}

func (r *cleanReader) corrupt(err error) error {
	return &CorruptError{r.c.l.partition, r.s.name(logSuffix), r.pos, r.after, err}
}

// A cleanPacer counts bytes and, now and then, asks whether to go on.
type cleanPacer struct {
	ctx context.Context // ends the waiting
	n   int
}

// paceBytes is how much is read or written between two looks at whether to go on.
const paceBytes = 256 << 10

func (p *cleanPacer) count(c *cleanRound, n int) error {
	if p.n += n; p.n < paceBytes {
		return nil
	}
	n, p.n = p.n, 0
	if p.ctx.Err() != nil {
		return abortf("%v", context.Cause(p.ctx))
	}
	if !c.l.config.Load().Compact {
		return abortf("cleanup.policy is no longer compact")
	}
	if c.pace == nil {
		return nil
	}
	return c.pace(p.ctx, n)
}
