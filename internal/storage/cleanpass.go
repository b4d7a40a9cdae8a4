package storage

import (
	"cmp"
	"errors"
	"slices"

	"github.com/quire-log/quire/internal/record"
)

// A cleanPass copies the batches of a group of segments, without what nobody wants any more. What is decided of a batch:
//
//	data of an aborted transaction   all its records go
//	a marker                         goes once nothing of its transaction was met, and its delete horizon has passed
//	other data                       a record stays if the map has no later one of its key, and it is no tombstone whose delete
//	                                 horizon has passed; one without a key goes
//
// The delete horizon (KIP-534) is written when a batch with tombstones, or a marker with nothing left to say, first survives a
// cleaning: delete.retention.ms from then. So whoever reads the log from its start within that time sees them.
//
// A batch that is left without records goes too, unless it is the last of a producer that is known, or of the round: it then stays
// as a header, for its sequence and its offset. A batch that keeps all its records is copied as it is.
type cleanPass struct {
	*cleanRound
	group []*segment
	txns  *cleanTxns
	end   Offset // the round's: records from here on stay
	last  map[int64]lastRecord
	outs  []*cleanOutput

	// Of the reader:
	keepsLegacyTombstones bool // of the segment
	markers               record.Reader
	// Of the pass itself:
	pacer      cleanPacer
	seen, kept int64 // records
	before     int64 // bytes of the group
	after      int64 // of the outputs, once they are sealed
	modified   int64 // the time of its last segment's file, in ms
	// Of cleanCommits:
	waits  int64 // its share of what may wait
	failed error
}

// begin makes the next output.
func (p *cleanPass) begin(base Offset) error {
	o, err := newCleanOutput(p.l, base, p.cfg, p.out)
	if err != nil {
		return err
	}
	if p.outputMost > 0 {
		o.most = p.outputMost
	}
	p.outs = append(p.outs, o)
	return nil
}

// add writes a batch to the output, or to another one when this has no room for it: then the group was larger than it seemed.
func (p *cleanPass) add(b []byte) error {
	o := p.outs[len(p.outs)-1]
	if e := record.Entry(b); !o.fits(len(b), e.LastOffset()) {
		if err := o.flush(); err != nil {
			return err
		}
		if err := p.begin(e.BaseOffset()); err != nil {
			return err
		}
		o = p.outs[len(p.outs)-1]
	}
	if err := p.pacer.count(p.cleanRound, len(b)); err != nil {
		return err
	}
	return o.add(b)
}

// judge decides what can be decided by an entry's header, in the log's order.
func (p *cleanPass) judge(e record.Entry, v *verdict) (bool, error) {
	if e.Magic() < 2 {
		v.legacy = p.keepsLegacyTombstones
		return true, nil
	}
	b := e.Batch()
	if b.IsControl() {
		var err error
		if v.idle, v.wanted, err = p.txns.marker(b, &p.markers); err != nil {
			return false, err
		}
		v.drop = v.idle && p.expired(b)
	} else {
		v.drop = p.txns.data(b)
	}
	v.stays = p.isLast(b) || b.LastOffset()+1 == p.end
	return true, nil
}

// work decides about an entry's records, and makes anew what does not stay as it is.
func (p *cleanPass) work(w *cleanWorker, u *cleanUnit, e *cleanEntry, most int) {
	if e.large && most < inflateMax {
		return
	}
	e.fate = fate{outAt: len(u.out)}
	entry := u.entry(e)
	switch {
	case entry.Magic() < 2:
		e.err = p.legacy(w, u, e, most)
	case e.drop:
		e.seen = int64(entry.Batch().Count())
		p.empty(u, e)
	case entry.Batch().IsControl():
		e.err = p.control(w, u, e)
	default:
		e.err = p.data(w, u, e, most)
	}
	e.outBytes = len(u.out) - e.outAt
	if most < inflateMax && isTooLarge(e.err) {
		e.err, e.large = nil, true
	}
}

// use writes what stays of a unit.
func (p *cleanPass) use(w *cleanWorker, u *cleanUnit) error {
	for i := range u.entries {
		e := &u.entries[i]
		if e.large && e.err == nil {
			p.work(w, u, e, inflateMax)
		}
		if e.err != nil {
			return p.entryError(u, e, e.err)
		}
		p.seen += e.seen
		p.kept += e.kept
		b := []byte(u.entry(e))
		switch e.stay {
		case stayNot:
			continue
		case stayAnew:
			b = u.out[e.outAt : e.outAt+e.outBytes]
		}
		if err := p.add(b); err != nil {
			return err
		}
		if e.wanted != nil {
			o := p.outs[len(p.outs)-1]
			o.txns = append(o.txns, *e.wanted)
		}
	}
	return nil
}

// empty leaves nothing of a batch, or its header where that is needed.
func (p *cleanPass) empty(u *cleanUnit, e *cleanEntry) {
	if e.stays {
		u.out = record.AppendEmpty(u.out, u.entry(e).Batch())
		e.stay = stayAnew
	}
}

