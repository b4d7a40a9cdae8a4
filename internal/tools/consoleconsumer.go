package tools

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	consumerLogger = formatterPackage + "ConsoleConsumer"
	// protocolNotice is what Java's consumer says to whoever subscribes by the classic protocol.
	protocolNotice = "The consumer rebalance protocol (KIP-848) is production-ready! Set group.protocol=consumer to try it out. See https://kafka.apache.org/documentation/#consumer_rebalance_protocol"
	// pollMost is how many records are taken from the client at once, and how many are printed before output is flushed.
	pollMost = 10000
	// idleAfterError keeps a cluster that is away from being asked in a tight loop.
	idleAfterError = 50 * time.Millisecond
	// closeTimeout bounds the commit and the leave at the end.
	closeTimeout = 10 * time.Second
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

// consoleConsumer prints records until it has enough, waits too long, or is interrupted. All of it runs on its caller's goroutine,
// but for one that turns a signal into the end of ctx, and ends with it.
type consoleConsumer struct {
	env   Env
	o     *consoleConsumerOptions
	cl    *kgo.Client
	out   *bufio.Writer
	count int64
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
	ctx, cancel := context.WithCancel(context.Background())
	interrupted := make(chan os.Signal, 1)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case sig := <-env.interrupted():
			interrupted <- sig
			cancel()
		case <-ctx.Done():
		}
	}()
	c := &consoleConsumer{env: env, o: o, cl: cl, out: bufio.NewWriterSize(env.Stdout, 64<<10)}
	err = c.run(ctx, config)
	c.out.Flush()
	cancel()
	<-watched
	c.close(config)
	fmt.Fprintf(env.Stderr, "Processed a total of %d messages\n", c.count)
	select {
	case sig := <-interrupted:
		return signalCode(sig), nil
	default:
	}
	return 0, err
}

func (c *consoleConsumer) close(config *consumerConfig) {
	if c.o.group != "" && config.autoCommit {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		if err := c.cl.CommitMarkedOffsets(withoutMetadata(ctx)); err != nil {
			logLine(c.env.Stderr, "ERROR", "The offsets could not be committed: ", consumerLogger, asJava(err))
		}
		cancel()
	}
	c.cl.Close()
}

// run polls and prints. Its error is that of a record that cannot be shown; whatever else ends it is logged.
func (c *consoleConsumer) run(ctx context.Context, config *consumerConfig) error {
	terminate := func(e *javaError) {
		c.out.Flush()
		logLine(c.env.Stderr, "ERROR", "Error processing message, terminating consumer process: ", consumerLogger, e)
	}
	if config.resetNone && c.o.group == "" && c.o.partition < 0 {
		terminate(throw("org.apache.kafka.clients.consumer.NoOffsetForPartitionException", "Undefined offset with no reset policy for partitions of ["+c.o.topic+"]"))
		return nil
	}
	deadline := time.Now().Add(c.o.timeout)
	for c.o.most < 0 || c.count < c.o.most {
		want := int64(pollMost)
		if c.o.most >= 0 {
			want = min(want, c.o.most-c.count)
		}
		poll, cancel := context.WithDeadline(ctx, deadline)
		fetches := c.cl.PollRecords(poll, int(want))
		late := poll.Err() != nil
		cancel()
		stop, err := c.print(fetches)
		if err != nil || stop {
			return err
		}
		if fetches.NumRecords() > 0 {
			deadline = time.Now().Add(c.o.timeout)
		}
		fatal := fetchFatal(c.o.group, fetches)
		switch {
		case ctx.Err() != nil:
			return nil
		case fatal != nil:
			terminate(fatal)
			return nil
		case fetches.NumRecords() > 0:
		case late:
			terminate(throw(kafkaErrors+"TimeoutException", ""))
			return nil
		case fetches.Err() != nil:
			time.Sleep(idleAfterError)
		}
	}
	return nil
}

// print shows records and marks them as done. stop says that nobody reads the output any more.
func (c *consoleConsumer) print(fetches kgo.Fetches) (stop bool, err error) {
	for r := range fetches.RecordsAll() {
		c.count++
		if c.o.group != "" {
			c.cl.MarkCommitRecords(r)
		}
		if err := c.o.formatter.write(c.out, r); err != nil {
			e, ok := err.(*javaError)
			switch {
			case !ok: // the output, not the record
				return c.closed(), nil
			case !c.o.skipErrors:
				return true, e
			}
			c.out.Flush()
			logLine(c.env.Stderr, "ERROR", "Error processing message, skipping this message: ", consumerLogger, e)
		}
	}
	if c.out.Flush() != nil {
		return c.closed(), nil
	}
	return false, nil
}

func (c *consoleConsumer) closed() bool {
	fmt.Fprintln(c.env.Stderr, "Unable to write to standard out, closing consumer.")
	return true
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
