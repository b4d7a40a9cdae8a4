package server

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/storage"
)

// groupEventsOf asks as an operator does.
func groupEventsOf(t *testing.T, n *Node, query string) (events []groupEvent) {
	t.Helper()
	values, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	n.showGroupEvents(w, httptest.NewRequest(http.MethodGet, "/groups/events?"+values.Encode(), nil))
	if err := json.Unmarshal(w.Body.Bytes(), &events); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return events
}

// fetchAt asks for an offset of topic t and returns the code.
func (c *dataClient) fetchAt(offset int64) int16 {
	r := version(kmsg.NewPtrFetchRequest(), 11)
	r.MaxBytes = 1 << 20
	rt, rp := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	rt.Topic, rp.FetchOffset, rp.PartitionMaxBytes = "t", offset, 1<<20
	rt.Partitions = append(rt.Partitions, rp)
	r.Topics = append(r.Topics, rt)
	return c.ask(r).(*kmsg.FetchResponse).Topics[0].Partitions[0].ErrorCode
}

// An offset that is not there is remembered with its cause and how many offsets are skipped; the same question again is counted.
func TestOutOfRangeEvents(t *testing.T) {
	n, c := groupsNode(t, "")
	for range 5 {
		c.put("t", pack(t, nil, "a", "b"))
	}
	if code := c.fetchAt(3); code != 0 {
		t.Fatalf("%d", code)
	}
	last := func(reason string, position, skipped int64, count int) {
		t.Helper()
		events := groupEventsOf(t, n, "topic=t&kind=out of range")
		if len(events) == 0 {
			t.Fatal("no event")
		}
		e := events[len(events)-1]
		if e.Reason != reason || *e.Position != position || *e.Skipped != skipped || e.Count != count || *e.Partition != 0 || e.Host != "/127.0.0.1" || e.Cause == "" {
			t.Errorf("want %s at %d, %d skipped, %d times: %+v", reason, position, skipped, count, e)
		}
	}
	outside := func(offset int64) {
		t.Helper()
		if code := c.fetchAt(offset); code != codeOffsetOutOfRange {
			t.Fatalf("offset %d: code %d", offset, code)
		}
	}
	outside(99)
	last(neverExisted, 99, 0, 1)
	outside(99)
	outside(99)
	last(neverExisted, 99, 0, 3)
	p := n.replicas.Partition("t", 0)
	if _, err := p.DeleteRecords(6); err != nil {
		t.Fatal(err)
	}
	outside(2)
	last(goneByRequest, 2, 4, 1)
	if _, err := p.DeleteRecords(8); err != nil {
		t.Fatal(err)
	}
	outside(6)
	last(goneByRequest, 6, 2, 1)
	outside(0)
	last(goneByRequest, 0, 8, 1)
	tp := storage.TopicPartition{Topic: "t"}
	for _, q := range []struct {
		event  storage.Event
		offset int64
		reason string
	}{
		{storage.Event{Partition: tp, Kind: "recover", Offset: 60, Cause: "bytes cut"}, 70, goneByTruncate},
		{storage.Event{Partition: tp, Kind: "recover", Offset: 80, Cause: "bytes cut"}, 50, neverExisted},
		{storage.Event{Partition: tp, Kind: "delete-log", Offset: -1, Cause: "deleted"}, 70, goneWithTopic},
		{storage.Event{Partition: tp, Kind: "log-start", Offset: 9, Cause: "retention.ms"}, 8, goneByRetention},
	} {
		n.events.Add(q.event)
		start := int64(8)
		if q.reason == goneByRetention {
			start = 9
		}
		if reason, cause := n.whyMissing(tp, q.offset, start, 10); reason != q.reason || cause == "" {
			t.Errorf("%+v: %s, %s", q, reason, cause)
		}
	}
	if reason, _ := n.whyMissing(storage.TopicPartition{Topic: "other"}, 1, 5, 10); reason != goneLongAgo {
		t.Error(reason)
	}
	if events := groupEventsOf(t, n, "group=g"); len(events) != 0 {
		t.Errorf("%+v are of nobody's group", events)
	}
}

// A member's own question is one of its group's events.
func TestOutOfRangeOfAMember(t *testing.T) {
	n, c := groupsNode(t, "")
	c.put("t", pack(t, nil, "a"))
	beat := version(kmsg.NewPtrConsumerGroupHeartbeatRequest(), 1)
	beat.Group, beat.MemberID, beat.RebalanceTimeoutMillis = "g", "member", 30000
	beat.SubscribedTopicNames, beat.Topics = []string{"t"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	if r := c.ask(beat).(*kmsg.ConsumerGroupHeartbeatResponse); r.ErrorCode != 0 || r.Assignment == nil || len(r.Assignment.Topics) != 1 {
		t.Fatalf("%+v", r)
	}
	if code := c.fetchAt(7); code != codeOffsetOutOfRange {
		t.Fatal(code)
	}
	var kinds []string
	for _, e := range groupEventsOf(t, n, "group=g") {
		kinds = append(kinds, string(e.Kind))
		if e.Group != "g" {
			t.Errorf("%+v", e)
		}
	}
	if got := strings.Join(kinds, ", "); got != "joined, rebalance, out of range" {
		t.Error(got)
	}
	if events := groupEventsOf(t, n, "group=h"); len(events) != 0 {
		t.Errorf("of another group: %+v", events)
	}
}

// One request fills the events with no more than its share, however many partitions it asks for what is not there.
func TestOutOfRangeEventsAreBounded(t *testing.T) {
	n, c := groupsNode(t, "")
	offsets := make([]int64, outsidersMax+10)
	for i := range offsets {
		offsets[i] = 7
	}
	c.topic("wide", int32(len(offsets)))
	r := c.ask(fetchOf(12, fetchTopic("wide", [16]byte{}, offsets...))).(*kmsg.FetchResponse)
	for _, p := range r.Topics[0].Partitions {
		if p.ErrorCode != codeOffsetOutOfRange {
			t.Fatalf("partition %d: code %d", p.Partition, p.ErrorCode)
		}
	}
	if events := groupEventsOf(t, n, "topic=wide&kind=out of range"); len(events) != outsidersMax {
		t.Errorf("%d events, want %d", len(events), outsidersMax)
	}
}
