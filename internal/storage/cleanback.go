package storage

import (
	"context"
	"errors"
	"sync"

	"github.com/quire-log/quire/internal/record"
)

// The map can also be filled from the end of the dirty part to its beginning. Then it is known of each record, as soon as it is met,
// whether a later one has its key, so that what stays of a batch is known while its records are there inflated: the batch is made anew
// at once, and kept in a spool for the second pass. Each batch is inflated once instead of twice, which is most of the work where
// records are compressed. What comes of it is the same to the byte: map, marks, and batches.
//
//	survey   from the first to the last batch, by headers: transactions are followed, and the segments are cut into units
//	work     from the last unit to the first, cleanWorkers goroutines side by side, each with a unit: it is read, verified and inflated;
//	         when its turn comes, its keys go into the map; what stays of its batches is made anew and spooled
//
// It is done where the dirty part is mostly compressed, all its offsets fit into the map and the marks (a map that is full on the way
// from the end says nothing of what comes before), and no limit is set on the bytes that a cleaning may read and write, of which this
// takes more. Of whatever it does not understand it lets go, and the map is filled from the beginning: errBackward. So it need not say
// what is wrong with a log, nor know how to clean one of old formats, or with offsets out of order.
//
// Its memory beside the map and the marks is a backWorker for each of them, and backUnitsMax units.
const (
	// backUnitBytes are read at once, or one larger batch.
	backUnitBytes = 64 << 10
	// backInflateBytes is how much inflated records a worker has at a time; the batches of a unit that exceed it are not made anew here.
	backInflateBytes = 1<<20 + 256<<10
	// backUnitRecords are in a unit, and backRecordsMax at most in one of a single batch: 1 MiB of keys' hashes.
	backUnitRecords = 4 << 10
	backRecordsMax  = 32 << 10
	// backUnitsMax bounds the table of units: 4 GiB of dirty segments, or more where batches are larger. 2 MiB, with the spool's.
	backUnitsMax = 64 << 10
)

// errBackward lets go of filling the map from the end.
var errBackward = errors.New("not from the end")

// A backUnit is a piece of a segment, of whole batches.
type backUnit struct {
	s         int32 // which of the pass's segments
	pos, size uint32
}

// A backPass fills the map of a round from the end.
type backPass struct {
	*cleanRound
	first, limit Offset
	segs         []*segment
	units        []backUnit

	// give guards the fields below: what is still to be worked on. Pacing happens under it, so nobody goes on meanwhile.
	give  sync.Mutex
	left  int // units
	pacer cleanPacer

	// mu guards the fields below. It is a leaf; the map and the marks belong to the unit whose turn it is.
	mu     sync.Mutex
	turned sync.Cond // turn or failed has changed
	turn   int       // units whose keys are not in the map yet
	failed error
	below  Offset // what all offsets still to come are below
}

// A backWorker is what one goroutine has to work with.
type backWorker struct {
	*cleanWorker
	buf      []byte // the unit
	inflated []byte // records of its batches; never grows
	batches  []backBatch
	hashes   []hashedKey
	out      []byte // batches made anew
}

type backBatch struct {
	batch   record.Batch
	records []byte // inflated; nil: they were too many
	from    int    // of its keys in the worker's
}

// fillMapBackward is fillMap from the end; errBackward: the map and the marks are to be reset, and filled from the beginning.
func (c *cleanRound) fillMapBackward(first, limit Offset) (err error) {
	segs := c.below(first, limit)
	switch {
	case c.fromBeginning || c.sparing || int64(limit-first) > int64(c.m.limit) || limit-first > marksMax || len(segs) == 0:
		return errBackward
	case !c.fromEnd && !c.sampled.compressed:
		return errBackward
	}
	p := &backPass{cleanRound: c, first: first, limit: limit, segs: segs, below: limit}
	p.turned.L = &p.mu
	if err := p.survey(); err != nil {
		return err
	}
	if c.spool, err = newCleanSpool(c.l.at, segs[0].base, len(p.units), c.spoolMost); err != nil {
		return errBackward // the outputs will meet what is wrong, if it lasts
	}
	p.left, p.turn = len(p.units), len(p.units)
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	p.pacer = cleanPacer{ctx: ctx}
	if c.workers == 0 {
		p.work(c.pipe.back(0))
	} else {
		var wait sync.WaitGroup
		for i := range c.workers {
			w := c.pipe.back(i)
			wait.Go(func() { p.work(w) })
		}
		wait.Wait()
	}
	if p.failed != nil {
		return p.failed
	}
	c.m.latest = c.nextBase(segs[len(segs)-1]) - 1
	return nil
}

