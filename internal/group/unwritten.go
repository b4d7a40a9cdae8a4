package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/metadata"
)

// Replay applies one committed record. A record of a type that is not known is skipped; the error is of bytes that are damaged.
func (s *Shard) Replay(e Entry) error { panic("unwritten") }

// ReplayMarker ends a producer's transaction: its offsets show, or are forgotten.
func (s *Shard) ReplayMarker(producerID int64, producerEpoch int16, commit bool) { panic("unwritten") }

// JoinGroup lets a member into a classic group. The reply is held until the rebalance moves on.
func (s *Shard) JoinGroup(now time.Time, c Client, req *kmsg.JoinGroupRequest, reply func(*kmsg.JoinGroupResponse)) Effect {
	panic("unwritten")
}

// SyncGroup gives a member its assignment. The reply is held until the leader has said it.
func (s *Shard) SyncGroup(now time.Time, req *kmsg.SyncGroupRequest, reply func(*kmsg.SyncGroupResponse)) Effect {
	panic("unwritten")
}

// Heartbeat returns the code.
func (s *Shard) Heartbeat(now time.Time, req *kmsg.HeartbeatRequest) int16 { panic("unwritten") }

// LeaveGroup removes members.
func (s *Shard) LeaveGroup(now time.Time, req *kmsg.LeaveGroupRequest, reply func(*kmsg.LeaveGroupResponse)) Effect {
	panic("unwritten")
}

// OffsetCommit keeps what a group has consumed.
func (s *Shard) OffsetCommit(now time.Time, req *kmsg.OffsetCommitRequest, reply func(*kmsg.OffsetCommitResponse)) Effect {
	panic("unwritten")
}

// TxnOffsetCommit keeps it for the case that the transaction commits. Verification with the transaction coordinator is done before.
func (s *Shard) TxnOffsetCommit(now time.Time, req *kmsg.TxnOffsetCommitRequest, reply func(*kmsg.TxnOffsetCommitResponse)) Effect {
	panic("unwritten")
}

// OffsetFetch answers for one group. Requests before version 8 are put into the form of one group; nil Topics are all.
func (s *Shard) OffsetFetch(now time.Time, g *kmsg.OffsetFetchRequestGroup, version int16, requireStable bool) kmsg.OffsetFetchResponseGroup {
	panic("unwritten")
}

// OffsetDelete forgets offsets.
func (s *Shard) OffsetDelete(now time.Time, req *kmsg.OffsetDeleteRequest, reply func(*kmsg.OffsetDeleteResponse)) Effect {
	panic("unwritten")
}

// DeleteGroup deletes a group that is empty, and its offsets.
func (s *Shard) DeleteGroup(now time.Time, group string, reply func(code int16)) Effect {
	panic("unwritten")
}

// DescribeGroup describes a classic group at a version of DescribeGroups.
func (s *Shard) DescribeGroup(now time.Time, group string, version int16) kmsg.DescribeGroupsResponseGroup {
	panic("unwritten")
}

// ListGroups lists the groups that the request's filters let through, by name.
func (s *Shard) ListGroups(now time.Time, req *kmsg.ListGroupsRequest) []kmsg.ListGroupsResponseGroup {
	panic("unwritten")
}

// ConsumerGroupHeartbeat is how a member of a consumer group joins, lives and leaves. The answer is never held.
func (s *Shard) ConsumerGroupHeartbeat(now time.Time, c Client, req *kmsg.ConsumerGroupHeartbeatRequest, reply func(*kmsg.ConsumerGroupHeartbeatResponse)) Effect {
	panic("unwritten")
}

// ConsumerGroupDescribe describes a consumer group.
func (s *Shard) ConsumerGroupDescribe(now time.Time, group string) kmsg.ConsumerGroupDescribeResponseGroup {
	panic("unwritten")
}

type classicGroup struct{}

func (*classicGroup) unload() { panic("unwritten") }

type consumerGroup struct{}

func (*consumerGroup) onImage(now time.Time, d *metadata.Delta) { panic("unwritten") }

type group struct {
	classic  *classicGroup
	consumer *consumerGroup
	offsets  map[string]any
	cleanup  timer
}

func (*group) loaded(now time.Time) { panic("unwritten") }
