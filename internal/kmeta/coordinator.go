package kmeta

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

// A Log is one of the topics that coordinators keep their state in. A type of key has a meaning within its log alone.
type Log int8

const (
	OffsetsLog      Log = iota // __consumer_offsets
	TransactionsLog            // __transaction_state
	SharesLog                  // __share_group_state
)

func (l Log) String() string {
	return [...]string{"__consumer_offsets", "__transaction_state", "__share_group_state"}[l]
}

// half is what Key and Value have in common. The set of types is closed: all are generated.
type half interface {
	Log() Log
	// Type is the number that the key begins with.
	Type() int16
	// TypeName is Kafka's, such as OffsetCommitKey or OffsetCommitValue.
	TypeName() string

	body
	appendJSON(dst []byte, version int16) []byte
}

// A Key is the key of a coordinator's record: *OffsetCommitKey, *GroupMetadataKey, …
type Key interface {
	half
	AppendBody(dst []byte) []byte
	ReadBody(src []byte) error
}

// A Value is the value of a coordinator's record: *OffsetCommitValue, … A record without one is a tombstone.
type Value interface {
	half
	HighestVersion() int16
	AppendBody(dst []byte, version int16) []byte
	ReadBody(src []byte, version int16) error
}

// The key of a coordinator's record, and its value:
//
//	int16 type | body, not flexible        int16 version | body, flexible from a version on

// AppendKey appends a key as the log holds it.
func AppendKey(dst []byte, k Key) []byte { return k.AppendBody(appendInt16(dst, k.Type())) }

// ReadKey reads a key of a log. The error is a *KeyTypeError for a type that is not known, else a *DecodeError.
func ReadKey(log Log, src []byte) (Key, error) {
	if len(src) < 2 {
		return nil, &DecodeError{Record: log.String() + " key", Reason: fmt.Sprintf("%d bytes, want a type", len(src))}
	}
	typ := int16(binary.BigEndian.Uint16(src))
	k := newKey(log, typ)
	if k == nil {
		return nil, &KeyTypeError{Log: log, Type: typ}
	}
	if err := k.ReadBody(src[2:]); err != nil {
		return nil, err
	}
	return k, nil
}

// AppendVersioned appends the value of a coordinator's record as the log holds it.
func AppendVersioned(dst []byte, v Value, version int16) []byte {
	return v.AppendBody(appendInt16(dst, version), version)
}

// ReadVersioned reads the value that stands under a key. The error is a *VersionError or a *DecodeError.
func ReadVersioned(k Key, src []byte) (v Value, version int16, err error) {
	v = newValue(k.Log(), k.Type())
	if len(src) < 2 {
		return nil, 0, &DecodeError{Record: v.TypeName(), Reason: fmt.Sprintf("%d bytes, want a version", len(src))}
	}
	version = int16(binary.BigEndian.Uint16(src))
	if err := v.ReadBody(src[2:], version); err != nil {
		return nil, 0, err
	}
	return v, version, nil
}

// A KeyTypeError means a coordinator's record of a type that this build does not know: one of a newer Kafka, which a
// coordinator skips.
type KeyTypeError struct {
	Log  Log
	Type int16
}

func (e *KeyTypeError) Error() string {
	return fmt.Sprintf("%s: unknown type %d of key", e.Log, e.Type)
}

// AppendKeyJSON appends a key as Kafka prints it: {"type":1,"data":{"group":"g","topic":"t","partition":0}}. Its message
// formatters print the type as a number, kafka-dump-log as a string.
func AppendKeyJSON(dst []byte, k Key, quoted bool) []byte {
	dst = jsonEnvelope(dst, `{"type":`, k.Type(), quoted)
	return append(k.appendJSON(dst, 0), '}')
}

// AppendVersionedJSON appends a value as Kafka prints it: {"version":4,"data":{…}}, the version as AppendKeyJSON the type.
func AppendVersionedJSON(dst []byte, v Value, version int16, quoted bool) []byte {
	dst = jsonEnvelope(dst, `{"version":`, version, quoted)
	return append(v.appendJSON(dst, version), '}')
}

func jsonEnvelope(dst []byte, open string, n int16, quoted bool) []byte {
	dst = append(dst, open...)
	if quoted {
		dst = append(dst, '"')
	}
	dst = strconv.AppendInt(dst, int64(n), 10)
	if quoted {
		dst = append(dst, '"')
	}
	return append(dst, `,"data":`...)
}
