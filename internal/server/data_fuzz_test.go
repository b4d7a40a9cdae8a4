package server

import (
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/wire"
)

// FuzzProduceWalk holds the walk of a produce request against kmsg's decoder: what both read, they read alike, and the walk reads nothing that kmsg refuses.
func FuzzProduceWalk(f *testing.F) {
	id := "x"
	for v := int16(produceMin); v <= 13; v++ {
		req := produceRequest(v, "topic", [16]byte{1}, -1, []byte("records"), nil, []byte{})
		req.TransactionID = &id
		f.Add(v, req.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, v int16, body []byte) {
		if v < produceMin || v > 13 {
			return
		}
		type part struct {
			topic     string
			id        [16]byte
			partition int32
			records   []byte
		}
		var walked, read []part
		req := wire.NewRequest(0, v, nil, body)
		w := walkProduce(req)
		for w.nextTopic() {
			for w.nextPartition() {
				walked = append(walked, part{w.topic, w.id, w.partition, w.records})
			}
		}
		_, _, err := surveyProduce(req)
		if (err == nil) != (w.r.Done() == nil) {
			t.Fatalf("one walk says %v, the other %v", err, w.r.Done())
		}
		if err != nil {
			return
		}
		m := kmsg.NewPtrProduceRequest()
		if err := req.Decode(m); err != nil {
			t.Fatalf("walked, but not decoded: %v", err)
		}
		for _, rt := range m.Topics {
			for _, rp := range rt.Partitions {
				read = append(read, part{rt.Topic, rt.TopicID, rp.Partition, rp.Records})
			}
		}
		if !reflect.DeepEqual(walked, read) || m.Acks != w.acks || m.TimeoutMillis != w.timeoutMs || (m.TransactionID != nil) != w.transactional {
			t.Errorf("walked %+v, decoded %+v", walked, read)
		}
	})
}

// FuzzFetchDecode does the same for fetch requests. Tags that a node alone does not look at are passed over unread, whereas kmsg refuses
// what it cannot read in them, and reads them at versions that have none.
func FuzzFetchDecode(f *testing.F) {
	for v := int16(4); v <= 18; v++ {
		req := fetchOf(v, fetchTopic("topic", [16]byte{1}, 5, 6, 7), fetchTopic("other", [16]byte{2}, 8))
		req.ReplicaID, req.ReplicaState.ID = -2, -2
		forgotten := kmsg.NewFetchRequestForgottenTopic()
		forgotten.Topic, forgotten.TopicID, forgotten.Partitions = "gone", [16]byte{3}, []int32{1, 2}
		req.ForgottenTopics = append(req.ForgottenTopics, forgotten)
		f.Add(v, req.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, v int16, body []byte) {
		if v < 4 || v > 18 {
			return
		}
		s := newFetchState()
		defer s.free()
		req := wire.NewRequest(1, v, nil, body)
		if s.decode(req) != nil {
			return
		}
		m := kmsg.NewPtrFetchRequest()
		if req.Decode(m) != nil {
			return
		}
		h := &s.head
		if h.maxWaitMs != m.MaxWaitMillis || h.minBytes != m.MinBytes || h.maxBytes != m.MaxBytes || h.committed != (m.IsolationLevel == 1) ||
			v >= fetchSessionsMin && (h.sessionID != m.SessionID || h.sessionEpoch != m.SessionEpoch) || v <= fetchReplicaIDMax && h.replica != m.ReplicaID {
			t.Errorf("walked %+v, decoded %+v", h, m)
		}
		i := 0
		for _, rt := range m.Topics {
			for _, rp := range rt.Partitions {
				p := s.parts[i]
				i++
				if p.key != (partitionKey{rt.Topic, rt.TopicID, rp.Partition}) ||
					p.ask != (fetchAsk{rp.CurrentLeaderEpoch, rp.FetchOffset, rp.LastFetchedEpoch, rp.PartitionMaxBytes}) {
					t.Errorf("walked %+v, decoded %+v of %+v", p, rp, rt)
				}
			}
		}
		forgotten := 0
		for _, rt := range m.ForgottenTopics {
			forgotten += len(rt.Partitions)
		}
		if i != len(s.parts) || forgotten != len(h.forgotten) {
			t.Errorf("walked %d and %d forgotten, decoded %d and %d", len(s.parts), len(h.forgotten), i, forgotten)
		}
	})
}
