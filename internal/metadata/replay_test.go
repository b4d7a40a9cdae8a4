package metadata

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/quire-log/quire/internal/kmeta"
)

func ptr(s string) *string { return &s }

func topicRecord(n byte) *kmeta.TopicRecord {
	return &kmeta.TopicRecord{Name: fmt.Sprintf("t%d", n), TopicID: UUID{n}}
}

func partitionRecord(topic byte, id int32) *kmeta.PartitionRecord {
	return &kmeta.PartitionRecord{PartitionID: id, TopicID: UUID{topic}, Replicas: []int32{1, 2}, ISR: []int32{1, 2}, Leader: 1}
}

func partitionChange(topic byte, id int32, edit func(*kmeta.PartitionChangeRecord)) *kmeta.PartitionChangeRecord {
	r := kmeta.NewPartitionChangeRecord()
	r.TopicID, r.PartitionID = UUID{topic}, id
	edit(r)
	return r
}

func brokerRecord(id int32, epoch int64) *kmeta.RegisterBrokerRecord {
	return &kmeta.RegisterBrokerRecord{BrokerID: id, BrokerEpoch: epoch, Fenced: true, LogDirs: []UUID{{9}}}
}

func replayAll(t testing.TB, recs ...kmeta.Record) *Image {
	t.Helper()
	return replaySnapshot(t, recs, Offset(len(recs)-1), 0)
}

func TestEmpty(t *testing.T) {
	img := Empty()
	if img.Offset() != -1 || img.Epoch() != -1 || len(img.Records()) != 0 || img.TopicCount() != 0 || img.NextProducerID() != 0 || img.MetadataVersion() != 0 {
		t.Errorf("empty image at %d, with %v", img.Offset(), img.Records())
	}
	if img.Topic("t") != nil || img.TopicByID(UUID{1}) != nil || img.Broker(1) != nil || img.Controller(1) != nil || img.Quota(nil) != nil ||
		img.Configs(TopicResource, "t") != nil || img.ConfigResources(TopicResource) != nil || img.Feature(GroupVersion) != 0 {
		t.Error("an empty image has something")
	}
}

