package classic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quire-log/quire/internal/segments"
	"github.com/quire-log/quire/internal/vfs"
)

// ManagerOptions say how a directory of topics is kept.
type ManagerOptions struct {
	FS     vfs.FS
	Dir    string // created if missing
	Config Config // of each log
	// Delete is the policy that the cleaner applies to each log every CleanInterval; nil: nothing is deleted.
	Delete        Policy
	CleanInterval time.Duration
	// Partitions is how many a topic has that does not have more on disk; at least 1.
	Partitions int32
	Log        *slog.Logger // nil: discard
}

// partitionsMax bounds Partitions and what a directory's name may claim.
const partitionsMax = 100_000

// logsMax bounds the logs that Create makes: whoever may produce may make topics.
const logsMax = 20_000

// openersMax is how many logs are opened and recovered at once.
const openersMax = 4

// A Manager owns a directory of topics: it has all logs in it open, flushes and cleans them. Two goroutines at most work for it,
// the flusher, which lives while something is to be flushed, and the cleaner; Close ends both.
type Manager struct {
	o       ManagerOptions
	log     *slog.Logger
	flusher flusher
	stop    context.CancelFunc // of the cleaner
	cleaner sync.WaitGroup

	// mu guards the fields below. It is held while a log is created.
	mu         sync.RWMutex
	logs       map[TopicPartition]*Log
	failed     map[TopicPartition]error
	partitions map[string]int32 // by topic: as many as the highest number says
	closed     bool
}

// OpenManager opens all logs in a directory and starts the background work. A log that does not open keeps its files and is
// told by Failed; the others are open.
func OpenManager(o ManagerOptions) (*Manager, error) {
	o.Partitions = max(o.Partitions, 1)
	if o.Partitions > partitionsMax {
		return nil, &DirError{o.Dir, fmt.Errorf("%d partitions: at most %d", o.Partitions, partitionsMax)}
	}
	if err := o.Config.check(); err != nil {
		return nil, &DirError{o.Dir, err}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := makeDir(o.FS, o.Dir); err != nil {
		return nil, err
	}
	dirs, err := ListPartitions(o.FS, o.Dir)
	if err != nil {
		return nil, err
	}
	m := &Manager{
		o: o, log: o.Log,
		logs: map[TopicPartition]*Log{}, failed: map[TopicPartition]error{}, partitions: map[string]int32{},
	}
	var openers errgroup.Group // not WithContext: one that fails must not keep the others from opening
	openers.SetLimit(openersMax)
	for _, d := range dirs {
		openers.Go(func() error {
			l, err := m.open(d.Partition, d.Dir)
			m.mu.Lock()
			defer m.mu.Unlock()
			m.keep(d.Partition, l, err)
			return nil
		})
	}
	_ = openers.Wait()
	var ctx context.Context
	ctx, m.stop = context.WithCancel(context.Background())
	if o.Delete != nil && o.CleanInterval > 0 {
		m.cleaner.Go(func() { segments.Repeat(ctx, o.CleanInterval, o.CleanInterval, m.clean) })
	}
	return m, nil
}

// keep remembers an opened log, or why it did not open. mu is held.
func (m *Manager) keep(tp TopicPartition, l *Log, err error) {
	if err != nil {
		m.failed[tp] = err
		m.log.Error("log was not opened", "partition", tp.String(), "error", err)
	} else {
		m.logs[tp] = l
	}
	m.partitions[tp.Topic] = max(m.partitions[tp.Topic], tp.Partition+1)
}

func (m *Manager) open(tp TopicPartition, dir string) (*Log, error) {
	return Open(Options{
		FS: m.o.FS, Dir: dir, Partition: tp, Config: m.o.Config, flusher: &m.flusher,
		Cut: func(c Cut) { m.log.Warn("log was recovered", "partition", tp.String(), "cut", c.String()) },
	})
}

// A PartitionDir is a partition's directory.
type PartitionDir struct {
	Partition TopicPartition
	Dir       string
}

// ListPartitions lists the partitions' directories in dir, in either form of their names, by topic and number. Whatever else
// lies there is left alone.
func ListPartitions(fsys vfs.FS, dir string) ([]PartitionDir, error) {
	list, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var dirs []PartitionDir
	for _, d := range list {
		if tp, ok := ParseDirName(d.Name()); ok && d.IsDir() && tp.Partition < partitionsMax {
			dirs = append(dirs, PartitionDir{tp, path.Join(dir, d.Name())})
		}
	}
	slices.SortStableFunc(dirs, func(a, b PartitionDir) int {
		return cmp.Or(cmp.Compare(a.Partition.Topic, b.Partition.Topic), cmp.Compare(a.Partition.Partition, b.Partition.Partition))
	})
	for i := 1; i < len(dirs); i++ {
		if dirs[i].Partition == dirs[i-1].Partition {
			return nil, &DirError{dir, fmt.Errorf("%s and %s are the same partition: move away the one that is not wanted", path.Base(dirs[i-1].Dir), path.Base(dirs[i].Dir))}
		}
	}
	return dirs, nil
}

// Log returns a partition's log, nil if there is none or it did not open.
func (m *Manager) Log(tp TopicPartition) *Log {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.logs[tp]
}

// Logs returns all open logs, in no order.
func (m *Manager) Logs() []*Log {
	m.mu.RLock()
	defer m.mu.RUnlock()
	logs := make([]*Log, 0, len(m.logs))
	for _, l := range m.logs {
		logs = append(logs, l)
	}
	return logs
}

// Failed tells of the logs that did not open.
func (m *Manager) Failed() map[TopicPartition]error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	failed := make(map[TopicPartition]error, len(m.failed))
	for tp, err := range m.failed {
		failed[tp] = err
	}
	return failed
}

