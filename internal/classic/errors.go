package classic

import (
	"errors"
	"fmt"
)

// A TopicPartition names a partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

func (tp TopicPartition) String() string { return fmt.Sprintf("%s_%d", tp.Topic, tp.Partition) }

// An Offset is a byte position in the run of all entries that were ever appended to a partition.
type Offset int64

// An OutOfRangeError means that an offset is not in the log, or that no entry begins there.
type OutOfRangeError struct {
	Partition   TopicPartition
	Offset      Offset
	First, Last Offset // the valid ones: the first entry's, and the log's end, where the next entry will be
}

func (e *OutOfRangeError) Error() string {
	if e.Offset < e.First || e.Offset > e.Last {
		return fmt.Sprintf("%s: offset %d is not within [%d, %d]", e.Partition, e.Offset, e.First, e.Last)
	}
	return fmt.Sprintf("%s: no entry begins at offset %d; the log is [%d, %d]", e.Partition, e.Offset, e.First, e.Last)
}

// A CorruptError reports bytes that are no entry where one should be.
type CorruptError struct {
	Partition TopicPartition
	File      string // base name, as an operator would ls it
	Pos       int64  // where in File the entry begins
	Offset    Offset // the same in the log
	Err       error  // what was wrong with the bytes
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s: %s: no valid entry at byte %d, offset %d: %v", e.Partition, e.File, e.Pos, e.Offset, e.Err)
}
func (e *CorruptError) Unwrap() error { return e.Err }

// A ChunkTooSmallError means that an entry is larger than the largest chunk that the reader allows.
type ChunkTooSmallError struct {
	Partition TopicPartition
	Offset    Offset
	Entry     int64 // bytes of the entry
	Max       int   // bytes that a chunk may have
}

func (e *ChunkTooSmallError) Error() string {
	return fmt.Sprintf("%s: the entry at offset %d has %d bytes, and a chunk at most %d", e.Partition, e.Offset, e.Entry, e.Max)
}

// A MessageTooLargeError refuses a message; nothing of its append was written.
type MessageTooLargeError struct {
	Partition  TopicPartition
	Index      int // of the message in its append
	Bytes, Max int // of the payload
}

func (e *MessageTooLargeError) Error() string {
	return fmt.Sprintf("%s: message %d has %d bytes, and may have %d", e.Partition, e.Index, e.Bytes, e.Max)
}

// A FailedError means that the log's disk failed it; nothing is written any more until it is opened anew.
type FailedError struct {
	Partition TopicPartition
	Err       error
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("%s: log failed: %v", e.Partition, e.Err)
}
func (e *FailedError) Unwrap() error { return e.Err }

// A DirError says what is wrong with a directory as a whole.
type DirError struct {
	Dir string
	Err error
}

func (e *DirError) Error() string { return fmt.Sprintf("%s: %v", e.Dir, e.Err) }
func (e *DirError) Unwrap() error { return e.Err }

// errClosed is what a closed log says.
var errClosed = errors.New("the log is closed")