func TestPartitionChange(t *testing.T) {
	base := []kmeta.Record{topicRecord(1), &kmeta.PartitionRecord{
		TopicID: UUID{1}, Replicas: []int32{1, 2}, ISR: []int32{1}, Leader: 1, LeaderEpoch: 5, PartitionEpoch: 8,
		LeaderRecoveryState: 1, Directories: []UUID{{1}, {2}}, EligibleLeaderReplicas: []int32{2}, LastKnownELR: []int32{},
	}}
	for _, test := range []struct {
		name string
		edit func(*kmeta.PartitionChangeRecord)
		want func(*Partition)
	}{
		{"nothing", func(r *kmeta.PartitionChangeRecord) {}, func(p *Partition) {}},
		{"in-sync set grows", func(r *kmeta.PartitionChangeRecord) { r.ISR = []int32{1, 2} }, func(p *Partition) { p.ISR = []int32{1, 2} }},
		{"in-sync set is empty", func(r *kmeta.PartitionChangeRecord) { r.ISR = []int32{} }, func(p *Partition) { p.ISR = nil }},
		{"another leader", func(r *kmeta.PartitionChangeRecord) { r.Leader = 2 }, func(p *Partition) { p.Leader, p.LeaderEpoch = 2, 6 }},
		{"the same leader", func(r *kmeta.PartitionChangeRecord) { r.Leader = 1 }, func(p *Partition) { p.LeaderEpoch = 6 }},
		{"no leader", func(r *kmeta.PartitionChangeRecord) { r.Leader = -1 }, func(p *Partition) { p.Leader, p.LeaderEpoch = -1, 6 }},
		{"recovered", func(r *kmeta.PartitionChangeRecord) { r.LeaderRecoveryState = 0 }, func(p *Partition) { p.LeaderRecoveryState = 0 }},
		{"directories", func(r *kmeta.PartitionChangeRecord) { r.Directories = []UUID{{1}, {3}} }, func(p *Partition) { p.Directories = []UUID{{1}, {3}} }},
		{"replicas, with no word of directories", func(r *kmeta.PartitionChangeRecord) {
			r.Replicas, r.AddingReplicas, r.RemovingReplicas = []int32{3, 2, 1}, []int32{3}, []int32{1}
		}, func(p *Partition) {
			p.Replicas, p.Adding, p.Removing, p.Directories = []int32{3, 2, 1}, []int32{3}, []int32{1}, []UUID{{}, {2}, {1}}
		}},
		{"eligible leaders", func(r *kmeta.PartitionChangeRecord) {
			r.EligibleLeaderReplicas, r.LastKnownELR = []int32{}, []int32{1}
		}, func(p *Partition) {
			p.ELR, p.LastKnownELR = nil, []int32{1}
		}},
	} {
		before := replayAll(t, base...)
		want := *before.Topic("t1").Partitions[0]
		test.want(&want)
		want.PartitionEpoch = 9
		img, delta, err := NewReplayer(before).Replay([]kmeta.Record{partitionChange(1, 0, test.edit)}, 2, 3)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if got := img.Topic("t1").Partitions[0]; !reflect.DeepEqual(*got, want) {
			t.Errorf("%s: %+v, want %+v", test.name, *got, want)
		}
		if len(delta.Changed) != 1 || delta.Changed[0] != (PartitionChange{img.Topic("t1"), 0}) {
			t.Errorf("%s: changed %v", test.name, delta.Changed)
		}
		if p := before.Topic("t1").Partitions[0]; p.PartitionEpoch != 8 || img.Offset() != 2 || img.Epoch() != 3 {
			t.Errorf("%s: the image before changed, or the one after is at %d", test.name, img.Offset())
		}
	}
}

func TestBrokerChanges(t *testing.T) {
	img := replayAll(t, brokerRecord(1, 5), brokerRecord(2, 6))
	r := NewReplayer(img)
	step := func(want Broker, recs ...kmeta.Record) {
		t.Helper()
		img, delta, err := r.Replay(recs, r.Image().Offset()+1, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := *img.Broker(1); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", recs[0].TypeName(), got, want)
		}
		if !slices.Equal(delta.Brokers, []int32{1}) {
			t.Errorf("%s: brokers %v changed", recs[0].TypeName(), delta.Brokers)
		}
	}
	b := Broker{ID: 1, Epoch: 5, Directories: []UUID{{9}}}
	step(b, &kmeta.BrokerRegistrationChangeRecord{BrokerID: 1, BrokerEpoch: 5, Fenced: -1})
	b.CordonedDirectories = []UUID{}
	step(b, &kmeta.BrokerRegistrationChangeRecord{BrokerID: 1, BrokerEpoch: 5, CordonedLogDirs: []UUID{}})
	b.Directories = []UUID{{7}, {8}}
	step(b, &kmeta.BrokerRegistrationChangeRecord{BrokerID: 1, BrokerEpoch: 5, LogDirs: b.Directories})
	b.InControlledShutdown = true
	step(b, &kmeta.BrokerRegistrationChangeRecord{BrokerID: 1, BrokerEpoch: 5, InControlledShutdown: 1})
	b.Fenced = true
	step(b, &kmeta.FenceBrokerRecord{ID: 1, Epoch: 5})
	b.Fenced = false
	step(b, &kmeta.UnfenceBrokerRecord{ID: 1, Epoch: 5})
	step(Broker{ID: 1, Epoch: 12, Fenced: true, Directories: []UUID{{9}}}, brokerRecord(1, 12))

	img, delta, err := r.Replay([]kmeta.Record{&kmeta.UnregisterBrokerRecord{BrokerID: 1, BrokerEpoch: 12}, brokerRecord(3, 1),
		&kmeta.UnregisterBrokerRecord{BrokerID: 3, BrokerEpoch: 1}}, 20, 0)
	if err != nil || img.Broker(1) != nil || img.Broker(2) == nil || !slices.Equal(delta.Brokers, []int32{1}) {
		t.Errorf("unregistered: %v, %v", delta, err)
	}
}

