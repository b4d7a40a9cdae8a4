package controller

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
)

// A reassignment to a broker that is away waits for it, and can be cancelled; one that adds nobody is complete at once.
func TestReassignment(t *testing.T) {
	s := newSite(t)
	s.start()
	s.create("orders", 1)
	err := s.write(t.Context(), func(d draft) ([]kmeta.Record, error) {
		return []kmeta.Record{&kmeta.RegisterBrokerRecord{BrokerID: 2, IncarnationID: kmeta.RandomUUID(), BrokerEpoch: int64(d.next), Fenced: true}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name                      string
		target                    []int32
		code                      int16
		replicas, adding, removed []int32
		reign                     bool // a new one begins
	}{
		{"to itself", []int32{1}, 0, []int32{1}, nil, nil, false},
		{"to the other alone", []int32{2}, 39, []int32{1}, nil, nil, false},
		{"to both", []int32{2, 1}, 0, []int32{2, 1}, []int32{2}, nil, false},
		{"cancelled", nil, 0, []int32{1}, nil, nil, true},
		{"cancelled again", nil, 85, []int32{1}, nil, nil, false},
	} {
		before := s.Image().Topic("orders").Partitions[0]
		r := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		r.SetVersion(1)
		r.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: "orders", Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Replicas: c.target}}}}
		if code := s.AlterPartitionReassignments(t.Context(), r).Topics[0].Partitions[0].ErrorCode; code != c.code {
			t.Errorf("%s: code %d, want %d", c.name, code, c.code)
		}
		p := s.Image().Topic("orders").Partitions[0]
		if !slices.Equal(p.Replicas, c.replicas) || !slices.Equal(p.Adding, c.adding) || !slices.Equal(p.Removing, c.removed) || p.Leader != 1 || !slices.Equal(p.ISR, []int32{1}) {
			t.Errorf("%s: %+v", c.name, p)
		}
		if p.LeaderEpoch > before.LeaderEpoch != c.reign {
			t.Errorf("%s: leader epoch %d after %d", c.name, p.LeaderEpoch, before.LeaderEpoch)
		}
	}
	r := kmsg.NewPtrUnregisterBrokerRequest()
	r.BrokerID = 2
	if code := s.UnregisterBroker(t.Context(), r).ErrorCode; code != 0 || s.Image().Broker(2) != nil {
		t.Errorf("unregister a fenced broker: code %d", code)
	}
}
