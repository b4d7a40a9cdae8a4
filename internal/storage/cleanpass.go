package storage

import (
	"math"

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
	txns *cleanTxns
	end  Offset // the round's: records from here on stay
	last map[int64]lastRecord
	outs []*cleanOutput

	keepsLegacyTombstones bool
	records               []record.Record // those of a batch that stay; views
	headers               []record.Header // theirs
	seen, kept            int64
}

// begin makes the next output.
func (p *cleanPass) begin(base Offset) error {
	o, err := newCleanOutput(p.l, base, p.cfg, p.out)
	if err != nil {
		return err
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
	if err := p.paceBy(len(b)); err != nil {
		return err
	}
	return o.add(b)
}

// entry decides about an entry of the log, and writes what stays of it.
func (p *cleanPass) entry(e record.Entry) error {
	if e.Magic() < 2 {
		return p.legacy(e)
	}
	b := e.Batch()
	idle, drop := false, false
	var wanted *abortedTxn
	if b.IsControl() {
		var err error
		if idle, wanted, err = p.txns.marker(b, p.reader); err != nil {
			return err
		}
		drop = idle && b.HasDeleteHorizon() && b.BaseTimestamp() <= p.now
	} else {
		drop = p.txns.data(b)
	}
	p.seen += int64(b.Count())
	stays := p.isLast(b) || b.LastOffset()+1 == p.end // as a header, if need be
	if drop && !stays {
		return nil
	}
	all, tombstones := true, false
	p.records, p.headers = p.records[:0], p.headers[:0]
	if drop {
		all = false
	} else {
		if err := p.reader.Reset(b, inflateMax); err != nil {
			return err
		}
		expired := b.HasDeleteHorizon() && b.BaseTimestamp() <= p.now
		for p.reader.Next() {
			r := p.reader.Record()
			if !b.IsControl() && !p.wants(r, !expired) {
				all = false
				continue
			}
			tombstones = tombstones || r.Value == nil
			p.take(r)
		}
		if err := p.reader.Err(); err != nil {
			return err
		}
	}
	p.kept += int64(len(p.records))
	begins := (tombstones || idle) && !b.HasDeleteHorizon()
	var err error
	switch {
	case len(p.records) == 0 && !stays:
		return nil
	case len(p.records) == 0:
		p.scratch = record.AppendEmpty(p.scratch[:0], b)
		err = p.add(p.scratch)
	case all && !begins:
		err = p.add(b)
	default:
		err = p.rebuild(b, begins)
	}
	if err == nil && wanted != nil {
		o := p.outs[len(p.outs)-1]
		o.txns = append(o.txns, *wanted)
	}
	return err
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
func (p *cleanPass) wants(r *record.Record, keepsTombstone bool) bool {
	if r.Offset >= p.end {
		return true
	}
	if r.Key == nil || r.Value == nil && !keepsTombstone {
		return false
	}
	return r.Offset >= p.m.get(r.Key)
}

// take keeps a record until its batch is written; its bytes are views, its headers are copied out of the reader's.
func (p *cleanPass) take(r *record.Record) {
	kept := *r
	if n := len(r.Headers); n > 0 {
		p.headers = append(p.headers, r.Headers...)
		kept.Headers = p.headers[len(p.headers)-n:]
	}
	p.records = append(p.records, kept)
}

// rebuild writes a batch of the records that stay, with all else as it was; begins: its delete horizon is set.
func (p *cleanPass) rebuild(b record.Batch, begins bool) error {
	bld := p.builder
	bld.BaseOffset, bld.LeaderEpoch, bld.Codec = b.BaseOffset(), b.LeaderEpoch(), b.Codec()
	bld.ProducerID, bld.ProducerEpoch, bld.BaseSequence = b.ProducerID(), b.ProducerEpoch(), b.BaseSequence()
	bld.LastOffsetDelta = b.LastOffsetDelta()
	bld.Attributes = b.Attributes() & (record.AttrLogAppendTime | record.AttrTransactional | record.AttrControl | record.AttrDeleteHorizon)
	bld.DeleteHorizon = b.BaseTimestamp()
	if begins {
		bld.Attributes |= record.AttrDeleteHorizon
		bld.DeleteHorizon = p.horizon()
	}
	return p.build()
}

// build writes the batch of the records that stay, for which the builder is set.
func (p *cleanPass) build() (err error) {
	for i := range p.records {
		p.builder.AddAt(int32(p.records[i].Offset-p.builder.BaseOffset), p.records[i])
	}
	if p.scratch, err = p.builder.Batch(p.scratch[:0]); err != nil {
		return err
	}
	return p.add(p.scratch)
}

// horizon is until when tombstones that survive this cleaning stay.
func (p *cleanPass) horizon() int64 {
	if p.cfg.DeleteRetentionMs > math.MaxInt64-p.now {
		return math.MaxInt64
	}
	return p.now + p.cfg.DeleteRetentionMs
}

// legacy decides about a message of format 0 or 1, or what is wrapped in one. What stays becomes a batch.
func (p *cleanPass) legacy(e record.Entry) error {
	if err := p.reader.ResetEntry(e, inflateMax); err != nil {
		return err
	}
	tombstones := false
	p.records, p.headers = p.records[:0], p.headers[:0]
	for p.reader.Next() {
		r := p.reader.Record()
		p.seen++
		if p.wants(r, p.keepsLegacyTombstones) {
			tombstones = tombstones || r.Value == nil
			p.take(r)
		}
	}
	if err := p.reader.Err(); err != nil || len(p.records) == 0 {
		return err
	}
	p.kept += int64(len(p.records))
	bld := p.builder
	bld.BaseOffset, bld.LeaderEpoch, bld.Codec = p.records[0].Offset, -1, e.Codec()
	bld.ProducerID, bld.ProducerEpoch, bld.BaseSequence = -1, -1, -1
	bld.LastOffsetDelta, bld.Attributes = 0, 0
	if e.IsLogAppendTime() {
		bld.Attributes |= record.AttrLogAppendTime
	}
	if tombstones {
		bld.Attributes |= record.AttrDeleteHorizon
		bld.DeleteHorizon = p.horizon()
	}
	return p.build()
}
