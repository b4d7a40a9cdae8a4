package server

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The first question after a coordinator creates its topic, with the settings that Kafka gives it, and is answered.
func TestFindCoordinator(t *testing.T) {
	n := startNode(t, "offsets.topic.num.partitions", "7", "offsets.topic.segment.bytes", "2000000")
	for version := int16(0); version <= 6; version++ {
		r := kmsg.NewPtrFindCoordinatorRequest()
		r.CoordinatorKey, r.CoordinatorKeys = "g", []string{"g", "h"}
		resp := ask[*kmsg.FindCoordinatorResponse](t, n.Addr(), version, r)
		if version < 4 {
			if at := fmt.Sprintf("%s:%d", resp.Host, resp.Port); resp.ErrorCode != 0 || resp.NodeID != 1 || at != n.Addr() || version > 0 && *resp.ErrorMessage != "NONE" {
				t.Errorf("v%d: %+v", version, resp)
			}
			continue
		}
		for i, c := range resp.Coordinators {
			if at := fmt.Sprintf("%s:%d", c.Host, c.Port); c.ErrorCode != 0 || c.NodeID != 1 || at != n.Addr() || c.Key != r.CoordinatorKeys[i] || *c.ErrorMessage != "" {
				t.Errorf("v%d: %+v", version, c)
			}
		}
	}
	topic := n.controller.Image().Topic("__consumer_offsets")
	if len(topic.Partitions) != 7 || len(topic.Partitions[0].Replicas) != 1 {
		t.Errorf("%d partitions, %d replicas", len(topic.Partitions), len(topic.Partitions[0].Replicas))
	}
	want := map[string]string{"cleanup.policy": "compact", "segment.bytes": "2000000", "compression.type": "producer"}
	if got := n.controller.Image().Configs(2, "__consumer_offsets"); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("configs %v, want %v", got, want)
	}
}

// Kinds of coordinators that there are not, and a topic that cannot be created.
func TestFindCoordinatorRefused(t *testing.T) {
	n := startNode(t, "offsets.topic.replication.factor", "3")
	for _, q := range []struct {
		version int16
		kind    int8
		code    int16
	}{{3, 0, 15}, {4, 0, 15}, {3, 2, 42}, {4, 2, 42}, {6, 2, 15}, {3, 9, 42}, {6, 9, 42}} {
		r := kmsg.NewPtrFindCoordinatorRequest()
		r.CoordinatorKey, r.CoordinatorKeys, r.CoordinatorType = "g", []string{"g"}, q.kind
		resp := ask[*kmsg.FindCoordinatorResponse](t, n.Addr(), q.version, r)
		code, node := resp.ErrorCode, resp.NodeID
		if q.version >= 4 {
			code, node = resp.Coordinators[0].ErrorCode, resp.Coordinators[0].NodeID
		}
		if code != q.code || node != -1 {
			t.Errorf("v%d, kind %d: code %d, node %d, want %d and -1", q.version, q.kind, code, node, q.code)
		}
	}
}

// The partition of a group is Java's hash of its name, which counts UTF-16 units.
func TestJavaHash(t *testing.T) {
	for s, want := range map[string]int32{
		"": 0, "a": 97, "group": 98629247, "polygenelubricants": 0, "\U0001f600": 1772899, "grüße": 98768023,
	} {
		if got := javaHash(s); got != want {
			t.Errorf("javaHash(%q) = %d, want %d", s, got, want)
		}
	}
}
