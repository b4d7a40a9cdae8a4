package storage

import (
	"testing"

	"github.com/quire-log/quire/internal/vfs"
)

// tenThousand is a stopped node's directory with 10,000 partitions of one record each.
func tenThousand(b *testing.B) ManagerOptions {
	b.Helper()
	m := vfs.NewMem()
	if err := Format(m, "/data", Meta{"c", 1, testDirID}, nil); err != nil {
		b.Fatal(err)
	}
	o := ManagerOptions{FS: m, Dirs: []string{"/data"}, NodeID: 1, RecoveryThreads: 2}
	man, err := OpenManager(o)
	if err != nil {
		b.Fatal(err)
	}
	for p := range int32(10_000) {
		if _, err := man.CreateLog(TopicPartition{"t", p}, topicIDOf("t")); err != nil {
			b.Fatal(err)
		}
	}
	if err := man.LoadLogs(b.Context(), nil); err != nil {
		b.Fatal(err)
	}
	if err := man.Close(1); err != nil {
		b.Fatal(err)
	}
	return o
}

func BenchmarkStartAndStop10k(b *testing.B) {
	o := tenThousand(b)
	b.ReportAllocs()
	for b.Loop() {
		m, err := OpenManager(o)
		if err != nil {
			b.Fatal(err)
		}
		if err := m.LoadLogs(b.Context(), nil); err != nil {
			b.Fatal(err)
		}
		if err := m.Close(1); err != nil {
			b.Fatal(err)
		}
	}
}

// One turn of every checkpoint when nothing has changed.
func BenchmarkIdleCheckpoints10k(b *testing.B) {
	o := tenThousand(b)
	m, err := OpenManager(o)
	if err != nil {
		b.Fatal(err)
	}
	defer m.Abort()
	if err := m.LoadLogs(b.Context(), nil); err != nil {
		b.Fatal(err)
	}
	if err := m.writeCheckpoints(m.dirs[0]); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := m.writeCheckpoints(m.dirs[0]); err != nil {
			b.Fatal(err)
		}
	}
}

// A pass of retention over 10,000 partitions without a change is to take less than 50 ms.
func BenchmarkIdleRetention10k(b *testing.B) {
	o := tenThousand(b)
	o.HighWatermark = func(TopicPartition) (Offset, bool) { return 0, true }
	o.DiskPercent = 90
	m, err := OpenManager(o)
	if err != nil {
		b.Fatal(err)
	}
	defer m.Abort()
	if err := m.LoadLogs(b.Context(), nil); err != nil {
		b.Fatal(err)
	}
	m.applyRetention(b.Context())
	b.ReportAllocs()
	for b.Loop() {
		m.applyRetention(b.Context())
	}
}
