package server

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/wire"
)

// An api is a row of the table that both the connections and ApiVersions read.
type api struct {
	key      kmsg.Key
	min, max int16
	// listedMin is what ApiVersions says instead of min; -1: min itself. Produce is listed from 0, though v0-2 are refused:
	// librdkafka before 2.11.1 decides by it whether it may compress.
	listedMin int16
	handle    wire.Handler
}

// apis is the table: what is not in it is neither served nor listed. The versions are those of Kafka 4.3.
func (n *Node) apis() []api {
	return []api{
		{kmsg.Produce, produceMin, 13, 0, n.handleProduce},
		{kmsg.Fetch, 4, 18, -1, n.handleFetch},
		{kmsg.ListOffsets, 1, 11, -1, n.handleListOffsets},
		{kmsg.Metadata, 0, 13, -1, n.handleMetadata},
		{kmsg.OffsetCommit, 2, 10, -1, n.handleOffsetCommit},
		{kmsg.OffsetFetch, 1, 10, -1, n.handleOffsetFetch},
		{kmsg.FindCoordinator, 0, 6, -1, n.handleFindCoordinator},
		{kmsg.JoinGroup, 0, 9, -1, n.handleJoinGroup},
		{kmsg.Heartbeat, 0, 4, -1, n.handleHeartbeat},
		{kmsg.LeaveGroup, 0, 5, -1, n.handleLeaveGroup},
		{kmsg.SyncGroup, 0, 5, -1, n.handleSyncGroup},
		{kmsg.DescribeGroups, 0, 6, -1, n.handleDescribeGroups},
		{kmsg.ListGroups, 0, 5, -1, n.handleListGroups},
		{kmsg.SASLHandshake, 0, 1, -1, n.handleSaslHandshake},
		{kmsg.ApiVersions, 0, 4, -1, n.handleApiVersions},
		{kmsg.CreateTopics, 2, 7, -1, n.handleCreateTopics},
		{kmsg.DeleteTopics, 1, 6, -1, n.handleDeleteTopics},
		{kmsg.DeleteRecords, 0, 2, -1, n.handleDeleteRecords},
		{kmsg.InitProducerID, 0, 5, -1, n.handleInitProducerID},
		{kmsg.OffsetForLeaderEpoch, 2, 4, -1, n.handleOffsetForLeaderEpoch},
		{kmsg.AddPartitionsToTxn, 0, 5, -1, n.handleAddPartitionsToTxn},
		{kmsg.AddOffsetsToTxn, 0, 4, -1, n.handleAddOffsetsToTxn},
		{kmsg.EndTxn, 0, 5, -1, n.handleEndTxn},
		{kmsg.WriteTxnMarkers, 1, 2, -1, n.handleWriteTxnMarkers},
		{kmsg.TxnOffsetCommit, 0, 5, -1, n.handleTxnOffsetCommit},
		{kmsg.DescribeACLs, 1, 3, -1, n.handleDescribeACLs},
		{kmsg.CreateACLs, 1, 3, -1, n.handleCreateACLs},
		{kmsg.DeleteACLs, 1, 3, -1, n.handleDeleteACLs},
		{kmsg.DescribeConfigs, 1, 4, -1, n.handleDescribeConfigs},
		{kmsg.AlterConfigs, 0, 2, -1, n.handleAlterConfigs},
		{kmsg.DescribeLogDirs, 1, 5, -1, n.handleDescribeLogDirs},
		{kmsg.SASLAuthenticate, 0, 2, -1, n.handleSaslAuthenticate},
		{kmsg.CreatePartitions, 0, 3, -1, n.handleCreatePartitions},
		{kmsg.CreateDelegationToken, 1, 3, -1, n.handleCreateDelegationToken},
		{kmsg.RenewDelegationToken, 1, 2, -1, n.handleRenewDelegationToken},
		{kmsg.ExpireDelegationToken, 1, 2, -1, n.handleExpireDelegationToken},
		{kmsg.DescribeDelegationToken, 1, 3, -1, n.handleDescribeDelegationToken},
		{kmsg.DeleteGroups, 0, 2, -1, n.handleDeleteGroups},
		{kmsg.ElectLeaders, 0, 2, -1, n.handleElectLeaders},
		{kmsg.IncrementalAlterConfigs, 0, 1, -1, n.handleIncrementalAlterConfigs},
		{kmsg.AlterPartitionAssignments, 0, 1, -1, n.handleAlterPartitionReassignments},
		{kmsg.ListPartitionReassignments, 0, 0, -1, n.handleListPartitionReassignments},
		{kmsg.OffsetDelete, 0, 0, -1, n.handleOffsetDelete},
		{kmsg.DescribeClientQuotas, 0, 1, -1, n.handleDescribeClientQuotas},
		{kmsg.AlterClientQuotas, 0, 1, -1, n.handleAlterClientQuotas},
		{kmsg.DescribeUserSCRAMCredentials, 0, 0, -1, n.handleDescribeUserScramCredentials},
		{kmsg.AlterUserSCRAMCredentials, 0, 0, -1, n.handleAlterUserScramCredentials},
		{kmsg.DescribeQuorum, 0, 2, -1, n.handleDescribeQuorum},
		{kmsg.UpdateFeatures, 0, 2, -1, n.handleUpdateFeatures},
		{kmsg.DescribeCluster, 0, 2, -1, n.handleDescribeCluster},
		{kmsg.DescribeProducers, 0, 0, -1, n.handleDescribeProducers},
		{kmsg.UnregisterBroker, 0, 0, -1, n.handleUnregisterBroker},
		{kmsg.DescribeTransactions, 0, 0, -1, n.handleDescribeTransactions},
		{kmsg.ListTransactions, 0, 2, -1, n.handleListTransactions},
		{kmsg.ConsumerGroupHeartbeat, 0, 1, -1, n.handleConsumerGroupHeartbeat},
		{kmsg.ConsumerGroupDescribe, 0, 1, -1, n.handleConsumerGroupDescribe},
		{kmsg.ListConfigResources, 0, 1, -1, n.handleListConfigResources},
		{kmsg.DescribeTopicPartitions, 0, 0, -1, n.handleDescribeTopicPartitions},
		{kmsg.AddRaftVoter, 0, 1, -1, n.handleAddRaftVoter},
		{kmsg.RemoveRaftVoter, 0, 0, -1, n.handleRemoveRaftVoter},
	}
}

// table is the apis as the wire serves them, each measured.
func (n *Node) table() []wire.API {
	var rows []wire.API
	for _, a := range n.served {
		rows = append(rows, wire.API{Key: a.key.Int16(), Min: a.min, Max: a.max, Handle: n.metrics.measure(a.key, a.handle), Quick: quick(a.key)})
	}
	return rows
}

// quick are the APIs whose handlers never wait without saying so, so that a connection's answers may gather before they leave.
func quick(key kmsg.Key) bool {
	switch key {
	case kmsg.Produce, kmsg.Fetch, kmsg.ListOffsets, kmsg.OffsetForLeaderEpoch, kmsg.ApiVersions,
		kmsg.OffsetCommit, kmsg.OffsetFetch, kmsg.Heartbeat: // which wait for a coordinator's append, at most
		return true
	}
	return false
}
