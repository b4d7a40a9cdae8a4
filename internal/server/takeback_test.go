package server

import (
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/storage"
	"github.com/quire-log/quire/internal/vfs"
)

// When a directory fails its partitions refuse with an error that clients try again after, the others serve; when it works again all serve.
func TestAFailedDirectoryServesAgain(t *testing.T) {
	n := dataNode(t, "", "log.dirs", "a,b", "disk.check.interval.ms", "5")
	fs := n.options.FS.(*vfs.Mem)
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
	if codes := produce(); codes != want {
		t.Errorf("produce to a directory that fails: %v, want %v", codes, want)
	}
	eventually(t, "the directory is offline", func() bool { return errors.Is(n.logs.Dirs()[1].Err, syscall.EIO) })
	if codes := fetch(); codes != want {
		t.Errorf("fetch from an offline directory: %v, want %v", codes, want)
	}
	c.topic("new", 2) // finds its place on the other
	ends := map[int32]storage.Offset{}
	for i := range int32(4) {
		ends[i] = n.replicas.Partition("t", i).HighWatermark()
	}
	broken.Store(false)
	eventually(t, "the directory is back", func() bool { return fetch() == [4]int16{} })
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

// A directory that cannot be read when the node starts is registered once it can, and takes partitions then.
func TestADirectoryThatWasAwayAtTheStartIsRegistered(t *testing.T) {
	fs := vfs.NewMem()
	o := Options{FS: fs, Properties: map[string]string{
		"listeners": "PLAINTEXT://127.0.0.1:0", "admin.listener": "", "log.dirs": "a,b", "disk.check.interval.ms": "5",
	}}
	n, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var broken atomic.Bool
	broken.Store(true)
	fs.FailEvery(syscall.EIO, func(_, name string) bool { return broken.Load() && (name == "b" || strings.HasPrefix(name, "b/")) })
	if n, err = Start(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	defer n.Abort()
	registered := func() int { return len(n.controller.Image().Broker(n.id).Directories) }
	if got := registered(); got != 1 || n.logs.Dirs()[1].Err == nil {
		t.Fatalf("%d directories are registered, the second: %v", got, n.logs.Dirs()[1].Err)
	}
	broken.Store(false)
	eventually(t, "both are registered", func() bool { return registered() == 2 })
	ids := n.controller.Image().Broker(n.id).Directories
	for i, d := range n.logs.Dirs() {
		if d.Err != nil || storage.TopicID(ids[i]) != d.ID {
			t.Errorf("directory %d is %v (%v), registered %v", i, d.ID, d.Err, ids[i])
		}
	}
	c := dialNode(t, n)
	c.topic("t", 4)
	used := map[string]bool{}
	for i := range int32(4) {
		dir, _, _ := strings.Cut(n.replicas.Partition("t", i).Log().Dir(), "/")
		used[dir] = true
	}
	if !used["b"] {
		t.Errorf("partitions are in %v", used)
	}
}

// A partition whose log comes back without records that it had begins a new leader epoch with what takes their offsets; others do not.
func TestALogThatComesBackShorterBeginsAnEpoch(t *testing.T) {
	n := dataNode(t, "", "log.dirs", "a,b", "disk.check.interval.ms", "5")
	fs := n.options.FS.(*vfs.Mem)
	c := dialNode(t, n)
	id := c.topic("t", 4)
	batch := pack(t, nil, "v")
	produce := func() *kmsg.ProduceResponse {
		t.Helper()
		return c.ask(produceRequest(9, "t", id, -1, batch, batch, batch, batch)).(*kmsg.ProduceResponse)
	}
	for range 2 {
		produce()
	}
	before := n.controller.Image().Topic("t").Partitions
	shorter := -1
	for i := range before {
		if dir := n.replicas.Partition("t", int32(i)).Log().Dir(); strings.HasPrefix(dir, "b/") {
			shorter = i
		}
	}
	var broken atomic.Bool
	broken.Store(true)
	fs.FailEvery(syscall.EIO, func(op, name string) bool {
		return broken.Load() && strings.HasPrefix(name, "b/") && (op == "write" || op == "create")
	})
	produce()
	eventually(t, "the directory is offline", func() bool { return n.logs.Dirs()[1].Err != nil })
	f, err := fs.OpenFile(n.replicas.Partition("t", int32(shorter)).Log().Dir()+"/00000000000000000000.log", os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(int64(len(batch))); err != nil { // the disk has lost the second
		t.Fatal(err)
	}
	f.Close()
	broken.Store(false)
	eventually(t, "the directory is back", func() bool {
		for _, p := range c.ask(fetchOf(12, fetchTopic("t", id, 0, 0, 0, 0))).(*kmsg.FetchResponse).Topics[0].Partitions {
			if p.ErrorCode != 0 {
				return false
			}
		}
		return true
	})
	after := n.controller.Image().Topic("t").Partitions
	for i := range after {
		want := before[i].LeaderEpoch
		if i == shorter {
			want++
		}
		if after[i].LeaderEpoch != want || after[i].Leader != n.id {
			t.Errorf("partition %d: led by %d in epoch %d, want %d", i, after[i].Leader, after[i].LeaderEpoch, want)
		}
	}
	for _, p := range produce().Topics[0].Partitions {
		if p.Partition == int32(shorter) && (p.ErrorCode != 0 || p.BaseOffset != 1) {
			t.Errorf("produce: error %d, offset %d", p.ErrorCode, p.BaseOffset)
		}
	}
	if epoch, end := n.replicas.Partition("t", int32(shorter)).Log().EndOffsetForEpoch(before[shorter].LeaderEpoch); epoch != before[shorter].LeaderEpoch || end != 1 {
		t.Errorf("epoch %d ends at %d", epoch, end)
	}
}

// The only directory of a node may fail and come back as well: clients wait meanwhile, and groups' offsets go on where they were.
func TestTheOnlyDirectoryServesAgain(t *testing.T) {
	n := dataNode(t, "", "log.dirs", "a", "disk.check.interval.ms", "5", "offsets.topic.num.partitions", "1")
	fs := n.options.FS.(*vfs.Mem)
	c := dialNode(t, n)
	c.topic("t", 1)
	commit := func(offset int64) int16 {
		t.Helper()
		r := version(kmsg.NewPtrOffsetCommitRequest(), 8)
		r.Group, r.Generation = "g", -1
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic = "t"
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Offset = offset
		rt.Partitions = append(rt.Partitions, rp)
		r.Topics = append(r.Topics, rt)
		return c.ask(r).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
	}
	committed := func() int64 {
		t.Helper()
		r := version(kmsg.NewPtrOffsetFetchRequest(), 5)
		r.Group = "g"
		rt := kmsg.NewOffsetFetchRequestTopic()
		rt.Topic, rt.Partitions = "t", []int32{0}
		r.Topics = append(r.Topics, rt)
		return c.ask(r).(*kmsg.OffsetFetchResponse).Topics[0].Partitions[0].Offset
	}
	find := version(kmsg.NewPtrFindCoordinatorRequest(), 3)
	find.CoordinatorKey = "g"
	eventually(t, "the group has a coordinator", func() bool { return c.ask(find).(*kmsg.FindCoordinatorResponse).ErrorCode == 0 })
	eventually(t, "a commit", func() bool { return commit(1) == 0 })
	produce := func() int16 {
		return c.ask(produceRequest(9, "t", [16]byte{}, -1, pack(t, nil, "v"))).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode
	}
	for round := range int64(2) {
		var broken atomic.Bool
		broken.Store(true)
		fs.FailEvery(syscall.EIO, func(_, name string) bool { return broken.Load() && strings.HasPrefix(name, "a/") })
		if code := produce(); code != kerr.KafkaStorageError.Code {
			t.Errorf("produce: %d", code)
		}
		eventually(t, "it is offline", func() bool { return n.logs.Dirs()[0].Err != nil })
		if code := commit(100); code == 0 {
			t.Error("a commit to an offline directory")
		}
		broken.Store(false)
		eventually(t, "produce is taken", func() bool { return produce() == 0 })
		eventually(t, "commits are taken", func() bool { return commit(round+2) == 0 })
		if got := committed(); got != round+2 {
			t.Errorf("committed %d, want %d", got, round+2)
		}
		c.topic("topic-"+itoa(int(round)), 1)
	}
}