func TestDelta(t *testing.T) {
	before := replayAll(t, topicRecord(1), partitionRecord(1, 0), partitionRecord(1, 1), topicRecord(2), partitionRecord(2, 0), topicRecord(3),
		&kmeta.ConfigRecord{ResourceType: TopicResource, ResourceName: "t2", Name: "retention.ms", Value: ptr("1")})
	again := topicRecord(2)
	again.TopicID = UUID{20}
	img, delta, err := NewReplayer(before).Replay([]kmeta.Record{
		topicRecord(9), partitionRecord(9, 0),
		topicRecord(8), &kmeta.RemoveTopicRecord{TopicID: UUID{8}},
		topicRecord(4),
		&kmeta.RemoveTopicRecord{TopicID: UUID{2}}, again,
		partitionChange(1, 1, func(r *kmeta.PartitionChangeRecord) { r.Leader = 2 }),
		partitionRecord(1, 2),
		&kmeta.ConfigRecord{ResourceType: BrokerResource, Name: "a", Value: ptr("b")},
		&kmeta.ConfigRecord{ResourceType: GroupResource, ResourceName: "g", Name: "a", Value: ptr("b")},
		&kmeta.ConfigRecord{ResourceType: GroupResource, ResourceName: "g", Name: "a"},
		&kmeta.FeatureLevelRecord{Name: GroupVersion, FeatureLevel: 1},
		&kmeta.RegisterControllerRecord{ControllerID: 4},
	}, 100, 1)
	if err != nil {
		t.Fatal(err)
	}
	want := &Delta{
		Before: before, After: img,
		Created:     []*Topic{img.Topic("t2"), img.Topic("t4"), img.Topic("t9")},
		Deleted:     []*Topic{before.Topic("t2")},
		Changed:     []PartitionChange{{img.Topic("t1"), 1}, {img.Topic("t1"), 2}},
		Configs:     []ConfigResource{{TopicResource, "t2"}, {BrokerResource, ""}},
		Controllers: []int32{4}, Features: true,
	}
	if !reflect.DeepEqual(delta, want) {
		t.Errorf("delta %+v\nwant  %+v", delta, want)
	}
	if img.PartitionCount() != 4 || img.TopicCount() != 5 || before.PartitionCount() != 3 || before.TopicCount() != 3 {
		t.Errorf("%d topics with %d partitions, before %d with %d", img.TopicCount(), img.PartitionCount(), before.TopicCount(), before.PartitionCount())
	}
	if c := before.Configs(TopicResource, "t2"); len(c) != 1 || len(img.Configs(TopicResource, "t2")) != 0 {
		t.Errorf("a topic's values went not with it, or went from the image before: %v", c)
	}

	same, delta, err := NewReplayer(img).Replay([]kmeta.Record{&kmeta.NoOpRecord{}}, 101, 1)
	if err != nil || !reflect.DeepEqual(delta, &Delta{Before: img, After: same}) || same.Offset() != 101 {
		t.Errorf("after nothing: %+v, %v", delta, err)
	}
}

