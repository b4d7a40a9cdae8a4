package storage

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/quire-log/quire/internal/record"
)

// A cleanRound is one cleaning of one log, in two passes: over the dirty part, to note the last offset of each key; then over
// everything up to where that came to, to copy what is still wanted into new segments. Its buffers serve one round after another.
type cleanRound struct {
	m       offsetMap
	marks   offsetMarks
	memory  int64 // bytes that the map may take
	load    float64
	workers int    // goroutines: see cleanDrive; 0: none beside this one, for tests to repeat
	out     []byte // batches that wait to be written
	// pace is told of bytes that were read or written, and may wait; an error ends the round.
	pace func(ctx context.Context, n int) error

	// sparing: bytes read and written are limited, so that none is read twice to save work. See cleanback.go, as for the next
	// three, by which tests choose.
	sparing, fromBeginning, fromEnd bool
	spoolMost                       int64
	outputMost                      int64 // bytes of an output, by which tests have several of a group
	sampled                         cleanSample
	spool                           *cleanSpool // batches that the first pass made for the second

	pipe        cleanPipe
	ctx         context.Context
	l           *Log
	cfg         *Config
	now         int64
	segs        []*segment // the log's when the round began
	truncations uint64
	stats       CleanStats
}

// CleanStats say what a cleaning did.
type CleanStats struct {
	From, To          Offset // the dirty part that it took in
	Keys              int    // distinct ones in that part
	MapFull           bool   // the map took no more, so that the rest is for the next round
	BytesRead         int64  // of both passes
	BytesBefore       int64  // of the segments that were replaced
	BytesAfter        int64  // of those that took their place
	RecordsBefore     int64
	RecordsAfter      int64
	Segments, Outputs int
}

// cleanWriteBytes is how much waits to be written at once.
const cleanWriteBytes = 256 << 10

// run cleans l from first, where its dirty part begins, up to limit, the base of a segment that must stay as it is. It returns up to
// where the log is clean now. errCleaningAborted: nothing more could be done, and nothing is wrong.
func (c *cleanRound) run(ctx context.Context, l *Log, first, limit Offset, now int64) (Offset, CleanStats, error) {
	l.mu.Lock()
	err := l.usable()
	c.segs, c.truncations = l.list(), l.truncations
	l.mu.Unlock()
	c.ctx, c.l, c.cfg, c.now, c.stats = ctx, l, l.config.Load(), now, CleanStats{From: first}
	if c.out == nil {
		c.out = make([]byte, 0, cleanWriteBytes)
	}
	defer func() {
		for _, w := range c.pipe.workers {
			w.spooled.forget()
		}
		c.spool.close()
		c.segs, c.l, c.spool = nil, nil, nil
	}()
	if err != nil {
		return 0, c.stats, errors.Join(errCleaningAborted, err)
	}
	// What is beyond the recovery point tells a recovery more than its records: the leader epochs (I8). So nothing of it goes.
	if err := l.flushTo(limit); err != nil {
		return 0, c.stats, err
	}
	if err := c.fillMap(first, limit); err != nil {
		return 0, c.stats, err
	}
	end := c.m.latest + 1
	c.stats.To, c.stats.Keys = end, c.m.size
	if end <= first {
		return first, c.stats, nil
	}
	txns := newCleanTxns()
	legacyHorizon, err := c.legacyHorizon(first)
	if err != nil {
		return 0, c.stats, err
	}
	groups, err := c.group(end, limit)
	if err != nil {
		return 0, c.stats, err
	}
	if err := c.rewriteAll(groups, txns, end, legacyHorizon); err != nil {
		return 0, c.stats, err
	}
	return end, c.stats, nil
}

// below returns the segments with offsets in [from, to), by their bases.
func (c *cleanRound) below(from, to Offset) []*segment {
	first, last := 0, 0
	for i, s := range c.segs {
		if s.base <= from {
			first = i
		}
		if s.base < to {
			last = i + 1
		}
	}
	last = min(last, len(c.segs)-1) // never the active one
	return c.segs[min(first, last):last]
}

