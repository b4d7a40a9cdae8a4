package tools

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	shareConsumerPurpose = "This tool helps to read data from Kafka topics using share groups and outputs it to standard output."
	shareConsumerLogger  = formatterPackage + "ConsoleShareConsumer"
	// shareGroupDefault is the group of those who name none.
	shareGroupDefault = "console-share-consumer"
)

func consoleShareParser() *joptParser {
	defaults := strings.Replace(formatterDefaults, " print.offset=true|false\n", " print.offset=true|false\n print.delivery=true|false\n", 1)
	return newJopt(
		joptOption{name: "topic", arg: requiredArg, what: "topic", help: "The topic to consume from."},
		joptOption{name: "consumer-property", arg: requiredArg, what: "consumer_prop", help: "(DEPRECATED) Consumer config properties in the form key=value. This option will be removed in a future version. Use --command-property instead."},
		joptOption{name: "command-property", arg: requiredArg, what: "consumer_prop", help: "Consumer config properties in the form key=value."},
		joptOption{name: "consumer-config", arg: requiredArg, what: "config file", help: "(DEPRECATED) Consumer config properties file. Note that [command-property] takes precedence over this config. This option will be removed in a future version. Use --command-config instead."},
		joptOption{name: "command-config", arg: requiredArg, what: "config file", help: "Consumer config properties file. Note that [command-property] takes precedence over this config."},
		joptOption{name: "formatter", arg: requiredArg, what: "class", def: formatterPackage + "DefaultMessageFormatter", help: "The name of a class to use for formatting Kafka messages for display."},
		joptOption{name: "property", arg: requiredArg, what: "prop", help: "(DEPRECATED) The properties to initialize the message formatter. " + defaults + " \nThis option will be removed in a future version. Use --formatter-property instead."},
		joptOption{name: "formatter-property", arg: requiredArg, what: "prop", help: "The properties to initialize the message formatter. " + defaults},
		joptOption{name: "formatter-config", arg: requiredArg, what: "config file", help: "Config properties file to initialize the message formatter. Note that [formatter-property] takes precedence over this config."},
		joptOption{name: "max-messages", arg: requiredArg, typ: "Integer", what: "num_messages", help: "The maximum number of messages to consume before exiting. If not set, consumption is continual."},
		joptOption{name: "timeout-ms", arg: requiredArg, typ: "Integer", what: "timeout_ms", help: "If specified, exit if no message is available for consumption for the specified interval."},
		joptOption{name: "reject", help: "If specified, messages are rejected as they are consumed."},
		joptOption{name: "release", help: "If specified, messages are released as they are consumed."},
		joptOption{name: "reject-message-on-error", help: "If there is an error when processing a message, reject it instead of halting."},
		joptOption{name: "bootstrap-server", arg: requiredArg, what: "server to connect to", help: "REQUIRED: The server(s) to connect to."},
		joptOption{name: "key-deserializer", arg: requiredArg, what: "deserializer for keys", help: "The name of the class to use for deserializing keys."},
		joptOption{name: "value-deserializer", arg: requiredArg, what: "deserializer for values", help: "The name of the class to use for deserializing values."},
		joptOption{name: "enable-systest-events", help: "Log lifecycle events of the share consumer in addition to logging consumed messages. (This is specific for system tests.)"},
		joptOption{name: "group", arg: requiredArg, what: "share group id", help: "The share group id of the consumer."},
	)
}

// consoleShareOptions is a command line that was accepted.
type consoleShareOptions struct {
	topic, group string
	props        clientConfig
	formatter    formatter
	most         int64 // messages; -1: without end
	timeout      time.Duration
	ack          kgo.AckStatus // of what was printed
	rejectErrors bool
	events       bool
}

func parseConsoleShare(env Env, args []string) (*consoleShareOptions, error) {
	parser := consoleShareParser()
	set, err := parser.parse(args)
	if err != nil {
		return nil, parser.usage("%s", err)
	}
	if err := set.helpOrVersion(env, args, shareConsumerPurpose); err != nil {
		return nil, err
	}
	if err := set.require("topic", "bootstrap-server"); err != nil {
		return nil, err
	}
	if set.has("reject") && set.has("release") {
		return nil, parser.usage("At most one of --reject and --release may be specified.")
	}
	o := &consoleShareOptions{most: -1, timeout: forever, ack: kgo.AckAccept, rejectErrors: set.has("reject-message-on-error"), events: set.has("enable-systest-events")}
	switch {
	case set.has("reject"):
		o.ack = kgo.AckReject
	case set.has("release"):
		o.ack = kgo.AckRelease
	}
	if o.topic, _, err = set.text("topic"); err != nil {
		return nil, err
	}
	used, err := set.renamed(env, "Options --%[2]s and --%[1]s cannot be specified together.",
		"Option --%s is deprecated and will be removed in a future version. Use --%s instead.",
		renamedOption{"command-property", "consumer-property"}, renamedOption{"command-config", "consumer-config"})
	if err != nil {
		return nil, err
	}
	if o.props, err = set.properties(used["command-config"]); err != nil {
		return nil, err
	}
	given := clientConfig{}
	given.addPairs(set.all(used["command-property"]))
	if err := o.parseGroup(set, given); err != nil {
		return nil, err
	}
	for key, value := range given {
		o.props[key] = value
	}
	if o.props["bootstrap.servers"], _, err = set.text("bootstrap-server"); err != nil {
		return nil, err
	}
	delete(o.props, "auto.offset.reset") // the group's own, not a member's
	var console consoleConsumerOptions
	if err := console.parseFormatter(env, set); err != nil {
		return nil, err
	}
	o.formatter = console.formatter
	if most, ok, err := set.number("max-messages"); err != nil {
		return nil, err
	} else if ok {
		o.most = most
	}
	if timeout, ok, err := set.number("timeout-ms"); err != nil {
		return nil, err
	} else if ok && timeout >= 0 {
		o.timeout = time.Duration(timeout) * time.Millisecond
	}
	return o, nil
}

