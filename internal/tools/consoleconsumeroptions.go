package tools

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	consumerPurpose   = "This tool helps to read data from Kafka topics and outputs it to standard output."
	formatterDefaults = "Default properties include: \n" +
		" print.timestamp=true|false\n print.key=true|false\n print.offset=true|false\n print.epoch=true|false\n print.partition=true|false\n print.headers=true|false\n print.value=true|false\n" +
		" key.separator=<key.separator>\n line.separator=<line.separator>\n headers.separator=<headers.separator>\n null.literal=<null.literal>\n" +
		" key.deserializer=<key.deserializer>\n value.deserializer=<value.deserializer>\n header.deserializer=<header.deserializer>\n" +
		"\nUsers can also pass in customized properties for their formatter; more specifically, users can pass in properties keyed with 'key.deserializer.', 'value.deserializer.' and 'headers.deserializer.' prefixes to configure their deserializers."
)

func consoleConsumerParser() *joptParser {
	return newJopt(
		joptOption{name: "topic", arg: requiredArg, what: "topic", help: "The topic to consume from."},
		joptOption{name: "include", arg: requiredArg, what: "Java regex (String)", help: "Regular expression specifying list of topics to include for consumption."},
		joptOption{name: "partition", arg: requiredArg, typ: "Integer", what: "partition", help: "The partition to consume from. Consumption starts from the end of the partition unless '--offset' is specified."},
		joptOption{name: "offset", arg: requiredArg, what: "consume offset", def: "latest", help: "The offset to consume from (a non-negative number), or 'earliest' which means from beginning, or 'latest' which means from end"},
		joptOption{name: "consumer-property", arg: requiredArg, what: "consumer_prop", help: "(DEPRECATED) Consumer config properties in the form key=value. This option will be removed in a future version. Use --command-property instead."},
		joptOption{name: "command-property", arg: requiredArg, what: "consumer_prop", help: "Consumer config properties in the form key=value."},
		joptOption{name: "consumer.config", arg: requiredArg, what: "config file", help: "(DEPRECATED) Consumer config properties file. Note that [command-property] takes precedence over this config. This option will be removed in a future version. Use --command-config instead."},
		joptOption{name: "command-config", arg: requiredArg, what: "config file", help: "Consumer config properties file. Note that [command-property] takes precedence over this config."},
		joptOption{name: "formatter", arg: requiredArg, what: "class", def: formatterPackage + "DefaultMessageFormatter", help: "The name of a class to use for formatting kafka messages for display."},
		joptOption{name: "property", arg: requiredArg, what: "prop", help: "(DEPRECATED) The properties to initialize the message formatter. " + formatterDefaults + " \nThis option will be removed in a future version. Use --formatter-property instead."},
		joptOption{name: "formatter-property", arg: requiredArg, what: "prop", help: "The properties to initialize the message formatter. " + formatterDefaults},
		joptOption{name: "formatter-config", arg: requiredArg, what: "config file", help: "Config properties file to initialize the message formatter. Note that [formatter-property] takes precedence over this config."},
		joptOption{name: "from-beginning", help: "If the consumer does not already have an established offset to consume from, start with the earliest message present in the log rather than the latest message."},
		joptOption{name: "max-messages", arg: requiredArg, typ: "Integer", what: "num_messages", help: "The maximum number of messages to consume before exiting. If not set, consumption is continual."},
		joptOption{name: "timeout-ms", arg: requiredArg, typ: "Long", what: "timeout_ms", help: "If specified, exit if no message is available for consumption for the specified interval."},
		joptOption{name: "skip-message-on-error", help: "If there is an error when processing a message, skip it instead of halt."},
		joptOption{name: "bootstrap-server", arg: requiredArg, what: "server to connect to", help: "REQUIRED: The server(s) to connect to."},
		joptOption{name: "key-deserializer", arg: requiredArg, what: "deserializer for keys", help: "The name of the class to use for deserializing keys."},
		joptOption{name: "value-deserializer", arg: requiredArg, what: "deserializer for values", help: "The name of the class to use for deserializing values."},
		joptOption{name: "enable-systest-events", help: "Log lifecycle events of the consumer in addition to logging consumed messages. (This is specific for system tests.)"},
		joptOption{name: "isolation-level", arg: requiredArg, def: "read_uncommitted", help: "Set to read_committed in order to filter out transactional messages which are not committed. Set to read_uncommitted to read all messages."},
		joptOption{name: "group", arg: requiredArg, what: "consumer group id", help: "The consumer group id of the consumer."},
	)
}

