package group

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/config"
	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
)

func version(v int16) func(*kmsg.OffsetCommitRequest) {
	return func(r *kmsg.OffsetCommitRequest) { r.Version = v }
}

func TestWhoMayCommit(t *testing.T) {
	w := newWorld(t)
	w.want("no group, generation -1", w.commit("simple", "", -1, "orders", 0, 5), 0)
	w.want("no group, generation 3, v8", w.commit("none", "m", 3, "orders", 0, 5), codeIllegalGeneration)
	w.want("no group, generation 3, v9", w.commit("none", "m", 3, "orders", 0, 5, version(9)), codeNoGroup)
	w.want("simple group, a member", w.commit("simple", "m", 3, "orders", 0, 5), codeUnknownMember)
	a, b := w.joiner("g"), w.joiner("g")
	w.form(a)
	w.want("active group, no member", w.commit("g", "", -1, "orders", 0, 5), codeUnknownMember)
	w.want("wrong generation", w.commit("g", a.id, 99, "orders", 0, 5), codeIllegalGeneration)
	w.want("wrong instance", w.commit("g", a.id, a.generation, "orders", 0, 5, func(r *kmsg.OffsetCommitRequest) { r.InstanceID = kmsg.StringPtr("i") }), codeUnknownMember)
	w.want("right", w.commit("g", a.id, a.generation, "orders", 0, 5), 0)
	b.enter()
	w.pass(8 * time.Second)
	w.want("during PreparingRebalance", w.commit("g", a.id, a.generation, "orders", 0, 6), 0)
	w.pass(8 * time.Second)
	w.want("which counts as a heartbeat", a.heartbeat(), codeRebalance)
	a.sendJoin()
	w.want("during CompletingRebalance", w.commit("g", a.id, a.generation, "orders", 0, 7), codeRebalance)
	long := strings.Repeat("g", 40000)
	w.want("a group id that no key can have", w.commit(long, "", -1, "orders", 0, 5), codeInvalidGroup)
	tooLong := w.joiner(long).sendJoin()
	w.want("to join it", tooLong.join.ErrorCode, codeInvalidGroup)
	w.want("to join it as a consumer", w.heartbeat(long, "m", 0, subscribe()).ErrorCode, codeInvalidRequest)
	w.want("empty group id", w.commit("", "", -1, "orders", 0, 5), 0)
	w.want("unknown topic", w.commit("simple", "", -1, "nowhere", 0, 5), codeUnknownTopic)
	w.want("unknown partition", w.commit("simple", "", -1, "orders", 4, 5), codeUnknownTopic)
	w.want("unknown id", w.commit("simple", "", -1, "", 0, 5, version(10)), codeUnknownTopicID)
	w.want("by id", w.commit("simple", "", -1, "", 0, 8, func(r *kmsg.OffsetCommitRequest) { r.Version, r.Topics[0].TopicID = 10, topicID("orders") }), 0)
	note := strings.Repeat("x", 4097)
	w.want("a long note", w.commit("simple", "", -1, "orders", 0, 5, func(r *kmsg.OffsetCommitRequest) { r.Topics[0].Partitions[0].Metadata = &note }), codeMetadataTooLarge)
	offset, _ := w.committed("simple", "orders", 0, false)
	w.want("the last that was right", offset, 8)
}

func TestCommitRecords(t *testing.T) {
	w := newWorld(t)
	note := "note"
	w.commit("g", "", -1, "orders", 1, 42, func(r *kmsg.OffsetCommitRequest) {
		r.Topics[0].Partitions[0].Metadata, r.Topics[0].Partitions[0].LeaderEpoch = &note, 3
	})
	w.commit("g", "", -1, "orders", 1, 43, func(r *kmsg.OffsetCommitRequest) { r.Version, r.RetentionTimeMillis = 2, 1000 })
	want := fmt.Sprintf(`{"type":1,"data":{"group":"g","topic":"orders","partition":1}} {"version":4,"data":{"offset":42,"leaderEpoch":3,"metadata":"note","commitTimestamp":1800000000000,"topicId":"%s"}}
{"type":1,"data":{"group":"g","topic":"orders","partition":1}} {"version":1,"data":{"offset":43,"metadata":"","commitTimestamp":1800000000000,"expireTimestamp":1800000001000}}
`, topicID("orders"))
	if got := w.lines(0); got != want {
		t.Errorf("log:\n%s\nwant\n%s", got, want)
	}
}

