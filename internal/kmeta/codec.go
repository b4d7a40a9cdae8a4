package kmeta

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// A Tag is a tagged field that this version of the schema does not know: kept, and written again.
type Tag struct {
	Num  uint32
	Data []byte
}

// A DecodeError says where in a record's value the bytes stopped making sense.
type DecodeError struct {
	Record  string // such as TOPIC_RECORD; empty before that is known
	Version int16
	Pos     int // within the bytes that were given
	Reason  string
}

func (e *DecodeError) Error() string {
	if e.Record == "" {
		return fmt.Sprintf("metadata record: byte %d: %s", e.Pos, e.Reason)
	}
	return fmt.Sprintf("%s v%d: byte %d: %s", e.Record, e.Version, e.Pos, e.Reason)
}

// A decoder walks the bytes of one record. The first thing that is wrong stays in err, and every read after it gives zero.
// What it returns are copies: a record does not hold on to the buffer it was read from.
type decoder struct {
	src []byte // up to the end of what is being read now: the body, or one tagged field
	pos int
	err *DecodeError
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = &DecodeError{Pos: d.pos, Reason: fmt.Sprintf(format, args...)}
	}
}

func (d *decoder) left() int { return len(d.src) - d.pos }

// take returns a view of the next n bytes, nil if there are fewer or something was wrong before.
func (d *decoder) take(n int, what string) []byte {
	if d.err != nil {
		return nil
	}
	if n > d.left() {
		d.fail("%s of %d bytes, %d left", what, n, d.left())
		return nil
	}
	b := d.src[d.pos : d.pos+n : d.pos+n]
	d.pos += n
	return b
}

func (d *decoder) bool() bool { return d.int8() != 0 }

func (d *decoder) int8() int8 {
	if b := d.take(1, "int8"); b != nil {
		return int8(b[0])
	}
	return 0
}

