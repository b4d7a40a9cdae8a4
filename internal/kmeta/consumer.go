package kmeta

import (
	"encoding/binary"
	"fmt"
)

// ConsumerProtocolType is the protocol type of the classic groups whose members' bytes this package can read.
const ConsumerProtocolType = "consumer"

// The newest versions of the embedded protocol of consumers. Newer bytes begin as these do.
const (
	highestSubscription = 3
	highestAssignment   = 3
)

// The bytes of a subscription and of an assignment:
//
//	int16 version | body, not flexible | whatever a newer version adds
//
// ReadSubscription reads the first. version is what the bytes say.
func ReadSubscription(src []byte) (s ConsumerSubscription, version int16, err error) {
	s.GenerationID = -1
	version, err = readEmbedded("ConsumerProtocolSubscription", src, func(d *decoder, v int16) { s.read(d, min(v, highestSubscription)) })
	return s, version, err
}

// ReadAssignment reads an assignment. Kafka reads no bytes at all as an assignment of nothing.
func ReadAssignment(src []byte) (a ConsumerAssignment, version int16, err error) {
	version, err = readEmbedded("ConsumerProtocolAssignment", src, func(d *decoder, v int16) { a.read(d, min(v, highestAssignment)) })
	return a, version, err
}

func readEmbedded(name string, src []byte, read func(*decoder, int16)) (int16, error) {
	if len(src) < 2 {
		return 0, &DecodeError{Record: name, Reason: fmt.Sprintf("%d bytes, want a version", len(src))}
	}
	version := int16(binary.BigEndian.Uint16(src))
	if version < 0 {
		return 0, &VersionError{Record: name, Version: uint32(uint16(version)), High: highestSubscription}
	}
	d := &decoder{src: src, pos: 2}
	read(d, version)
	if d.err != nil {
		d.err.Record, d.err.Version = name, version
		return 0, d.err
	}
	return version, nil
}

// AppendSubscription appends s in a version's form.
func AppendSubscription(dst []byte, s *ConsumerSubscription, version int16) []byte {
	return s.append(appendInt16(dst, version), version)
}

// AppendAssignment appends a in a version's form.
func AppendAssignment(dst []byte, a *ConsumerAssignment, version int16) []byte {
	return a.append(appendInt16(dst, version), version)
}

// AppendDumpJSON appends a value as kafka-dump-log --offsets-decoder prints it: as AppendVersionedJSON does, quoted, but the
// members' bytes of a group of consumers are opened.
func AppendDumpJSON(dst []byte, v Value, version int16) []byte {
	g, ok := v.(*GroupMetadataValue)
	if !ok || g.ProtocolType != ConsumerProtocolType || len(g.Members) == 0 {
		return AppendVersionedJSON(dst, v, version, true)
	}
	dst = jsonEnvelope(dst, `{"version":`, version, true)
	without := *g
	without.Members = nil
	dst = without.appendJSON(dst, version)
	dst = dst[:len(dst)-len("]}")] // members stand last
	for i := range g.Members {
		if i > 0 {
			dst = append(dst, ',')
		}
		m := g.Members[i]
		sub, assigned := m.Subscription, m.Assignment
		m.Subscription, m.Assignment = nil, nil
		dst = m.appendJSON(dst, version)
		dst = dst[:len(dst)-len(`,"subscription":"","assignment":""}`)]
		dst = append(dst, `,"subscription":`...)
		if s, v, err := ReadSubscription(sub); err == nil {
			dst = s.appendJSON(dst, v)
		} else {
			dst = jsonBytes(dst, sub)
		}
		dst = append(dst, `,"assignment":`...)
		if a, v, err := ReadAssignment(assigned); err == nil {
			dst = a.appendJSON(dst, v)
		} else {
			dst = jsonBytes(dst, assigned)
		}
		dst = append(dst, '}')
	}
	return append(dst, "]}}"...)
}
