package storage

import (
	"context"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

// LogOptions say how a log is opened.
type LogOptions struct {
	FS        vfs.FS
	Dir       string // the partition's directory, such as /data/orders-3; created if missing
	Partition TopicPartition
	TopicID   TopicID // zero: not known; else written to partition.metadata before the first byte of data, and compared with what is there
	Config    Config
	// What the data directory's checkpoints say. Clean is whether it was stopped cleanly.
	Clean         bool
	RecoveryPoint Offset
	LogStart      Offset
	// KeepAll: the log is the metadata log's (always recovered whole, never expires producers).
	Metadata bool
	Events   func(Event) // rolls, recoveries, truncations, deletions, each with its cause; may be nil; must not block
}

// A Log is the log of one partition. All methods may be called from any goroutine.
type Log struct{ unwritten struct{} }

// OpenLog opens or creates a log, recovering what must be. When it returns, everything that it created is fsynced, names too.
func OpenLog(o LogOptions) (*Log, error) { panic("unwritten") }

// An Origin is who made a batch.
type Origin int

const (
	FromClient      Origin = iota // validated by every rule
	FromCoordinator               // control batches allowed; times and bytes kept
)

// AppendOptions go with an append of the leader.
type AppendOptions struct {
	LeaderEpoch Epoch
	Origin      Origin
	// VerifyUnknownProducer: a producer that this log does not know must begin at sequence 0 (transactions v2).
	VerifyUnknownProducer bool
}

// Appended is where a batch went.
type Appended struct {
	BaseOffset, LastOffset Offset
	LogAppendTime          int64 // ms; -1 unless the topic's times are the broker's; for a duplicate, the first one's
	LogStart               Offset
	Duplicate              bool // nothing was written: the offsets are those of the first time
}

// Append writes one batch at the end, with its base offset, epoch and, by the topic's rules, times stamped in. batch is changed in place
// and not kept. Errors: *record.InvalidError, *SequenceError, *RecordListTooLargeError, *FailedError.
// When flush.messages demands it, it returns only after an fsync that covers the batch (concurrent appends share one).
func (l *Log) Append(batch record.Batch, o AppendOptions) (Appended, error) { panic("unwritten") }

// AppendAsFollower writes batches as they are: offsets at or beyond the end, rising, gaps allowed.
func (l *Log) AppendAsFollower(batches []byte) (Appended, error) { panic("unwritten") }

// A Data is what a read found: whole bytes of .log files. Release it once, after the last use of its regions.
type Data struct {
	Regions []vfs.Region // in order; today one, since an answer ends at its segment's end
	Size    int64        // bytes of all regions
	// First is the base offset of the first batch, at or below the offset asked for.
	First Offset
	// UpperBound bounds the offsets that may be in Size bytes: for AbortedTransactions.
	UpperBound Offset
	release    func()
}

// Release lets go of the files. It may be called on the zero Data.
func (d *Data) Release() { panic("unwritten") }

// ReadOptions bound a read.
type ReadOptions struct {
	MaxBytes int64
	// Limit is the first offset not to be shown: high watermark, last stable offset, or log end.
	Limit Offset
	// MinOneBatch: the first batch is returned whole though it exceeds MaxBytes.
	MinOneBatch bool
}

// Read finds the batch that holds offset, or the next after it, and returns it and what follows within the bounds. Empty at Limit.
// *OutOfRangeError when offset < log start or > log end.
func (l *Log) Read(offset Offset, o ReadOptions) (Data, error) { panic("unwritten") }

// An AbortedTransaction is a producer's transaction that ended in abort.
type AbortedTransaction struct {
	ProducerID  int64
	FirstOffset Offset
}

// AbortedTransactions lists those that overlap [from, upperBound), in the order in which they ended.
func (l *Log) AbortedTransactions(from, upperBound Offset) ([]AbortedTransaction, error) {
	panic("unwritten")
}

// A TimestampOffset answers a lookup by time; Offset -1, Timestamp -1: none.
type TimestampOffset struct {
	Offset      Offset
	Timestamp   int64
	LeaderEpoch Epoch // -1 unknown
}

// OffsetForTime finds the first record at or after ms, not below the log start. OffsetOfMaxTimestamp finds the first record with the greatest time.
func (l *Log) OffsetForTime(ms int64) (TimestampOffset, error) { panic("unwritten") }
func (l *Log) OffsetOfMaxTimestamp() (TimestampOffset, error)  { panic("unwritten") }
func (l *Log) StartOffset() Offset                             { panic("unwritten") }
func (l *Log) EndOffset() Offset                               { panic("unwritten") }
func (l *Log) RecoveryPoint() Offset                           { panic("unwritten") }

// LastStableOffset is the first offset of the earliest open transaction (or one whose marker is not below hw), at most hw.
func (l *Log) LastStableOffset(hw Offset) Offset { panic("unwritten") }

// AssignEpoch begins a leader's reign at the log's end: durable when it returns.
func (l *Log) AssignEpoch(e Epoch) error { panic("unwritten") }

// LatestEpoch is the newest in the epoch cache, -1 if there is none. EpochAt is the epoch that offset was written in, -1 unknown.
func (l *Log) LatestEpoch() Epoch          { panic("unwritten") }
func (l *Log) EpochAt(offset Offset) Epoch { panic("unwritten") }

// EndOffsetForEpoch answers OffsetForLeaderEpoch: the largest epoch known that is not above e, and where it ends. (-1, -1): unknown.
func (l *Log) EndOffsetForEpoch(e Epoch) (Epoch, Offset) { panic("unwritten") }

// Truncate cuts the log so that it ends at or before offset. TruncateFullyAndStartAt empties it.
func (l *Log) Truncate(offset Offset) error                { panic("unwritten") }
func (l *Log) TruncateFullyAndStartAt(offset Offset) error { panic("unwritten") }

// DeleteRecords raises the log start offset to offset, never lowers it, and returns the log start. Whole segments below it go with DeleteOldSegments.
func (l *Log) DeleteRecords(offset Offset) (Offset, error) { panic("unwritten") }

// DeleteOldSegments applies retention (log start, size, time: facts log-behaviour.md §8) to segments wholly below hw; it returns how many went.
func (l *Log) DeleteOldSegments(hw Offset) (int, error) { panic("unwritten") }

// Flush fsyncs everything below the end offset and moves the recovery point there. Concurrent calls share an fsync.
func (l *Log) Flush() error { panic("unwritten") }

// Roll closes the active segment, if it holds anything, and begins the next.
func (l *Log) Roll() error { panic("unwritten") }

func (l *Log) SetConfig(c Config)        { panic("unwritten") }
func (l *Log) Config() Config            { panic("unwritten") }
func (l *Log) Size() int64               { panic("unwritten") } // bytes of all .log files
func (l *Log) Segments() []SegmentInfo   { panic("unwritten") }
func (l *Log) Dir() string               { panic("unwritten") } // its directory, now
func (l *Log) TopicID() TopicID          { panic("unwritten") } // zero: none was ever given
func (l *Log) Producers() []ProducerInfo { panic("unwritten") } // those with state, for DescribeProducers
// ExpireProducers forgets producers that wrote nothing for producer.id.expiration.ms.
func (l *Log) ExpireProducers() { panic("unwritten") }

// A SegmentInfo describes a segment as it is now.
type SegmentInfo struct {
	BaseOffset       Offset
	Bytes            int64
	LargestTimestamp int64 // ms; the file's time when no record has one
	Active           bool
}

// A ProducerInfo is what a log knows of a producer.
type ProducerInfo struct {
	ProducerID       int64
	ProducerEpoch    int16
	LastSequence     int32
	LastTimestamp    int64
	CoordinatorEpoch int32
	CurrentTxnStart  Offset // -1: none open
}

// Close flushes, cuts preallocated files to their content, writes the producer snapshot at the log's end, and closes. Nothing is left running.
// Abandon closes without writing anything, as after a failure.
func (l *Log) Close() error { panic("unwritten") }
func (l *Log) Abandon()     { panic("unwritten") }

// MarkDeleted renames the log's directory to its -delete form (durably); the caller removes it later.
func (l *Log) MarkDeleted(newDir string) error { panic("unwritten") }

// Err is nil, or why the log failed for good.
func (l *Log) Err() error { panic("unwritten") }

var _ context.Context
