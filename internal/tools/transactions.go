package tools

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// kafkaCommit is the commit that Kafka's release names.
const kafkaCommit = "26b251a451ce941d"

func kafkaTransactionsParser() *argParser {
	topic := &argument{flags: []string{"--topic"}, required: true, help: "topic name"}
	partition := &argument{flags: []string{"--partition"}, required: true, typ: "Integer", help: "partition number"}
	newer := &argGroup{title: "Brokers on versions 3.0 and above", description: "For newer brokers, only the start offset of the transaction to be aborted is required"}
	older := &argGroup{title: "Brokers on versions older than 3.0", description: "For older brokers, you must provide all of these arguments"}
	return &argParser{
		prog:        "kafka-transactions.sh",
		description: "This tool is used to analyze the transactional state of producers in the cluster. It can be used to detect and recover from hanging transactions.",
		version:     kafkaVersion + " (Commit:" + kafkaCommit + ")",
		arguments: []*argument{
			{flags: []string{"-v", "--version"}, action: showVersion, help: "show the version of this Kafka distribution and exit"},
			{flags: []string{"--command-config"}, metavar: "FILE", help: "property file containing configs to be passed to admin client"},
			{flags: []string{"--bootstrap-server"}, metavar: "host:port", required: true, help: "hostname and port for the broker to connect to, in the form `host:port`  (multiple comma-separated entries can be given)"},
		},
		commandsTitle: "commands", commandsMetavar: "COMMAND",
		commands: []*argParser{
			{name: "list", help: "list transactions", arguments: []*argument{
				{flags: []string{"--duration-filter"}, typ: "Long", help: "Duration (in millis) to filter by: if < 0, all transactions will be returned; otherwise, only transactions running longer than this duration will be returned"},
				{flags: []string{"--transactional-id-pattern"}, help: "Transactional id regular expression pattern to filter by"}}},
			{name: "describe", help: "describe the state of an active transactional-id", description: "Describe the state of an active transactional-id.", arguments: []*argument{
				{flags: []string{"--transactional-id"}, required: true, help: "transactional id"}}},
			{name: "describe-producers", help: "describe the states of active producers for a topic partition", arguments: []*argument{
				{flags: []string{"--broker-id"}, typ: "Integer", help: "optional broker id to describe the producer state on a specific replica"}, topic, partition}},
			{name: "abort", help: "abort a hanging transaction (requires administrative privileges)", arguments: []*argument{topic, partition,
				{flags: []string{"--start-offset"}, typ: "Long", group: newer, help: "start offset of the transaction to abort"},
				{flags: []string{"--producer-id"}, typ: "Long", group: older, help: "producer id"},
				{flags: []string{"--producer-epoch"}, typ: "Integer", group: older, help: "producer epoch"},
				{flags: []string{"--coordinator-epoch"}, typ: "Integer", group: older, help: "coordinator epoch"}}},
			{name: "find-hanging", help: "find hanging transactions", arguments: []*argument{
				{flags: []string{"--broker-id"}, typ: "Integer", help: "broker id to search for hanging transactions"},
				{flags: []string{"--max-transaction-timeout"}, typ: "Integer", def: "15", help: "maximum transaction timeout in minutes to limit the scope of the search (15 minutes by default)"},
				{flags: []string{"--topic"}, help: "topic name to limit search to (required if --partition is specified)"},
				{flags: []string{"--partition"}, typ: "Integer", help: "partition number"}}},
			{name: "forceTerminateTransaction", help: "Force abort an ongoing transaction on transactionalId (requires administrative privileges)", description: "Force abort an ongoing transaction on transactionalId", arguments: []*argument{
				{flags: []string{"--transactionalId"}, required: true, help: "transactional id"}}},
		},
	}
}

