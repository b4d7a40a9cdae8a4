package tools

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	getOffsetsPurpose = "An interactive shell for getting topic-partition offsets."
	// topicPartitionPattern is Java's, and shown in the help: a topic, then : and a partition or a range.
	topicPartitionPattern = "([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?"
	timesOfOffsets        = "-1 or latest / -2 or earliest / -3 or max-timestamp / -4 or earliest-local / -5 or latest-tiered / -6 or earliest-pending-upload"
)

// namedTimes are the words for ListOffsets' timestamps below zero.
var namedTimes = map[string]int64{"latest": -1, "earliest": -2, "max-timestamp": -3, "earliest-local": -4, "latest-tiered": -5, "earliest-pending-upload": -6}

func getOffsetsParser() *joptParser {
	return newJopt(
		joptOption{name: "bootstrap-server", arg: requiredArg, what: "HOST1:PORT1,...,HOST3:PORT3", help: "REQUIRED. The server(s) to connect to in the form HOST1:PORT1,HOST2:PORT2."},
		joptOption{name: "topic-partitions", arg: requiredArg, what: "topic1:1,topic2:0-3,topic3,topic4:5-,topic5:-3",
			help: "Comma separated list of topic-partition patterns to get the offsets for, with the format of '" + topicPartitionPattern + "'." +
				" The first group is an optional regex for the topic name, if omitted, it matches any topic name." +
				" The section after ':' describes a 'partition' pattern, which can be: a number, a range in the format of 'NUMBER-NUMBER' (lower inclusive, upper exclusive), " +
				"an inclusive lower bound in the format of 'NUMBER-', an exclusive upper bound in the format of '-NUMBER' or may be omitted to accept all partitions."},
		joptOption{name: "topic", arg: requiredArg, what: "topic", help: "The topic to get the offsets for. It also accepts a regular expression. If not present, all authorized topics are queried. Cannot be used if --topic-partitions is present."},
		joptOption{name: "partitions", arg: requiredArg, what: "partition ids", help: "Comma separated list of partition ids to get the offsets for. If not present, all partitions of the authorized topics are queried. Cannot be used if --topic-partitions is present."},
		joptOption{name: "time", arg: requiredArg, what: "<timestamp> / " + timesOfOffsets, def: "latest",
			help: "timestamp of the offsets before that. [Note: No offset is returned, if the timestamp greater than recently committed record timestamp is given.]"},
		joptOption{name: "command-config", arg: requiredArg, what: "config file", help: "Property file containing configs to be passed to Admin Client."},
		joptOption{name: "exclude-internal-topics", help: "By default, internal topics are included. If specified, internal topics are excluded."},
	)
}

// A terseError is told in one line, where other errors of kafka-get-offsets come with a stack trace.
type terseError struct{ message string }

func (e *terseError) Error() string { return e.message }

// kafkaGetOffsets is kafka-get-offsets.
func kafkaGetOffsets(env Env, args []string) int {
	err := getOffsets(env, args)
	if err == nil {
		return 0
	}
	if code, ended := endOfParsing(env, err); ended {
		return code
	}
	if terse, ok := err.(*terseError); ok {
		fmt.Fprintf(env.Stderr, "Error occurred: %s\n", terse.message)
		return 1
	}
	e := asJava(err)
	fmt.Fprintf(env.Stderr, "Error occurred: %s\n%s\n\n", e.text(), e.trace())
	return 1
}

// executionException is how Java's futures wrap what went wrong.
func executionException(err error) *javaError {
	return throw("java.util.concurrent.ExecutionException", asJava(err).Error()).because(err)
}

// offsetsQuery is what to ask about which partitions.
type offsetsQuery struct {
	time    int64
	allows  func(topic string, partition int32) bool
	noInner bool // leave out internal topics
}

func getOffsets(env Env, args []string) error {
	parser := getOffsetsParser()
	if len(args) == 0 {
		return parser.usage("%s", getOffsetsPurpose)
	}
	set, err := parser.parse(args)
	if err != nil {
		return &terseError{err.Error()}
	}
	if err := set.helpOrVersion(env, args, getOffsetsPurpose); err != nil {
		return err
	}
	if err := set.require("bootstrap-server"); err != nil {
		return err
	}
	servers, _, err := set.text("bootstrap-server")
	if err != nil {
		return err
	}
	if err := checkServers(parser, servers); err != nil {
		return err
	}
	query, err := parseOffsetsQuery(set)
	if err != nil {
		return err
	}
	props, err := set.properties("command-config")
	if err != nil {
		return err
	}
	props["bootstrap.servers"], props["client.id"] = servers, "GetOffsetShell"
	client, err := newAdmin(env, props, "GetOffsetShell")
	if err != nil {
		return err
	}
	defer client.close()
	return client.printOffsets(env, query)
}

