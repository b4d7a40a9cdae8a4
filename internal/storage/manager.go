package storage

import (
	"context"

	"github.com/quire-log/quire/internal/vfs"
)

// ManagerOptions say where logs live and how they are kept. Times are milliseconds.
type ManagerOptions struct {
	FS   vfs.FS
	Dirs []string // log.dirs
	// MetadataDir is the one that holds __cluster_metadata-0; default Dirs[0].
	MetadataDir string
	NodeID      int32
	ClusterID   string // when formatting an empty directory; "": a random one. Otherwise compared with what is there.

	RecoveryThreads           int   // num.recovery.threads.per.data.dir
	FlushCheckpointMs         int64 // log.flush.offset.checkpoint.interval.ms
	LogStartCheckpointMs      int64 // log.flush.start.offset.checkpoint.interval.ms
	HighWatermarkCheckpointMs int64 // replica.high.watermark.checkpoint.interval.ms
	FlushSchedulerMs          int64 // log.flush.scheduler.interval.ms
	RetentionCheckMs          int64 // log.retention.check.interval.ms
	InitialTaskDelayMs        int64 // log.initial.task.delay.ms
	ProducerExpirationCheckMs int64 // producer.id.expiration.check.interval.ms
	SegmentDeleteDelayMs      int64 // log.segment.delete.delay.ms: of directories of deleted partitions
	// ConfigFor gives the settings of a topic; it is asked when a log is opened.
	ConfigFor func(topic string) Config
	Events    func(Event)
	// HighWatermark tells a partition's, for retention and the checkpoint; nil, false: unknown.
	HighWatermark func(TopicPartition) (Offset, bool)
}

// A Manager owns the data directories: their locks, meta.properties, checkpoints, clean marks, and all logs but the metadata log.
type Manager struct{ unwritten struct{} }

// OpenManager locks and reads the directories (formatting none: see Format), deletes leftovers, and removes the clean marks, but opens no log yet.
// Errors say which directory and what to do.
func OpenManager(o ManagerOptions) (*Manager, error) { panic("unwritten") }

// LoadLogs opens every partition's log that it finds, several at a time, recovering where needed. keep tells what metadata says of a
// directory (topic id as found in partition.metadata, zero if none): false makes it -stray.
func (m *Manager) LoadLogs(ctx context.Context, keep func(tp TopicPartition, id TopicID) bool) error {
	panic("unwritten")
}

// Start begins the background work: flushing, checkpoints, retention, expiry of producers, removal of -delete directories.
func (m *Manager) Start() { panic("unwritten") }

// Log returns an open log, or nil.
func (m *Manager) Log(tp TopicPartition) *Log { panic("unwritten") }

// Logs returns all open logs, in no order.
func (m *Manager) Logs() []*Log { panic("unwritten") }

// CreateLog makes and opens a partition's log in the directory with the fewest partitions. An open log of the same topic id is returned as it is.
func (m *Manager) CreateLog(tp TopicPartition, id TopicID) (*Log, error) { panic("unwritten") }

// DeleteLog takes a partition away: its directory is renamed, its checkpoint entries go, and its files after log.segment.delete.delay.ms.
func (m *Manager) DeleteLog(tp TopicPartition) error { panic("unwritten") }

// CheckpointedHighWatermark is what replication-offset-checkpoint said at the start; 0 if nothing.
func (m *Manager) CheckpointedHighWatermark(tp TopicPartition) Offset { panic("unwritten") }

// MetadataLog opens __cluster_metadata-0 in the metadata directory; Close of the manager closes it.
func (m *Manager) MetadataLog(c Config) (*Log, error) { panic("unwritten") }

// Meta is what meta.properties says.
func (m *Manager) Meta() Meta { panic("unwritten") }

// PreviousBrokerEpoch is the broker epoch in the clean marks of the last stop, -1 if it was not clean.
func (m *Manager) PreviousBrokerEpoch() int64 { panic("unwritten") }

// Dirs describes the data directories.
func (m *Manager) Dirs() []DirInfo { panic("unwritten") }

// A DirInfo describes a data directory.
type DirInfo struct {
	Path  string
	ID    TopicID // directory.id
	Usage vfs.Usage
	Err   error // why it is offline; nil: it is not
	Logs  []*Log
}

// Close stops the background work, closes every log, writes the checkpoints and, where all closed without error, the clean mark with brokerEpoch. The locks go last.
func (m *Manager) Close(brokerEpoch int64) error { panic("unwritten") }

// Abort ends everything as it is, writing nothing: what a second SIGTERM wants.
func (m *Manager) Abort() { panic("unwritten") }

// A Meta is the content of meta.properties.
type Meta struct {
	ClusterID   string
	NodeID      int32
	DirectoryID TopicID
}

// Formatted tells whether dir has a meta.properties, and reads it.
func Formatted(fsys vfs.FS, dir string) (Meta, bool, error) { panic("unwritten") }

// Format writes dir's meta.properties and bootstrap.checkpoint (the latter's bytes are given), fsynced, the directory and its parent too.
func Format(fsys vfs.FS, dir string, meta Meta, bootstrap []byte) error { panic("unwritten") }
