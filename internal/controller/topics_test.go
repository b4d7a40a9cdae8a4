package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
)

func TestTopicNames(t *testing.T) {
	for _, q := range []struct{ name, want string }{
		{"orders", ""},
		{"a.b_c-D9", ""},
		{"...", ""},
		{strings.Repeat("d", 249), ""},
		{"", "Topic name is invalid: the empty string is not allowed"},
		{".", "Topic name is invalid: '.' is not allowed"},
		{"..", "Topic name is invalid: '..' is not allowed"},
		{"bad/name", "Topic name is invalid: 'bad/name' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"},
		{"ü", "Topic name is invalid: 'ü' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"},
		{"a\x00b", "Topic name is invalid: 'a\x00b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"},
		{strings.Repeat("d", 250), "Topic name is invalid: the length of '" + strings.Repeat("d", 250) + "' is longer than the max allowed length 249"},
	} {
		got := ""
		if err := CheckTopicName(q.name); err != nil {
			got = err.Error()
		}
		if got != q.want {
			t.Errorf("%.20q: %s, want %s", q.name, got, q.want)
		}
	}
}

// A topicWish is a topic of a CreateTopics request, and its answer.
type topicWish struct {
	name       string
	partitions int32
	factor     int16
	assignment string // "1,1;1": partition by partition
	configs    string // k=v;k=v
	code       int16
	message    string
}

func (w topicWish) request() kmsg.CreateTopicsRequestTopic {
	r := kmsg.NewCreateTopicsRequestTopic()
	r.Topic, r.NumPartitions, r.ReplicationFactor = w.name, w.partitions, w.factor
	if w.assignment != "" {
		for i, list := range strings.Split(w.assignment, ";") {
			a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
			a.Partition = int32(i)
			for _, id := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
				a.Replicas = append(a.Replicas, int32(id[0]-'0'))
			}
			r.ReplicaAssignment = append(r.ReplicaAssignment, a)
		}
	}
	for kv := range strings.FieldsFuncSeq(w.configs, func(r rune) bool { return r == ';' }) {
		k, v, ok := strings.Cut(kv, "=")
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		if c.Name = k; ok {
			c.Value = &v
		}
		r.Configs = append(r.Configs, c)
	}
	return r
}

// Codes and messages are those of Kafka 4.3.1's controller.
func TestCreateTopicsAnswers(t *testing.T) {
	s := newSite(t)
	s.start()
	s.create("there", 1)
	s.create("dotted.name", 1)
	for _, w := range []topicWish{
		{name: "ok", partitions: 2, factor: 1},
		{name: "defaults", partitions: -1, factor: -1},
		{name: "there", partitions: 1, factor: 1, code: 36, message: "Topic 'there' already exists."},
		{name: "dotted_name", partitions: 1, factor: 1, code: 17, message: "Topic 'dotted_name' collides with existing topic: dotted.name"},
		{name: "p0", partitions: 0, factor: 1, code: 37, message: "Number of partitions was set to an invalid non-positive value."},
		{name: "p-2", partitions: -2, factor: 1, code: 37, message: "Number of partitions was set to an invalid non-positive value."},
		{name: "f0", partitions: 1, factor: 0, code: 38, message: "Replication factor must be larger than 0, or -1 to use the default value."},
		{name: "f3", partitions: 1, factor: 3, code: 38, message: "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because only 1 broker(s) are registered or some brokers have all their log directories cordoned."},
		{name: "both", partitions: 1, factor: -1, assignment: "1", code: 42, message: "A manual partition assignment was specified, but numPartitions was not set to -1."},
		{name: "bothf", partitions: -1, factor: 1, assignment: "1", code: 42, message: "A manual partition assignment was specified, but replication factor was not set to -1."},
		{name: "assigned", partitions: -1, factor: -1, assignment: "1;1;1"},
		{name: "stranger", partitions: -1, factor: -1, assignment: "7", code: 39, message: "The manual partition assignment includes broker 7, but no such broker is registered."},
		{name: "nobody", partitions: -1, factor: -1, assignment: "1;", code: 39, message: "The manual partition assignment includes an empty replica list."},
		{name: "twice", partitions: -1, factor: -1, assignment: "1,1", code: 39, message: "The manual partition assignment includes the broker 1 more than once."},
		{name: "conf", partitions: 1, factor: 1, configs: "retention.ms=60000;cleanup.policy=compact"},
		{name: "unknown", partitions: 1, factor: 1, configs: "no.such.thing=1", code: 40, message: "Unknown topic config name: no.such.thing"},
		{name: "value", partitions: 1, factor: 1, configs: "retention.ms=soon", code: 40, message: "Invalid value soon for configuration retention.ms: Not a number of type LONG"},
		{name: "null", partitions: 1, factor: 1, configs: "retention.ms", code: 40, message: "Null value not supported for topic configs: retention.ms"},
		{name: "__cluster_metadata", partitions: 1, factor: 1, code: 29, message: "Authorization failed."},
	} {
		r := kmsg.NewPtrCreateTopicsRequest()
		r.Version, r.Topics = 7, []kmsg.CreateTopicsRequestTopic{w.request()}
		for _, r.ValidateOnly = range []bool{true, false} {
			a := s.CreateTopics(t.Context(), r).Topics[0]
			message := ""
			if a.ErrorMessage != nil {
				message = *a.ErrorMessage
			}
			if a.ErrorCode != w.code || message != w.message {
				t.Errorf("%s, validate only %v: %d %s, want %d %s", w.name, r.ValidateOnly, a.ErrorCode, message, w.code, w.message)
			}
			if made := s.Image().Topic(w.name) != nil; made != (w.code == 0 && !r.ValidateOnly || w.name == "there") {
				t.Errorf("%s, validate only %v: there is such a topic: %v", w.name, r.ValidateOnly, made)
			}
			if w.code == 0 && (len(a.Configs) < 30 || a.NumPartitions < 1 || a.ReplicationFactor != 1) {
				t.Errorf("%s: %d partitions, %d configs in the answer", w.name, a.NumPartitions, len(a.Configs))
			}
		}
	}
	if got, _ := s.Image().Config(metadata.TopicResource, "conf", "retention.ms"); got != "60000" {
		t.Errorf("retention.ms of conf = %q", got)
	}
}