// checkServers refuses a list of addresses of which one has no port.
func checkServers(parser *joptParser, servers string) error {
	if strings.TrimSpace(servers) == "" {
		return parser.usage("Error while validating the bootstrap address\n")
	}
	for server := range strings.SplitSeq(strings.TrimRight(servers, ","), ",") {
		if !addressPattern().MatchString(server) {
			return parser.usage("Please provide valid host:port like host1:9091,host2:9092\n")
		}
	}
	return nil
}

func parseOffsetsQuery(set *joptSet) (*offsetsQuery, error) {
	if set.has("topic-partitions") && (set.has("topic") || set.has("partitions")) {
		return nil, &terseError{"--topic-partitions cannot be used with --topic or --partitions"}
	}
	q := &offsetsQuery{noInner: set.has("exclude-internal-topics")}
	when, _, err := set.text("time")
	if err != nil {
		return nil, err
	}
	var named bool
	if q.time, named = namedTimes[when]; !named {
		if q.time, err = strconv.ParseInt(when, 10, 64); err != nil {
			return nil, &terseError{"Malformed time argument " + when + ". Please use " + timesOfOffsets + ", or a specified long format timestamp"}
		}
	}
	patterns, byPatterns, err := set.text("topic-partitions")
	if err != nil {
		return nil, err
	}
	if byPatterns {
		q.allows, err = parseTopicPartitions(patterns)
		return q, err
	}
	topic, hasTopic, err := set.text("topic")
	if err != nil {
		return nil, err
	}
	if !hasTopic && !set.has("topic") {
		topic = ".*"
	}
	filter, err := newTopicFilter(topic)
	if err != nil {
		return nil, err
	}
	list, _, err := set.text("partitions")
	if err != nil {
		return nil, err
	}
	wanted, err := parsePartitions(list)
	if err != nil {
		return nil, err
	}
	q.allows = func(topic string, partition int32) bool {
		return filter.allows(topic) && (wanted == nil || slices.Contains(wanted, partition))
	}
	return q, nil
}

// parsePartitions reads numbers with commas; nil is all partitions.
func parsePartitions(list string) ([]int32, error) {
	if list == "" {
		return nil, nil
	}
	var numbers []int32
	for text := range strings.SplitSeq(strings.TrimRight(list, ","), ",") {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return nil, &terseError{"--partitions expects a comma separated list of numeric partition ids, but received: " + list}
		}
		numbers = append(numbers, int32(n))
	}
	return numbers, nil
}

// parseTopicPartitions reads a list of TOPIC:PARTITIONS. A partition is asked about if any of them allows it.
func parseTopicPartitions(list string) (func(string, int32) bool, error) {
	type rule struct {
		topics    *topicFilter
		low, high int64 // half-open
	}
	pattern := regexp.MustCompile("^(?:" + topicPartitionPattern + ")$")
	var rules []rule
	for spec := range strings.SplitSeq(strings.TrimRight(list, ","), ",") {
		m := pattern.FindStringSubmatch(spec)
		if m == nil {
			// Java throws this one from within a stream, so it loses its terseness.
			terse := throw("org.apache.kafka.tools.TerseException", "Invalid rule specification: "+spec)
			return nil, throw("java.lang.RuntimeException", terse.Error()).because(terse)
		}
		topics, err := newTopicFilter(cmp.Or(m[1], ".*"))
		if err != nil {
			return nil, err
		}
		r := rule{topics, 0, math.MaxInt32}
		for i, bound := range []*int64{2: &r.low, 3: &r.low, 4: &r.high} {
			if bound == nil || m[i] == "" {
				continue
			}
			if *bound, err = javaInt(m[i], 32); err != nil {
				return nil, err
			}
			if i == 2 {
				r.high = r.low + 1
			}
		}
		rules = append(rules, r)
	}
	return func(topic string, partition int32) bool {
		for _, r := range rules {
			if r.topics.allows(topic) && r.low <= int64(partition) && int64(partition) < r.high {
				return true
			}
		}
		return false
	}, nil
}

