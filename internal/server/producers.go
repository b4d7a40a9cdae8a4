package server

import (
	"cmp"
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/storage"
	"github.com/quire-log/quire/internal/wire"
)

// DescribeProducers, version 0: what a leader knows of the producers of its partitions. Ours go by producer id; Kafka's in no order.
func (n *Node) handleDescribeProducers(_ context.Context, req *wire.Request) wire.Response {
	var m kmsg.DescribeProducersRequest
	if err := req.Decode(&m); err != nil {
		return wire.Close(err)
	}
	img := n.controller.Image()
	resp := m.ResponseKind().(*kmsg.DescribeProducersResponse)
	for i := range m.Topics {
		t := &m.Topics[i]
		rt := kmsg.NewDescribeProducersResponseTopic()
		rt.Topic = t.Topic
		for _, partition := range t.Partitions {
			rp := kmsg.NewDescribeProducersResponseTopicPartition()
			rp.Partition = partition
			_, log, code := n.leaderOf(img, t.Topic, partition, -1)
			if rp.ErrorCode = code; code == codeNone {
				rp.ActiveProducers = activeProducers(log)
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return wire.Reply(resp)
}

func activeProducers(log *storage.Log) []kmsg.DescribeProducersResponseTopicPartitionActiveProducer {
	producers := log.Producers()
	slices.SortFunc(producers, func(a, b storage.ProducerInfo) int { return cmp.Compare(a.ProducerID, b.ProducerID) })
	all := make([]kmsg.DescribeProducersResponseTopicPartitionActiveProducer, 0, len(producers))
	for _, p := range producers {
		a := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
		a.ProducerID, a.ProducerEpoch = p.ProducerID, int32(p.ProducerEpoch)
		a.LastSequence, a.LastTimestamp = p.LastSequence, p.LastTimestamp
		a.CoordinatorEpoch, a.CurrentTxnStartOffset = p.CoordinatorEpoch, int64(p.CurrentTxnStart)
		all = append(all, a)
	}
	return all
}
