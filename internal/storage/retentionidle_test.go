package storage

import (
	"io/fs"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

// An askedFS counts what is asked of a file system and of its files.
type askedFS struct {
	vfs.FS
	asked atomic.Int64
}

type askedFile struct {
	vfs.File
	asked *atomic.Int64
}

func (c *askedFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	c.asked.Add(1)
	f, err := c.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return askedFile{f, &c.asked}, nil
}

func (c *askedFS) Stat(name string) (fs.FileInfo, error) {
	c.asked.Add(1)
	return c.FS.Stat(name)
}

func (c *askedFS) ReadDir(name string) ([]fs.DirEntry, error) {
	c.asked.Add(1)
	return c.FS.ReadDir(name)
}

func (c *askedFS) Usage(name string) (vfs.Usage, error) {
	c.asked.Add(1)
	return c.FS.Usage(name)
}

func (f askedFile) ReadAt(b []byte, at int64) (int, error) {
	f.asked.Add(1)
	return f.File.ReadAt(b, at)
}

func (f askedFile) Size() (int64, error) {
	f.asked.Add(1)
	return f.File.Size()
}

func (f askedFile) ModTime() (time.Time, error) {
	f.asked.Add(1)
	return f.File.ModTime()
}

// retained is a node that was stopped and started again, with so many partitions of three segments, each under these rules of retention
// and far from what they allow. One in ten has records without times, which are as old as their file.
func retained(t testing.TB, partitions int32, retentionMs, retentionBytes int64) (*Manager, *askedFS) {
	t.Helper()
	disk := &askedFS{FS: vfs.NewMem()}
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	must(Format(disk, "/data", Meta{"c", 1, testDirID}, nil))
	o := ManagerOptions{FS: disk, Dirs: []string{"/data"}, NodeID: 1, RecoveryThreads: 2}
	o.ConfigFor = func(string) Config {
		cfg := DefaultConfig()
		cfg.RetentionMs, cfg.RetentionBytes = retentionMs, retentionBytes
		return cfg
	}
	var m *Manager
	o.HighWatermark = func(tp TopicPartition) (Offset, bool) { return m.Log(tp).EndOffset(), true }
	start := func() {
		var err error
		m, err = OpenManager(o)
		must(err)
		must(m.LoadLogs(t.Context(), nil))
	}
	start()
	for p := range partitions {
		l, err := m.CreateLog(TopicPartition{"t", p}, topicIDOf("t"))
		must(err)
		for i := range 3 {
			if i > 0 {
				must(l.Roll())
			}
			b := record.NewBuilder()
			at := time.Now().UnixMilli()
			if p%10 == 0 {
				at = -1
			}
			b.Add(record.Record{Timestamp: at, Value: []byte("v")})
			bytes, err := b.Batch(nil)
			must(err)
			_, err = l.Append(bytes, AppendOptions{})
			must(err)
		}
	}
	must(m.Close(1))
	start() // nothing is known of the segments but what opening had to find out
	return m, disk
}

// A pass over logs of which nothing is due asks the disk for nothing, whatever the rules.
func TestIdleRetentionReadsNothing(t *testing.T) {
	for _, rule := range []struct {
		name      string
		ms, bytes int64
	}{
		{"time", 7 * 24 * testHour, -1}, {"size", -1, 1 << 30}, {"both", 7 * 24 * testHour, 1 << 30}, {"none", -1, -1},
	} {
		t.Run(rule.name, func(t *testing.T) {
			m, disk := retained(t, 20, rule.ms, rule.bytes)
			defer m.Abort()
			m.applyRetention(t.Context())
			for range 3 {
				before := disk.asked.Load()
				m.applyRetention(t.Context())
				if n := disk.asked.Load() - before; n != 0 {
					t.Errorf("the disk was asked %d times", n)
				}
			}
			if n := len(m.Log(TopicPartition{"t", 0}).Segments()); n != 3 {
				t.Errorf("%d segments are left", n)
			}
		})
	}
}

// One pass over 10,000 partitions of which nothing is due; asked is how often the disk was.
func BenchmarkRetentionPass(b *testing.B) {
	m, disk := retained(b, 10_000, 7*24*testHour, 1<<30)
	defer m.Abort()
	m.applyRetention(b.Context())
	before := disk.asked.Load()
	b.ReportAllocs()
	for b.Loop() {
		m.applyRetention(b.Context())
	}
	b.ReportMetric(float64(disk.asked.Load()-before)/float64(b.N), "asked/op")
}
