package tools

import (
	"context"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func verifiableShareParser() *argParser {
	return &argParser{
		prog:         "verifiable-share-consumer",
		description:  "This tool creates a share group and consumes messages from a specific topic and emits share consumer events (e.g. share consumer startup, received messages, and offsets acknowledged) as JSON objects to STDOUT.",
		showDefaults: true,
		arguments: []*argument{
			{flags: []string{"--topic"}, metavar: "TOPIC", required: true, help: "Consumes messages from this topic."},
			{flags: []string{"--group-id"}, metavar: "GROUP-ID", required: true, help: "The group id of the share group"},
			{flags: []string{"--max-messages"}, metavar: "MAX-MESSAGES", typ: "Integer", def: "-1", help: "Consume this many messages. If -1 (the default), the share consumers will consume until the process is killed externally"},
			{flags: []string{"--verbose"}, action: storeTrue, def: "false", help: "Enable to log individual consumed records"},
			{flags: []string{"--acknowledgement-mode"}, metavar: "ACKNOWLEDGEMENT-MODE", def: "auto", help: "Acknowledgement mode for the share consumers (must be either 'auto', 'sync' or 'async')"},
			{flags: []string{"--offset-reset-strategy"}, metavar: "OFFSET-RESET-STRATEGY", help: "Share group offset reset strategy (must be either 'earliest' or 'latest') (default: )"},
			{flags: []string{"--command-config"}, metavar: "CONFIG-FILE", help: clientConfigHelp},
			verifiableConnection(brokerListHelp),
		},
	}
}

// kafkaVerifiableShareConsumer is kafka-verifiable-share-consumer.
func kafkaVerifiableShareConsumer(env Env, args []string) int {
	return runVerifiable(env, args, verifiableShareParser(), "", func(values *argValues, props clientConfig) (int, error) {
		props["bootstrap.servers"] = values.text("bootstrap-server")
		return verifiableShare(env, values, props)
	})
}

func verifiableShare(env Env, values *argValues, props clientConfig) (int, error) {
	group, events := values.text("group-id"), eventWriter{env: env}
	mode := values.text("acknowledgement-mode")
	if !slices.Contains([]string{"auto", "sync", "async"}, mode) {
		return 1, throw(illegalArgument, "Invalid acknowledgement mode: "+mode)
	}
	config, err := props.consumer(env.Stderr, "consumer-"+group+"-1")
	if err != nil {
		return 1, err
	}
	most, _ := values.number("max-messages")
	s := &verifiableShareConsumer{eventWriter: &events, verbose: values.has("verbose"), most: most, acked: map[string]map[int32][]int64{}}
	if s.cl, err = kgo.NewClient(append(shareOptions(config, group, values.text("topic")), kgo.ShareAckCallback(s.acknowledged))...); err != nil {
		return 1, throw(kafkaException, "Failed to construct Kafka share consumer").because(err)
	}
	ctx, end := untilInterrupted(env)
	events.write("startup_complete")
	failed := refusedLogin(s.cl).orNil()
	if strategy := values.text("offset-reset-strategy"); strategy != "" && failed == nil {
		if failed = setShareReset(env, props, group, strategy); failed == nil {
			events.write("offset_reset_strategy_set", field{"offsetResetStrategy", strategy})
		}
	}
	for failed == nil && (most < 0 || s.count.acknowledged() < most) && ctx.Err() == nil {
		fetches := s.cl.PollRecords(ctx, javaMaxPoll)
		failed = fatalOfShare(fetches, group).orNil()
		if fetches.NumRecords() > 0 {
			s.received(ctx, fetches)
		}
	}
	sig := end()
	leaveShare(s.cl, config.dial.reached.Load())
	if failed != nil {
		logLine(env.Stderr, "ERROR", "Error during processing, terminating share consumer process: ", "org.apache.kafka.tools.VerifiableShareConsumer", asJava(failed))
	}
	events.write("shutdown_complete")
	if sig != nil {
		return signalCode(sig), nil
	}
	return 0, nil
}

// setShareReset sets where a share group begins that has no offsets yet.
func setShareReset(env Env, props clientConfig, group, strategy string) error {
	a, err := newAdmin(env, props, "adminclient-1")
	if err != nil {
		return err
	}
	defer a.close()
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Value, c.Op = "share.auto.offset.reset", &strategy, kmsg.IncrementalAlterConfigOpSet
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.Configs = kmsg.ConfigResourceTypeGroupConfig, group, append(r.Configs, c)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, r)
	resp, err := call[*kmsg.IncrementalAlterConfigsResponse](a, "incrementalAlterConfigs", req)
	if err != nil {
		return err
	}
	for _, r := range resp.Resources {
		if e := brokerError(r.ErrorCode, r.ErrorMessage); e != nil {
			return executionException(e)
		}
	}
	return nil
}

// A counter is what the callbacks have counted.
type counter struct {
	mu sync.Mutex // guards n
	n  int64
}

func (c *counter) add(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n += n
}

func (c *counter) acknowledged() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// A verifiableShareConsumer reads a topic as a member of a share group, and counts what it has acknowledged.
type verifiableShareConsumer struct {
	*eventWriter
	cl      *kgo.Client
	verbose bool
	most    int64
	count   counter

	mu    sync.Mutex                   // guards acked
	acked map[string]map[int32][]int64 // handed out and not yet told of, by topic and partition
}

func (s *verifiableShareConsumer) received(ctx context.Context, fetches kgo.Fetches) {
	summaries := []object{}
	s.mu.Lock()
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if len(p.Records) == 0 {
			return
		}
		offsets := make([]int64, len(p.Records))
		for i, r := range p.Records {
			offsets[i] = r.Offset
			if s.verbose {
				s.write("record_data", field{"key", nullable(r.Key)}, field{"value", nullable(r.Value)}, field{"topic", r.Topic}, field{"partition", r.Partition}, field{"offset", r.Offset})
			}
		}
		if s.acked[p.Topic] == nil {
			s.acked[p.Topic] = map[int32][]int64{}
		}
		s.acked[p.Topic][p.Partition] = append(s.acked[p.Topic][p.Partition], offsets...)
		summaries = append(summaries, object{{"topic", p.Topic}, {"partition", p.Partition}, {"count", len(offsets)}, {"offsets", offsets}})
	})
	s.mu.Unlock()
	s.write("records_consumed", field{"count", fetches.NumRecords()}, field{"partitions", summaries})
	s.cl.MarkAcks(kgo.AckAccept)
	flush, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	_ = s.cl.FlushAcks(flush) // each failure reaches the callback
}

// acknowledged is called with what the brokers said of acknowledgements.
func (s *verifiableShareConsumer) acknowledged(_ *kgo.Client, results kgo.ShareAckResults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var n int64
	var failed error
	summaries := []object{}
	for _, r := range results {
		offsets := s.acked[r.Topic][r.Partition]
		if r.Err != nil {
			failed = r.Err
		}
		if len(offsets) == 0 {
			continue
		}
		delete(s.acked[r.Topic], r.Partition)
		n += int64(len(offsets))
		summaries = append(summaries, object{{"topic", r.Topic}, {"partition", r.Partition}, {"count", len(offsets)}, {"offsets", offsets}})
	}
	if n == 0 && failed == nil {
		return
	}
	fields := []field{{"count", n}, {"partitions", summaries}, {"success", failed == nil}}
	if failed != nil {
		fields = append(fields, field{"error", asJava(failed).text()})
	} else {
		s.count.add(n)
	}
	s.write("offsets_acknowledged", fields...)
}
