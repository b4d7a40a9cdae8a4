package tools

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

const assignorPackage = "org.apache.kafka.clients.consumer."

func verifiableConsumerParser() *argParser {
	return &argParser{
		prog:         "verifiable-consumer",
		description:  "This tool consumes messages from a specific topic and emits consumer events (e.g. group rebalances, received messages, and offsets committed) as JSON objects to STDOUT.",
		showDefaults: true,
		arguments: []*argument{
			{flags: []string{"--topic"}, metavar: "TOPIC", required: true, help: "Consumes messages from this topic."},
			{flags: []string{"--group-protocol"}, def: "classic", metavar: "GROUP-PROTOCOL", help: "Group protocol (must be one of CLASSIC, CONSUMER)"},
			{flags: []string{"--group-remote-assignor"}, metavar: "GROUP-REMOTE-ASSIGNOR", help: "Group remote assignor; only used if the group protocol is CONSUMER"},
			{flags: []string{"--group-id"}, metavar: "GROUP-ID", required: true, help: "The group id of the consumer group"},
			{flags: []string{"--group-instance-id"}, metavar: "GROUP-INSTANCE-ID", help: "A unique identifier of the consumer instance"},
			{flags: []string{"--max-messages"}, metavar: "MAX-MESSAGES", typ: "Integer", def: "-1", help: "Consume this many messages. If -1 (the default), the consumer will consume until the process is killed externally"},
			{flags: []string{"--session-timeout"}, typ: "Integer", metavar: "TIMEOUT-MS", help: "Set the consumer's session timeout, note that this configuration is not supported when group protocol is consumer"},
			{flags: []string{"--verbose"}, action: storeTrue, def: "false", help: "Enable to log individual consumed records"},
			{flags: []string{"--enable-autocommit"}, action: storeTrue, def: "false", help: "Enable offset auto-commit on consumer"},
			{flags: []string{"--reset-policy"}, metavar: "RESET-POLICY", def: "earliest", help: "Set reset policy (must be either 'earliest', 'latest', or 'none')"},
			{flags: []string{"--assignment-strategy"}, metavar: "ASSIGNMENT-STRATEGY", def: assignorPackage + "RangeAssignor",
				help: "Set assignment strategy (e.g. " + assignorPackage + "RoundRobinAssignor); only used if the group protocol is CLASSIC"},
			{flags: []string{"--consumer.config"}, metavar: "CONFIG-FILE", help: "(DEPRECATED) Consumer config properties file. This option will be removed in a future version. Use --command-config instead"},
			{flags: []string{"--command-config"}, metavar: "CONFIG-FILE", help: clientConfigHelp},
			verifiableConnection(brokerListHelp),
		},
	}
}

// kafkaVerifiableConsumer is kafka-verifiable-consumer.
func kafkaVerifiableConsumer(env Env, args []string) int {
	return runVerifiable(env, args, verifiableConsumerParser(), "consumer.config", func(values *argValues, props clientConfig) (int, error) {
		c := &verifiableConsumer{eventWriter: eventWriter{env: env}, topic: values.text("topic"), verbose: values.has("verbose"), autoCommit: values.has("enable-autocommit"),
			started: make(chan struct{})}
		c.most, _ = values.number("max-messages")
		if err := c.connect(values, props); err != nil {
			return 1, err
		}
		return c.run()
	})
}

// connect makes the client: what the command line says goes before the file.
func (c *verifiableConsumer) connect(values *argValues, props clientConfig) error {
	protocol := values.text("group-protocol")
	if up := strings.ToUpper(protocol); up != "CLASSIC" && up != "CONSUMER" {
		return throw(illegalArgument, "No enum constant org.apache.kafka.clients.consumer.GroupProtocol."+up)
	}
	for key, value := range map[string]string{"group.protocol": strings.ToLower(protocol), "group.instance.id": values.text("group-instance-id"), "bootstrap.servers": values.text("bootstrap-server"),
		"auto.offset.reset": values.text("reset-policy"), "session.timeout.ms": values.text("session-timeout")} {
		if value != "" {
			props[key] = value
		}
	}
	props["enable.auto.commit"] = fmt.Sprint(c.autoCommit)
	group := values.text("group-id")
	c.group = group
	config, err := props.consumer(c.env.Stderr, "consumer-"+group+"-1")
	if err != nil {
		return err
	}
	opts := append(config.opts, config.group(group)...)
	if config.protocol == "classic" {
		balancers, err := assignors(values.text("assignment-strategy"))
		if err != nil {
			return err
		}
		opts = append(opts, javaAssignors(balancers...))
	}
	if c.autoCommit {
		opts = append(opts, kgo.AutoCommitMarks())
	}
	opts = append(opts, kgo.ConsumeTopics(c.topic), kgo.ConsumeStartOffset(config.reset), kgo.ConsumeResetOffset(config.reset), kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, all map[string][]int32) {
			c.partitions("partitions_assigned", all)
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, all map[string][]int32) {
			c.partitions("partitions_revoked", all)
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, all map[string][]int32) {
			c.partitions("partitions_revoked", all)
		}))
	c.cl, err = kgo.NewClient(opts...)
	if err != nil {
		return throw(kafkaException, "Failed to construct kafka consumer").because(err)
	}
	return nil
}