func (c *cleanRound) nextBase(s *segment) Offset {
	for i, t := range c.segs[:len(c.segs)-1] {
		if t == s {
			return c.segs[i+1].base
		}
	}
	return c.l.EndOffset()
}

// fillMap notes the last offset of every key in [first, limit), or up to where the map is full.
func (c *cleanRound) fillMap(first, limit Offset) error {
	c.pipe.make(c.workers)
	reset := func() {
		c.m.reset(c.memory, c.load, int64(limit-first))
		c.marks.reset(first, limit)
		c.m.latest = first - 1
	}
	reset()
	c.sampled = c.sample(c.below(first, limit))
	switch err := c.fillMapBackward(first, limit); {
	case err == nil:
		return nil
	case !errors.Is(err, errBackward):
		return err
	}
	c.spool.close()
	c.spool = nil
	reset()
	return c.fillMapForward(first, limit)
}

// judgeDirty judges the entries of the dirty part for the first pass.
func (c *cleanRound) judgeDirty(first, limit Offset) func(e record.Entry, v *verdict) (bool, error) {
	txns := newCleanTxns()
	txns.add(abortedWithin(c.segs, first, limit))
	var markers record.Reader
	return func(e record.Entry, v *verdict) (bool, error) {
		if e.LastOffset() < first {
			return false, nil
		}
		if e.Magic() < 2 {
			return true, nil
		}
		b := e.Batch()
		if b.IsControl() {
			v.skip = true
			_, _, err := txns.marker(b, &markers)
			return true, err
		}
		v.skip = txns.data(b)
		return true, nil
	}
}

func (c *cleanRound) fillMapForward(first, limit Offset) error {
	return c.pass(c.below(first, limit), cleanSteps{
		begin: func(*segment) {},
		judge: c.judgeDirty(first, limit),
		work: func(w *cleanWorker, u *cleanUnit, e *cleanEntry, most int) {
			if e.skip || e.large {
				return
			}
			e.keysAt = len(u.keys)
			e.err = w.eachKey(u.entry(e), most, func(key []byte, o Offset, tombstone bool) bool {
				u.keys = append(u.keys, c.m.hashed(key, o, tombstone))
				return true
			})
			if e.keys = len(u.keys) - e.keysAt; isTooLarge(e.err) {
				u.keys, e.keys, e.err, e.large = u.keys[:e.keysAt], 0, nil, true
			}
		},
		use: func(w *cleanWorker, u *cleanUnit) error {
			for i := range u.entries {
				e := &u.entries[i]
				full := false
				switch {
				case e.skip:
				case e.large && e.err == nil:
					if full, e.err = c.noteLarge(w, u.entry(e), first); e.err != nil {
						return c.entryError(u, e, e.err)
					}
				default:
					full = c.note(w, u.keys[e.keysAt:e.keysAt+e.keys], first)
				}
				if full {
					c.stats.MapFull = true
					return errPassEnds
				}
				if e.err != nil {
					return c.entryError(u, e, e.err)
				}
				c.m.latest = u.entry(e).LastOffset()
			}
			if u.ends {
				c.m.latest = c.nextBase(u.s) - 1
			}
			return nil
		},
	})
}

// note puts records into the map, and marks what they supersede; full: the map takes no more, and latest is the last that it took.
func (c *cleanRound) note(w *cleanWorker, keys []hashedKey, first Offset) (full bool) {
	for len(keys) > 0 {
		some := keys[:min(len(keys), warmKeys)]
		keys = keys[len(some):]
		w.sum += c.m.warm(some)
		for i := range some {
			k := &some[i]
			if k.offset < first {
				continue
			}
			if k.kind == withoutKey {
				c.marks.setDead(k.offset)
				c.m.latest = k.offset
				continue
			}
			before, ok := c.m.put(k)
			if !ok {
				return true
			}
			if before >= 0 && before < k.offset {
				c.marks.setDead(before)
			}
			if k.kind == tombstone {
				c.marks.setTomb(k.offset)
			}
			c.m.latest = k.offset
		}
	}
	return false
}

