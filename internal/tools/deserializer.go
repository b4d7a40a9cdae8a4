package tools

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A deserializer turns a field's bytes into the text that Java would print for the object it makes of them.
type deserializer func(field []byte) (string, error)

const serializationPackage = "org.apache.kafka.common.serialization."

// newDeserializer returns the deserializer of a class of Kafka's own, nil for others.
func newDeserializer(class string) deserializer {
	name, ok := strings.CutPrefix(class, serializationPackage)
	if !ok {
		return nil
	}
	switch name {
	case "StringDeserializer":
		return func(b []byte) (string, error) { return string(appendJavaText(nil, b)), nil }
	case "ByteArrayDeserializer":
		// Java prints the array's address. The bytes are of more use.
		return func(b []byte) (string, error) { return string(b), nil }
	case "BytesDeserializer":
		return func(b []byte) (string, error) { return escapeBytes(b), nil }
	case "ByteBufferDeserializer":
		return func(b []byte) (string, error) {
			return fmt.Sprintf("java.nio.HeapByteBuffer[pos=0 lim=%d cap=%d]", len(b), len(b)), nil
		}
	case "LongDeserializer":
		return fixed("LongDeserializer", 8, func(b []byte) string { return strconv.FormatInt(int64(binary.BigEndian.Uint64(b)), 10) })
	case "IntegerDeserializer":
		return fixed("IntegerDeserializer", 4, func(b []byte) string { return strconv.FormatInt(int64(int32(binary.BigEndian.Uint32(b))), 10) })
	case "ShortDeserializer":
		return fixed("ShortDeserializer", 2, func(b []byte) string { return strconv.FormatInt(int64(int16(binary.BigEndian.Uint16(b))), 10) })
	case "DoubleDeserializer":
		return fixed("Deserializer", 8, func(b []byte) string { return javaFloat(math.Float64frombits(binary.BigEndian.Uint64(b)), 64) })
	case "FloatDeserializer":
		return fixed("Deserializer", 4, func(b []byte) string {
			return javaFloat(float64(math.Float32frombits(binary.BigEndian.Uint32(b))), 32)
		})
	case "BooleanDeserializer":
		return deserializeBoolean
	case "UUIDDeserializer":
		return deserializeUUID
	case "VoidDeserializer":
		return func([]byte) (string, error) {
			return "", throw(illegalArgument, "Data should be null for a VoidDeserializer.")
		}
	}
	return nil
}

func serializationError(format string, a ...any) error {
	return throw(kafkaErrors+"SerializationException", fmt.Sprintf(format, a...))
}

// fixed reads a type of fixed size.
func fixed(name string, size int, read func([]byte) string) deserializer {
	return func(b []byte) (string, error) {
		if len(b) != size {
			return "", serializationError("Size of data received by %s is not %d", name, size)
		}
		return read(b), nil
	}
}

func deserializeBoolean(b []byte) (string, error) {
	switch {
	case len(b) != 1:
		return "", serializationError("Size of data received by BooleanDeserializer is not 1")
	case b[0] > 1:
		return "", serializationError("Unexpected byte received by BooleanDeserializer: %d", int8(b[0]))
	}
	return strconv.FormatBool(b[0] == 1), nil
}

// deserializeUUID reads five groups of hexadecimal digits. Like Java's, they may be shorter than usual.
func deserializeUUID(b []byte) (string, error) {
	widths := [5]int{8, 4, 4, 4, 12}
	groups := strings.Split(string(b), "-")
	if len(groups) != len(widths) {
		return "", serializationError("Error parsing data into UUID")
	}
	for i, g := range groups {
		n, err := strconv.ParseUint(g, 16, 4*widths[i])
		if err != nil {
			return "", serializationError("Error parsing data into UUID")
		}
		groups[i] = fmt.Sprintf("%0*x", widths[i], n)
	}
	return strings.Join(groups, "-"), nil
}

// escapeBytes is Bytes.toString: what is not printable ASCII, and the backslash, as \xNN.
func escapeBytes(b []byte) string {
	var out strings.Builder
	for _, c := range b {
		if c >= ' ' && c <= '~' && c != '\\' {
			out.WriteByte(c)
		} else {
			fmt.Fprintf(&out, `\x%02X`, c)
		}
	}
	return out.String()
}

// javaFloat is Double.toString and Float.toString: plain between 0.001 and 10 million, else with an exponent, and
// always with a digit after the point.
func javaFloat(f float64, bits int) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-3 || a >= 1e7) {
		format = 'E'
	}
	text := strconv.FormatFloat(f, format, -1, bits)
	mantissa, exponent, scientific := strings.Cut(text, "E")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	if !scientific {
		return mantissa
	}
	n, _ := strconv.Atoi(exponent)
	return mantissa + "E" + strconv.Itoa(n)
}
