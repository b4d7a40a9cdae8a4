package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math"
	"path"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/quire-log/quire/internal/segments"
	"github.com/quire-log/quire/internal/vfs"
)

// ManagerOptions say where logs live and how they are kept. Times are milliseconds; an interval that is zero, negative or beyond 292 years
// is never.
type ManagerOptions struct {
	FS   vfs.FS
	Dirs []string // log.dirs
	// MetadataDir is the one that holds __cluster_metadata-0; default Dirs[0].
	MetadataDir string
	// MetadataRequired: partitions without a metadata log are refused, since nothing tells what they are.
	MetadataRequired bool
	// Locks, if not nil, are what LockDirs took; those of the directories belong to the Manager once it is open.
	Locks     *DirLocks
	NodeID    int32
	ClusterID string // compared with what the directories say; "": whatever they agree on

	RecoveryThreads           int   // num.recovery.threads.per.data.dir
	FlushCheckpointMs         int64 // log.flush.offset.checkpoint.interval.ms
	LogStartCheckpointMs      int64 // log.flush.start.offset.checkpoint.interval.ms
	HighWatermarkCheckpointMs int64 // replica.high.watermark.checkpoint.interval.ms
	FlushSchedulerMs          int64 // log.flush.scheduler.interval.ms
	RetentionCheckMs          int64 // log.retention.check.interval.ms
	InitialTaskDelayMs        int64 // log.initial.task.delay.ms
	ProducerExpirationCheckMs int64 // producer.id.expiration.check.interval.ms
	// SegmentDeleteDelayMs is log.segment.delete.delay.ms, of directories of deleted partitions, until SetDeleteDelay.
	SegmentDeleteDelayMs int64
	// Cleaner is how compaction works until SetCleaner; the zero one cleans nothing.
	Cleaner CleanerConfig
	Disk    DiskOptions // when a directory counts as full
	// DiskPercent is retention.disk.percent until SetDiskPercent; 0: no limit.
	DiskPercent float64
	// ConfigFor gives the settings of a topic; it is asked when a log is opened. nil: the defaults.
	ConfigFor func(topic string) Config
	Events    func(Event) // may be nil; must not block
	// Returned is called after logs or directories that had failed are in use again, so that who serves partitions asks for their logs
	// anew. May be nil. The Manager holds no lock while it runs, and waits for it when it closes.
	Returned func()
	// HighWatermark tells a partition's, for retention and the checkpoint; nil, false: unknown, and what the last stop knew counts.
	// The Manager holds no lock while it runs.
	HighWatermark func(TopicPartition) (Offset, bool)
	Log           *slog.Logger // nil: discard
}

// A Manager owns the data directories: their locks, meta.properties, checkpoints, clean marks, and all logs; the metadata log is not among
// those that its methods list. Between calls:
//
//	M1  a directory has a clean mark only while none of its logs is open, and all that was acknowledged in it is fsynced and indexed
//	M2  a recovery point on disk never lies beyond what its log has fsynced, nor is of an earlier log of that name
//	M3  a log that could not be opened keeps its files and its checkpoint entries, and no other takes its place
//	M4  nothing is removed but -delete directories and temporary files of Kafka's own; what is foreign or unknown to metadata is named and kept
//
// Locks are taken in this order: a stripe, a directory's mu, mu; no disk and no callback under mu.
type Manager struct {
	o             ManagerOptions
	log           *slog.Logger
	dirs          []*dataDir // those of o.Dirs and, last, a metadata directory that is not among them
	metadataDir   *dataDir
	meta          Meta
	previousEpoch int64

	// stripes make the creation and the deletion of one partition follow each other.
	stripes [64]sync.Mutex
	seed    maphash.Seed

	mu     sync.RWMutex // guards the fields below
	logs   map[TopicPartition]*heldLog
	failed map[TopicPartition]failedLog // those that could not be opened
	// restored are the high watermarks of the last stop.
	restored    map[TopicPartition]Offset
	metadataLog *Log
	keep        func(TopicPartition, TopicID) bool // of LoadLogs
	started     bool
	ended       bool

	cleaner     *cleaner
	diskPercent atomic.Uint64 // the bits of a float64
	deleteDelay atomic.Int64  // ms
	remover     removals
	prober      *prober
	stop        context.CancelFunc // of the background loops
	loops       sync.WaitGroup
}