// noteLarge is note of an entry that was left until now.
func (c *cleanRound) noteLarge(w *cleanWorker, e record.Entry, first Offset) (full bool, err error) {
	some := w.keys[:0]
	err = w.eachKey(e, inflateMax, func(key []byte, o Offset, tombstone bool) bool {
		if some = append(some, c.m.hashed(key, o, tombstone)); len(some) == warmKeys {
			full = c.note(w, some, first)
			some = some[:0]
		}
		return !full
	})
	return full || c.note(w, some, first), err
}

// eachKey hands out the keys of an entry's records until do says false; views. A record whose offset lies outside of its batch is passed
// over, since it might pass for another one: it supersedes none, and stays (record.ErrStrayOffset).
func (w *cleanWorker) eachKey(e record.Entry, most int, do func(key []byte, o Offset, tombstone bool) bool) error {
	if e.Magic() == 2 {
		defer w.skim.Close()
		if err := w.skim.Reset(e.Batch(), most); err != nil {
			return err
		}
		for w.skim.Next() {
			if o := w.skim.Offset(); o < e.BaseOffset() || o > e.LastOffset() {
				continue
			}
			if !do(w.skim.Key(), w.skim.Offset(), w.skim.Tombstone()) {
				return nil
			}
		}
		return w.skim.Err()
	}
	if err := w.reader.ResetEntry(e, most); err != nil {
		return err
	}
	for w.reader.Next() {
		r := w.reader.Record()
		if !do(r.Key, r.Offset, r.Value == nil) {
			return nil
		}
	}
	return w.reader.Err()
}

// expired tells whether a batch's delete horizon has passed.
func (c *cleanRound) expired(b record.Batch) bool {
	return b.HasDeleteHorizon() && b.BaseTimestamp() <= c.now
}

// horizon is until when tombstones that survive this cleaning stay.
func (c *cleanRound) horizon() int64 {
	if c.cfg.DeleteRetentionMs > math.MaxInt64-c.now {
		return math.MaxInt64
	}
	return c.now + c.cfg.DeleteRetentionMs
}

// legacyHorizon is the file time up to which segments lose tombstones of formats 0 and 1, in which no horizon can be written.
func (c *cleanRound) legacyHorizon(first Offset) (int64, error) {
	clean := c.below(0, first)
	if len(clean) == 0 || clean[0].base >= first {
		return 0, nil
	}
	ms, err := clean[len(clean)-1].modifiedMs()
	return ms - c.cfg.DeleteRetentionMs, err
}

// group cuts the segments below end into runs, each of which becomes one segment: by the sizes that they have before cleaning.
func (c *cleanRound) group(end, limit Offset) (groups [][]*segment, err error) {
	var g []*segment
	var bytes, index, times int64
	segs := c.below(0, end)
	for i, s := range segs {
		size := s.size.Load()
		ix, err := c.indexBytes(s, indexSuffix)
		if err != nil {
			return nil, err
		}
		tx, err := c.indexBytes(s, timeIndexSuffix)
		if err != nil {
			return nil, err
		}
		last := limit - 1
		if i+1 < len(segs) {
			last = segs[i+1].base - 1
		}
		most := int64(c.cfg.IndexBytesMax)
		if len(g) > 0 && (bytes+size > int64(c.cfg.SegmentBytes) || index+ix > most || times+tx > most ||
			size > 0 && last-g[0].base > math.MaxInt32) {
			groups = append(groups, g)
			g, bytes, index, times = nil, 0, 0, 0
		}
		g = append(g, s)
		bytes, index, times = bytes+size, index+ix, times+tx
	}
	if len(g) > 0 {
		groups = append(groups, g)
	}
	return groups, nil
}

