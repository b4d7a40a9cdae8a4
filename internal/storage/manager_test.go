package storage

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
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
	t       *testing.T
	fs      *vfs.Mem
	o       ManagerOptions
	manager *Manager   // the last that was opened
	mu      sync.Mutex // guards the fields below
	log     bytes.Buffer
	events  []Event
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
	w.manager = m
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
		w.refuse("/none: the metadata directory cannot be used", "no such file")
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

func put2(t *testing.T, fsys vfs.FS, dir, name, content string) {
	t.Helper()
	if err := fsys.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, fsys, dir+"/"+name, content)
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
