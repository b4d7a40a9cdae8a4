package server

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/controller"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/wire"
)

// Metadata, versions 0-13. An empty list of topics means all in v0, none from v1 on, where null means all. v4 lets a client forbid
// the creation of missing topics; v5 lists offline replicas; v7 leader epochs; v8 operations, on request; v10 topic ids in
// answers, v12 lookup by them; v13 an error of the whole answer, which a single node never has.
//
// A topic that is created by the request is answered with LEADER_NOT_AVAILABLE, as clients are used to; it takes produce by then.

// Operations that anybody may do where no authorizer is, as bits of AclOperation.
const (
	topicOperations   = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11
	clusterOperations = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12
)

func (n *Node) handleMetadata(ctx context.Context, req *wire.Request) wire.Response {
	var r kmsg.MetadataRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	resp := r.ResponseKind().(*kmsg.MetadataResponse)
	img := n.controller.Image()
	view := n.view(img, req.Conn)
	for b := range img.Brokers() {
		if host, port, ok := view.address(b); ok && !b.Fenced {
			rb := kmsg.NewMetadataResponseBroker()
			rb.NodeID, rb.Host, rb.Port, rb.Rack = b.ID, host, port, b.Rack
			resp.Brokers = append(resp.Brokers, rb)
		}
	}
	resp.ClusterID, resp.ControllerID = &n.clusterID, n.id
	if r.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = clusterOperations
	}
	if r.Topics == nil || r.Version == 0 && len(r.Topics) == 0 {
		resp.Topics = make([]kmsg.MetadataResponseTopic, 0, img.TopicCount())
		for t := range img.Topics() {
			resp.Topics = append(resp.Topics, view.topic(t, &r))
		}
		return wire.Reply(resp)
	}
	n.lookUp(ctx, &view, &r, resp)
	return wire.Reply(resp)
}

// lookUp answers for the topics that a request names, by name or id, each once, and creates those missing if it may.
func (n *Node) lookUp(ctx context.Context, view *view, r *kmsg.MetadataRequest, resp *kmsg.MetadataResponse) {
	byID := false
	for _, t := range r.Topics {
		if r.Version < 12 && (t.Topic == nil || t.TopicID != [16]byte{}) {
			n.refuseMetadata(r, resp)
			return
		}
		byID = byID || t.TopicID != [16]byte{}
	}
	create := r.AllowAutoTopicCreation && n.autoCreate
	var missing []string
	seen := make(map[string]bool, len(r.Topics))
	for _, t := range r.Topics {
		if byID {
			// Asked for by id, a name beside it counts for nothing.
			if t.TopicID == [16]byte{} || seen[string(t.TopicID[:])] {
				continue
			}
			seen[string(t.TopicID[:])] = true
			if topic := view.img.TopicByID(t.TopicID); topic != nil {
				resp.Topics = append(resp.Topics, view.topic(topic, r))
			} else {
				rt := kmsg.NewMetadataResponseTopic()
				rt.TopicID, rt.ErrorCode = t.TopicID, kerr.UnknownTopicID.Code
				resp.Topics = append(resp.Topics, rt)
			}
			continue
		}
		if t.Topic == nil || seen[*t.Topic] {
			continue
		}
		name := *t.Topic
		seen[name] = true
		if topic := view.img.Topic(name); topic != nil {
			resp.Topics = append(resp.Topics, view.topic(topic, r))
			continue
		}
		rt := kmsg.NewMetadataResponseTopic()
		rt.Topic, rt.IsInternal = t.Topic, isInternal(name)
		switch {
		case controller.CheckTopicName(name) != nil:
			rt.ErrorCode = kerr.InvalidTopicException.Code
		default:
			rt.ErrorCode = kerr.UnknownTopicOrPartition.Code
			if create && name != sharesTopic {
				missing = append(missing, name)
			}
		}
		resp.Topics = append(resp.Topics, rt)
	}
	if len(missing) == 0 {
		return
	}
	codes := n.createMissing(ctx, missing)
	for i := range resp.Topics {
		rt := &resp.Topics[i]
		if rt.Topic == nil {
			continue
		}
		if code, ok := codes[*rt.Topic]; ok {
			rt.ErrorCode = code
		}
	}
}

