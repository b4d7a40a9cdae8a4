package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quire-log/quire/internal/vfs"
)

// causes are those of the events of a kind.
func (w *world) causes(kind string) (causes []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if e.Kind == kind {
			causes = append(causes, e.Cause)
		}
	}
	return causes
}

// breakDir has all that is done under a directory fail until the switch is off.
func (w *world) breakDir(dir string, err error) *atomic.Bool {
	broken := &atomic.Bool{}
	w.fs.FailEvery(err, func(_, name string) bool {
		return broken.Load() && (name == dir || strings.HasPrefix(name, dir+"/"))
	})
	return broken
}

// twoDirectories has /a and /b, which are probed each second when they fail.
func twoDirectories(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, "/a", "/b")
	w.o.Disk.CheckMs = 1000
	return w
}

// A directory that fails while the node runs is offline with all its partitions, is probed, and comes back with all records.
func TestDirectoryIsTakenBack(t *testing.T) {
	w := twoDirectories(t)
	w.bubble(func(t *testing.T) {
		returned := 0
		w.o.Returned = func() { returned++ }
		m := w.start()
		m.Start()
		a, b := w.create(m, "t", 0), w.create(m, "t", 1)
		quiet := w.create(m, "u", 0)
		other := w.create(m, "u", 1)
		if path.Dir(a.Dir()) != "/a" || path.Dir(b.Dir()) != "/b" || path.Dir(other.Dir()) != "/b" {
			t.Fatal("the logs are not where this test wants them")
		}
		w.append(a, 5)
		w.append(b, 5)
		w.append(other, 3)
		if _, err := other.DeleteRecords(2); err != nil {
			t.Fatal(err)
		}
		broken := w.breakDir("/b", syscall.EIO)
		broken.Store(true)
		var failed *FailedError
		if _, err := b.Append(anyBatch(t, 10), AppendOptions{}); !errors.As(err, &failed) || !errors.Is(err, syscall.EIO) {
			t.Fatalf("append on the broken directory: %v", err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if infos := m.Dirs(); infos[0].Err != nil || !errors.Is(infos[1].Err, syscall.EIO) {
			t.Fatalf("Dirs: %v, %v", infos[0].Err, infos[1].Err)
		}
		if other.Err() == nil || a.Err() != nil || quiet.Err() != nil {
			t.Errorf("all logs of the directory are offline, and none else: %v, %v, %v", other.Err(), a.Err(), quiet.Err())
		}
		if got := w.causes("dir-offline"); len(got) != 1 || !strings.Contains(got[0], "/b") || !strings.Contains(got[0], "2 partitions") {
			t.Errorf("events: %q", got)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if returned != 0 || len(w.causes("dir-online")) != 0 {
			t.Error("taken back while it was broken")
		}
		w.append(a, 1)

		broken.Store(false)
		time.Sleep(probePauseMax + time.Second)
		synctest.Wait()
		if err := m.Dirs()[1].Err; err != nil {
			t.Fatalf("still offline: %v", err)
		}
		if got := w.causes("dir-online"); len(got) != 1 || !strings.Contains(got[0], "2 logs were recovered") || returned != 1 {
			t.Errorf("events: %q; returned %d times", got, returned)
		}
		now := m.Log(TopicPartition{"t", 1})
		if now == nil || now == b || now.EndOffset() != 5 || now.Err() != nil {
			t.Fatalf("the log that came back: %v", now)
		}
		if now := m.Log(TopicPartition{"u", 1}); now == nil || now.StartOffset() != 2 || now.EndOffset() != 3 {
			t.Errorf("what DeleteRecords promised is forgotten: %v", now)
		}
		w.append(now, 2)
		if l := w.create(m, "t", 1); l != now {
			t.Error("CreateLog gives another")
		}
		w.wantSaid("data directory is offline", "/b")
		w.wantSaid("online again", "/b")
		w.close(m, 7)
		if !w.exists("/a/.kafka_cleanshutdown") || !w.exists("/b/.kafka_cleanshutdown") || w.exists("/b/"+probeFile+".tmp") {
			t.Error("the stop is not a clean one")
		}
		m = w.start()
		if l := m.Log(TopicPartition{"t", 1}); l == nil || l.EndOffset() != 7 {
			t.Errorf("after the next start: %v", l)
		}
		m.Abort()
	})
}

// A directory that could not be read at the start is read when it can, and what it holds counts from then on.
func TestUnreadDirectoryIsTakenBack(t *testing.T) {
	w := twoDirectories(t)
	w.bubble(func(t *testing.T) {
		m := w.start()
		w.append(w.create(m, "t", 0), 2)
		w.append(w.create(m, "t", 1), 4)
		w.append(w.create(m, "old", 0), 1)
		w.append(w.create(m, "old", 1), 1)
		w.close(m, 5)
		broken := w.breakDir("/b", syscall.EIO)
		broken.Store(true)
		m = w.open()
		var gone atomic.Bool
		if err := m.LoadLogs(t.Context(), func(tp TopicPartition, _ TopicID) bool { return tp.Topic != "old" || !gone.Load() }); err != nil {
			t.Fatal(err)
		}
		m.Start()
		tp := TopicPartition{"t", 1}
		var offline *DirsOfflineError
		if _, err := m.CreateLog(tp, topicIDOf("t")); !errors.As(err, &offline) {
			t.Fatalf("CreateLog: %v", err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		broken.Store(false)
		gone.Store(true) // the topic was deleted meanwhile
		time.Sleep(probePauseMax + time.Second)
		synctest.Wait()
		if l := m.Log(tp); l == nil || l.EndOffset() != 4 {
			t.Fatalf("log %v", l)
		}
		if got, want := w.ls("/b"), "old-1.*-stray t-1"; got != want {
			t.Errorf("/b: %s, want %s", got, want)
		}
		if l, err := m.CreateLog(TopicPartition{"t", 2}, topicIDOf("t")); err != nil || l == nil {
			t.Errorf("a log that no directory holds: %v", err)
		}
		w.close(m, 6)
	})
}

// What the directory no longer holds stays offline, rather than come back empty.
func TestTakenBackWithoutAPartition(t *testing.T) {
	w := twoDirectories(t)
	w.bubble(func(t *testing.T) {
		m := w.start()
		m.Start()
		w.create(m, "t", 0)
		b := w.create(m, "t", 1)
		w.append(b, 4)
		broken := w.breakDir("/b", syscall.EIO)
		broken.Store(true)
		_, _ = b.Append(anyBatch(t, 10), AppendOptions{})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		broken.Store(false)
		if err := w.fs.RemoveAll("/b/t-1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(probePauseMax + time.Second)
		synctest.Wait()
		tp := TopicPartition{"t", 1}
		var failed *FailedError
		if _, err := m.CreateLog(tp, topicIDOf("t")); !errors.As(err, &failed) || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("CreateLog: %v", err)
		}
		if err := m.DeleteLog(tp); err != nil {
			t.Errorf("DeleteLog: %v", err)
		}
		_ = m.Close(1)
	})
}

// A directory that goes again while it is taken back, or loaded, comes back later with all that it had: what is not found in one that is
// not there is neither lost nor stray.
func TestDirectoryGoesWhileItIsRead(t *testing.T) {
	for _, at := range []string{"/b/u-0/partition.metadata", "/b/u-0/00000000000000000000.log", "/b/u-1/00000000000000000000.log"} {
		for _, starts := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,start=%v", at, starts), func(t *testing.T) {
				w := newWorld(t, "/a", "/b")
				w.bubble(func(t *testing.T) {
					w.o.Disk.CheckMs = 1000
					m := w.start()
					m.Start()
					for i := range int32(2) {
						w.create(m, "t", i) // in /a
						w.append(w.create(m, "u", i), 3)
					}
					var gone, armed atomic.Bool
					w.fs.FailEvery(fs.ErrNotExist, func(_, name string) bool {
						if name == at && armed.CompareAndSwap(true, false) {
							gone.Store(true)
						}
						return gone.Load() && (name == "/b" || strings.HasPrefix(name, "/b/"))
					})
					if starts {
						if err := m.Close(1); err != nil {
							t.Fatal(err)
						}
						m = w.open()
						armed.Store(true)
						_ = m.LoadLogs(t.Context(), func(TopicPartition, TopicID) bool { return true })
						m.Start()
					} else {
						gone.Store(true)
						_, _ = m.Log(TopicPartition{"u", 0}).Append(anyBatch(t, 10), AppendOptions{})
						_ = m.Log(TopicPartition{"u", 0}).Roll()
						time.Sleep(2 * time.Second)
						synctest.Wait()
						gone.Store(false)
						armed.Store(true)
						time.Sleep(probePauseMax)
						synctest.Wait()
					}
					if !gone.Load() {
						t.Fatal("nothing was read")
					}
					gone.Store(false)
					time.Sleep(2 * probePauseMax)
					synctest.Wait()
					for i := range int32(2) {
						if l := m.Log(TopicPartition{"u", i}); l == nil || l.Err() != nil || l.EndOffset() < 3 {
							t.Errorf("u-%d did not come back: %v", i, l)
						}
					}
					if causes := w.causes("stray"); len(causes) > 0 {
						t.Errorf("stray: %q", causes)
					}
					_ = m.Close(1)
				})
			})
		}
	}
}

// Where a volume was unmounted is an empty directory, which takes files: no partition is made there, and no checkpoint.
func TestNothingIsWrittenWhereAVolumeWas(t *testing.T) {
	for _, what := range []string{"partition", "checkpoint"} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, "/a", "/b")
			w.bubble(func(t *testing.T) {
				w.o.Disk.CheckMs = 1000
				m := w.start()
				m.Start()
				w.create(m, "t", 0)
				w.append(w.create(m, "t", 1), 5)
				w.create(m, "t", 2)
				_ = w.fs.RemoveAll("/b")
				if err := w.fs.MkdirAll("/b", 0o755); err != nil {
					t.Fatal(err)
				}
				if what == "partition" {
					if l := w.create(m, "t", 3); path.Dir(l.Dir()) != "/a" {
						t.Errorf("made in %s", l.Dir())
					}
				} else {
					_ = m.Log(TopicPartition{"t", 1}).Flush()
					_ = m.writeCheckpoints(m.dirs[1])
				}
				synctest.Wait()
				if entries, err := w.fs.ReadDir("/b"); err != nil || len(entries) > 0 {
					t.Errorf("%v, %v", entries, err)
				}
				if m.Dirs()[1].Err == nil {
					t.Error("the directory is not offline")
				}
				_ = m.Close(1)
			})
		})
	}
}

