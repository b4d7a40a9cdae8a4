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
		{kmsg.FindCoordinator, 0, 6, -1, n.handleFindCoordinator},
		{kmsg.ApiVersions, 0, 4, -1, n.handleApiVersions},
		{kmsg.CreateTopics, 2, 7, -1, n.handleCreateTopics},
		{kmsg.DeleteTopics, 1, 6, -1, n.handleDeleteTopics},
		{kmsg.DeleteRecords, 0, 2, -1, n.handleDeleteRecords},
		{kmsg.InitProducerID, 0, 5, -1, n.handleInitProducerID},
		{kmsg.OffsetForLeaderEpoch, 2, 4, -1, n.handleOffsetForLeaderEpoch},
		{kmsg.DescribeConfigs, 1, 4, -1, n.handleDescribeConfigs},
		{kmsg.AlterConfigs, 0, 2, -1, n.handleAlterConfigs},
		{kmsg.DescribeLogDirs, 1, 5, -1, n.handleDescribeLogDirs},
		{kmsg.CreatePartitions, 0, 3, -1, n.handleCreatePartitions},
		{kmsg.IncrementalAlterConfigs, 0, 1, -1, n.handleIncrementalAlterConfigs},
		{kmsg.DescribeCluster, 0, 2, -1, n.handleDescribeCluster},
		{kmsg.DescribeProducers, 0, 0, -1, n.handleDescribeProducers},
		{kmsg.ListConfigResources, 0, 1, -1, n.handleListConfigResources},
		{kmsg.DescribeTopicPartitions, 0, 0, -1, n.handleDescribeTopicPartitions},
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
	case kmsg.Produce, kmsg.Fetch, kmsg.ListOffsets, kmsg.OffsetForLeaderEpoch, kmsg.ApiVersions:
		return true
	}
	return false
}
