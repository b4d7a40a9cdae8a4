package server

import (
	"context"
	"fmt"
	"path"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/wire"
)

// DescribeQuorum, versions 0-2: v1 added times, v2 directories, messages and the voters' addresses. AddRaftVoter, versions 0-1 (v1 can be
// answered before the change is committed), and RemoveRaftVoter, version 0. This node is its own quorum, and no other can join it.

const metadataTopic = "__cluster_metadata"

func (n *Node) handleDescribeQuorum(_ context.Context, req *wire.Request) wire.Response {
	var r kmsg.DescribeQuorumRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	resp := r.ResponseKind().(*kmsg.DescribeQuorumResponse)
	known := len(r.Topics) == 1 && r.Topics[0].Topic == metadataTopic && len(r.Topics[0].Partitions) == 1 && r.Topics[0].Partitions[0].Partition == 0
	for _, t := range r.Topics {
		rt := kmsg.NewDescribeQuorumResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewDescribeQuorumResponseTopicPartition()
			rp.Partition = p.Partition
			if known {
				n.describeQuorum(&rp)
			} else {
				rp.ErrorCode, rp.ErrorMessage = kerr.UnknownTopicOrPartition.Code, kmsg.StringPtr(kerr.UnknownTopicOrPartition.Description)
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	if known {
		resp.Nodes = append(resp.Nodes, n.quorumNode())
	}
	return wire.Reply(resp)
}

func (n *Node) describeQuorum(p *kmsg.DescribeQuorumResponseTopicPartition) {
	now := time.Now().UnixMilli()
	self := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
	self.ReplicaID, self.ReplicaDirectoryID = n.id, n.metadataDirectory()
	self.LogEndOffset = int64(n.controller.HighWatermark()) // alone it has all that it shows
	self.LastFetchTimestamp, self.LastCaughtUpTimestamp = now, now
	p.LeaderID, p.LeaderEpoch, p.HighWatermark = n.id, int32(n.controller.LeaderEpoch()), self.LogEndOffset
	p.CurrentVoters = append(p.CurrentVoters, self)
}

func (n *Node) quorumNode() kmsg.DescribeQuorumResponseNode {
	node := kmsg.NewDescribeQuorumResponseNode()
	node.NodeID = n.id
	if c := n.controller.Image().Controller(n.id); c != nil {
		for _, e := range c.Endpoints {
			l := kmsg.NewDescribeQuorumResponseNodeListener()
			l.Name, l.Host, l.Port = e.Listener, e.Host, e.Port
			node.Listeners = append(node.Listeners, l)
		}
	}
	return node
}

// metadataDirectory is the id of the directory that the metadata log lies in, zero if it is none of log.dirs.
func (n *Node) metadataDirectory() [16]byte {
	dirs := n.logs.Dirs()
	metadataDir := n.static["metadata.log.dir"]
	for i, d := range dirs {
		if metadataDir == "" && i == 0 || metadataDir != "" && d.Path == path.Clean(metadataDir) {
			return d.ID
		}
	}
	return [16]byte{}
}

// voterRefusal is why a voter can be neither added nor removed, whoever it is; 0 if it depends on that.
func (n *Node) voterRefusal(clusterID *string, directory kmeta.UUID, verb, noun string) (code int16, message string) {
	switch {
	case clusterID != nil && *clusterID != n.clusterID:
		return kerr.InconsistentClusterID.Code, kerr.InconsistentClusterID.Description
	case directory == kmeta.UUID{}:
		return kerr.InvalidRequest.Code, noun + " voter request didn't include a valid voter"
	case n.controller.KRaftVersion() == 0:
		return kerr.UnsupportedVersion.Code, "Cluster doesn't support " + verb + " voter because the kraft.version feature is 0"
	}
	return 0, ""
}

func replicaKey(id int32, directory kmeta.UUID) string {
	return fmt.Sprintf("ReplicaKey(id=%d, directoryId=%s)", id, directory)
}

func (n *Node) handleAddRaftVoter(_ context.Context, req *wire.Request) wire.Response {
	var r kmsg.AddRaftVoterRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	resp := r.ResponseKind().(*kmsg.AddRaftVoterResponse)
	code, message := n.voterRefusal(r.ClusterID, r.VoterDirectoryID, "adding", "Add")
	switch {
	case code != codeNone:
	case r.VoterID == n.id:
		code = kerr.DuplicateVoter.Code
		message = fmt.Sprintf("The voter id for %s is already part of the set of voters [%s].", replicaKey(r.VoterID, r.VoterDirectoryID), replicaKey(n.id, n.metadataDirectory()))
	default:
		code, message = kerr.UnsupportedVersion.Code, "A quorum of several nodes cannot be served yet."
	}
	resp.ErrorCode, resp.ErrorMessage = code, &message
	return wire.Reply(resp)
}

func (n *Node) handleRemoveRaftVoter(_ context.Context, req *wire.Request) wire.Response {
	var r kmsg.RemoveRaftVoterRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	resp := r.ResponseKind().(*kmsg.RemoveRaftVoterResponse)
	code, message := n.voterRefusal(r.ClusterID, r.VoterDirectoryID, "removing", "Remove")
	self := n.metadataDirectory()
	switch {
	case code != codeNone:
	case r.VoterID != n.id || r.VoterDirectoryID != self:
		code = kerr.VoterNotFound.Code
		message = fmt.Sprintf("Cannot remove voter %s from the set of voters [%s]", replicaKey(r.VoterID, r.VoterDirectoryID), replicaKey(n.id, self))
	default:
		code, message = kerr.InvalidRequest.Code, "The only voter of a quorum cannot be removed."
	}
	resp.ErrorCode, resp.ErrorMessage = code, &message
	return wire.Reply(resp)
}
