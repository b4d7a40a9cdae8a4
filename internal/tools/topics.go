package tools

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quire-log/quire/internal/config"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const topicsLogger = "org.apache.kafka.tools.TopicCommand"

// The words of kafka-topics that stand in more than one place.
const (
	topicsPurpose   = "This tool helps to create, delete, describe, or change a topic."
	useKafkaConfigs = " (To alter topic configurations, the kafka-configs tool can be used.)"
)

// topicsParser is the command line of kafka-topics.
func topicsParser() *joptParser {
	var keys strings.Builder
	for _, o := range config.Topic() {
		if !o.Internal && !o.Own {
			keys.WriteString("\t" + o.Key + "\n")
		}
	}
	return newJopt(
		joptOption{name: "bootstrap-server", arg: requiredArg, what: "server to connect to", help: "REQUIRED: The Kafka server to connect to."},
		joptOption{name: "command-config", arg: requiredArg, what: "command config property file", help: "Property file containing configs to be passed to Admin Client."},
		joptOption{name: "list", help: "List all available topics."},
		joptOption{name: "create", help: "Create a new topic."},
		joptOption{name: "delete", help: "Delete a topic."},
		joptOption{name: "alter", help: "Alter the number of partitions and replica assignment." + useKafkaConfigs},
		joptOption{name: "describe", help: "List details for the given topics."},
		joptOption{name: "topic", arg: requiredArg, what: "topic", help: "The topic to create, alter, describe or delete. It also accepts a regular expression, except for --create option."},
		joptOption{name: "topic-id", arg: requiredArg, what: "topic-id", help: "The topic-id to describe."},
		joptOption{name: "config", arg: requiredArg, what: "name=value", help: "A topic configuration override for the topic being created. The following is a list of valid configurations: \n" +
			keys.String() + "See the Kafka documentation for full details on the topic configs. It is supported only in combination with --create." + useKafkaConfigs},
		joptOption{name: "delete-config", arg: requiredArg, what: "name", help: "This option is no longer supported and has been deprecated since 4.0"},
		joptOption{name: "partitions", arg: requiredArg, typ: "Integer", what: "# of partitions", help: "The number of partitions for the topic being created or altered. If not supplied with --create, the topic uses the cluster default. " +
			"(WARNING: If partitions are increased for a topic that has a key, the partition logic or ordering of the messages will be affected)."},
		joptOption{name: "replication-factor", arg: requiredArg, typ: "Integer", what: "replication factor", help: "The replication factor for each partition in the topic being created. If not supplied, the topic uses the cluster default."},
		joptOption{name: "replica-assignment", arg: requiredArg, what: "broker_id_for_part1_replica1 : broker_id_for_part1_replica2 , broker_id_for_part2_replica1 : broker_id_for_part2_replica2 , ...",
			help: "A list of manual partition-to-broker assignments for the topic being created or altered."},
		joptOption{name: "under-replicated-partitions", help: "If set when describing topics, only show under-replicated partitions."},
		joptOption{name: "unavailable-partitions", help: "If set when describing topics, only show partitions whose leader is not available."},
		joptOption{name: "under-min-isr-partitions", help: "If set when describing topics, only show partitions whose isr count is less than the configured minimum."},
		joptOption{name: "at-min-isr-partitions", help: "If set when describing topics, only show partitions whose isr count is equal to the configured minimum."},
		joptOption{name: "topics-with-overrides", help: "If set when describing topics, only show topics that have overridden configs."},
		joptOption{name: "if-exists", help: "If set when altering or deleting or describing topics, the action will only execute if the topic exists."},
		joptOption{name: "if-not-exists", help: "If set when creating topics, the create request will not fail if the topic already exists, but the request will still be sent."},
		joptOption{name: "exclude-internal", help: "Exclude internal topics when listing or describing topics. By default, the internal topics are included."},
		joptOption{name: "partition-size-limit-per-response", arg: requiredArg, typ: "Integer", what: "maximum number of partitions per response",
			help: "The maximum partition size to be included in one DescribeTopicPartitions response."},
	)
}

