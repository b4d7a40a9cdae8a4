package controller

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/storage"
	"github.com/quire-log/quire/internal/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testDir = "data/__cluster_metadata-0"

// The first records of a new log are those of Kafka 4.3.1, in its batches (golden plain-clean).
func TestFirstStart(t *testing.T) {
	s := newSite(t)
	s.start()
	got := s.written(0)
	for i, b := range got {
		got[i] = slices.Clone(b)
		for j, line := range b {
			if k := strings.Index(line, `,"incarnationId"`); k >= 0 {
				got[i][j] = line[:k]
			}
		}
	}
	want := [][]string{
		{`LeaderChange {"version":0,"leaderId":1,"voters":[{"voterId":1}],"grantingVoters":[{"voterId":1}]}`},
		{
			`BEGIN_TRANSACTION_RECORD v0 {"name":"Bootstrap records"}`,
			`FEATURE_LEVEL_RECORD v0 {"name":"metadata.version","featureLevel":30}`,
			`FEATURE_LEVEL_RECORD v0 {"name":"eligible.leader.replicas.version","featureLevel":1}`,
			`FEATURE_LEVEL_RECORD v0 {"name":"group.version","featureLevel":1}`,
			`FEATURE_LEVEL_RECORD v0 {"name":"share.version","featureLevel":1}`,
			`FEATURE_LEVEL_RECORD v0 {"name":"streams.version","featureLevel":1}`,
			`FEATURE_LEVEL_RECORD v0 {"name":"transaction.version","featureLevel":2}`,
			`CONFIG_RECORD v0 {"resourceType":4,"resourceName":"","name":"min.insync.replicas","value":"1"}`,
			`END_TRANSACTION_RECORD v0 {}`,
		},
		{`REGISTER_CONTROLLER_RECORD v0 {"controllerId":1`},
		{`REGISTER_BROKER_RECORD v4 {"brokerId":1,"isMigratingZkBroker":false`},
		{`BROKER_REGISTRATION_CHANGE_RECORD v3 {"brokerId":1,"brokerEpoch":11,"cordonedLogDirs":[]}`},
		{`BROKER_REGISTRATION_CHANGE_RECORD v0 {"brokerId":1,"brokerEpoch":11,"fenced":-1}`},
	}
	equalBatches(t, got, want)
	if s.epoch != 11 {
		t.Errorf("broker epoch = %d, want 11", s.epoch)
	}
	if state, err := vfs.ReadFile(s.fs, testDir+"/quorum-state"); err != nil || string(state) != `{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],"data_version":0}` {
		t.Errorf("quorum-state = %s, %v", state, err)
	}
}

func equalBatches(t *testing.T, got, want [][]string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		var g, w []string
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if !slices.Equal(g, w) {
			t.Errorf("batch %d:\n%s\nwant\n%s", i, strings.Join(g, "\n"), strings.Join(w, "\n"))
		}
	}
}

