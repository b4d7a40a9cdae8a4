package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/quire-log/quire/internal/segments"
	"github.com/quire-log/quire/internal/vfs"
)

// A dataDir is one of log.dirs.
type dataDir struct {
	fs   vfs.FS
	log  *slog.Logger
	path string
	lock io.Closer // nil while it has not been possible to take it; the start's, then the prober's

	found  catalog // at the start
	disk   diskWatch
	growth growth

	// failure is why the directory is offline, until it is taken back; failed is told then.
	failure atomic.Pointer[error]
	failed  func()
	// metadataOnly: it is no entry of log.dirs, and holds the metadata log alone.
	metadataOnly bool
	// partitions counts the logs here, open or failed, for the choice of a place; guarded by Manager.mu.
	partitions int
	// claims are logs that are being made here, so that many at once are spread over the directories; guarded by Manager.mu.
	claims int
	names  segments.SyncGroup
	// loaded: LoadLogs went through the whole directory. Guarded by Manager.mu.
	loaded bool

	// mu guards the fields below, and is held while they are written, so that none overtakes a newer one. Manager.mu may be taken under it.
	mu   sync.Mutex
	meta Meta
	// clean is whether it had a clean mark when it was read, and brokerEpoch what that said.
	clean       bool
	brokerEpoch int64
	checkpoints [checkpointKinds]checkpoint
	cleaner     checkpoint
	scratch     []*heldLog // of the last write, kept for its room
}

// A checkpointKind is one of the checkpoints that the Manager derives from the logs. The cleaner's, whose entries are the cleaner's to
// change, only loses those of deleted partitions.
type checkpointKind int

const (
	recoveryPoints checkpointKind = iota
	logStarts
	highWatermarks
	checkpointKinds
)

var checkpointFiles = [checkpointKinds]string{recoveryPointFile, logStartFile, highWatermarkFile}

// A checkpoint is a checkpoint file of a data directory.
type checkpoint struct {
	// kept are the entries that the file had at the start, of partitions whose logs are not open: not yet, or
	// because they failed. They are written again and again, lest a later start take such a log for a new one.
	kept map[TopicPartition]Offset
	// changed: entries of kept or of logs came or went since the file was written.
	changed bool
	// missing: there was no file at the start, nor is there yet. Kafka's tools and people look for one.
	missing bool
}

// catalog is what a data directory holds, as the start found it.
type catalog struct {
	live    []foundDir
	deleted []string // names of -delete directories
}

type foundDir struct {
	name string
	tp   TopicPartition
}

// ownLeftovers are the temporary files that a crash can leave in a data directory.
var ownLeftovers = []string{recoveryPointFile, logStartFile, highWatermarkFile, cleanerFile, metaFile, bootstrapFile, cleanMarkFile, probeFile}

// openDir locks and reads a directory and changes nothing in it. What the operating system refuses makes it an offline one; what
// is wrong with its content, or held by another, is an error.
func openDir(fsys vfs.FS, log *slog.Logger, name string, locks *DirLocks) (*dataDir, error) {
	d := &dataDir{fs: fsys, log: log, path: name, brokerEpoch: -1}
	for i := range d.checkpoints {
		d.checkpoints[i].kept = map[TopicPartition]Offset{}
	}
	d.cleaner.kept = map[TopicPartition]Offset{}
	if _, err := fsys.Stat(name); err != nil {
		d.fail(err)
		return d, nil
	}
	var err error
	if d.lock, err = locks.take(fsys, name); err != nil {
		var taken *DirError
		if errors.As(err, &taken) {
			return nil, err
		}
		d.fail(err)
		return d, nil
	}
	if err := d.read(); err != nil {
		var content *DirError
		if errors.As(err, &content) {
			return nil, errors.Join(err, d.unlock())
		}
		d.fail(err)
	}
	return d, nil
}

func (d *dataDir) unlock() error {
	if d.lock == nil {
		return nil
	}
	lock := d.lock
	d.lock = nil
	return lock.Close()
}

