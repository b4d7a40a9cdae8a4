package record

import (
	"fmt"
	"unsafe"
)

// A Record is one record of a batch, as views of the batch's (inflated) bytes.
type Record struct {
	Offset    Offset
	Timestamp int64  // ms; -1 none
	Key       []byte // nil: null
	Value     []byte // nil: null
	Headers   []Header
}

// A Header is a name and a value of a record.
type Header struct {
	Key   string
	Value []byte // nil: null
}

// A Reader walks the records of one batch or entry, inflating at most its bound.
//
//	for r.Next() { use(r.Record()) }
//	if err := r.Err(); …
//
// Records are views of the batch's bytes, or of a buffer that the Reader keeps, and Header keys share those bytes too: copy what
// shall outlive the next Reset. The zero Reader is ready for Reset. A Reader belongs to one goroutine.
type Reader struct {
	rest    []byte // the records still to read
	left    int32  // how many they should be
	index   int32
	base    Offset
	time    int64 // what deltas count from
	stamped bool  // every record has the broker's time, which is time
	legacy  legacyReader

	rec      Record
	headers  []Header // lent to rec
	inflated []byte   // lent to rest
	err      error
}

// Reset begins on b, which may inflate to limit bytes. Buffers of the batch before are used again, so its Records are gone.
func (r *Reader) Reset(b Batch, limit int) error {
	*r = Reader{headers: r.headers[:0], inflated: r.inflated[:0]}
	if b.Count() < 0 {
		return r.fail("record count %d", b.Count())
	}
	r.left, r.base, r.time = b.Count(), b.BaseOffset(), b.BaseTimestamp()
	if b.IsLogAppendTime() {
		r.time, r.stamped = b.MaxTimestamp(), true
	}
	r.rest = b.Payload()
	if b.Codec() == None {
		return nil
	}
	if r.left == 0 && len(r.rest) == 0 { // what compaction leaves of a batch says no codec, but does no harm with one
		return nil
	}
	var err error
	if r.inflated, err = Decompress(r.inflated, r.rest, b.Codec(), limit); err != nil {
		r.left, r.rest, r.err = 0, nil, err
		return err
	}
	r.rest = r.inflated
	return nil
}

// Next moves to the next record; false at the end, or when something is wrong with it.
func (r *Reader) Next() bool {
	if r.legacy.magic != notLegacy {
		return r.nextMessage()
	}
	if r.left == 0 {
		if len(r.rest) > 0 && r.err == nil {
			r.fail("%d bytes after the last record", len(r.rest))
		}
		return false
	}
	rec, err := cutRecord(&r.rest)
	if err == "" {
		err = r.parse(rec)
	}
	if err != "" {
		r.fail("record %d: %s", r.index, err)
		return false
	}
	r.left--
	r.index++
	return true
}

// Record is the one that Next moved to, valid until Next.
func (r *Reader) Record() *Record { return &r.rec }

// Err is why Next said false before the end: *FormatError, *TooLargeError. nil at the end.
func (r *Reader) Err() error { return r.err }

func (r *Reader) fail(format string, args ...any) error {
	r.left, r.rest, r.legacy.rest = 0, nil, nil
	r.err = &FormatError{fmt.Sprintf(format, args...)}
	return r.err
}

// cutRecord takes the next record off rest, without its length.
func cutRecord(rest *[]byte) (rec []byte, fault string) {
	size, n := varint32(*rest)
	if n == 0 {
		return nil, "its length does not end"
	}
	if size < 0 || int(size) > len(*rest)-n {
		return nil, fmt.Sprintf("length %d, with %d bytes left", size, len(*rest)-n)
	}
	rec = (*rest)[n : n+int(size)]
	*rest = (*rest)[n+int(size):]
	return rec, ""
}

// A record of magic 2; numbers are varints, and length counts what follows it:
//
//	+--------+--------------+----------------+-------------+---------+-----+-----------+-------+-------------+---------
//	| length | attributes 1 | timestampDelta | offsetDelta | keySize | key | valueSize | value | headerCount | headers
//	+--------+--------------+----------------+-------------+---------+-----+-----------+-------+-------------+---------
//
//	header:  keySize | key | valueSize | value        a size below 0: null, which a header's key cannot be
func (r *Reader) parse(b []byte) (fault string) {
	if len(b) == 0 {
		return "empty"
	}
	f := fields{b: b[1:]}
	delta := f.long()
	r.rec.Timestamp = r.time
	if !r.stamped {
		r.rec.Timestamp += delta
	}
	r.rec.Offset = r.base + Offset(f.int())
	r.rec.Key = f.bytes()
	r.rec.Value = f.bytes()
	count := f.int()
	if f.bad {
		return "its fields run past its end"
	}
	if count < 0 || int(count) > len(f.b) {
		return fmt.Sprintf("header count %d, with %d bytes left", count, len(f.b))
	}
	r.headers = r.headers[:0]
	for range count {
		key, value := f.bytes(), f.bytes()
		if f.bad || key == nil {
			return "a malformed header"
		}
		r.headers = append(r.headers, Header{unsafe.String(unsafe.SliceData(key), len(key)), value})
	}
	r.rec.Headers = r.headers
	if len(f.b) > 0 {
		return fmt.Sprintf("%d bytes after its headers", len(f.b))
	}
	return ""
}

// fields takes fields off the front of b; once one does not fit, bad stays set and everything reads as zero.
type fields struct {
	b   []byte
	bad bool
}

func (f *fields) int() int32 {
	v, n := varint32(f.b)
	if n == 0 {
		f.bad, f.b = true, nil
		return 0
	}
	f.b = f.b[n:]
	return v
}

func (f *fields) long() int64 {
	v, n := varint64(f.b)
	if n == 0 {
		f.bad, f.b = true, nil
		return 0
	}
	f.b = f.b[n:]
	return v
}

// bytes is nil for null, as any negative size means.
func (f *fields) bytes() []byte {
	size := f.int()
	if size < 0 || f.bad {
		return nil
	}
	if int(size) > len(f.b) {
		f.bad, f.b = true, nil
		return nil
	}
	v := f.b[:size:size]
	f.b = f.b[size:]
	return v
}
