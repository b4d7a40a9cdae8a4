package tools

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/quire-log/quire/internal/config"
	"github.com/quire-log/quire/internal/storage"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const collisionWarning = "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. To avoid issues it is best to use either, but not both."

// wantedTopic is what --create and --alter say of a topic. -1 stands for a number that was not given.
type wantedTopic struct {
	name                    string
	partitions, replication int64
	assignment              [][]int32 // of brokers to partitions; nil: the cluster's choice
	configs                 map[string]string
}

// wanted reads the options in the order in which Kafka's tool does, which decides the first complaint.
func (t *topicsCommand) wanted() (*wantedTopic, error) {
	w := &wantedTopic{partitions: -1, replication: -1}
	var err error
	if w.name, _, err = t.set.text("topic"); err != nil {
		return nil, err
	}
	for _, o := range []struct {
		name string
		n    *int64
	}{{"partitions", &w.partitions}, {"replication-factor", &w.replication}} {
		given, ok, err := t.set.number(o.name)
		if err != nil {
			return nil, err
		}
		if ok {
			*o.n = given
		}
	}
	text, _, err := t.set.text("replica-assignment")
	if err != nil {
		return nil, err
	}
	if text != "" {
		if w.assignment, err = parseAssignment(text); err != nil {
			return nil, err
		}
	}
	w.configs, err = parseTopicConfigs(t.set.all("config"))
	return w, err
}

// parseAssignment reads brokers per partition, as in 1:2,2:3.
func parseAssignment(text string) ([][]int32, error) {
	var partitions [][]int32
	for part := range strings.SplitSeq(strings.TrimRight(text, ","), ",") {
		var brokers, twice []int32
		seen := make(map[int32]int)
		for id := range strings.SplitSeq(strings.TrimRight(part, ":"), ":") {
			n, err := javaInt(strings.TrimSpace(id), 32)
			if err != nil {
				return nil, err
			}
			broker := int32(n)
			brokers = append(brokers, broker)
			if seen[broker]++; seen[broker] == 2 {
				twice = append(twice, broker)
			}
		}
		if twice != nil {
			return nil, throw("org.apache.kafka.tools.AdminCommandFailedException", "Partition replica lists may not contain duplicate entries: "+joinIDs(twice, ","))
		}
		if len(partitions) > 0 && len(brokers) != len(partitions[0]) {
			return nil, throw("org.apache.kafka.tools.AdminOperationException",
				fmt.Sprintf("Partition %d has different replication factor: [%s]", len(partitions), joinIDs(brokers, ", ")))
		}
		partitions = append(partitions, brokers)
	}
	return partitions, nil
}

func joinIDs(ids []int32, separator string) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = fmt.Sprint(id)
	}
	return strings.Join(texts, separator)
}

// parseTopicConfigs reads --config key=value options and checks them by the table of topic options.
func parseTopicConfigs(pairs []string) (map[string]string, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	equals := regexp.MustCompile(`\s*=\s*`)
	configs := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		parts := equals.Split(pair, -1)
		for len(parts) > 0 && parts[len(parts)-1] == "" { // as Java's split
			parts = parts[:len(parts)-1]
		}
		if len(parts) != 2 {
			return nil, throw(illegalArgument, `requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".`)
		}
		configs[strings.TrimSpace(parts[0])] = strings.TrimSpace(parts[1])
	}
	if err := config.ValidateTopic(configs); err != nil {
		// A refusal of one value by its row is a ConfigException in Java; of a name, or by a rule over several, it is the other.
		class := kafkaErrors + "InvalidConfigurationException"
		if strings.HasPrefix(err.Error(), "Invalid value ") {
			class = configException
		}
		return nil, throw(class, err.Error())
	}
	return configs, nil
}