func TestClearELR(t *testing.T) {
	with := func(topic byte, id int32, elr, last []int32) *kmeta.PartitionRecord {
		r := partitionRecord(topic, id)
		r.EligibleLeaderReplicas, r.LastKnownELR = elr, last
		return r
	}
	base := []kmeta.Record{topicRecord(1), with(1, 0, []int32{1}, nil), with(1, 1, nil, nil), topicRecord(2), with(2, 0, nil, []int32{2})}
	for _, test := range []struct {
		topic string
		want  string // ELR, last known ELR and epoch of t1-0, t1-1 and t2-0
	}{
		{"t1", "[][]1 [][]0 [][2]0 "},
		{"t2", "[1][]0 [][]0 [][]1 "},
		{"", "[][]1 [][]0 [][]1 "},
	} {
		img, delta, err := NewReplayer(replayAll(t, base...)).Replay([]kmeta.Record{&kmeta.ClearELRRecord{TopicName: test.topic}}, 9, 0)
		if err != nil {
			t.Fatal(err)
		}
		got, changed := "", 0
		for topic := range img.Topics() {
			for _, p := range topic.Partitions {
				got += fmt.Sprintf("%v%v%d ", p.ELR, p.LastKnownELR, p.PartitionEpoch)
				changed += int(p.PartitionEpoch)
			}
		}
		if got != test.want || len(delta.Changed) != changed {
			t.Errorf("of %q: %s, want %s; changed %v", test.topic, got, test.want, delta.Changed)
		}
	}
}

// What goes and comes again within a batch is there.
func TestGoneAndBack(t *testing.T) {
	set := func(v *string) *kmeta.ConfigRecord {
		return &kmeta.ConfigRecord{ResourceType: TopicResource, ResourceName: "t1", Name: "k", Value: v}
	}
	quota := func(remove bool) *kmeta.ClientQuotaRecord {
		return &kmeta.ClientQuotaRecord{Entity: []kmeta.EntityData{{EntityType: "user"}}, Key: "k", Value: 2, Remove: remove}
	}
	again := topicRecord(1)
	again.TopicID = UUID{7}
	img := replayAll(t, topicRecord(1), set(ptr("1")), set(nil), set(ptr("2")),
		&kmeta.RemoveTopicRecord{TopicID: UUID{1}}, again, set(ptr("3")), quota(false), quota(true), quota(false))
	if v, _ := img.Config(TopicResource, "t1", "k"); v != "3" {
		t.Errorf("k is %q", v)
	}
	if v, _ := replayAll(t, set(ptr("1")), set(nil), set(ptr("2"))).Config(TopicResource, "t1", "k"); v != "2" {
		t.Errorf("k is %q", v)
	}
	if q := img.Quota([]QuotaEntity{{"user", nil}}); q == nil || q.Values["k"] != 2 {
		t.Errorf("the quota is %v", q)
	}
	_, _, err := NewReplayer(img).Replay([]kmeta.Record{partitionRecord(7, 0), &kmeta.RemoveTopicRecord{TopicID: UUID{7}}, partitionRecord(7, 1)}, 20, 0)
	if err == nil {
		t.Error("a partition came to a topic that was gone")
	}
}

