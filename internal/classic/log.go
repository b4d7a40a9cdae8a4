package classic

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quire-log/quire/internal/segments"
	"github.com/quire-log/quire/internal/vfs"
)

// A Config says how a log is written.
type Config struct {
	SegmentBytes    int64         // a file that has as many is followed by the next
	MessageBytesMax int           // of a payload that is appended
	FlushMessages   int64         // an append that leaves as many unflushed flushes; 0: none does
	FlushInterval   time.Duration // what was appended is flushed when it is so old; 0: never
}

// DefaultConfig is what Kafka 0.7 did unless told otherwise.
func DefaultConfig() Config {
	return Config{SegmentBytes: 512 << 20, MessageBytesMax: 1_000_000, FlushMessages: 500, FlushInterval: 3 * time.Second}
}

func (c Config) check() error {
	switch {
	case c.SegmentBytes < 1:
		return fmt.Errorf("segments of %d bytes", c.SegmentBytes)
	case c.MessageBytesMax < 0 || c.MessageBytesMax > PayloadMax:
		return fmt.Errorf("messages of at most %d bytes: an entry holds %d", c.MessageBytesMax, PayloadMax)
	case c.FlushMessages < 0 || c.FlushInterval < 0:
		return fmt.Errorf("a flush after %d messages or %v", c.FlushMessages, c.FlushInterval)
	}
	return nil
}

// Options say how a log is opened.
type Options struct {
	FS        vfs.FS
	Dir       string // the partition's directory; created if missing
	Partition TopicPartition
	Config    Config
	Cut       func(Cut) // is told what Open cuts off or leaves out; may be nil
	flusher   *flusher  // shared with other logs; nil: the log has its own
}

// A Log is the log of one partition. All methods may be called from any goroutine.
//
// Bytes are published in this order: written to the file, then the segment's size, then end. So whoever reads end first and
// the segments after it finds all bytes below.
type Log struct {
	partition TopicPartition
	fs        vfs.FS
	dir       string
	config    Config
	lock      io.Closer
	segments  segments.List[*segment] // never empty; the last is the active one, which the log holds open
	end       atomic.Int64
	failure   atomic.Pointer[FailedError]
	flusher   *flusher
	ownFlush  bool // flusher is this log's alone
	syncs     segments.SyncGroup

	// deleting makes deletions follow each other. It is taken before mu, and held while files are removed.
	deleting sync.Mutex

	// mu guards the fields below and all that changes the log. It is held over writes and rolls, not over other fsyncs.
	mu         sync.Mutex
	closed     bool
	active     vfs.File
	named      bool      // the active file's name is durable
	appended   int64     // messages since Open
	flushed    int64     // how many of them are flushed
	dirtySince time.Time // the oldest append that is not flushed was not before this; meaningless when all is
	queued     bool      // the flusher knows that something is to be flushed
}

// Open opens a log, recovers its newest file, and makes what it found durable. Nobody else can open it until Close.
func Open(o Options) (_ *Log, err error) {
	if err := o.Config.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Partition, err)
	}
	l := &Log{partition: o.Partition, fs: o.FS, dir: o.Dir, config: o.Config, flusher: o.flusher}
	if l.flusher == nil {
		l.flusher, l.ownFlush = &flusher{}, true
	}
	if err := makeDir(o.FS, o.Dir); err != nil {
		return nil, err
	}
	if l.lock, err = o.FS.Lock(path.Join(o.Dir, lockName)); err != nil {
		return nil, &DirError{o.Dir, err}
	}
	defer func() {
		if err != nil {
			l.shut()
		}
	}()
	files, err := listFiles(o.FS, o.Dir)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		if err := l.create(0); err != nil {
			return nil, err
		}
		return l, nil
	}
	if err := l.load(files, o.Cut); err != nil {
		return nil, err
	}
	return l, nil
}