func (t *topicsCommand) create() error {
	w, err := t.wanted()
	if err != nil {
		return err
	}
	if strings.ContainsAny(w.name, "._") {
		fmt.Fprintln(t.env.Stdout, collisionWarning)
	}
	if t.set.has("replication-factor") && (w.replication < 1 || w.replication > math.MaxInt16) {
		return throw(illegalArgument, "The replication factor must be between 1 and 32767 inclusive")
	}
	if t.set.has("partitions") && w.partitions < 1 {
		return throw(illegalArgument, "The partitions must be greater than 0")
	}
	if w.name == "" {
		return throw(kafkaErrors+"InvalidTopicException", "The given topic name '' cannot be represented in a request.")
	}
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = w.name, int32(w.partitions), int16(w.replication)
	for p, brokers := range w.assignment {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = int32(p), brokers
		topic.ReplicaAssignment = append(topic.ReplicaAssignment, a)
	}
	for key, value := range w.configs {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = key, &value
		topic.Configs = append(topic.Configs, c)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = t.timeoutMillis()
	req.Topics = append(req.Topics, topic)
	resp, err := call[*kmsg.CreateTopicsResponse](t.admin, "createTopics", req)
	if err != nil {
		return err
	}
	for _, topic := range resp.Topics {
		if topic.ErrorCode == kerr.TopicAlreadyExists.Code && t.set.has("if-not-exists") {
			return nil
		}
		if e := brokerError(topic.ErrorCode, topic.ErrorMessage); e != nil {
			return e
		}
	}
	fmt.Fprintf(t.env.Stdout, "Created topic %s.\n", w.name)
	if isTerminal(t.env.Stderr) { // a person is told more than Kafka's tool tells
		for _, topic := range resp.Topics {
			fmt.Fprintf(t.env.Stderr, "%s: %s.\n", topic.Topic, ageSays(topic.Configs))
		}
	}
	return nil
}

// ageSays tells how old a record of a topic that was created with these settings can become.
func ageSays(configs []kmsg.CreateTopicsResponseTopicConfig) string {
	c := storage.DefaultConfig()
	for _, kv := range configs {
		if kv.Value == nil {
			continue
		}
		n, err := strconv.ParseInt(*kv.Value, 10, 64)
		number := err == nil
		switch {
		case kv.Name == "cleanup.policy":
			policies := strings.Split(*kv.Value, ",")
			c.Compact, c.Delete = slices.Contains(policies, "compact"), slices.Contains(policies, "delete")
		case kv.Name == "retention.ms" && number:
			c.RetentionMs = n
		case kv.Name == "retention.bytes" && number:
			c.RetentionBytes = n
		case kv.Name == "segment.ms" && number:
			c.SegmentMs = n
		}
	}
	return storage.AgeBoundsOf(c, -1).Says
}

func (t *topicsCommand) alter() error {
	w, err := t.wanted()
	if err != nil {
		return err
	}
	names, err := t.names()
	if err != nil {
		return err
	}
	if err := t.mustExist(names); err != nil || len(names) == 0 {
		return err
	}
	var present map[string]int
	if w.assignment != nil {
		if present, err = t.partitionCounts(names); err != nil {
			return err
		}
	}
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = t.timeoutMillis()
	for _, name := range names {
		topic := kmsg.NewCreatePartitionsRequestTopic()
		topic.Topic, topic.Count = name, int32(w.partitions)
		// Of the assignment, only what it says of new partitions is sent.
		if w.assignment != nil {
			topic.Assignment = []kmsg.CreatePartitionsRequestTopicAssignment{}
		}
		for p := present[name]; p < len(w.assignment); p++ {
			a := kmsg.NewCreatePartitionsRequestTopicAssignment()
			a.Replicas = w.assignment[p]
			topic.Assignment = append(topic.Assignment, a)
		}
		req.Topics = append(req.Topics, topic)
	}
	resp, err := call[*kmsg.CreatePartitionsResponse](t.admin, "createPartitions", req)
	if err != nil {
		return err
	}
	for _, topic := range resp.Topics {
		if e := brokerError(topic.ErrorCode, topic.ErrorMessage); e != nil {
			return e
		}
	}
	return nil
}

func (t *topicsCommand) partitionCounts(names []string) (map[string]int, error) {
	resp, err := t.metadata("describeTopics", names)
	if err != nil {
		return nil, err
	}
	counts := make(map[string]int, len(names))
	for _, topic := range resp.Topics {
		if e := brokerError(topic.ErrorCode, nil); e != nil {
			return nil, e
		}
		counts[*topic.Topic] = len(topic.Partitions)
	}
	return counts, nil
}
