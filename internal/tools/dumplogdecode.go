package tools

import (
	"encoding/binary"
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

// decodeCoordinator shows a record of a coordinator's topic as JSON.
func decodeCoordinator(log kmeta.Log) decoder {
	return func(r *record.Record) (key, value *string, err error) {
		if r.Key == nil {
			return nil, nil, throw("java.lang.RuntimeException", fmt.Sprintf("Failed to decode message at offset %d using the specified decoder (message had a missing key)", r.Offset))
		}
		failed := func(part string, b []byte, err error) (*string, *string, error) {
			text := fmt.Sprintf("Error at offset %d, skipping. %s", r.Offset, versionedComplaint(part, b, err))
			return &text, nil, nil
		}
		k, err := kmeta.ReadKey(log, r.Key)
		if unknown, ok := errors.AsType[*kmeta.KeyTypeError](err); ok {
			text := fmt.Sprintf("Unknown record type %d at offset %d, skipping.", unknown.Type, r.Offset)
			return &text, nil, nil
		}
		if err != nil {
			return failed("key", r.Key, err)
		}
		shown, tombstone := string(kmeta.AppendKeyJSON(nil, k, true)), "<DELETE>"
		if r.Value == nil {
			return &shown, &tombstone, nil
		}
		v, version, err := kmeta.ReadVersioned(k, r.Value)
		if err != nil {
			return failed("value", r.Value, err)
		}
		text := string(kmeta.AppendDumpJSON(nil, v, version))
		return &shown, &text, nil
	}
}

// versionedComplaint tells in Kafka's words why a key or a value cannot be read. For a field that runs past the end, Java
// has no message, so null stands there; a key's version is always 0.
func versionedComplaint(part string, b []byte, err error) string {
	if len(b) < 2 {
		return fmt.Sprintf("Could not read version from %s's buffer.", part)
	}
	version := int16(0)
	if part == "value" {
		version = int16(binary.BigEndian.Uint16(b))
	}
	why := "null"
	if _, ok := errors.AsType[*kmeta.VersionError](err); ok {
		why = fmt.Sprintf("Unsupported version %d", version)
	}
	return fmt.Sprintf("Could not read record with version %d from %s's buffer due to: %s.", version, part, why)
}

// decodeRemoteLog shows a record of __remote_log_metadata. What such a record holds is not known here: only the frame around
// it, which is that of metadata records.
func decodeRemoteLog(r *record.Record) (key, value *string, err error) {
	text := `Cannot invoke "java.nio.ByteBuffer.remaining()" because the return value of "org.apache.kafka.common.record.internal.Record.value()" is null`
	if r.Value != nil {
		text = frameComplaint(r.Value, nil)
	}
	text = fmt.Sprintf("Error at offset %d, skipping. %s", r.Offset, text)
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
