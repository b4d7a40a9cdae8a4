package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/quire-log/quire/internal/record"
)

// A cleanRound is one cleaning of one log, in two passes: over the dirty part, to note the last offset of each key; then over
// everything up to where that came to, to copy what is still wanted into new segments. Its buffers serve one round after another.
type cleanRound struct {
	m       offsetMap
	memory  int64 // bytes that the map may take
	load    float64
	out     []byte // batches that wait to be written
	scratch []byte // a batch that was made anew
	// pace is told of bytes that were read or written, and may wait; an error ends the round.
	pace func(ctx context.Context, n int) error

	ctx         context.Context
	l           *Log
	cfg         *Config
	now         int64
	segs        []*segment // the log's when the round began
	truncations uint64
	paced       int
	reader      *record.Reader
	builder     *record.Builder
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
const cleanWriteBytes = 1 << 20

// paceBytes is how much is read or written between two looks at whether to go on.
const paceBytes = 256 << 10

// run cleans l from first, where its dirty part begins, up to limit, the base of a segment that must stay as it is. It returns up to
// where the log is clean now. errCleaningAborted: nothing more could be done, and nothing is wrong.
func (c *cleanRound) run(ctx context.Context, l *Log, first, limit Offset, now int64) (Offset, CleanStats, error) {
	l.mu.Lock()
	err := l.usable()
	c.segs, c.truncations = l.list(), l.truncations
	l.mu.Unlock()
	c.ctx, c.l, c.cfg, c.now, c.stats = ctx, l, l.config.Load(), now, CleanStats{From: first}
	c.reader, c.builder = new(record.Reader), record.NewBuilder()
	if c.out == nil {
		c.out = make([]byte, 0, cleanWriteBytes)
	}
	defer func() { // a batch that inflated to much must not be remembered for long
		c.reader, c.builder, c.segs, c.l = nil, nil, nil, nil
		if cap(c.scratch) > pooledMax {
			c.scratch = nil
		}
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
	for _, g := range groups {
		if err := c.rewrite(g, txns, end, legacyHorizon); err != nil {
			return 0, c.stats, err
		}
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

var errMapFull = errors.New("the offset map is full")

// fillMap notes the last offset of every key in [first, limit), or up to where the map is full.
func (c *cleanRound) fillMap(first, limit Offset) error {
	c.m.reset(c.memory, c.load, int64(limit-first))
	c.m.latest = first - 1
	txns := newCleanTxns()
	txns.add(abortedWithin(c.segs, first, limit))
	for _, s := range c.below(first, limit) {
		err := c.walk(s, func(e record.Entry) error {
			last := e.LastOffset()
			if last < first {
				return nil
			}
			if e.Magic() == 2 {
				b := e.Batch()
				if b.IsControl() {
					_, _, err := txns.marker(b, c.reader)
					c.m.latest = last
					return err
				}
				if txns.data(b) {
					c.m.latest = last
					return nil
				}
			}
			if err := c.reader.ResetEntry(e, inflateMax); err != nil {
				return err
			}
			for c.reader.Next() {
				r := c.reader.Record()
				if r.Offset < first {
					continue
				}
				if r.Key != nil && !c.m.put(r.Key, r.Offset) {
					return errMapFull
				}
				c.m.latest = r.Offset
			}
			if err := c.reader.Err(); err != nil {
				return err
			}
			c.m.latest = last
			return nil
		})
		if errors.Is(err, errMapFull) {
			c.stats.MapFull = true
			return nil
		}
		if err != nil {
			return err
		}
		c.m.latest = c.nextBase(s) - 1
	}
	return nil
}

// A stopWalk carries an error out of a walk unseen.
type stopWalk struct{ err error }

func (s *stopWalk) Error() string { return s.err.Error() }

// walk hands each entry of a segment to do, its checksum verified.
func (c *cleanRound) walk(s *segment, do func(e record.Entry) error) error {
	f, err := s.acquire()
	if errors.Is(err, errSegmentGone) {
		return abortf("%s was deleted meanwhile", s.name(logSuffix))
	}
	if err != nil {
		return err
	}
	defer s.release()
	after := s.base - 1
	pos, fault, err := walkEntries(f, s.size.Load(), func(_ int64, e record.Entry) error {
		if err := c.paceBy(len(e)); err != nil {
			return &stopWalk{err}
		}
		c.stats.BytesRead += int64(len(e))
		if err := e.Check(); err != nil {
			return err
		}
		if err := do(e); err != nil {
			return &stopWalk{err}
		}
		after = e.LastOffset()
		return nil
	})
	switch stop := (*stopWalk)(nil); {
	case errors.As(fault, &stop):
		var format *record.FormatError
		var large *record.TooLargeError
		if errors.As(stop.err, &format) || errors.As(stop.err, &large) {
			return &CorruptError{c.l.partition, s.name(logSuffix), pos, after, stop.err}
		}
		return stop.err
	case fault != nil:
		return &CorruptError{c.l.partition, s.name(logSuffix), pos, after, fault}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return abortf("%s was truncated meanwhile", s.name(logSuffix))
	}
	return err
}

// paceBy counts n bytes and, now and then, asks whether to go on.
func (c *cleanRound) paceBy(n int) error {
	if c.paced += n; c.paced < paceBytes {
		return nil
	}
	n, c.paced = c.paced, 0
	if c.ctx.Err() != nil {
		return abortf("%v", context.Cause(c.ctx))
	}
	if !c.l.config.Load().Compact {
		return abortf("cleanup.policy is no longer compact")
	}
	if c.pace == nil {
		return nil
	}
	return c.pace(c.ctx, n)
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

// modifiedMs is when the segment's file was last written, in ms.
func (s *segment) modifiedMs() (int64, error) {
	s.mu.Lock()
	ms := s.modified
	s.mu.Unlock()
	if ms != 0 {
		return ms, nil
	}
	f, err := s.acquire()
	if err != nil {
		return 0, err
	}
	defer s.release()
	t, err := f.ModTime()
	return t.UnixMilli(), err
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

// rewrite copies what is wanted of a group's segments into new ones, and puts those in their place.
func (c *cleanRound) rewrite(g []*segment, txns *cleanTxns, end Offset, legacyHorizon int64) (err error) {
	p := &cleanPass{cleanRound: c, txns: txns, end: end, last: c.l.lastOfProducers()}
	defer func() {
		if err != nil {
			for _, o := range p.outs {
				o.remove()
			}
		}
	}()
	if err := p.begin(g[0].base); err != nil {
		return err
	}
	before := int64(0)
	modified := int64(0)
	for _, s := range g {
		if modified, err = s.modifiedMs(); err != nil {
			if errors.Is(err, errSegmentGone) {
				return abortf("%s was deleted meanwhile", s.name(logSuffix))
			}
			return err
		}
		txns.add(abortedWithin(c.segs, s.base, c.nextBase(s)))
		p.keepsLegacyTombstones = modified > legacyHorizon
		if err := c.walk(s, p.entry); err != nil {
			return err
		}
		before += s.size.Load()
	}
	after := int64(0)
	for _, o := range p.outs {
		if err := o.seal(modified); err != nil {
			return err
		}
		after += o.size
	}
	if err := c.l.swap(g, p.outs, c.truncations); err != nil {
		return err
	}
	c.l.event("compact", g[0].base, "%d segments of %d bytes became %d of %d, %d of %d records (cleaned up to %d)",
		len(g), before, len(p.outs), after, p.kept, p.seen, end)
	c.stats.BytesBefore += before
	c.stats.BytesAfter += after
	c.stats.RecordsBefore += p.seen
	c.stats.RecordsAfter += p.kept
	c.stats.Segments += len(g)
	c.stats.Outputs += len(p.outs)
	return nil
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

func (s *CleanStats) String() string {
	return fmt.Sprintf("offsets %d to %d, %d keys: %d segments of %d bytes and %d records became %d of %d bytes and %d records",
		s.From, s.To, s.Keys, s.Segments, s.BytesBefore, s.RecordsBefore, s.Outputs, s.BytesAfter, s.RecordsAfter)
}
