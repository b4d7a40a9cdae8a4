package kmeta

import (
	"encoding/binary"
	"math"
)

// What is not flexible has lengths of a fixed size, -1 for null:
//
//	string  int16 length | bytes      bytes, array  int32 length | content

// plainLength checks a length just read, -1 for null, as length does.
func (d *decoder) plainLength(n, least int, what string) int {
	if d.err != nil {
		return -1
	}
	if n < -1 || n > d.left()/least {
		d.fail("%s of %d, %d bytes left", what, n, d.left())
		return -1
	}
	return n
}

func (d *decoder) plainNullableString() *string {
	n := d.plainLength(int(d.int16()), 1, "string")
	if n < 0 {
		return nil
	}
	s := string(d.take(n, "string"))
	return &s
}

func (d *decoder) plainString() string {
	n := d.plainLength(int(d.int16()), 1, "string")
	if n < 0 {
		d.fail("null for a string")
		return ""
	}
	return string(d.take(n, "string"))
}

func (d *decoder) plainBytes() []byte {
	b := d.plainNullableBytes()
	if b == nil {
		d.fail("null for bytes")
	}
	if len(b) == 0 {
		return nil
	}
	return b
}

func (d *decoder) plainNullableBytes() []byte {
	n := d.plainLength(int(d.int32()), 1, "bytes")
	if n < 0 {
		return nil
	}
	return append([]byte{}, d.take(n, "bytes")...)
}

// present reads the byte before a struct that may be null: 1, or what says that it is.
func (d *decoder) present(null int8) bool {
	switch v := d.int8(); {
	case d.err != nil || v == null:
		return false
	case v != 1:
		d.fail("%d where a struct is 1 and null is %d", v, null)
		return false
	}
	return true
}

// readPlainArray is readArray for what is not flexible.
func readPlainArray[T any](d *decoder, least int, elem func(*decoder) T) []T {
	out := readPlainNullableArray(d, least, elem)
	if out == nil {
		d.fail("null for an array")
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// readPlainNullableArray is readNullableArray for what is not flexible.
func readPlainNullableArray[T any](d *decoder, least int, elem func(*decoder) T) []T {
	return readElements(d, d.plainLength(int(d.int32()), least, "array"), elem)
}

// MaxPlainString is the longest string that what is not flexible can say: names in keys above all.
const MaxPlainString = math.MaxInt16

func appendPlainString(dst []byte, s string) []byte {
	// Flexible requests may bring longer ones: coordinators refuse these before they decide anything. See MaxPlainString.
	s = s[:min(len(s), MaxPlainString)]
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(s))), s...)
}

func appendPlainNullableString(dst []byte, s *string) []byte {
	if s == nil {
		return append(dst, 0xff, 0xff)
	}
	return appendPlainString(dst, *s)
}

func appendPlainBytes(dst []byte, b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(b))), b...)
}

func appendPlainNullableBytes(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 0xff, 0xff, 0xff, 0xff)
	}
	return appendPlainBytes(dst, b)
}

func appendPlainCount[T any](dst []byte, s []T) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(len(s)))
}

func appendPlainNullableCount[T any](dst []byte, s []T) []byte {
	if s == nil {
		return append(dst, 0xff, 0xff, 0xff, 0xff)
	}
	return appendPlainCount(dst, s)
}

func appendPlainArray[T any](dst []byte, s []T, elem func([]byte, T) []byte) []byte {
	dst = appendPlainCount(dst, s)
	for _, e := range s {
		dst = elem(dst, e)
	}
	return dst
}

func appendNullableCount[T any](dst []byte, s []T) []byte {
	if s == nil {
		return append(dst, 0)
	}
	return appendCount(dst, s)
}
