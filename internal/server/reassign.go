package server

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/wire"
)

// What changes the cluster's shape, decided by the controller: UpdateFeatures 0-2 (v1 names the kind of a move and can only validate, v2
// answers with one error for all), UnregisterBroker 0, ElectLeaders 0-2 (v1 knows unclean elections), AlterPartitionReassignments 0-1 (v1 can
// forbid that the replication factor changes), ListPartitionReassignments 0.

func (n *Node) handleUpdateFeatures(ctx context.Context, req *wire.Request) wire.Response {
	var r kmsg.UpdateFeaturesRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	return wire.Reply(n.controller.UpdateFeatures(ctx, &r))
}

func (n *Node) handleUnregisterBroker(ctx context.Context, req *wire.Request) wire.Response {
	var r kmsg.UnregisterBrokerRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	return wire.Reply(n.controller.UnregisterBroker(ctx, &r))
}

func (n *Node) handleElectLeaders(ctx context.Context, req *wire.Request) wire.Response {
	var r kmsg.ElectLeadersRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	return wire.Reply(n.controller.ElectLeaders(ctx, &r))
}

func (n *Node) handleAlterPartitionReassignments(ctx context.Context, req *wire.Request) wire.Response {
	var r kmsg.AlterPartitionAssignmentsRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	return wire.Reply(n.controller.AlterPartitionReassignments(ctx, &r))
}

func (n *Node) handleListPartitionReassignments(_ context.Context, req *wire.Request) wire.Response {
	var r kmsg.ListPartitionReassignmentsRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	resp := r.ResponseKind().(*kmsg.ListPartitionReassignmentsResponse)
	img := n.controller.Image()
	if r.Topics == nil {
		for t := range img.Topics() {
			appendReassignments(resp, t, func(int32) bool { return true })
		}
	}
	for _, in := range r.Topics {
		if t := img.Topic(in.Topic); t != nil {
			appendReassignments(resp, t, func(p int32) bool { return slices.Contains(in.Partitions, p) })
		}
	}
	return wire.Reply(resp)
}

// appendReassignments appends those partitions of a topic whose replicas are being exchanged.
func appendReassignments(resp *kmsg.ListPartitionReassignmentsResponse, t *metadata.Topic, wanted func(int32) bool) {
	out := kmsg.NewListPartitionReassignmentsResponseTopic()
	out.Topic = t.Name
	for i, p := range t.Partitions {
		if len(p.Adding) == 0 && len(p.Removing) == 0 || !wanted(int32(i)) {
			continue
		}
		rp := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
		rp.Partition, rp.Replicas, rp.AddingReplicas, rp.RemovingReplicas = int32(i), p.Replicas, p.Adding, p.Removing
		out.Partitions = append(out.Partitions, rp)
	}
	if len(out.Partitions) > 0 {
		resp.Topics = append(resp.Topics, out)
	}
}
