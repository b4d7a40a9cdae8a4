package storage

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Checkpoints full of text cost recovery, not the start (REC-12).
func TestMangledCheckpoints(t *testing.T) {
	for _, content := range []string{"", "this is no checkpoint\n", "0\n7\na 0 1\n", strings.Repeat("\x00", 100)} {
		w := newWorld(t, "/data")
		m := w.start()
		w.append(w.create(m, "a", 0), 5)
		w.close(m, 1)
		if err := w.fs.Remove("/data/.kafka_cleanshutdown"); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{recoveryPointFile, logStartFile, highWatermarkFile, cleanerFile} {
			put(t, w.fs, "/data/"+name, content)
		}
		m = w.start()
		l := m.Log(TopicPartition{"a", 0})
		if l == nil || l.EndOffset() != 5 || l.StartOffset() != 0 {
			t.Fatalf("%q: %v", content, l)
		}
		if content != "" {
			w.wantSaid("malformed", recoveryPointFile)
		}
		w.close(m, 1)
		if got, want := w.offsets("/data/"+recoveryPointFile), (map[TopicPartition]Offset{{"a", 0}: 5}); !maps.Equal(got, want) {
			t.Errorf("%q: written after: %v", content, got)
		}
	}
}

// One bad log does not keep the others from starting, is not replaced by an empty one, keeps its entries, and forbids the clean mark.
func TestBadLog(t *testing.T) {
	w := newWorld(t, "/data")
	w.o.HighWatermark = func(tp TopicPartition) (Offset, bool) { return 2, true }
	m := w.start()
	for _, topic := range []string{"good", "bad"} {
		w.append(w.create(m, topic, 0), 4)
	}
	w.close(m, 1)
	put(t, w.fs, "/data/bad-0/partition.metadata", "not what it should be")
	m = w.start()
	bad := TopicPartition{"bad", 0}
	if m.Log(bad) != nil || m.Log(TopicPartition{"good", 0}) == nil {
		t.Fatalf("open: %v", m.Logs())
	}
	w.wantSaid("log cannot be opened", "bad-0", "partition.metadata")
	infos := m.Dirs()
	if len(infos) != 1 || infos[0].Err != nil || len(infos[0].Failed) != 1 || infos[0].Failed[bad] == nil || len(infos[0].Logs) != 1 {
		t.Errorf("Dirs: %+v", infos)
	}
	var failed *FailedError
	if _, err := m.CreateLog(bad, topicIDOf("bad")); !errors.As(err, &failed) {
		t.Errorf("CreateLog: %v", err)
	}
	if len(w.events) == 0 || !slices.ContainsFunc(w.events, func(e Event) bool { return e.Kind == "log-failed" && e.Partition == bad }) {
		t.Errorf("events: %v", w.events)
	}
	w.append(m.Log(TopicPartition{"good", 0}), 1)
	w.close(m, 1)
	if w.exists("/data/.kafka_cleanshutdown") {
		t.Error("marked clean")
	}
	if got, want := w.offsets("/data/"+recoveryPointFile), (map[TopicPartition]Offset{bad: 4, {"good", 0}: 5}); !maps.Equal(got, want) {
		t.Errorf("recovery points %v, want %v", got, want)
	}
	if got := w.offsets("/data/" + highWatermarkFile)[bad]; got != 2 {
		t.Errorf("high watermark of the bad log: %d", got)
	}
	// Deleting it makes room for another.
	m = w.start()
	if err := m.DeleteLog(bad); err != nil {
		t.Fatal(err)
	}
	if l := w.create(m, "bad", 0); l.EndOffset() != 0 {
		t.Errorf("the new log ends at %d", l.EndOffset())
	}
	w.close(m, 1)
	if !w.exists("/data/.kafka_cleanshutdown") {
		t.Error("not marked clean once the bad log is gone")
	}
}

