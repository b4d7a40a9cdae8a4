package tools

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const apiVersionsPurpose = "This tool helps to retrieve broker version information."

func apiVersionsParser() *joptParser {
	return newJopt(
		joptOption{name: "bootstrap-server", arg: requiredArg, what: "server(s) to use for bootstrapping", help: "REQUIRED: The server to connect to."},
		joptOption{name: "command-config", arg: requiredArg, what: "command config property file", help: "A property file containing configs to be passed to Admin Client."},
	)
}

// A clientAPI is an API that Kafka's clients know, and its versions.
type clientAPI struct {
	key, min, max int16
	name          string
}

// clientAPIs are those of Kafka 4.3's client library that brokers serve to clients.
var clientAPIs = []clientAPI{
	{0, 0, 13, "Produce"}, {1, 4, 18, "Fetch"}, {2, 1, 11, "ListOffsets"}, {3, 0, 13, "Metadata"}, {8, 2, 10, "OffsetCommit"}, {9, 1, 10, "OffsetFetch"},
	{10, 0, 6, "FindCoordinator"}, {11, 0, 9, "JoinGroup"}, {12, 0, 4, "Heartbeat"}, {13, 0, 5, "LeaveGroup"}, {14, 0, 5, "SyncGroup"}, {15, 0, 6, "DescribeGroups"},
	{16, 0, 5, "ListGroups"}, {17, 0, 1, "SaslHandshake"}, {18, 0, 4, "ApiVersions"}, {19, 2, 7, "CreateTopics"}, {20, 1, 6, "DeleteTopics"}, {21, 0, 2, "DeleteRecords"},
	{22, 0, 5, "InitProducerId"}, {23, 2, 4, "OffsetForLeaderEpoch"}, {24, 0, 5, "AddPartitionsToTxn"}, {25, 0, 4, "AddOffsetsToTxn"}, {26, 0, 5, "EndTxn"},
	{27, 1, 2, "WriteTxnMarkers"}, {28, 0, 5, "TxnOffsetCommit"}, {29, 1, 3, "DescribeAcls"}, {30, 1, 3, "CreateAcls"}, {31, 1, 3, "DeleteAcls"}, {32, 1, 4, "DescribeConfigs"},
	{33, 0, 2, "AlterConfigs"}, {34, 1, 2, "AlterReplicaLogDirs"}, {35, 1, 5, "DescribeLogDirs"}, {36, 0, 2, "SaslAuthenticate"}, {37, 0, 3, "CreatePartitions"},
	{38, 1, 3, "CreateDelegationToken"}, {39, 1, 2, "RenewDelegationToken"}, {40, 1, 2, "ExpireDelegationToken"}, {41, 1, 3, "DescribeDelegationToken"}, {42, 0, 2, "DeleteGroups"},
	{43, 0, 2, "ElectLeaders"}, {44, 0, 1, "IncrementalAlterConfigs"}, {45, 0, 1, "AlterPartitionReassignments"}, {46, 0, 0, "ListPartitionReassignments"}, {47, 0, 0, "OffsetDelete"},
	{48, 0, 1, "DescribeClientQuotas"}, {49, 0, 1, "AlterClientQuotas"}, {50, 0, 0, "DescribeUserScramCredentials"}, {51, 0, 0, "AlterUserScramCredentials"}, {55, 0, 2, "DescribeQuorum"},
	{57, 0, 2, "UpdateFeatures"}, {60, 0, 2, "DescribeCluster"}, {61, 0, 0, "DescribeProducers"}, {64, 0, 0, "UnregisterBroker"}, {65, 0, 0, "DescribeTransactions"},
	{66, 0, 2, "ListTransactions"}, {68, 0, 1, "ConsumerGroupHeartbeat"}, {69, 0, 1, "ConsumerGroupDescribe"}, {71, 0, 0, "GetTelemetrySubscriptions"}, {72, 0, 0, "PushTelemetry"},
	{74, 0, 1, "ListConfigResources"}, {75, 0, 0, "DescribeTopicPartitions"}, {76, 1, 1, "ShareGroupHeartbeat"}, {77, 1, 1, "ShareGroupDescribe"}, {78, 1, 2, "ShareFetch"},
	{79, 1, 2, "ShareAcknowledge"}, {80, 0, 1, "AddRaftVoter"}, {81, 0, 0, "RemoveRaftVoter"}, {83, 0, 0, "InitializeShareGroupState"}, {84, 0, 0, "ReadShareGroupState"},
	{85, 0, 1, "WriteShareGroupState"}, {86, 0, 0, "DeleteShareGroupState"}, {87, 0, 1, "ReadShareGroupStateSummary"}, {88, 0, 0, "StreamsGroupHeartbeat"},
	{89, 0, 0, "StreamsGroupDescribe"}, {90, 0, 1, "DescribeShareGroupOffsets"}, {91, 0, 0, "AlterShareGroupOffsets"}, {92, 0, 0, "DeleteShareGroupOffsets"},
}