// kafkaTransactions is kafka-transactions.
func kafkaTransactions(env Env, args []string) int {
	parser := kafkaTransactionsParser()
	values, err := parser.parse(args)
	if e, ok := err.(*argError); ok && e.shown == parser.version+"\n" {
		fmt.Fprint(env.Stdout, e.shown)
		return 0
	}
	if err != nil {
		return printArgError(env, err, 1)
	}
	if e, ok := transactions(env, values).(*terseFailure); ok {
		fmt.Fprintln(env.Stderr, e.message)
		return 1
	}
	return 0
}

// debugFailure is a failure with what Kafka's tool says behind each.
func debugFailure(what string, err error) error {
	return terse("%s: %s. Enable debug logging for additional detail.", what, asJava(err).text())
}

// transactions runs a command. Its errors are terse.
func transactions(env Env, values *argValues) error {
	props := clientConfig{}
	if path := values.text("command-config"); path != "" {
		var err error
		if props, err = loadProperties(path); err != nil {
			return debugFailure("Failed to load admin client properties", err)
		}
	}
	props["bootstrap.servers"] = values.text("bootstrap-server")
	client, err := newAdmin(env, props, "adminclient-1")
	if err != nil {
		return &terseFailure{"Exception in thread \"main\" " + asJava(err).trace()}
	}
	defer client.close()
	t := &transactionsCommand{client, env, values}
	switch values.command {
	case "list":
		return t.list()
	case "describe":
		return t.describe()
	case "describe-producers":
		return t.describeProducers()
	case "abort":
		return t.abort()
	case "find-hanging":
		return t.findHanging()
	}
	return t.forceTerminate()
}

// transactionsCommand is one call of the tool, with its client.
type transactionsCommand struct {
	*admin
	env    Env
	values *argValues
}

// A listedTransaction is one with its coordinator.
type listedTransaction struct {
	kmsg.ListTransactionsResponseTransactionState
	coordinator int32
}

// listTransactions asks every broker.
func (t *transactionsCommand) listTransactions(req *kmsg.ListTransactionsRequest) ([]listedTransaction, error) {
	cluster, err := t.cluster(brokerEndpoints, false)
	if err != nil {
		if !t.dial.reached.Load() {
			err = noNodeUnless(err, "listTransactions(api=METADATA)")
		}
		return nil, err
	}
	var all []listedTransaction
	for _, b := range cluster.Brokers {
		resp, err := callBroker[*kmsg.ListTransactionsResponse](t.admin, "listTransactions", b.NodeID, req)
		if err != nil {
			return nil, err
		}
		if e := kerr.TypedErrorForCode(resp.ErrorCode); e != nil {
			logLine(t.env.Stderr, "ERROR", fmt.Sprintf("[AdminClient clientId=adminclient-1] The `ListTransactions` request sent to broker %d failed because of an unexpected error %s", b.NodeID, e.Message),
				"org.apache.kafka.clients.admin.internals.ListTransactionsHandler", nil)
			return nil, throw(errorClass(e), fmt.Sprintf("ListTransactions request sent to broker %d failed with an unexpected exception", b.NodeID))
		}
		for _, state := range resp.TransactionStates {
			all = append(all, listedTransaction{state, b.NodeID})
		}
	}
	return all, nil
}

func (t *transactionsCommand) list() error {
	req := kmsg.NewPtrListTransactionsRequest()
	req.DurationFilterMillis = -1
	if n, ok := t.values.number("duration-filter"); ok {
		req.DurationFilterMillis = n
	}
	if t.values.has("transactional-id-pattern") {
		pattern := t.values.text("transactional-id-pattern")
		req.TransactionalIDPattern = &pattern
	}
	all, err := t.listTransactions(req)
	if err != nil {
		return debugFailure("Failed to list transactions", err)
	}
	var rows [][]string
	for _, one := range all {
		rows = append(rows, []string{one.TransactionalID, strconv.Itoa(int(one.coordinator)), strconv.FormatInt(one.ProducerID, 10), one.TransactionState})
	}
	printPretty(t.env.Stdout, []string{"TransactionalId", "Coordinator", "ProducerId", "TransactionState"}, rows)
	return nil
}