// Each batch is a line of records: t2 creates topic 2; "(", ")" and "!" begin, end and abort a metadata transaction; "-" is none.
// After "=" stand the topics that show, and the image's offset.
func TestTransactions(t *testing.T) {
	for _, test := range []struct{ name, script string }{
		{"in one batch", "( t1 t2 ) = t1 t2 @3"},
		{"over batches", "t1 = t1 @0; ( t2 = t1 @0; - = t1 @0; t3 = t1 @0; ) = t1 t2 t3 @5"},
		{"aborted", "t1 = t1 @0; ( t2 = t1 @0; ! = t1 @3; t3 = t1 t3 @4"},
		{"aborted within a batch", "t1 ( t2 ! t3 = t1 t3 @4"},
		{"records before it show", "t1 ( t2 = t1 @0; t3 ) = t1 t2 t3 @4"},
		{"records before it stay when it is aborted", "t1 ( t2 = t1 @0; t3 ! = t1 @4"},
		{"another begins at once", "( t1 = @-1; ) ( t2 = t1 @2; ) = t1 t2 @5"},
		{"a name taken back by an abort is free", "( t1 ! ( t1 ) = t1 @5"},
	} {
		r := NewReplayer(Empty())
		next := Offset(0)
		for batch := range strings.SplitSeq(test.script, ";") {
			left, want, _ := strings.Cut(batch, "=")
			var recs []kmeta.Record
			for _, w := range strings.Fields(left) {
				switch w {
				case "(":
					recs = append(recs, &kmeta.BeginTransactionRecord{})
				case ")":
					recs = append(recs, &kmeta.EndTransactionRecord{})
				case "!":
					recs = append(recs, &kmeta.AbortTransactionRecord{})
				case "-":
					recs = append(recs, &kmeta.NoOpRecord{})
				default:
					recs = append(recs, topicRecord(w[1]-'0'))
				}
			}
			before := r.Image()
			next += Offset(len(recs))
			img, delta, err := r.Replay(recs, next-1, 0)
			if err != nil {
				t.Errorf("%s: %v", test.name, err)
				break
			}
			var got []string
			for topic := range img.Topics() {
				got = append(got, topic.Name)
			}
			if s := strings.Join(append(got, fmt.Sprintf("@%d", img.Offset())), " "); s != strings.TrimSpace(want) {
				t.Errorf("%s: after %q: %s, want %s", test.name, left, s, want)
			}
			if delta.Before != before || delta.After != img || len(delta.Created) != img.TopicCount()-before.TopicCount() {
				t.Errorf("%s: after %q: delta %+v", test.name, left, delta)
			}
			if r.InTransaction() && img.Offset() == next-1 {
				t.Errorf("%s: after %q: the image is at the end, though a transaction is open", test.name, left)
			}
		}
	}
}

func TestReplayErrors(t *testing.T) {
	base := []kmeta.Record{topicRecord(1), partitionRecord(1, 0), brokerRecord(1, 5)}
	id := UUID{9}
	for _, test := range []struct {
		rec  kmeta.Record
		want string
	}{
		{topicRecord(1), "TOPIC_RECORD: topic t1 exists already, with id " + UUID{1}.String()},
		{&kmeta.TopicRecord{Name: "x", TopicID: UUID{1}}, "TOPIC_RECORD: topic id " + UUID{1}.String() + " of x is that of t1"},
		{partitionRecord(9, 0), "PARTITION_RECORD: no topic with id " + id.String()},
		{partitionRecord(1, -1), "PARTITION_RECORD: partition -1 of topic id " + UUID{1}.String() + ": a topic has at most 1048576"},
		{partitionRecord(1, 1<<20), "PARTITION_RECORD: partition 1048576 of topic id " + UUID{1}.String() + ": a topic has at most 1048576"},
		{&kmeta.PartitionRecord{TopicID: UUID{1}, Replicas: []int32{1}, Directories: []UUID{{}, {}}},
			"PARTITION_RECORD: partition 0 of topic id " + UUID{1}.String() + ": 2 directories for 1 replicas"},
		{partitionRecord(1, 2), "after it: topic t1 has 3 partitions, but no partition 1"},
		{partitionChange(9, 0, func(*kmeta.PartitionChangeRecord) {}), "PARTITION_CHANGE_RECORD: no topic with id " + id.String()},
		{partitionChange(1, 1, func(*kmeta.PartitionChangeRecord) {}), "PARTITION_CHANGE_RECORD: topic t1 has no partition 1"},
		{partitionChange(1, -1, func(*kmeta.PartitionChangeRecord) {}), "PARTITION_CHANGE_RECORD: topic t1 has no partition -1"},
		{partitionChange(1, 0, func(r *kmeta.PartitionChangeRecord) { r.Directories = []UUID{{}} }),
			"PARTITION_CHANGE_RECORD: t1-0: 1 directories for 2 replicas"},
		{&kmeta.RemoveTopicRecord{TopicID: id}, "REMOVE_TOPIC_RECORD: no topic with id " + id.String()},
		{&kmeta.ClearELRRecord{TopicName: "x"}, "CLEAR_ELR_RECORD: no topic x"},
		{&kmeta.UnregisterBrokerRecord{BrokerID: 2}, "UNREGISTER_BROKER_RECORD: broker 2 is not registered"},
		{&kmeta.FenceBrokerRecord{ID: 1, Epoch: 4}, "FENCE_BROKER_RECORD: broker 1 has epoch 5, not 4"},
		{&kmeta.BrokerRegistrationChangeRecord{BrokerID: 1, BrokerEpoch: 5, Fenced: 2},
			"BROKER_REGISTRATION_CHANGE_RECORD: broker 1: fenced 2, in controlled shutdown 0"},
		{&kmeta.RemoveAccessControlEntryRecord{ID: id}, "REMOVE_ACCESS_CONTROL_ENTRY_RECORD: no access control entry " + id.String()},
		{&kmeta.EndTransactionRecord{}, "END_TRANSACTION_RECORD: no metadata transaction is open"},
		{&kmeta.AbortTransactionRecord{}, "ABORT_TRANSACTION_RECORD: no metadata transaction is open"},
		{unknownRecord{}, "UNKNOWN: record type 99 is not known"},
	} {
		img := replayAll(t, base...)
		r := NewReplayer(img)
		_, _, err := r.Replay([]kmeta.Record{&kmeta.NoOpRecord{}, test.rec}, 4, 0)
		var replayErr *ReplayError
		if want := "metadata: record 2 of 2 up to offset 4: " + test.want; !errors.As(err, &replayErr) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		if _, _, again := r.Replay(nil, 5, 0); again != err {
			t.Errorf("%v, and then %v", err, again)
		}
		if r.Image() != img || img.TopicCount() != 1 || len(img.Topic("t1").Partitions) != 1 {
			t.Errorf("%v changed the image", err)
		}
	}
	r := NewReplayer(Empty())
	if _, _, err := r.Replay([]kmeta.Record{&kmeta.BeginTransactionRecord{}, &kmeta.BeginTransactionRecord{}}, 1, 0); !errors.Is(err, errOpen) {
		t.Errorf("two transactions: %v", err)
	}
}