// indexBytes is the size of an index of a closed segment, without reading it.
func (c *cleanRound) indexBytes(s *segment, suffix string) (int64, error) {
	if x := s.idx.Load(); x != nil {
		f := x.offsets
		if suffix == timeIndexSuffix {
			f = x.times
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		return int64(f.count() * f.entrySize), nil
	}
	info, err := c.l.at.fs.Stat(c.l.at.path(s.name(suffix)))
	if err != nil {
		if isDamage(err) {
			return 0, nil // it will be built anew when it is wanted
		}
		return 0, err
	}
	return info.Size(), nil
}

// rewriteAll copies what is wanted of each group into new segments, and puts those in its place.
func (c *cleanRound) rewriteAll(groups [][]*segment, txns *cleanTxns, end Offset, legacyHorizon int64) error {
	commits := newCleanCommits(c.workers > 0)
	for _, g := range groups {
		p, err := c.rewrite(g, txns, end, legacyHorizon)
		if err != nil {
			p.remove()
			if failed := commits.wait(&c.stats); failed != nil {
				err = failed
			}
			return err
		}
		if !commits.add(p) {
			break
		}
	}
	return commits.wait(&c.stats)
}

// rewrite copies what is wanted of a group's segments into new ones. Also with an error, what it returns is to be removed or committed.
func (c *cleanRound) rewrite(g []*segment, txns *cleanTxns, end Offset, legacyHorizon int64) (*cleanPass, error) {
	p := &cleanPass{cleanRound: c, group: g, txns: txns, end: end, last: c.l.lastOfProducers(), pacer: cleanPacer{ctx: c.ctx}}
	if err := p.begin(g[0].base); err != nil {
		return p, err
	}
	times := make(map[*segment]int64, len(g))
	for _, s := range g {
		ms, err := s.modifiedMs()
		if err != nil {
			if errors.Is(err, errSegmentGone) {
				err = abortf("%s was deleted meanwhile", s.name(logSuffix))
			}
			return p, err
		}
		p.modified, times[s] = ms, ms
		p.before += s.size.Load()
	}
	err := c.pass(g, cleanSteps{
		begin: func(s *segment) {
			txns.add(abortedWithin(c.segs, s.base, c.nextBase(s)))
			p.keepsLegacyTombstones = times[s] > legacyHorizon
		},
		judge: p.judge,
		work:  p.work,
		use:   p.use,
	})
	if err == nil {
		err = p.outs[len(p.outs)-1].flush()
	}
	return p, err
}

// A lastRecord is where a producer that is known wrote last.
type lastRecord struct {
	data  Offset // of its data; -1: its newest epoch has none
	epoch int16
}

// lastOfProducers says where each known producer wrote last: those batches keep what is known of it.
func (l *Log) lastOfProducers() map[int64]lastRecord {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[int64]lastRecord, len(l.producers.byID))
	for id, p := range l.producers.byID {
		last := lastRecord{-1, p.epoch}
		if n := len(p.sent); n > 0 {
			last.data = p.sent[n-1].lastOffset
		}
		all[id] = last
	}
	return all
}

// add counts a group that was replaced.
func (s *CleanStats) add(p *cleanPass) {
	s.BytesBefore += p.before
	s.BytesAfter += p.after
	s.RecordsBefore += p.seen
	s.RecordsAfter += p.kept
	s.Segments += len(p.group)
	s.Outputs += len(p.outs)
}

func (s *CleanStats) String() string {
	return fmt.Sprintf("offsets %d to %d, %d keys: %d segments of %d bytes and %d records became %d of %d bytes and %d records",
		s.From, s.To, s.Keys, s.Segments, s.BytesBefore, s.RecordsBefore, s.Outputs, s.BytesAfter, s.RecordsAfter)
}
