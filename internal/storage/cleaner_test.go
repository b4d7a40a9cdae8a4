package storage

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quire-log/quire/internal/record"
)

// cleaning makes a world whose topics are compacted, but those whose name begins with "plain".
func cleaning(t *testing.T, change func(*Config)) *world {
	w := newWorld(t, "/data")
	w.o.Cleaner = CleanerConfig{Threads: 1, DedupeBytes: 1 << 20, LoadFactor: 0.9, BackoffMs: 1000}
	w.o.ConfigFor = func(topic string) Config {
		c := DefaultConfig()
		c.SegmentBytes, c.TimestampAfterMaxMs, c.FileDeleteDelayMs, c.RetentionMs = 1<<20, 1<<60, 1000, -1
		c.Compact, c.Delete, c.MinCleanableDirtyRatio = !strings.HasPrefix(topic, "plain"), false, 0.01
		if change != nil {
			change(&c)
		}
		return c
	}
	return w
}

// fill appends n records of few keys, a batch each, and closes the segment.
func fill(t *testing.T, l *Log, n int) {
	t.Helper()
	for i := range n {
		b := record.NewBuilder()
		b.Add(record.Record{Timestamp: time.Now().UnixMilli(), Key: fmt.Appendf(nil, "k%d", i%3), Value: fmt.Appendf(nil, "%d", i)})
		bytes, err := b.Batch(nil)
		if err == nil {
			_, err = l.Append(bytes, AppendOptions{LeaderEpoch: 1})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Roll(); err != nil {
		t.Fatal(err)
	}
}

// isClean tells whether of what fill wrote only the last of each key is left.
func isClean(l *Log) bool { return l.Segments()[0].Bytes < 300 }

func created(t *testing.T, m *Manager, topic string) *Log {
	t.Helper()
	l, err := m.CreateNewLog(TopicPartition{topic, 0}, RandomID())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// all watermarks are at the end.
func (w *world) watermarks() {
	w.o.HighWatermark = func(tp TopicPartition) (Offset, bool) {
		if l := w.manager.Log(tp); l != nil {
			return l.EndOffset(), true
		}
		return 0, false
	}
}

// Logs are cleaned by themselves, the checkpoint on disk tells up to where, and a new start goes on from there.
func TestCleanerCleans(t *testing.T) {
	w := cleaning(t, nil)
	w.bubble(func(t *testing.T) {
		w.watermarks()
		m := w.start()
		m.Start()
		l := created(t, m, "orders")
		fill(t, l, 100)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if !isClean(l) {
			t.Errorf("not cleaned: %v", l.Segments())
		}
		offsets, err := readOffsetCheckpoint(w.fs, "/data/"+cleanerFile)
		if err != nil || offsets[TopicPartition{"orders", 0}] != 100 {
			t.Errorf("checkpoint %v, %v", offsets, err)
		}
		status := m.CleanerStatuses()
		if len(status) != 1 || status[0].Err != nil || status[0].Last.Keys != 3 || status[0].Last.RecordsAfter != 3 {
			t.Errorf("status %+v", status)
		}
		time.Sleep(2 * time.Second)
		for _, n := range entryNames(w.fs, "/data/orders-0") {
			if strings.HasSuffix(n, deletedSuffix) {
				t.Errorf("%s is left", n)
			}
		}
		if err := m.Close(1); err != nil {
			t.Fatal(err)
		}
		m = w.start()
		if got := m.logs[TopicPartition{"orders", 0}].dir.cleanedTo(TopicPartition{"orders", 0}); got != 100 {
			t.Errorf("after a restart clean up to %d", got)
		}
		m.Abort()
	})
}

// One bad batch holds up its own log alone: others are cleaned, its cause is shown, and once it is mended it is cleaned, too.
func TestCleanerBadBatch(t *testing.T) {
	w := cleaning(t, nil)
	w.bubble(func(t *testing.T) {
		w.watermarks()
		m := w.start()
		bad, good := created(t, m, "bad"), created(t, m, "good")
		fill(t, bad, 50)
		fill(t, good, 50)
		name := "/data/bad-0/" + fileName(0, logSuffix)
		flip := func() {
			f, err := w.fs.OpenFile(name, createFlags, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			var b [1]byte
			f.ReadAt(b[:], 200)
			b[0] ^= 1
			f.WriteAt(b[:], 200)
		}
		flip()
		m.Start()
		time.Sleep(10 * time.Second)
		if !isClean(good) {
			t.Error("the good log was not cleaned")
		}
		if isClean(bad) {
			t.Error("the bad log was cleaned")
		}
		found := false
		for _, s := range m.CleanerStatuses() {
			if s.Partition.Topic == "bad" {
				found = s.Err != nil && s.Failures > 1 && strings.Contains(s.Err.Error(), "corrupt at byte")
			}
		}
		if !found {
			t.Errorf("statuses %+v", m.CleanerStatuses())
		}
		flip()
		time.Sleep(retryMax + time.Minute)
		synctest.Wait()
		if !isClean(bad) {
			t.Errorf("mended, the log was not cleaned: %+v", m.CleanerStatuses())
		}
		m.Abort()
	})
}

// A topic that becomes compacted is cleaned at once, however long log.cleaner.backoff.ms is.
func TestCleanerRoused(t *testing.T) {
	w := cleaning(t, nil)
	w.o.Cleaner.BackoffMs = 24 * 3600 * 1000
	w.o.ConfigFor = func(string) Config { return testConfig() } // not compacted
	w.bubble(func(t *testing.T) {
		w.watermarks()
		m := w.start()
		m.Start()
		l := created(t, m, "orders")
		fill(t, l, 100)
		time.Sleep(time.Minute)
		if isClean(l) {
			t.Fatal("cleaned before it is compacted")
		}
		c := l.Config()
		c.Compact, c.Delete, c.MinCleanableDirtyRatio = true, false, 0
		l.SetConfig(c)
		synctest.Wait()
		if !isClean(l) {
			t.Error("it waits")
		}
		m.Abort()
	})
}

// While a slow cleaning of a heavy topic goes on, an internal topic is cleaned; a deletion ends the heavy one.
func TestCleanerLanes(t *testing.T) {
	w := cleaning(t, nil)
	w.o.Cleaner.BytesPerSecond = 100_000
	w.bubble(func(t *testing.T) {
		w.watermarks()
		m := w.start()
		heavy := created(t, m, "heavy")
		c := heavy.Config()
		c.SegmentBytes = 20_000_000
		heavy.SetConfig(c)
		b := record.NewBuilder()
		b.Add(record.Record{Timestamp: 1, Key: []byte("k"), Value: make([]byte, 900_000)})
		big, err := b.Batch(nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 12 {
			if _, err := heavy.Append(append([]byte(nil), big...), AppendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := heavy.Roll(); err != nil {
			t.Fatal(err)
		}
		m.Start()
		time.Sleep(5 * time.Second)
		if !m.cleaner.busy(TopicPartition{"heavy", 0}) {
			t.Fatal("the heavy topic is not being cleaned")
		}
		offsets := created(t, m, "__consumer_offsets")
		fill(t, offsets, 50)
		time.Sleep(5 * time.Second)
		if !isClean(offsets) {
			t.Error("the internal topic waits")
		}
		if !m.cleaner.busy(TopicPartition{"heavy", 0}) {
			t.Error("the heavy topic took less time than its pace allows")
		}
		if err := m.DeleteLog(TopicPartition{"heavy", 0}); err != nil {
			t.Fatal(err)
		}
		m.SetCleaner(CleanerConfig{Threads: 2, DedupeBytes: 1 << 20, LoadFactor: 0.9, BackoffMs: 1000})
		time.Sleep(time.Minute)
		synctest.Wait()
		if m.cleaner.busy(TopicPartition{"heavy", 0}) {
			t.Error("a deleted topic is being cleaned")
		}
		for _, s := range m.CleanerStatuses() {
			if s.Partition.Topic == "heavy" {
				t.Errorf("the cleaner remembers %+v", s)
			}
		}
		m.SetCleaner(CleanerConfig{})
		time.Sleep(time.Minute)
		m.Abort()
	})
}

// A topic that is no longer compacted, and a log that was truncated, end a cleaning without a trace.
func TestCleanerAborted(t *testing.T) {
	k := newKeyedLog(t, 1)
	k.write(50)
	v, err := k.l.cleanView(-1, k.l.EndOffset())
	if err != nil {
		t.Fatal(err)
	}
	p := planClean(k.now, v)
	try := func(why string) {
		t.Helper()
		round := cleanRound{memory: 1 << 20, load: 0.9}
		before := fmt.Sprint(k.l.Segments())
		segs := k.l.list()
		_, _, err := round.run(t.Context(), k.l, p.First, p.Limit, k.now)
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, want %s", err, why)
		}
		if fmt.Sprint(k.l.Segments()) != before || k.l.list()[0] != segs[0] {
			t.Error("the log has changed")
		}
		for _, n := range entryNames(k.mem, "/data/orders-3") {
			if strings.HasSuffix(n, cleanedSuffix) || strings.HasSuffix(n, swapSuffix) {
				t.Errorf("%s is left", n)
			}
		}
	}
	c := k.cfg
	c.Compact = false
	k.l.SetConfig(c)
	try("no longer compact")
	k.l.SetConfig(k.cfg)
	k.l.truncations++ // as a truncation between the passes does
	round := cleanRound{memory: 1 << 20, load: 0.9}
	segs := k.l.list()
	out, err := newCleanOutput(k.l, 0, &k.cfg, make([]byte, 0, 1<<10))
	if err == nil {
		err = out.seal(1000, false)
	}
	if err == nil {
		err = k.l.swap(segs[:1], []*cleanOutput{out}, 0)
	}
	if err == nil || !strings.Contains(err.Error(), "truncated meanwhile") {
		t.Error(err)
	}
	out.remove()
	if _, _, err := round.run(t.Context(), k.l, p.First, p.Limit, k.now); err != nil {
		t.Error(err)
	}
	k.check(k.l, "at the end")
	k.l.Abandon()
}

func entryNames(fsys interface {
	ReadDir(string) ([]fs.DirEntry, error)
}, dir string) (names []string) {
	entries, _ := fsys.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// A month of a node's life: a record each hour. What delete.retention.ms keeps of a deleted key is there for as long, and then gone;
// what retention.ms keeps is never younger nor much older than it says.
func TestMonthOfData(t *testing.T) {
	const hour, day = int64(3600_000), 24 * int64(3600_000)
	w := cleaning(t, nil)
	w.o.ConfigFor = func(topic string) Config {
		c := DefaultConfig()
		c.SegmentMs, c.FileDeleteDelayMs, c.DeleteRetentionMs = 6*hour, 60_000, 7*day
		c.RetentionMs = 7 * day
		if topic == "table" {
			c.Compact, c.Delete, c.MinCleanableDirtyRatio = true, false, 0
		}
		return c
	}
	w.o.Cleaner.BackoffMs = 60_000
	w.o.RetentionCheckMs, w.o.InitialTaskDelayMs = 300_000, 30_000
	w.bubble(func(t *testing.T) {
		w.watermarks()
		m := w.start()
		m.Start()
		events, table := created(t, m, "events"), created(t, m, "table")
		put := func(l *Log, key string, value []byte) {
			t.Helper()
			b := record.NewBuilder()
			b.Add(record.Record{Timestamp: time.Now().UnixMilli(), Key: []byte(key), Value: value})
			bytes, err := b.Batch(nil)
			if err == nil {
				_, err = l.Append(bytes, AppendOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		begun := time.Now()
		put(table, "gone", []byte("v"))
		put(table, "gone", nil)
		has := func() (tombstone, value bool) {
			k := keyedRecords(t, table)
			return strings.Contains(k, "gone=null"), strings.Contains(k, "gone=v")
		}
		for h := range int64(30 * 24) {
			put(events, fmt.Sprint(h), []byte("e"))
			put(table, fmt.Sprint("k", h%5), []byte("v"))
			time.Sleep(time.Hour)
			synctest.Wait()
			tombstone, value := has()
			if age := time.Since(begun).Milliseconds(); age < 7*day && !tombstone || age > 8*day+2*hour && tombstone || age > 9*hour && value {
				t.Fatalf("after %d hours: tombstone %v, value %v", h, tombstone, value)
			}
			oldest, err := events.OffsetForTime(0)
			if err != nil {
				t.Fatal(err)
			}
			if age := time.Now().UnixMilli() - oldest.Timestamp; age > 7*day+7*hour || h > 8*24 && age < 7*day-hour {
				t.Fatalf("after %d hours the oldest event is %d hours old", h, age/hour)
			}
		}
		if n := len(strings.Fields(keyedRecords(t, table))); n > 5+7 {
			t.Errorf("the table has %d records for 5 keys", n)
		}
		if err := m.Close(1); err != nil {
			t.Error(err)
		}
	})
}

// keyedRecords prints what a log holds, as key=value.
func keyedRecords(t *testing.T, l *Log) string {
	t.Helper()
	var out strings.Builder
	eachRecord(t, l, func(r *record.Record) {
		value := "null"
		if r.Value != nil {
			value = string(r.Value)
		}
		fmt.Fprintf(&out, "%s=%s ", r.Key, value)
	})
	return out.String()
}

// eachRecord goes over what a log holds.
func eachRecord(t *testing.T, l *Log, do func(r *record.Record)) {
	t.Helper()
	var r record.Reader
	for _, s := range l.list() {
		f, err := s.acquire()
		if err != nil {
			t.Fatal(err)
		}
		if _, fault, err := walkEntries(f, s.size.Load(), func(_ int64, e record.Entry) error {
			if err := r.ResetEntry(e, 1<<20); err != nil {
				return err
			}
			for r.Next() {
				do(r.Record())
			}
			return r.Err()
		}); fault != nil || err != nil {
			t.Fatal(fault, err)
		}
		s.release()
	}
}
