package tools

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/record"
)

// decodeMetadata shows a record of the metadata log as JSON.
func decodeMetadata(r *record.Record) (key, value *string, err error) {
	var text string
	if m, version, err := kmeta.ReadValue(r.Value); err == nil {
		text = string(kmeta.AppendJSON(nil, m, version))
	} else {
		text = fmt.Sprintf("Error at %d, skipping. %s", r.Offset, frameComplaint(r.Value, err))
	}
	return nil, &text, nil
}

// frameComplaint tells in Kafka's words why a value in the frame of metadata records cannot be read.
func frameComplaint(value []byte, err error) string {
	frame, rest, ok := cutUvarint(value)
	switch {
	case !ok:
		return "Error while reading frame version"
	case frame != 1:
		return fmt.Sprintf("Could not deserialize metadata record due to unknown frame version %d(only frame version 1 is supported)", frame)
	}
	typ, rest, ok := cutUvarint(rest)
	if !ok {
		return "Error while reading type"
	}
	if _, _, ok = cutUvarint(rest); !ok {
		return "Error while reading version"
	}
	if _, unknown := errors.AsType[*kmeta.TypeError](err); unknown {
		return fmt.Sprintf("%sUnsupportedVersionException: Unknown metadata id %d", kafkaErrors, typ)
	}
	return fmt.Sprintf("Failed to deserialize record with type %d", typ)
}

// cutUvarint takes a number of seven bits a byte, the lowest first, off b.
func cutUvarint(b []byte) (n uint64, rest []byte, ok bool) {
	for i := 0; i < len(b) && i < 5; i++ {
		n |= uint64(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			return n, b[i+1:], true
		}
	}
	return 0, nil, false
}

// appendJavaText appends text decoded as Java's UTF-8 decoder does: the longest begin of a character that does not go on
// becomes one U+FFFD, every other stray byte one of its own.
func appendJavaText(dst, b []byte) []byte {
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size <= 1 {
			size = brokenLength(b)
		}
		if r == utf8.RuneError {
			dst = append(dst, "\uFFFD"...)
		} else {
			dst = append(dst, b[:size]...)
		}
		b = b[size:]
	}
	return dst
}

// brokenLength is how many bytes of b, which does not begin with a character, could have been the begin of one.
func brokenLength(b []byte) int {
	low, high, want := byte(0x80), byte(0xBF), 0
	switch c := b[0]; {
	case c >= 0xC2 && c <= 0xDF:
		want = 2
	case c == 0xE0:
		want, low = 3, 0xA0
	case c == 0xED:
		want, high = 3, 0x9F
	case c >= 0xE1 && c <= 0xEF:
		want = 3
	case c == 0xF0:
		want, low = 4, 0x90
	case c >= 0xF1 && c <= 0xF3:
		want = 4
	case c == 0xF4:
		want, high = 4, 0x8F
	}
	n := 1
	for n < want && n < len(b) && b[n] >= low && b[n] <= high {
		low, high = 0x80, 0xBF
		n++
	}
	return n
}
