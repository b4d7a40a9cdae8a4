package tools

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// describedTopic is what --describe shows of a topic.
type describedTopic struct {
	name       string
	id         [16]byte
	configs    []string // key=value of those that are no defaults
	minISR     int
	partitions []describedPartition // by number
}

type describedPartition struct {
	number, leader   int32 // leader is -1 without
	replicas, isr    []int32
	elr, lastELR     []int32
	hasELR           bool // the broker could tell
	adding, removing []int32
	reassigning      bool
}

// factor is the replication factor that the partition has, or had before brokers were added to it.
func (p *describedPartition) factor() int {
	n := len(p.replicas)
	if p.reassigning && containsAll(p.replicas, p.adding) {
		n -= len(p.adding)
	}
	return n
}

func containsAll(ids, wanted []int32) bool {
	for _, id := range wanted {
		if !slices.Contains(ids, id) {
			return false
		}
	}
	return true
}

func (t *topicsCommand) describe() error {
	topics, live, err := t.gather()
	if err != nil || len(topics) == 0 {
		return err
	}
	if err := t.addConfigs(topics); err != nil {
		return err
	}
	if err := t.addReassignments(topics); err != nil {
		return err
	}
	t.print(topics, live)
	return nil
}

// gather finds the topics to describe and what their partitions look like, and the brokers that live.
func (t *topicsCommand) gather() ([]*describedTopic, map[int32]bool, error) {
	id, byID, err := t.set.text("topic-id")
	if err != nil {
		return nil, nil, err
	}
	limit, hasLimit, err := t.set.number("partition-size-limit-per-response")
	if err != nil {
		return nil, nil, err
	}
	if !hasLimit {
		limit = int64(kmsg.NewDescribeTopicPartitionsRequest().ResponsePartitionLimit)
	}
	if byID {
		parsed, err := parseUUID(id)
		if err != nil {
			return nil, nil, err
		}
		if parsed != ([16]byte{}) { // the zero id is as good as none
			return t.gatherByID(parsed)
		}
	}
	names, err := t.names()
	if err != nil {
		return nil, nil, err
	}
	if err := t.mustExist(names); err != nil || len(names) == 0 {
		return nil, nil, err
	}
	known, err := t.supports("describeTopics", int16(kmsg.DescribeTopicPartitions))
	if err != nil {
		return nil, nil, err
	}
	if !known {
		resp, err := t.metadata("describeTopics", names)
		if err != nil {
			return nil, nil, err
		}
		return fromMetadata(resp)
	}
	topics, err := t.describePartitions(names, int32(limit))
	if err != nil {
		return nil, nil, err
	}
	live, err := t.liveBrokers()
	return topics, live, err
}

// gatherByID asks by Metadata, which does not know eligible leaders.
func (t *topicsCommand) gatherByID(id [16]byte) ([]*describedTopic, map[int32]bool, error) {
	resp, err := t.metadata("listTopics", nil)
	if err != nil {
		return nil, nil, err
	}
	resp.Topics = slices.DeleteFunc(resp.Topics, func(m kmsg.MetadataResponseTopic) bool {
		return m.TopicID != id || t.set.has("exclude-internal") && m.IsInternal
	})
	if len(resp.Topics) == 0 && !t.set.has("if-exists") {
		return nil, nil, throw(illegalArgument, fmt.Sprintf("TopicId '%s' does not exist as expected", formatUUID(id)))
	}
	return fromMetadata(resp)
}

func fromMetadata(resp *kmsg.MetadataResponse) ([]*describedTopic, map[int32]bool, error) {
	live := make(map[int32]bool, len(resp.Brokers))
	for _, b := range resp.Brokers {
		live[b.NodeID] = true
	}
	var topics []*describedTopic
	for _, m := range resp.Topics {
		if e := brokerError(m.ErrorCode, nil); e != nil {
			return nil, nil, e
		}
		topic := &describedTopic{name: *m.Topic, id: m.TopicID}
		for _, p := range m.Partitions {
			topic.partitions = append(topic.partitions, describedPartition{number: p.Partition, leader: p.Leader, replicas: p.Replicas, isr: p.ISR})
		}
		topics = append(topics, topic)
	}
	sortTopics(topics)
	return topics, live, nil
}

func sortTopics(topics []*describedTopic) {
	slices.SortFunc(topics, func(a, b *describedTopic) int { return cmp.Compare(a.name, b.name) })
	for _, topic := range topics {
		slices.SortFunc(topic.partitions, func(a, b describedPartition) int { return cmp.Compare(a.number, b.number) })
	}
}

