package tools

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const e2eLatencyPurpose = "This tool measures end-to-end latency in Kafka by sending messages and timing their reception."

// e2eTimeout is how long a record may take to come back.
const e2eTimeout = 60 * time.Second

func e2eLatencyParser() *joptParser {
	return newJopt(
		joptOption{name: "bootstrap-server", arg: requiredArg, what: "bootstrap-server", help: "REQUIRED: The Kafka broker list string in the form HOST1:PORT1,HOST2:PORT2."},
		joptOption{name: "topic", arg: requiredArg, what: "topic-name", help: "REQUIRED: The topic to use for the test."},
		joptOption{name: "num-records", arg: requiredArg, typ: "Integer", what: "count", help: "REQUIRED: The number of messages to send."},
		joptOption{name: "producer-acks", arg: requiredArg, what: "producer-acks", help: "REQUIRED: Producer acknowledgements. Must be '1' or 'all'."},
		joptOption{name: "record-size", arg: requiredArg, typ: "Integer", what: "bytes", help: "REQUIRED: The size of each message payload in bytes."},
		joptOption{name: "record-key-size", arg: requiredArg, typ: "Integer", what: "bytes", def: "0", help: "Optional: The size of the message key in bytes. If not set, messages are sent without a key."},
		joptOption{name: "record-header-key-size", arg: requiredArg, typ: "Integer", what: "bytes", def: "0", help: "Optional: The size of the message header key in bytes. Used together with record-header-size."},
		joptOption{name: "record-header-size", arg: requiredArg, typ: "Integer", what: "bytes", def: "0", help: "Optional: The size of message header value in bytes. Use -1 for null header value."},
		joptOption{name: "num-headers", arg: requiredArg, typ: "Integer", what: "count", def: "0", help: "Optional: The number of headers to include in each message."},
		joptOption{name: "command-config", arg: requiredArg, what: "config-file", help: "Optional: A property file for Kafka producer/consumer/admin client configuration."},
	)
}

// e2ePositions are the options that the old form of the command line gives by place.
var e2ePositions = []string{"--bootstrap-server", "--topic", "--num-records", "--producer-acks", "--record-size", "--command-config"}

// kafkaE2ELatency is kafka-e2e-latency.
func kafkaE2ELatency(env Env, args []string) int { return endTool(env, e2eLatency(env, args)) }

// e2eArgs turns the old form of the command line into options. --help belongs to it by an oversight of Kafka's.
func e2eArgs(env Env, args []string) ([]string, error) {
	if len(args) == 0 || slices.ContainsFunc(args, func(word string) bool {
		return strings.HasPrefix(word, "--") && word != "--help" && word != "--version"
	}) {
		return args, nil
	}
	if len(args) != 5 && len(args) != 6 {
		fmt.Fprintf(env.Stderr, "Invalid number of arguments. Expected 5 or 6 positional arguments, but got %d. Usage: bootstrap-server topic num-records producer-acks record-size [optional] command-config\n", len(args))
		return nil, &exitError{1}
	}
	fmt.Fprintln(env.Stdout, "WARNING: Positional argument usage is deprecated and will be removed in Apache Kafka 5.0. Please use named arguments instead: "+strings.Join(e2ePositions, ", "))
	var named []string
	for i, word := range args {
		named = append(named, e2ePositions[i], word)
	}
	return named, nil
}

// e2eSizes are the numbers of the command line, in its order.
type e2eSizes struct{ records, value, key, headerKey, header, headers int64 }

func parseE2ELatency(env Env, args []string) (*joptSet, *e2eSizes, error) {
	args, err := e2eArgs(env, args)
	if err != nil {
		return nil, nil, err
	}
	parser := e2eLatencyParser()
	set, err := parser.parse(args)
	if err != nil {
		return nil, nil, parser.usage("%s", err.Error())
	}
	if err := set.helpOrVersion(env, args, e2eLatencyPurpose); err != nil {
		return nil, nil, err
	}
	if err := set.require("bootstrap-server", "topic", "num-records", "producer-acks", "record-size"); err != nil {
		return nil, nil, err
	}
	acks, _, err := set.text("producer-acks")
	if err != nil {
		return nil, nil, err
	}
	if acks != "1" && acks != "all" {
		return nil, nil, parser.usage("Invalid value for --producer-acks. Latency testing requires synchronous acknowledgement. Please use '1' or 'all'.")
	}
	sizes := &e2eSizes{}
	for _, n := range []struct {
		option string
		to     *int64
		least  int64
		must   string
	}{
		{"num-records", &sizes.records, 1, "a positive integer."},
		{"record-size", &sizes.value, 0, "a non-negative integer."},
		{"record-key-size", &sizes.key, 0, "a non-negative integer."},
		{"record-header-key-size", &sizes.headerKey, 0, "a non-negative integer."},
		{"record-header-size", &sizes.header, -1, "a non-negative integer or -1 for null header value."},
		{"num-headers", &sizes.headers, 0, "a non-negative integer."},
	} {
		if *n.to, _, err = set.number(n.option); err != nil {
			return nil, nil, err
		}
		if *n.to < n.least {
			return nil, nil, parser.usage("Value for --%s must be %s", n.option, n.must)
		}
	}
	return set, sizes, nil
}

