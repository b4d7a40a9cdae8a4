package storage

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quire-log/quire/internal/segments"
	"github.com/quire-log/quire/internal/vfs"
)

// LogOptions say how a log is opened.
type LogOptions struct {
	FS        vfs.FS
	Dir       string // the partition's directory, such as /data/orders-3; created if missing
	Partition TopicPartition
	TopicID   TopicID // zero: not known; else written to partition.metadata before the first byte of data, and compared with what is there
	// TopicIDRead: TopicID is what partition.metadata says, a moment ago.
	TopicIDRead bool
	Config      Config
	// What the data directory's checkpoints say. Clean is whether it was stopped cleanly.
	Clean         bool
	RecoveryPoint Offset
	LogStart      Offset
	// Doubted: an fsync may have failed since the files were written, so that what lies beyond RecoveryPoint is written again.
	Doubted bool
	// Metadata: the log is the metadata log's (always recovered whole, never expires producers).
	Metadata bool
	// SyncParent makes the names in the directory that holds Dir durable: several logs may share an fsync. nil: each has its own.
	SyncParent func() error
	// DiskFull, while it is true, has clients' appends refused with a *DiskFullError. May be nil.
	DiskFull *atomic.Bool
	// Failed is called once, when the log fails; under its lock. May be nil.
	Failed func()
	// Compacts is called when SetConfig makes compaction due sooner than it was. May be nil.
	Compacts func()
	Events   func(Event) // rolls, recoveries, truncations, deletions, each with its cause; may be nil; must not block
}

// A Log is the log of one partition. All methods may be called from any goroutine.
//
// Its bytes are published in this order: written to the file, then end rises, then the active segment's size. So whoever reads
// a size first and end after it finds no byte within the size that belongs to an offset at or beyond end (I5).
type Log struct {
	partition TopicPartition
	name      string // partition's, as messages have it
	metadata  bool
	events    func(Event)
	failed    func()       // see LogOptions
	compacts  func()       // see LogOptions
	diskFull  *atomic.Bool // see LogOptions
	at        *place
	topicID   TopicID
	// syncParent makes the name of the log's own directory durable.
	syncParent func() error

	config        atomic.Pointer[Config]
	segments      segments.List[*segment] // immutable, ascending; never empty; the last is active
	end           atomic.Int64            // log end offset
	start         atomic.Int64            // log start offset
	recoveryPoint atomic.Int64
	anyAborted    atomic.Bool // some segment has, or had, a .txnindex
	failure       atomic.Pointer[FailedError]
	flushed       atomic.Int64 // ms; when the last flush ended, or the log was opened
	future        futureClock

	epochs *epochCache // changed under mu
	// mu guards the fields below and all that changes the log: appends, rolls, truncations, deletions. It is held over writes,
	// not over fsyncs of data. indexMu and the segments' locks may be taken under it.
	mu            sync.Mutex
	closed        bool
	active        activeSegment
	producers     *producers
	verifications map[int64]*Verification // by producer id: of those who may be about to open a transaction; nil: none yet
	synced        Offset                  // every byte below is fsynced: what the recovery point was before a raised log start pushed it up
	renamed       bool                    // names of segments were taken away since the last fsync of the directory
	truncations   uint64                  // how often bytes were taken back: an fsync that began before proves nothing after

	// indexMu serialises loading and rebuilding closed segments' indexes. It may be taken under mu.
	indexMu sync.Mutex

	deletions  deletionQueue
	syncs      segments.SyncGroup
	background segments.Background
}

// An activeSegment is what appending needs to know of the last segment, which it holds open.
type activeSegment struct {
	seg          *segment
	file         vfs.File
	offsets      *indexFile
	times        *indexFile
	sinceIndex   int64 // bytes since the last index entry
	firstTime    int64 // the first batch's greatest time, which time-based rolls count from
	hasFirstTime bool
	opened       int64 // ms; when it was created, or opened
	jitterMs     int64
	named        bool // its name is durable
}

// list returns the segments.
func (l *Log) list() []*segment { return l.segments.Load() }