// consoleConsumerOptions is a command line that was accepted.
type consoleConsumerOptions struct {
	topic, include string     // one of the two
	partition      int64      // -1: all
	offset         kgo.Offset // where to begin in the one partition
	group          string     // "": none
	props          clientConfig
	formatter      formatter
	most           int64 // messages; -1: without end
	timeout        time.Duration
	skipErrors     bool
	events         bool
}

func parseConsoleConsumer(env Env, args []string) (*consoleConsumerOptions, error) {
	parser := consoleConsumerParser()
	set, err := parser.parse(args)
	if err != nil {
		return nil, parser.usage("%s", err)
	}
	if err := set.helpOrVersion(env, args, consumerPurpose); err != nil {
		return nil, err
	}
	o := &consoleConsumerOptions{partition: -1, most: -1, timeout: forever, skipErrors: set.has("skip-message-on-error"), events: set.has("enable-systest-events")}
	if err := o.parseWhat(set); err != nil {
		return nil, err
	}
	used, err := set.renamed(env, "Options --%[2]s and --%[1]s cannot be specified together.",
		"Option --%s is deprecated and will be removed in a future version. Use --%s instead.",
		renamedOption{"command-property", "consumer-property"}, renamedOption{"command-config", "consumer.config"})
	if err != nil {
		return nil, err
	}
	fromFile, err := set.properties(used["command-config"])
	if err != nil {
		return nil, err
	}
	given := clientConfig{}
	given.addPairs(set.all(used["command-property"]))
	if err := o.parseGroup(set, fromFile, given); err != nil {
		return nil, err
	}
	if err := o.parseProps(env, set, fromFile, given); err != nil {
		return nil, err
	}
	if o.offset, err = parseStart(set); err != nil {
		return nil, err
	}
	timeout, ok, err := set.number("timeout-ms")
	if err != nil {
		return nil, err
	}
	if ok && timeout >= 0 {
		o.timeout = min(time.Duration(min(timeout, maxMillis))*time.Millisecond, forever)
	}
	if err := o.parseFormatter(env, set); err != nil {
		return nil, err
	}
	if most, ok, err := set.number("max-messages"); err != nil {
		return nil, err
	} else if ok {
		o.most = most
	}
	return o, nil
}

// parseWhat reads which topics and partition to consume.
func (o *consoleConsumerOptions) parseWhat(set *joptSet) error {
	if err := set.oneOf("topic", "include"); err != nil {
		return err
	}
	number, ok, err := set.number("partition")
	switch {
	case err != nil:
		return err
	case ok && !set.has("topic"):
		return set.parser.usage("The topic is required when partition is specified.")
	case ok && set.has("from-beginning") && set.has("offset"):
		return set.parser.usage("Options from-beginning and offset cannot be specified together.")
	case ok && number < 0:
		return throw(illegalArgument, "Topic partition number must not be negative, but was "+strconv.FormatInt(number, 10))
	case ok:
		o.partition = number
	case set.has("offset"):
		return set.parser.usage("The partition is required when offset is specified.")
	}
	if err := set.require("bootstrap-server"); err != nil {
		return err
	}
	if o.topic, _, err = set.text("topic"); err != nil {
		return err
	}
	o.include, _, err = set.text("include")
	return err
}

