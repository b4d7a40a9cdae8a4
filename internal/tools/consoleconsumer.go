package tools

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	consumerLogger = formatterPackage + "ConsoleConsumer"
	// protocolNotice is what Java's consumer says to whoever subscribes by the classic protocol.
	protocolNotice = "The consumer rebalance protocol (KIP-848) is production-ready! Set group.protocol=consumer to try it out. See https://kafka.apache.org/documentation/#consumer_rebalance_protocol"
	// pollMost is how many records are taken from the client at once.
	pollMost = 10000
)

// kafkaConsoleConsumer is kafka-console-consumer.
func kafkaConsoleConsumer(env Env, args []string) int {
	o, err := parseConsoleConsumer(env, args)
	if err != nil {
		if code, ended := endOfParsing(env, err); ended {
			return code
		}
		fmt.Fprintf(env.Stderr, "Exception in thread \"main\" %s\n", asJava(err).trace())
		return 1
	}
	code, err := consume(env, o)
	if err != nil {
		logLine(env.Stderr, "ERROR", "Unknown error when running consumer: ", consumerLogger, asJava(err))
		code = 1
	}
	if o.events {
		fmt.Fprintln(env.Stdout, "shutdown_complete")
	}
	return code
}

// consume runs a consumer and closes it. An error means that it could not be made, or that a record could not be shown.
func consume(env Env, o *consoleConsumerOptions) (code int, err error) {
	config, err := o.props.consumer(env.Stderr, "console-consumer")
	if err != nil {
		return 1, err
	}
	opts, err := o.subscription(config)
	if err != nil {
		return 1, err
	}
	cl, err := kgo.NewClient(append(config.opts, opts...)...)
	if err != nil {
		return 1, throw(kafkaException, "Failed to construct kafka consumer").because(err)
	}
	if o.partition < 0 && config.protocol == "classic" {
		fmt.Fprintln(env.Stderr, protocolNotice)
	}
	c := &consolePrinter{
		env: env, cl: cl, formatter: o.formatter, logger: consumerLogger, most: o.most, perPoll: pollMost, timeout: o.timeout,
		fatal: func(fetches kgo.Fetches) *javaError { return fetchFatal(o.group, fetches) },
		taken: func(kgo.Fetches) {},
		done: func(r *kgo.Record, _ bool) {
			if o.group != "" {
				cl.MarkCommitRecords(r)
			}
		},
	}
	if o.skipErrors {
		c.goOn = "skipping"
	}
	ctx, end := untilInterrupted(env)
	if config.resetNone && o.group == "" && o.partition < 0 {
		c.terminate(throw("org.apache.kafka.clients.consumer.NoOffsetForPartitionException", "Undefined offset with no reset policy for partitions of ["+o.topic+"]"))
	} else if e := refusedLogin(cl); e != nil {
		c.terminate(e)
	} else {
		err = c.run(ctx)
	}
	sig := end()
	if o.group != "" && config.autoCommit {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		if err := cl.CommitMarkedOffsets(withoutMetadata(ctx)); err != nil {
			logLine(env.Stderr, "ERROR", "The offsets could not be committed: ", consumerLogger, asJava(err))
		}
		cancel()
	}
	cl.Close()
	fmt.Fprintf(env.Stderr, "Processed a total of %d messages\n", c.count)
	if sig != nil {
		return signalCode(sig), nil
	}
	return 0, err
}

// fetchFatal returns the first error of a poll that will not pass by itself, nil if there is none.
func fetchFatal(group string, fetches kgo.Fetches) *javaError {
	for _, failed := range fetches.Errors() {
		if e := consumerFatal(group, failed.Topic, failed.Err); e != nil {
			return e
		}
	}
	return nil
}

// consumerFatal is what Java's consumer says of a broker's error that will not pass by itself, nil otherwise.
func consumerFatal(group, topic string, err error) *javaError {
	e, ok := errors.AsType[*kerr.Error](err)
	if !ok || e.Retriable {
		return nil
	}
	switch e.Code {
	case kerr.InvalidTopicException.Code:
		return throw(errorClass(e), "Invalid topics: ["+topic+"]")
	case kerr.TopicAuthorizationFailed.Code:
		return throw(errorClass(e), "Not authorized to access topics: ["+topic+"]")
	case kerr.GroupAuthorizationFailed.Code:
		return throw(errorClass(e), "Not authorized to access group: "+group)
	case kerr.OffsetOutOfRange.Code:
		return nil // a consumer begins anew by auto.offset.reset
	}
	return brokerError(e.Code, nil)
}

// subscription says what to read and from where: one partition, or all partitions of topics, with or without a group.
//
// Java's tool makes up a group when none is named. Without one the same records come, sooner, and nothing is left behind
// on the broker, so none is made up here.
func (o *consoleConsumerOptions) subscription(config *consumerConfig) ([]kgo.Opt, error) {
	if o.partition >= 0 {
		return []kgo.Opt{
			kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{o.topic: {int32(o.partition): o.offset}}),
			kgo.ConsumeResetOffset(config.reset),
		}, nil
	}
	opts := []kgo.Opt{kgo.ConsumeStartOffset(config.reset), kgo.ConsumeResetOffset(config.reset)}
	if o.include == "" {
		opts = append(opts, kgo.ConsumeTopics(o.topic))
	} else {
		re, err := compileJava(o.include)
		if err != nil {
			return nil, throw("java.util.regex.PatternSyntaxException", err.Error())
		}
		opts = append(opts, kgo.ConsumeRegex(), kgo.ConsumeTopics(re.String()),
			kgo.ConsumeExcludeTopics("^__consumer_offsets$", "^__transaction_state$", "^__share_group_state$"))
	}
	if o.group != "" {
		opts = append(opts, config.group(o.group)...)
	}
	return opts, nil
}

// forever is a timeout that does not come.
const forever = time.Duration(math.MaxInt64 / 2)
