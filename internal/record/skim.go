package record

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// A Skim walks the records of a batch of magic 2 by what compaction decides by (offset, key, whether there is a value), and makes a
// batch of some of them. The bytes of a record stay as they are as far as they can: nothing is decoded to be encoded the same.
//
//	err := s.Reset(b, limit)
//	for s.Next() { use(s.Offset(), s.Key()) }
//	if err := s.Err(); …
//
// The zero Skim is ready for Reset, and Close gives back what it holds. It belongs to one goroutine. Keys are views that last until
// Reset or Close.
//
// Who has inflated the records already begins with ResetInflated instead.
type Skim struct {
	Level int // of what Rewrite compresses; 0: DefaultLevel

	batch   Batch
	records []byte // inflated
	next    int    // where the next record begins in them
	index   int32  // its number
	rec     skimmed
	err     error

	in       *zstdInflater // what records is a view of; nil: of the batch, or of inflated
	inflated []byte
	plain    []byte // records of a rewritten batch, before they are compressed
	slow     Reader // for records that are not as we would write them, and for telling what is wrong with them
}

// A skimmed is a record. Its parts are given by where they lie in the records' bytes:
//
//	from                                rest                                          to
//	+--------+---+----------------+-------------+-----+-----+-------+-------+---------+
//	| length | 0 | timestampDelta | offsetDelta | key       | value         | headers |
//	+--------+---+----------------+-------------+-----------+---------------+---------+
type skimmed struct {
	from, rest, to int
	body           int // where what its length counts begins
	timeDelta      int64
	offsetDelta    int32
	key            []byte // nil: null
	hasValue       bool
	// canonical: every number is encoded as we would, so that its bytes can be copied.
	canonical bool
}

// Reset begins on b, which may inflate to limit bytes.
func (s *Skim) Reset(b Batch, limit int) error {
	s.Close()
	s.batch, s.next, s.index, s.err = b, 0, 0, nil
	s.records = b.Payload()
	if b.Count() < 0 {
		return s.fail(&FormatError{fmt.Sprintf("record count %d", b.Count())})
	}
	if b.Codec() == None || b.Count() == 0 && len(s.records) == 0 {
		return nil
	}
	if b.Codec() != Zstd {
		var err error
		if s.inflated, err = Decompress(s.inflated[:0], s.records, b.Codec(), limit); err != nil {
			return s.fail(err)
		}
		s.records = s.inflated
		return nil
	}
	in, err := openInflater(Zstd, s.records)
	if err != nil {
		return s.fail(err)
	}
	z := in.(*zstdInflater)
	if all, ok := z.whole(); ok {
		s.in, s.records = z, all // no copy is needed
		if len(all) > limit {
			return s.fail(&TooLargeError{limit})
		}
		return nil
	}
	defer z.close()
	if s.inflated, err = readAll(s.inflated[:0], z, limit); err != nil {
		return s.fail(err)
	}
	s.records = s.inflated
	return nil
}

// ResetInflated begins on b, whose records inflate to records, as Inflate has it; both are views that last until the next Reset.
func (s *Skim) ResetInflated(b Batch, records []byte) error {
	s.Close()
	s.batch, s.next, s.index, s.err = b, 0, 0, nil
	s.records = records
	if b.Count() < 0 {
		return s.fail(&FormatError{fmt.Sprintf("record count %d", b.Count())})
	}
	return nil
}

// Inflate returns what b's records inflate to: those of an uncompressed batch are a view of it, others are appended to dst, and it
// returns what was appended. dst does not grow: *TooLargeError when its capacity is not enough, for which zstd wants zstdBlock more than
// there is to come.
func Inflate(dst []byte, b Batch) ([]byte, error) {
	src := b.Payload()
	room := cap(dst) - len(dst)
	switch {
	case b.Codec() == None || b.Count() == 0 && len(src) == 0:
		return src, nil
	case room < 2:
		return nil, &TooLargeError{room}
	case b.Codec() == Zstd:
		return inflateZstd(dst, src)
	}
	// One less, since that something is beyond the limit shows by a byte of it.
	out, err := Decompress(dst, src, b.Codec(), room-1)
	if err != nil {
		return nil, err
	}
	return out[len(dst):], nil
}

// Close gives back what the batch took; of its own buffers it keeps those of the usual size.
func (s *Skim) Close() {
	if s.in != nil {
		s.in.close()
		s.in = nil
	}
	if cap(s.inflated) > keepMax {
		s.inflated = nil
	}
	if cap(s.plain) > keepMax {
		s.plain = nil
	}
	s.batch, s.records, s.rec = nil, nil, skimmed{}
}

