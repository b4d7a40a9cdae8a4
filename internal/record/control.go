package record

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

// ParseControlKey reads the key of a control record.
func ParseControlKey(key []byte) (ControlType, error) { panic("unwritten") }

// AppendEndTxnMarker appends a batch with one transaction marker to dst.
func AppendEndTxnMarker(dst []byte, producerID int64, producerEpoch int16, commit bool, coordinatorEpoch int32, timestamp int64) []byte {
	panic("unwritten")
}

// ParseEndTxnMarker reads the value of a transaction marker.
func ParseEndTxnMarker(value []byte) (coordinatorEpoch int32, err error) { panic("unwritten") }