// A heldLog is an open log and what the Manager remembers of it.
type heldLog struct {
	tp  TopicPartition
	log *Log
	dir *dataDir

	// saved is what each checkpoint file has of it, and next what is being written. Guarded by dir.mu.
	saved [checkpointKinds]savedOffset
	next  savedOffset

	// watermark is the high watermark as last heard, of the last stop to begin with; -1: unknown.
	watermark atomic.Int64
}

type savedOffset struct {
	offset Offset
	ok     bool // there is an entry
}

// A failedLog is a partition whose log could not be opened; its files stay as they are.
type failedLog struct {
	dir  *dataDir
	name string // of its directory
	err  error
	// doubted: see Manager.open.
	doubted bool
}

// A DirsOfflineError refuses to make a log that may exist on a directory that cannot be read: a second, empty one would take its place.
type DirsOfflineError struct {
	Partition TopicPartition
	Dirs      []string
}

func (e *DirsOfflineError) Error() string {
	return fmt.Sprintf("%s: cannot make a log, because log directories %v are offline and may hold it", e.Partition, e.Dirs)
}

// A TopicIDError means that a partition's directory belongs to another topic of the same name.
type TopicIDError struct {
	Partition  TopicPartition
	Have, Want TopicID
}

func (e *TopicIDError) Error() string {
	return fmt.Sprintf("%s: the log on disk has topic id %v, not %v", e.Partition, e.Have, e.Want)
}