// parseGroup reads the group, which may be named in three places, but not differently.
func (o *consoleShareOptions) parseGroup(set *joptSet, given clientConfig) error {
	group, ok, err := set.text("group")
	if err != nil {
		return err
	}
	var named []string
	for _, id := range []struct {
		text string
		ok   bool
	}{{group, ok}, {o.props["group.id"], has(o.props, "group.id")}, {given["group.id"], has(given, "group.id")}} {
		if quoted := "'" + id.text + "'"; id.ok && !slices.Contains(named, quoted) {
			named = append(named, quoted)
			o.group = id.text
		}
	}
	slices.Sort(named)
	switch len(named) {
	case 0:
		o.group = shareGroupDefault
	case 1:
	default:
		return set.parser.usage("The group ids provided in different places (directly using '--group', via '--consumer-property', or via '--consumer-config') do not match. Detected group ids: %s", strings.Join(named, ", "))
	}
	return nil
}

// kafkaConsoleShareConsumer is kafka-console-share-consumer.
func kafkaConsoleShareConsumer(env Env, args []string) int {
	o, err := parseConsoleShare(env, args)
	if err != nil {
		return uncaught(env, err)
	}
	code, err := consumeShare(env, o)
	if err != nil {
		logLine(env.Stderr, "ERROR", "Unknown error when running consumer: ", shareConsumerLogger, asJava(err))
		code = 1
	}
	if o.events {
		fmt.Fprintln(env.Stdout, "shutdown_complete")
	}
	return code
}

// shareOptions make a member of a share group.
func shareOptions(config *consumerConfig, group, topic string) []kgo.Opt {
	return append(config.opts, kgo.ShareGroup(group), kgo.ConsumeTopics(topic), kgo.ShareMaxRecords(javaMaxPoll))
}

// consumeShare runs a member and closes it. An error means that it could not be made, or that a record could not be shown.
func consumeShare(env Env, o *consoleShareOptions) (code int, err error) {
	config, err := o.props.consumer(env.Stderr, "console-share-consumer")
	if err != nil {
		return 1, err
	}
	config.dial.kind = "ShareConsumer"
	config.dial.clientID += ", groupId=" + o.group
	cl, err := kgo.NewClient(shareOptions(config, o.group, o.topic)...)
	if err != nil {
		return 1, throw(kafkaException, "Failed to construct Kafka share consumer").because(err)
	}
	c := &consolePrinter{
		env: env, cl: cl, formatter: o.formatter, logger: shareConsumerLogger, most: o.most, perPoll: javaMaxPoll, timeout: o.timeout,
		fatal: func(fetches kgo.Fetches) *javaError { return fatalOfShare(fetches, o.group) },
		done: func(r *kgo.Record, refused bool) {
			switch {
			case !refused:
				r.Ack(o.ack)
			case o.rejectErrors:
				r.Ack(kgo.AckReject)
			}
		},
	}
	c.taken = func(fetches kgo.Fetches) {
		if c.most >= 0 && c.count+int64(fetches.NumRecords()) >= c.most {
			// What is acknowledged goes out with the next fetch, and what was released would come with its answer, to be released
			// once more: a delivery that nobody saw.
			cl.PauseFetchTopics(o.topic)
		}
	}
	if o.rejectErrors {
		c.goOn = "rejecting"
	}
	ctx, end := untilInterrupted(env)
	if e := refusedLogin(cl); e != nil {
		c.terminate(e)
	} else {
		err = c.run(ctx)
	}
	sig := end()
	leaveShare(cl, config.dial.reached.Load())
	fmt.Fprintf(env.Stderr, "Processed a total of %d messages\n", c.count)
	if sig != nil {
		return signalCode(sig), nil
	}
	return 0, err
}

// leaveShare leaves the group, if there is anybody to tell. The sessions with brokers end with what was acknowledged; all else is
// delivered anew.
func leaveShare(cl *kgo.Client, reached bool) {
	if reached {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		_ = cl.LeaveGroupContext(ctx)
		cancel()
	}
	cl.Close()
}

// shareUnsupported is what Java's member says to brokers without share groups.
func shareUnsupported() *javaError {
	return throw(kafkaErrors+"UnsupportedVersionException", "The cluster does not support the share group protocol using ShareGroupHeartbeat API version 1 or later. This version of the API was introduced in Apache Kafka v4.1.").
		because(throw(kafkaErrors+"UnsupportedVersionException", "The node does not support SHARE_GROUP_HEARTBEAT"))
}

// fatalOfShare returns the error of a fetch that will not pass by itself: the broker serves no share groups, or not this user.
func fatalOfShare(fetches kgo.Fetches, group string) *javaError {
	for _, failed := range fetches.Errors() {
		e, ok := errors.AsType[*kerr.Error](failed.Err)
		switch {
		case !ok && strings.Contains(failed.Err.Error(), "broker does not support") || !ok && strings.Contains(failed.Err.Error(), "too old"):
			return shareUnsupported()
		case !ok || e.Retriable:
		case e.Code == kerr.GroupAuthorizationFailed.Code:
			return throw(errorClass(e), "Not authorized to access group: "+group)
		case e.Code == kerr.TopicAuthorizationFailed.Code:
			return throw(errorClass(e), "Not authorized to access topics: ["+failed.Topic+"]")
		default:
			return brokerError(e.Code, nil)
		}
	}
	return nil
}