// createMissing creates topics with the broker's defaults, those of coordinators with theirs, and returns the code to answer for each.
func (n *Node) createMissing(ctx context.Context, names []string) map[string]int16 {
	r := kmsg.NewPtrCreateTopicsRequest()
	r.Version = 7
	for _, name := range names {
		t := kmsg.NewCreateTopicsRequestTopic()
		if t.Topic, t.NumPartitions, t.ReplicationFactor = name, -1, -1; isInternal(name) {
			t = n.internalTopic(name)
		}
		r.Topics = append(r.Topics, t)
	}
	codes := make(map[string]int16, len(names))
	for _, t := range n.controller.CreateTopics(ctx, r).Topics {
		switch t.ErrorCode {
		case 0, kerr.TopicAlreadyExists.Code: // by another client, meanwhile
			codes[t.Topic] = kerr.LeaderNotAvailable.Code
		default:
			codes[t.Topic] = t.ErrorCode
		}
	}
	return codes
}

// refuseMetadata answers a request that its version cannot make.
func (n *Node) refuseMetadata(r *kmsg.MetadataRequest, resp *kmsg.MetadataResponse) {
	for _, t := range r.Topics {
		rt := kmsg.NewMetadataResponseTopic()
		rt.ErrorCode, rt.Topic = kerr.InvalidRequest.Code, t.Topic
		if t.Topic == nil {
			rt.Topic = kmsg.StringPtr("")
		}
		resp.Topics = append(resp.Topics, rt)
	}
}

// isInternal tells whether a topic is the coordinators'.
func isInternal(topic string) bool {
	return topic == offsetsTopic || topic == transactionsTopic || topic == sharesTopic
}

// A view is an image as a client of one listener sees it.
type view struct {
	node     *Node
	img      *metadata.Image
	listener string
	// Where the client reaches this node: the same for each of its partitions. here: anywhere at all.
	host string
	port int32
	here bool
}

// view finds out where this node is. What was not advertised otherwise is reached as it was just now.
func (n *Node) view(img *metadata.Image, c *wire.Conn) view {
	v := view{node: n, img: img, listener: c.Listener()}
	if l := n.listenerNamed(v.listener); l != nil {
		v.host, v.port, v.here = l.advertisedHost, int32(l.advertisedPort), true
		if v.host == "" {
			v.host, v.port = splitAddr(c.LocalAddr())
		}
	}
	return v
}

// address is where a client of the view's listener reaches a broker.
func (v *view) address(b *metadata.Broker) (host string, port int32, ok bool) {
	if b.ID == v.node.id {
		return v.host, v.port, v.here
	}
	for _, e := range b.Endpoints {
		if strings.EqualFold(e.Listener, v.listener) {
			return e.Host, int32(e.Port), true
		}
	}
	return "", 0, false
}

func (v *view) topic(t *metadata.Topic, r *kmsg.MetadataRequest) kmsg.MetadataResponseTopic {
	rt := kmsg.NewMetadataResponseTopic()
	rt.Topic, rt.TopicID, rt.IsInternal = &t.Name, t.ID, isInternal(t.Name)
	if r.IncludeTopicAuthorizedOperations {
		rt.AuthorizedOperations = topicOperations
	}
	rt.Partitions = make([]kmsg.MetadataResponseTopicPartition, 0, len(t.Partitions))
	for i, p := range t.Partitions {
		rp := kmsg.NewMetadataResponseTopicPartition()
		rp.Partition, rp.Leader, rp.LeaderEpoch = int32(i), p.Leader, int32(p.LeaderEpoch)
		rp.Replicas, rp.ISR = p.Replicas, p.ISR
		rp.OfflineReplicas = v.offline(p)
		rp.ErrorCode = v.leaderCode(p, r.Version)
		if rp.ErrorCode != 0 {
			rp.Leader = -1
		}
		if r.Version == 0 && rp.ErrorCode == 0 && len(rp.OfflineReplicas) > 0 {
			// v0 cannot say which replicas are offline: it leaves them out.
			rp.ErrorCode = kerr.ReplicaNotAvailable.Code
			rp.Replicas = slices.DeleteFunc(slices.Clone(p.Replicas), func(id int32) bool { return slices.Contains(rp.OfflineReplicas, id) })
		}
		rt.Partitions = append(rt.Partitions, rp)
	}
	return rt
}

// leaderCode is what a client of the listener is told of a partition's leader.
func (v *view) leaderCode(p *metadata.Partition, version int16) int16 {
	b := v.img.Broker(p.Leader)
	if p.Leader < 0 || b == nil || b.Fenced {
		return kerr.LeaderNotAvailable.Code
	}
	if _, _, ok := v.address(b); !ok {
		if version < 6 { // it has no word for a listener that only some brokers have
			return kerr.LeaderNotAvailable.Code
		}
		return kerr.ListenerNotFound.Code
	}
	return 0
}

// offline are the replicas whose brokers are not there.
func (v *view) offline(p *metadata.Partition) []int32 {
	var ids []int32
	for _, id := range p.Replicas {
		if b := v.img.Broker(id); b == nil || b.Fenced {
			ids = append(ids, id)
		}
	}
	return ids
}