// parseGroup reads the group, which may be named in three places, but not differently.
func (o *consoleConsumerOptions) parseGroup(set *joptSet, fromFile, given clientConfig) error {
	group, ok, err := set.text("group")
	if err != nil {
		return err
	}
	var named []string
	add := func(id string, ok bool) {
		if ok && !slices.Contains(named, id) {
			named = append(named, id)
		}
	}
	add(group, ok)
	add(fromFile["group.id"], has(fromFile, "group.id"))
	add(given["group.id"], has(given, "group.id"))
	switch {
	case len(named) > 1:
		for i := range named {
			named[i] = "'" + named[i] + "'"
		}
		slices.Sort(named)
		return set.parser.usage("The group ids provided in different places (directly using '--group', via '--consumer-property', or via '--consumer.config') do not match. Detected group ids: %s", strings.Join(named, ", "))
	case len(named) == 1 && o.partition >= 0:
		return set.parser.usage("Options group and partition cannot be specified together.")
	case len(named) == 1:
		o.group = named[0]
	}
	return nil
}

// parseProps puts the consumer's properties together.
func (o *consoleConsumerOptions) parseProps(env Env, set *joptSet, fromFile, given clientConfig) error {
	o.props = fromFile
	for key, value := range given {
		o.props[key] = value
	}
	reset, ok := o.props["auto.offset.reset"]
	switch {
	case ok && set.has("from-beginning") && reset != "earliest":
		fmt.Fprintf(env.Stderr, "Can't simultaneously specify --from-beginning and 'auto.offset.reset=%s', please remove one option\n", reset)
		return &exitError{1}
	case !ok && set.has("from-beginning"):
		o.props["auto.offset.reset"] = "earliest"
	case !ok:
		o.props["auto.offset.reset"] = "latest"
	}
	servers, _, err := set.text("bootstrap-server")
	if err != nil {
		return err
	}
	o.props["bootstrap.servers"] = servers
	return set.mergeFlag(o.props, "isolation.level", "isolation-level")
}

// parseStart reads where to begin in the one partition.
func parseStart(set *joptSet) (kgo.Offset, error) {
	start := kgo.NewOffset()
	if !set.has("offset") {
		if set.has("from-beginning") {
			return start.AtStart(), nil
		}
		return start.AtEnd(), nil
	}
	text, _, err := set.text("offset")
	if err != nil {
		return start, err
	}
	switch strings.ToLower(text) {
	case "earliest":
		return start.AtStart(), nil
	case "latest":
		return start.AtEnd(), nil
	}
	at, err := strconv.ParseInt(text, 10, 64)
	if err != nil || at < 0 {
		return start, set.parser.usage("The provided offset value '%s' is incorrect. Valid values are 'earliest', 'latest', or a non-negative long.", text)
	}
	return start.At(at), nil
}

// parseFormatter makes the formatter. Whatever is wrong with it is a usage error.
func (o *consoleConsumerOptions) parseFormatter(env Env, set *joptSet) error {
	class, _, err := set.text("formatter")
	if err != nil {
		return set.parser.usage("%s", err)
	}
	if _, err := newFormatter(env.Stderr, class, nil); err != nil {
		return set.parser.usage("%s", asJava(err).text())
	}
	used, err := set.renamed(env, "Options --%[2]s and --%[1]s cannot be specified together.",
		"Option --%s is deprecated and will be removed in a future version. Use --%s instead.", renamedOption{"formatter-property", "property"})
	if err != nil {
		return err
	}
	props, err := set.properties("formatter-config")
	if err != nil {
		return set.parser.usage("%s", asJava(err).text())
	}
	for _, d := range [][2]string{{"key-deserializer", "key.deserializer"}, {"value-deserializer", "value.deserializer"}} {
		class, ok, err := set.text(d[0])
		if err != nil {
			return set.parser.usage("%s", err)
		}
		if ok && class != "" {
			props[d[1]] = class
		}
	}
	props.addPairs(set.all(used["formatter-property"]))
	o.formatter, err = newFormatter(env.Stderr, class, props)
	return err
}