// Who names a topic twice gets one answer and no topic; others are not harmed.
func TestCreateTopicsDuplicates(t *testing.T) {
	s := newSite(t)
	s.start()
	r := kmsg.NewPtrCreateTopicsRequest()
	r.Version = 7
	for _, name := range []string{"twice", "once", "twice", "a.b", "a_b"} {
		r.Topics = append(r.Topics, topicWish{name: name, partitions: 1, factor: 1}.request())
	}
	var got []string
	for _, a := range s.CreateTopics(t.Context(), r).Topics {
		got = append(got, fmt.Sprintf("%s:%d", a.Topic, a.ErrorCode))
	}
	if want := []string{"twice:42", "once:0", "a.b:0", "a_b:17"}; !slices.Equal(got, want) {
		t.Errorf("answers %v, want %v", got, want)
	}
	r.Topics = nil
	for i := range 11 {
		r.Topics = append(r.Topics, topicWish{name: fmt.Sprint("many", i), partitions: 1000, factor: 1}.request())
	}
	for _, a := range s.CreateTopics(t.Context(), r).Topics {
		if a.ErrorCode != 44 {
			t.Errorf("%s of 11,000 partitions: %d, want 44", a.Topic, a.ErrorCode)
		}
	}
}

func TestDeleteTopicsForms(t *testing.T) {
	s := newSite(t)
	s.start()
	a, b := s.create("a", 1).ID, s.create("b", 1).ID
	s.create("c", 1)
	byName := func(name string) (r kmsg.DeleteTopicsRequestTopic) { r.Topic = &name; return r }
	byID := func(id kmeta.UUID) (r kmsg.DeleteTopicsRequestTopic) { r.TopicID = id; return r }
	both := byName("c")
	both.TopicID = b
	for _, q := range []struct {
		what   string
		topics []kmsg.DeleteTopicsRequestTopic
		want   []int16
	}{
		{"unknown", []kmsg.DeleteTopicsRequestTopic{byName("x"), byID(kmeta.UUID{9})}, []int16{3, 100}},
		{"both and neither", []kmsg.DeleteTopicsRequestTopic{both, {}}, []int16{42, 42}},
		{"twice by name", []kmsg.DeleteTopicsRequestTopic{byName("a"), byName("a")}, []int16{42}},
		{"twice by id", []kmsg.DeleteTopicsRequestTopic{byID(a), byID(a)}, []int16{42}},
		{"by name and id", []kmsg.DeleteTopicsRequestTopic{byName("a"), byID(a)}, []int16{42, 0}},
		{"by name", []kmsg.DeleteTopicsRequestTopic{byName("b")}, []int16{0}},
	} {
		r := kmsg.NewPtrDeleteTopicsRequest()
		r.Version, r.Topics = 6, q.topics
		var got []int16
		for _, rt := range s.DeleteTopics(t.Context(), r).Topics {
			got = append(got, rt.ErrorCode)
			if rt.ErrorCode == 0 && (rt.Topic == nil || rt.TopicID == kmeta.UUID{}) {
				t.Errorf("%s: %+v lacks name or id", q.what, rt)
			}
		}
		if !slices.Equal(got, q.want) {
			t.Errorf("%s: %v, want %v", q.what, got, q.want)
		}
	}
	if n := s.Image().TopicCount(); n != 1 {
		t.Errorf("%d topics are left, want c alone", n)
	}
}

