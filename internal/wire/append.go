package wire

import "encoding/binary"

// These append what responses are made of by hand; flexible tells which form it has.

func AppendArrayLen(dst []byte, n int, flexible bool) []byte {
	if flexible {
		return binary.AppendUvarint(dst, uint64(n)+1)
	}
	return binary.BigEndian.AppendUint32(dst, uint32(n))
}

// AppendNullArray appends a null array.
func AppendNullArray(dst []byte, flexible bool) []byte {
	if flexible {
		return append(dst, 0)
	}
	return binary.BigEndian.AppendUint32(dst, 1<<32-1)
}

// AppendBytesLen appends the length that goes before bytes, which follow by other ways.
func AppendBytesLen(dst []byte, n int, flexible bool) []byte { return AppendArrayLen(dst, n, flexible) }

func AppendString(dst []byte, s string, flexible bool) []byte {
	if flexible {
		dst = binary.AppendUvarint(dst, uint64(len(s))+1)
	} else {
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(s)))
	}
	return append(dst, s...)
}

// AppendNullableString appends s, or null if there is none.
func AppendNullableString(dst []byte, s string, null, flexible bool) []byte {
	switch {
	case !null:
		return AppendString(dst, s, flexible)
	case flexible:
		return append(dst, 0)
	}
	return binary.BigEndian.AppendUint16(dst, 1<<16-1)
}

// AppendNoTags ends a flexible structure without tagged fields.
func AppendNoTags(dst []byte, flexible bool) []byte {
	if flexible {
		return append(dst, 0)
	}
	return dst
}
