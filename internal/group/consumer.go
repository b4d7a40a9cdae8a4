package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
)

type consumerGroup struct {
	members map[string]*consumerMember
}
type consumerMember struct{}

func (m *consumerMember) ownedSince(topic kmeta.UUID, partition int32) (int32, bool) { return 0, false }

func (c *consumerGroup) onImage(time.Time, *metadata.Delta)    {}
func (c *consumerGroup) loaded(time.Time)                      {}
func (c *consumerGroup) tombstones(recs []Record) []Record     { return recs }
func (c *consumerGroup) subscribed(string) bool                { return false }
func (c *consumerGroup) state() state                          { return stateEmpty }
func (c *consumerGroup) mayFetch(id string, epoch int32) int16 { return 0 }
func (c *consumerGroup) mayCommit(id string, epoch int32, txn bool, version int16) permission {
	return permission{}
}
func (c *consumerGroup) classicHeartbeat(now time.Time, req *kmsg.HeartbeatRequest) int16 {
	return codeUnknownMember
}
func (c *consumerGroup) classicJoin(now time.Time, client Client, req *kmsg.JoinGroupRequest, reply func(*kmsg.JoinGroupResponse)) Effect {
	return Effect{}
}
func (c *consumerGroup) classicSync(now time.Time, req *kmsg.SyncGroupRequest, send func(*kmsg.SyncGroupResponse)) Effect {
	return Effect{}
}
func (c *consumerGroup) classicLeave(now time.Time, req *kmsg.LeaveGroupRequest, resp *kmsg.LeaveGroupResponse) Effect {
	return Effect{}
}
func (s *Shard) replayConsumer(k kmeta.Key, v kmeta.Value) {}

// ConsumerGroupHeartbeat is how a member of a consumer group joins, lives and leaves. The answer is never held.
func (s *Shard) ConsumerGroupHeartbeat(now time.Time, client Client, req *kmsg.ConsumerGroupHeartbeatRequest, reply func(*kmsg.ConsumerGroupHeartbeatResponse)) Effect {
	return Effect{Then: func(error) {
		reply(&kmsg.ConsumerGroupHeartbeatResponse{Version: req.Version, ErrorCode: codeUnsupportedVersion})
	}}
}

// ConsumerGroupDescribe describes a consumer group.
func (s *Shard) ConsumerGroupDescribe(now time.Time, name string) kmsg.ConsumerGroupDescribeResponseGroup {
	return kmsg.ConsumerGroupDescribeResponseGroup{Group: name, ErrorCode: kerr.GroupIDNotFound.Code}
}