func e2eLatency(env Env, args []string) error {
	set, sizes, err := parseE2ELatency(env, args)
	if err != nil {
		return err
	}
	props, err := set.properties("command-config")
	if err != nil {
		return err
	}
	props["bootstrap.servers"], _, _ = set.text("bootstrap-server")
	topic, _, err := set.text("topic")
	if err != nil {
		return err
	}
	partitions, err := e2eTopic(env, props, topic)
	if err != nil {
		return err
	}
	props["auto.offset.reset"] = "latest"
	props["linger.ms"] = "0"
	props["acks"], _, _ = set.text("producer-acks")
	consumer, err := props.consumer(env.Stderr, "e2e-latency")
	if err != nil {
		return err
	}
	producer, err := props.producer(env.Stderr, "e2e-latency")
	if err != nil {
		return err
	}
	ends := map[int32]kgo.Offset{}
	for p, offset := range partitions {
		ends[p] = kgo.NewOffset().At(offset)
	}
	reader, err := kgo.NewClient(append(consumer.opts, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: ends}))...)
	if err != nil {
		return throw(kafkaException, "Failed to construct kafka consumer").because(err)
	}
	defer reader.Close()
	writer, err := producer.client()
	if err != nil {
		return err
	}
	defer writer.Close()
	return e2eMeasure(env, writer, reader, topic, sizes)
}

// e2eTopic makes the topic if there is none, and returns where its partitions end.
func e2eTopic(env Env, props clientConfig, topic string) (map[int32]int64, error) {
	client, err := newAdmin(env, props, "adminclient-1")
	if err != nil {
		return nil, err
	}
	defer client.close()
	meta, err := client.metadata("listTopics", nil)
	if err != nil {
		return nil, executionException(err)
	}
	if !slices.ContainsFunc(meta.Topics, func(t kmsg.MetadataResponseTopic) bool { return *t.Topic == topic }) {
		fmt.Fprintf(env.Stdout, "Topic \"%s\" does not exist. Will create topic with 1 partition(s) and replication factor = 1\n", topic)
		req := kmsg.NewPtrCreateTopicsRequest()
		req.TimeoutMillis = client.timeoutMillis()
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = topic, 1, 1
		req.Topics = append(req.Topics, t)
		resp, err := call[*kmsg.CreateTopicsResponse](client, "createTopics", req)
		if err == nil {
			for _, t := range resp.Topics {
				err = brokerErrorOrNil(t.ErrorCode, t.ErrorMessage)
			}
		}
		if err != nil {
			fmt.Fprintf(env.Stdout, "Creation of topic %s failed\n", topic)
			return nil, executionException(err)
		}
	}
	partitions, err := client.partitionsOfTopic(topic)
	if err != nil {
		return nil, err
	}
	const latest = -1
	ends, err := client.offsetsAt(partitions, latest, true)
	if err != nil {
		return nil, executionException(err)
	}
	found := map[int32]int64{}
	for at, offset := range ends {
		found[at.partition] = offset
	}
	return found, nil
}

// partitionsOfTopic waits until a topic that was just made is known.
func (a *admin) partitionsOfTopic(topic string) ([]groupPartition, error) {
	const again = 20 * time.Millisecond
	for deadline := time.Now().Add(a.apiTimeout); ; time.Sleep(again) {
		meta, err := a.metadata("topicMetadata", []string{topic})
		if err != nil {
			return nil, executionException(err)
		}
		var found []groupPartition
		for _, t := range meta.Topics {
			for _, p := range t.Partitions {
				if p.Leader >= 0 {
					found = append(found, groupPartition{topic, p.Partition})
				}
			}
			if len(found) > 0 && len(found) == len(t.Partitions) {
				return found, nil
			}
			if e := brokerError(t.ErrorCode, nil); e != nil && time.Now().After(deadline) {
				return nil, executionException(e)
			}
		}
		if time.Now().After(deadline) {
			return nil, executionException(noNode("topicMetadata"))
		}
	}
}

