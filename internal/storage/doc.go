// Package storage keeps the logs of partitions on disk, in the files and bytes of Apache Kafka. A Log is a run of
// segments, and only the last of them, the active one, grows. A Manager owns the data directories and the logs in them.
// Between calls:
//
//	I1  a segment's base offset is the end offset of the segment before it, or lies beyond it (compaction leaves gaps)
//	I2  every byte below the recovery point has been fsynced
//	I3  log start offset <= recovery point <= log end offset; log start offset never falls except by TruncateFullyAndStartAt
//	I4  an index is a hint: delete it, and Open rebuilds it from the .log file
//	I5  readers see an immutable list of segments and whole batches only, up to the end offset published last
//	I6  an append that failed left nothing behind: neither bytes that a read or a restart would show, nor a producer's
//	    state, nor an offset; when it cannot be undone the log is failed, and every later call says so
//	I7  a file is unlinked only after its name ended in .deleted, and read on by those who hold a Region of it
//	I8  of leader-epoch-checkpoint, every line that begins below the recovery point is durable; a recovery reads the others
//	    from the batches beyond it
//	I9  compaction changes no record, offset, or order: each segment's list entry is replaced whole, by one durable swap, and a crash at
//	    any point leaves what was or what is
//	I10 decisions about deleting and cleaning are functions of a log's state and the time, and are explained by the same rules
//
// One goroutine at a time appends or truncates (mu), any number read without a lock. Replication, sockets, and Kafka's
// error codes are not known here: it deals in bytes, offsets and epochs.
package storage

import (
	"fmt"

	"github.com/quire-log/quire/internal/record"
)

type (
	// Offset and Epoch are record's, named here for short.
	Offset = record.Offset
	Epoch  = record.Epoch
)

// A TopicPartition names a partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

func (tp TopicPartition) String() string { return fmt.Sprintf("%s-%d", tp.Topic, tp.Partition) }

// A TopicID is a topic's uuid; its text is 22 characters of unpadded base64url.
type TopicID [16]byte