// describePartitions asks by DescribeTopicPartitions, answer by answer until the cursor is used up.
func (t *topicsCommand) describePartitions(names []string, limit int32) ([]*describedTopic, error) {
	found := make(map[string]*describedTopic, len(names))
	var topics []*describedTopic
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = limit
	for _, name := range names {
		topic := kmsg.NewDescribeTopicPartitionsRequestTopic()
		topic.Topic = name
		req.Topics = append(req.Topics, topic)
	}
	for {
		resp, err := call[*kmsg.DescribeTopicPartitionsResponse](t.admin, "describeTopics", req)
		if err != nil {
			return nil, err
		}
		for _, r := range resp.Topics {
			if e := brokerError(r.ErrorCode, nil); e != nil {
				return nil, e
			}
			topic := found[*r.Topic]
			if topic == nil {
				topic = &describedTopic{name: *r.Topic, id: r.TopicID}
				found[topic.name] = topic
				topics = append(topics, topic)
			}
			for _, p := range r.Partitions {
				topic.partitions = append(topic.partitions, describedPartition{number: p.Partition, leader: p.LeaderID,
					replicas: p.Replicas, isr: p.ISR, elr: p.EligibleLeaderReplicas, lastELR: p.LastKnownELR, hasELR: true})
			}
		}
		if resp.NextCursor == nil {
			sortTopics(topics)
			return topics, nil
		}
		cursor := kmsg.NewDescribeTopicPartitionsRequestCursor()
		cursor.Topic, cursor.Partition = resp.NextCursor.Topic, resp.NextCursor.Partition
		// What comes before the cursor has been answered, and the broker wants it left out.
		req.Cursor = &cursor
		req.Topics = slices.DeleteFunc(req.Topics, func(r kmsg.DescribeTopicPartitionsRequestTopic) bool { return r.Topic < cursor.Topic })
	}
}

func (t *topicsCommand) liveBrokers() (map[int32]bool, error) {
	if !t.set.has("unavailable-partitions") {
		return nil, nil // nobody will look
	}
	resp, err := call[*kmsg.DescribeClusterResponse](t.admin, "listNodes", kmsg.NewPtrDescribeClusterRequest())
	if err != nil {
		return nil, err
	}
	if e := brokerError(resp.ErrorCode, resp.ErrorMessage); e != nil {
		return nil, e
	}
	live := make(map[int32]bool, len(resp.Brokers))
	for _, b := range resp.Brokers {
		live[b.NodeID] = true
	}
	return live, nil
}

// addConfigs asks for the topics' options.
func (t *topicsCommand) addConfigs(topics []*describedTopic) error {
	byName := make(map[string]*describedTopic, len(topics))
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, topic := range topics {
		byName[topic.name] = topic
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, topic.name
		req.Resources = append(req.Resources, r)
	}
	resp, err := call[*kmsg.DescribeConfigsResponse](t.admin, "describeConfigs", req)
	if err != nil {
		return err
	}
	for _, r := range resp.Resources {
		if e := brokerError(r.ErrorCode, r.ErrorMessage); e != nil {
			return e
		}
		topic := byName[r.ResourceName]
		if topic == nil {
			continue
		}
		for _, c := range r.Configs {
			value := "null"
			if c.Value != nil {
				value = *c.Value
			}
			if c.Name == "min.insync.replicas" {
				topic.minISR, _ = strconv.Atoi(value)
			}
			if c.IsDefault || c.Source == kmsg.ConfigSourceDefaultConfig {
				continue
			}
			topic.configs = append(topic.configs, c.Name+"="+value)
		}
	}
	return nil
}

// addReassignments asks which partitions are moving. A broker that does not know, or will not tell, is taken to move none.
func (t *topicsCommand) addReassignments(topics []*describedTopic) error {
	req := kmsg.NewPtrListPartitionReassignmentsRequest()
	req.TimeoutMillis = t.timeoutMillis()
	byName := make(map[string]*describedTopic, len(topics))
	for _, topic := range topics {
		byName[topic.name] = topic
		r := kmsg.NewListPartitionReassignmentsRequestTopic()
		r.Topic = topic.name
		for i := range topic.partitions {
			r.Partitions = append(r.Partitions, topic.partitions[i].number)
		}
		req.Topics = append(req.Topics, r)
	}
	known, err := t.supports("listPartitionReassignments", req.Key())
	if err != nil || !known {
		return err
	}
	resp, err := call[*kmsg.ListPartitionReassignmentsResponse](t.admin, "listPartitionReassignments", req)
	if err != nil {
		return err
	}
	switch resp.ErrorCode {
	case 0:
	case kerr.ClusterAuthorizationFailed.Code, kerr.UnsupportedVersion.Code:
		return nil
	default:
		return brokerError(resp.ErrorCode, resp.ErrorMessage)
	}
	for _, r := range resp.Topics {
		topic := byName[r.Topic]
		if topic == nil {
			continue
		}
		for _, moved := range r.Partitions {
			i := slices.IndexFunc(topic.partitions, func(p describedPartition) bool { return p.number == moved.Partition })
			if i >= 0 {
				p := &topic.partitions[i]
				p.reassigning, p.adding, p.removing = true, moved.AddingReplicas, moved.RemovingReplicas
			}
		}
	}
	return nil
}