func TestFetchShapes(t *testing.T) {
	w := newWorld(t)
	w.commit("g", "", -1, "orders", 1, 42)
	show := func(r kmsg.OffsetFetchResponseGroup) string {
		out := fmt.Sprint(r.ErrorCode)
		for _, rt := range r.Topics {
			for _, p := range rt.Partitions {
				out += fmt.Sprintf(" %s-%d:%d/%d %q %d", rt.Topic, p.Partition, p.Offset, p.LeaderEpoch, *p.Metadata, p.ErrorCode)
			}
		}
		return out
	}
	ask := func(group string, topics []kmsg.OffsetFetchRequestGroupTopic, version int16) string {
		return show(w.s.OffsetFetch(w.now, &kmsg.OffsetFetchRequestGroup{Group: group, MemberEpoch: -1, Topics: topics}, version, false))
	}
	three := []kmsg.OffsetFetchRequestGroupTopic{{Topic: "orders", Partitions: []int32{0, 1, 9}}}
	w.want("asked", ask("g", three, 9), `0 orders-0:-1/-1 "" 0 orders-1:42/-1 "" 0 orders-9:-1/-1 "" 0`)
	w.want("unknown group", ask("h", three, 9), `0 orders-0:-1/-1 "" 0 orders-1:-1/-1 "" 0 orders-9:-1/-1 "" 0`)
	w.want("all", ask("g", nil, 9), `0 orders-1:42/-1 "" 0`)
	w.want("all of an unknown group", ask("h", nil, 9), `0`)
	w.want("by id", ask("g", []kmsg.OffsetFetchRequestGroupTopic{{TopicID: topicID("orders"), Partitions: []int32{1}}}, 10), `0 -1:42/-1 "" 0`)
	w.want("by an unknown id", ask("g", []kmsg.OffsetFetchRequestGroupTopic{{TopicID: topicID("x"), Partitions: []int32{1}}}, 10), `0 -1:-1/-1 "" 100`)
}

func TestTransactionalOffsets(t *testing.T) {
	w := newWorld(t)
	send := func(producer int64, partition int32, offset int64) (code int16) {
		req := &kmsg.TxnOffsetCommitRequest{Version: 3, Group: "g", ProducerID: producer, ProducerEpoch: 1, Generation: -1, Topics: []kmsg.TxnOffsetCommitRequestTopic{{
			Topic: "orders", Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{Partition: partition, Offset: offset}},
		}}}
		w.do(w.s.TxnOffsetCommit(w.now, req, func(r *kmsg.TxnOffsetCommitResponse) { code = r.Topics[0].Partitions[0].ErrorCode }))
		return code
	}
	at := func(partition int32, stable bool) string {
		offset, code := w.committed("g", "orders", partition, stable)
		return fmt.Sprint(offset, code)
	}
	w.commit("g", "", -1, "orders", 0, 5)
	w.want("in a transaction", send(7, 0, 9), 0)
	w.want("in another", send(8, 1, 3), 0)
	w.want("not seen", at(0, false), "5 0")
	w.want("unstable", at(0, true), fmt.Sprint(-1, codeUnstable))
	w.s.ReplayMarker(8, 1, false)
	w.want("aborted", at(1, true), "-1 0")
	w.s.ReplayMarker(7, 1, true)
	w.want("committed", at(0, true), "9 0")
	w.want("in a transaction", send(7, 0, 10), 0)
	w.commit("g", "", -1, "orders", 0, 20)
	w.s.ReplayMarker(7, 1, true)
	w.want("something newer stays", at(0, true), "20 0")
	w.want("a member that is unknown", func() int16 {
		req := &kmsg.TxnOffsetCommitRequest{Version: 3, Group: "g", MemberID: "m", Generation: 2, Topics: []kmsg.TxnOffsetCommitRequestTopic{{
			Topic: "orders", Partitions: make([]kmsg.TxnOffsetCommitRequestTopicPartition, 1),
		}}}
		var code int16
		w.do(w.s.TxnOffsetCommit(w.now, req, func(r *kmsg.TxnOffsetCommitResponse) { code = r.Topics[0].Partitions[0].ErrorCode }))
		return code
	}(), codeUnknownMember)
	if len(w.s.open) != 0 {
		t.Errorf("%d producers have open transactions", len(w.s.open))
	}
	w.want("in a transaction", send(7, 2, 10), 0)
	w.do(w.s.DeleteGroup(w.now, "g", func(code int16) { w.want("delete", code, 0) }))
	w.s.ReplayMarker(7, 1, true)
	w.want("deleted before the marker", at(2, true), "-1 0")
	w.want("groups", len(w.s.groups), 0)
}