// A clean stop leaves every partition in the hands of the eligible leaders, and the next start elects from them (golden transactions-v2).
func TestCleanRestart(t *testing.T) {
	s := newSite(t)
	s.start()
	topic := s.create("t", 2)
	id := topic.ID.String()
	from := s.log.EndOffset()
	if err := s.ControlledShutdown(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	equalBatches(t, s.written(from), [][]string{
		{
			`BROKER_REGISTRATION_CHANGE_RECORD v1 {"brokerId":1,"brokerEpoch":11,"inControlledShutdown":1}`,
			`PARTITION_CHANGE_RECORD v2 {"partitionId":0,"topicId":"` + id + `","isr":[],"leader":-1,"eligibleLeaderReplicas":[1],"lastKnownElr":[1]}`,
			`PARTITION_CHANGE_RECORD v2 {"partitionId":1,"topicId":"` + id + `","isr":[],"leader":-1,"eligibleLeaderReplicas":[1],"lastKnownElr":[1]}`,
		},
		{`BROKER_REGISTRATION_CHANGE_RECORD v0 {"brokerId":1,"brokerEpoch":11,"fenced":1}`},
	})
	s.stop()
	s.open()
	from = s.log.EndOffset()
	s.Close()
	s.log.Close()
	s.start()
	got := s.written(from)
	equalBatches(t, got[len(got)-1:], [][]string{{
		fmt.Sprintf(`BROKER_REGISTRATION_CHANGE_RECORD v0 {"brokerId":1,"brokerEpoch":%d,"fenced":-1}`, s.epoch),
		`PARTITION_CHANGE_RECORD v2 {"partitionId":0,"topicId":"` + id + `","isr":[1],"leader":1,"eligibleLeaderReplicas":[],"lastKnownElr":[]}`,
		`PARTITION_CHANGE_RECORD v2 {"partitionId":1,"topicId":"` + id + `","isr":[1],"leader":1,"eligibleLeaderReplicas":[],"lastKnownElr":[]}`,
	}})
	if p := s.Image().Topic("t").Partitions[0]; p.Leader != 1 || p.LeaderEpoch != 2 || p.LeaderRecoveryState != 0 {
		t.Errorf("partition 0 after the restart: %+v", p)
	}
}

// After a kill the broker is no eligible leader any more: it leads as the last one known, and says so (golden three-nodes, offsets 249-334).
func TestRestartAfterKill(t *testing.T) {
	s := newSite(t)
	s.start()
	id := s.create("t", 1).ID.String()
	from := s.log.EndOffset()
	s.kill()
	s.start()
	got := s.written(from)
	for i, b := range got {
		for j, line := range b {
			if k := strings.Index(line, `,"incarnationId"`); k >= 0 {
				got[i][j] = line[:k]
			}
		}
	}
	equalBatches(t, got, [][]string{
		{`LeaderChange {"version":0,"leaderId":1,"voters":[{"voterId":1}],"grantingVoters":[{"voterId":1}]}`},
		{
			`PARTITION_CHANGE_RECORD v2 {"partitionId":0,"topicId":"` + id + `","isr":[],"leader":-1,"eligibleLeaderReplicas":[1],"lastKnownElr":[1]}`,
			`BROKER_REGISTRATION_CHANGE_RECORD v0 {"brokerId":1,"brokerEpoch":11,"fenced":1}`,
		},
		{`REGISTER_CONTROLLER_RECORD v0 {"controllerId":1`},
		{
			`PARTITION_CHANGE_RECORD v2 {"partitionId":0,"topicId":"` + id + `","eligibleLeaderReplicas":[]}`,
			`REGISTER_BROKER_RECORD v4 {"brokerId":1,"isMigratingZkBroker":false`,
		},
		{fmt.Sprintf(`BROKER_REGISTRATION_CHANGE_RECORD v3 {"brokerId":1,"brokerEpoch":%d,"cordonedLogDirs":[]}`, s.epoch)},
		{
			fmt.Sprintf(`BROKER_REGISTRATION_CHANGE_RECORD v0 {"brokerId":1,"brokerEpoch":%d,"fenced":-1}`, s.epoch),
			`PARTITION_CHANGE_RECORD v2 {"partitionId":0,"topicId":"` + id + `","isr":[1],"leader":1,"leaderRecoveryState":1,"lastKnownElr":[]}`,
		},
	})
	if p := s.Image().Topic("t").Partitions[0]; p.Leader != 1 || p.LeaderEpoch != 2 {
		t.Errorf("partition 0 after the kill: %+v", p)
	}
	if s.LeaderEpoch() != 2 {
		t.Errorf("leader epoch of the metadata log = %d, want 2", s.LeaderEpoch())
	}
}

// What was answered survives a crash at any moment, and no start is ever refused. keeps I1, I2, I3
func TestCrashes(t *testing.T) {
	for seed := range uint64(60) {
		s := newSite(t)
		s.start()
		s.create("before", 1)
		s.fs.CrashAfter(int(seed))
		var acked []string
		for i := 0; ; i++ {
			name := fmt.Sprintf("t%d", i)
			r := kmsg.NewPtrCreateTopicsRequest()
			r.Version = 7
			topic := kmsg.NewCreateTopicsRequestTopic()
			topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 2, 1
			r.Topics = append(r.Topics, topic)
			if s.CreateTopics(t.Context(), r).Topics[0].ErrorCode != 0 {
				break
			}
			acked = append(acked, name)
		}
		s.kill()
		s.fs = s.fs.AfterCrash(seed)
		s.start()
		for _, name := range append(acked, "before") {
			topic := s.Image().Topic(name)
			if topic == nil {
				t.Fatalf("seed %d: topic %s was acknowledged and is gone", seed, name)
			}
			for n, p := range topic.Partitions {
				if p.Leader != 1 {
					t.Fatalf("seed %d: %s-%d has no leader", seed, name, n)
				}
			}
		}
		for topic := range s.Image().Topics() {
			if topic.Name != "before" && len(topic.Partitions) != 2 {
				t.Fatalf("seed %d: topic %s is there in part: %d partitions", seed, topic.Name, len(topic.Partitions))
			}
		}
		s.kill()
	}
}

// A failed fsync ends all writing: nobody can say what is on disk.
func TestFailedFsync(t *testing.T) {
	s := newSite(t)
	s.start()
	s.fs.FailNth(1, syscall.EIO, func(op, _ string) bool { return op == "sync" })
	for range 2 {
		err := s.write(t.Context(), func(draft) ([]kmeta.Record, error) {
			return []kmeta.Record{&kmeta.TopicRecord{Name: "x", TopicID: kmeta.RandomUUID()}}, nil
		})
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("write = %v, want EIO", err)
		}
	}
	if !errors.Is(s.Failed(), syscall.EIO) {
		t.Errorf("Failed() = %v, want EIO", s.Failed())
	}
	if s.Image().Topic("x") != nil {
		t.Error("an image shows what may not be on disk")
	}
}