// assignors are those that a list of Java's classes names.
func assignors(classes string) ([]kgo.GroupBalancer, error) {
	var all []kgo.GroupBalancer
	for class := range strings.SplitSeq(classes, ",") {
		switch strings.TrimSpace(class) {
		case assignorPackage + "RangeAssignor":
			all = append(all, kgo.RangeBalancer())
		case assignorPackage + "RoundRobinAssignor":
			all = append(all, kgo.RoundRobinBalancer())
		case assignorPackage + "StickyAssignor":
			all = append(all, kgo.StickyBalancer())
		case assignorPackage + "CooperativeStickyAssignor":
			all = append(all, kgo.CooperativeStickyBalancer())
		default:
			return nil, throw(kafkaException, "Failed to construct kafka consumer").because(throw(kafkaException, strings.TrimSpace(class)+" ClassNotFoundException exception occurred"))
		}
	}
	return all, nil
}

// A verifiableConsumer reads a topic as a member of a group. Its callbacks run while it polls, or when it leaves.
type verifiableConsumer struct {
	eventWriter
	cl         *kgo.Client
	topic      string
	group      string
	most       int64 // -1: until a signal
	count      int64
	verbose    bool
	autoCommit bool
	started    chan struct{} // closed once startup_complete is written: the client joins before that, and may be told its partitions
}

// javaMaxPoll is max.poll.records of Java's consumer.
const javaMaxPoll = 500

// partitions tells of partitions that came or went. Nothing went that nothing had come of.
func (c *verifiableConsumer) partitions(name string, all map[string][]int32) {
	<-c.started
	list := []object{}
	for topic, partitions := range all {
		for _, p := range partitions {
			list = append(list, object{{"topic", topic}, {"partition", p}})
		}
	}
	slices.SortFunc(list, func(a, b object) int { return int(a[1].value.(int32) - b[1].value.(int32)) })
	c.write(name, field{"partitions", list})
}

func (c *verifiableConsumer) start() {
	c.write("startup_complete")
	close(c.started)
}

func (c *verifiableConsumer) run() (int, error) {
	ctx, end := untilInterrupted(c.env)
	c.start()
	failed := refusedLogin(c.cl)
	for (c.most < 0 || c.count < c.most) && ctx.Err() == nil && failed == nil {
		fetches := c.cl.PollRecords(ctx, javaMaxPoll)
		failed = fetchFatal(c.group, fetches)
		if fetches.NumRecords() > 0 {
			c.received(fetches)
		}
		c.cl.AllowRebalance()
	}
	sig := end()
	leaving, cancel := context.WithTimeout(context.Background(), closeTimeout)
	if c.autoCommit {
		_ = c.cl.CommitMarkedOffsets(withoutMetadata(leaving))
	}
	_ = c.cl.LeaveGroupContext(leaving) // a member that the broker does not hear from is taken out by its timeout
	cancel()
	c.cl.Close()
	if failed != nil {
		logLine(c.env.Stderr, "ERROR", "Error during processing, terminating consumer process: ", "org.apache.kafka.tools.VerifiableConsumer", failed)
	}
	c.write("shutdown_complete")
	c.write("shutdown_requested") // Java's hook at the end of the process
	if sig != nil {
		return signalCode(sig), nil
	}
	return 0, nil
}

// orNil keeps a nil *javaError from becoming an error that is not nil.
func (e *javaError) orNil() error {
	if e == nil {
		return nil
	}
	return e
}

// received tells of what one poll brought, up to the most that was asked for, and commits it.
func (c *verifiableConsumer) received(fetches kgo.Fetches) {
	summaries := []object{}
	commits := map[string]map[int32]kgo.EpochOffset{}
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		records := p.Records
		if c.most >= 0 && c.count+int64(len(records)) > c.most {
			records = records[:c.most-c.count]
		}
		if len(records) == 0 {
			return
		}
		first, last := records[0], records[len(records)-1]
		if commits[p.Topic] == nil {
			commits[p.Topic] = map[int32]kgo.EpochOffset{}
		}
		commits[p.Topic][p.Partition] = kgo.EpochOffset{Epoch: -1, Offset: last.Offset + 1}
		summaries = append(summaries, object{{"topic", p.Topic}, {"partition", p.Partition}, {"count", len(records)}, {"minOffset", first.Offset}, {"maxOffset", last.Offset}})
		if c.verbose {
			for _, r := range records {
				c.write("record_data", field{"key", nullable(r.Key)}, field{"value", nullable(r.Value)}, field{"topic", r.Topic}, field{"partition", r.Partition}, field{"offset", r.Offset})
			}
		}
		if c.autoCommit {
			c.cl.MarkCommitRecords(records...)
		}
		c.count += int64(len(records))
	})
	c.write("records_consumed", field{"count", fetches.NumRecords()}, field{"partitions", summaries})
	if !c.autoCommit {
		c.commit(commits)
	}
}

func (c *verifiableConsumer) commit(offsets map[string]map[int32]kgo.EpochOffset) {
	list := []object{}
	for topic, partitions := range offsets {
		for p, at := range partitions {
			list = append(list, object{{"topic", topic}, {"partition", p}, {"offset", at.Offset}})
		}
	}
	slices.SortFunc(list, func(a, b object) int { return int(a[1].value.(int32) - b[1].value.(int32)) })
	failed := commitOffsets(c.cl, offsets)
	fields := []field{{"offsets", list}, {"success", failed == nil}}
	if failed != nil {
		fields = append(fields, field{"error", asJava(failed).text()})
	}
	c.write("offsets_committed", fields...)
}
