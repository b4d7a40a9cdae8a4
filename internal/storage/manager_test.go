package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

// A world is a file system with formatted data directories, and what a Manager on them says.
type world struct {
	t      *testing.T
	fs     *vfs.Mem
	o      ManagerOptions
	mu     sync.Mutex // guards the fields below
	log    bytes.Buffer
	events []Event
}

func newWorld(t *testing.T, dirs ...string) *world {
	t.Helper()
	w := &world{t: t, fs: vfs.NewMem()}
	for i, d := range dirs {
		if err := Format(w.fs, d, Meta{"test-cluster", 1, TopicID{0: 0x11, 15: byte(i)}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	w.o = ManagerOptions{
		Dirs:                 dirs,
		NodeID:               1,
		RecoveryThreads:      2,
		SegmentDeleteDelayMs: 60_000,
		Events: func(e Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, e)
		},
		Log: slog.New(slog.NewTextHandler(w, nil)),
	}
	return w
}

// bubble runs a test whose time is its own.
func (w *world) bubble(test func(t *testing.T)) {
	outer := w.t
	defer func() { w.t = outer }()
	synctest.Test(outer, func(t *testing.T) {
		w.t = t
		test(t)
	})
}

func (w *world) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

func (w *world) said() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

func (w *world) wantSaid(words ...string) {
	w.t.Helper()
	for _, line := range strings.Split(w.said(), "\n") {
		if !slices.ContainsFunc(words, func(s string) bool { return !strings.Contains(line, s) }) {
			return
		}
	}
	w.t.Errorf("no line with %q in the log:\n%s", words, w.said())
}

func (w *world) open() *Manager {
	w.t.Helper()
	w.o.FS = w.fs
	m, err := OpenManager(w.o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(m.Abort)
	return m
}

// start is open and LoadLogs that keeps all.
func (w *world) start() *Manager {
	w.t.Helper()
	m := w.open()
	if err := m.LoadLogs(w.t.Context(), nil); err != nil {
		w.t.Fatal(err)
	}
	return m
}

// refuse wants OpenManager to fail with all the words in its error, and to leave no lock.
func (w *world) refuse(words ...string) error {
	w.t.Helper()
	w.o.FS = w.fs
	m, err := OpenManager(w.o)
	if err == nil {
		m.Abort()
		w.t.Errorf("started; want an error with %q", words)
		return nil
	}
	for _, s := range words {
		if !strings.Contains(err.Error(), s) {
			w.t.Errorf("error %q does not say %q", err, s)
		}
	}
	for _, d := range w.o.Dirs {
		l, err := w.fs.Lock(d + "/.lock")
		if errors.Is(err, vfs.ErrLocked) {
			w.t.Errorf("%s is locked still", d)
		} else if err == nil {
			_ = l.Close()
		}
	}
	return err
}

func (w *world) close(m *Manager, brokerEpoch int64) {
	w.t.Helper()
	if err := m.Close(brokerEpoch); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) create(m *Manager, topic string, partition int32) *Log {
	w.t.Helper()
	l, err := m.CreateLog(TopicPartition{topic, partition}, topicIDOf(topic))
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

func (w *world) append(l *Log, records int) {
	w.t.Helper()
	for range records {
		b := record.NewBuilder()
		b.Add(record.Record{Timestamp: time.Now().UnixMilli(), Value: []byte("value")})
		batch, err := b.Batch(nil)
		if err != nil {
			w.t.Fatal(err)
		}
		if _, err := l.Append(batch, AppendOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) exists(name string) bool {
	_, err := w.fs.Stat(name)
	return err == nil
}

func (w *world) offsets(name string) map[TopicPartition]Offset {
	w.t.Helper()
	offsets, err := readOffsetCheckpoint(w.fs, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Fatal(err)
	}
	return offsets
}

// ls lists the directories in dir that hold partitions of any kind, the random ids as *.
func (w *world) ls(dir string) string {
	w.t.Helper()
	list, err := w.fs.ReadDir(dir)
	if err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		if !e.IsDir() {
			continue
		}
		name := e.Name()
		if _, kind, ok := parseDirName(name); ok && kind != dirLive {
			name = name[:strings.LastIndexByte(name, '.')] + ".*" + string(kind)
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// topicIDOf is the id that a topic has in these tests.
func topicIDOf(topic string) TopicID {
	id := TopicID{0: 0x22}
	copy(id[1:], topic)
	return id
}

func TestManagerStopsAndStarts(t *testing.T) {
	w := newWorld(t, "/data")
	if err := writeCleanMark(w.fs, "/data", 41); err != nil {
		t.Fatal(err)
	}
	m := w.start()
	if got, want := m.Meta(), (Meta{"test-cluster", 1, TopicID{0: 0x11}}); got != want {
		t.Errorf("meta %+v, want %+v", got, want)
	}
	if got := m.PreviousBrokerEpoch(); got != 41 {
		t.Errorf("previous broker epoch %d", got)
	}
	if w.exists("/data/.kafka_cleanshutdown") {
		t.Error("the clean mark is there while logs are open")
	}
	a := w.create(m, "a", 0)
	w.append(a, 3)
	if again := w.create(m, "a", 0); again != a || m.Log(TopicPartition{"a", 0}) != a || len(m.Logs()) != 1 {
		t.Error("an open log is not returned as it is")
	}
	var idErr *TopicIDError
	if _, err := m.CreateLog(TopicPartition{"a", 0}, topicIDOf("other")); !errors.As(err, &idErr) || idErr.Have != topicIDOf("a") {
		t.Errorf("another topic's id: %v", err)
	}
	w.close(m, 42)
	w.close(m, 43) // does nothing
	if _, err := m.CreateLog(TopicPartition{"b", 0}, topicIDOf("b")); err == nil {
		t.Error("a log was made after Close")
	}
	if got, want := get(t, w.fs, "/data/.kafka_cleanshutdown"), `{"version":0,"brokerEpoch":42}`; got != want {
		t.Errorf("clean mark %q, want %q", got, want)
	}
	if got, want := get(t, w.fs, "/data/recovery-point-offset-checkpoint"), "0\n1\na 0 3\n"; got != want {
		t.Errorf("recovery points %q, want %q", got, want)
	}
	m = w.start()
	if got := m.PreviousBrokerEpoch(); got != 42 {
		t.Errorf("previous broker epoch %d", got)
	}
	l := m.Log(TopicPartition{"a", 0})
	if l == nil || l.EndOffset() != 3 || l.TopicID() != topicIDOf("a") {
		t.Errorf("after the restart: %v", l)
	}
	m.Abort()
	if w.exists("/data/.kafka_cleanshutdown") {
		t.Error("Abort left a clean mark")
	}
	if got := w.start().PreviousBrokerEpoch(); got != -1 {
		t.Errorf("previous broker epoch after Abort: %d", got)
	}
}

// Killed at any step of a stop, a directory has a clean mark only when everything before it is durable.
func TestCleanMarkIsLast(t *testing.T) {
	for n := 1; ; n++ {
		w := newWorld(t, "/data")
		m := w.start()
		w.append(w.create(m, "a", 0), 3)
		w.fs.CrashAfter(n)
		err := m.Close(7)
		for seed := range uint64(8) {
			after := w.fs.AfterCrash(seed)
			_, clean, readErr := readCleanMark(after, "/data")
			if readErr != nil || err == nil && !clean {
				t.Fatalf("step %d, seed %d: clean %v, %v", n, seed, clean, readErr)
			}
			if clean {
				points, err := readOffsetCheckpoint(after, "/data/recovery-point-offset-checkpoint")
				if err != nil || points[TopicPartition{"a", 0}] != 3 {
					t.Fatalf("step %d, seed %d: marked clean with recovery points %v, %v", n, seed, points, err)
				}
			}
		}
		if err == nil {
			return
		}
	}
}

func TestManagerRefusals(t *testing.T) {
	t.Run("locked", func(t *testing.T) {
		w := newWorld(t, "/data")
		m := w.open()
		_, err := OpenManager(w.o)
		if !errors.Is(err, vfs.ErrLocked) || !strings.Contains(err.Error(), "Kafka instance in another process") {
			t.Errorf("second manager: %v", err)
		}
		m.Abort()
		w.open()
	})
	t.Run("no directory configured", func(t *testing.T) {
		newWorld(t).refuse("log.dirs")
	})
	t.Run("listed twice", func(t *testing.T) {
		w := newWorld(t, "/data")
		w.o.Dirs = []string{"/data", "/data"}
		w.refuse("listed twice")
	})
	t.Run("unformatted", func(t *testing.T) {
		w := newWorld(t, "/a", "/b")
		if err := w.fs.Remove("/b/meta.properties"); err != nil {
			t.Fatal(err)
		}
		w.refuse("no `meta.properties` found in /b", "kafka-storage.sh")
	})
	t.Run("missing", func(t *testing.T) {
		w := newWorld(t, "/a")
		w.o.Dirs = []string{"/none"}
		w.refuse("/none", "kafka-storage.sh")
	})
	t.Run("mangled meta.properties", func(t *testing.T) {
		w := newWorld(t, "/a")
		put(t, w.fs, "/a/meta.properties", "version=1\nnode.id=1\n")
		w.refuse("/a", "meta.properties", "cluster.id is missing")
	})
	t.Run("other node", func(t *testing.T) {
		w := newWorld(t, "/a")
		w.o.NodeID = 2
		w.refuse("stored node id 1 doesn't match previous node id 2 in /a/meta.properties", "configured node id")
	})
	t.Run("other cluster", func(t *testing.T) {
		w := newWorld(t, "/a")
		w.o.ClusterID = "else"
		w.refuse("invalid cluster.id in: /a/meta.properties. Expected else, but read test-cluster")
	})
	t.Run("two clusters", func(t *testing.T) {
		w := newWorld(t, "/a")
		if err := Format(w.fs, "/b", Meta{"else", 1, TopicID{9, 9}}, nil); err != nil {
			t.Fatal(err)
		}
		w.o.Dirs = []string{"/a", "/b"}
		w.refuse("invalid cluster.id in: /b/meta.properties")
	})
	t.Run("copied directory", func(t *testing.T) {
		w := newWorld(t, "/a", "/b")
		put(t, w.fs, "/b/meta.properties", get(t, w.fs, "/a/meta.properties"))
		w.refuse("duplicate directory ID", "/a", "/b")
	})
	t.Run("partition twice", func(t *testing.T) {
		w := newWorld(t, "/a", "/b")
		for _, d := range []string{"/a/x-0", "/b/x-0", "/a/y-0", "/b/y-1"} {
			if err := w.fs.MkdirAll(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := writeCleanMark(w.fs, "/a", 1); err != nil {
			t.Fatal(err)
		}
		w.refuse("/b: found x-0, and in /a too")
		if !w.exists("/a/.kafka_cleanshutdown") {
			t.Error("a refused start removed the clean mark")
		}
	})
	t.Run("metadata log elsewhere", func(t *testing.T) {
		w := newWorld(t, "/a", "/b")
		if err := w.fs.MkdirAll("/b/__cluster_metadata-0", 0o755); err != nil {
			t.Fatal(err)
		}
		w.refuse("/b: found __cluster_metadata-0", "/a", "metadata.log.dir")
		w.o.MetadataDir = "/b"
		w.open()
	})
}

func TestOldMeta(t *testing.T) {
	w := newWorld(t, "/a", "/b")
	put(t, w.fs, "/a/meta.properties", "version=0\nbroker.id=1\ncluster.id=test-cluster\n")
	put(t, w.fs, "/b/meta.properties", "version=1\nnode.id=1\ncluster.id=test-cluster\n")
	m := w.open()
	a, _, err := Formatted(w.fs, "/a")
	if err != nil || a.DirectoryID == (TopicID{}) || a.NodeID != 1 || a.ClusterID != "test-cluster" || m.Meta() != a {
		t.Errorf("/a became %+v, %v; meta %+v", a, err, m.Meta())
	}
	b, _, err := Formatted(w.fs, "/b")
	if err != nil || b.DirectoryID == (TopicID{}) || b.DirectoryID == a.DirectoryID {
		t.Errorf("/b became %+v, %v", b, err)
	}
	if text := get(t, w.fs, "/a/meta.properties"); !strings.Contains(text, "version=1\n") || !strings.HasPrefix(text, "#\n#") {
		t.Errorf("written as %q", text)
	}
}

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

func put2(t *testing.T, fsys vfs.FS, dir, name, content string) {
	t.Helper()
	if err := fsys.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, fsys, dir+"/"+name, content)
}

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

// A directory that cannot be read is offline, and the others go on without it.
func TestOfflineAtStart(t *testing.T) {
	w := newWorld(t, "/a", "/b")
	m := w.start()
	w.create(m, "t", 0)
	w.create(m, "t", 1)
	w.close(m, 5)
	w.fs.FailNth(1, syscall.EIO, func(op, name string) bool { return op == "open" && strings.HasPrefix(name, "/b/") })
	m = w.start()
	infos := m.Dirs()
	if infos[0].Err != nil || !errors.Is(infos[1].Err, syscall.EIO) || len(infos[0].Logs) != 1 {
		t.Errorf("Dirs: %+v", infos)
	}
	if m.PreviousBrokerEpoch() != 5 {
		t.Errorf("previous broker epoch %d: the live directories agree on 5", m.PreviousBrokerEpoch())
	}
	var offline *DirsOfflineError
	if _, err := m.CreateLog(TopicPartition{"t", 1}, topicIDOf("t")); !errors.As(err, &offline) || !slices.Equal(offline.Dirs, []string{"/b"}) {
		t.Errorf("CreateLog of what may be on /b: %v", err)
	}
	if l, err := m.CreateNewLog(TopicPartition{"new", 0}, topicIDOf("new")); err != nil || path.Dir(l.Dir()) != "/a" {
		t.Errorf("CreateNewLog: %v, %v", l, err)
	}
	w.close(m, 6)
	if !w.exists("/a/.kafka_cleanshutdown") || get(t, w.fs, "/b/.kafka_cleanshutdown") != `{"version":0,"brokerEpoch":5}` {
		t.Error("clean marks are wrong")
	}
	// Back again: the marks disagree.
	m = w.start()
	if m.PreviousBrokerEpoch() != -1 || len(m.Logs()) != 3 {
		t.Errorf("previous broker epoch %d, %d logs", m.PreviousBrokerEpoch(), len(m.Logs()))
	}
	m.Abort()

	w.fs.FailNth(1, syscall.EIO, func(op, name string) bool { return op == "open" && strings.HasPrefix(name, "/a/") })
	w.refuse("/a", "metadata directory cannot be used")
	w.fs.FailNth(1, syscall.EIO, func(op, name string) bool { return op == "syncdir" && name == "/b" })
	if m := w.start(); m.Dirs()[1].Err == nil {
		t.Error("/b is online, though its mark could not be removed")
	}
}

// A directory that fails while the node runs takes no new logs and is not marked clean. A full one is tried again.
func TestOfflineWhileRunning(t *testing.T) {
	w := newWorld(t, "/a", "/b")
	w.bubble(func(t *testing.T) {
		w.o.FlushCheckpointMs = 1000
		m := w.start()
		m.Start()
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

func TestMetadataLog(t *testing.T) {
	for _, dirs := range [][]string{{"/a", "/b"}, {"/a"}} {
		w := newWorld(t, "/a", "/b")
		w.o.Dirs, w.o.MetadataDir = dirs, "/b"
		m := w.start()
		l, err := m.MetadataLog(DefaultConfig())
		if err != nil {
			t.Fatal(err)
		}
		w.append(l, 2)
		if again, err := m.MetadataLog(DefaultConfig()); again != l || err != nil {
			t.Errorf("asked again: %v, %v", again, err)
		}
		if len(m.Logs()) != 0 || len(m.Dirs()) != len(dirs) || m.Meta().DirectoryID != (TopicID{0: 0x11, 15: 1}) {
			t.Errorf("logs %v, dirs %v, meta %v", m.Logs(), m.Dirs(), m.Meta())
		}
		w.close(m, 1)
		if _, err := m.MetadataLog(DefaultConfig()); err == nil {
			t.Error("opened after Close")
		}
		m = w.start()
		if l, err = m.MetadataLog(DefaultConfig()); err != nil || l.EndOffset() != 2 {
			t.Errorf("after a restart: %v, %v", l, err)
		}
		m.Abort()
	}
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
		check(time.Second, "replication×1")
		check(28*time.Second, "")
		check(2*time.Second, "recovery-point×1")
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
