package classic

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testPartition = TopicPartition{"my_topic", 0}

const testDir = "/data/my_topic_0"

// newMem is a file system in memory with a durable directory /data.
func newMem(t testing.TB) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	if err := errors.Join(mem.MkdirAll("/data", 0o755), mem.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	return mem
}

func testConfig() Config {
	return Config{SegmentBytes: 200, MessageBytesMax: 1000}
}

func open(t testing.TB, fsys vfs.FS, c Config) *Log {
	t.Helper()
	l, err := Open(Options{FS: fsys, Dir: testDir, Partition: testPartition, Config: c, Cut: func(c Cut) { t.Errorf("unexpected: %v", c) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func appendText(t testing.TB, l *Log, texts ...string) Offset {
	t.Helper()
	var messages []Message
	for _, s := range texts {
		messages = append(messages, Message{Payload: []byte(s)})
	}
	first, err := l.Append(messages...)
	if err != nil {
		t.Fatal(err)
	}
	return first
}

// texts reads all entries from an offset on.
func texts(t testing.TB, l *Log, from Offset) (all []string) {
	t.Helper()
	r := l.NewReader(from, Fail, ReadOptions{Bytes: 64, BytesMax: 1 << 20})
	for {
		set, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if len(set.Bytes()) == 0 {
			return all
		}
		for _, e := range set.All() {
			all = append(all, string(e.Payload()))
		}
	}
}

func names(t testing.TB, l *Log) string {
	t.Helper()
	infos, err := l.Segments()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, s := range infos {
		all = append(all, strings.TrimSuffix(s.Name, fileSuffix))
	}
	return strings.Join(all, " ")
}

func TestAppendRollRead(t *testing.T) {
	mem := newMem(t)
	l := open(t, mem, testConfig())
	if first := appendText(t, l, strings.Repeat("a", 91), "b"); first != 0 {
		t.Errorf("first offset %d", first)
	}
	// 110 bytes are not yet 200, so this goes to the same file; then it has 220, and the next begins another.
	if first := appendText(t, l, strings.Repeat("c", 101)); first != 110 {
		t.Errorf("then %d", first)
	}
	if first := appendText(t, l, "d"); first != 220 || names(t, l) != "00000000000 00000000220" {
		t.Errorf("then %d in %s", first, names(t, l))
	}
	if got := texts(t, l, 100); !slices.Equal(got, []string{"b", strings.Repeat("c", 101), "d"}) {
		t.Errorf("from 100: %q", got)
	}
	if got, err := l.Append(); err != nil || got != 230 {
		t.Errorf("nothing: %d, %v", got, err)
	}
	var large *MessageTooLargeError
	if _, err := l.Append(Message{Payload: []byte("fits")}, Message{Payload: make([]byte, 1001)}); !errors.As(err, &large) ||
		err.Error() != "my_topic_0: message 1 has 1001 bytes, and may have 1000" || l.EndOffset() != 230 {
		t.Errorf("too large: %v, end %d", err, l.EndOffset())
	}
	if _, err := l.Append(Message{Magic: 2}); err == nil || l.EndOffset() != 230 {
		t.Errorf("magic 2: %v", err)
	}
	if _, err := l.Append(Message{Codec: record.Gzip}); err == nil {
		t.Error("gzip with magic 0")
	}
	var invalid *InvalidEntryError
	if _, err := l.AppendEntries(unhex(t, "00000005 00 00000000 00000005 00 00000001")); !errors.As(err, &invalid) || invalid.Pos != 9 {
		t.Errorf("a run with a wrong crc: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(Message{}); err == nil {
		t.Error("a closed log takes messages")
	}
	if _, err := l.Read(0, ReadOptions{Bytes: 100}); err == nil {
		t.Error("a closed log is read")
	}
	l = open(t, mem, testConfig())
	if got := texts(t, l, 0); len(got) != 4 || l.EndOffset() != 230 {
		t.Errorf("after reopening: %q, end %d", got, l.EndOffset())
	}
	if _, err := Open(Options{FS: mem, Dir: testDir, Partition: testPartition, Config: testConfig()}); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("a second owner: %v", err)
	}
}

func TestChunks(t *testing.T) {
	l := open(t, newMem(t), testConfig())
	appendText(t, l, "0123456789", "x", strings.Repeat("y", 100)) // 19, 10, 109 bytes
	for _, c := range []struct {
		from       Offset
		bytes, max int
		n          int // bytes of whole entries
		err        string
	}{
		{0, 19, 19, 19, ""}, {0, 28, 28, 19, ""}, {0, 29, 29, 29, ""}, {0, 1000, 0, 138, ""},
		{0, 1, 32, 29, ""}, // doubled to 32
		{29, 10, 200, 109, ""}, {29, 10, 110, 109, ""}, {29, 10, 109, 109, ""},
		{29, 10, 108, 0, "my_topic_0: the entry at offset 29 has 109 bytes, and a chunk at most 108"},
		{29, 10, 0, 0, "my_topic_0: the entry at offset 29 has 109 bytes, and a chunk at most 10"},
		{138, 10, 0, 0, ""},
		{139, 10, 0, 0, "my_topic_0: offset 139 is not within [0, 138]"},
		{-1, 10, 0, 0, "my_topic_0: offset -1 is not within [0, 138]"},
		{1, 10, 0, 0, "my_topic_0: no entry begins at offset 1; the log is [0, 138]"},
		{137, 10, 0, 0, "my_topic_0: no entry begins at offset 137; the log is [0, 138]"},
	} {
		set, err := l.Read(c.from, ReadOptions{Bytes: c.bytes, BytesMax: c.max})
		if c.err != "" {
			if err == nil || err.Error() != c.err {
				t.Errorf("%d, %d to %d: %v, want %s", c.from, c.bytes, c.max, err, c.err)
			}
			continue
		}
		if err != nil || len(set.Bytes()) != c.n || set.First != c.from || set.Next() != c.from+Offset(c.n) {
			t.Errorf("%d, %d to %d: %d bytes of %d, %v; want %d", c.from, c.bytes, c.max, len(set.Bytes()), set.First, err, c.n)
		}
	}
}

// A payload may itself hold an entry: no offset within it is one.
func TestOffsetInsidePayload(t *testing.T) {
	mem := newMem(t)
	l := open(t, mem, Config{SegmentBytes: 1 << 20, MessageBytesMax: 1 << 20})
	inner := appendEntry(nil, Message{Payload: []byte("inner")})
	var want []Offset
	for range 3000 {
		first, err := l.Append(Message{Payload: bytes.Repeat(inner, 3)})
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, first)
	}
	for range 2 { // as appended, and as found on disk
		for _, offset := range []Offset{want[0], want[2999], want[1000], want[1500]} {
			for d := range Offset(9 + 3*14) {
				_, err := l.Read(offset+d, ReadOptions{Bytes: 200})
				var outside *OutOfRangeError
				if d == 0 && err != nil || d > 0 && !errors.As(err, &outside) {
					t.Fatalf("offset %d + %d: %v", offset, d, err)
				}
			}
		}
		appendText(t, l, strings.Repeat("z", 1<<20)) // so that the first file is not the newest
		appendText(t, l, "last")
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = open(t, mem, Config{SegmentBytes: 1 << 20, MessageBytesMax: 1 << 20})
	}
}

func TestReset(t *testing.T) {
	l := open(t, newMem(t), testConfig())
	for range 10 {
		appendText(t, l, strings.Repeat("a", 191))
	}
	if _, err := l.DeleteSegments(KeepBytes(600)); err != nil {
		t.Fatal(err)
	}
	o := ReadOptions{Bytes: 1000}
	var outside *OutOfRangeError
	if _, err := l.NewReader(0, Fail, o).Next(); !errors.As(err, &outside) || outside.First != 1400 || outside.Last != 2000 {
		t.Errorf("fail: %v", err)
	}
	r := l.NewReader(0, Earliest, o)
	if set, err := r.Next(); err != nil || set.First != 1400 || r.Resets() != 1 || r.Offset() != 1600 {
		t.Errorf("earliest: %v at %d, %d resets", err, set.First, r.Resets())
	}
	r = l.NewReader(5000, Latest, o)
	if set, err := r.Next(); err != nil || len(set.Bytes()) > 0 || r.Offset() != 2000 {
		t.Errorf("latest: %v, %d bytes, at %d", err, len(set.Bytes()), r.Offset())
	}
}

func TestPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, newMem(t), testConfig())
		for range 5 { // a file each day, of 200 bytes
			appendText(t, l, strings.Repeat("a", 191))
			time.Sleep(24 * time.Hour)
		}
		if segs, _ := l.Segments(); len(segs) != 5 {
			t.Fatalf("%d files", len(segs))
		}
		segs, err := l.Segments()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name string
			p    Policy
			want int
		}{
			{"3 days", Days(3), 2}, {"exactly 5 days is not older", Days(5), 0}, {"0 days", Days(0), 5},
			{"600 bytes", KeepBytes(600), 2}, {"599 bytes", KeepBytes(599), 2}, {"601 bytes", KeepBytes(601), 1}, {"0 bytes", KeepBytes(0), 5}, {"all", KeepBytes(1 << 40), 0},
			{"any", Any(Days(4), KeepBytes(600)), 2}, {"every", Every(Days(4), KeepBytes(600)), 1}, {"any of none", Any(), 0}, {"every of none", Every(), 0},
			{"own", func(segs []SegmentInfo) int { return len(segs) / 2 }, 2},
		} {
			if got := c.p(segs); got != c.want {
				t.Errorf("%s: %d go, want %d", c.name, got, c.want)
			}
		}
		// The newest stays, whatever a policy says.
		gone, err := l.DeleteSegments(func([]SegmentInfo) int { return 1000 })
		if err != nil || len(gone) != 4 || names(t, l) != "00000000800" || l.FirstOffset() != 800 || l.EndOffset() != 1000 {
			t.Errorf("%d went, %v; %s", len(gone), err, names(t, l))
		}
		if gone, err := l.DeleteSegments(func([]SegmentInfo) int { return -1 }); err != nil || len(gone) != 0 {
			t.Errorf("%d went, %v", len(gone), err)
		}
	})
}

func TestOffsetsBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, newMem(t), testConfig())
		if got, err := l.OffsetsBefore(LatestTime, 5); err != nil || !slices.Equal(got, []Offset{0}) {
			t.Errorf("of an empty log: %v, %v", got, err)
		}
		start := time.Now()
		for range 3 {
			appendText(t, l, strings.Repeat("a", 191))
			time.Sleep(time.Hour)
		}
		at := func(d time.Duration) int64 { return start.Add(d).UnixMilli() }
		for _, c := range []struct {
			ms   int64
			n    int
			want []Offset
		}{
			{LatestTime, 10, []Offset{600, 400, 200, 0}}, {LatestTime, 1, []Offset{600}}, {EarliestTime, 10, []Offset{0}},
			{at(0) - 1, 10, nil}, {at(0), 10, []Offset{0}}, {at(90 * time.Minute), 10, []Offset{200, 0}},
			{at(2 * time.Hour), 2, []Offset{400, 200}}, {at(3 * time.Hour), 1, []Offset{600}}, {LatestTime, 0, nil}, {LatestTime, -1, nil},
		} {
			got, err := l.OffsetsBefore(c.ms, c.n)
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("before %d, %d: %v, %v; want %v", c.ms, c.n, got, err, c.want)
			}
		}
	})
}