// survey cuts the segments into units, and marks what was aborted.
func (p *backPass) survey() error {
	judge := p.judgeDirty(p.first, p.limit)
	u := p.pipe.units[0]
	r := &cleanReader{c: p.cleanRound, segs: p.segs, pacer: cleanPacer{ctx: p.ctx}, steps: cleanSteps{
		begin: func(*segment) {},
		judge: func(e record.Entry, v *verdict) (kept bool, err error) {
			if e.Magic() < 2 {
				return false, errBackward
			}
			if kept, err = judge(e, v); v.skip && !e.Batch().IsControl() {
				p.marks.setSkip(e.BaseOffset())
			}
			return kept, err
		},
	}}
	defer r.close()
	at, records := int32(-1), 0
	for more := true; more; {
		u.reset()
		if more = r.next(u); u.f != nil {
			u.s.release() // its headers are all that is wanted
		}
		if errors.Is(u.err, errCleaningAborted) {
			return u.err
		}
		if u.err != nil || len(p.units) > backUnitsMax {
			return errBackward
		}
		for i := range u.entries {
			e := &u.entries[i]
			pos, count := u.pos+int64(e.at), int(e.count)
			if count < 0 || count > backRecordsMax {
				return errBackward
			}
			if at < 0 || p.segs[at] != u.s {
				for at++; p.segs[at] != u.s; at++ {
				}
			} else if last := &p.units[len(p.units)-1]; int(last.size)+e.size <= backUnitBytes && records+count <= backUnitRecords {
				last.size += uint32(e.size)
				records += count
				continue
			}
			p.units = append(p.units, backUnit{at, uint32(pos), uint32(e.size)})
			records = count
		}
	}
	p.stats.BytesRead += r.bytes
	return nil
}

// next is the number of the unit to work on now.
func (p *backPass) next() (n int, err error) {
	p.give.Lock()
	defer p.give.Unlock()
	if p.left == 0 {
		return -1, nil
	}
	p.left--
	return p.left, p.pacer.count(p.cleanRound, int(p.units[p.left].size))
}

// spooled tells the pacer of bytes that were written.
func (p *backPass) spooled(n int) error {
	p.give.Lock()
	defer p.give.Unlock()
	return p.pacer.count(p.cleanRound, n)
}

func (p *backPass) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == nil || errors.Is(err, errCleaningAborted) {
		p.failed = err
	}
	p.turned.Broadcast()
}

func (p *backPass) work(w *backWorker) {
	for {
		n, err := p.next()
		if n < 0 {
			return
		}
		if err == nil {
			err = p.one(w, n)
		}
		if err != nil {
			p.fail(err)
			return
		}
	}
}

// one does all that is to be done with a unit.
func (p *backPass) one(w *backWorker, n int) error {
	if err := p.inflate(w, n); err != nil {
		return err
	}
	if err := p.await(n + 1); err != nil {
		return err
	}
	if err := p.note(w); err != nil {
		return err
	}
	p.pass(n)
	if err := p.remake(w); err != nil {
		return err
	}
	if err := p.spool.put(n, w.out); err != nil {
		return err
	}
	return p.spooled(len(w.out))
}

// await waits until the keys of all units from number n on are in the map.
func (p *backPass) await(n int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.turn != n && p.failed == nil {
		p.turned.Wait()
	}
	return p.failed
}

// pass gives the turn to the unit before number n.
func (p *backPass) pass(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn = n
	p.turned.Broadcast()
}

