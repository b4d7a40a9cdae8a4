package replica

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/storage"
	"github.com/quire-log/quire/internal/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A cluster is a manager that follows metadata records as a test writes them.
type cluster struct {
	t        testing.TB
	fs       *vfs.Mem
	logs     *storage.Manager
	m        *Manager
	replayer *metadata.Replayer
	offset   Offset
	configs  map[string]storage.Config // by topic; else the default
	minISR   int
}

const self = 1

// newCluster makes a manager on a directory data, or on those named, of which only the first is formatted.
func newCluster(t testing.TB, dirs ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, fs: vfs.NewMem(), replayer: metadata.NewReplayer(metadata.Empty()), configs: map[string]storage.Config{}, minISR: 1}
	meta := storage.Meta{ClusterID: "4L6g3nShT-eMCtK--X86sw", NodeID: self, DirectoryID: storage.TopicID(kmeta.RandomUUID())}
	if dirs == nil {
		dirs = []string{"data"}
	}
	if err := storage.Format(c.fs, dirs[0], meta, nil); err != nil {
		t.Fatal(err)
	}
	var err error
	c.logs, err = storage.OpenManager(storage.ManagerOptions{
		FS: c.fs, Dirs: dirs, NodeID: self, RecoveryThreads: 1, SegmentDeleteDelayMs: 60000,
		FlushCheckpointMs: 60000, LogStartCheckpointMs: 60000, HighWatermarkCheckpointMs: 60000, FlushSchedulerMs: 1 << 40,
		RetentionCheckMs: 1 << 40, InitialTaskDelayMs: 1 << 40, ProducerExpirationCheckMs: 1 << 40,
		ConfigFor:     func(string) storage.Config { return storage.DefaultConfig() },
		HighWatermark: func(tp TopicPartition) (Offset, bool) { return c.m.HighWatermark(tp) },
	})
	if err != nil {
		t.Fatal(err)
	}
	c.m = NewManager(Options{
		NodeID: self, Logs: c.logs,
		ConfigFor: func(_ *metadata.Image, topic string) storage.Config {
			if cfg, ok := c.configs[topic]; ok {
				return cfg
			}
			return storage.DefaultConfig()
		},
		MinISR: func(*metadata.Image, string) int { return c.minISR },
	})
	t.Cleanup(func() {
		c.m.Close()
		if err := c.logs.Close(-1); err != nil {
			t.Errorf("closing the logs: %v", err)
		}
	})
	return c
}

// apply replays records and has the manager follow.
func (c *cluster) apply(records ...kmeta.Record) {
	c.t.Helper()
	c.offset += Offset(len(records))
	img, d, err := c.replayer.Replay(records, c.offset, 1)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := c.m.Apply(img, d); err != nil {
		c.t.Fatal(err)
	}
}

// create makes a topic that this node leads, and returns its id.
func (c *cluster) create(name string, partitions int) kmeta.UUID {
	c.t.Helper()
	id := kmeta.RandomUUID()
	records := []kmeta.Record{&kmeta.TopicRecord{Name: name, TopicID: id}}
	for i := range partitions {
		records = append(records, &kmeta.PartitionRecord{PartitionID: int32(i), TopicID: id, Replicas: []int32{self}, ISR: []int32{self}, Leader: self, Directories: make([]kmeta.UUID, 1)})
	}
	c.apply(records...)
	return id
}

// moved gives a partition another leader, which begins another epoch.
func moved(id kmeta.UUID, partition, leader int32) kmeta.Record {
	r := kmeta.NewPartitionChangeRecord()
	r.TopicID, r.PartitionID, r.Leader = id, partition, leader
	return r
}