// flushed is how many of a log's messages are.
func flushed(l *Log) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flushed
}

// Flushing by time needs nobody who appends.
func TestFlushInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := newMem(t)
		c := testConfig()
		c.FlushInterval = 3 * time.Second
		l := open(t, mem, c)
		lost := func(when string, want ...string) {
			t.Helper()
			// Whatever the crash leaves, it leaves what was flushed.
			for seed := range uint64(20) {
				after := mem.AfterCrash(seed)
				r, err := Open(Options{FS: after, Dir: testDir, Partition: testPartition, Config: c})
				if err != nil {
					t.Fatal(err)
				}
				if got := texts(t, r, 0); len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
					t.Errorf("%s, seed %d: %q, want %q at least", when, seed, got, want)
				}
				_ = r.Close()
			}
		}
		appendText(t, l, "a")
		time.Sleep(2 * time.Second)
		appendText(t, l, "b")
		time.Sleep(time.Second + time.Millisecond)
		appendText(t, l, "c")
		if flushed(l) != 2 {
			t.Errorf("after 3 s %d messages are flushed", flushed(l))
		}
		time.Sleep(3*time.Second + time.Millisecond)
		if flushed(l) != 3 {
			t.Errorf("after 6 s %d messages are flushed", flushed(l))
		}
		lost("after 6 s", "a", "b", "c")
	})
}

