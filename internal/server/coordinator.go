package server

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/wire"
)

// FindCoordinator, versions 0-6: v1 asks for a kind of key, v4 for several keys at once, v6 may ask for share groups.
// The coordinator of a key is the leader of its partition in a topic that the first question creates. Kafka answers that question
// with COORDINATOR_NOT_AVAILABLE, and the next ones until the topic has come round; ours waits for the topic.

const (
	coordinatorGroup       = 0
	coordinatorTransaction = 1
	coordinatorShare       = 2
)

const (
	offsetsTopic      = "__consumer_offsets"
	transactionsTopic = "__transaction_state"
	sharesTopic       = "__share_group_state"
)

func (n *Node) handleFindCoordinator(ctx context.Context, req *wire.Request) wire.Response {
	var r kmsg.FindCoordinatorRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	resp := r.ResponseKind().(*kmsg.FindCoordinatorResponse)
	if r.Version < 4 {
		c := n.findCoordinator(ctx, req, &r, r.CoordinatorKey)
		resp.ErrorCode, resp.NodeID, resp.Host, resp.Port = c.ErrorCode, c.NodeID, c.Host, c.Port
		resp.ErrorMessage = kmsg.StringPtr("NONE") // as Kafka has it
		if e := kerr.TypedErrorForCode(c.ErrorCode); e != nil {
			resp.ErrorMessage = &e.Description
		}
		return wire.Reply(resp)
	}
	for _, key := range r.CoordinatorKeys {
		resp.Coordinators = append(resp.Coordinators, n.findCoordinator(ctx, req, &r, key))
	}
	return wire.Reply(resp)
}

// findCoordinator finds the coordinator of one key.
func (n *Node) findCoordinator(ctx context.Context, req *wire.Request, r *kmsg.FindCoordinatorRequest, key string) kmsg.FindCoordinatorResponseCoordinator {
	c := kmsg.NewFindCoordinatorResponseCoordinator()
	c.Key, c.NodeID, c.Port = key, -1, -1
	c.ErrorMessage = kmsg.StringPtr("") // which is all that Kafka says from v4 on
	refuse := func(e *kerr.Error) kmsg.FindCoordinatorResponseCoordinator {
		c.ErrorCode = e.Code
		return c
	}
	var topic string
	switch {
	case r.CoordinatorType == coordinatorGroup:
		topic = offsetsTopic
	case r.CoordinatorType == coordinatorTransaction:
		topic = transactionsTopic
	case r.CoordinatorType == coordinatorShare && r.Version >= 6:
		return refuse(kerr.CoordinatorNotAvailable) // none runs
	default:
		return refuse(kerr.InvalidRequest)
	}
	img := n.controller.Image()
	t := img.Topic(topic)
	if t == nil {
		if !n.createInternal(ctx, topic) {
			return refuse(kerr.CoordinatorNotAvailable)
		}
		img = n.controller.Image()
		if t = img.Topic(topic); t == nil {
			return refuse(kerr.CoordinatorNotAvailable) // deleted again
		}
	}
	leader := img.Broker(t.Partitions[javaHash(key)%int32(len(t.Partitions))].Leader)
	if leader == nil || leader.Fenced {
		return refuse(kerr.CoordinatorNotAvailable)
	}
	v := n.view(img, req.Conn)
	host, port, ok := v.address(leader)
	if !ok {
		return refuse(kerr.CoordinatorNotAvailable)
	}
	c.NodeID, c.Host, c.Port = leader.ID, host, port
	return c
}

// internalTopic is what a coordinator's topic is created with.
func (n *Node) internalTopic(topic string) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic = topic
	set := func(key, value string) {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = key, &value
		t.Configs = append(t.Configs, c)
	}
	text := func(key string) string { return n.value(key).Text }
	sized := func(partitions, replicas string) {
		t.NumPartitions = int32(n.value(partitions).Int64())
		t.ReplicationFactor = int16(n.value(replicas).Int64())
	}
	switch topic {
	case offsetsTopic:
		sized("offsets.topic.num.partitions", "offsets.topic.replication.factor")
		set("cleanup.policy", "compact")
		set("segment.bytes", text("offsets.topic.segment.bytes"))
		set("compression.type", "producer")
	case transactionsTopic:
		sized("transaction.state.log.num.partitions", "transaction.state.log.replication.factor")
		set("unclean.leader.election.enable", "false")
		set("compression.type", "uncompressed")
		set("cleanup.policy", "compact")
		set("min.insync.replicas", text("transaction.state.log.min.isr"))
		set("segment.bytes", text("transaction.state.log.segment.bytes"))
	}
	return t
}

// createTimeout bounds how long a client waits for a coordinator's topic.
const createTimeout = 10 * time.Second

// createInternal creates a coordinator's topic. When it returns true, there is one.
func (n *Node) createInternal(ctx context.Context, topic string) bool {
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	r := kmsg.NewPtrCreateTopicsRequest()
	r.Version = 7
	r.Topics = append(r.Topics, n.internalTopic(topic))
	answer := n.controller.CreateTopics(ctx, r).Topics[0]
	switch answer.ErrorCode {
	case 0, kerr.TopicAlreadyExists.Code:
		return true
	}
	message := kerr.ErrorForCode(answer.ErrorCode).Error()
	if answer.ErrorMessage != nil {
		message = *answer.ErrorMessage
	}
	// Clients ask again and again.
	if last := n.notCreated.Swap(&message); last == nil || *last != message {
		n.log.Error("a coordinator's topic cannot be created: its clients wait", "topic", topic, "error", message)
	}
	return false
}