func (s *Skim) fail(err error) error {
	s.err = err
	return err
}

// Err is why Next said false before the end, as Reader.Err.
func (s *Skim) Err() error { return s.err }

func (s *Skim) Index() int32    { return s.index - 1 } // of the record that Next moved to
func (s *Skim) Offset() Offset  { return s.batch.BaseOffset() + Offset(s.rec.offsetDelta) }
func (s *Skim) Key() []byte     { return s.rec.key } // nil: null
func (s *Skim) Tombstone() bool { return !s.rec.hasValue }

func (s *Skim) timestamp() int64 {
	if s.batch.IsLogAppendTime() {
		return s.batch.MaxTimestamp()
	}
	return s.batch.BaseTimestamp() + s.rec.timeDelta
}

// Next moves to the next record; false at the end, or when something is wrong with it.
func (s *Skim) Next() bool {
	if s.err != nil {
		return false
	}
	if s.index == s.batch.Count() {
		if s.next < len(s.records) {
			s.fail(&FormatError{fmt.Sprintf("%d bytes after the last record", len(s.records)-s.next)})
		}
		return false
	}
	b := s.records[s.next:]
	size, n := varint32(b)
	if n == 0 || size < 0 || int(size) > len(b)-n {
		return s.failAsReader()
	}
	r := &s.rec
	r.from, r.body, r.to = s.next, s.next+n, s.next+n+int(size)
	if r.canonical = n == varintSize(int64(size)) && s.cut(b[n:n+int(size)]); !r.canonical && !s.cutSlowly() {
		return s.failAsReader()
	}
	s.next = r.to
	s.index++
	return true
}

// cut reads a record as we would write it; false: it is not one.
func (s *Skim) cut(b []byte) bool {
	r := &s.rec
	if len(b) < 2 || b[0] != 0 {
		return false
	}
	var n int
	if r.timeDelta, n = varint64(b[1:]); n == 0 || n != varintSize(r.timeDelta) {
		return false
	}
	at := 1 + n
	r.rest = r.body + at
	if r.offsetDelta, n = varint32(b[at:]); n == 0 || n != varintSize(int64(r.offsetDelta)) {
		return false
	}
	at += n
	var ok bool
	if r.key, at, ok = cutCanonical(b, at); !ok {
		return false
	}
	var value []byte
	if value, at, ok = cutCanonical(b, at); !ok {
		return false
	}
	r.hasValue = value != nil
	if at == len(b)-1 && b[at] == 0 { // no headers
		return true
	}
	count, n := varint32(b[at:])
	if n == 0 || n != varintSize(int64(count)) || count < 0 || int(count) > len(b)-at {
		return false
	}
	at += n
	for range count {
		var key []byte
		if key, at, ok = cutCanonical(b, at); !ok || key == nil {
			return false
		}
		if _, at, ok = cutCanonical(b, at); !ok {
			return false
		}
	}
	return at == len(b)
}

// cutCanonical takes a sized field, at a place of b, and returns where the next begins.
func cutCanonical(b []byte, at int) (field []byte, next int, ok bool) {
	size, n := varint32(b[at:])
	if n == 0 || size < -1 || n != varintSize(int64(size)) {
		return nil, at, false
	}
	at += n
	if size < 0 {
		return nil, at, true
	}
	if int(size) > len(b)-at {
		return nil, at, false
	}
	return b[at : at+int(size) : at+int(size)], at + int(size), true
}

// cutSlowly reads a record that is well-formed, but not as we would write it.
func (s *Skim) cutSlowly() bool {
	r := &s.rec
	s.slow.base, s.slow.time, s.slow.stamped = 0, 0, false
	if s.slow.parse(s.records[r.body:r.to]) != "" {
		return false
	}
	of := &s.slow.rec
	r.timeDelta, r.offsetDelta, r.key, r.hasValue = of.Timestamp, int32(of.Offset), of.Key, of.Value != nil
	return true
}

// failAsReader says of the batch what a Reader would.
func (s *Skim) failAsReader() bool {
	s.slow = Reader{headers: s.slow.headers[:0], rest: s.records, left: s.batch.Count()}
	for s.slow.Next() {
	}
	if s.fail(s.slow.Err()) == nil {
		s.fail(&FormatError{fmt.Sprintf("record %d: malformed", s.index)})
	}
	return false
}

// ErrStrayOffset is what Rewrite says of a batch that has a record whose offset lies outside of it: it can only stay as it is.
var ErrStrayOffset = errors.New("record: a record's offset is not within its batch")