// load takes over the files that are there.
func (l *Log) load(files []fileInfo, tell func(Cut)) (err error) {
	if tell == nil {
		tell = func(Cut) {}
	}
	segs := make([]*segment, len(files))
	for i, f := range files {
		segs[i] = &segment{fs: l.fs, dir: l.dir, name: f.name, base: f.base}
		size := f.size
		if i+1 < len(files) && f.end() > files[i+1].base {
			size = int64(files[i+1].base - f.base)
			tell(Cut{l.partition, f.name, size, files[i+1].base, f.size - size, false, &GapError{f.end(), files[i+1].base}})
		}
		segs[i].size.Store(size)
	}
	l.segments.Store(segs)
	last := segs[len(segs)-1]
	if l.active, err = last.acquire(); err != nil {
		return err
	}
	if err := l.recover(last, tell); err != nil {
		return err
	}
	l.end.Store(int64(last.end()))
	// What an earlier run left unflushed would otherwise come on top of what this one may.
	if err := l.active.Sync(); err != nil {
		return err
	}
	l.named = true
	return l.fs.SyncDir(l.dir)
}

// makeDir makes a partition's directory, durably.
func makeDir(fsys vfs.FS, dir string) error {
	if err := fsys.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// Also of one that was there: a run that was killed may have made it an instant ago.
	return fsys.SyncDir(path.Dir(path.Clean(dir)))
}

// create begins a file at base. mu is held, or the log not yet seen by others.
func (l *Log) create(base Offset) error {
	s := &segment{fs: l.fs, dir: l.dir, name: fileName(base), base: base}
	f, err := l.fs.OpenFile(s.path(), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	s.desc.Adopt(f)
	l.active, l.named = f, false
	l.end.Store(int64(base))
	l.segments.Append(s)
	return nil
}

// Partition is whose log it is.
func (l *Log) Partition() TopicPartition { return l.partition }

// FirstOffset is the oldest entry's, EndOffset where the next will be.
func (l *Log) FirstOffset() Offset { return l.segments.Load()[0].base }
func (l *Log) EndOffset() Offset   { return Offset(l.end.Load()) }

// Err is nil, or why the log failed for good.
func (l *Log) Err() error {
	if err := l.failure.Load(); err != nil {
		return err
	}
	return nil
}

// usable is nil, or why nothing can be done any more. mu is held.
func (l *Log) usable() error {
	if err := l.failure.Load(); err != nil {
		return err
	}
	if l.closed {
		return &FailedError{l.partition, errClosed}
	}
	return nil
}

// fail ends the log for good: what is on disk is no longer known.
func (l *Log) fail(err error) error {
	l.failure.CompareAndSwap(nil, &FailedError{l.partition, err})
	return l.failure.Load()
}

// Close flushes and closes the log. Whoever reads or sends from it may end that.
func (l *Log) Close() error {
	if l.ownFlush {
		l.flusher.stop()
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.mu.Unlock()
	err := l.Flush()
	l.deleting.Lock()
	defer l.deleting.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(err, l.shut())
}

// shut closes what is open. mu is held, or the log not yet seen by others.
func (l *Log) shut() error {
	if l.closed {
		return nil
	}
	l.closed = true
	segs := l.segments.Load()
	if l.active != nil {
		segs[len(segs)-1].release()
	}
	for _, s := range segs {
		s.desc.Retire()
	}
	return l.lock.Close()
}

// A SegmentInfo describes a file of the log.
type SegmentInfo struct {
	Name     string
	Base     Offset
	Bytes    int64
	Modified time.Time // of the file
	Active   bool      // the newest, which is never deleted
}

// Segments describes the files, the oldest first.
func (l *Log) Segments() ([]SegmentInfo, error) {
	segs := l.segments.Load()
	infos := make([]SegmentInfo, 0, len(segs))
	for i, s := range segs {
		info, err := l.fs.Stat(s.path())
		if errors.Is(err, os.ErrNotExist) && s.base < l.FirstOffset() {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, SegmentInfo{s.name, s.base, s.size.Load(), info.ModTime(), i == len(segs)-1})
	}
	return infos, nil
}