func TestFlushMessages(t *testing.T) {
	c := testConfig()
	c.FlushMessages = 3
	l := open(t, newMem(t), c)
	for i, want := range []int64{0, 0, 3, 3, 3, 6} {
		appendText(t, l, "x")
		if flushed(l) != want {
			t.Errorf("after %d: %d flushed, want %d", i+1, flushed(l), want)
		}
	}
	appendText(t, l, "1", "2", "3", "4")
	if flushed(l) != 10 {
		t.Errorf("after a batch: %d flushed", flushed(l))
	}
}

// A disk that fails leaves nothing of an append behind (I4), and after a failed fsync nothing is written.
func TestFailures(t *testing.T) {
	mem := newMem(t)
	l := open(t, mem, testConfig())
	appendText(t, l, "good")
	mem.SetCapacity(20)
	if _, err := l.Append(Message{Payload: []byte("does not fit")}); !errors.Is(err, syscall.ENOSPC) || l.Err() != nil {
		t.Fatalf("full disk: %v, %v", err, l.Err())
	}
	mem.SetCapacity(-1)
	appendText(t, l, "again")
	if got := texts(t, l, 0); !slices.Equal(got, []string{"good", "again"}) {
		t.Errorf("after a full disk: %q", got)
	}
	boom := errors.New("boom")
	mem.FailNth(1, boom, func(op, name string) bool { return op == "sync" })
	if err := l.Flush(); !errors.Is(err, boom) {
		t.Errorf("flush: %v", err)
	}
	var failed *FailedError
	if _, err := l.Append(Message{}); !errors.As(err, &failed) {
		t.Errorf("after a failed fsync: %v", err)
	}
	if got := texts(t, l, 0); len(got) != 2 {
		t.Errorf("what is there is not read: %q", got)
	}
}

// Readers, sends, deletes and appends at once.
func TestConcurrently(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"memory": newMem(t), "disk": vfs.OS()} {
		t.Run(name, func(t *testing.T) {
			dir := testDir
			if name == "disk" {
				dir = t.TempDir() + "/my_topic_0"
			}
			l, err := Open(Options{FS: fsys, Dir: dir, Partition: testPartition, Config: Config{SegmentBytes: 2000, MessageBytesMax: 1000, FlushMessages: 50, FlushInterval: time.Millisecond}})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			const total = 3000
			var group, appenders sync.WaitGroup
			done := make(chan struct{})
			for g := range 2 {
				appenders.Go(func() {
					for i := range total / 2 {
						if _, err := l.Append(Message{Payload: fmt.Appendf(nil, "%d: %d %s", g, i, strings.Repeat("x", i%50))}); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			group.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
					}
					if _, err := l.DeleteSegments(KeepBytes(20_000)); err != nil {
						t.Error(err)
						return
					}
				}
			})
			for range 3 {
				group.Go(func() {
					r := l.NewReader(0, Earliest, ReadOptions{Bytes: 300, BytesMax: 2000})
					for {
						set, err := r.Next()
						if err != nil {
							t.Error(err)
							return
						}
						if len(set.Bytes()) > 0 {
							continue
						}
						select {
						case <-done:
							return
						default:
						}
					}
				})
			}
			group.Go(func() {
				at := Offset(0)
				for {
					select {
					case <-done:
						return
					default:
					}
					send, err := l.Send(at, 777)
					var outside *OutOfRangeError
					if errors.As(err, &outside) {
						at = outside.First
						continue
					}
					if err != nil {
						t.Error(err)
						return
					}
					var buf bytes.Buffer
					_, err = send.WriteTo(&buf)
					send.Close()
					if err != nil {
						t.Error(err)
						return
					}
					b := buf.Bytes()[sendHeaderSize:]
					n, _ := whole(b)
					for pos := 0; pos < n; {
						e, err := FirstEntry(b[pos:])
						if err == nil {
							err = e.Check()
						}
						if err != nil {
							t.Errorf("sent at %d: %v", at, err)
							return
						}
						pos += len(e)
					}
					at += Offset(n)
				}
			})
			appenders.Wait()
			close(done)
			group.Wait()
			if _, err := l.DeleteSegments(KeepBytes(0)); err != nil {
				t.Error(err)
			}
		})
	}
}
