package replica

import (
	"errors"
	"testing"

	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/storage"
)

// A log that came back with less than it had is led in a later epoch only. keeps I6
func TestShorterLogWaitsForAnEpoch(t *testing.T) {
	c := newCluster(t)
	id := c.create("t", 1)
	p := c.m.Partition("t", 0)
	for range 3 {
		if _, err := p.Append(batchOf(t, "a"), 1, storage.AppendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	had := p.Log()
	cameBack := func(records int) *storage.Log {
		t.Helper()
		l, err := storage.OpenLog(storage.LogOptions{FS: c.fs, Dir: "elsewhere/t-0", Partition: p.TopicPartition(), TopicID: storage.TopicID(id), Config: storage.DefaultConfig()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.Abandon)
		for l.EndOffset() < Offset(records) {
			if _, err := l.Append(batchOf(t, "a"), storage.AppendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		return l
	}
	said := metadata.Partition{Leader: self, LeaderEpoch: 0, ISR: []int32{self}, Replicas: []int32{self}}
	shorter := cameBack(2)
	if err := p.lead(shorter, &said, 1); !errors.Is(err, errShorter) || p.Log() != had || had.EndOffset() != 3 {
		t.Fatalf("in the same epoch: %v", err)
	}
	p.fail(errShorter)
	var offline *OfflineError
	if err := p.CheckLeader(-1); !errors.As(err, &offline) {
		t.Errorf("meanwhile: %v", err)
	}
	said.LeaderEpoch = 1
	if err := p.lead(shorter, &said, 1); err != nil || p.Log() != shorter || p.CheckLeader(1) != nil || p.HighWatermark() != 2 {
		t.Fatalf("in the next: %v, high watermark %d", err, p.HighWatermark())
	}
	if a, err := p.Append(batchOf(t, "b"), 1, storage.AppendOptions{}); err != nil || a.BaseOffset != 2 {
		t.Errorf("%+v, %v", a, err)
	}
	if epoch, end := shorter.EndOffsetForEpoch(0); epoch > 0 || end != 2 {
		t.Errorf("epoch %d ends at %d", epoch, end)
	}
}
