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

// A pass of a cleaning goes over segments in units, a piece of the file each, by cleanWorkers goroutines side by side. Of each unit one of
// them does everything, so that its bytes are in that processor's cache from the read on:
//
//	read     in the log's order, one at a time: a unit is read, and each entry judged by its header (transactions are followed)
//	work     side by side: checksums are verified, records inflated, keys hashed, batches made anew; no unit waits for another here
//	use      in the log's order, one at a time: the map is filled, or what stays is written
//
// A unit that is worked on before its turn is left for whoever uses the one ahead of it; nobody waits for a turn. Memory is bounded:
// there are cleanUnits units, each with at most twice cleanUnitBytes of the file and cleanUnitRecords keys, or one larger batch; what
// inflates to more than cleanInflateMax is left until the unit is used, one batch at a time. Besides the map that makes, of the usual
// batches, some 10 MiB for each cleaner.
const (
	// cleanWorkers work for each cleaner. More are no faster on two cores, and on others would take more of the machine from those who
	// produce and fetch.
	cleanWorkers = 2
	// cleanUnits are on their way: one for each worker, and some that wait while one is used.
	cleanUnits = cleanWorkers + 3 + cleanSpare
	// cleanSpare of them are not used when there is a spool.
	cleanSpare = 3
	// cleanUnitBytes are read at once; then what the last entry lacks, unless that is as much again.
	cleanUnitBytes = 256 << 10
	// cleanUnitRecords are in a unit, by what its batches' headers say: 512 KiB of keys' hashes.
	cleanUnitRecords = 16 << 10
	// cleanInflateMax is the most that a batch is inflated to while others are.
	cleanInflateMax = 4 << 20
	// cleanKeepMax is the largest buffer of a unit that is kept for the next.
	cleanKeepMax = 1 << 20
)

// A cleanUnit is a piece of a segment on its way through the pipe.
type cleanUnit struct {
	s       *segment
	pos     int64    // of buf in the file
	f       vfs.File // from which buf is still to be read; nil: it was
	buf     []byte
	entries []cleanEntry
	records int64 // in them, by their headers
	ends    bool  // the segment
	err     error // why there is nothing after the entries

	keys []hashedKey // of the entries' records, in the first pass
	out  []byte      // batches made anew, in the second
	turn int         // which of the pass's units it is
}

// A cleanEntry is an entry of the log, and what was decided about it.
type cleanEntry struct {
	at, size int    // in the unit's buf
	count    int64  // of its records, by its header
	after    Offset // the last offset before it
	err      error  // what it, or its records, had wrong
	checked  bool   // its checksum was verified by the reader
	large    bool   // left until the unit is used

	verdict          // by its header, of the reader
	keysAt, keys int // in the unit's keys
	fate             // by its records, of the worker
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

// A fate is what a worker made of an entry.
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
	u.s, u.f, u.buf, u.entries, u.records, u.keys, u.out, u.ends, u.err = nil, nil, u.buf[:0], u.entries[:0], 0, u.keys[:0], u.out[:0], false, nil
}

// A cleanWorker is what one goroutine has to work with.
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
	workers []*cleanWorker
	backs   []*backWorker // of the first of them; made when they are wanted
	long    bool          // entries were long in what was read last: see cleanReader.walk
}

// make has buffers for so many workers; 0: for one, who is the pass itself, for tests to repeat.
func (p *cleanPipe) make(workers int) {
	workers = max(workers, 1)
	if len(p.workers) == workers {
		return
	}
	p.units, p.workers, p.backs = nil, nil, nil
	for range cleanUnits - cleanWorkers + workers {
		p.units = append(p.units, &cleanUnit{})
	}
	for range workers {
		p.workers = append(p.workers, newCleanWorker())
	}
}

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
	use   func(w *cleanWorker, u *cleanUnit) error                    // in order; errPassEnds ends the pass
}

// errPassEnds ends a pass early, and is no failure.
var errPassEnds = errors.New("the pass ends")

// A cleanDrive is one pass on its way.
type cleanDrive struct {
	c      *cleanRound
	steps  cleanSteps
	free   chan *cleanUnit
	quit   chan struct{} // closed once the pass has failed
	cancel func()        // then ends what the reader waits for

	// reader has the reader, for whoever takes it to read a unit, and to wait as pacing wants; nothing comes once it is closed.
	reader chan *cleanReader

	// mu guards the fields below. It is a leaf: a unit is used without it, by whoever has set using.
	mu     sync.Mutex
	worked []*cleanUnit // those that wait for their turn, by its remainder
	turn   int          // of the next to be used
	using  bool
	failed error // set with using, which then stays set
}

