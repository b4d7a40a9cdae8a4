package record

import (
	"encoding/binary"
	"fmt"
)

// A ControlType says what a control record controls; the numbers are those in its key.
type ControlType int16

const (
	ControlAbort ControlType = iota
	ControlCommit
	ControlLeaderChange
	ControlSnapshotHeader
	ControlSnapshotFooter
	ControlKRaftVersion
	ControlKRaftVoters
)

// The key of a control record is two numbers of 16 bits, version (0; a higher one is read as 0) and type. The value of a
// transaction marker is
//
//	0         2                  6
//	+---------+------------------+
//	| version | coordinatorEpoch |   version 0
//	+---------+------------------+
//
// and those of the others are messages of the metadata quorum.
const (
	controlKeySize   = 4
	endTxnMarkerSize = 6
)

// AppendControlKey appends the key of a control record.
func AppendControlKey(dst []byte, t ControlType) []byte {
	return binary.BigEndian.AppendUint16(append(dst, 0, 0), uint16(t))
}

// ParseControlKey reads the key of a control record. Unknown types are no error: readers pass over them.
func ParseControlKey(key []byte) (ControlType, error) {
	if len(key) < controlKeySize {
		return 0, &FormatError{fmt.Sprintf("control key of %d bytes", len(key))}
	}
	if version := int16(binary.BigEndian.Uint16(key)); version < 0 {
		return 0, &FormatError{fmt.Sprintf("control key of version %d", version)}
	}
	return ControlType(binary.BigEndian.Uint16(key[2:])), nil
}

// AppendEndTxnMarker appends a batch with one transaction marker to dst. Its offset and leader epoch (0) are for the log to stamp.
func AppendEndTxnMarker(dst []byte, producerID int64, producerEpoch int16, commit bool, coordinatorEpoch int32, timestamp int64) []byte {
	t := ControlAbort
	if commit {
		t = ControlCommit
	}
	var key [controlKeySize]byte
	var value [endTxnMarkerSize]byte
	binary.BigEndian.PutUint16(key[2:], uint16(t))
	binary.BigEndian.PutUint32(value[2:], uint32(coordinatorEpoch))
	start := len(dst)
	dst = append(dst, make([]byte, HeaderSize)...)
	dst = appendRecord(dst, Record{Key: key[:], Value: value[:]}, 0, 0)
	putHeader(Batch(dst[start:]), header{
		attributes: AttrTransactional | AttrControl, baseTimestamp: timestamp, maxTimestamp: timestamp,
		producerID: producerID, producerEpoch: producerEpoch, baseSequence: -1, count: 1,
	})
	return dst
}

// ParseEndTxnMarker reads the value of a transaction marker.
func ParseEndTxnMarker(value []byte) (coordinatorEpoch int32, err error) {
	if len(value) < endTxnMarkerSize {
		return 0, &FormatError{fmt.Sprintf("transaction marker of %d bytes", len(value))}
	}
	if version := int16(binary.BigEndian.Uint16(value)); version < 0 {
		return 0, &FormatError{fmt.Sprintf("transaction marker of version %d", version)}
	}
	return int32(binary.BigEndian.Uint32(value[2:])), nil
}