// A full disk refuses a wish with a retriable code, and the next one that finds room is granted.
func TestFullDisk(t *testing.T) {
	s := newSite(t)
	s.start()
	s.fs.FailNth(1, syscall.ENOSPC, func(op, name string) bool { return op == "write" && strings.HasSuffix(name, ".log") })
	r := kmsg.NewPtrCreateTopicsRequest()
	r.Version, r.Topics = 7, []kmsg.CreateTopicsRequestTopic{topicWish{name: "t", partitions: 1, factor: 1}.request()}
	if code := s.CreateTopics(t.Context(), r).Topics[0].ErrorCode; code != 56 {
		t.Errorf("on a full disk: %d, want 56", code)
	}
	if s.Image().Topic("t") != nil {
		t.Error("a topic that could not be written is shown")
	}
	s.create("t", 1)
}

// Wishes that wait together share an fsync, and each is decided upon those before it.
func TestGroupCommit(t *testing.T) {
	s := newSite(t)
	s.start()
	const wishes = 200
	refused := make(chan int16, wishes)
	var all sync.WaitGroup
	for i := range wishes {
		all.Go(func() {
			r := kmsg.NewPtrCreateTopicsRequest()
			r.Version = 7
			topic := kmsg.NewCreateTopicsRequestTopic()
			topic.Topic, topic.NumPartitions, topic.ReplicationFactor = fmt.Sprintf("t%d", i/2), 1, 1 // each name twice
			r.Topics = append(r.Topics, topic)
			if code := s.CreateTopics(t.Context(), r).Topics[0].ErrorCode; code != 0 {
				refused <- code
			}
		})
	}
	all.Wait()
	close(refused)
	n := 0
	for code := range refused {
		n++
		if code != 36 {
			t.Errorf("a name's second creation: %d, want 36", code)
		}
	}
	if n != wishes/2 || s.Image().TopicCount() != wishes/2 {
		t.Errorf("%d refused and %d made, want %d each", n, s.Image().TopicCount(), wishes/2)
	}
	created := 0
	for _, d := range s.applied {
		created += len(d.Created)
	}
	if created != wishes/2 {
		t.Errorf("deltas tell of %d new topics, want %d", created, wishes/2)
	}
}

// Whatever is created and deleted at the same time, in whatever groups: the deltas that replicas follow add up to the image.
func TestDeltasAddUp(t *testing.T) {
	s := newSite(t)
	s.start()
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for i := range 50 {
				name := fmt.Sprint("t", (w+i)%4)
				if i%2 == 0 {
					r := kmsg.NewPtrCreateTopicsRequest()
					r.Version, r.Topics = 7, []kmsg.CreateTopicsRequestTopic{topicWish{name: name, partitions: 2, factor: 1}.request()}
					s.CreateTopics(t.Context(), r)
				} else {
					r := kmsg.NewPtrDeleteTopicsRequest()
					r.Version, r.TopicNames = 5, []string{name}
					s.DeleteTopics(t.Context(), r)
				}
			}
		})
	}
	all.Wait()
	got := map[kmeta.UUID]string{}
	for _, d := range s.applied {
		for _, topic := range d.Deleted {
			if got[topic.ID] == "" {
				t.Errorf("%s is deleted, and was never there", topic.Name)
			}
			delete(got, topic.ID)
		}
		for _, topic := range d.Created {
			got[topic.ID] = topic.Name
		}
	}
	want := map[kmeta.UUID]string{}
	for topic := range s.Image().Topics() {
		want[topic.ID] = topic.Name
	}
	if !maps.Equal(got, want) {
		t.Errorf("by the deltas %v, by the image %v", got, want)
	}
}

