package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/replica"
	"github.com/quire-log/quire/internal/storage"
	"github.com/quire-log/quire/internal/wire"
)

// ListOffsets, versions 1-11.
//
//	v2   isolation level
//	v4   leader epochs
//	v6   flexible
//	v7   -3, v8 -4, v9 -5, v11 -6 as times
//	v10  a timeout, for answers from tiered storage
const (
	latestTime               = -1
	earliestTime             = -2
	maxTime                  = -3
	earliestLocalTime        = -4
	latestTieredTime         = -5
	earliestPendingTieredAge = -6
)

// specialTimesMin is the version from which on each special time is served.
var specialTimesMin = map[int64]int16{latestTime: 1, earliestTime: 1, maxTime: 7, earliestLocalTime: 8, latestTieredTime: 9, earliestPendingTieredAge: 11}

func (n *Node) handleListOffsets(_ context.Context, req *wire.Request) wire.Response {
	var m kmsg.ListOffsetsRequest
	if err := req.Decode(&m); err != nil {
		return wire.Close(err)
	}
	img := n.controller.Image()
	twice := repeated(&m)
	resp := m.ResponseKind().(*kmsg.ListOffsetsResponse)
	for i := range m.Topics {
		t := &m.Topics[i]
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = t.Topic
		for j := range t.Partitions {
			p := &t.Partitions[j]
			rp := kmsg.NewListOffsetsResponseTopicPartition()
			rp.Partition, rp.Timestamp, rp.Offset, rp.LeaderEpoch = p.Partition, -1, -1, -1
			if twice[storage.TopicPartition{Topic: t.Topic, Partition: p.Partition}] {
				rp.ErrorCode = codeInvalidRequest
			} else if least, special := specialTimesMin[p.Timestamp]; p.Timestamp < 0 && (!special || m.Version < least) {
				rp.ErrorCode = codeUnsupportedVersion
			} else {
				found, code := n.listOffset(img, &m, t.Topic, p)
				rp.ErrorCode, rp.Timestamp, rp.Offset, rp.LeaderEpoch = code, found.Timestamp, int64(found.Offset), int32(found.LeaderEpoch)
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return wire.Reply(resp)
}

// repeated are the partitions that a request names more than once; nil if none.
func repeated(m *kmsg.ListOffsetsRequest) map[storage.TopicPartition]bool {
	if len(m.Topics) == 1 && len(m.Topics[0].Partitions) == 1 {
		return nil
	}
	named := map[storage.TopicPartition]bool{}
	for i := range m.Topics {
		for j := range m.Topics[i].Partitions {
			tp := storage.TopicPartition{Topic: m.Topics[i].Topic, Partition: m.Topics[i].Partitions[j].Partition}
			_, again := named[tp]
			named[tp] = again
		}
	}
	return named
}

var noOffset = storage.TimestampOffset{Offset: invalidOffset, Timestamp: -1, LeaderEpoch: -1}

// leaderOf finds a partition that this node leads in the given epoch (-1: any), else says why not.
func (n *Node) leaderOf(img *metadata.Image, topic string, partition, epoch int32) (*replica.Partition, *storage.Log, int16) {
	t := img.Topic(topic)
	if t == nil || partition < 0 || int(partition) >= len(t.Partitions) {
		return nil, nil, codeUnknownTopicOrPartition
	}
	p := n.replicas.PartitionByID(t.ID, partition)
	if p == nil {
		return nil, nil, codeNotLeaderOrFollower
	}
	if err := p.CheckLeader(replica.Epoch(epoch)); err != nil {
		code, _ := errorCode(err)
		return nil, nil, code
	}
	log := p.Log()
	if log == nil {
		return nil, nil, codeKafkaStorageError
	}
	return p, log, codeNone
}

func (n *Node) listOffset(img *metadata.Image, m *kmsg.ListOffsetsRequest, topic string, ask *kmsg.ListOffsetsRequestTopicPartition) (storage.TimestampOffset, int16) {
	p, log, code := n.leaderOf(img, topic, ask.Partition, ask.CurrentLeaderEpoch)
	if code != codeNone {
		return noOffset, code
	}
	// What may be seen: a consumer's isolation level decides, everybody else sees all.
	visible := log.EndOffset()
	if m.ReplicaID == consumerReplica {
		if visible = p.HighWatermark(); m.IsolationLevel == 1 {
			visible = p.LastStableOffset()
		}
	}
	var found storage.TimestampOffset
	var err error
	switch ask.Timestamp {
	case latestTime:
		_, epoch := p.Leader()
		return storage.TimestampOffset{Offset: visible, Timestamp: -1, LeaderEpoch: epoch}, codeNone
	case earliestTime, earliestLocalTime:
		start := log.StartOffset()
		return storage.TimestampOffset{Offset: start, Timestamp: -1, LeaderEpoch: log.EpochAt(start)}, codeNone
	case latestTieredTime, earliestPendingTieredAge:
		return noOffset, codeNone // nothing is tiered
	case maxTime:
		found, err = log.OffsetOfMaxTimestamp()
	default:
		found, err = log.OffsetForTime(ask.Timestamp)
	}
	if err != nil {
		code, _ := errorCode(err)
		n.log.Error("a lookup by time failed", "partition", p.TopicPartition().String(), "time", ask.Timestamp, "error", err)
		return noOffset, code
	}
	if found.Offset < 0 || found.Offset >= visible {
		return noOffset, codeNone
	}
	return found, codeNone
}