type unknownRecord struct{ *kmeta.NoOpRecord }

func (unknownRecord) Type() int16      { return 99 }
func (unknownRecord) TypeName() string { return "UNKNOWN" }

// manyTopics has ten thousand topics of three partitions.
func manyTopics(b *testing.B) *Image {
	var recs []kmeta.Record
	for n := range 10_000 {
		id := UUID{byte(n), byte(n >> 8), 1}
		recs = append(recs, &kmeta.TopicRecord{Name: fmt.Sprintf("topic-%d", n), TopicID: id})
		for p := range int32(3) {
			recs = append(recs, &kmeta.PartitionRecord{PartitionID: p, TopicID: id, Replicas: []int32{1}, ISR: []int32{1}, Leader: 1, Directories: []UUID{{1}}})
		}
	}
	return replaySnapshot(b, recs, 0, 0)
}

func BenchmarkCreateTopicAmong10000(b *testing.B) {
	img := manyTopics(b)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		_, _, err := NewReplayer(img).Replay([]kmeta.Record{
			&kmeta.TopicRecord{Name: "one-more", TopicID: UUID{2}},
			&kmeta.PartitionRecord{TopicID: UUID{2}, Replicas: []int32{1}, ISR: []int32{1}, Leader: 1, Directories: []UUID{{1}}},
		}, Offset(n+1), 0)
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkChangePartitionAmong10000(b *testing.B) {
	r := NewReplayer(manyTopics(b))
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		change := kmeta.NewPartitionChangeRecord()
		change.TopicID, change.Leader = UUID{byte(n % 10_000), byte(n % 10_000 >> 8), 1}, 1
		if _, _, err := r.Replay([]kmeta.Record{change}, Offset(n+1), 0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFindTopicAmong10000(b *testing.B) {
	img := manyTopics(b)
	b.ReportAllocs()
	for b.Loop() {
		if img.Topic("topic-7777") == nil || img.TopicByID(UUID{7, 7, 1}) == nil {
			b.Fatal("not found")
		}
	}
}
