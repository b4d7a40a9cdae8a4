package kmeta

import (
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// AppendJSON appends a record as Kafka's kafka-dump-log prints it:
//
//	{"type":"TOPIC_RECORD","version":0,"data":{"name":"orders","topicId":"nGYY3d7XS2mmfc6AiiFPAA"}}
//
// Fields stand in the schema's order, those that the version does not have are left out, and so are tagged fields that
// have their default. Uuids are text, bytes are base64.
func AppendJSON(dst []byte, r Record, version int16) []byte {
	dst = append(dst, `{"type":"`...)
	dst = append(dst, r.TypeName()...)
	dst = append(dst, `","version":`...)
	dst = strconv.AppendInt(dst, int64(version), 10)
	dst = append(dst, `,"data":`...)
	dst = r.appendJSON(dst, version)
	return append(dst, '}')
}

// AppendControlJSON appends a control record as kafka-dump-log prints it after its TypeName: {"version":0,"leaderId":1,…}.
func AppendControlJSON(dst []byte, c ControlRecord, version int16) []byte {
	return c.appendJSON(dst, version)
}

// jsonKey appends a field's name, and the comma before it unless it is the first of its object.
func jsonKey(dst []byte, name string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	dst = append(dst, '"')
	dst = append(dst, name...)
	return append(dst, '"', ':')
}

func jsonBool(dst []byte, v bool) []byte     { return strconv.AppendBool(dst, v) }
func jsonInt8(dst []byte, v int8) []byte     { return strconv.AppendInt(dst, int64(v), 10) }
func jsonInt16(dst []byte, v int16) []byte   { return strconv.AppendInt(dst, int64(v), 10) }
func jsonUint16(dst []byte, v uint16) []byte { return strconv.AppendInt(dst, int64(v), 10) }
func jsonInt32(dst []byte, v int32) []byte   { return strconv.AppendInt(dst, int64(v), 10) }
func jsonInt64(dst []byte, v int64) []byte   { return strconv.AppendInt(dst, v, 10) }

func jsonUUID(dst []byte, v UUID) []byte {
	dst = append(dst, '"')
	dst = append(dst, v.String()...)
	return append(dst, '"')
}

func jsonBytes(dst, v []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, v)
	return append(dst, '"')
}

// jsonFloat64 appends a number as Java prints a double: plain from 0.001 to below 10000000, else with an exponent, and
// always with a digit after the point.
func jsonFloat64(dst []byte, v float64) []byte {
	switch abs := math.Abs(v); {
	case math.IsNaN(v):
		return append(dst, `"NaN"`...)
	case math.IsInf(v, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(v, -1):
		return append(dst, `"-Infinity"`...)
	case abs == 0 || abs >= 1e-3 && abs < 1e7:
		s := strconv.FormatFloat(v, 'f', -1, 64)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
		return append(dst, s...)
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'E', -1, 64), "E")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	n, _ := strconv.Atoi(exponent) // AppendFloat writes E+07 where Java writes E7
	return strconv.AppendInt(append(append(dst, mantissa...), 'E'), int64(n), 10)
}

// jsonString appends a string as Java's Jackson quotes it: only what JSON demands is escaped.
func jsonString(dst []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:]) // a byte that is no UTF-8 becomes U+FFFD, as in Java
			dst = utf8.AppendRune(dst, r)
			i += size
			continue
		}
		i++
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\b':
			dst = append(dst, '\\', 'b')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\f':
			dst = append(dst, '\\', 'f')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

func jsonNullableString(dst []byte, s *string) []byte {
	if s == nil {
		return append(dst, "null"...)
	}
	return jsonString(dst, *s)
}

func jsonNullableBytes(dst, v []byte) []byte {
	if v == nil {
		return append(dst, "null"...)
	}
	return jsonBytes(dst, v)
}

func jsonArray[T any](dst []byte, s []T, elem func([]byte, T) []byte) []byte {
	dst = append(dst, '[')
	for i, e := range s {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = elem(dst, e)
	}
	return append(dst, ']')
}

func jsonNullableArray[T any](dst []byte, s []T, elem func([]byte, T) []byte) []byte {
	if s == nil {
		return append(dst, "null"...)
	}
	return jsonArray(dst, s, elem)
}