func TestExpiry(t *testing.T) {
	w := newWorld(t)
	w.config.OffsetsRetention = time.Hour
	w.s.SetConfig(w.config)
	w.commit("simple", "", -1, "orders", 0, 5)
	w.commit("own", "", -1, "orders", 0, 5, func(r *kmsg.OffsetCommitRequest) { r.Version, r.RetentionTimeMillis = 2, 20_000_000 })
	a := w.joiner("g")
	a.kind, a.metadata, a.session = "consumer", kmeta.AppendSubscription(nil, &kmeta.ConsumerSubscription{Topics: []string{"orders"}}, 1), 30*time.Minute
	w.form(a)
	w.commit("g", a.id, a.generation, "orders", 0, 5)
	w.commit("g", a.id, a.generation, "payments", 0, 5)
	for range 8 {
		w.pass(10 * time.Minute)
		a.heartbeat()
	}
	has := func(group, topic string) bool { offset, _ := w.committed(group, topic, 0, false); return offset >= 0 }
	w.want("simple, own, subscribed, not subscribed", fmt.Sprint(has("simple", "orders"), has("own", "orders"), has("g", "orders"), has("g", "payments")), "false true true false")
	w.want("the simple group is gone", w.s.groups["simple"] == nil, true)
	w.pass(35 * time.Minute)
	w.want("a left by timeout", w.s.DescribeGroup(w.now, "g", 6).State, "Empty")
	w.want("counted from when it emptied", has("g", "orders"), true)
	n := len(w.log)
	w.pass(80 * time.Minute)
	w.want("records", strings.ReplaceAll(w.lines(n), "\n", ";"), `{"type":1,"data":{"group":"g","topic":"orders","partition":0}} <DELETE>;{"type":2,"data":{"group":"g"}} <DELETE>;`)
	w.pass(5 * time.Hour)
	w.want("groups left", len(w.s.groups), 0)
	if _, ok := w.s.NextTimer(); ok {
		t.Error("a timer of no group")
	}
}

func TestDeletedTopic(t *testing.T) {
	for _, restart := range []bool{false, true} {
		w := newWorld(t)
		w.commit("g", "", -1, "orders", 0, 100)
		w.commit("g", "", -1, "payments", 0, 7)
		was := w.image
		w.image = imageOf(t, "payments:3", "orders:4:again")
		offset, _ := w.committed("g", "orders", 0, false)
		w.want("not seen even before the cleanup", offset, -1)
		if restart {
			w.restart()
		} else {
			w.s.OnImage(w.now, &metadata.Delta{Before: was, After: w.image, Deleted: []*metadata.Topic{was.Topic("orders")}})
		}
		n := len(w.log)
		w.pass(0)
		w.want("log", w.lines(n), "{\"type\":1,\"data\":{\"group\":\"g\",\"topic\":\"orders\",\"partition\":0}} <DELETE>\n")
		offset, _ = w.committed("g", "payments", 0, false)
		w.want("the other", offset, 7)
	}
}

func TestDeleting(t *testing.T) {
	w := newWorld(t)
	w.commit("empty", "", -1, "orders", 0, 5)
	m := w.joiner("active")
	m.kind, m.metadata = "consumer", kmeta.AppendSubscription(nil, &kmeta.ConsumerSubscription{Topics: []string{"orders"}}, 1)
	o := w.joiner("opaque")
	w.form(m)
	w.form(o)
	for _, topic := range []string{"orders", "payments"} {
		w.want("commit", w.commit("active", m.id, m.generation, topic, 0, 5), 0)
	}
	offsetDelete := func(group, topic string) (code int16) {
		req := &kmsg.OffsetDeleteRequest{Group: group, Topics: []kmsg.OffsetDeleteRequestTopic{{Topic: topic, Partitions: make([]kmsg.OffsetDeleteRequestTopicPartition, 1)}}}
		w.do(w.s.OffsetDelete(w.now, req, func(r *kmsg.OffsetDeleteResponse) {
			if code = r.ErrorCode; code == 0 {
				code = r.Topics[0].Partitions[0].ErrorCode
			}
		}))
		return code
	}
	w.want("subscribed", offsetDelete("active", "orders"), codeSubscribed)
	w.want("not subscribed", offsetDelete("active", "payments"), 0)
	w.want("unknown topic", offsetDelete("active", "nowhere"), codeUnknownTopic)
	w.want("unknown group", offsetDelete("unknown", "orders"), codeNoGroup)
	w.want("a group that is no consumers", offsetDelete("opaque", "orders"), codeNonEmpty)
	offset, _ := w.committed("active", "payments", 0, false)
	w.want("its offset", offset, -1)
	remove := func(group string) (code int16) {
		w.do(w.s.DeleteGroup(w.now, group, func(c int16) { code = c }))
		return code
	}
	w.want("active", remove("active"), codeNonEmpty)
	w.want("unknown", remove("unknown"), codeNoGroup)
	n := len(w.log)
	w.want("empty", remove("empty"), 0)
	w.want("log", strings.ReplaceAll(w.lines(n), "\n", ";"), `{"type":1,"data":{"group":"empty","topic":"orders","partition":0}} <DELETE>;{"type":2,"data":{"group":"empty"}} <DELETE>;`)
	w.want("again", remove("empty"), codeNoGroup)
	w.restart()
	offset, _ = w.committed("empty", "orders", 0, false)
	w.want("after a restart", offset, -1)
	list := w.s.ListGroups(w.now, &kmsg.ListGroupsRequest{Version: 5, StatesFilter: []string{"stable"}, TypesFilter: []string{"CLASSIC"}})
	w.want("listed", fmt.Sprintf("%d %s %s %s %s", len(list), list[0].Group, list[0].GroupState, list[0].GroupType, list[0].ProtocolType), "2 active Stable classic consumer")
	w.want("none of that type", len(w.s.ListGroups(w.now, &kmsg.ListGroupsRequest{TypesFilter: []string{"share"}})), 0)
}