// kafkaTopics is kafka-topics.
func kafkaTopics(env Env, args []string) int {
	set, err := parseTopics(env, args)
	if err == nil {
		var t *topicsCommand
		if t, err = newTopicsCommand(env, set); err == nil {
			defer t.close()
			return t.report(t.run())
		}
	}
	return topicsEnd(env, err)
}

// topicsEnd reports what went wrong before the tool had a client: the message twice, and a stack trace that we do not have.
func topicsEnd(env Env, err error) int {
	if code, ended := endOfParsing(env, err); ended {
		return code
	}
	e := asJava(err)
	fmt.Fprintf(env.Stderr, "%s\n%s\n\n", e.text(), e.trace())
	return 1
}

// topicActions are the options of which there must be exactly one.
var topicActions = []string{"alter", "create", "describe", "list", "delete"}

func parseTopics(env Env, args []string) (*joptSet, error) {
	parser := topicsParser()
	set, err := parser.parse(args)
	if err != nil {
		return nil, err
	}
	if len(args) == 0 {
		return nil, parser.usage("Create, delete, describe, or change a topic.")
	}
	if err := set.helpOrVersion(env, args, topicsPurpose); err != nil {
		return nil, err
	}
	actions := 0
	for _, action := range topicActions {
		if set.has(action) {
			actions++
		}
	}
	if actions != 1 {
		return nil, parser.usage("Command must include exactly one action: --list, --describe, --create, --alter or --delete")
	}
	if set.has("delete-config") {
		fmt.Fprintln(env.Stderr, "delete-config option is no longer supported and deprecated since version 4.0. The config will be fully removed in future releases.")
	}
	if err := requireForTopics(env, set); err != nil {
		return nil, err
	}
	return set, conflictsOfTopics(set)
}

func requireForTopics(env Env, set *joptSet) error {
	if !set.has("bootstrap-server") {
		return throw(illegalArgument, "--bootstrap-server must be specified")
	}
	if set.has("describe") && set.has("if-exists") {
		switch {
		case !set.has("topic") && !set.has("topic-id"):
			return set.parser.usage("--topic or --topic-id is required to describe a topic")
		case set.has("topic") && set.has("topic-id"):
			fmt.Fprintln(env.Stdout, "Only topic id will be used when both --topic and --topic-id are specified and topicId is not Uuid.ZERO_UUID")
		}
	}
	if !set.has("list") && !set.has("describe") {
		if err := set.require("topic"); err != nil {
			return err
		}
	}
	if set.has("alter") {
		if set.has("config") {
			return set.parser.usage(`Option combination "[[bootstrap-server], [config]]" can't be used with option "[alter]"%s`, useKafkaConfigs)
		}
		return set.require("partitions")
	}
	return nil
}

// conflictsOfTopics refuses options that do not belong to the action.
func conflictsOfTopics(set *joptSet) error {
	reports := []string{"under-replicated-partitions", "under-min-isr-partitions", "at-min-isr-partitions", "unavailable-partitions"}
	rows := []struct {
		option  string
		actions []string // that it belongs to
		others  []string // that it cannot stand beside
	}{
		{"config", []string{"alter", "create"}, nil},
		{"partitions", []string{"alter", "create"}, nil},
		{"replication-factor", []string{"create"}, nil},
		{"replica-assignment", []string{"alter", "create"}, nil},
		{"under-replicated-partitions", []string{"describe"}, []string{"topics-with-overrides"}},
		{"under-min-isr-partitions", []string{"describe"}, []string{"topics-with-overrides"}},
		{"at-min-isr-partitions", []string{"describe"}, []string{"topics-with-overrides"}},
		{"unavailable-partitions", []string{"describe"}, []string{"topics-with-overrides"}},
		{"topics-with-overrides", []string{"describe"}, reports},
		{"if-exists", []string{"alter", "delete", "describe"}, nil},
		{"if-not-exists", []string{"create"}, nil},
		{"exclude-internal", []string{"list", "describe"}, nil},
	}
	for _, row := range rows {
		var refused []string
		for _, action := range topicActions {
			if !slices.Contains(row.actions, action) {
				refused = append(refused, action)
			}
		}
		if err := set.conflict(row.option, append(refused, row.others...)...); err != nil {
			return err
		}
		if row.option == "replica-assignment" && set.has("create") {
			if err := set.conflict("replica-assignment", "partitions", "replication-factor"); err != nil {
				return err
			}
		}
	}
	return nil
}