// OpenManager locks the directories, unless they are locked, and reads them (formatting none: see Format), deletes leftovers, and removes the clean marks, but opens no log yet.
// Errors say which directory and what to do. A directory that cannot be read is offline, and no error as long as another can and the
// metadata directory is not it.
func OpenManager(o ManagerOptions) (_ *Manager, err error) {
	if len(o.Dirs) == 0 {
		return nil, errors.New("no data directory is configured: set log.dirs")
	}
	if o.MetadataDir == "" {
		o.MetadataDir = o.Dirs[0]
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.ConfigFor == nil {
		o.ConfigFor = func(string) Config { return DefaultConfig() }
	}
	if o.Returned == nil {
		o.Returned = func() {}
	}
	if o.Events == nil {
		o.Events = func(Event) {}
	}
	o.FS = segments.Sparing(o.FS)
	m := &Manager{
		o:        o,
		log:      o.Log,
		seed:     maphash.MakeSeed(),
		logs:     map[TopicPartition]*heldLog{},
		failed:   map[TopicPartition]failedLog{},
		restored: map[TopicPartition]Offset{},
		prober:   newProber(),
	}
	m.cleaner = newCleaner(m)
	m.cleaner.cfg = o.Cleaner
	m.SetDiskPercent(o.DiskPercent)
	m.SetDeleteDelay(o.SegmentDeleteDelayMs)
	defer func() {
		if err != nil {
			err = errors.Join(err, m.unlock())
		}
	}()
	if err := m.openDirs(); err != nil {
		return nil, err
	}
	if err := m.checkDirs(); err != nil {
		return nil, err
	}
	if err := m.beginDirs(); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *Manager) openDirs() error {
	paths := slices.Clone(m.o.Dirs)
	if !slices.Contains(paths, m.o.MetadataDir) {
		paths = append(paths, m.o.MetadataDir)
	}
	for i, p := range paths {
		if slices.Contains(paths[:i], p) {
			return &DirError{p, errors.New("is listed twice in log.dirs")}
		}
		d, err := openDir(m.o.FS, m.log, p, m.o.Locks)
		if err != nil {
			return err
		}
		d.failed = m.prober.rouse
		if i >= len(m.o.Dirs) {
			d.metadataOnly = true
			d.found.live = slices.DeleteFunc(d.found.live, func(f foundDir) bool { return f.tp.Topic != metadataTopic })
			d.found.deleted = nil
		}
		m.dirs = append(m.dirs, d)
		if p == m.o.MetadataDir {
			m.metadataDir = d
		}
	}
	return nil
}

// checkDirs looks for what must not be, before anything is changed.
func (m *Manager) checkDirs() (err error) {
	if err := m.metadataDir.offline(); err != nil {
		return &DirError{m.metadataDir.path, fmt.Errorf("the metadata directory cannot be used: %w", err)}
	}
	if m.fewestPartitions(nil) == nil {
		return &DirError{m.dirs[0].path, fmt.Errorf("no directory of log.dirs can be used: %w", m.dirs[0].offline())}
	}
	if m.meta, err = checkMetas(m.dirs, m.o.NodeID, m.o.ClusterID); err != nil {
		return err
	}
	holders := make(map[TopicPartition]*dataDir)
	for _, d := range m.dirs {
		for _, f := range d.found.live {
			if f.tp.Topic == metadataTopic {
				if d != m.metadataDir || f.tp != MetadataPartition {
					return &DirError{d.path, fmt.Errorf("found %s, which belongs into the metadata directory %s alone: set metadata.log.dir to where the metadata log is, or move the other away", f.name, m.metadataDir.path)}
				}
				continue
			}
			if other := holders[f.tp]; other != nil {
				return &DirError{d.path, fmt.Errorf("found %s, and in %s too: move away the one that is not wanted", f.name, other.path)}
			}
			holders[f.tp] = d
		}
		d.found.live = slices.DeleteFunc(d.found.live, func(f foundDir) bool { return f.tp == MetadataPartition })
	}
	return m.checkMetadataLog()
}

func (m *Manager) beginDirs() error {
	m.previousEpoch = -1
	first := true
	for _, d := range m.dirs {
		if d.offline() != nil {
			continue
		}
		d.freeForStart(m.o.Disk)
		err := d.begin()
		if err == nil && d.meta.DirectoryID == (TopicID{}) {
			meta := Meta{ClusterID: m.meta.ClusterID, NodeID: m.meta.NodeID, DirectoryID: RandomID()}
			if err = writeMeta(m.o.FS, d.path, meta); err == nil {
				d.meta = meta
			}
		}
		if err != nil {
			if d == m.metadataDir {
				return &DirError{d.path, fmt.Errorf("the metadata directory cannot be used: %w", err)}
			}
			d.fail(err)
			continue
		}
		if d.metadataOnly {
			continue
		}
		if first {
			m.previousEpoch, first = d.brokerEpoch, false
		} else if d.brokerEpoch != m.previousEpoch {
			m.previousEpoch = -1
		}
		for tp, offset := range d.checkpoints[highWatermarks].kept {
			m.restored[tp] = offset
		}
	}
	m.meta.DirectoryID = m.metadataDir.meta.DirectoryID
	return nil
}

// SetDeleteDelay changes for how many ms the directories of partitions that are deleted from now on stay.
func (m *Manager) SetDeleteDelay(ms int64) { m.deleteDelay.Store(ms) }

// Acting tells what SetCleaner, SetDiskPercent and SetDeleteDelay said last.
func (m *Manager) Acting() (c CleanerConfig, diskPercent float64, deleteDelayMs int64) {
	m.cleaner.mu.Lock()
	defer m.cleaner.mu.Unlock()
	return m.cleaner.cfg, math.Float64frombits(m.diskPercent.Load()), m.deleteDelay.Load()
}

func (m *Manager) stripe(tp TopicPartition) *sync.Mutex {
	h := maphash.Comparable(m.seed, tp)
	return &m.stripes[h%uint64(len(m.stripes))]
}

// Log returns an open log, or nil.
func (m *Manager) Log(tp TopicPartition) *Log {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if h := m.logs[tp]; h != nil {
		return h.log
	}
	return nil
}

// Logs returns all open logs, in no order.
func (m *Manager) Logs() []*Log {
	m.mu.RLock()
	defer m.mu.RUnlock()
	logs := make([]*Log, 0, len(m.logs))
	for _, h := range m.logs {
		logs = append(logs, h.log)
	}
	return logs
}

// heldIn appends the open logs of a directory, nil: of all.
func (m *Manager) heldIn(d *dataDir, held []*heldLog) []*heldLog {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, h := range m.logs {
		if d == nil || h.dir == d {
			held = append(held, h)
		}
	}
	return held
}

// CheckpointedHighWatermark is what replication-offset-checkpoint said at the start; 0 if nothing.
func (m *Manager) CheckpointedHighWatermark(tp TopicPartition) Offset {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.restored[tp]
}

// hearWatermark asks for a log's high watermark, and keeps it.
func (m *Manager) hearWatermark(h *heldLog) {
	if m.o.HighWatermark != nil {
		if hw, ok := m.o.HighWatermark(h.tp); ok {
			h.watermark.Store(int64(hw))
		}
	}
}

// MetadataLog opens __cluster_metadata-0 in the metadata directory; Close of the manager closes it. Asked again, it returns the same.
func (m *Manager) MetadataLog(c Config) (*Log, error) {
	stripe := m.stripe(MetadataPartition)
	stripe.Lock()
	defer stripe.Unlock()
	m.mu.RLock()
	l, ended := m.metadataLog, m.ended
	m.mu.RUnlock()
	if l != nil || ended {
		if ended {
			return nil, errEnded
		}
		return l, nil
	}
	l, err := OpenLog(LogOptions{
		FS:        m.o.FS,
		Dir:       path.Join(m.metadataDir.path, MetadataPartition.String()),
		Partition: MetadataPartition,
		TopicID:   MetadataTopicID,
		Config:    c,
		Metadata:  true,
		Events:    m.o.Events,
	})
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.metadataLog = l
	return l, nil
}

// MetadataTopicID is the id of the metadata topic, in every cluster.
var MetadataTopicID = TopicID{15: 1}

// errEnded answers those who come after Close or Abort.
var errEnded = errors.New("the log manager is closed")

// Meta is what meta.properties says; its DirectoryID is the metadata directory's.
func (m *Manager) Meta() Meta { return m.meta }

// PreviousBrokerEpoch is the broker epoch in the clean marks of the last stop, -1 if it was not clean.
func (m *Manager) PreviousBrokerEpoch() int64 { return m.previousEpoch }

// A DirInfo describes a data directory.
type DirInfo struct {
	Path   string
	ID     TopicID // directory.id
	Usage  vfs.Usage
	Err    error // why it is offline; nil: it is not
	Logs   []*Log
	Failed map[TopicPartition]error // partitions whose log could not be opened, and why
}

// Dirs describes the data directories, in the order of log.dirs.
func (m *Manager) Dirs() []DirInfo {
	infos := make([]DirInfo, 0, len(m.o.Dirs))
	for _, d := range m.dirs[:len(m.o.Dirs)] {
		info := DirInfo{Path: d.path, ID: d.id(), Err: d.offline(), Failed: map[TopicPartition]error{}}
		if info.Err == nil {
			if usage, err := m.o.FS.Usage(d.path); err != nil {
				m.log.Warn("size of a data directory's volume is unknown", "directory", d.path, "error", err)
			} else {
				info.Usage = usage
			}
		}
		for _, h := range m.heldIn(d, nil) {
			info.Logs = append(info.Logs, h.log)
		}
		m.mu.RLock()
		for tp, f := range m.failed {
			if f.dir == d {
				info.Failed[tp] = f.err
			}
		}
		m.mu.RUnlock()
		infos = append(infos, info)
	}
	return infos
}

// Close stops the background work, closes every log, writes the checkpoints and, where all closed without error, the clean mark with brokerEpoch.
// The locks go last. Of several calls of Close and Abort only the first does anything.
func (m *Manager) Close(brokerEpoch int64) error {
	if !m.end() {
		return nil
	}
	errs := make([]error, len(m.dirs))
	var group sync.WaitGroup
	for i, d := range m.dirs {
		group.Go(func() { errs[i] = m.closeDir(d, brokerEpoch) })
	}
	group.Wait()
	return errors.Join(append(errs, m.unlock())...)
}

// end stops the background work. It is true once.
func (m *Manager) end() bool {
	m.mu.Lock()
	first := !m.ended
	m.ended = true
	stop := m.stop
	m.mu.Unlock()
	if !first {
		return false
	}
	if stop != nil {
		stop()
	}
	m.loops.Wait()
	for i := range m.stripes { // whoever makes or deletes a log is done after this, and nobody begins any more
		m.stripes[i].Lock()
		m.stripes[i].Unlock() //lint:ignore SA2001 waiting is all
	}
	m.remover.abandon()
	return true
}

func (m *Manager) closeDir(d *dataDir, brokerEpoch int64) error {
	if d.lock == nil {
		return nil
	}
	if d.metadataOnly {
		m.mu.RLock()
		metadata := m.metadataLog
		m.mu.RUnlock()
		if metadata != nil {
			return metadata.Close()
		}
		return nil
	}
	offline := d.offline()
	held := m.heldIn(d, nil)
	// The watermarks are asked for before the logs close: whoever knows them may look there.
	for _, h := range held {
		m.hearWatermark(h)
	}
	var group errgroup.Group // not WithContext: one that fails must not keep the others from closing
	group.SetLimit(max(1, m.o.RecoveryThreads))
	errs := make([]error, len(held)+1)
	for i, h := range held {
		group.Go(func() error {
			if err := h.log.Close(); err != nil {
				errs[i] = fmt.Errorf("%s: close: %w", h.tp, err)
			}
			return nil
		})
	}
	_ = group.Wait()
	m.mu.RLock()
	metadata, unrecovered := m.metadataLog, !d.loaded && !d.clean
	for _, f := range m.failed {
		unrecovered = unrecovered || f.dir == d
	}
	m.mu.RUnlock()
	if metadata != nil && d == m.metadataDir {
		errs[len(held)] = metadata.Close()
	}
	err := errors.Join(errs...)

	logs := func(into []*heldLog) []*heldLog { return append(into, held...) }
	err = errors.Join(err,
		d.write(recoveryPoints, logs, recoveryPoint),
		d.write(logStarts, logs, logStart),
		d.write(highWatermarks, logs, watermark),
		d.writeCleaner())
	switch {
	case offline != nil:
		m.log.Error("data directory is offline and not marked clean", "directory", d.path, "error", offline)
		return nil // that its logs failed was said when they did
	case err != nil:
		m.log.Error("data directory is not marked clean: the next start recovers its logs", "directory", d.path, "error", err)
		return err
	case unrecovered:
		m.log.Warn("data directory is not marked clean, for logs in it were not recovered", "directory", d.path)
		return nil
	}
	return writeCleanMark(m.o.FS, d.path, brokerEpoch)
}

// Abort ends everything as it is, writing nothing: what a second SIGTERM wants.
func (m *Manager) Abort() {
	if !m.end() {
		return
	}
	for _, h := range m.heldIn(nil, nil) {
		h.log.Abandon()
	}
	m.mu.RLock()
	metadata := m.metadataLog
	m.mu.RUnlock()
	if metadata != nil {
		metadata.Abandon()
	}
	if err := m.unlock(); err != nil {
		m.log.Warn("lock was not given back", "error", err)
	}
}

func (m *Manager) unlock() error {
	var errs []error
	for _, d := range m.dirs {
		errs = append(errs, d.unlock())
	}
	return errors.Join(errs...)
}

// claim is the directory to put a log in, nil if all but those of avoid are offline. The log counts among its claims until it is made.
func (m *Manager) claim(avoid []*dataDir) *dataDir {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.fewestPartitions(avoid)
	if d != nil {
		d.claims++
	}
	return d
}

// fewestPartitions is the directory with the fewest logs that can be used and is none of avoid, nil if there is none. mu is held, or nobody
// else has the Manager yet.
func (m *Manager) fewestPartitions(avoid []*dataDir) *dataDir {
	usable := slices.DeleteFunc(slices.Clone(m.dirs[:len(m.o.Dirs)]), func(d *dataDir) bool {
		return d.offline() != nil || slices.Contains(avoid, d)
	})
	if len(usable) == 0 {
		return nil
	}
	return slices.MinFunc(usable, func(a, b *dataDir) int { return cmp.Compare(a.partitions+a.claims, b.partitions+b.claims) })
}