// printOffsets asks and prints, sorted by the text TOPIC-PARTITION.
func (a *admin) printOffsets(env Env, q *offsetsQuery) error {
	meta, err := a.metadata("listTopics", nil)
	if err != nil {
		return executionException(err)
	}
	req := kmsg.NewPtrListOffsetsRequest()
	for _, m := range meta.Topics {
		if q.noInner && m.IsInternal {
			continue
		}
		topic := kmsg.NewListOffsetsRequestTopic()
		topic.Topic = *m.Topic
		for _, p := range m.Partitions {
			if q.allows(topic.Topic, p.Partition) {
				part := kmsg.NewListOffsetsRequestTopicPartition()
				part.Partition, part.Timestamp = p.Partition, q.time
				topic.Partitions = append(topic.Partitions, part)
			}
		}
		if topic.Partitions != nil {
			req.Topics = append(req.Topics, topic)
		}
	}
	if req.Topics == nil {
		return &terseError{"Could not match any topic-partitions with the specified filters"}
	}
	type line struct {
		key, text string
		err       *javaError
	}
	var lines []line
	leaderless, err := a.awaitLeaders(req, meta)
	if err != nil {
		return executionException(err)
	}
	for _, p := range leaderless {
		lines = append(lines, line{key: fmt.Sprintf("%s-%d", p.topic, p.partition), err: noNode(findLeaders)})
	}
	resp := kmsg.NewPtrListOffsetsResponse()
	if len(req.Topics) > 0 {
		if resp, err = call[*kmsg.ListOffsetsResponse](a, "listOffsets", req); err != nil {
			return executionException(err)
		}
	}
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			lines = append(lines, line{fmt.Sprintf("%s-%d", topic.Topic, p.Partition),
				fmt.Sprintf("%s:%d:%d", topic.Topic, p.Partition, p.Offset), brokerError(p.ErrorCode, nil)})
			if p.ErrorCode == 0 && p.Offset < 0 {
				lines = lines[:len(lines)-1] // there is no such offset
			}
		}
	}
	slices.SortFunc(lines, func(a, b line) int { return cmp.Compare(a.key, b.key) })
	for _, l := range lines {
		if l.err != nil {
			fmt.Fprintf(env.Stderr, "Skip getting offsets for topic-partition %s due to error: %s\n", l.key, l.err)
		}
	}
	for _, l := range lines {
		if l.err == nil {
			fmt.Fprintln(env.Stdout, l.text)
		}
	}
	return nil
}

// findLeaders is what Java calls its look for the leaders of partitions whose offsets are asked for.
const findLeaders = "listOffsets(api=METADATA)"

// awaitLeaders looks for the leaders of the partitions that req asks about, beginning with what meta says, until all have one or
// default.api.timeout.ms is over. It takes those that have none from req, and returns them.
func (a *admin) awaitLeaders(req *kmsg.ListOffsetsRequest, meta *kmsg.MetadataResponse) (leaderless []groupPartition, err error) {
	deadline := time.Now().Add(a.apiTimeout)
	var leads map[groupPartition]bool
	for backoff := dialBackoffMin; ; backoff = min(2*backoff, dialBackoffMax) {
		leads = make(map[groupPartition]bool)
		for _, t := range meta.Topics {
			for _, p := range t.Partitions {
				if t.Topic != nil {
					leads[groupPartition{*t.Topic, p.Partition}] = p.Leader >= 0
				}
			}
		}
		leaderless = nil
		var topics []string
		for _, t := range req.Topics {
			for _, p := range t.Partitions {
				if at := (groupPartition{t.Topic, p.Partition}); !leads[at] {
					leaderless = append(leaderless, at)
				}
			}
			topics = append(topics, t.Topic)
		}
		left := time.Until(deadline)
		if leaderless == nil || left <= 0 {
			break
		}
		time.Sleep(min(backoff, left))
		if meta, err = a.metadata(findLeaders, topics); err != nil {
			return nil, err
		}
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		t.Partitions = slices.DeleteFunc(t.Partitions, func(p kmsg.ListOffsetsRequestTopicPartition) bool {
			return !leads[groupPartition{t.Topic, p.Partition}]
		})
	}
	req.Topics = slices.DeleteFunc(req.Topics, func(t kmsg.ListOffsetsRequestTopic) bool { return len(t.Partitions) == 0 })
	return leaderless, nil
}