// A choice is what becomes of the records of a batch.
type choice struct {
	gone, tombs int  // records that go, and tombstones that stay
	expired     bool // the batch's delete horizon has passed
	begins      bool // it gets one now
}

// choose decides about a batch that the round has whole, of which so many records are dead, and so many others are tombstones.
func (c *cleanRound) choose(b record.Batch, dead, tombs int) choice {
	ch := choice{gone: dead, tombs: tombs, expired: c.expired(b)}
	if ch.expired {
		ch.gone, ch.tombs = dead+tombs, 0
	}
	ch.begins = ch.tombs > 0 && !b.HasDeleteHorizon()
	return ch
}

// remakes tells whether the batch neither goes nor stays as it is.
func (ch *choice) remakes(b record.Batch) bool {
	return ch.gone != int(b.Count()) && (ch.gone > 0 || ch.begins)
}

// data decides about the records of a batch that was not aborted.
func (p *cleanPass) data(w *cleanWorker, u *cleanUnit, e *cleanEntry, most int) (err error) {
	b := u.entry(e).Batch()
	count := int(b.Count())
	marked := p.marks.covers(b.BaseOffset(), b.LastOffset()) && b.LastOffset() < p.end
	var ch choice
	var keep func(s *record.Skim) bool
	if marked {
		dead, tombs := p.marks.tally(b.BaseOffset(), b.LastOffset())
		ch = p.choose(b, dead, tombs)
		keep = func(s *record.Skim) bool {
			o := s.Offset()
			return o < b.BaseOffset() || o > b.LastOffset() || !p.marks.isDead(o) && !(ch.expired && p.marks.isTomb(o))
		}
	} else {
		defer w.skim.Close()
		if err := w.skim.Reset(b, most); err != nil {
			return err
		}
		if ch, err = p.lookUp(w, b); err != nil {
			return err
		}
		keep = func(s *record.Skim) bool { return w.keeps[s.Index()/64]&(1<<(s.Index()%64)) != 0 }
	}
	e.seen, e.kept = int64(count), int64(count-ch.gone)
	switch {
	case ch.gone == count:
		p.empty(u, e)
		return nil
	case !ch.remakes(b):
		e.stay = stayVerbatim
		return nil
	}
	if marked {
		if made := w.spooled.find(p.spool, b.BaseOffset(), int(e.kept)); made != nil {
			u.out = append(u.out, made...)
			e.stay = stayAnew
			return nil
		}
		defer w.skim.Close()
		if err := w.skim.Reset(b, most); err != nil {
			return err
		}
	}
	w.skim.Level = p.sampled.level(b)
	switch u.out, err = w.skim.Rewrite(u.out, ch.begins, p.horizon(), keep); {
	case err == nil:
		e.stay = stayAnew
	case errors.Is(err, record.ErrStrayOffset):
		e.stay, e.kept, err = stayVerbatim, e.seen, nil
	}
	return err
}

// lookUp decides about the records of the batch that the worker skims by their keys, into its keeps. Of a batch in which the round ends,
// tombstones beyond that stay though its horizon has passed.
func (p *cleanPass) lookUp(w *cleanWorker, b record.Batch) (ch choice, err error) {
	ch.expired = p.expired(b)
	w.keeps = w.keeps[:0]
	n := 0 // records decided about
	decide := func(keys []hashedKey) {
		w.sum += p.m.warm(keys)
		for i := range keys {
			if n%64 == 0 {
				w.keeps = append(w.keeps, 0)
			}
			switch k := &keys[i]; {
			case k.offset >= b.BaseOffset() && k.offset <= b.LastOffset() && !p.wants(k, !ch.expired):
				ch.gone++
			default:
				w.keeps[n/64] |= 1 << (n % 64)
				if k.kind == tombstone {
					ch.tombs++
				}
			}
			n++
		}
	}
	keys := w.keys[:0]
	for w.skim.Next() {
		if keys = append(keys, p.m.hashed(w.skim.Key(), w.skim.Offset(), w.skim.Tombstone())); len(keys) == warmKeys {
			decide(keys)
			keys = keys[:0]
		}
	}
	decide(keys)
	ch.begins = ch.tombs > 0 && !b.HasDeleteHorizon()
	return ch, w.skim.Err()
}