// inflate reads unit n, and has its keys and, as far as there is room, its records.
func (p *backPass) inflate(w *backWorker, n int) error {
	u := p.units[n]
	s := p.segs[u.s]
	f, err := s.acquire()
	if err != nil {
		return errBackward
	}
	defer s.release()
	w.begin(int(u.size))
	if err := readFull(f, w.buf, int64(u.pos)); err != nil {
		return errBackward
	}
	for rest := w.buf; len(rest) > 0; {
		e, err := record.FirstEntry(rest)
		if err != nil || e.Magic() != 2 || e.Check() != nil {
			return errBackward
		}
		if len(rest) == len(w.buf) {
			p.spool.blocks[n].first = e.BaseOffset()
		}
		rest = rest[len(e):]
		b := e.Batch()
		if b.LastOffset() < p.first || b.IsControl() || p.marks.isSkipped(b.BaseOffset()) {
			continue
		}
		if err := p.hash(w, b); err != nil {
			return err
		}
	}
	return nil
}

// hash has the keys of a batch.
func (p *backPass) hash(w *backWorker, b record.Batch) error {
	records, err := record.Inflate(w.inflated, b)
	defer w.skim.Close()
	switch {
	case err == nil:
		if err = w.skim.ResetInflated(b, records); b.Codec() != record.None {
			w.inflated = w.inflated[:len(w.inflated)+len(records)]
		}
	case isTooLarge(err):
		records, err = nil, w.skim.Reset(b, cleanInflateMax)
	}
	if err != nil {
		return errBackward
	}
	from, last := len(w.hashes), b.BaseOffset()-1
	for w.skim.Next() {
		k := p.m.hashed(w.skim.Key(), w.skim.Offset(), w.skim.Tombstone())
		if k.offset <= last || k.offset > b.LastOffset() {
			return errBackward
		}
		last = k.offset
		w.hashes = append(w.hashes, k)
	}
	if w.skim.Err() != nil {
		return errBackward
	}
	w.batches = append(w.batches, backBatch{b, records, from})
	return nil
}

// note puts the keys of a unit, whose turn it is, into the map, from the last to the first, and marks those that are there already.
func (p *backPass) note(w *backWorker) error {
	for to := len(w.hashes); to > 0; {
		some := w.hashes[max(0, to-warmKeys):to]
		to -= len(some)
		w.sum += p.m.warm(some)
		for i := len(some) - 1; i >= 0; i-- {
			k := &some[i]
			if k.offset >= p.below {
				return errBackward
			}
			p.below = k.offset
			if k.offset < p.first {
				continue
			}
			if k.dead = k.kind == withoutKey || !p.m.putFirst(k); k.dead {
				p.marks.setDead(k.offset)
			}
			if k.kind == tombstone {
				p.marks.setTomb(k.offset)
			}
		}
	}
	return nil
}

// remake makes those batches anew of which some records stay. It decides as the second pass will, by what note found: the marks are
// others' to write.
func (p *backPass) remake(w *backWorker) (err error) {
	for i := range w.batches {
		b := &w.batches[i]
		if b.records == nil || b.batch.BaseOffset() < p.first || b.batch.LastOffset() >= p.limit {
			continue
		}
		keys := w.hashes[b.from:][:b.batch.Count()]
		dead, tombs := 0, 0
		for i := range keys {
			if keys[i].dead {
				dead++
			} else if keys[i].kind == tombstone {
				tombs++
			}
		}
		ch := p.choose(b.batch, dead, tombs)
		if !ch.remakes(b.batch) {
			continue
		}
		if err := w.skim.ResetInflated(b.batch, b.records); err != nil {
			return errBackward
		}
		w.skim.Level = p.sampled.level(b.batch)
		w.out, err = w.skim.Rewrite(w.out, ch.begins, p.horizon(), func(s *record.Skim) bool {
			k := &keys[s.Index()]
			return !k.dead && !(ch.expired && k.kind == tombstone)
		})
		w.skim.Close()
		if err != nil {
			return errBackward
		}
	}
	return nil
}

// begin makes w ready for a unit of so many bytes.
func (w *backWorker) begin(size int) {
	if w.inflated == nil {
		w.inflated = make([]byte, 0, backInflateBytes)
	}
	if cap(w.buf) < size || cap(w.buf) > cleanKeepMax {
		w.buf = make([]byte, max(size, backUnitBytes))
	}
	if cap(w.out) > cleanKeepMax {
		w.out = nil
	}
	clear(w.batches)
	w.buf, w.inflated, w.batches, w.hashes, w.out = w.buf[:size], w.inflated[:0], w.batches[:0], w.hashes[:0], w.out[:0]
}