// Another volume in its place is not taken for it.
func TestAnotherVolumeIsNotTakenBack(t *testing.T) {
	for _, c := range []struct {
		name, says string
		put        func(w *world)
	}{
		{"none mounted", "is the volume mounted", func(w *world) { _ = w.fs.Remove("/b/meta.properties") }},
		{"another one", "another volume", func(w *world) {
			_ = w.fs.RemoveAll("/b")
			if err := Format(w.fs, "/b", Meta{"test-cluster", 1, TopicID{9}}, nil); err != nil {
				w.t.Fatal(err)
			}
		}},
		{"another cluster's", "invalid cluster.id", func(w *world) {
			_ = w.fs.RemoveAll("/b")
			if err := Format(w.fs, "/b", Meta{"someone-else", 1, TopicID{0: 0x11, 15: 1}}, nil); err != nil {
				w.t.Fatal(err)
			}
		}},
		{"another node has it", "failed to acquire lock", func(w *world) {
			_ = w.fs.Remove("/b/.lock") // as of a volume that was mounted anew
			if _, err := w.fs.Lock("/b/.lock"); err != nil {
				w.t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := twoDirectories(t)
			w.bubble(func(t *testing.T) {
				m := w.start()
				m.Start()
				w.create(m, "t", 0)
				b := w.create(m, "t", 1)
				broken := w.breakDir("/b", syscall.EIO)
				broken.Store(true)
				_, _ = b.Append(anyBatch(t, 10), AppendOptions{})
				time.Sleep(2 * time.Second)
				synctest.Wait()
				broken.Store(false)
				c.put(w)
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				if m.Dirs()[1].Err == nil {
					t.Error("taken back")
				}
				w.wantSaid("offline still", c.says)
				_ = m.Close(1)
			})
		})
	}
}

// A log whose fsync failed once is opened anew, and what it acknowledged is written again: an fsync that follows, and succeeds, would
// otherwise prove nothing, as a power cut shows.
func TestFailedSyncIsMadeGood(t *testing.T) {
	w := newWorld(t, "/data")
	w.bubble(func(t *testing.T) {
		w.o.Disk.CheckMs = 1000
		m := w.start()
		m.Start()
		l := w.create(m, "t", 0)
		w.append(l, 10)
		w.fs.FailNth(1, syscall.EIO, func(op, name string) bool { return op == "sync" && strings.HasSuffix(name, logSuffix) })
		if err := l.Flush(); !errors.Is(err, syscall.EIO) {
			t.Fatalf("flush: %v", err)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		now := m.Log(TopicPartition{"t", 0})
		if now == l || now.Err() != nil || now.EndOffset() != 10 {
			t.Fatalf("the log: %v, %v", now, now.Err())
		}
		if failed, online := w.causes("log-failed"), w.causes("log-online"); len(failed) != 1 || len(online) != 1 {
			t.Errorf("events: %q, %q", failed, online)
		}
		if err := now.Flush(); err != nil {
			t.Fatal(err)
		}
		m.Abort()
		w.fs = w.fs.AfterCrash(1)
		m = w.start()
		if l := m.Log(TopicPartition{"t", 0}); l.EndOffset() != 10 {
			t.Errorf("after a power cut the log ends at %d", l.EndOffset())
		}
		m.Abort()
	})
}

// A log that goes on failing is tried less and less often.
func TestFailingLogIsTriedSeldom(t *testing.T) {
	w := newWorld(t, "/data")
	w.bubble(func(t *testing.T) {
		w.o.Disk.CheckMs = 1000
		m := w.start()
		m.Start()
		w.append(w.create(m, "t", 0), 1)
		w.fs.FailEvery(syscall.EIO, func(op, name string) bool { return op == "sync" && strings.HasSuffix(name, logSuffix) })
		for range 4 * 3600 {
			if l := m.Log(TopicPartition{"t", 0}); l != nil {
				_ = l.Flush()
			}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if n := len(w.causes("log-online")); n < 20 || n > 40 {
			t.Errorf("%d times in 4 hours", n)
		}
		// Whoever reads the events knows at any time whether the log is offline.
		if failed, online := len(w.causes("log-failed")), len(w.causes("log-online")); failed != online && failed != online+1 {
			t.Errorf("it failed %d times and came back %d times", failed, online)
		}
		_ = m.Close(1)
	})
}

// A log that fails again within its pause may have failed with all of its directory: that is looked at at once, not after the pause.
func TestDirectoryFailsAfterItsLog(t *testing.T) {
	w := twoDirectories(t)
	w.bubble(func(t *testing.T) {
		m := w.start()
		m.Start()
		tp := TopicPartition{"t", 0}
		dir := path.Dir(w.create(m, "t", 0).Dir())
		var syncs atomic.Bool
		broken := &atomic.Bool{}
		w.fs.FailEvery(syscall.EIO, func(op, name string) bool {
			return broken.Load() && strings.HasPrefix(name, dir) || syncs.Load() && op == "sync" && strings.HasSuffix(name, logSuffix)
		})
		syncs.Store(true)
		for range 30 * 60 { // until its pause is minutes
			if l := m.Log(tp); l != nil {
				_, _ = l.Append(anyBatch(t, 10), AppendOptions{})
				_ = l.Flush()
			}
			time.Sleep(time.Second)
		}
		syncs.Store(false)
		for m.Log(tp) == nil || m.Log(tp).Err() != nil {
			time.Sleep(time.Second)
		}
		broken.Store(true)
		_, _ = m.Log(tp).Append(anyBatch(t, 10), AppendOptions{})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := w.causes("dir-offline"); len(got) != 1 {
			t.Errorf("the directory failed with its log; events: %q", got)
		}
		_ = m.Close(1)
	})
}

// A volume that is unmounted under a node and mounted again.
func TestUnmountedDirectoryIsTakenBack(t *testing.T) {
	root := t.TempDir()
	disk, data := filepath.Join(root, "disk"), filepath.Join(root, "b")
	for _, d := range []string{disk, data} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=16m"); errors.Is(err, syscall.EPERM) {
		t.Skipf("needs to mount a small tmpfs: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	defer syscall.Unmount(disk, syscall.MNT_DETACH)
	mount := func() {
		t.Helper()
		if err := syscall.Mount(disk, data, "", syscall.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
	}
	mount()
	defer syscall.Unmount(data, syscall.MNT_DETACH)
	first := filepath.Join(root, "a")
	for i, d := range []string{first, data} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := Format(vfs.OS(), d, Meta{"test-cluster", 1, TopicID{0: 0x11, 15: byte(i)}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	back := make(chan struct{}, 1)
	m, err := OpenManager(ManagerOptions{FS: vfs.OS(), Dirs: []string{first, data}, NodeID: 1, RecoveryThreads: 1, Disk: DiskOptions{CheckMs: 10}, Returned: func() { back <- struct{}{} }})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Abort()
	if err := m.LoadLogs(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	m.Start()
	created(t, m, "elsewhere")
	l := created(t, m, "orders")
	if path.Dir(l.Dir()) != data {
		t.Fatalf("the log is in %s", l.Dir())
	}
	fillOpen := func(l *Log, n int) {
		t.Helper()
		for range n {
			if _, err := l.Append(anyBatch(t, 100), AppendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	fillOpen(l, 10)
	if err := syscall.Unmount(data, syscall.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	if err := l.Roll(); err == nil {
		t.Fatal("a roll without the volume")
	}
	m.awaitOffline(t, data)
	mount()
	select {
	case <-back:
	case <-time.After(patience):
		t.Fatalf("the log did not come back in %v", patience)
	}
	now := m.Log(TopicPartition{"orders", 0})
	if now == nil || now == l || now.EndOffset() != 10 {
		t.Fatalf("the log that came back: %v", now)
	}
	fillOpen(now, 5)
	if err := m.Close(1); err != nil {
		t.Error(err)
	}
}

// awaitOffline waits until a directory is offline.
func (m *Manager) awaitOffline(t *testing.T, dir string) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < patience; time.Sleep(time.Millisecond) {
		if slices.ContainsFunc(m.dirs, func(d *dataDir) bool { return d.path == dir && d.offline() != nil }) {
			return
		}
	}
	t.Fatalf("%s is not offline after %v", dir, patience)
}

// patience is how long something is waited for that takes a moment, on however busy a machine.
const patience = time.Minute
