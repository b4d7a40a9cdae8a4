package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/txn"
	"github.com/quire-log/quire/internal/wire"
)

// WriteTxnMarkers, versions 1-2: another broker's coordinator ends transactions in partitions that this node leads. v2 tells the version
// of transactions: from 2 on a marker's epoch is newer than what its producer wrote with.
func (n *Node) handleWriteTxnMarkers(_ context.Context, req *wire.Request) wire.Response {
	var m kmsg.WriteTxnMarkersRequest
	if err := req.Decode(&m); err != nil {
		return wire.Close(err)
	}
	resp := m.ResponseKind().(*kmsg.WriteTxnMarkersResponse)
	for i := range m.Markers {
		q := &m.Markers[i]
		rm := kmsg.NewWriteTxnMarkersResponseMarker()
		rm.ProducerID = q.ProducerID
		marker := markerOf{
			producer: coordProducer{q.ProducerID, q.ProducerEpoch}, commit: q.Committed,
			coordinatorEpoch: q.CoordinatorEpoch, version: int16(q.TransactionVersion),
		}
		for _, t := range q.Topics {
			rt := kmsg.NewWriteTxnMarkersResponseMarkerTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rp := kmsg.NewWriteTxnMarkersResponseMarkerTopicPartition()
				rp.Partition, rp.ErrorCode = p, n.writeMarker(t.Topic, p, marker)
				rt.Partitions = append(rt.Partitions, rp)
			}
			rm.Topics = append(rm.Topics, rt)
		}
		resp.Markers = append(resp.Markers, rm)
	}
	return wire.Reply(resp)
}

// writeMarker writes a marker that came by the wire.
func (n *Node) writeMarker(topic string, partition int32, m markerOf) int16 {
	if m.producer.id < 0 || m.version < txn.V0 {
		return codeInvalidRequest
	}
	p := n.replicas.Partition(topic, partition)
	if p == nil {
		return codeUnknownTopicOrPartition
	}
	if err := p.CheckLeader(-1); err != nil {
		code, _ := errorCode(err)
		return code
	}
	code, _ := errorCode(n.transactions.markers.append(p, m))
	return code
}
