package record

import (
	"encoding/binary"
	"io"
)

// A message of magic 0 or 1, apart from its offset and size.
type message struct {
	time       int64 // -1 for magic 0
	key, value []byte
	bad        bool // key and value do not fill it
}

// cutMessage reads a message whose size FirstEntry has seen.
func cutMessage(e Entry) (m message) {
	rest := e[messageTime:]
	m.time = -1
	if e.Magic() == 1 {
		m.time = int64(binary.BigEndian.Uint64(rest))
		rest = rest[8:]
	}
	var keyFits, valueFits bool
	m.key, rest, keyFits = cutSized(rest)
	m.value, rest, valueFits = cutSized(rest)
	m.bad = !keyFits || !valueFits || len(rest) > 0
	return m
}

// cutSized takes a field off b that stands behind its size in 4 bytes; a negative size is null.
func cutSized(b []byte) (field, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	size := int32(binary.BigEndian.Uint32(b))
	b = b[4:]
	if size < 0 {
		return nil, b, true
	}
	if int(size) > len(b) {
		return nil, nil, false
	}
	return b[:size:size], b[size:], true
}

// notLegacy is legacyReader's magic for a batch of magic 2; the others are one more than on the wire, so that zero is a batch's.
const notLegacy = 0

// legacyReader is what a Reader knows while it walks an old message, or those inside a wrapper.
type legacyReader struct {
	magic    int8 // notLegacy, or magic+1
	rest     []byte
	shift    Offset // what to add to offsets inside a wrapper of magic 1
	wrapped  bool
	stamp    int64 // the broker's time, when stamped
	stamped  bool
	messages int
	last     Entry // the message that Next moved to
}

// Message is the record that Next moved to as a message of magic 0 or 1, nil if it is none. Of one inside a wrapper of magic 1
// the offset counts within the wrapper.
func (r *Reader) Message() Entry { return r.legacy.last }

// ResetEntry is Reset for an entry of any magic.
func (r *Reader) ResetEntry(e Entry, limit int) error {
	if e.Magic() == 2 {
		return r.Reset(e.Batch(), limit)
	}
	*r = Reader{headers: r.headers[:0], inflated: r.inflated[:0]}
	r.legacy = legacyReader{magic: e.Magic() + 1, rest: e, stamped: e.IsLogAppendTime(), stamp: e.MaxTimestamp()}
	if e.Codec() == None {
		return nil
	}
	outer := cutMessage(e)
	if outer.bad || outer.value == nil {
		return r.fail("a wrapper without messages")
	}
	codec := e.Codec()
	if codec == Zstd {
		return r.fail("codec zstd in a message of magic %d", e.Magic())
	}
	var err error
	if e.Magic() == 0 && codec == LZ4 {
		r.inflated, err = decompressLegacyLZ4(r.inflated, outer.value, limit)
	} else {
		r.inflated, err = Decompress(r.inflated, outer.value, codec, limit)
	}
	if err != nil {
		r.legacy.rest, r.err = nil, err
		return err
	}
	r.legacy.rest, r.legacy.wrapped = r.inflated, true
	if len(r.inflated) == 0 {
		return r.fail("an empty wrapper")
	}
	if e.Magic() == 0 {
		return nil // offsets inside are whole ones
	}
	last, ok := lastInnerOffset(r.inflated)
	if !ok {
		return r.fail("the messages inside a wrapper do not fill it")
	}
	r.legacy.shift = e.LastOffset() - last
	return nil
}

// lastInnerOffset is the offset of the last message in set.
func lastInnerOffset(set []byte) (last Offset, ok bool) {
	for len(set) > 0 {
		e, err := FirstEntry(set)
		if err != nil {
			return 0, false
		}
		last, set = e.BaseOffset(), set[len(e):]
	}
	return last, true
}

// nextMessage is Next for the old formats.
func (r *Reader) nextMessage() bool {
	l := &r.legacy
	if len(l.rest) == 0 {
		return false
	}
	e, err := FirstEntry(l.rest)
	switch {
	case err == io.ErrUnexpectedEOF:
		r.fail("message %d: it runs past the end", l.messages)
		return false
	case err != nil:
		r.fail("message %d: %v", l.messages, err)
		return false
	case l.wrapped && e.Magic()+1 != l.magic:
		r.fail("message %d: magic %d inside a wrapper of magic %d", l.messages, e.Magic(), l.magic-1)
		return false
	case l.wrapped && e.Codec() != None:
		r.fail("message %d: a wrapper inside a wrapper", l.messages)
		return false
	case l.wrapped && e.computeCRC() != e.CRC():
		r.fail("message %d: crc %08x, want %08x", l.messages, e.computeCRC(), e.CRC())
		return false
	}
	m := cutMessage(e)
	if m.bad {
		r.fail("message %d: its key or value runs past its end", l.messages)
		return false
	}
	l.rest, l.last = l.rest[len(e):], e
	l.messages++
	r.rec = Record{Offset: e.BaseOffset() + l.shift, Timestamp: m.time, Key: m.key, Value: m.value}
	if l.stamped {
		r.rec.Timestamp = l.stamp
	}
	return true
}