func (d *dataDir) read() error {
	meta, formatted, err := Formatted(d.fs, d.path)
	if err != nil {
		return err
	}
	if !formatted {
		return &DirError{d.path, fmt.Errorf("no `%s` found in %s (%s)", metaFile, d.path, formatHint)}
	}
	d.meta = meta
	if d.brokerEpoch, d.clean, err = readCleanMark(d.fs, d.path); err != nil {
		return err
	}
	for kind, name := range checkpointFiles {
		c := &d.checkpoints[kind]
		if c.kept, c.missing, err = d.readCheckpoint(name); err != nil {
			return err
		}
	}
	if d.cleaner.kept, _, err = d.readCheckpoint(cleanerFile); err != nil {
		return err
	}
	return d.list()
}

// readCheckpoint takes a malformed file for an empty one: recovery then begins at the front of each log, and logs start at their first segment.
func (d *dataDir) readCheckpoint(name string) (_ map[TopicPartition]Offset, missing bool, _ error) {
	offsets, err := readOffsetCheckpoint(d.fs, path.Join(d.path, name))
	var malformed *CheckpointError
	switch {
	case err == nil:
		return offsets, false, nil
	case errors.Is(err, fs.ErrNotExist):
		missing = true
	case errors.As(err, &malformed):
		d.log.Warn("checkpoint file is malformed: all its values are taken as zero", "file", malformed.File, "line", malformed.Line, "error", malformed.Err)
	default:
		return nil, false, err
	}
	return map[TopicPartition]Offset{}, missing, nil
}

// list fills the catalog. What is not Kafka's is named and left alone.
func (d *dataDir) list() error {
	entries, err := d.fs.ReadDir(d.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if !e.IsDir() || name == remoteIndexCacheDir {
			continue
		}
		tp, kind, ok := parseDirName(name)
		switch {
		case !ok:
			d.log.Warn("foreign directory in a data directory: it is left alone, but belongs elsewhere", "directory", path.Join(d.path, name),
				"expected", "topic-partition or topic-partition.uniqueId-delete (if marked for deletion)")
		case kind == dirDeleted:
			d.found.deleted = append(d.found.deleted, name)
		case kind == dirFuture:
			d.log.Warn("unfinished move from another data directory: it is not continued, and left alone", "directory", path.Join(d.path, name))
		case kind == dirStray:
			d.log.Info("stray partition: metadata did not know it at an earlier start; remove it by hand when nothing in it is missed", "directory", path.Join(d.path, name))
		default:
			d.found.live = append(d.found.live, foundDir{name, tp})
		}
	}
	return nil
}

// syncNames makes the names of partitions' directories durable. Those who come at the same time share an fsync.
func (d *dataDir) syncNames() error {
	return d.names.Do(true, func(bool) error { return d.fs.SyncDir(d.path) })
}