// pass has segments worked on. No goroutine is left when it returns.
func (c *cleanRound) pass(segs []*segment, steps cleanSteps) error {
	c.pipe.make(c.workers)
	ctx, cancel := context.WithCancel(c.ctx) // a pass that ends waits for no turn of its reader
	defer cancel()
	units := c.pipe.units
	if c.spool != nil { // what stays comes from there: to have more on their way is little gain, and the codecs need the memory
		units = units[cleanSpare:]
	}
	n := len(units)
	r := &cleanReader{c: c, segs: segs, steps: steps, pacer: cleanPacer{ctx: ctx}}
	d := &cleanDrive{c: c, steps: steps, free: make(chan *cleanUnit, n), quit: make(chan struct{}), cancel: cancel,
		reader: make(chan *cleanReader, 1), worked: make([]*cleanUnit, n)}
	d.reader <- r
	for _, u := range units {
		d.free <- u
	}
	if c.workers == 0 {
		d.work(c.pipe.workers[0])
	} else {
		var wait sync.WaitGroup
		for _, w := range c.pipe.workers {
			wait.Go(func() { d.work(w) })
		}
		wait.Wait()
	}
	r.close()
	c.stats.BytesRead += r.bytes
	if errors.Is(d.failed, errPassEnds) {
		return nil
	}
	return d.failed
}

// work takes one unit after another.
func (d *cleanDrive) work(w *cleanWorker) {
	for {
		var u *cleanUnit
		select {
		case <-d.quit:
			return
		case u = <-d.free:
		}
		select {
		case <-d.quit:
			return
		case r, more := <-d.reader:
			if !more {
				d.free <- u
				return
			}
			u.reset()
			u.turn = r.units
			r.units++
			if r.next(u) {
				d.reader <- r
			} else {
				close(d.reader)
			}
		}
		d.c.workOn(w, u, d.steps)
		d.finish(w, u)
	}
}

// finish uses a unit that was worked on, and those that waited for it; or leaves it for whoever uses the one ahead of it.
func (d *cleanDrive) finish(w *cleanWorker, u *cleanUnit) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.worked[u.turn%len(d.worked)] = u
	for !d.using {
		at := d.turn % len(d.worked)
		u := d.worked[at]
		if u == nil {
			return
		}
		d.worked[at], d.using = nil, true
		d.mu.Unlock()
		err := d.steps.use(w, u)
		if err == nil {
			err = u.err
		}
		d.mu.Lock()
		if err != nil {
			d.failed = err
			close(d.quit)
			d.cancel()
			return
		}
		d.turn++
		d.using = false
		d.free <- u
	}
}