// topicsCommand is one call of the tool, with its client.
type topicsCommand struct {
	*admin
	env Env
	set *joptSet
}

func newTopicsCommand(env Env, set *joptSet) (*topicsCommand, error) {
	props, err := set.properties("command-config")
	if err != nil {
		return nil, err
	}
	servers, _, err := set.text("bootstrap-server")
	if err != nil {
		return nil, err
	}
	props["bootstrap.servers"] = servers
	client, err := newAdmin(env, props, "adminclient-1")
	if err != nil {
		return nil, err
	}
	return &topicsCommand{client, env, set}, nil
}

// report tells an error of the work itself. It returns the exit code.
func (t *topicsCommand) report(err error) int {
	if err == nil {
		return 0
	}
	e := asJava(err)
	fmt.Fprintf(t.env.Stdout, "Error while executing topic command : %s\n", e.text())
	logLine(t.env.Stderr, "ERROR", e.trace()+"\n", topicsLogger, nil)
	return 1
}

func (t *topicsCommand) run() error {
	switch {
	case t.set.has("create"):
		return t.create()
	case t.set.has("alter"):
		return t.alter()
	case t.set.has("list"):
		return t.list()
	case t.set.has("describe"):
		return t.describe()
	}
	return t.delete()
}

// names returns the topics that --topic matches, sorted, or all.
func (t *topicsCommand) names() ([]string, error) {
	pattern, hasPattern, err := t.set.text("topic")
	if err != nil {
		return nil, err
	}
	resp, err := t.metadata("listTopics", nil)
	if err != nil {
		return nil, err
	}
	allows := func(string) bool { return true }
	if hasPattern || t.set.has("topic") {
		filter, err := newTopicFilter(pattern)
		if err != nil {
			return nil, err
		}
		allows = filter.allows
	}
	var names []string
	for _, topic := range resp.Topics {
		name := *topic.Topic
		if t.set.has("exclude-internal") && (topic.IsInternal || isInternal(name)) {
			continue
		}
		if allows(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// mustExist complains when --topic was given and nothing found.
func (t *topicsCommand) mustExist(found []string) error {
	wanted, ok, _ := t.set.text("topic")
	if len(found) > 0 || !ok || wanted == "" || t.set.has("if-exists") {
		return nil
	}
	return throw(illegalArgument, fmt.Sprintf("Topic '%s' does not exist as expected", wanted))
}

func (t *topicsCommand) list() error {
	names, err := t.names()
	if err != nil {
		return err
	}
	fmt.Fprintln(t.env.Stdout, strings.Join(names, "\n"))
	return nil
}

func (t *topicsCommand) delete() error {
	names, err := t.names()
	if err != nil {
		return err
	}
	if err := t.mustExist(names); err != nil || len(names) == 0 {
		return err
	}
	failed, err := t.deleteTopics(names)
	if err == nil && len(failed) > 0 {
		err = failed[0].err
	}
	return err
}

// A spared is a topic that was not deleted.
type spared struct {
	topic string
	err   *javaError
}

// deleteTopics deletes topics, and returns those that are still there.
func (a *admin) deleteTopics(names []string) ([]spared, error) {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = a.timeoutMillis()
	req.TopicNames = names
	for _, name := range names {
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.Topic = &name
		req.Topics = append(req.Topics, topic)
	}
	resp, err := call[*kmsg.DeleteTopicsResponse](a, "deleteTopics", req)
	if err != nil {
		return nil, err
	}
	var failed []spared
	for _, topic := range resp.Topics {
		if e := brokerError(topic.ErrorCode, topic.ErrorMessage); e != nil {
			failed = append(failed, spared{orNull(topic.Topic), e})
		}
	}
	return failed, nil
}

// timeoutMillis is how long the broker may take over a change.
func (a *admin) timeoutMillis() int32 { return int32(a.reqTimeout.Milliseconds()) }