// kafkaBrokerAPIVersions is kafka-broker-api-versions.
func kafkaBrokerAPIVersions(env Env, args []string) int {
	return endTool(env, brokerAPIVersions(env, args))
}

func brokerAPIVersions(env Env, args []string) error {
	set, err := apiVersionsParser().parse(args)
	if err != nil {
		return err
	}
	if err := set.helpOrVersion(env, args, apiVersionsPurpose); err != nil {
		return err
	}
	if err := set.require("bootstrap-server"); err != nil {
		return err
	}
	client, err := clientOf(env, set, "admin-1")
	if refused := errors.Unwrap(err); refused != nil {
		return refused // Kafka's tool makes its client by itself, and nothing wraps the complaint
	}
	if err != nil {
		return err
	}
	defer client.close()
	client.dial.kind = "LegacyAdminClient"
	meta, err := client.metadata("listNodes", nil)
	if err != nil {
		servers, _, _ := set.text("bootstrap-server")
		nodes := strings.Split(servers, ",")
		for i, server := range nodes {
			nodes[i] = fmt.Sprintf("%s (id: %d rack: null isFenced: false)", server, -1-i)
		}
		return throw("java.lang.RuntimeException", fmt.Sprintf("Request METADATA failed on brokers [%s]", strings.Join(nodes, ", ")))
	}
	slices.SortFunc(meta.Brokers, func(a, b kmsg.MetadataResponseBroker) int { return int(a.NodeID) - int(b.NodeID) })
	for _, b := range meta.Brokers {
		name := fmt.Sprintf("%s (id: %d rack: %s isFenced: false)", net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))), b.NodeID, orNull(b.Rack))
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "quire-tools", kafkaVersion
		resp, err := callBroker[*kmsg.ApiVersionsResponse](client, "apiVersions", b.NodeID, req)
		if err == nil {
			err = brokerErrorOrNil(resp.ErrorCode, nil)
		}
		if err != nil {
			fmt.Fprintf(env.Stdout, "%s -> ERROR: %s\n", name, asJava(err))
			continue
		}
		fmt.Fprintf(env.Stdout, "%s -> (\n\t%s\n)\n", name, strings.Join(usableAPIs(resp.ApiKeys), ",\n\t"))
	}
	return nil
}

// usableAPIs says of each API, by number, what the broker serves of it, and which version a client would take.
func usableAPIs(served []kmsg.ApiVersionsResponseApiKey) []string {
	slices.SortFunc(served, func(a, b kmsg.ApiVersionsResponseApiKey) int { return int(a.ApiKey) - int(b.ApiKey) })
	var lines []string
	known := clientAPIs
	for _, k := range served {
		for len(known) > 0 && known[0].key < k.ApiKey {
			lines = append(lines, fmt.Sprintf("%s(%d): UNSUPPORTED", known[0].name, known[0].key))
			known = known[1:]
		}
		versions := strconv.Itoa(int(k.MinVersion))
		if k.MaxVersion != k.MinVersion {
			versions += fmt.Sprintf(" to %d", k.MaxVersion)
		}
		if len(known) == 0 || known[0].key != k.ApiKey {
			lines = append(lines, fmt.Sprintf("UNKNOWN(%d): %s", k.ApiKey, versions))
			continue
		}
		ours := known[0]
		known = known[1:]
		usable := "unusable: node too "
		switch {
		case k.MaxVersion < ours.min:
			usable += "old"
		case k.MinVersion > ours.max:
			usable += "new"
		default:
			usable = fmt.Sprintf("usable: %d", min(ours.max, k.MaxVersion))
		}
		lines = append(lines, fmt.Sprintf("%s(%d): %s [%s]", ours.name, k.ApiKey, versions, usable))
	}
	for _, k := range known {
		lines = append(lines, fmt.Sprintf("%s(%d): UNSUPPORTED", k.name, k.key))
	}
	return lines
}
