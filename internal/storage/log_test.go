package storage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

func openTest(t testing.TB, fsys vfs.FS, cfg Config) *Log {
	t.Helper()
	l, err := OpenLog(testOptions(fsys, cfg))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func openDisk(t testing.TB, cfg Config) *Log {
	t.Helper()
	o := testOptions(vfs.OS(), cfg)
	o.Dir = filepath.Join(t.TempDir(), "orders-3")
	l, err := OpenLog(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Readers at the tail and in the past see every offset once, in order and whole, while segments come and go.
func TestReadersBesideAppends(t *testing.T) {
	defer goleak.VerifyNone(t)
	cfg := testConfig()
	cfg.SegmentBytes, cfg.RetentionBytes = 20_000, 100_000
	l := openDisk(t, cfg)
	const batches = 3000
	var done atomic.Bool
	var wait sync.WaitGroup
	for r := range 4 {
		wait.Go(func() {
			next := Offset(0)
			for next < batches*3 {
				end := l.EndOffset()
				max := int64(50_000)
				if r%2 == 0 {
					max = 1
				}
				d, err := l.Read(next, ReadOptions{MaxBytes: max, Limit: end, MinOneBatch: true})
				var out *OutOfRangeError
				if errors.As(err, &out) && next < out.Start {
					next = out.Start
					continue
				}
				if err != nil {
					t.Errorf("reader %d at %d: %v", r, next, err)
					return
				}
				var buf bytes.Buffer
				for _, region := range d.Regions {
					if _, err := region.WriteTo(&buf); err != nil {
						t.Errorf("reader %d at %d: %v", r, next, err)
					}
				}
				d.Release()
				for b := buf.Bytes(); len(b) > 0; {
					e, err := record.FirstEntry(b)
					if errors.Is(err, io.ErrUnexpectedEOF) {
						break
					}
					if err == nil {
						err = e.Check()
					}
					if err != nil || e.BaseOffset() != next || e.LastOffset() >= end {
						t.Errorf("reader %d wants %d, below %d, got %d to %d: %v", r, next, end, e.BaseOffset(), e.LastOffset(), err)
						return
					}
					next = e.LastOffset() + 1
					b = b[len(e):]
				}
				if done.Load() && end == l.EndOffset() && next >= end {
					return
				}
			}
		})
	}
	wait.Go(func() {
		for !done.Load() {
			if _, err := l.DeleteOldSegments(l.EndOffset()); err != nil {
				t.Error(err)
			}
			if _, err := l.OffsetForTime(rand.Int64N(batches)); err != nil {
				t.Error(err)
			}
			l.Segments()
			if err := l.Flush(); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range batches {
		if _, err := l.Append(batch(3, int64(i)), AppendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	done.Store(true)
	wait.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// What a region holds outlives its segment's deletion, the log's close, and the file's name.
func TestRegionOutlivesDeletion(t *testing.T) {
	cfg := testConfig()
	l := openDisk(t, cfg)
	for range 60 {
		if _, err := l.Append(batch(3, 1000), AppendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	d, err := l.Read(0, ReadOptions{MaxBytes: 1 << 20, Limit: math.MaxInt64})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Release()
	if _, err := l.DeleteRecords(l.EndOffset()); err != nil {
		t.Fatal(err)
	}
	if n, err := l.DeleteOldSegments(l.EndOffset()); err != nil || n == 0 {
		t.Fatal(n, err)
	}
	deadline := time.Now().Add(patience)
	for {
		gone, err := filepath.Glob(filepath.Join(l.Dir(), "*"+deletedSuffix))
		if err != nil {
			t.Fatal(err)
		}
		if len(gone) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("still there: %v", gone)
		}
		time.Sleep(time.Millisecond)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if _, err := d.Regions[0].WriteTo(&buf); err != nil {
		t.Fatal(err)
	}
	if e, err := record.FirstEntry(buf.Bytes()); err != nil || e.Check() != nil {
		t.Fatal(err)
	}
}

// A write that failed leaves nothing behind: the same batch comes again at the same offset, neither a duplicate nor out of order.
func TestFailedWriteLeavesNoTrace(t *testing.T) {
	mem := newMem(t)
	cfg := testConfig()
	cfg.SegmentBytes = 1 << 20
	l := openTest(t, mem, cfg)
	put := func(sequence int32) (Appended, error) {
		return l.Append(batch(5, 1000, by(1, 0, sequence)), AppendOptions{})
	}
	if _, err := put(0); err != nil {
		t.Fatal(err)
	}
	mem.SetCapacity(l.Size() + 1000) // what is used already, and a part of a batch
	var full *DiskFullError
	sequence, at := int32(5), Offset(5)
	for {
		a, err := put(sequence)
		if errors.As(err, &full) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		sequence, at = sequence+5, a.LastOffset+1
		if sequence > 100 {
			t.Fatal("the disk never fills")
		}
	}
	if l.Err() != nil || l.EndOffset() != at {
		t.Fatalf("end %d, want %d; %v", l.EndOffset(), at, l.Err())
	}
	if _, err := l.DeleteRecords(1); err != nil {
		t.Fatalf("deleting on a full disk: %v", err)
	}
	mem.SetCapacity(-1)
	for range 2 {
		a, err := put(sequence)
		if err != nil || a.BaseOffset != at {
			t.Fatalf("again: %+v, %v, want offset %d", a, err, at)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// A disk that fails, rather than being full, fails the log for good, and so does an fsync.
func TestDiskFailureIsFinal(t *testing.T) {
	for _, op := range []string{"write", "sync"} {
		t.Run(op, func(t *testing.T) {
			mem := newMem(t)
			cfg := testConfig()
			cfg.FlushMessages = 1
			l := openTest(t, mem, cfg)
			if _, err := l.Append(batch(1, 1000), AppendOptions{}); err != nil {
				t.Fatal(err)
			}
			mem.FailNth(1, syscall.EIO, func(o, name string) bool { return o == op && strings.HasSuffix(name, logSuffix) })
			var failed *FailedError
			for range 2 {
				if _, err := l.Append(batch(1, 1000), AppendOptions{}); !errors.As(err, &failed) || !errors.Is(err, syscall.EIO) {
					t.Fatalf("append: %v", err)
				}
			}
			if !errors.As(l.Err(), &failed) || !errors.As(l.Close(), &failed) {
				t.Errorf("the log does not say that it failed: %v", l.Err())
			}
		})
	}
}

// A directory whose disk is full opens, recovers, and gives space back.
func TestOpensOnFullDisk(t *testing.T) {
	mem := newMem(t)
	cfg := testConfig()
	l := openTest(t, mem, cfg)
	for i := range 100 {
		if _, err := l.Append(batch(3, int64(i), by(1, 0, int32(3*i))), AppendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	l.Abandon()
	mem.SetCapacity(0)
	l = openTest(t, mem, cfg)
	if l.EndOffset() != 300 {
		t.Fatalf("end %d", l.EndOffset())
	}
	if r, err := l.OffsetForTime(50); err != nil || r.Offset != 150 {
		t.Errorf("time 50: %+v, %v", r, err)
	}
	if _, err := l.DeleteRecords(200); err != nil {
		t.Error(err)
	}
	if n, err := l.DeleteOldSegments(300); err != nil || n == 0 {
		t.Errorf("%d segments went: %v", n, err)
	}
	l.Abandon()
}

// Concurrent appenders that must flush share fsyncs, and each is covered by one when it returns.
func TestGroupCommit(t *testing.T) {
	cfg := testConfig()
	cfg.SegmentBytes, cfg.FlushMessages = 1<<20, 1
	fs := &countingFS{FS: vfs.OS()}
	o := testOptions(fs, cfg)
	o.Dir = filepath.Join(t.TempDir(), "orders-3")
	l, err := OpenLog(o)
	if err != nil {
		t.Fatal(err)
	}
	const writers, each = 16, 30
	var wait sync.WaitGroup
	for range writers {
		wait.Go(func() {
			for range each {
				a, err := l.Append(batch(1, 1000), AppendOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				if l.RecoveryPoint() <= a.LastOffset {
					t.Errorf("offset %d was acknowledged at recovery point %d", a.LastOffset, l.RecoveryPoint())
				}
			}
		})
	}
	wait.Wait()
	if n := fs.syncs.Load(); n >= writers*each/2 {
		t.Errorf("%d fsyncs for %d appends", n, writers*each)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// A countingFS counts the fsyncs of .log files.
type countingFS struct {
	vfs.FS
	syncs atomic.Int64
}

type countingFile struct {
	vfs.File
	fs *countingFS
}

func (c *countingFS) OpenFile(name string, flag int, perm os.FileMode) (vfs.File, error) {
	f, err := c.FS.OpenFile(name, flag, perm)
	if err != nil || !strings.HasSuffix(name, logSuffix) {
		return f, err
	}
	return &countingFile{f, c}, nil
}

func (f *countingFile) Sync() error {
	f.fs.syncs.Add(1)
	return f.File.Sync()
}

// A follower keeps offsets, epochs and gaps as they come, and refuses what does not follow.
func TestFollower(t *testing.T) {
	l := openTest(t, newMem(t), testConfig())
	defer l.Abandon()
	at := func(base Offset, epoch Epoch, n int) []byte {
		b := batch(n, 1000)
		b.SetBaseOffset(base)
		b.SetLeaderEpoch(epoch)
		return b
	}
	if a, err := l.AppendAsFollower(append(at(0, 1, 2), at(5, 2, 2)...)); err != nil || a.LastOffset != 6 {
		t.Fatal(a, err)
	}
	if got := fmt.Sprint(l.epochs.list()); got != "[{1 0} {2 5}]" {
		t.Errorf("epochs %s", got)
	}
	var unexpected *UnexpectedOffsetError
	if _, err := l.AppendAsFollower(at(6, 2, 1)); !errors.As(err, &unexpected) {
		t.Errorf("an offset below the end: %v", err)
	}
	if _, err := l.AppendAsFollower(append(at(9, 2, 2), at(10, 2, 1)...)); !errors.As(err, &unexpected) {
		t.Errorf("offsets that overlap: %v", err)
	}
	bad := at(20, 2, 1)
	bad[len(bad)-1] ^= 1
	var corrupt *CorruptError
	if _, err := l.AppendAsFollower(bad); !errors.As(err, &corrupt) {
		t.Errorf("a wrong checksum: %v", err)
	}
	if l.EndOffset() != 7 {
		t.Errorf("end %d after refusals", l.EndOffset())
	}
	if err := l.TruncateFullyAndStartAt(50); err != nil {
		t.Fatal(err)
	}
	if a, err := l.AppendAsFollower(at(48, 3, 5)); err != nil || a.BaseOffset != 48 || l.StartOffset() != 48 || l.EndOffset() != 53 {
		t.Errorf("a batch over the start of an empty log: %+v, %v, [%d, %d)", a, err, l.StartOffset(), l.EndOffset())
	}
}

// Offsets may reach 2147483647 from a segment's base and no further, whether they are appended or found.
func TestRelativeOffsetLimit(t *testing.T) {
	mem := newMem(t)
	put := func(dir string, batches ...record.Batch) {
		if err := mem.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := mem.OpenFile(dir+"/"+fileName(0, logSuffix), os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(slices.Concat(batches...), 0); err != nil {
			t.Fatal(err)
		}
	}
	at := func(base Offset) record.Batch {
		b := batch(1, 1000)
		b.SetBaseOffset(base)
		return b
	}
	cfg := testConfig()
	cfg.IndexInterval = 0
	put("/data/orders-3", at(0), at(math.MaxInt32-1))
	l := openTest(t, mem, cfg)
	for _, want := range []Offset{math.MaxInt32, math.MaxInt32 + 1} {
		if a, err := l.Append(batch(1, 1000), AppendOptions{}); err != nil || a.BaseOffset != want {
			t.Fatal(a, err)
		}
	}
	segs := l.Segments()
	if len(segs) != 2 || segs[1].BaseOffset != math.MaxInt32+1 {
		t.Errorf("segments %v", segs)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	put("/data/far-0", at(0), at(1<<30), at(math.MaxInt32+5))
	o := testOptions(mem, cfg)
	o.Dir, o.Partition = "/data/far-0", TopicPartition{"far", 0}
	l, err := OpenLog(o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Abandon()
	if segs := l.Segments(); len(segs) != 2 || segs[1].BaseOffset != math.MaxInt32+5 || 2*segs[1].Bytes != segs[0].Bytes {
		t.Errorf("segments found: %v", segs)
	}
	if l.EndOffset() != math.MaxInt32+6 {
		t.Errorf("end %d", l.EndOffset())
	}
}

func FuzzTxnIndex(f *testing.F) {
	f.Add(appendTxnEntry(nil, abortedTxn{4000, 120, 131, 132}))
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := parseTxnIndex(b, 0)
		if err != nil {
			return
		}
		var again []byte
		for _, e := range entries {
			again = appendTxnEntry(again, e)
		}
		if !bytes.Equal(again, b) {
			t.Errorf("read %x, write %x", b, again)
		}
	})
}

func FuzzSnapshot(f *testing.F) {
	f.Add(appendSnapshot(nil, nil))
	f.Add(appendSnapshot(nil, map[int64]*producer{4000: {id: 4000, txnStart: 3, sent: []sentBatch{{11, 150, 2, 7}}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := parseSnapshot(b)
		if err == nil && len(all)*snapshotEntrySize > len(b) {
			t.Errorf("%d producers from %d bytes", len(all), len(b))
		}
	})
}

// Whatever an index file holds, loading it gives damage or entries that rise, and lookups agree with a plain search.
func FuzzIndex(f *testing.F) {
	f.Add(appendOffsetEntry(appendOffsetEntry(nil, 37, 4200), 81, 8391), false, int64(50))
	f.Add(appendTimeEntry(appendTimeEntry(nil, 1000, 37), 2500, 81), true, int64(2000))
	f.Fuzz(func(t *testing.T, b []byte, times bool, v int64) {
		mem := vfs.NewMem()
		at := newPlace(mem, "")
		size, limitA := offsetEntrySize, int64(deltaLimit)
		if times {
			size, limitA = timeEntrySize, math.MaxInt64
		}
		file, err := mem.OpenFile("/x", os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt(b, 0); err != nil {
			t.Fatal(err)
		}
		x := newIndexFile(at, "x", size, 1<<20)
		if err := x.load(limitA, deltaLimit); err != nil {
			if !isDamage(err) {
				t.Fatal(err)
			}
			return
		}
		want := 0
		for i := 0; i < len(b); i += size {
			if x.decode(b[i:]).a <= v {
				want++
			}
		}
		for range 2 {
			n, last, _, err := x.floor(byA, v)
			if err != nil || n != want || n > 0 && last != x.decode(b[(n-1)*size:]) {
				t.Fatalf("floor of %d: %d, %v, %v; want %d", v, n, last, err, want)
			}
			if err := x.growable(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
