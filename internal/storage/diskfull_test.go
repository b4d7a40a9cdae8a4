package storage

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

func anyBatch(t *testing.T, bytes int) record.Batch {
	t.Helper()
	b := record.NewBuilder()
	b.Add(record.Record{Timestamp: time.Now().UnixMilli(), Key: []byte("k"), Value: make([]byte, bytes)})
	out, err := b.Batch(nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func isRefusedForRoom(err error) bool {
	var full *DiskFullError
	return errors.As(err, &full) && errors.Is(err, errDiskWatermark)
}

// fullDiskWorld has one directory on a disk of so many bytes. Its watermark and its reserve are small beside that, and looked at each second.
func fullDiskWorld(t *testing.T, capacity int64) *world {
	t.Helper()
	w := newWorld(t, "/data")
	w.o.Disk = DiskOptions{WatermarkBytes: 400_000, ReserveBytes: 80_000, CheckMs: 1000}
	w.fs.SetCapacity(capacity)
	return w
}

// At the watermark clients are refused, all else works; when there is room again they are not.
func TestDiskFullIsAMode(t *testing.T) {
	w := fullDiskWorld(t, 10_000_000)
	w.o.Cleaner = CleanerConfig{}
	w.bubble(func(t *testing.T) {
		w.watermarks()
		m := w.start()
		m.Start()
		l := created(t, m, "orders")
		time.Sleep(2 * time.Second)
		if info, err := w.fs.Stat("/data/" + reserveFile); err != nil || info.Size() != 80_000 {
			t.Errorf("reserve: %v, %v", info, err)
		}
		n := 0
		var err error
		for ; n < 1000; n++ {
			if _, err = l.Append(anyBatch(t, 50_000), AppendOptions{}); err != nil {
				break
			}
			time.Sleep(1100 * time.Millisecond)
		}
		if !isRefusedForRoom(err) || n < 150 || n > 200 {
			t.Fatalf("after %d batches: %v", n, err)
		}
		if s := m.DiskStates()[0]; !s.Full || !s.Filling {
			t.Errorf("state %+v", s)
		}
		w.wantSaid("a data directory fills up", "full_in", "filled_by=\"orders 15")
		if g := m.FastestTopics(5); len(g) != 1 || g[0].Topic != "orders" || g[0].BytesPerSecond < 40_000 || g[0].BytesPerSecond > 50_000 {
			t.Errorf("growth %+v", g)
		}
		end := l.EndOffset()
		if _, err := l.Append(record.Batch(append([]byte(nil), anyBatch(t, 100)...)), AppendOptions{Origin: FromCoordinator}); err != nil {
			t.Errorf("a coordinator's append: %v", err)
		}
		if d, err := l.Read(0, ReadOptions{MaxBytes: 1 << 20, Limit: end}); err != nil || d.Size == 0 {
			t.Errorf("read: %v", err)
		} else {
			d.Release()
		}
		created(t, m, "another")
		// Something else takes the rest of the disk: the reserve is given up.
		used, _ := w.fs.Usage("/data")
		w.fs.SetCapacity(used.Total - used.Usable + 1000)
		time.Sleep(3 * time.Second)
		if _, err := w.fs.Stat("/data/" + reserveFile); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the reserve is there: %v", err)
		}
		if err := l.Flush(); err != nil {
			t.Errorf("flush: %v", err)
		}
		w.fs.SetCapacity(12_000_000)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if _, err := l.Append(anyBatch(t, 1000), AppendOptions{}); err != nil {
			t.Errorf("with room again: %v", err)
		}
		if m.DiskStates()[0].Full {
			t.Error("full still")
		}
		kinds := ""
		w.mu.Lock()
		for _, e := range w.events {
			if strings.HasPrefix(e.Kind, "disk-") {
				kinds += e.Kind + " "
			}
		}
		w.mu.Unlock()
		if kinds != "disk-full disk-freed " {
			t.Errorf("events %s", kinds)
		}
		if err := m.Close(1); err != nil {
			t.Error(err)
		}
	})
}

// fillDisk has somebody else take all but so many bytes of the disk.
func fillDisk(t *testing.T, w *world, left int64) vfs.File {
	t.Helper()
	used, err := w.fs.Usage("/data")
	if err != nil {
		t.Fatal(err)
	}
	filler, err := w.fs.OpenFile("/filler", createFlags, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := filler.WriteAt(make([]byte, used.Usable-left), 0); err != nil {
		t.Fatal(err)
	}
	return filler
}

// Who filled the disk and went, if only for the most part, is no reason to expect that it fills up.
func TestForecastForgetsWhatWent(t *testing.T) {
	w := fullDiskWorld(t, 10_000_000)
	w.bubble(func(t *testing.T) {
		m := w.start()
		m.Start()
		time.Sleep(2 * time.Minute)
		filler := fillDisk(t, w, 350_000)
		time.Sleep(3 * time.Second)
		if !m.DiskStates()[0].Full {
			t.Error("the disk is not full")
		}
		if err := filler.Truncate(5_000_000); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if s := m.DiskStates()[0]; s.Full || s.Filling {
			t.Errorf("with room again: %+v", s)
		}
		if strings.Contains(w.said(), "fills up") {
			t.Errorf("the log says\n%s", w.said())
		}
		if err := errors.Join(filler.Close(), m.Close(1)); err != nil {
			t.Error(err)
		}
	})
}

// A node starts on a disk without a free byte: the reserve gives it room.
func TestDiskFullStart(t *testing.T) {
	w := fullDiskWorld(t, 10_000_000)
	w.bubble(func(t *testing.T) {
		w.watermarks()
		m := w.start()
		m.Start()
		l := created(t, m, "orders")
		fill(t, l, 100)
		time.Sleep(2 * time.Second)
		m.Abort()
		if err := w.fs.Remove("/data/" + startReserveFile); err != nil { // an earlier start needed it
			t.Fatal(err)
		}
		filler := fillDisk(t, w, 0)
		if used, _ := w.fs.Usage("/data"); used.Usable > 0 {
			t.Fatalf("%d bytes are free", used.Usable)
		}
		m = w.start()
		m.Start()
		time.Sleep(2 * time.Second)
		l = m.Log(TopicPartition{"orders", 0})
		if l == nil || l.EndOffset() != 100 {
			t.Fatalf("log %v", l)
		}
		if _, err := l.Append(anyBatch(t, 10), AppendOptions{}); !isRefusedForRoom(err) {
			t.Errorf("append: %v", err)
		}
		if err := m.DeleteLog(TopicPartition{"orders", 0}); err != nil {
			t.Errorf("a deletion gives room, and needs none: %v", err)
		}
		reserved := func() int64 {
			info, err := w.fs.Stat("/data/" + startReserveFile)
			if err != nil {
				t.Fatal(err)
			}
			return info.Size()
		}
		if n := reserved(); n <= 0 || n >= 100_000 {
			t.Errorf("on a full disk the reserve of starts has %d bytes", n)
		}
		if err := filler.Truncate(0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if m.DiskStates()[0].Full {
			t.Error("full still")
		}
		if n := reserved(); n != 100_000 {
			t.Errorf("with room again the reserve of starts has %d bytes", n)
		}
		if err := m.Close(1); err != nil {
			t.Error(err)
		}
	})
}

// A reserve that cannot be given up is not said to be: once, and it is tried again.
func TestDiskReserveStuck(t *testing.T) {
	w := fullDiskWorld(t, 10_000_000)
	w.bubble(func(t *testing.T) {
		w.watermarks()
		m := w.start()
		m.Start()
		time.Sleep(2 * time.Second)
		var stuck atomic.Bool
		stuck.Store(true)
		w.fs.FailEvery(syscall.EROFS, func(op, name string) bool {
			return stuck.Load() && op == "remove" && strings.HasSuffix(name, reserveFile)
		})
		fillDisk(t, w, 1000)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		w.wantSaid("could not be given up")
		if _, err := w.fs.Stat("/data/" + reserveFile); err != nil {
			t.Error(err)
		}
		stuck.Store(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		w.wantSaid("a full data directory is given up")
		if _, err := w.fs.Stat("/data/" + reserveFile); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the reserve is there: %v", err)
		}
		m.Abort()
	})
}

// A reserve is whole or not there, and one that cannot grow stays as it was: a start counts on it.
func TestDiskReserveIsWhole(t *testing.T) {
	w := fullDiskWorld(t, 40_000_000)
	w.bubble(func(t *testing.T) {
		left := map[string]int{startReserveFile: 1000, startReserveFile + ".tmp": 70_000, reserveFile + ".tmp": 70_000} // of a run that was killed
		for name, n := range left {
			f, err := w.fs.OpenFile("/data/"+name, createFlags, 0o644)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt(make([]byte, n), 0); err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
		want := func(when string, sizes map[string]int64) {
			t.Helper()
			for name := range left {
				info, err := w.fs.Stat("/data/" + name)
				if size, is := sizes[name]; !is && !errors.Is(err, os.ErrNotExist) || is && (err != nil || info.Size() != size) {
					t.Errorf("%s: %s: %v, %v; want %d bytes", when, name, info, err, size)
				}
			}
		}
		var full atomic.Bool
		full.Store(true)
		writes := 0
		w.fs.FailEvery(syscall.ENOSPC, func(op, name string) bool {
			if op != "write" || !strings.Contains(name, startReserveFile) || !full.Load() {
				return false
			}
			writes++
			return writes%2 == 0 // the disk fills up while the reserve is written
		})
		m := w.start()
		want("after the start", map[string]int64{startReserveFile: 1000})
		m.Start()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		want("without room", map[string]int64{startReserveFile: 1000})
		if writes < 4 {
			t.Errorf("%d writes", writes)
		}
		full.Store(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		want("with room", map[string]int64{startReserveFile: 400_000})
		if info, err := w.fs.Stat("/data/" + reserveFile); err != nil || info.Size() != 80_000 {
			t.Errorf("the other reserve: %v, %v", info, err)
		}
		m.Abort()
	})
}

// The same on a real file system that fills up.
func TestDiskFullReal(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); errors.Is(err, syscall.EPERM) {
		t.Skipf("needs to mount a small tmpfs: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(data, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Format(vfs.OS(), data, Meta{"test-cluster", 1, TopicID{1}}, nil); err != nil {
		t.Fatal(err)
	}
	o := ManagerOptions{FS: vfs.OS(), Dirs: []string{data}, NodeID: 1, RecoveryThreads: 1, Disk: DiskOptions{WatermarkBytes: 300_000, ReserveBytes: 80_000}}
	m, err := OpenManager(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.LoadLogs(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	m.watchDisks(t.Context())
	l := created(t, m, "orders")
	filler := filepath.Join(dir, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil { // somebody else takes all there is
		_, err = f.Write(make([]byte, 4096))
	}
	f.Close()
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if _, err := l.Append(anyBatch(t, 10_000), AppendOptions{}); err == nil {
		t.Error("an append without room")
	}
	m.watchDisks(t.Context())
	if _, err := l.Append(anyBatch(t, 10), AppendOptions{}); !isRefusedForRoom(err) {
		t.Errorf("append: %v", err)
	}
	if _, err := l.Append(anyBatch(t, 1000), AppendOptions{Origin: FromCoordinator}); err != nil {
		t.Errorf("a coordinator's append into the reserve: %v", err)
	}
	m.Abort()
	if m, err = OpenManager(o); err != nil {
		t.Fatalf("start on the full disk: %v", err)
	}
	if err := m.LoadLogs(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	l = m.Log(TopicPartition{"orders", 0})
	if l == nil || l.EndOffset() != 1 {
		t.Fatalf("after the restart: %v", l)
	}
	m.watchDisks(t.Context())
	if _, err := l.Append(anyBatch(t, 10), AppendOptions{}); !isRefusedForRoom(err) {
		t.Errorf("append: %v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	m.watchDisks(t.Context())
	if _, err := l.Append(anyBatch(t, 10), AppendOptions{}); err != nil {
		t.Errorf("with room again: %v", err)
	}
	if err := m.Close(1); err != nil {
		t.Fatal(err)
	}
}

func TestFullIn(t *testing.T) {
	for _, c := range []struct {
		span       time.Duration
		used, room int64
		want       time.Duration
		ok         bool
	}{
		{time.Second, 100, 100, 0, false},
		{10 * time.Minute, 0, 100, 0, false},
		{10 * time.Minute, -5, 100, 0, false},
		{10 * time.Minute, 600, 18_000, 5 * time.Hour, true},
		{10 * time.Minute, 600, -1, 0, true},
		{10 * time.Minute, 1, 1 << 60, 0, false},
	} {
		if got, ok := fullIn(c.span, c.used, c.room); got != c.want || ok != c.ok {
			t.Errorf("%v: %v, %v", c, got, ok)
		}
	}
}