// e2eMeasure sends a record and waits for it, over and over.
func e2eMeasure(env Env, writer, reader *kgo.Client, topic string, sizes *e2eSizes) error {
	random := rand.New(rand.NewPCG(0, 0))
	letters := func(n int64) []byte {
		text := make([]byte, n)
		for i := range text {
			text[i] = 'A' + byte(random.IntN(26))
		}
		return text
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var took []int64 // milliseconds
	total := time.Duration(0)
	for i := range sizes.records {
		record := &kgo.Record{Topic: topic, Value: letters(sizes.value)}
		if sizes.key > 0 {
			record.Key = letters(sizes.key)
		}
		for range sizes.headers {
			h := kgo.RecordHeader{Key: string(letters(sizes.headerKey))}
			if sizes.header >= 0 {
				h.Value = letters(sizes.header)
			}
			record.Headers = append(record.Headers, h)
		}
		begun := time.Now()
		if err := writer.ProduceSync(ctx, record).FirstErr(); err != nil {
			return executionException(err)
		}
		got, err := e2eReceive(ctx, reader)
		if err != nil {
			return err
		}
		elapsed := time.Since(begun)
		if err := e2eCheck(record, got); err != nil {
			return err
		}
		if i%1000 == 0 {
			fmt.Fprintf(env.Stdout, "%d\t%s\n", i, javaFloat(float64(elapsed.Nanoseconds())/1e6, 64))
		}
		total += elapsed
		took = append(took, elapsed.Milliseconds())
	}
	fmt.Fprintf(env.Stdout, "Avg latency: %s ms\n", strconv.FormatFloat(float64(total.Nanoseconds())/1e6/float64(sizes.records), 'f', 4, 64))
	slices.Sort(took)
	at := func(share float64) int64 { return took[int(float64(len(took))*share)] }
	fmt.Fprintf(env.Stdout, "Percentiles: 50th = %d, 99th = %d, 99.9th = %d\n", at(0.5), at(0.99), at(0.999))
	return nil
}

// e2eReceive waits for one record.
func e2eReceive(ctx context.Context, reader *kgo.Client) (*kgo.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, e2eTimeout)
	defer cancel()
	for {
		fetches := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil, throw("java.lang.RuntimeException", fmt.Sprintf("poll() timed out before finding a result (timeout:[%dms])", e2eTimeout.Milliseconds()))
		}
		switch records := fetches.Records(); len(records) {
		case 0:
			if err := fetchFatal("", fetches); err != nil {
				return nil, err
			}
		case 1:
			return records[0], nil
		default:
			return nil, throw("java.lang.RuntimeException", fmt.Sprintf("Only one result was expected during this test. We found [%d]", len(records)))
		}
	}
}

// e2eCheck compares what was sent with what came back.
func e2eCheck(sent, got *kgo.Record) error {
	differs := func(format string, a ...any) error {
		return throw("java.lang.RuntimeException", fmt.Sprintf(format, a...))
	}
	switch {
	case !bytes.Equal(sent.Value, got.Value):
		return differs("The message value read [%s] did not match the message value sent [%s]", got.Value, sent.Value)
	case sent.Key == nil && got.Key != nil:
		return differs("Expected null message key but received [%s]", got.Key)
	case sent.Key != nil && got.Key == nil:
		return differs("Expected message key but received null")
	case !bytes.Equal(sent.Key, got.Key):
		return differs("The message key read [%s] did not match the message key sent [%s]", got.Key, sent.Key)
	case len(sent.Headers) > 0 && len(got.Headers) == 0:
		return differs("Expected message headers but received none")
	case len(sent.Headers) != len(got.Headers):
		return differs("Header count mismatch between sent and received messages")
	}
	for i, h := range sent.Headers {
		if g := got.Headers[i]; g.Key != h.Key || !bytes.Equal(g.Value, h.Value) {
			return differs("The message header read [%s:%s] did not match the message header sent [%s:%s]", g.Key, g.Value, h.Key, h.Value)
		}
	}
	return nil
}
