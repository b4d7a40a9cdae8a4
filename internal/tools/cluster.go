package tools

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func clusterParser() *argParser {
	connection := func(more ...*argument) []*argument {
		where := &argGroup{exclusive: true, required: true}
		all := []*argument{
			{flags: []string{"--bootstrap-server", "-b"}, group: where, help: "A list of host/port pairs to use for establishing the connection to the Kafka cluster."},
			{flags: []string{"--bootstrap-controller", "-C"}, group: where, help: "A list of host/port pairs to use for establishing the connection to the KRaft controllers."},
			{flags: []string{"--config"}, help: "(DEPRECATED) A property file containing configurations for the Admin client. This option will be removed in a future version. Use --command-config instead."},
			{flags: []string{"--command-config", "-c"}, help: "Config properties file for the Admin client."},
		}
		return append(all, more...)
	}
	return &argParser{
		prog:        "kafka-cluster",
		description: "The Kafka cluster tool.",
		commands: []*argParser{
			{name: "cluster-id", help: "Get information about the ID of a cluster.", arguments: connection()},
			{name: "unregister", help: "Unregister a broker.", arguments: connection(
				&argument{flags: []string{"--id", "-i"}, typ: "Integer", required: true, help: "The ID of the broker to unregister."})},
			{name: "list-endpoints", help: "List endpoints", arguments: connection(
				&argument{flags: []string{"--include-fenced-brokers"}, action: storeTrue, help: "Whether to include fenced brokers when listing broker endpoints"})},
		},
	}
}

// kafkaCluster is kafka-cluster.
func kafkaCluster(env Env, args []string) int {
	values, err := clusterParser().parse(args)
	if err != nil {
		return printArgError(env, err, 1)
	}
	return endTool(env, cluster(env, values))
}

func cluster(env Env, values *argValues) error {
	path := values.text("command-config")
	if values.has("config") {
		if path != "" {
			return throw("net.sourceforge.argparse4j.inf.ArgumentParserException", "--config and --command-config cannot be specified together.")
		}
		fmt.Fprintln(env.Stdout, "Option --config has been deprecated and will be removed in a future version. Use --command-config instead.")
		path = values.text("config")
	}
	props := clientConfig{}
	if path != "" {
		var err error
		if props, err = loadProperties(path); err != nil {
			return err
		}
	}
	client, err := newAdminOf(env, props, values.text("bootstrap-server"), values.text("bootstrap-controller"))
	if err != nil {
		return err
	}
	defer client.close()
	switch values.command {
	case "cluster-id":
		resp, err := client.cluster(brokerEndpoints, false)
		if err != nil {
			return executionException(err)
		}
		fmt.Fprintf(env.Stdout, "Cluster ID: %s\n", resp.ClusterID)
		return nil
	case "unregister":
		id, _ := values.number("id")
		return client.unregister(env, int32(id))
	}
	fenced := values.has("include-fenced-brokers")
	if fenced && client.controllers != nil {
		return throw(illegalArgument, "The option --include-fenced-brokers is only supported with --bootstrap-server option")
	}
	resp, err := client.cluster(brokerEndpoints, fenced)
	if err != nil {
		return executionException(err)
	}
	printEndpoints(env, resp, client.controllers == nil)
	return nil
}

func (a *admin) unregister(env Env, id int32) error {
	req := kmsg.NewPtrUnregisterBrokerRequest()
	req.BrokerID = id
	resp, err := call[*kmsg.UnregisterBrokerResponse](a, "unregisterBroker", req)
	if err != nil {
		return executionException(err)
	}
	if e := brokerError(resp.ErrorCode, resp.ErrorMessage); e != nil {
		logLine(env.Stderr, "ERROR", fmt.Sprintf("[AdminClient clientId=adminclient-1] Unregister broker request for broker ID %d failed: %s", id, e.text()),
			"org.apache.kafka.clients.admin.KafkaAdminClient", nil)
		return executionException(e)
	}
	fmt.Fprintf(env.Stdout, "Broker %d is no longer registered.\n", id)
	return nil
}

// printEndpoints prints a table of nodes. Only of brokers is it known whether they are fenced.
func printEndpoints(env Env, resp *kmsg.DescribeClusterResponse, brokers bool) {
	const rackColumn = 10
	host, rack := 0, rackColumn
	for _, b := range resp.Brokers {
		host, rack = max(host, len(b.Host)), max(rack, len(orNull(b.Rack)))
	}
	line := func(id, name, port, rackName, state, kind string) {
		fmt.Fprintf(env.Stdout, "%-10s %-*s %-10s %-*s ", id, host, name, port, rack, rackName)
		if brokers {
			fmt.Fprintf(env.Stdout, "%-10s ", state)
		}
		fmt.Fprintf(env.Stdout, "%-15s\n", kind)
	}
	line("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE")
	slices.SortFunc(resp.Brokers, func(a, b kmsg.DescribeClusterResponseBroker) int { return cmp.Compare(a.NodeID, b.NodeID) })
	for _, b := range resp.Brokers {
		state, kind := "unfenced", "broker"
		if b.IsFenced {
			state = "fenced"
		}
		if !brokers {
			kind = "controller"
		}
		line(strconv.Itoa(int(b.NodeID)), b.Host, strconv.Itoa(int(b.Port)), orNull(b.Rack), state, kind)
	}
}