// control keeps a marker.
func (p *cleanPass) control(w *cleanWorker, u *cleanUnit, e *cleanEntry) error {
	b := u.entry(e).Batch()
	if err := w.reader.Reset(b, inflateMax); err != nil {
		return err
	}
	begins := e.idle
	w.records, w.headers = w.records[:0], w.headers[:0]
	for w.reader.Next() {
		r := w.reader.Record()
		begins = begins || r.Value == nil
		w.take(r)
	}
	if err := w.reader.Err(); err != nil {
		return err
	}
	e.seen, e.kept = int64(b.Count()), int64(len(w.records))
	switch {
	case len(w.records) == 0:
		p.empty(u, e)
		return nil
	case !begins || b.HasDeleteHorizon():
		e.stay = stayVerbatim
		return nil
	}
	bld := w.builder
	bld.BaseOffset, bld.LeaderEpoch, bld.Codec = b.BaseOffset(), b.LeaderEpoch(), b.Codec()
	bld.ProducerID, bld.ProducerEpoch, bld.BaseSequence = b.ProducerID(), b.ProducerEpoch(), b.BaseSequence()
	bld.LastOffsetDelta = b.LastOffsetDelta()
	bld.Attributes = b.Attributes()&(record.AttrLogAppendTime|record.AttrTransactional|record.AttrControl) | record.AttrDeleteHorizon
	bld.DeleteHorizon = p.horizon()
	return w.build(u, e)
}

// isLast tells whether a batch is the last that a known producer wrote.
func (p *cleanPass) isLast(b record.Batch) bool {
	if !b.HasProducer() {
		return false
	}
	last, known := p.last[b.ProducerID()]
	switch {
	case !known:
		return false
	case last.data >= 0:
		return b.LastOffset() == last.data
	}
	return b.IsControl() && b.ProducerEpoch() == last.epoch
}

// wants tells whether a record of data stays; keepsTombstone, whether it would if it was a tombstone.
func (p *cleanPass) wants(k *hashedKey, keepsTombstone bool) bool {
	if k.offset >= p.end {
		return true
	}
	if k.kind == withoutKey || k.kind == tombstone && !keepsTombstone {
		return false
	}
	return k.offset >= p.m.get(k)
}

// take keeps a record until its batch is written; its bytes are views, its headers are copied out of the reader's.
func (w *cleanWorker) take(r *record.Record) {
	kept := *r
	if n := len(r.Headers); n > 0 {
		w.headers = append(w.headers, r.Headers...)
		kept.Headers = w.headers[len(w.headers)-n:]
	}
	w.records = append(w.records, kept)
}

// build makes the batch of the records that were taken, for which the builder is set.
func (w *cleanWorker) build(u *cleanUnit, e *cleanEntry) (err error) {
	for i := range w.records {
		w.builder.AddAt(int32(w.records[i].Offset-w.builder.BaseOffset), w.records[i])
	}
	if u.out, err = w.builder.Batch(u.out); err == nil {
		e.stay = stayAnew
	}
	return err
}

// legacy decides about a message of format 0 or 1, or what is wrapped in one. What stays becomes a batch.
func (p *cleanPass) legacy(w *cleanWorker, u *cleanUnit, e *cleanEntry, most int) error {
	entry := u.entry(e)
	if err := w.reader.ResetEntry(entry, most); err != nil {
		return err
	}
	tombstones := false
	w.records, w.headers = w.records[:0], w.headers[:0]
	for w.reader.Next() {
		r := w.reader.Record()
		e.seen++
		if k := p.m.hashed(r.Key, r.Offset, r.Value == nil); p.wants(&k, e.verdict.legacy) {
			tombstones = tombstones || r.Value == nil
			w.take(r)
		}
	}
	if err := w.reader.Err(); err != nil || len(w.records) == 0 {
		return err
	}
	e.kept = int64(len(w.records))
	slices.SortStableFunc(w.records, func(a, b record.Record) int { return cmp.Compare(a.Offset, b.Offset) })
	for i := range w.records[1:] {
		if w.records[i].Offset == w.records[i+1].Offset { // no batch can say that
			e.stay, e.kept = stayVerbatim, e.seen
			return nil
		}
	}
	bld := w.builder
	bld.BaseOffset, bld.LeaderEpoch, bld.Codec = w.records[0].Offset, -1, entry.Codec()
	bld.ProducerID, bld.ProducerEpoch, bld.BaseSequence = -1, -1, -1
	bld.LastOffsetDelta, bld.Attributes = 0, 0
	if entry.IsLogAppendTime() {
		bld.Attributes |= record.AttrLogAppendTime
	}
	if tombstones {
		bld.Attributes |= record.AttrDeleteHorizon
		bld.DeleteHorizon = p.horizon()
	}
	return w.build(u, e)
}

// seal makes the outputs whole and durable.
func (p *cleanPass) seal() error {
	for _, o := range p.outs {
		if err := o.seal(p.modified, p.workers > 0); err != nil {
			return err
		}
		p.after += o.size
	}
	return nil
}

// swap puts the sealed outputs in the place of the group that they were made from.
func (p *cleanPass) swap() error {
	if err := p.l.swap(p.group, p.outs, p.truncations); err != nil {
		return err
	}
	p.l.event("compact", p.group[0].base, "%d segments of %d bytes became %d of %d, %d of %d records (cleaned up to %d)",
		len(p.group), p.before, len(p.outs), p.after, p.kept, p.seen, p.end)
	return nil
}

// remove takes away the outputs that are not the log's.
func (p *cleanPass) remove() {
	for _, o := range p.outs {
		o.remove()
	}
}