// Rewrite appends to dst the batch of those records that keep says yes to, with all else as it was: offsets, producer, codec. sets:
// it gets the delete horizon. The walk begins anew for it, and keep is asked of each record once, in order; more often if they are not
// ascending, which nobody demands of an uncompressed batch that is produced: then they are put in order. Errors: what Err says, ErrStrayOffset,
// or that none was kept.
func (s *Skim) Rewrite(dst []byte, sets bool, horizon int64, keep func(s *Skim) bool) ([]byte, error) {
	if s.err != nil {
		return dst, s.err
	}
	b := s.batch
	h := header{
		baseOffset: b.BaseOffset(), leaderEpoch: b.LeaderEpoch(), attributes: b.Attributes() & attrKnown, lastOffsetDelta: b.LastOffsetDelta(),
		producerID: b.ProducerID(), producerEpoch: b.ProducerEpoch(), baseSequence: b.BaseSequence(),
	}
	fixed := sets || b.HasDeleteHorizon()
	if sets {
		h.attributes |= AttrDeleteHorizon
		h.baseTimestamp = horizon
	} else if fixed {
		h.baseTimestamp = b.BaseTimestamp()
	}
	start := len(dst)
	dst = append(slices.Grow(dst, HeaderSize+len(s.records)), make([]byte, HeaderSize)...)
	out := dst
	if b.Codec() != None {
		out = s.plain[:0]
	}
	empty := len(out)
	runFrom, runTo := 0, 0 // records that are copied together
	last := int32(-1)
	take := func(r *skimmed) {
		last = r.offsetDelta
		at := s.timestamp()
		if h.count == 0 {
			h.maxTimestamp = at
			if !fixed {
				h.baseTimestamp = at
			}
		}
		h.maxTimestamp = max(h.maxTimestamp, at)
		h.count++
		delta := at - h.baseTimestamp
		if r.canonical && delta == r.timeDelta {
			if r.from != runTo {
				out = append(out, s.records[runFrom:runTo]...)
				runFrom = r.from
			}
			runTo = r.to
			return
		}
		out = append(out, s.records[runFrom:runTo]...)
		runFrom, runTo = 0, 0
		out = s.appendMoved(out, delta)
	}
	ascending := true
	s.next, s.index = 0, 0
	for s.Next() {
		if !keep(s) {
			continue
		}
		if r := &s.rec; r.offsetDelta < 0 || r.offsetDelta > h.lastOffsetDelta {
			return dst[:start], ErrStrayOffset
		} else if ascending = ascending && r.offsetDelta > last; !ascending {
			break
		}
		take(&s.rec)
	}
	if !ascending {
		h.count, out, runFrom, runTo = 0, out[:empty], 0, 0
		if err := s.inOrder(keep, take); err != nil {
			return dst[:start], err
		}
	}
	out = append(out, s.records[runFrom:runTo]...)
	if s.err != nil {
		return dst[:start], s.err
	}
	if h.count == 0 {
		return dst[:start], errors.New("record: a batch without records")
	}
	if b.Codec() == None {
		dst = out
	} else {
		s.plain = out
		var err error
		level := s.Level
		if level == 0 {
			level = DefaultLevel
		}
		if dst, err = Compress(dst, out, b.Codec(), level); err != nil {
			return dst[:start], err
		}
	}
	if int64(len(dst)-start) > math.MaxInt32 {
		return dst[:start], fmt.Errorf("record: a batch of %d bytes", len(dst)-start)
	}
	putHeader(Batch(dst[start:]), h)
	return dst, nil
}

// inOrder has take take the records that keep says yes to by their offsets; those of the same, as they come.
func (s *Skim) inOrder(keep func(s *Skim) bool, take func(r *skimmed)) error {
	var all []skimmed
	s.next, s.index = 0, 0
	for s.Next() {
		if !keep(s) {
			continue
		}
		if d := s.rec.offsetDelta; d < 0 || d > s.batch.LastOffsetDelta() {
			return ErrStrayOffset
		}
		all = append(all, s.rec)
	}
	slices.SortStableFunc(all, func(a, b skimmed) int { return cmp.Compare(a.offsetDelta, b.offsetDelta) })
	for i := range all {
		s.rec = all[i]
		take(&s.rec)
	}
	return s.err
}

// appendMoved appends the record that Next moved to with another time delta.
func (s *Skim) appendMoved(dst []byte, delta int64) []byte {
	r := &s.rec
	if !r.canonical {
		s.cutSlowly()
		return appendRecord(dst, s.slow.rec, delta, r.offsetDelta)
	}
	rest := s.records[r.rest:r.to]
	dst = binary.AppendVarint(dst, int64(1+varintSize(delta)+len(rest)))
	dst = append(dst, 0)
	dst = binary.AppendVarint(dst, delta)
	return append(dst, rest...)
}