// A commit allocates a handful of things, a heartbeat nothing.
func TestAllocations(t *testing.T) {
	w := newWorld(t)
	a := w.joiner("g")
	w.form(a)
	req := &kmsg.HeartbeatRequest{Version: 4, Group: "g", MemberID: a.id, Generation: a.generation}
	if n := testing.AllocsPerRun(1000, func() { w.s.Heartbeat(w.now, req) }); n != 0 {
		t.Errorf("a heartbeat makes %v allocations", n)
	}
}

// The memory of a commit follows its records, whatever the first of them, or an earlier commit, was like.
func TestCommitRecordsMemory(t *testing.T) {
	w := newWorld(t)
	note := strings.Repeat("n", 4000)
	c := &Commit{}
	commit := func(partitions int, note *string) (bytes int) {
		all := make([]kmsg.OffsetCommitRequestTopicPartition, partitions)
		all[0].Metadata = note
		c.Request = kmsg.OffsetCommitRequest{Version: 8, Group: "g", Generation: -1, RetentionTimeMillis: -1,
			Topics: []kmsg.OffsetCommitRequestTopic{{Topic: "orders", Partitions: all}}}
		e := w.s.OffsetCommit(w.now, c, func(*kmsg.OffsetCommitResponse) {})
		if len(e.Records) != partitions {
			t.Fatalf("%d records, want %d", len(e.Records), partitions)
		}
		bytes = cap(c.w.buf)
		c.Reset()
		return bytes
	}
	for _, partitions := range []int{2000, 1} {
		if got := commit(partitions, &note); got > commitKeptMax {
			t.Errorf("%d partitions: %d bytes at once", partitions, got)
		}
	}
}

func BenchmarkOffsetCommit(b *testing.B) {
	w := newWorld(b)
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprint("group-", i)
	}
	c := &Commit{Request: kmsg.OffsetCommitRequest{Version: 8, Generation: -1, RetentionTimeMillis: -1, Topics: []kmsg.OffsetCommitRequestTopic{{
		Topic: "orders", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{LeaderEpoch: 2}},
	}}}}
	reply := func(*kmsg.OffsetCommitResponse) {}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		c.Request.Group = names[i%len(names)]
		c.Request.Topics[0].Partitions[0].Offset = int64(i)
		e := w.s.OffsetCommit(w.now, c, reply)
		for _, r := range e.Records {
			if err := w.s.Replay(&Entry{Record: r, Offset: int64(i)}); err != nil {
				b.Fatal(err)
			}
		}
		e.Then(nil)
	}
}

func BenchmarkReplay(b *testing.B) {
	s := newWorld(b).shard()
	var entries []Entry
	for i := range 10000 {
		w := offsetWriter{group: fmt.Sprint("group-", i%1000), recs: make([]Record, 0, 1)}
		w.add("orders", int32(i%50), &kmeta.OffsetCommitValue{Offset: int64(i), ExpireTimestamp: -1, TopicID: topicID("orders")}, 4)
		entries = append(entries, Entry{Record: w.recs[0], Offset: int64(i)})
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if err := s.Replay(&entries[i%len(entries)]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func TestConfigOf(t *testing.T) {
	got := ConfigOf(config.Layers{})
	if want := DefaultConfig(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	got = ConfigOf(config.Layers{Static: map[string]string{"group.coordinator.rebalance.protocols": "classic", "offsets.retention.minutes": "2"}})
	if got.ConsumerProtocol || got.OffsetsRetention != 2*time.Minute {
		t.Errorf("%+v", got)
	}
}