func (c *cleanRound) workOn(w *cleanWorker, u *cleanUnit, steps cleanSteps) {
	if u.f != nil {
		u.read()
	}
	for i := range u.entries {
		e := &u.entries[i]
		if e.err == nil && !e.checked {
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

// read reads a unit of which only the headers were.
func (u *cleanUnit) read() {
	err := readClosed(u.f, u.s, u.buf, u.pos)
	u.s.release()
	u.f = nil
	if err != nil {
		u.entries, u.ends, u.err = u.entries[:0], false, err
		return
	}
	for i := range u.entries {
		e := &u.entries[i]
		if b, err := record.FirstEntry(u.buf[e.at:]); err != nil || len(b) != e.size || b.Magic() != 2 || b.Batch().IsControl() {
			e.err = &record.FormatError{Reason: "a header that is another one when it is read again"}
			return
		}
	}
}

// readClosed reads from the file of a segment that does not grow.
func readClosed(f vfs.File, s *segment, b []byte, pos int64) error {
	err := readFull(f, b, pos)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return abortf("%s was truncated meanwhile", s.name(logSuffix))
	}
	return err
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
	units int

	s     *segment // nil: between segments
	f     vfs.File
	pos   int64
	after Offset
	taken int // entries, in the unit
	head  [record.HeaderSize]byte
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
	u.s, u.pos, r.taken = r.s, r.pos, 0
	size := r.s.size.Load()
	walked := 0
	if r.c.pipe.long {
		if walked, u.err = r.walk(u, size); u.err != nil {
			return false
		}
	}
	if walked == 0 {
		if u.err = r.fill(u, size); u.err != nil {
			return false
		}
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
		if err := readClosed(r.f, r.s, u.buf, r.pos); err != nil {
			return err
		}
		at, err := r.cut(u, 0)
		if err == nil && at > 0 {
			at, err = r.complete(u, at, size)
		}
		if r.c.pipe.long = at >= r.taken*walkEntryBytes; err != nil || at > 0 {
			return err
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

// complete reads what a unit lacks of the entry that begins at at, so that nothing is read twice; it is left for the next unit if it lacks
// more than a unit is, or if something is odd about it.
func (r *cleanReader) complete(u *cleanUnit, at int, size int64) (int, error) {
	have := len(u.buf)
	if have-at < record.MinEntry {
		return at, nil
	}
	whole, err := record.EntrySize(u.buf[at:])
	lacks := whole - int64(have-at)
	if err != nil || whole < record.MinEntry || lacks <= 0 || lacks > cleanUnitBytes || whole > size-r.pos {
		return at, nil
	}
	u.buf = slices.Grow(u.buf, int(lacks))[:have+int(lacks)]
	if err := readClosed(r.f, r.s, u.buf[have:], u.pos+int64(have)); err != nil {
		return at, err
	}
	return r.cut(u, at)
}

// cut cuts whole entries off what was read, and returns up to where.
func (r *cleanReader) cut(u *cleanUnit, at int) (int, error) {
	for at < len(u.buf) {
		e, err := record.FirstEntry(u.buf[at:])
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return at, nil
		}
		if err != nil {
			return at, r.corrupt(err)
		}
		if whole, err := r.take(u, e, at, len(e)); err != nil || !whole {
			return at, err
		}
		at += len(e)
	}
	return at, nil
}

// take judges an entry of size bytes, of which e is at least the header, and of a marker or a message of formats 0 and 1 everything. false:
// there is no room in the unit for its records.
func (r *cleanReader) take(u *cleanUnit, e record.Entry, at, size int) (bool, error) {
	count := int64(1)
	if e.Magic() == 2 {
		count = int64(e.Batch().Count())
	}
	if u.records += count; u.records > cleanUnitRecords && at > 0 {
		return false, nil
	}
	if err := r.pacer.count(r.c, size); err != nil {
		return false, err
	}
	// The checksums of data are left to those who work side by side. Markers, whose records are judged here, are few.
	checked := e.Magic() < 2 || e.Batch().IsControl()
	if checked {
		if err := e.Check(); err != nil {
			return false, r.corrupt(err)
		}
	}
	// large: more records than a unit has, or an unknown number of them.
	large := count > cleanUnitRecords || e.Magic() < 2 && e.Codec() != record.None
	u.entries = append(u.entries, cleanEntry{at: at, size: size, count: count, after: r.after, checked: checked, large: large})
	last := len(u.entries) - 1
	kept, err := r.steps.judge(e, &u.entries[last].verdict)
	if err != nil || !kept {
		u.entries = u.entries[:last]
	}
	if err != nil {
		return false, r.corrupt(err)
	}
	r.taken++
	r.bytes += int64(size)
	r.after = e.LastOffset()
	r.pos += int64(size)
	return true, nil
}

// walk makes a unit of which only the headers are read here: the rest is left to the worker, so that workers read side by side. It ends
// before whatever is no batch of data, or not whole, and returns how many bytes it went over. Where entries are short, to read them all is
// less work than to read each header.
func (r *cleanReader) walk(u *cleanUnit, size int64) (at int, err error) {
	n := 0
	for ; n < walkMost && size-r.pos >= record.HeaderSize; n++ {
		if err := readClosed(r.f, r.s, r.head[:], r.pos); err != nil {
			return at, err
		}
		e := record.Entry(r.head[:])
		whole, err := record.EntrySize(e)
		if err != nil || whole < record.HeaderSize || whole > size-r.pos || e.Magic() != 2 || e.Batch().IsControl() ||
			at > 0 && int64(at)+whole > cleanUnitBytes {
			break
		}
		if ok, err := r.take(u, e, at, int(whole)); err != nil {
			return at, err
		} else if !ok {
			break
		}
		at += int(whole)
	}
	if at == 0 {
		return 0, nil
	}
	r.c.pipe.long = at >= r.taken*walkEntryBytes
	if _, err := r.s.acquire(); err != nil {
		return at, r.gone(err)
	}
	u.f, u.buf = r.f, slices.Grow(u.buf[:0], at)[:at]
	return at, nil
}

const (
	// walkEntryBytes is how long entries are, on the average, for walk.
	walkEntryBytes = 8 << 10
	walkMost       = cleanUnitBytes / walkEntryBytes
)

func (r *cleanReader) gone(err error) error {
	if errors.Is(err, errSegmentGone) {
		return abortf("%s was deleted meanwhile", r.s.name(logSuffix))
	}
	return err
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