// stateOf asks a transactional id's coordinator, and returns the coordinator too.
func (t *transactionsCommand) stateOf(id string) (*kmsg.DescribeTransactionsResponseTransactionState, int32, error) {
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorType, find.CoordinatorKey, find.CoordinatorKeys = 1, id, []string{id}
	found, err := call[*kmsg.FindCoordinatorResponse](t.admin, "findCoordinator", find)
	if err != nil {
		return nil, 0, err
	}
	coordinator, code, message := found.NodeID, found.ErrorCode, found.ErrorMessage
	for _, c := range found.Coordinators {
		coordinator, code, message = c.NodeID, c.ErrorCode, c.ErrorMessage
	}
	if e := brokerError(code, message); e != nil {
		return nil, 0, e
	}
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{id}
	resp, err := callBroker[*kmsg.DescribeTransactionsResponse](t.admin, "describeTransactions", coordinator, req)
	if err != nil {
		return nil, 0, err
	}
	if len(resp.TransactionStates) != 1 {
		return nil, 0, brokerError(-1, nil)
	}
	state := &resp.TransactionStates[0]
	about := "DescribeTransactions request for transactionalId `" + id + "` failed "
	switch e := kerr.TypedErrorForCode(state.ErrorCode); {
	case e == nil:
		return state, coordinator, nil
	case e.Code == kerr.TransactionalIDNotFound.Code:
		return nil, 0, throw(errorClass(e), about+"because the ID could not be found")
	case e.Code == kerr.TransactionalIDAuthorizationFailed.Code:
		return nil, 0, throw(errorClass(e), about+"due to authorization failure")
	default:
		return nil, 0, throw(errorClass(e), about+"due to unexpected error")
	}
}

func (t *transactionsCommand) describe() error {
	id := t.values.text("transactional-id")
	state, coordinator, err := t.stateOf(id)
	if err != nil {
		return debugFailure("Failed to describe transaction state of transactional-id `"+id+"`", err)
	}
	started, duration := "None", "None"
	if state.StartTimestamp >= 0 {
		started = strconv.FormatInt(state.StartTimestamp, 10)
		duration = strconv.FormatInt(time.Now().UnixMilli()-state.StartTimestamp, 10)
	}
	var partitions []groupPartition
	for _, topic := range state.Topics {
		for _, p := range topic.Partitions {
			partitions = append(partitions, groupPartition{topic.Topic, p})
		}
	}
	javaMapOrder(partitions, groupPartition.javaHash, javaMapCapacity)
	printPretty(t.env.Stdout, []string{"CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState", "TransactionTimeoutMs",
		"CurrentTransactionStartTimeMs", "TransactionDurationMs", "TopicPartitions"}, [][]string{{
		strconv.Itoa(int(coordinator)), id, strconv.FormatInt(state.ProducerID, 10), strconv.Itoa(int(state.ProducerEpoch)), state.State,
		strconv.Itoa(int(state.TimeoutMillis)), started, duration, partitionNames(partitions, ",")}})
	return nil
}

type activeProducer = kmsg.DescribeProducersResponseTopicPartitionActiveProducer

// producersOf asks a broker, or without one the leader, who writes to a partition.
func (t *transactionsCommand) producersOf(at groupPartition, broker int32, onBroker bool) ([]activeProducer, error) {
	all, err := t.producersOn([]groupPartition{at}, broker, onBroker)
	return all[at], err
}

