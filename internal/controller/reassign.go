package controller

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
)

// AlterPartitionReassignments gives partitions other replicas (null: as before the reassignment that is under way). One that adds nobody is
// complete at once; one that adds a broker waits for it, and is listed, until it is cancelled.
func (c *Controller) AlterPartitionReassignments(ctx context.Context, r *kmsg.AlterPartitionAssignmentsRequest) *kmsg.AlterPartitionAssignmentsResponse {
	resp := r.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	mayChangeFactor := r.Version == 0 || r.AllowReplicationFactorChange
	resp.AllowReplicationFactorChange = mayChangeFactor
	err := c.write(ctx, func(d draft) ([]kmeta.Record, error) {
		e := c.election(d.img)
		var recs []kmeta.Record
		seen := map[*metadata.Partition]bool{}
		for i := range r.Topics {
			in := &r.Topics[i]
			out := kmsg.NewAlterPartitionAssignmentsResponseTopic()
			out.Topic = in.Topic
			for _, ask := range in.Partitions {
				p := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
				p.Partition = ask.Partition
				rec, err := e.reassign(in.Topic, ask.Partition, ask.Replicas, mayChangeFactor, seen)
				if p.ErrorCode, p.ErrorMessage = answer(err); rec != nil {
					recs = append(recs, rec)
				}
				out.Partitions = append(out.Partitions, p)
			}
			resp.Topics = append(resp.Topics, out)
		}
		return recs, nil
	})
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = answer(err)
		resp.Topics = nil
	}
	return resp
}

// reassign decides one partition; no record: it is as wished already.
func (e *election) reassign(topic string, n int32, target []int32, mayChangeFactor bool, seen map[*metadata.Partition]bool) (*kmeta.PartitionChangeRecord, error) {
	t := e.img.Topic(topic)
	if t == nil {
		return nil, refuse(kerr.UnknownTopicOrPartition, "Unable to find a topic named "+topic+".")
	}
	if n < 0 || int(n) >= len(t.Partitions) {
		return nil, refuse(kerr.UnknownTopicOrPartition, fmt.Sprintf("Unable to find partition %s:%d.", topic, n))
	}
	p := t.Partitions[n]
	if seen[p] {
		return nil, refuse(kerr.InvalidRequest, fmt.Sprintf("Partition %s-%d is named more than once.", topic, n))
	}
	seen[p] = true
	original := excluding(p.Replicas, p.Adding)
	if target == nil {
		if len(p.Adding) == 0 && len(p.Removing) == 0 {
			return nil, refuse(kerr.NoReassignmentInProgress, kerr.NoReassignmentInProgress.Description)
		}
		target = original
	} else {
		if err := checkAssignment(e.img, n, target, 0); err != nil {
			return nil, err
		}
		if !mayChangeFactor && len(target) != len(original) {
			return nil, refuse(kerr.InvalidReplicationFactor, fmt.Sprintf("The replication factor is changed from %d to %d", len(original), len(target)))
		}
	}
	adding, removing := excluding(target, original), excluding(original, target)
	replicas := slices.Concat(target, removing)
	if len(adding) == 0 && slices.ContainsFunc(target, func(id int32) bool { return slices.Contains(p.ISR, id) }) {
		replicas, removing = slices.Clone(target), nil // nobody has to catch up
	}
	return e.assign(t, n, replicas, adding, removing), nil
}

// assign is the record that gives a partition its replicas, and a leader among them; nil: it has them.
func (e *election) assign(t *metadata.Topic, n int32, replicas, adding, removing []int32) *kmeta.PartitionChangeRecord {
	before := t.Partitions[n]
	p := *before
	p.Replicas = replicas
	p.ELR, p.LastKnownELR = including(p.ELR, replicas), including(p.LastKnownELR, replicas)
	isr := including(p.ISR, replicas)
	r := e.change(t, &p, isr)
	if r == nil {
		r = kmeta.NewPartitionChangeRecord()
	}
	if !slices.Equal(isr, before.ISR) && r.ISR == nil {
		r.ISR = isr
	}
	if len(p.ELR) != len(before.ELR) && r.EligibleLeaderReplicas == nil {
		r.EligibleLeaderReplicas = p.ELR
	}
	if len(p.LastKnownELR) != len(before.LastKnownELR) && r.LastKnownELR == nil {
		r.LastKnownELR = p.LastKnownELR
	}
	if !slices.Equal(replicas, before.Replicas) {
		r.Replicas = replicas
	}
	if !slices.Equal(adding, before.Adding) {
		r.AddingReplicas = append([]int32{}, adding...)
	}
	if !slices.Equal(removing, before.Removing) {
		r.RemovingReplicas = append([]int32{}, removing...)
	}
	if r.Leader == -2 && len(excluding(before.Replicas, replicas)) > 0 {
		r.Leader = p.Leader // a reign anew: who was removed must not go on in the old one
	}
	if r.Leader == -2 && r.Replicas == nil && r.AddingReplicas == nil && r.RemovingReplicas == nil && r.ISR == nil {
		return nil
	}
	r.TopicID, r.PartitionID = t.ID, n
	return r
}

// excluding returns the ids that are not in others, including those that are; neither is nil.
func excluding(ids, others []int32) []int32 {
	return slices.DeleteFunc(append([]int32{}, ids...), func(id int32) bool { return slices.Contains(others, id) })
}

func including(ids, others []int32) []int32 {
	return slices.DeleteFunc(append([]int32{}, ids...), func(id int32) bool { return !slices.Contains(others, id) })
}

// UnregisterBroker forgets a broker that will not come back. This node's own cannot be forgotten while it runs.
func (c *Controller) UnregisterBroker(ctx context.Context, r *kmsg.UnregisterBrokerRequest) *kmsg.UnregisterBrokerResponse {
	resp := r.ResponseKind().(*kmsg.UnregisterBrokerResponse)
	resp.ErrorCode, resp.ErrorMessage = answer(c.write(ctx, func(d draft) ([]kmeta.Record, error) {
		b := d.img.Broker(r.BrokerID)
		switch {
		case b == nil:
			return nil, refuse(kerr.BrokerIDNotRegistered, fmt.Sprintf("Broker ID %d is not currently registered", r.BrokerID))
		case b.ID == c.options.NodeID:
			return nil, refuse(kerr.InvalidRequest, fmt.Sprintf("Broker ID %d is the node that answers: it cannot be unregistered while it runs.", b.ID))
		}
		return append(c.leave(d.img, nil, b.ID), &kmeta.UnregisterBrokerRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch}), nil
	}))
	return resp
}