// A change too large for a batch is a metadata transaction: there wholly, or after a crash in its middle not at all.
func TestLargeChange(t *testing.T) {
	s := newSite(t)
	s.start()
	large := func(draft) (recs []kmeta.Record, _ error) {
		for i := range batchRecordsMax + 5 {
			recs = append(recs, &kmeta.TopicRecord{Name: fmt.Sprintf("t%d", i), TopicID: kmeta.RandomUUID()})
		}
		return recs, nil
	}
	if err := s.write(t.Context(), large); err != nil {
		t.Fatal(err)
	}
	s.kill()
	s.start()
	if n := s.Image().TopicCount(); n != batchRecordsMax+5 {
		t.Errorf("%d topics after a restart, want %d", n, batchRecordsMax+5)
	}
	s.kill()

	s = newSite(t)
	s.start()
	s.fs.FailNth(3, syscall.ENOSPC, func(op, name string) bool { return op == "write" && strings.HasSuffix(name, ".log") })
	if err := s.write(t.Context(), large); err == nil {
		t.Fatal("written in spite of a full disk")
	}
	s.kill()
	s.start()
	if n := s.Image().TopicCount(); n != 0 {
		t.Errorf("%d topics of half a change", n)
	}
	s.create("after", 1)
	s.kill()
	s.start()
	if s.Image().Topic("after") == nil {
		t.Error("a topic created after the aborted change is gone")
	}
}

// A snapshot and the log after it say what the log said.
func TestSnapshot(t *testing.T) {
	s := newSite(t)
	s.options.Static = map[string]string{"metadata.max.retention.bytes": "1"}
	s.start()
	for i := range 5 {
		s.create(fmt.Sprintf("t%d", i), 3)
		if err := s.snapshot(s.Image()); err != nil {
			t.Fatal(err)
		}
	}
	s.create("after", 1)
	start := s.log.StartOffset()
	if start == 0 {
		t.Error("the log's start did not move, though retention asks for it")
	}
	want := fmt.Sprint(s.Image().TopicCount(), s.Image().PartitionCount(), s.Image().NextProducerID())
	s.stop()
	s.fs = s.fs.AfterCrash(1)
	s.start()
	if got := fmt.Sprint(s.Image().TopicCount(), s.Image().PartitionCount(), s.Image().NextProducerID()); got != want {
		t.Errorf("after a restart from the snapshot: %s, want %s", got, want)
	}
	files, err := s.listSnapshots()
	if err != nil || len(files) != 1 {
		t.Errorf("snapshots = %v, %v, want the newest alone", files, err)
	}
}

// Without the snapshot that the log begins at, nothing can be known.
func TestMissingSnapshot(t *testing.T) {
	s := newSite(t)
	s.options.Static = map[string]string{"metadata.max.retention.bytes": "1"}
	s.start()
	for i := range 2 {
		s.create(fmt.Sprintf("t%d", i), 1)
		if err := errors.Join(s.log.Roll(), s.snapshot(s.Image())); err != nil {
			t.Fatal(err)
		}
	}
	files, err := s.listSnapshots()
	if err != nil || len(files) != 1 {
		t.Fatalf("snapshots %v, %v", files, err)
	}
	s.stop()
	if err := s.fs.Remove(testDir + "/" + files[0].name()); err != nil {
		t.Fatal(err)
	}
	log, err := storage.OpenLog(storage.LogOptions{FS: s.fs, Dir: testDir, Partition: storage.TopicPartition{Topic: metadataTopic}, Config: storage.DefaultConfig(), Metadata: true})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Abandon()
	if log.StartOffset() == 0 {
		t.Fatal("no segment was deleted")
	}
	if _, err := Open(Options{NodeID: 1, FS: s.fs, Log: log, Dir: testDir}); err == nil {
		t.Error("opened without the snapshot that the log begins at")
	}
}

func TestProducerIDs(t *testing.T) {
	s := newSite(t)
	s.start()
	for want := int64(0); want < 3000; want += 1000 {
		first, n, err := s.AllocateProducerIDs(t.Context(), 1, s.epoch)
		if err != nil || first != want || n != 1000 {
			t.Fatalf("block = %d, %d, %v, want %d, 1000", first, n, err, want)
		}
	}
	if _, _, err := s.AllocateProducerIDs(t.Context(), 1, s.epoch+1); err == nil {
		t.Error("a block for a broker of another epoch")
	}
}

func TestClosed(t *testing.T) {
	s := newSite(t)
	s.start()
	s.Close()
	if err := s.Unfence(t.Context(), 1); !errors.Is(err, ErrClosed) {
		t.Errorf("a wish after Close = %v", err)
	}
}