func batchOf(t testing.TB, values ...string) record.Batch {
	t.Helper()
	b := record.NewBuilder()
	for _, v := range values {
		b.Add(record.Record{Timestamp: time.Now().UnixMilli(), Key: []byte("k"), Value: []byte(v)})
	}
	batch, err := b.Batch(nil)
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

func TestLeaderAppends(t *testing.T) {
	c := newCluster(t)
	id := c.create("t", 2)
	p := c.m.Partition("t", 1)
	if p == nil || c.m.PartitionByID(id, 1) != p || p.TopicID() != id || p.TopicPartition().String() != "t-1" {
		t.Fatal("the partition is not found by name and by id alike")
	}
	for _, q := range []int32{-1, 2} {
		if c.m.Partition("t", q) != nil || c.m.PartitionByID(id, q) != nil {
			t.Errorf("partition %d exists", q)
		}
	}
	if e := p.Log().LatestEpoch(); e != 0 {
		t.Errorf("the log begins with epoch %d", e) // keeps I1
	}
	for i := range 3 {
		a, err := p.Append(batchOf(t, "a", "b"), -1, storage.AppendOptions{})
		if err != nil || a.BaseOffset != Offset(2*i) || p.HighWatermark() != a.LastOffset+1 || p.LastStableOffset() != p.HighWatermark() {
			t.Fatalf("append %d: %+v, %v, high watermark %d", i, a, err, p.HighWatermark())
		}
	}
	if hw, ok := c.m.HighWatermark(TopicPartition{Topic: "t", Partition: 1}); !ok || hw != 6 {
		t.Errorf("high watermark %d, %v", hw, ok)
	}

	// A new reign: old epochs are fenced, new ones unknown, and what comes is stamped with the current one.
	c.apply(moved(id, 1, self))
	leader, epoch := p.Leader()
	if leader != self || epoch != 1 || p.HighWatermark() != 6 {
		t.Fatalf("leader %d, epoch %d, high watermark %d", leader, epoch, p.HighWatermark())
	}
	var wrong *EpochError
	if err := p.CheckLeader(0); !errors.As(err, &wrong) || !wrong.Fenced() {
		t.Errorf("an old epoch: %v", err)
	}
	if err := p.CheckLeader(2); !errors.As(err, &wrong) || wrong.Fenced() {
		t.Errorf("a new epoch: %v", err)
	}
	if err := errors.Join(p.CheckLeader(1), p.CheckLeader(-1)); err != nil {
		t.Error(err)
	}
	b := batchOf(t, "c")
	if _, err := p.Append(b, 1, storage.AppendOptions{}); err != nil || b.LeaderEpoch() != 1 {
		t.Errorf("stamped with epoch %d, %v", b.LeaderEpoch(), err)
	}

	// No leader, then this one again.
	c.apply(moved(id, 1, -1))
	var not *NotLeaderError
	if _, err := p.Append(batchOf(t, "d"), 1, storage.AppendOptions{}); !errors.As(err, &not) || not.Leader != -1 {
		t.Errorf("without a leader: %v", err)
	}
	c.apply(moved(id, 1, self))
	if _, err := p.Append(batchOf(t, "d"), 1, storage.AppendOptions{}); err != nil {
		t.Error(err)
	}
}

func TestMinISR(t *testing.T) {
	c := newCluster(t)
	id := kmeta.RandomUUID()
	c.minISR = 2
	c.apply(&kmeta.TopicRecord{Name: "t", TopicID: id},
		&kmeta.PartitionRecord{TopicID: id, Replicas: []int32{self, 2}, ISR: []int32{self}, Leader: self, Directories: make([]kmeta.UUID, 2)},
		&kmeta.PartitionRecord{PartitionID: 1, TopicID: id, Replicas: []int32{self}, ISR: []int32{self}, Leader: self, Directories: make([]kmeta.UUID, 1)},
		&kmeta.PartitionRecord{PartitionID: 2, TopicID: id, Replicas: []int32{2}, ISR: []int32{2}, Leader: 2, Directories: make([]kmeta.UUID, 1)})
	p := c.m.Partition("t", 0)
	var few *NotEnoughReplicasError
	if _, err := p.Append(batchOf(t, "a"), -1, storage.AppendOptions{}); !errors.As(err, &few) || few.Min != 2 || few.InSync != 1 {
		t.Errorf("acks=all: %v", err)
	}
	if p.Log().EndOffset() != 0 {
		t.Error("what was refused is in the log")
	}
	if _, err := p.Append(batchOf(t, "a"), 1, storage.AppendOptions{}); err != nil {
		t.Errorf("acks=1: %v", err)
	}
	if _, err := c.m.Partition("t", 1).Append(batchOf(t, "a"), -1, storage.AppendOptions{}); err != nil {
		t.Errorf("min.insync.replicas above the number of replicas: %v", err)
	}
	if c.m.Partition("t", 2) != nil {
		t.Error("a partition of another node is here")
	}
	// A setting that changes acts at once.
	c.minISR = 1
	value := "1"
	c.apply(&kmeta.ConfigRecord{ResourceType: metadata.TopicResource, ResourceName: "t", Name: "min.insync.replicas", Value: &value})
	if _, err := p.Append(batchOf(t, "a"), -1, storage.AppendOptions{}); err != nil {
		t.Errorf("acks=all after the change: %v", err)
	}
}

func TestConfigsAreHandedOn(t *testing.T) {
	c := newCluster(t)
	small := storage.DefaultConfig()
	small.MaxMessageBytes = 100
	c.configs["t"] = small
	c.create("t", 1)
	if got := c.m.Partition("t", 0).Log().Config().MaxMessageBytes; got != 100 {
		t.Errorf("a new topic's max.message.bytes is %d", got)
	}
	small.MaxMessageBytes = 200
	c.configs["t"] = small
	value := "x"
	c.apply(&kmeta.ConfigRecord{ResourceType: metadata.BrokerResource, ResourceName: "", Name: "message.max.bytes", Value: &value})
	if got := c.m.Partition("t", 0).Log().Config().MaxMessageBytes; got != 200 {
		t.Errorf("after a change for all brokers max.message.bytes is %d", got)
	}
}

func TestDeletedAndMadeAgain(t *testing.T) {
	c := newCluster(t)
	old := c.create("t", 3)
	p := c.m.Partition("t", 0)
	if _, err := p.Append(batchOf(t, "a"), 1, storage.AppendOptions{}); err != nil {
		t.Fatal(err)
	}
	w := NewWaiter()
	defer w.Stop()
	p.Watch(w)
	id := kmeta.RandomUUID() // in one step
	c.apply(&kmeta.RemoveTopicRecord{TopicID: old}, &kmeta.TopicRecord{Name: "t", TopicID: id},
		&kmeta.PartitionRecord{TopicID: id, Replicas: []int32{self}, ISR: []int32{self}, Leader: self, Directories: make([]kmeta.UUID, 1)})
	select {
	case <-w.C:
	default:
		t.Error("the reader of a deleted topic was not woken") // keeps I3
	}
	if !p.Gone() || c.m.PartitionByID(old, 0) != nil {
		t.Error("the old partition is still there")
	}
	if _, err := p.Append(batchOf(t, "a"), 1, storage.AppendOptions{}); err == nil {
		t.Error("the old partition takes records")
	}
	q := c.m.Partition("t", 0)
	if q == nil || q == p || q.HighWatermark() != 0 || q.TopicID() != id || c.m.Partition("t", 1) != nil {
		t.Errorf("the new topic is %+v", q)
	}
	if n := len(c.m.Partitions()); n != 1 {
		t.Errorf("%d partitions, want 1", n)
	}
}

func TestPartitionsAreAdded(t *testing.T) {
	c := newCluster(t)
	id := c.create("t", 1)
	p := c.m.Partition("t", 0)
	c.apply(&kmeta.PartitionRecord{PartitionID: 1, TopicID: id, Replicas: []int32{self}, ISR: []int32{self}, Leader: self, Directories: make([]kmeta.UUID, 1)})
	if c.m.Partition("t", 0) != p || c.m.Partition("t", 1) == nil {
		t.Error("adding a partition changed the first, or did not add the second")
	}
}

func TestAFailedLogIsOffline(t *testing.T) {
	c := newCluster(t)
	c.fs.FailNth(1, syscall.EIO, func(op, name string) bool { return op == "create" })
	c.create("t", 1)
	p := c.m.Partition("t", 0)
	var offline *OfflineError
	if err := p.CheckLeader(-1); !errors.As(err, &offline) || !errors.Is(err, syscall.EIO) {
		t.Errorf("a partition whose log cannot be created: %v", err)
	}
	if _, err := p.Append(batchOf(t, "a"), 1, storage.AppendOptions{}); !errors.As(err, &offline) {
		t.Errorf("append: %v", err)
	}
	if _, err := p.DeleteRecords(0); !errors.As(err, &offline) {
		t.Errorf("delete: %v", err)
	}
}

// A log that could not be made for want of room is made when the partition is decided upon again, and then it serves.
func TestALogIsMadeLater(t *testing.T) {
	c := newCluster(t)
	for range 2 { // once when it is created, once for who needs it first
		c.fs.FailNth(1, syscall.ENOSPC, func(op, name string) bool { return op == "create" })
	}
	id := c.create("t", 1)
	p := c.m.Partition("t", 0)
	if err := p.CheckLeader(-1); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("a partition whose log cannot be created: %v", err)
	}
	c.apply(moved(id, 0, self))
	if err := p.CheckLeader(1); err != nil {
		t.Errorf("once there is room: %v", err)
	}
	if _, err := p.Append(batchOf(t, "a"), 1, storage.AppendOptions{}); err != nil {
		t.Errorf("append: %v", err)
	}
}

