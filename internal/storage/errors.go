package storage

import "fmt"

// A CorruptError reports bytes that this broker cannot have written.
type CorruptError struct {
	Partition TopicPartition
	File      string // base name, as an operator would ls it
	Pos       int64  // where in File
	After     Offset // the last offset known to be good, -1 if none
	Err       error  // what was wrong with the bytes
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s: %s: corrupt at byte %d, after offset %d: %v", e.Partition, e.File, e.Pos, e.After, e.Err)
}
func (e *CorruptError) Unwrap() error { return e.Err }

// An OutOfRangeError means that an offset is not in the log.
type OutOfRangeError struct {
	Partition          TopicPartition
	Offset, Start, End Offset
}

func (e *OutOfRangeError) Error() string {
	return fmt.Sprintf("%s: offset %d is not within [%d, %d]", e.Partition, e.Offset, e.Start, e.End)
}

// A SequenceFault is why a producer's batch was refused.
type SequenceFault int

const (
	OutOfOrderSequence SequenceFault = iota + 1 // OUT_OF_ORDER_SEQUENCE_NUMBER
	OldProducerEpoch                            // INVALID_PRODUCER_EPOCH
	InvalidTxnState                             // INVALID_TXN_STATE
	CoordinatorFenced                           // TRANSACTION_COORDINATOR_FENCED
)

// A SequenceError refuses a batch for its producer's epoch or sequence; Message says what came and what was expected.
type SequenceError struct {
	Partition TopicPartition
	Fault     SequenceFault
	Message   string
}

func (e *SequenceError) Error() string { return fmt.Sprintf("%s: %s", e.Partition, e.Message) }

// A RecordListTooLargeError refuses a batch that no segment can hold.
type RecordListTooLargeError struct {
	Partition    TopicPartition
	Size         int
	SegmentBytes int32
}

func (e *RecordListTooLargeError) Error() string {
	return fmt.Sprintf("%s: a batch of %d bytes is larger than segment.bytes %d", e.Partition, e.Size, e.SegmentBytes)
}

// A FailedError means that the log's disk failed it; nothing is written any more until it is opened anew: see prober.
// Full disks alone do not fail a log: see DiskFullError.
type FailedError struct {
	Partition TopicPartition
	Err       error
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("%s: storage failed: %v", e.Partition, e.Err)
}
func (e *FailedError) Unwrap() error { return e.Err }

// A DiskFullError means that there was no room for a batch, or no file descriptor; nothing of it was kept, and a later append may succeed.
type DiskFullError struct {
	Partition TopicPartition
	Err       error
}

func (e *DiskFullError) Error() string {
	if e.NoDescriptor() {
		return fmt.Sprintf("%s: no file descriptor is left: %v", e.Partition, e.Err)
	}
	return fmt.Sprintf("%s: no space: %v", e.Partition, e.Err)
}

// NoDescriptor tells that it was not the disk that was full, but the table of the process's or the system's open files.
func (e *DiskFullError) NoDescriptor() bool { return noDescriptor(e.Err) }

func (e *DiskFullError) Unwrap() error { return e.Err }

// IsTemporary tells whether what failed may be tried again once there is room or a file descriptor: nothing is wrong with the files.
func IsTemporary(err error) bool { return isDiskFull(err) }
