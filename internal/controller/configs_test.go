package controller

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/config"
	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
)

// A configStage is an image and what decides on it.
type configStage struct {
	t   *testing.T
	c   *Controller
	img *metadata.Image
}

func newConfigStage(t *testing.T) *configStage {
	s := &configStage{t: t, img: metadata.Empty(), c: &Controller{options: Options{NodeID: 1, Static: config.Complete(nil)}}}
	one := "1"
	s.replay(
		&kmeta.FeatureLevelRecord{Name: "metadata.version", FeatureLevel: 30},
		&kmeta.FeatureLevelRecord{Name: metadata.ELRVersion, FeatureLevel: 1},
		&kmeta.TopicRecord{Name: "orders", TopicID: kmeta.UUID{15: 1}},
		&kmeta.TopicRecord{Name: "bills", TopicID: kmeta.UUID{15: 2}},
		&kmeta.ConfigRecord{ResourceType: metadata.BrokerResource, Name: "min.insync.replicas", Value: &one},
	)
	return s
}

func (s *configStage) replay(recs ...kmeta.Record) {
	s.t.Helper()
	img, _, err := metadata.NewReplayer(s.img).Replay(recs, s.img.Offset()+metadata.Offset(len(recs)), 1)
	if err != nil {
		s.t.Fatal(err)
	}
	s.img = img
}

func op(key string, op kmsg.IncrementalAlterConfigOp, value string) configOp {
	return configOp{key, op, &value}
}

func set(key, value string) configOp      { return op(key, kmsg.IncrementalAlterConfigOpSet, value) }
func appendTo(key, value string) configOp { return op(key, kmsg.IncrementalAlterConfigOpAppend, value) }
func subtract(key, value string) configOp {
	return op(key, kmsg.IncrementalAlterConfigOpSubtract, value)
}
func unset(key string) configOp { return configOp{key, kmsg.IncrementalAlterConfigOpDelete, nil} }
func topic(name string, ops ...configOp) configChange {
	return configChange{resource: metadata.TopicResource, name: name, ops: ops}
}

// decide makes the changes, replays what they came to, and says it in a line for each change and record.
func (s *configStage) decide(changes ...configChange) string {
	s.t.Helper()
	recs := s.c.decideChanges(s.img, changes)
	var lines []string
	for _, ch := range changes {
		if ch.err != nil {
			code, message := answer(ch.err)
			lines = append(lines, fmt.Sprintf("%d %s", code, *message))
		}
	}
	for _, r := range recs {
		switch r := r.(type) {
		case *kmeta.ConfigRecord:
			value := "deleted"
			if r.Value != nil {
				value = *r.Value
			}
			lines = append(lines, fmt.Sprintf("%d/%s %s: %s", r.ResourceType, r.ResourceName, r.Name, value))
		case *kmeta.ClearELRRecord:
			lines = append(lines, fmt.Sprintf("clear ELR of %q", r.TopicName))
		}
	}
	if len(recs) > 0 {
		s.replay(recs...)
	}
	return strings.Join(lines, "\n")
}