// A topic that has just come into being can be nowhere else, so that an offline directory is no reason to refuse it; one that
// was there before may be on that very directory.
func TestNewTopicsBesideAnOfflineDirectory(t *testing.T) {
	c := newCluster(t, "data", "gone")
	id := c.create("t", 1)
	if err := c.m.Partition("t", 0).CheckLeader(-1); err != nil {
		t.Errorf("a new topic: %v", err)
	}
	c.apply(&kmeta.PartitionRecord{PartitionID: 1, TopicID: id, Replicas: []int32{self}, ISR: []int32{self}, Leader: self, Directories: make([]kmeta.UUID, 1)})
	if err := c.m.Partition("t", 1).CheckLeader(-1); err != nil {
		t.Errorf("a new partition: %v", err)
	}
	img, _, err := metadata.NewReplayer(metadata.Empty()).Replay([]kmeta.Record{&kmeta.TopicRecord{Name: "old", TopicID: kmeta.UUID{1}},
		&kmeta.PartitionRecord{TopicID: kmeta.UUID{1}, Replicas: []int32{self}, ISR: []int32{self}, Leader: self, Directories: make([]kmeta.UUID, 1)}}, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	c.m.Load(img)
	var where *storage.DirsOfflineError
	if err := c.m.Partition("old", 0).CheckLeader(-1); !errors.As(err, &where) {
		t.Errorf("a topic that may be on the directory that cannot be read: %v, want %T", err, where)
	}
}

func TestDeleteRecords(t *testing.T) {
	c := newCluster(t)
	c.create("t", 1)
	p := c.m.Partition("t", 0)
	if _, err := p.Append(batchOf(t, "a", "b", "c"), 1, storage.AppendOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, q := range []struct {
		offset, low Offset
		fails       bool
	}{{0, 0, false}, {2, 2, false}, {1, 2, false}, {4, 0, true}, {-2, 0, true}, {-1, 3, false}} {
		low, err := p.DeleteRecords(q.offset)
		var outside *storage.OutOfRangeError
		if errors.As(err, &outside) != q.fails || err == nil && low != q.low {
			t.Errorf("to %d: %d, %v", q.offset, low, err)
		}
	}
}

// TestNoWakeIsLost has many readers follow the high watermark while others append: each reader ends at the last offset. keeps I3
func TestNoWakeIsLost(t *testing.T) {
	c := newCluster(t)
	c.create("t", 1)
	p := c.m.Partition("t", 0)
	const writers, appends, readers = 4, 50, 10
	var work sync.WaitGroup
	var wakes atomic.Int64
	for range readers {
		work.Go(func() {
			w := NewWaiter()
			defer w.Stop()
			p.Watch(w)
			for last := Offset(0); last < writers*appends; {
				hw := p.HighWatermark()
				if hw < last {
					t.Errorf("the high watermark fell from %d to %d", last, hw) // keeps I2
				}
				if last = hw; last < writers*appends {
					<-w.C
					wakes.Add(1)
				}
			}
		})
	}
	for range writers {
		work.Go(func() {
			for range appends {
				if _, err := p.Append(batchOf(t, "x"), -1, storage.AppendOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	if n := p.waiters.count.Load(); n != 0 || p.waiters.first != nil {
		t.Errorf("%d waiters are left", n)
	}
	if n := wakes.Load(); n > readers*writers*appends {
		t.Errorf("%d wakes for %d appends and %d readers", n, writers*appends, readers)
	}
}

func TestWaitersLeaveInAnyOrder(t *testing.T) {
	p := newPartition(self, TopicPartition{Topic: "t"}, kmeta.UUID{})
	q := newPartition(self, TopicPartition{Topic: "u"}, kmeta.UUID{})
	var all []*Waiter
	for range 5 {
		w := NewWaiter()
		p.Watch(w)
		q.Watch(w)
		all = append(all, w)
	}
	for n, i := range []int{2, 0, 4, 1, 3} {
		p.wake()
		q.wake()
		woken := 0
		for _, w := range all {
			select {
			case <-w.C:
				woken++
			default:
			}
		}
		if woken != 5-n { // once for both
			t.Errorf("%d waiters were woken, want %d", woken, 5-n)
		}
		all[i].Stop()
	}
	if p.waiters.count.Load() != 0 || q.waiters.first != nil {
		t.Error("waiters are left")
	}
}

func TestErrorsName(t *testing.T) {
	tp := TopicPartition{Topic: "orders", Partition: 3}
	for _, q := range []struct {
		err  error
		want string
	}{
		{&NotLeaderError{tp, 2, 7}, "orders-3: led by node 2 since epoch 7, not by this one"},
		{&EpochError{tp, 5, 7}, "orders-3: leader epoch 5 was given, 7 is current"},
		{&OfflineError{tp, syscall.EIO}, "orders-3: offline: input/output error"},
		{&NotEnoughReplicasError{tp, 1, 2}, "orders-3: 1 replicas are in sync, min.insync.replicas is 2"},
	} {
		if got := q.err.Error(); got != q.want {
			t.Errorf("%s\nwant %s", got, q.want)
		}
	}
}

// BenchmarkWake is what an append pays for those who wait, and for nobody.
func BenchmarkWake(b *testing.B) {
	for _, n := range []int{0, 1, 50} {
		b.Run(fmt.Sprintf("waiters=%d", n), func(b *testing.B) {
			p := newPartition(self, TopicPartition{Topic: "t"}, kmeta.UUID{})
			for range n {
				p.Watch(NewWaiter())
			}
			b.ReportAllocs()
			for b.Loop() {
				p.wake()
			}
		})
	}
}
