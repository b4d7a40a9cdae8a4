package server

import (
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/storage"
	"github.com/quire-log/quire/internal/vfs"
)

// When a directory fails its partitions refuse with an error that clients try again after, the others serve; when it works again all serve.
func TestAFailedDirectoryServesAgain(t *testing.T) {
	fs := vfs.NewMem()
	n, err := Start(t.Context(), Options{FS: fs, Properties: map[string]string{
		"listeners": "PLAINTEXT://127.0.0.1:0", "admin.listener": "", "log.dirs": "a,b", "disk.check.interval.ms": "5",
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Abort()
	c := dialNode(t, n)
	id := c.topic("t", 4)
	produce := func() (codes [4]int16) {
		t.Helper()
		batch := pack(t, nil, "v")
		r := c.ask(produceRequest(9, "t", id, -1, batch, batch, batch, batch)).(*kmsg.ProduceResponse)
		for _, p := range r.Topics[0].Partitions {
			codes[p.Partition] = p.ErrorCode
		}
		return codes
	}
	fetch := func() (codes [4]int16) {
		t.Helper()
		r := c.ask(fetchOf(12, fetchTopic("t", id, 0, 0, 0, 0))).(*kmsg.FetchResponse)
		for _, p := range r.Topics[0].Partitions {
			codes[p.Partition] = p.ErrorCode
		}
		return codes
	}
	if codes := produce(); codes != [4]int16{} {
		t.Fatalf("produce: %v", codes)
	}
	var want [4]int16
	for i := range want {
		if strings.HasPrefix(n.replicas.Partition("t", int32(i)).Log().Dir(), "b/") {
			want[i] = kerr.KafkaStorageError.Code
		}
	}
	if want == [4]int16{} {
		t.Fatal("no partition is on the directory that is to fail")
	}
	var broken atomic.Bool
	broken.Store(true)
	fs.FailEvery(syscall.EIO, func(_, name string) bool { return broken.Load() && strings.HasPrefix(name, "b/") })
	until := func(what string, is func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: not within a minute", what)
			}
		}
	}
	if codes := produce(); codes != want {
		t.Errorf("produce to a directory that fails: %v, want %v", codes, want)
	}
	until("the directory is offline", func() bool { return errors.Is(n.logs.Dirs()[1].Err, syscall.EIO) })
	if codes := fetch(); codes != want {
		t.Errorf("fetch from an offline directory: %v, want %v", codes, want)
	}
	c.topic("new", 2) // finds its place on the other
	ends := map[int32]storage.Offset{}
	for i := range int32(4) {
		ends[i] = n.replicas.Partition("t", i).HighWatermark()
	}
	broken.Store(false)
	until("the directory is back", func() bool { return fetch() == [4]int16{} })
	for i, end := range ends {
		if hw := n.replicas.Partition("t", i).HighWatermark(); hw != end {
			t.Errorf("partition %d: high watermark %d, was %d", i, hw, end)
		}
	}
	if codes := produce(); codes != [4]int16{} {
		t.Errorf("produce: %v", codes)
	}
	kinds := map[string]int{}
	for _, e := range n.events.Last(100, nil) {
		kinds[e.Kind]++
	}
	if kinds["dir-offline"] != 1 || kinds["dir-online"] != 1 {
		t.Errorf("events: %v", kinds)
	}
}
