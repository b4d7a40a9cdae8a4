package kmeta

import (
	"encoding/binary"
	"fmt"
	"math"
)

// A message is what Record and ControlRecord have in common. The set of types is closed: all are generated.
type message interface {
	// TypeName is Kafka's: a constant such as TOPIC_RECORD, or a control record's as kafka-dump-log prints it, such as LeaderChange.
	TypeName() string
	// LowestVersion is the lowest that holds all that the record says; HighestVersion the newest known.
	LowestVersion() int16
	HighestVersion() int16
	// AppendBody appends what the version can say of the record: fields that came later are left out.
	AppendBody(dst []byte, version int16) []byte
	// ReadBody makes the record what src, all of it, says. The error is a *VersionError or a *DecodeError.
	ReadBody(src []byte, version int16) error

	body
	appendJSON(dst []byte, version int16) []byte
}

// A body is what readFrom fills.
type body interface {
	TypeName() string
	versions() (low, high int16)
	reset()
	read(d *decoder, version int16)
}

// A Record is one metadata record. Concrete types are pointers to the generated structs: *TopicRecord, *PartitionRecord, …
type Record interface {
	message
	// Type is the record's number (apiKey) in the value's frame.
	Type() int16

	versionAt(metadataVersion int16) int16
}

// A ControlRecord is the value of a control record of the metadata log: *LeaderChange, *SnapshotHeader, …
type ControlRecord interface {
	message
	// ControlType is the number in the record's key.
	ControlType() int16
}

// VersionAt is the version at which Kafka 4.3.1 writes r when metadata.version is at a level. For most types the level alone
// decides; a BrokerRegistrationChangeRecord goes out at the lowest version that holds what it says.
func VersionAt(r Record, metadataVersion int16) int16 { return r.versionAt(metadataVersion) }

// The value of a metadata record:
//
//	uvarint frame (1) | uvarint type | uvarint version | body, flexible, to the end
const frameVersion = 1

// AppendValue appends a record's value as the log holds it. Version -1 means LowestVersion.
func AppendValue(dst []byte, r Record, version int16) []byte {
	if version < 0 {
		version = r.LowestVersion()
	}
	dst = append(dst, frameVersion)
	dst = appendUvarint(dst, uint32(r.Type()))
	dst = appendUvarint(dst, uint32(version))
	return r.AppendBody(dst, version)
}

// ReadValue reads a value written by AppendValue or Kafka. The error is a *TypeError, *VersionError or *DecodeError.
func ReadValue(src []byte) (r Record, version int16, err error) {
	d := &decoder{src: src}
	frame, typ, v := d.uvarint(), d.uvarint(), d.uvarint()
	switch {
	case d.err != nil:
		return nil, 0, d.err
	case frame != frameVersion:
		return nil, 0, &DecodeError{Reason: fmt.Sprintf("frame version %d, want %d", frame, frameVersion)}
	case typ > math.MaxInt16 || newRecord(int16(typ)) == nil:
		return nil, 0, &TypeError{Type: typ, Version: v}
	}
	r = newRecord(int16(typ))
	if v > math.MaxInt16 {
		return nil, 0, versionError(r, v)
	}
	if err := readFrom(d, r, int16(v)); err != nil {
		return nil, 0, err
	}
	return r, int16(v), nil
}

// AppendControl appends the value of a control record. Version -1 means LowestVersion.
func AppendControl(dst []byte, c ControlRecord, version int16) []byte {
	if version < 0 {
		version = c.LowestVersion()
	}
	return c.AppendBody(dst, version)
}

// ReadControl reads the value of a control record of the metadata log; its key says the type. Errors as ReadValue.
func ReadControl(controlType int16, value []byte) (c ControlRecord, version int16, err error) {
	c = newControl(controlType)
	if c == nil {
		return nil, 0, &TypeError{Control: true, Type: uint32(uint16(controlType))}
	}
	if len(value) < 2 {
		return nil, 0, &DecodeError{Record: c.TypeName(), Reason: "no version"}
	}
	version = int16(binary.BigEndian.Uint16(value))
	if err := c.ReadBody(value, version); err != nil {
		return nil, 0, err
	}
	return c, version, nil
}

func readBody(m body, src []byte, version int16) error {
	return readFrom(&decoder{src: src}, m, version)
}

// readFrom reads what is left of d as the body of m.
func readFrom(d *decoder, m body, version int16) error {
	if low, high := m.versions(); version < low || version > high {
		return versionError(m, uint32(version))
	}
	m.reset()
	m.read(d, version)
	if d.err == nil && d.left() > 0 {
		d.fail("%d bytes too many", d.left())
	}
	if d.err != nil {
		d.err.Record, d.err.Version = m.TypeName(), version
		return d.err
	}
	return nil
}

// A TypeError means a record of a type that this build does not know. Nothing can be said of the cluster after it.
type TypeError struct {
	Control bool
	Type    uint32
	Version uint32
}

func (e *TypeError) Error() string {
	if e.Control {
		return fmt.Sprintf("unknown control record type %d", e.Type)
	}
	return fmt.Sprintf("unknown metadata record type %d, version %d", e.Type, e.Version)
}

// A VersionError means a record of a known type at a version that this build does not know.
type VersionError struct {
	Record    string
	Version   uint32
	Low, High int16
}

func versionError(m body, version uint32) error {
	low, high := m.versions()
	return &VersionError{m.TypeName(), version, low, high}
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%s: unknown version %d, known are %d-%d", e.Record, int32(e.Version), e.Low, e.High)
}