// Partitions is how many a topic has: those on disk, or as many as a new topic gets.
func (m *Manager) Partitions(topic string) int32 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return max(m.partitions[topic], m.o.Partitions)
}

// A NoPartitionError means that a topic has, and may have, no such partition.
type NoPartitionError struct {
	Partition TopicPartition
	Reason    string
}

func (e *NoPartitionError) Error() string { return fmt.Sprintf("%s: %s", e.Partition, e.Reason) }

// Create returns a partition's log, a new one if there is none yet.
func (m *Manager) Create(tp TopicPartition) (*Log, error) {
	if l := m.Log(tp); l != nil {
		return l, nil
	}
	if !legalTopic(tp.Topic) {
		return nil, &NoPartitionError{tp, "no topic may have that name"}
	}
	if n := m.Partitions(tp.Topic); tp.Partition < 0 || tp.Partition >= n {
		return nil, &NoPartitionError{tp, fmt.Sprintf("the topic has %d partitions", n)}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch l, err := m.logs[tp], m.failed[tp]; {
	case m.closed:
		return nil, &FailedError{tp, errClosed}
	case l != nil:
		return l, nil
	case err != nil:
		return nil, err // a new log would take the place of files that are there
	case len(m.logs) >= logsMax:
		return nil, &NoPartitionError{tp, fmt.Sprintf("there are %d logs, and no more are made", len(m.logs))}
	}
	l, err := m.open(tp, path.Join(m.o.Dir, DirName(tp)))
	if err != nil {
		return nil, err
	}
	m.keep(tp, l, nil)
	return l, nil
}

// clean applies the policy to each log.
func (m *Manager) clean(ctx context.Context) {
	for _, l := range m.Logs() {
		if ctx.Err() != nil {
			return
		}
		gone, err := l.DeleteSegments(m.o.Delete)
		for _, s := range gone {
			m.log.Info("segment was deleted", "partition", l.partition.String(), "file", s.Name, "bytes", s.Bytes)
		}
		if err != nil {
			m.log.Error("segments were not deleted", "partition", l.partition.String(), "error", err)
		}
	}
}

// Close ends the background work, flushes and closes all logs.
func (m *Manager) Close() error {
	m.stop()
	m.cleaner.Wait()
	m.flusher.stop()
	m.mu.Lock()
	m.closed = true
	logs := m.logs
	m.logs = nil
	m.mu.Unlock()
	var errs []error
	for _, l := range logs {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}