// print shows the topics: all of them, or by the filters only topics with overrides, or only certain partitions.
func (t *topicsCommand) print(topics []*describedTopic, live map[int32]bool) {
	filters := map[string]func(*describedTopic, *describedPartition) bool{
		"under-replicated-partitions": func(_ *describedTopic, p *describedPartition) bool { return len(p.isr) < p.factor() },
		"unavailable-partitions":      func(_ *describedTopic, p *describedPartition) bool { return p.leader < 0 || !live[p.leader] },
		"under-min-isr-partitions": func(topic *describedTopic, p *describedPartition) bool {
			return p.leader < 0 || len(p.isr) < topic.minISR
		},
		"at-min-isr-partitions": func(topic *describedTopic, p *describedPartition) bool { return len(p.isr) == topic.minISR },
	}
	all := true
	for name := range filters {
		if t.set.has(name) {
			all = false
		} else {
			delete(filters, name)
		}
	}
	overrides := t.set.has("topics-with-overrides")
	for _, topic := range topics {
		if all && (!overrides || len(topic.configs) > 0) {
			topic.print(t.env.Stdout)
		}
		if overrides {
			continue
		}
		for i := range topic.partitions {
			p := &topic.partitions[i]
			shown := all
			for _, filter := range filters {
				shown = shown || filter(topic, p)
			}
			if shown {
				p.print(t.env.Stdout, topic.name)
			}
		}
	}
}

func (topic *describedTopic) print(w io.Writer) {
	line := "Topic: " + topic.name
	if topic.id != [16]byte{} {
		line += "\tTopicId: " + formatUUID(topic.id)
	}
	factor := 0
	if len(topic.partitions) > 0 {
		factor = topic.partitions[0].factor()
	}
	fmt.Fprintf(w, "%s\tPartitionCount: %d\tReplicationFactor: %d\tConfigs: %s\n", line, len(topic.partitions), factor, strings.Join(topic.configs, ","))
}

func (p *describedPartition) print(w io.Writer, topic string) {
	leader, elr, lastELR := "none", "N/A", "N/A"
	if p.leader >= 0 {
		leader = fmt.Sprint(p.leader)
	}
	if p.hasELR {
		elr, lastELR = joinIDs(p.elr, ","), joinIDs(p.lastELR, ",")
	}
	moving := ""
	if p.reassigning {
		moving = "\tAdding Replicas: " + joinIDs(p.adding, ",") + "\tRemoving Replicas: " + joinIDs(p.removing, ",")
	}
	fmt.Fprintf(w, "\tTopic: %s\tPartition: %d\tLeader: %s\tReplicas: %s\tIsr: %s%s\tElr: %s\tLastKnownElr: %s\n",
		topic, p.number, leader, joinIDs(p.replicas, ","), joinIDs(p.isr, ","), moving, elr, lastELR)
}

// formatUUID is how Kafka writes ids: base64 for URLs without padding.
func formatUUID(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// parseUUID is formatUUID's reverse, with Kafka's complaints.
func parseUUID(text string) ([16]byte, error) {
	if len(text) > 24 {
		return [16]byte{}, throw(illegalArgument, fmt.Sprintf("Input string with prefix `%s` is too long to be decoded as a base64 UUID", text[:24]))
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	if at, ok := errors.AsType[base64.CorruptInputError](err); ok {
		if int(at) < len(text) {
			return [16]byte{}, throw(illegalArgument, fmt.Sprintf("Illegal base64 character %x", text[at]))
		}
		return [16]byte{}, throw(illegalArgument, "Last unit does not have enough valid bits")
	}
	if len(raw) != 16 {
		return [16]byte{}, throw(illegalArgument, fmt.Sprintf("Input string `%s` decoded as %d bytes, which is not equal to the expected 16 bytes of a base64-encoded UUID", text, len(raw)))
	}
	return [16]byte(raw), nil
}