// begin makes the directory one in use: from here on a crash leaves an unclean one.
func (d *dataDir) begin() error {
	for _, name := range ownLeftovers {
		if err := d.fs.Remove(path.Join(d.path, name+".tmp")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return removeCleanMark(d.fs, d.path)
}

func (d *dataDir) offline() error {
	if err := d.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// fail takes the directory offline, until the prober takes it back.
func (d *dataDir) fail(err error) {
	if d.failure.CompareAndSwap(nil, &err) {
		d.log.Error("data directory is offline: its partitions are, until it works again", "directory", d.path, "error", err)
		if d.failed != nil {
			d.failed()
		}
	}
}

// id is its directory.id; zero: not known yet.
func (d *dataDir) id() TopicID {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.meta.DirectoryID
}

// isDirFault tells a disk's or mount's failure from one that time or the owner of a partition may mend, such as a full disk.
func isDirFault(err error) bool {
	return errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.ESTALE) ||
		errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, errOtherVolume)
}

// adopt enters a log that was opened: the checkpoints have its entries from it now. enter puts it among the directory's logs, at once
// with that, lest a write in between find the partition neither here nor there.
func (d *dataDir) adopt(h *heldLog, enter func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for kind := range checkpointKinds {
		c := &d.checkpoints[kind]
		// The file's entry stays true until the log's own value differs from it.
		if offset, ok := c.kept[h.tp]; ok {
			h.saved[kind] = savedOffset{offset, true}
			delete(c.kept, h.tp)
		}
	}
	enter()
}

// forget drops a partition's entries; the files have them until they are written next.
func (d *dataDir) forget(tp TopicPartition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for kind := range checkpointKinds {
		delete(d.checkpoints[kind].kept, tp)
		d.checkpoints[kind].changed = true
	}
	if _, ok := d.cleaner.kept[tp]; ok {
		delete(d.cleaner.kept, tp)
		d.cleaner.changed = true
	}
}

// retainOnly drops the entries of partitions whose directories are gone. failed tells which have one, but no log: of those all entries
// stay; of the others with a log, open, the cleaner's.
func (d *dataDir) retainOnly(failed, open func(TopicPartition) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	drop := func(c *checkpoint, has func(TopicPartition) bool) {
		before := len(c.kept)
		maps.DeleteFunc(c.kept, func(tp TopicPartition, _ Offset) bool { return !has(tp) })
		c.changed = c.changed || len(c.kept) != before
	}
	for kind := range checkpointKinds {
		drop(&d.checkpoints[kind], failed)
	}
	drop(&d.cleaner, func(tp TopicPartition) bool { return failed(tp) || open(tp) })
}

// write writes a checkpoint if its content differs from the file's. logs appends the directory's open ones; it is asked once the lock is
// held, so that a log which is deleted meanwhile cannot come back. value must not call out: see HighWatermark.
func (d *dataDir) write(kind checkpointKind, logs func([]*heldLog) []*heldLog, value func(*heldLog) (Offset, bool)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.scratch = logs(d.scratch[:0])
	defer func() { clear(d.scratch) }()
	c := &d.checkpoints[kind]
	changed := c.changed || c.missing
	for _, h := range d.scratch {
		offset, ok := value(h)
		h.next = savedOffset{offset, ok}
		changed = changed || h.next != h.saved[kind]
	}
	if !changed {
		return nil
	}
	offsets := maps.Clone(c.kept)
	for _, h := range d.scratch {
		if h.next.ok {
			offsets[h.tp] = h.next.offset
		}
	}
	if err := d.writeFile(checkpointFiles[kind], offsets); err != nil {
		return err
	}
	for _, h := range d.scratch {
		h.saved[kind] = h.next
	}
	c.changed, c.missing = false, false
	return nil
}

// writeCleaner writes the cleaner's checkpoint if entries have gone.
func (d *dataDir) writeCleaner() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.cleaner.changed {
		return nil
	}
	if err := d.writeFile(cleanerFile, d.cleaner.kept); err != nil {
		return err
	}
	d.cleaner.changed = false
	return nil
}

// writeFile writes a checkpoint; d.mu is held.
func (d *dataDir) writeFile(name string, offsets map[TopicPartition]Offset) error {
	if err := d.isThere(d.meta.DirectoryID); err != nil {
		d.fail(err)
		return err
	}
	err := vfs.WriteFile(d.fs, path.Join(d.path, name), appendOffsetCheckpoint(nil, offsets))
	if err != nil && !isDiskFull(err) {
		d.fail(err)
	}
	return err
}

// pendingChange tells whether some file may have entries that a log of the partition made anew must not find.
func (d *dataDir) pendingChange() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cleaner.changed || slices.ContainsFunc(d.checkpoints[:], func(c checkpoint) bool { return c.changed })
}

// forgetIfKept drops the entries that the files have of a partition without a log.
func (d *dataDir) forgetIfKept(tp TopicPartition) {
	d.mu.Lock()
	kept := false
	for kind := range checkpointKinds {
		_, ok := d.checkpoints[kind].kept[tp]
		kept = kept || ok
	}
	_, inCleaner := d.cleaner.kept[tp]
	d.mu.Unlock()
	if kept || inCleaner {
		d.forget(tp)
	}
}
