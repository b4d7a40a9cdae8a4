package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// What does not belong in a data directory is named and survives; what Kafka left half done is dealt with (REC-16).
func TestForeignDirectories(t *testing.T) {
	w := newWorld(t, "/data")
	m := w.start()
	w.create(m, "x-1", 2)
	w.close(m, 1)
	hex := "0123456789abcdef0123456789abcdef"
	foreign := []string{"lost+found", "nodash", "a-01", "old-data", "remote-log-index-cache", "f-0." + hex + "-future", "s-0." + hex + "-stray"}
	for _, d := range foreign {
		put2(t, w.fs, "/data/"+d, "file", "content")
	}
	put(t, w.fs, "/data/a plain file", "content")
	put(t, w.fs, "/data/meta.properties.tmp", "half written")
	put2(t, w.fs, "/data/a.b-c-0."+hex+"-delete", "00000000000000000000.log", "gone")
	w.bubble(func(t *testing.T) {
		m := w.start()
		for _, name := range []string{"lost+found", "nodash", "a-01", "old-data", "-future", "-stray"} {
			w.wantSaid(name)
		}
		if strings.Contains(w.said(), "remote-log-index-cache") {
			t.Error("warned of what is Kafka's")
		}
		if len(m.Logs()) != 1 || m.Log(TopicPartition{"x-1", 2}) == nil {
			t.Errorf("open: %v", m.Logs())
		}
		m.Start()
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if !strings.Contains(w.ls("/data"), "a.b-c-0.*-delete") {
			t.Error("removed before its delay")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := w.ls("/data"); strings.Contains(got, "-delete") {
			t.Errorf("left over: %s", got)
		}
		w.close(m, 1)
	})
	for _, d := range foreign {
		if got := get(t, w.fs, "/data/"+d+"/file"); got != "content" {
			t.Errorf("%s: %q", d, got)
		}
	}
	if !w.exists("/data/a plain file") || w.exists("/data/meta.properties.tmp") {
		t.Error("a plain file is gone, or a temporary one is not")
	}
	if !w.exists("/data/.kafka_cleanshutdown") {
		t.Error("foreign directories kept the stop from being clean")
	}
}

// A node that is killed soon after its first start leaves all three checkpoints (REC-12).
func TestCheckpointsExistSoon(t *testing.T) {
	w := newWorld(t, "/data")
	w.bubble(func(t *testing.T) {
		m := w.start()
		w.create(m, "x", 0)
		m.Start()
		synctest.Wait()
		for _, name := range checkpointFiles {
			if !w.exists("/data/" + name) {
				t.Errorf("no %s", name)
			}
		}
		m.Abort()
	})
}

func TestDeleteLog(t *testing.T) {
	w := newWorld(t, "/data")
	w.bubble(func(t *testing.T) {
		w.o.HighWatermark = func(tp TopicPartition) (Offset, bool) { return 9, true }
		m := w.start()
		m.Start()
		gone := TopicPartition{"gone", 0}
		w.append(w.create(m, "gone", 0), 2)
		w.append(w.create(m, "stays", 0), 2)
		if err := m.DeleteLog(gone); err != nil {
			t.Fatal(err)
		}
		if err := m.DeleteLog(gone); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("deleted twice: %v", err)
		}
		if m.Log(gone) != nil || len(m.Logs()) != 1 {
			t.Error("still among the logs")
		}
		if got, want := w.ls("/data"), "gone-0.*-delete stays-0"; got != want {
			t.Errorf("directories: %s, want %s", got, want)
		}
		time.Sleep(time.Minute - time.Millisecond)
		synctest.Wait()
		if got, want := w.ls("/data"), "gone-0.*-delete stays-0"; got != want {
			t.Errorf("before the delay: %s, want %s", got, want)
		}
		// A second one, whose time comes later, and a new life of the first.
		w.create(m, "later", 0)
		if err := m.DeleteLog(TopicPartition{"later", 0}); err != nil {
			t.Fatal(err)
		}
		if l := w.create(m, "gone", 0); l.EndOffset() != 0 {
			t.Errorf("the new log ends at %d", l.EndOffset())
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if got, want := w.ls("/data"), "gone-0 later-0.*-delete stays-0"; got != want {
			t.Errorf("after the delay: %s, want %s", got, want)
		}
		w.close(m, 1)
		if got, want := w.ls("/data"), "gone-0 later-0.*-delete stays-0"; got != want {
			t.Errorf("after Close: %s, want %s", got, want)
		}
		if got := w.offsets("/data/" + highWatermarkFile); len(got) != 2 {
			t.Errorf("high watermarks: %v", got)
		}
		m = w.start()
		m.Start()
		if hw := m.CheckpointedHighWatermark(TopicPartition{"stays", 0}); hw != 9 {
			t.Errorf("restored high watermark %d", hw)
		}
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if got, want := w.ls("/data"), "gone-0 stays-0"; got != want {
			t.Errorf("after the next start: %s, want %s", got, want)
		}
		w.close(m, 1)
	})
}

// A directory that fails while the node runs takes no new logs and is not marked clean. A full one is tried again.
func TestOfflineWhileRunning(t *testing.T) {
	w := newWorld(t, "/a", "/b")
	w.bubble(func(t *testing.T) {
		w.o.FlushCheckpointMs = 1000
		m := w.start()
		m.Start()
		synctest.Wait() // until the checkpoints are written that there were none of: the next write is the one that fails
		w.create(m, "t", 0)
		w.create(m, "t", 1)
		isCheckpoint := func(dir string) func(op, name string) bool {
			return func(op, name string) bool { return op == "write" && name == dir+"/"+recoveryPointFile+".tmp" }
		}
		w.fs.FailNth(1, syscall.EIO, isCheckpoint("/a"))
		w.fs.FailNth(1, syscall.ENOSPC, isCheckpoint("/b"))
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		infos := m.Dirs()
		if !errors.Is(infos[0].Err, syscall.EIO) || infos[1].Err != nil {
			t.Errorf("Dirs: %v, %v", infos[0].Err, infos[1].Err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := w.offsets("/b/" + recoveryPointFile); len(got) != 1 {
			t.Errorf("/b was not written again: %v", got)
		}
		for p := range int32(3) {
			if l := w.create(m, "u", p); path.Dir(l.Dir()) != "/b" {
				t.Errorf("%v on the directory that is offline", l.Dir())
			}
		}
		_ = m.Close(1)
		if w.exists("/a/.kafka_cleanshutdown") || !w.exists("/b/.kafka_cleanshutdown") {
			t.Error("clean marks are wrong")
		}
	})
}

// Checkpoints are written in their time, and only when they say something new.
func TestCheckpointLoops(t *testing.T) {
	w := newWorld(t, "/data")
	w.bubble(func(t *testing.T) {
		w.o.InitialTaskDelayMs, w.o.FlushCheckpointMs, w.o.LogStartCheckpointMs, w.o.HighWatermarkCheckpointMs = 30_000, 60_000, 60_000, 5_000
		var mu sync.Mutex
		hw, writes := Offset(0), map[string]int{}
		w.o.HighWatermark = func(TopicPartition) (Offset, bool) {
			mu.Lock()
			defer mu.Unlock()
			return hw, true
		}
		w.fs.FailNth(1<<30, errors.New("never"), func(op, name string) bool {
			if op == "rename" && path.Dir(name) == "/data" {
				mu.Lock()
				defer mu.Unlock()
				writes[path.Base(name)]++
			}
			return false
		})
		m := w.start()
		l := w.create(m, "a", 0)
		clear(writes)
		m.Start()
		check := func(after time.Duration, want string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			var got []string
			for _, name := range slices.Sorted(maps.Keys(writes)) {
				got = append(got, fmt.Sprintf("%s×%d", strings.TrimSuffix(name, "-offset-checkpoint.tmp"), writes[name]))
			}
			clear(writes)
			if s := strings.Join(got, " "); s != want {
				t.Errorf("written: %q, want %q", s, want)
			}
		}
		check(time.Second, "log-start×1 recovery-point×1 replication×1") // there were none
		check(28*time.Second, "")
		check(2*time.Second, "")
		check(10*time.Minute, "")
		w.append(l, 10)
		mu.Lock()
		hw = 10
		mu.Unlock()
		check(5*time.Second, "replication×1")
		check(time.Minute, "")
		if err := l.Flush(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.DeleteRecords(4); err != nil {
			t.Fatal(err)
		}
		check(time.Minute, "log-start×1 recovery-point×1")
		for name, want := range map[string]string{recoveryPointFile: "0\n1\na 0 10\n", highWatermarkFile: "0\n1\na 0 10\n", logStartFile: "0\n1\na 0 4\n"} {
			if got := get(t, w.fs, "/data/"+name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		check(time.Hour, "")
		w.close(m, 1)
		m = w.start()
		if l := m.Log(TopicPartition{"a", 0}); l.StartOffset() != 4 || l.EndOffset() != 10 || m.CheckpointedHighWatermark(TopicPartition{"a", 0}) != 10 {
			t.Errorf("after a restart: [%d, %d), %d", l.StartOffset(), l.EndOffset(), m.CheckpointedHighWatermark(TopicPartition{"a", 0}))
		}
		clear(writes)
		w.close(m, 1)
		check(0, ".kafka_cleanshutdown.tmp×1")
	})
}

func TestFlushLoop(t *testing.T) {
	w := newWorld(t, "/data")
	w.bubble(func(t *testing.T) {
		w.o.FlushSchedulerMs = 1000
		w.o.ConfigFor = func(topic string) Config {
			c := DefaultConfig()
			if topic == "often" {
				c.FlushMs = 10_000
			}
			return c
		}
		m := w.start()
		often, never := w.create(m, "often", 0), w.create(m, "never", 0)
		m.Start()
		w.append(often, 1)
		w.append(never, 1)
		time.Sleep(9500 * time.Millisecond)
		synctest.Wait()
		if p := often.RecoveryPoint(); p != 0 {
			t.Errorf("flushed early, to %d", p)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if p := often.RecoveryPoint(); p != 1 {
			t.Errorf("recovery point %d after flush.ms", p)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if p := never.RecoveryPoint(); p != 0 {
			t.Errorf("flushed without flush.ms, to %d", p)
		}
		w.close(m, 1)
	})
}

func TestRetentionLoop(t *testing.T) {
	w := newWorld(t, "/data")
	w.bubble(func(t *testing.T) {
		w.o.RetentionCheckMs, w.o.InitialTaskDelayMs = 300_000, 30_000
		w.o.ConfigFor = func(string) Config {
			c := DefaultConfig()
			c.RetentionMs, c.Delete, c.Compact = 3_600_000, true, false
			return c
		}
		m := w.start()
		l, unknown := w.create(m, "a", 0), w.create(m, "unknown", 0)
		w.o.HighWatermark = nil
		m.o.HighWatermark = func(tp TopicPartition) (Offset, bool) { return 5, tp.Topic == "a" }
		m.Start()
		w.append(l, 5)
		w.append(unknown, 5)
		time.Sleep(59 * time.Minute)
		synctest.Wait()
		if s := l.StartOffset(); s != 0 {
			t.Errorf("log start %d within retention", s)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if s := l.StartOffset(); s != 5 {
			t.Errorf("log start %d after retention", s)
		}
		if s := unknown.StartOffset(); s != 0 {
			t.Errorf("log start %d of a log without a high watermark", s)
		}
		w.close(m, 1)
	})
}

func TestManyAtOnce(t *testing.T) {
	w := newWorld(t, "/a", "/b")
	m := w.start()
	m.o.HighWatermarkCheckpointMs, m.o.FlushCheckpointMs, m.o.SegmentDeleteDelayMs = 1, 1, 1
	m.Start()
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			for i := range 20 {
				tp := TopicPartition{"t", int32(i)} // all on the same ones
				if _, err := m.CreateLog(tp, topicIDOf("t")); err != nil {
					t.Errorf("create %s: %v", tp, err)
				}
				if (i+g)%3 == 0 {
					if err := m.DeleteLog(tp); err != nil && !errors.Is(err, fs.ErrNotExist) {
						t.Errorf("delete %s: %v", tp, err)
					}
				}
				m.Dirs()
				m.Log(tp)
			}
		})
	}
	group.Wait()
	w.close(m, 1)
	want := len(m.heldIn(nil, nil))
	w.start()
	if got := len(strings.Fields(w.ls("/a"))) + len(strings.Fields(w.ls("/b"))); got < want {
		t.Errorf("%d directories for %d logs", got, want)
	}
}

// A directory that went offline while it was opened is not touched again.
func TestOfflineDirectoryKeepsItsLeftovers(t *testing.T) {
	w := newWorld(t, "/a", "/b")
	put2(t, w.fs, "/b/t-0.0123456789abcdef0123456789abcdef-delete", "f", "")
	w.fs.FailNth(1, syscall.EIO, func(op, name string) bool { return op == "syncdir" && name == "/b" })
	w.bubble(func(t *testing.T) {
		m := w.start()
		m.Start()
		time.Sleep(time.Hour)
		synctest.Wait()
		if got, want := w.ls("/b"), "t-0.*-delete"; got != want {
			t.Errorf("/b has %q, want %q", got, want)
		}
		w.close(m, 1)
	})
	if w.exists("/b/.kafka_cleanshutdown") {
		t.Error("/b is marked clean")
	}
}

// The delay of removals may change: each has that of its time.
func TestDeleteDelayChanges(t *testing.T) {
	w := newWorld(t, "/data")
	w.bubble(func(t *testing.T) {
		m := w.start()
		m.Start()
		del := func(topic string) {
			t.Helper()
			w.create(m, topic, 0)
			if err := m.DeleteLog(TopicPartition{topic, 0}); err != nil {
				t.Fatal(err)
			}
		}
		left := func(want string) {
			t.Helper()
			synctest.Wait()
			if got := strings.ReplaceAll(w.ls("/data"), "-0.*-delete", ""); got != want {
				t.Errorf("left: %q, want %q", got, want)
			}
		}
		del("slow")
		m.SetDeleteDelay(1000)
		del("fast")
		m.SetDeleteDelay(100_000)
		del("slower")
		m.SetDeleteDelay(0)
		time.Sleep(500 * time.Millisecond)
		del("now")
		left("fast slow slower")
		time.Sleep(600 * time.Millisecond)
		left("slow slower")
		time.Sleep(time.Minute)
		left("slower")
		time.Sleep(time.Minute)
		left("")
		w.close(m, 1)
	})
}