func (s *configStage) want(want string, changes ...configChange) {
	s.t.Helper()
	if got := s.decide(changes...); got != want {
		s.t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestIncrementalChangesOfATopic(t *testing.T) {
	s := newConfigStage(t)
	s.want("2/orders cleanup.policy: delete,compact", topic("orders", appendTo("cleanup.policy", "compact")))
	s.want("", topic("orders", appendTo("cleanup.policy", "compact")))
	s.want("2/orders cleanup.policy: compact", topic("orders", subtract("cleanup.policy", "delete")))
	s.want("2/orders cleanup.policy: ", topic("orders", subtract("cleanup.policy", "compact")))
	s.want("2/orders cleanup.policy: compact", topic("orders", appendTo("cleanup.policy", "compact")))
	s.want("40 Can't APPEND to key retention.ms because its type is not LIST.", topic("orders", appendTo("retention.ms", "5")))
	s.want("40 Can't SUBTRACT to key no.such because its type is not LIST.", topic("orders", subtract("no.such", "5")))
	s.want("40 Unknown topic config name: no.such", topic("orders", set("no.such", "5")))
	s.want("42 Error due to duplicate config keys", topic("orders", set("retention.ms", "5"), set("retention.ms", "6")))
	s.want("42 Null value not supported for : retention.ms, segment.ms", topic("orders", configOp{key: "retention.ms"}, configOp{key: "segment.ms"}))
	s.want("42 Unknown operation type 9 for config key: retention.ms", topic("orders", op("retention.ms", 9, "5")))
	s.want("", topic("orders", unset("segment.ms")))
	s.want("40 Invalid value x for configuration retention.ms: Not a number of type LONG\n2/bills retention.ms: 7777",
		topic("orders", set("retention.ms", "x")), topic("bills", set("retention.ms", "7777")))
	s.want("42 Each resource must appear at most once.\n42 Each resource must appear at most once.",
		topic("orders", set("retention.ms", "1")), topic("orders", set("segment.ms", "1")))
	s.want("2/bills retention.ms: deleted", topic("bills", unset("retention.ms")))
	s.want("3 The topic 'none' does not exist.", topic("none", set("retention.ms", "1")))
	s.want("17 Topic name is invalid: 'a/b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'", topic("a/b", set("retention.ms", "1")))
	s.want("42 Default topic resources are not allowed.", topic("", set("retention.ms", "1")))
	s.want("42 Unknown resource type 7", configChange{resource: 7, name: "orders"})
	s.want("40 The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes.",
		topic("orders", set("cleanup.policy", strings.Repeat("x", 32768))))
	if got := s.img.Configs(metadata.TopicResource, "orders")["cleanup.policy"]; got != "compact" {
		t.Errorf("in the end the policy is %q", got)
	}
}

// The limits of case LOG-14.
func TestLimitsOnSettings(t *testing.T) {
	s := newConfigStage(t)
	for _, kv := range []string{"segment.ms=0", "segment.bytes=1000", "retention.ms=-2", "cleanup.policy=foo", "min.insync.replicas=0", "max.message.bytes=-1"} {
		key, value, _ := strings.Cut(kv, "=")
		got := s.decide(topic("orders", set(key, value)))
		if !strings.HasPrefix(got, "40 Invalid value "+value+" for configuration "+key) {
			t.Errorf("%s: %s", kv, got)
		}
	}
}

func TestReplacingATopicsValues(t *testing.T) {
	s := newConfigStage(t)
	s.decide(topic("orders", set("retention.ms", "5"), set("segment.ms", "6"), set("flush.ms", "7")))
	replace := topic("orders", set("retention.ms", "5"), set("flush.ms", "8"))
	replace.whole = true
	s.want("2/orders flush.ms: 8\n2/orders segment.ms: deleted", replace)
	nothing := topic("orders")
	nothing.whole = true
	s.want("2/orders flush.ms: deleted\n2/orders retention.ms: deleted", nothing)
}

func TestChangesOfABroker(t *testing.T) {
	s := newConfigStage(t)
	broker := func(name string, ops ...configOp) configChange {
		return configChange{resource: metadata.BrokerResource, name: name, ops: ops}
	}
	s.want("4/1 log.cleaner.backoff.ms: 16000", broker("1", set("log.cleaner.backoff.ms", "16000")))
	s.want("4/ log.cleaner.backoff.ms: 17000", broker("", set("log.cleaner.backoff.ms", "17000")))
	s.want("4/1 my.own.key: 1", broker("1", set("my.own.key", "1")))
	s.want("42 Cannot update these configs dynamically: [node.id]", broker("1", set("node.id", "4")))
	s.want("42 Invalid value soon for configuration log.retention.ms: Not a number of type LONG", broker("", set("log.retention.ms", "soon")))
	s.want("42 Unexpected broker id, expected 1, but received 9", broker("9", set("log.retention.ms", "5")))
	s.want("42 Node id must be an integer, but it is: one", broker("one", set("log.retention.ms", "5")))
	s.want("40 Config value append is not allowed for config key: log.retention.ms", broker("1", appendTo("log.retention.ms", "5")))
	s.want("4/ log.cleanup.policy: delete,compact", broker("", appendTo("log.cleanup.policy", "compact")))
	s.want("40 Broker-level min.insync.replicas cannot be altered while ELR is enabled.", broker("1", set("min.insync.replicas", "2")))
	s.want("40 Cluster-level min.insync.replicas cannot be removed while ELR is enabled.", broker("", unset("min.insync.replicas")))
	s.want("4/ min.insync.replicas: 2\nclear ELR of \"\"", broker("", set("min.insync.replicas", "2")))
	s.want("2/orders min.insync.replicas: 3\nclear ELR of \"orders\"", topic("orders", set("min.insync.replicas", "3")))
	s.want("4/1 log.cleaner.backoff.ms: deleted\n4/1 my.own.key: deleted", broker("01", unset("log.cleaner.backoff.ms"), unset("my.own.key")))
	whole := broker("", set("log.cleanup.policy", "delete"))
	whole.whole = true
	s.want("40 Cluster-level min.insync.replicas cannot be removed while ELR is enabled.", whole)
	s.want("42 Unknown resource type 8", configChange{resource: 8, name: "1"})
	s.want("42 Dynamic thread count update validation failed for num.io.threads=99, value should not be greater than double the current value 8", broker("", set("num.io.threads", "99")))
}

func TestChangesOfGroupsAndClientMetrics(t *testing.T) {
	s := newConfigStage(t)
	group := func(name string, ops ...configOp) configChange {
		return configChange{resource: metadata.GroupResource, name: name, ops: ops}
	}
	metrics := func(name string, ops ...configOp) configChange {
		return configChange{resource: metadata.ClientMetricsResource, name: name, ops: ops}
	}
	s.want("32/g consumer.session.timeout.ms: 50000", group("g", set("consumer.session.timeout.ms", "50000")))
	s.want("40 Unknown group config name: frob", group("g", set("frob", "1")))
	s.want("40 consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms", group("g", set("consumer.session.timeout.ms", "1")))
	s.want("42 Default group resources are not allowed.", group("", set("consumer.session.timeout.ms", "50000")))
	s.want("16/m interval.ms: 10000", metrics("m", set("interval.ms", "10000")))
	s.want("42 Unknown client metrics configuration: frob", metrics("m", set("frob", "1")))
	s.want("42 Invalid value 1 for interval.ms, interval must be between 100 and 3600000 (1 hour)", metrics("m", set("interval.ms", "1")))
	s.want("40 Illegal client matching pattern: client_id=(", metrics("m", set("match", "client_id=(")))
	s.want("16/m interval.ms: deleted", metrics("m", unset("interval.ms"), unset("match")))
}

func TestAnswerOfAnInvalidValue(t *testing.T) {
	code, message := answer(fmt.Errorf("wrapped: %w", &config.InvalidError{Message: "no"}))
	if code != 40 || *message != "no" {
		t.Errorf("%d %s", code, *message)
	}
	if code, _ := answer(errors.New("disk")); code != -1 {
		t.Errorf("code %d", code)
	}
}