// producersOn is producersOf for several partitions.
func (t *transactionsCommand) producersOn(partitions []groupPartition, broker int32, onBroker bool) (map[groupPartition][]activeProducer, error) {
	byBroker := map[int32][]groupPartition{}
	if onBroker {
		there, err := t.present(broker)
		if err != nil {
			return nil, err
		}
		if !there {
			return nil, noNode("describeProducers(api=DESCRIBE_PRODUCERS)")
		}
		byBroker[broker] = partitions
	} else {
		leaders, err := t.leadersOf("describeProducers", partitions)
		if err != nil {
			return nil, err
		}
		for _, at := range partitions {
			byBroker[leaders[at]] = append(byBroker[leaders[at]], at)
		}
	}
	found := map[groupPartition][]activeProducer{}
	for id, partitions := range byBroker {
		req := kmsg.NewPtrDescribeProducersRequest()
		for _, at := range partitions {
			i := slices.IndexFunc(req.Topics, func(r kmsg.DescribeProducersRequestTopic) bool { return r.Topic == at.topic })
			if i < 0 {
				i = len(req.Topics)
				r := kmsg.NewDescribeProducersRequestTopic()
				r.Topic = at.topic
				req.Topics = append(req.Topics, r)
			}
			req.Topics[i].Partitions = append(req.Topics[i].Partitions, at.partition)
		}
		resp, err := callBroker[*kmsg.DescribeProducersResponse](t.admin, "describeProducers", id, req)
		if err != nil {
			return nil, err
		}
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				at := groupPartition{topic.Topic, p.Partition}
				if e := kerr.TypedErrorForCode(p.ErrorCode); e != nil {
					return nil, producersRefused(e, p.ErrorMessage, at, id)
				}
				found[at] = p.ActiveProducers
			}
		}
	}
	return found, nil
}

// producersRefused is what Java's client makes of an error of DescribeProducers.
func producersRefused(e *kerr.Error, message *string, at groupPartition, broker int32) error {
	switch e.Code {
	case kerr.NotLeaderForPartition.Code:
		return throw(errorClass(e), fmt.Sprintf("Failed to describe active producers for partition %s on brokerId %d", at, broker))
	case kerr.UnknownTopicOrPartition.Code:
		return noNode("describeProducers(api=DESCRIBE_PRODUCERS)") // after asking until its time is over
	case kerr.TopicAuthorizationFailed.Code:
		return throw(errorClass(e), fmt.Sprintf("Failed to describe active producers for partition `%s` due to authorization failure on topic `%s`", at, at.topic))
	}
	return brokerError(e.Code, message)
}

// leadersOf asks for the leaders of partitions.
func (t *transactionsCommand) leadersOf(call string, partitions []groupPartition) (map[groupPartition]int32, error) {
	var topics []string
	for _, at := range partitions {
		if !slices.Contains(topics, at.topic) {
			topics = append(topics, at.topic)
		}
	}
	leaders := map[groupPartition]int32{}
	if topics == nil {
		return leaders, nil
	}
	resp, err := t.metadata("topicMetadata", topics)
	if err != nil {
		return nil, err
	}
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			if p.Leader >= 0 {
				leaders[groupPartition{*topic.Topic, p.Partition}] = p.Leader
			}
		}
	}
	for _, at := range partitions {
		if _, ok := leaders[at]; !ok {
			// Java's client asks for the leader until its time is over.
			return nil, noNode(call + "(api=METADATA)")
		}
	}
	return leaders, nil
}

// offsetOrNone is an offset, if there is one.
func offsetOrNone(offset int64) string {
	if offset < 0 {
		return "None"
	}
	return strconv.FormatInt(offset, 10)
}

func (t *transactionsCommand) partition() groupPartition {
	n, _ := t.values.number("partition")
	return groupPartition{t.values.text("topic"), int32(n)}
}

func (t *transactionsCommand) describeProducers() error {
	at := t.partition()
	where := "leader"
	broker, onBroker := t.values.number("broker-id")
	if onBroker {
		where = fmt.Sprintf("broker %d", broker)
	}
	producers, err := t.producersOf(at, int32(broker), onBroker)
	if err != nil {
		return debugFailure(fmt.Sprintf("Failed to describe producers for partition %s on %s", at, where), err)
	}
	var rows [][]string
	for _, p := range producers {
		rows = append(rows, []string{strconv.FormatInt(p.ProducerID, 10), strconv.Itoa(int(p.ProducerEpoch)), strconv.Itoa(int(p.CoordinatorEpoch)),
			strconv.Itoa(int(p.LastSequence)), strconv.FormatInt(p.LastTimestamp, 10), offsetOrNone(p.CurrentTxnStartOffset)})
	}
	printPretty(t.env.Stdout, []string{"ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp", "CurrentTransactionStartOffset"}, rows)
	return nil
}