func TestDeletionDisabled(t *testing.T) {
	s := newSite(t)
	s.options.Static = map[string]string{"delete.topic.enable": "false"}
	s.start()
	s.create("a", 1)
	for version, want := range map[int16]int16{1: 42, 3: 73, 5: 73} {
		r := kmsg.NewPtrDeleteTopicsRequest()
		r.Version, r.TopicNames = version, []string{"a"}
		if got := s.DeleteTopics(t.Context(), r).Topics[0].ErrorCode; got != want {
			t.Errorf("v%d: %d, want %d", version, got, want)
		}
	}
}

func TestCreatePartitionsAnswers(t *testing.T) {
	s := newSite(t)
	s.start()
	s.create("t", 3)
	for _, q := range []struct {
		name       string
		count      int32
		assignment [][]int32 // nil: null
		code       int16
		message    string
	}{
		{"t", 3, nil, 37, "Topic already has 3 partition(s)."},
		{"t", 2, nil, 37, "The topic t currently has 3 partition(s); 2 would not be an increase."},
		{"t", -1, nil, 37, "The topic t currently has 3 partition(s); -1 would not be an increase."},
		{"x", 8, nil, 3, "This server does not host this topic-partition."},
		{"t", 5, [][]int32{{1}}, 39, "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."},
		{"t", 5, [][]int32{}, 39, "Attempted to add 2 additional partition(s), but only 0 assignment(s) were specified."},
		{"t", 4, [][]int32{{1, 2}}, 39, "The manual partition assignment includes broker 2, but no such broker is registered."},
		{"t", 20000, nil, 44, partitionsMaxMessage},
		{"t", 5, [][]int32{{1}, {1}}, 0, ""},
		{"t", 6, nil, 0, ""},
	} {
		r := kmsg.NewPtrCreatePartitionsRequest()
		topic := kmsg.NewCreatePartitionsRequestTopic()
		topic.Topic, topic.Count = q.name, q.count
		if q.assignment != nil {
			topic.Assignment = []kmsg.CreatePartitionsRequestTopicAssignment{}
		}
		for _, replicas := range q.assignment {
			a := kmsg.NewCreatePartitionsRequestTopicAssignment()
			a.Replicas = replicas
			topic.Assignment = append(topic.Assignment, a)
		}
		r.Version, r.Topics = 3, []kmsg.CreatePartitionsRequestTopic{topic}
		a := s.CreatePartitions(t.Context(), r).Topics[0]
		message := ""
		if a.ErrorMessage != nil {
			message = *a.ErrorMessage
		}
		if a.ErrorCode != q.code || message != q.message {
			t.Errorf("%s to %d: %d %s, want %d %s", q.name, q.count, a.ErrorCode, message, q.code, q.message)
		}
	}
	if n := len(s.Image().Topic("t").Partitions); n != 6 {
		t.Errorf("%d partitions, want 6", n)
	}
}

// Elections of partitions with several replicas, decided on an image that other brokers share.
func TestElections(t *testing.T) {
	s := newSite(t)
	s.start()
	id := kmeta.RandomUUID()
	for _, broker := range []int32{2, 3} {
		if _, err := s.Register(t.Context(), Registration{BrokerID: broker, PreviousEpoch: -1, Directories: []kmeta.UUID{{byte(broker)}}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, broker := range []int32{1, 2, 3} {
		if err := s.Unfence(t.Context(), broker); err != nil {
			t.Fatal(err)
		}
	}
	two := "2"
	err := s.write(t.Context(), func(draft) ([]kmeta.Record, error) {
		return []kmeta.Record{
			&kmeta.TopicRecord{Name: "t", TopicID: id},
			&kmeta.ConfigRecord{ResourceType: metadata.TopicResource, ResourceName: "t", Name: "min.insync.replicas", Value: &two},
			&kmeta.PartitionRecord{TopicID: id, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2, 3}, Leader: 1, Directories: []kmeta.UUID{brokerDir, {2}, {3}}},
		}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	state := func() string {
		p := s.Image().Topic("t").Partitions[0]
		return fmt.Sprintf("leader %d isr %v elr %v last %v", p.Leader, p.ISR, p.ELR, p.LastKnownELR)
	}
	for _, step := range []struct {
		what string
		do   func() error
		want string
	}{
		{"1 stops: the next in the assignment leads", func() error { return s.ControlledShutdown(t.Context(), 1) }, "leader 2 isr [2 3] elr [] last []"},
		{"2 stops below min.insync.replicas: it may still lead", func() error { return s.ControlledShutdown(t.Context(), 2) }, "leader 3 isr [3] elr [2] last []"},
		{"3 stops: nobody is left", func() error { return s.ControlledShutdown(t.Context(), 3) }, "leader -1 isr [] elr [2 3] last [3]"},
		{"1 comes back: it is not eligible", func() error { return s.Unfence(t.Context(), 1) }, "leader -1 isr [] elr [2 3] last [3]"},
		{"2 comes back", func() error { return s.Unfence(t.Context(), 2) }, "leader 2 isr [2] elr [3] last [3]"},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if got := state(); got != step.want {
			t.Errorf("%s: %s, want %s", step.what, got, step.want)
		}
	}
}