func (d *decoder) uint16() uint16 {
	if b := d.take(2, "int16"); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (d *decoder) int16() int16 { return int16(d.uint16()) }

func (d *decoder) int32() int32 {
	if b := d.take(4, "int32"); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (d *decoder) int64() int64 {
	if b := d.take(8, "int64"); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (d *decoder) float64() float64 { return math.Float64frombits(uint64(d.int64())) }

func (d *decoder) uuid() (u UUID) {
	copy(u[:], d.take(len(u), "uuid"))
	return u
}

// uvarint reads an unsigned number in groups of seven bits, the lowest first: at most five bytes.
func (d *decoder) uvarint() uint32 {
	var v uint64
	for shift := 0; shift < 35; shift += 7 {
		b := d.take(1, "varint")
		if b == nil {
			return 0
		}
		v |= uint64(b[0]&0x7f) << shift
		if b[0] < 0x80 {
			if v > math.MaxUint32 {
				break
			}
			return uint32(v)
		}
	}
	d.fail("varint over 32 bits")
	return 0
}

// length reads a compact length, -1 for null, and makes sure that so many things of a least size can follow.
func (d *decoder) length(least int, what string) int {
	n := int64(d.uvarint()) - 1
	if d.err != nil {
		return -1
	}
	if n > int64(d.left()/least) {
		d.fail("%s of %d, %d bytes left", what, n, d.left())
		return -1
	}
	return int(n)
}

func (d *decoder) nullableString() *string {
	n := d.length(1, "string")
	if n < 0 {
		return nil
	}
	s := string(d.take(n, "string"))
	return &s
}

func (d *decoder) string() string {
	s := d.nullableString()
	if s == nil {
		d.fail("null for a string")
		return ""
	}
	return *s
}

func (d *decoder) bytes() []byte {
	n := d.length(1, "bytes")
	if n < 0 {
		d.fail("null for bytes")
		return nil
	}
	if n == 0 {
		return nil
	}
	return slices.Clone(d.take(n, "bytes"))
}

// version reads the version that a control record repeats at its beginning.
func (d *decoder) version(want int16) {
	if v := d.int16(); d.err == nil && v != want {
		d.fail("version %d, want %d", v, want)
	}
}

// readNullableArray reads an array whose elements take at least so many bytes. Null is nil, and an empty one is not.
func readNullableArray[T any](d *decoder, least int, elem func(*decoder) T) []T {
	return readElements(d, d.length(least, "array"), elem)
}

// readElements reads so many elements; nil if there are fewer than none, or one is wrong.
func readElements[T any](d *decoder, n int, elem func(*decoder) T) []T {
	if n < 0 {
		return nil
	}
	out := make([]T, 0, n)
	for range n {
		if e := elem(d); d.err == nil {
			out = append(out, e)
		} else {
			return nil
		}
	}
	return out
}

// readArray reads an array that may not be null. An empty one is nil.
func readArray[T any](d *decoder, least int, elem func(*decoder) T) []T {
	out := readNullableArray(d, least, elem)
	if out == nil {
		d.fail("null for an array")
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// A tagCursor stands at one field of a tagged section:
//
//	uvarint count | count × ( uvarint tag | uvarint size | size bytes ), tags ascending
type tagCursor struct {
	left  uint32
	num   uint32
	first bool
	outer []byte // what src was before it was cut to the field; nil between fields
}

func (d *decoder) openTags() tagCursor { return tagCursor{left: d.uvarint(), first: true} }

// nextTag goes to the next field and cuts src to it. The field before must have been read to its end.
func (d *decoder) nextTag(t *tagCursor) bool {
	if t.outer != nil {
		if d.err == nil && d.left() != 0 {
			d.fail("tag %d has %d bytes too many", t.num, d.left())
		}
		d.src, t.outer = t.outer, nil
	}
	if t.left == 0 || d.err != nil {
		return false
	}
	t.left--
	num := d.uvarint()
	if d.err == nil && !t.first && num <= t.num {
		d.fail("tag %d after %d", num, t.num)
	}
	t.num, t.first = num, false
	size := int64(d.uvarint())
	if d.err == nil && size > int64(d.left()) {
		d.fail("tag %d of %d bytes, %d left", num, size, d.left())
	}
	if d.err != nil {
		return false
	}
	t.outer, d.src = d.src, d.src[:d.pos+int(size)]
	return true
}

// tag takes the field that t stands at as it is.
func (d *decoder) tag(t tagCursor) Tag {
	return Tag{Num: t.num, Data: append([]byte{}, d.take(d.left(), "tag")...)}
}

func (d *decoder) unknownTags() (tags []Tag) {
	for t := d.openTags(); d.nextTag(&t); {
		tags = append(tags, d.tag(t))
	}
	return tags
}

func appendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func appendInt8(dst []byte, v int8) []byte     { return append(dst, byte(v)) }
func appendInt16(dst []byte, v int16) []byte   { return binary.BigEndian.AppendUint16(dst, uint16(v)) }
func appendUint16(dst []byte, v uint16) []byte { return binary.BigEndian.AppendUint16(dst, v) }
func appendInt32(dst []byte, v int32) []byte   { return binary.BigEndian.AppendUint32(dst, uint32(v)) }
func appendInt64(dst []byte, v int64) []byte   { return binary.BigEndian.AppendUint64(dst, uint64(v)) }
func appendUUID(dst []byte, v UUID) []byte     { return append(dst, v[:]...) }
func appendFloat64(dst []byte, v float64) []byte {
	return binary.BigEndian.AppendUint64(dst, math.Float64bits(v))
}

func appendUvarint(dst []byte, v uint32) []byte { return binary.AppendUvarint(dst, uint64(v)) }

// A compact length is one more than the length, so that 0 can mean null.
func appendLength(dst []byte, n int) []byte { return appendUvarint(dst, uint32(n+1)) }

func appendString(dst []byte, s string) []byte { return append(appendLength(dst, len(s)), s...) }
func appendBytes(dst []byte, b []byte) []byte  { return append(appendLength(dst, len(b)), b...) }

func appendNullableString(dst []byte, s *string) []byte {
	if s == nil {
		return append(dst, 0)
	}
	return appendString(dst, *s)
}

func appendCount[T any](dst []byte, s []T) []byte { return appendLength(dst, len(s)) }

func appendArray[T any](dst []byte, s []T, elem func([]byte, T) []byte) []byte {
	dst = appendLength(dst, len(s))
	for _, e := range s {
		dst = elem(dst, e)
	}
	return dst
}

func appendNullableArray[T any](dst []byte, s []T, elem func([]byte, T) []byte) []byte {
	if s == nil {
		return append(dst, 0)
	}
	return appendArray(dst, s, elem)
}

// appendTags appends a tagged section that has nothing but unknown fields.
func appendTags(dst []byte, tags []Tag) []byte {
	t := newTagWriter(dst, tags)
	return t.finish(dst)
}

// A tagWriter appends a tagged section. Known fields come in ascending order between open and close; unknown ones are put between them.
type tagWriter struct {
	start   int // where the section's count goes
	fields  uint32
	field   int // where the open field's size goes
	unknown []Tag
}

func newTagWriter(dst []byte, unknown []Tag) tagWriter {
	return tagWriter{start: len(dst), unknown: unknown}
}

func (t *tagWriter) open(dst []byte, num uint32) []byte {
	for len(t.unknown) > 0 && t.unknown[0].Num < num {
		dst = t.appendUnknown(dst)
	}
	t.fields++
	dst = appendUvarint(dst, num)
	t.field = len(dst)
	return dst
}

func (t *tagWriter) close(dst []byte) []byte {
	return insertUvarint(dst, t.field, uint32(len(dst)-t.field))
}

func (t *tagWriter) finish(dst []byte) []byte {
	for len(t.unknown) > 0 {
		dst = t.appendUnknown(dst)
	}
	return insertUvarint(dst, t.start, t.fields)
}

func (t *tagWriter) appendUnknown(dst []byte) []byte {
	tag := t.unknown[0]
	t.unknown = t.unknown[1:]
	t.fields++
	dst = appendUvarint(dst, tag.Num)
	dst = appendUvarint(dst, uint32(len(tag.Data)))
	return append(dst, tag.Data...)
}

// insertUvarint puts a number before what was appended since at. Sections are short, so moving them costs less than
// measuring each field first.
func insertUvarint(dst []byte, at int, v uint32) []byte {
	var buf [binary.MaxVarintLen32]byte
	return slices.Insert(dst, at, buf[:binary.PutUvarint(buf[:], uint64(v))]...)
}