// event tells whoever listens about a decision.
func (l *Log) event(kind string, offset Offset, format string, args ...any) {
	if l.events != nil {
		l.events(Event{Partition: l.partition, Kind: kind, Offset: offset, Cause: fmt.Sprintf(format, args...)})
	}
}

func nowMs() int64 { return time.Now().UnixMilli() }

// usable is nil, or why nothing can be done any more. mu is held by those who change the log.
func (l *Log) usable() error {
	if err := l.failure.Load(); err != nil {
		return err
	}
	if l.closed {
		return &FailedError{l.partition, errClosed}
	}
	return nil
}

// errClosed is what a closed log says.
var errClosed = errors.New("the log is closed")

// fail ends the log for good: what is on disk is no longer known.
func (l *Log) fail(err error) error {
	f := &FailedError{l.partition, err}
	if !l.failure.CompareAndSwap(nil, f) {
		return l.failure.Load()
	}
	if l.failed != nil {
		l.failed()
	}
	return f
}

// diskError makes the error of a write that left nothing behind: a full disk may be tried again, all else is final.
func (l *Log) diskError(err error) error {
	var failed *FailedError
	if errors.As(err, &failed) {
		return err
	}
	if isDiskFull(err) {
		return &DiskFullError{l.partition, err}
	}
	return l.fail(err)
}

func (l *Log) StartOffset() Offset       { return Offset(l.start.Load()) }
func (l *Log) EndOffset() Offset         { return Offset(l.end.Load()) }
func (l *Log) RecoveryPoint() Offset     { return Offset(l.recoveryPoint.Load()) }
func (l *Log) Config() Config            { return *l.config.Load() }
func (l *Log) Dir() string               { return *l.at.dir.Load() } // its directory, now
func (l *Log) TopicID() TopicID          { return l.topicID }        // zero: none was ever given
func (l *Log) Partition() TopicPartition { return l.partition }

// SetConfig acts at once, on a cleaning under way too.
func (l *Log) SetConfig(c Config) {
	old := l.config.Swap(&c)
	if l.compacts != nil && c.Compact && (!old.Compact || c.MinCleanableDirtyRatio < old.MinCleanableDirtyRatio ||
		c.MinCompactionLagMs < old.MinCompactionLagMs || c.MaxCompactionLagMs < old.MaxCompactionLagMs) {
		l.compacts()
	}
}

// LastFlush is when the log was last fsynced as a whole, or opened: what flush.ms counts from.
func (l *Log) LastFlush() time.Time { return time.UnixMilli(l.flushed.Load()) }

// Err is nil, or why the log failed for good.
func (l *Log) Err() error {
	if err := l.failure.Load(); err != nil {
		return err
	}
	return nil
}

// LastStableOffset is the first offset of the earliest open transaction (or one whose marker is not below hw), at most hw.
// What lies below the log start holds nothing back.
func (l *Log) LastStableOffset(hw Offset) Offset {
	stable := l.producers.txns.lastStable(hw)
	if stable == hw {
		return hw
	}
	return min(max(stable, l.StartOffset()), hw)
}

// Bounds are what a log holds, all of one moment: Start <= Stable <= HighWatermark <= End.
type Bounds struct {
	Start, Stable, HighWatermark, End Offset
}

// Bounds asks for the high watermark in the same moment. It waits for an append that writes, but not for one that fsyncs.
func (l *Log) Bounds(highWatermark func() Offset) Bounds {
	// Start and end change under mu alone, and the high watermark is raised to ends that were, so none of them overtakes another here.
	l.mu.Lock()
	defer l.mu.Unlock()
	b := Bounds{Start: l.StartOffset(), End: l.EndOffset()}
	b.HighWatermark = min(highWatermark(), b.End) // a log that lost its tail begins with a high watermark beyond it
	b.Start = min(b.Start, b.HighWatermark)
	b.Stable = l.LastStableOffset(b.HighWatermark)
	return b
}

// AssignEpoch begins a leader's reign at the log's end. Nothing is written yet: see epochCache.
func (l *Log) AssignEpoch(e Epoch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	l.epochs.assign(e, l.EndOffset())
	return nil
}

