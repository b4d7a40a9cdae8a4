package replica

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quire-log/quire/internal/storage"
)

// A log that found no file descriptor, or no room, is opened when it is next needed, and led in the epoch of then.
func TestOpensAgainWithRoom(t *testing.T) {
	for _, code := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOSPC, syscall.EDQUOT} {
		t.Run(code.Error(), func(t *testing.T) {
			c := newCluster(t)
			c.fs.FailNth(1, code, func(op, name string) bool {
				return (op == "open" || op == "create") && strings.Contains(name, "t-0/")
			})
			id := c.create("t", 2)
			p := c.m.Partition("t", 0)
			if p.Log() != nil {
				t.Fatal("the log was opened without what it needs")
			}
			if err := p.CheckLeader(-1); err != nil {
				t.Fatalf("with enough again: %v", err)
			}
			if a, err := p.Append(batchOf(t, "a"), 1, storage.AppendOptions{}); err != nil || a.BaseOffset != 0 || p.HighWatermark() != 1 {
				t.Fatalf("%+v, %v, high watermark %d", a, err, p.HighWatermark())
			}
			c.apply(moved(id, 0, self))
			if e := p.Log().LatestEpoch(); e != 1 {
				t.Errorf("led in epoch %d", e)
			}
		})
	}
}

// A topic that is deleted while its log waits for a descriptor is not opened any more.
func TestDeletedWhileItWaits(t *testing.T) {
	c := newCluster(t)
	c.fs.FailNth(1, syscall.EMFILE, func(op, name string) bool {
		return (op == "open" || op == "create") && strings.Contains(name, "t-0/")
	})
	c.create("t", 1)
	p := c.m.Partition("t", 0)
	p.leave()
	if err := p.CheckLeader(-1); err == nil || p.Log() != nil {
		t.Errorf("a partition that is gone: %v", err)
	}
}

// However many ask, a log is tried once in a pause.
func TestRetriesArePaced(t *testing.T) {
	p := newPartition(self, TopicPartition{Topic: "t"}, [16]byte{1})
	tries := 0
	p.wait(syscall.EMFILE, func() (*storage.Log, error) { tries++; return nil, syscall.EMFILE })
	begun := time.Now()
	for range 100 {
		var offline *OfflineError
		if err := p.CheckLeader(-1); !errors.As(err, &offline) {
			t.Fatal(err)
		}
	}
	if most := 1 + int(time.Since(begun)/retryPause); tries < 1 || tries > most {
		t.Errorf("%d tries, want at most %d", tries, most)
	}
}