// abort writes an abort marker into a partition, whatever the coordinator thinks of the transaction.
func (t *transactionsCommand) abort() error {
	at := t.partition()
	marker := kmsg.NewWriteTxnMarkersRequestMarker()
	start, hasStart := t.values.number("start-offset")
	producer, hasProducer := t.values.number("producer-id")
	switch {
	case !hasStart && !hasProducer:
		return terse("The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) or with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)")
	case hasStart:
		producers, err := t.producersOf(at, 0, false)
		if err != nil {
			return debugFailure(fmt.Sprintf("Failed to validate producer state for partition %s", at), err)
		}
		i := slices.IndexFunc(producers, func(p activeProducer) bool { return p.CurrentTxnStartOffset >= 0 && p.CurrentTxnStartOffset == start })
		if i < 0 {
			return terse("Could not find any open transactions starting at offset %d on partition %s", start, at)
		}
		p := producers[i]
		marker.ProducerID, marker.ProducerEpoch, marker.CoordinatorEpoch = p.ProducerID, int16(p.ProducerEpoch), max(p.CoordinatorEpoch, 0)
	default:
		epoch, ok := t.values.number("producer-epoch")
		if !ok {
			return terse("Missing required argument --producer-epoch")
		}
		coordinatorEpoch, ok := t.values.number("coordinator-epoch")
		if !ok {
			return terse("Missing required argument --coordinator-epoch")
		}
		// Brokers before 3.0 took the epoch of a coordinator that they did not know to be newer than any.
		marker.ProducerID, marker.ProducerEpoch, marker.CoordinatorEpoch = producer, int16(epoch), max(int32(coordinatorEpoch), 0)
	}
	leaders, err := t.leadersOf("abortTransaction", []groupPartition{at})
	if err == nil {
		err = t.writeMarker(marker, at, leaders[at])
	}
	if err != nil {
		return debugFailure(fmt.Sprintf("Failed to abort transaction AbortTransactionSpec(topicPartition=%s, producerId=%d, producerEpoch=%d, coordinatorEpoch=%d)",
			at, marker.ProducerID, marker.ProducerEpoch, marker.CoordinatorEpoch), err)
	}
	return nil
}

func (t *transactionsCommand) writeMarker(marker kmsg.WriteTxnMarkersRequestMarker, at groupPartition, leader int32) error {
	topic := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
	topic.Topic, topic.Partitions = at.topic, []int32{at.partition}
	marker.Topics = append(marker.Topics, topic)
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	req.Markers = append(req.Markers, marker)
	resp, err := callBroker[*kmsg.WriteTxnMarkersResponse](t.admin, "abortTransaction", leader, req)
	if err != nil {
		return err
	}
	for _, m := range resp.Markers {
		for _, topic := range m.Topics {
			for _, p := range topic.Partitions {
				if e := brokerError(p.ErrorCode, nil); e != nil {
					return e
				}
			}
		}
	}
	return nil
}

// forceTerminate ends a transaction by taking over its id as a new producer would.
func (t *transactionsCommand) forceTerminate() error {
	id := t.values.text("transactionalId")
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = &id, t.timeoutMillis(), -1, -1
	resp, err := call[*kmsg.InitProducerIDResponse](t.admin, "fenceProducers", req)
	if err == nil {
		err = brokerErrorOrNil(resp.ErrorCode, nil)
	}
	if err != nil {
		return debugFailure("Failed to force terminate transactionalId `"+id+"`", err)
	}
	return nil
}