// LatestEpoch is the newest in the epoch cache, -1 if there is none. EpochAt is the epoch that offset was written in, -1 unknown.
func (l *Log) LatestEpoch() Epoch          { return l.epochs.latest() }
func (l *Log) EpochAt(offset Offset) Epoch { return l.epochs.epochAt(offset) }

// EndOffsetForEpoch answers OffsetForLeaderEpoch: the largest epoch known that is not above e, and where it ends. (-1, -1): unknown.
func (l *Log) EndOffsetForEpoch(e Epoch) (Epoch, Offset) { return l.epochs.endOf(e, l.EndOffset()) }

// Size is the bytes of all .log files.
func (l *Log) Size() int64 {
	var n int64
	for _, s := range l.list() {
		n += s.size.Load()
	}
	return n
}

// FirstSegment is the base offset of the oldest segment.
func (l *Log) FirstSegment() Offset { return l.list()[0].base }

// A SegmentInfo describes a segment as it is now.
type SegmentInfo struct {
	BaseOffset       Offset
	Bytes            int64
	LargestTimestamp int64 // ms; the file's time when no record has one
	Active           bool
}

// Segments lists the segments, the oldest first.
func (l *Log) Segments() []SegmentInfo {
	list := l.list()
	infos := make([]SegmentInfo, len(list))
	for i, s := range list {
		ms, _ := l.retentionTime(s)
		infos[i] = SegmentInfo{s.base, s.size.Load(), ms, i == len(list)-1}
	}
	return infos
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

// Producers lists those with state, for DescribeProducers, in no order.
func (l *Log) Producers() []ProducerInfo {
	l.mu.Lock()
	defer l.mu.Unlock()
	infos := make([]ProducerInfo, 0, len(l.producers.byID))
	for _, p := range l.producers.byID {
		infos = append(infos, p.info())
	}
	return infos
}

// ExpireProducers forgets producers that wrote nothing for producer.id.expiration.ms.
func (l *Log) ExpireProducers() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.producers.expire(l.expired())
	l.forgetVerifications()
}

// expired tells which producers are to be forgotten now: not those with an open transaction, nor any of the metadata log's.
func (l *Log) expired() func(*producer) bool {
	now, limit := nowMs(), l.config.Load().ProducerExpirationMs
	return func(p *producer) bool {
		return !l.metadata && p.txnStart < 0 && now-p.lastTimestamp >= limit
	}
}

// Close flushes, cuts preallocated files to their content, writes the producer snapshot and window at the log's end, and closes. Nothing is left running.
func (l *Log) Close() error {
	l.background.Stop()
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return l.Err()
	}
	if err := l.Err(); err != nil {
		l.shut()
		l.mu.Unlock()
		return err
	}
	l.mu.Unlock()

	err := l.Flush()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return err
	}
	if err == nil {
		err = l.finishClose()
	}
	l.shut()
	if err != nil {
		return l.diskError(err)
	}
	return nil
}

// finishClose makes the directory what a clean start expects. mu is held.
func (l *Log) finishClose() error {
	before := l.producers.snapped
	if err := l.epochs.save(l.EndOffset()); err != nil {
		return err
	}
	if err := l.finishActive(true); err != nil {
		return err
	}
	if err := l.producers.snapshot(true); err != nil {
		return err
	}
	if err := l.producers.saveWindow(); err != nil {
		return err
	}
	if l.producers.snapped != before || !l.active.named {
		return l.at.fs.SyncDir(l.Dir())
	}
	return nil
}

// Abandon closes without writing anything, as after a failure.
func (l *Log) Abandon() {
	l.background.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shut()
}

// shut closes what is open: regions that readers hold stay good. mu is held.
func (l *Log) shut() {
	if l.closed {
		return
	}
	l.closed = true
	if l.active.seg != nil {
		l.active.seg.release()
	}
	for _, s := range l.list() {
		s.retire()
	}
}

// MarkDeleted renames the log's directory to its -delete form (durably); the caller removes it later.
func (l *Log) MarkDeleted(newDir string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.at.fs.Rename(l.Dir(), newDir); err != nil {
		return l.diskError(err)
	}
	l.at.dir.Store(&newDir)
	if err := l.syncParent(); err != nil {
		return l.fail(err)
	}
	return nil
}