func TestStray(t *testing.T) {
	w := newWorld(t, "/data")
	m := w.start()
	w.append(w.create(m, "known", 0), 1)
	w.append(w.create(m, "unknown", 0), 2)
	w.append(w.create(m, "bare", 0), 3)
	w.close(m, 1)
	if err := w.fs.Remove("/data/bare-0/partition.metadata"); err != nil {
		t.Fatal(err)
	}
	m = w.open()
	asked := map[TopicPartition]TopicID{}
	var mu sync.Mutex
	err := m.LoadLogs(t.Context(), func(tp TopicPartition, id TopicID) bool {
		mu.Lock()
		defer mu.Unlock()
		asked[tp] = id
		return id == topicIDOf("known")
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := (map[TopicPartition]TopicID{{"known", 0}: topicIDOf("known"), {"unknown", 0}: topicIDOf("unknown"), {"bare", 0}: {}}); !maps.Equal(asked, want) {
		t.Errorf("asked for %v", asked)
	}
	if got, want := w.ls("/data"), "bare-0.*-stray known-0 unknown-0.*-stray"; got != want {
		t.Errorf("directories: %s, want %s", got, want)
	}
	w.wantSaid("stray partition", "unknown-0", topicIDOf("unknown").String())
	w.wantSaid("stray partition", "bare-0", "partition.metadata is missing")
	// A new log of that name must not inherit the stray one's offsets, though it was never said that they are gone.
	if l := w.create(m, "unknown", 0); l.EndOffset() != 0 || l.StartOffset() != 0 {
		t.Errorf("the new log is [%d, %d)", l.StartOffset(), l.EndOffset())
	}
	if got, want := w.offsets("/data/"+recoveryPointFile), (map[TopicPartition]Offset{{"known", 0}: 1}); !maps.Equal(got, want) {
		t.Errorf("recovery points on disk before the new log: %v, want %v", got, want)
	}
	w.close(m, 1)
	if !w.exists("/data/.kafka_cleanshutdown") {
		t.Error("not marked clean")
	}
	w.start()
	if got, want := w.ls("/data"), "bare-0.*-stray known-0 unknown-0 unknown-0.*-stray"; got != want {
		t.Errorf("directories after a restart: %s, want %s", got, want)
	}
}

// A crash right after a partition was deleted and made again finds no entry of the first in the checkpoints.
func TestSecondLifeInheritsNothing(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(t, "/data")
		m := w.start()
		w.append(w.create(m, "a", 0), 5)
		w.close(m, 1)
		m = w.start()
		if err := m.DeleteLog(TopicPartition{"a", 0}); err != nil {
			t.Fatal(err)
		}
		w.create(m, "a", 0)
		after := w.fs.AfterCrash(seed)
		points, err := readOffsetCheckpoint(after, "/data/"+recoveryPointFile)
		if _, there := points[TopicPartition{"a", 0}]; err != nil || there {
			t.Fatalf("seed %d: %v, %v", seed, points, err)
		}
		m.Abort()
	}
}

// After a truncation no checkpoint on disk vouches for what came in its place.
func TestTruncateLowersCheckpoints(t *testing.T) {
	tp := TopicPartition{"a", 0}
	for seed := range uint64(20) {
		w := newWorld(t, "/data")
		m := w.start()
		l := w.create(m, "a", 0)
		w.append(l, 8)
		if _, err := l.DeleteRecords(6); err != nil {
			t.Fatal(err)
		}
		w.close(m, 1)
		m = w.start()
		l = m.Log(tp)
		if err := m.Truncate(tp, 7); err != nil {
			t.Fatal(err)
		}
		w.append(l, 5)
		points, err := readOffsetCheckpoint(w.fs.AfterCrash(seed), "/data/"+recoveryPointFile)
		if err != nil || points[tp] > 7 {
			t.Fatalf("seed %d: recovery point %v, %v", seed, points, err)
		}
		m.Abort()

		w.fs = w.fs.AfterCrash(seed)
		m = w.start()
		if err := m.TruncateFullyAndStartAt(tp, 3); err != nil {
			t.Fatal(err)
		}
		l = m.Log(tp)
		w.append(l, 2)
		if err := l.Flush(); err != nil {
			t.Fatal(err)
		}
		m.Abort()
		w.fs = w.fs.AfterCrash(seed)
		m = w.start()
		if l := m.Log(tp); l.StartOffset() != 3 || l.EndOffset() != 5 {
			t.Fatalf("seed %d: [%d, %d), want [3, 5)", seed, l.StartOffset(), l.EndOffset())
		}
		if err := m.Truncate(TopicPartition{"none", 0}, 0); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("truncated what is not there: %v", err)
		}
		m.Abort()
	}
}

func TestFewestPartitions(t *testing.T) {
	w := newWorld(t, "/a", "/b", "/c")
	m := w.start()
	for p := range int32(7) {
		w.create(m, "t", p)
	}
	if err := m.DeleteLog(TopicPartition{"t", 1}); err != nil {
		t.Fatal(err)
	}
	w.create(m, "u", 0)
	for dir, want := range map[string]string{"/a": "t-0 t-3 t-6", "/b": "t-1.*-delete t-4 u-0", "/c": "t-2 t-5"} {
		if got := w.ls(dir); got != want {
			t.Errorf("%s: %s, want %s", dir, got, want)
		}
	}
	infos := m.Dirs()
	var paths []string
	for i, info := range infos {
		paths = append(paths, info.Path)
		if info.ID != (TopicID{0: 0x11, 15: byte(i)}) || info.Usage.Total == 0 || info.Err != nil {
			t.Errorf("%+v", info)
		}
	}
	if !slices.Equal(paths, w.o.Dirs) {
		t.Errorf("Dirs: %v", paths)
	}
	w.close(m, 1)
	w.start()
}

