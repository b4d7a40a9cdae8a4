package wire

import "encoding/binary"

// A Reader walks the primitive types of a request, without copying. After bytes that are too few or make no sense
// everything it returns is zero, and Err says so.
type Reader struct {
	Src      []byte // what is left
	Flexible bool   // lengths are compact, and structures end in tags
	bad      bool
}

// Reader walks the body of r.
func (r *Request) Reader() Reader { return Reader{Src: r.Body, Flexible: r.flexible} }

// Err is nil if nothing was amiss so far. Done also demands that nothing is left over.
func (r *Reader) Err() error {
	if r.bad {
		return errShort
	}
	return nil
}

func (r *Reader) Done() error {
	if err := r.Err(); err != nil {
		return err
	}
	if len(r.Src) > 0 {
		return errTrailing
	}
	return nil
}

// Bytes takes the next n bytes.
func (r *Reader) Bytes(n int) []byte {
	if n < 0 || n > len(r.Src) {
		r.bad, r.Src = true, nil
		return nil
	}
	b := r.Src[:n:n]
	r.Src = r.Src[n:]
	return b
}

func (r *Reader) Int8() int8 {
	if b := r.Bytes(1); b != nil {
		return int8(b[0])
	}
	return 0
}

func (r *Reader) Int16() int16 {
	if b := r.Bytes(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *Reader) Int32() int32 {
	if b := r.Bytes(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *Reader) Int64() int64 {
	if b := r.Bytes(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *Reader) UUID() (id [16]byte) {
	copy(id[:], r.Bytes(16))
	return id
}

// Uvarint reads at most five bytes, 32 bits.
func (r *Reader) Uvarint() uint32 {
	v, n := binary.Uvarint(r.Src)
	if n <= 0 || n > 5 || v > 1<<32-1 {
		r.bad, r.Src = true, nil
		return 0
	}
	r.Src = r.Src[n:]
	return uint32(v)
}

// length reads the length of an array or of bytes: -1 for null.
func (r *Reader) length() int {
	if r.Flexible {
		return int(r.Uvarint()) - 1
	}
	n := int(r.Int32())
	if n < -1 {
		r.bad, r.Src = true, nil
		return 0
	}
	return n
}

// ArrayLen reads the number of elements, each of which is of at least elementMin bytes: a count that cannot be is refused here,
// so that callers may loop by it. Null counts as empty.
func (r *Reader) ArrayLen(elementMin int) int {
	n := r.length()
	if n > 0 && n > len(r.Src)/elementMin {
		r.bad, r.Src = true, nil
		return 0
	}
	return max(n, 0)
}

// NullableBytes is a view of the bytes, nil for null, and never nil for empty.
func (r *Reader) NullableBytes() []byte {
	n := r.length()
	if r.bad || n < 0 {
		return nil
	}
	if n == 0 {
		return []byte{}
	}
	return r.Bytes(n)
}

// NullableString is a view of the string; false: null.
func (r *Reader) NullableString() (string, bool) {
	var n int
	if r.Flexible {
		n = int(r.Uvarint()) - 1
	} else {
		n = int(r.Int16())
	}
	if r.bad || n < 0 {
		return "", false
	}
	return viewString(r.Bytes(n)), true
}

// String is a view of a string that must not be null.
func (r *Reader) String() string {
	s, ok := r.NullableString()
	if !ok {
		r.bad, r.Src = true, nil
	}
	return s
}

// Tags calls each for every tagged field at the end of a structure; without flexible types there are none.
func (r *Reader) Tags(each func(tag uint32, value []byte)) {
	if !r.Flexible {
		return
	}
	for n := r.Uvarint(); n > 0 && !r.bad; n-- {
		tag := r.Uvarint()
		value := r.Bytes(int(r.Uvarint()))
		if !r.bad && each != nil {
			each(tag, value)
		}
	}
}

// SkipTags passes over the tagged fields of a flexible structure, whether or not Flexible is set.
func (r *Reader) SkipTags() {
	for n := r.Uvarint(); n > 0 && !r.bad; n-- {
		r.Uvarint()
		r.Bytes(int(r.Uvarint()))
	}
}