// A directory that fails the creation of a log goes offline, and the log is made elsewhere; a full disk is the caller's affair.
func TestCreateLogTriesAnotherDirectory(t *testing.T) {
	w := newWorld(t, "/a", "/b")
	m := w.start()
	w.fs.FailNth(1, syscall.EROFS, func(op, name string) bool { return op == "mkdir" && strings.HasPrefix(name, "/a/") })
	if l := w.create(m, "t", 0); path.Dir(l.Dir()) != "/b" || m.Dirs()[0].Err == nil {
		t.Errorf("%s; %v", l.Dir(), m.Dirs()[0].Err)
	}
	w.fs.FailNth(1, syscall.ENOSPC, func(op, name string) bool { return op == "create" && strings.HasPrefix(name, "/b/u-0") })
	if _, err := m.CreateLog(TopicPartition{"u", 0}, topicIDOf("u")); !errors.Is(err, syscall.ENOSPC) || m.Dirs()[1].Err != nil {
		t.Errorf("full: %v; %v", err, m.Dirs()[1].Err)
	}
	if got, want := w.ls("/b"), "t-0"; got != want {
		t.Errorf("/b has %s, want %s", got, want)
	}
	w.create(m, "u", 0)
}

// LoadLogs that was cut short loses nothing of the logs that it did not come to.
func TestInterruptedLoad(t *testing.T) {
	for _, clean := range []bool{true, false} {
		w := newWorld(t, "/data")
		m := w.start()
		want := map[TopicPartition]Offset{}
		for p := range int32(6) {
			w.append(w.create(m, "t", p), int(p)+1)
			want[TopicPartition{"t", p}] = Offset(p) + 1
		}
		w.close(m, 1)
		if !clean {
			if err := w.fs.Remove("/data/.kafka_cleanshutdown"); err != nil {
				t.Fatal(err)
			}
		}
		w.o.RecoveryThreads = 1
		m = w.open()
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		err := m.LoadLogs(ctx, func(TopicPartition, TopicID) bool {
			if n++; n == 3 {
				cancel()
			}
			return true
		})
		if err == nil || len(m.Logs()) != 3 {
			t.Fatalf("LoadLogs: %v, %d logs", err, len(m.Logs()))
		}
		w.close(m, 2)
		if got := w.exists("/data/.kafka_cleanshutdown"); got != clean {
			t.Errorf("was clean: %v, is clean: %v", clean, got)
		}
		if got := w.offsets("/data/" + recoveryPointFile); !maps.Equal(got, want) {
			t.Errorf("recovery points %v, want %v", got, want)
		}
	}
}

// Logs that are made at the same time are spread over the directories as those that are made one after the other.
func TestLogsMadeAtOnceAreSpread(t *testing.T) {
	w := newWorld(t, "/a", "/b", "/c")
	m := w.start()
	var all sync.WaitGroup
	for p := range int32(30) {
		all.Go(func() {
			if _, err := m.CreateNewLog(TopicPartition{"t", p}, topicIDOf("t")); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, d := range m.Dirs() {
		if len(d.Logs) != 10 {
			t.Errorf("%s has %d of 30 logs", d.Path, len(d.Logs))
		}
	}
}

// A partition that was there before and whose log is gone begins again, and that is said; one that has just come into being is no loss.
func TestLogMissing(t *testing.T) {
	w := newWorld(t, "/data")
	w.bubble(func(t *testing.T) {
		m := w.start()
		old, fresh := TopicPartition{Topic: "old"}, TopicPartition{Topic: "fresh"}
		if _, err := m.CreateNewLog(fresh, TopicID{1}); err != nil {
			t.Fatal(err)
		}
		if causes := w.causes("log-missing"); len(causes) > 0 {
			t.Errorf("of a new partition: %q", causes)
		}
		if l, err := m.CreateLog(old, TopicID{2}); err != nil || l.EndOffset() != 0 {
			t.Fatalf("%v, %v", l, err)
		}
		if causes := w.causes("log-missing"); len(causes) != 1 || !strings.Contains(causes[0], "begins again, empty") {
			t.Errorf("causes %q", causes)
		}
		w.wantSaid("level=WARN", "partition=old-0", "directory=/data/old-0")
		if _, err := m.CreateLog(old, TopicID{2}); err != nil { // it is there
			t.Fatal(err)
		}
		if causes := w.causes("log-missing"); len(causes) != 1 {
			t.Errorf("causes %q", causes)
		}
		if err := m.Close(1); err != nil {
			t.Error(err)
		}
	})
}
