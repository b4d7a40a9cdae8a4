package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	producerPurpose = "This tool helps to read data from standard input and publish it to Kafka."
	errorLogger     = "org.apache.kafka.clients.producer.internals.ErrorLoggingCallback"
	readerDefaults  = "\nDefault properties include:" +
		"\n parse.key=false\n parse.headers=false\n ignore.error=false\n key.separator=\\t\n headers.delimiter=\\t\n headers.separator=,\n headers.key.separator=:" +
		"\n null.marker=   When set, any fields (key, value and headers) equal to this will be replaced by null" +
		"\nDefault parsing pattern when:" +
		"\n parse.headers=true and parse.key=true:\n  \"h1:v1,h2:v2...\\tkey\\tvalue\"" +
		"\n parse.key=true:\n  \"key\\tvalue\"" +
		"\n parse.headers=true:\n  \"h1:v1,h2:v2...\\tvalue\""
	readerPropertyHelp = "A mechanism to pass user-defined properties in the form key=value to the message reader. This allows custom configuration for a user-defined message reader."
)

func consoleProducerParser() *joptParser {
	return newJopt(
		joptOption{name: "topic", arg: requiredArg, what: "topic", help: "REQUIRED: The topic name to produce messages to."},
		joptOption{name: "bootstrap-server", arg: requiredArg, what: "server to connect to", help: "REQUIRED: The server(s) to connect to. The broker list string in the form HOST1:PORT1,HOST2:PORT2."},
		joptOption{name: "sync", help: "If set message send requests to the brokers are synchronously, one at a time as they arrive."},
		joptOption{name: "compression-codec", arg: optionalArg, what: "compression-codec", help: "The compression codec: either 'none', 'gzip', 'snappy', 'lz4', or 'zstd'. If specified without value, then it defaults to 'gzip'"},
		joptOption{name: "batch-size", arg: requiredArg, typ: "Integer", what: "size", def: "16384", help: "The buffer size in bytes allocated for a partition. When records are received which are smaller than this size " +
			"the producer will attempt to optimistically group them together until this size is reached. This is the option to control batch.size in producer configs. " +
			"Please note that this option will be replaced if max-partition-memory-bytes is also set."},
		joptOption{name: "message-send-max-retries", arg: requiredArg, typ: "Integer", def: "3", help: "Brokers can fail receiving the message for multiple reasons, and being unavailable transiently is just one of them. " +
			"This property specifies the number of retries before the producer give up and drop this message. This is the option to control `retries` in producer configs."},
		joptOption{name: "retry-backoff-ms", arg: requiredArg, typ: "Long", def: "100", help: "Before each retry, the producer refreshes the metadata of relevant topics. " +
			"Since leader election takes a bit of time, this property specifies the amount of time that the producer waits before refreshing the metadata. This is the option to control `retry.backoff.ms` in producer configs."},
		joptOption{name: "timeout", arg: requiredArg, typ: "Long", what: "timeout_ms", def: "1000", help: "If set and the producer is running in asynchronous mode, this gives the maximum amount of time a message will queue awaiting sufficient batch size. " +
			"The value is given in ms. This is the option to control `linger.ms` in producer configs."},
		joptOption{name: "request-required-acks", arg: requiredArg, what: "request required acks", def: "-1", help: "The required `acks` of the producer requests"},
		joptOption{name: "request-timeout-ms", arg: requiredArg, typ: "Integer", what: "request timeout ms", def: "1500", help: "The ack timeout of the producer requests. Value must be non-negative and non-zero."},
		joptOption{name: "metadata-expiry-ms", arg: requiredArg, typ: "Long", what: "metadata expiration interval", def: "300000", help: "The period of time in milliseconds after which we force a refresh of metadata even if we haven't seen any leadership changes. " +
			"This is the option to control `metadata.max.age.ms` in producer configs."},
		joptOption{name: "max-block-ms", arg: requiredArg, typ: "Long", what: "max block on send", def: "60000", help: "The max time that the producer will block for during a send request."},
		joptOption{name: "max-memory-bytes", arg: requiredArg, typ: "Long", what: "total memory in bytes", def: "33554432", help: "The total memory used by the producer to buffer records waiting to be sent to the server. " +
			"This is the option to control `buffer.memory` in producer configs."},
		joptOption{name: "max-partition-memory-bytes", arg: requiredArg, typ: "Integer", what: "memory in bytes per partition", def: "16384", help: "(Deprecated) The buffer size in bytes allocated for a partition. When records are received which are smaller than this size " +
			"the producer will attempt to optimistically group them together until this size is reached. This is the option to control batch.size in producer configs. This option will be removed in Apache Kafka 5.0. Use --batch-size instead."},
		joptOption{name: "line-reader", arg: requiredArg, what: "reader_class", def: lineReaderClass, help: "The class name of the class to use for reading lines from standard in. By default each line is read as a separate message."},
		joptOption{name: "socket-buffer-size", arg: requiredArg, typ: "Integer", what: "size", def: "102400", help: "The size of the tcp RECV size. This is the option to control `send.buffer.bytes` in producer configs."},
		joptOption{name: "property", arg: requiredArg, what: "prop", help: "(DEPRECATED) " + readerPropertyHelp + readerDefaults + "\n This option will be removed in a future version. Use --reader-property instead."},
		joptOption{name: "reader-property", arg: requiredArg, what: "prop", help: readerPropertyHelp + readerDefaults},
		joptOption{name: "reader-config", arg: requiredArg, what: "config file", help: "Config properties file for the message reader. Note that [reader-property] takes precedence over this config."},
		joptOption{name: "producer-property", arg: requiredArg, what: "producer_prop", help: "(DEPRECATED) Producer config properties in the form key=value. This option will be removed in a future version. Use --command-property instead."},
		joptOption{name: "command-property", arg: requiredArg, what: "producer_prop", help: "Producer config properties in the form key=value."},
		joptOption{name: "producer.config", arg: requiredArg, what: "config file", help: "(DEPRECATED) Producer config properties file. Note that [command-property] takes precedence over this config. This option will be removed in a future version. Use --command-config instead."},
		joptOption{name: "command-config", arg: requiredArg, what: "config file", help: "Producer config properties file. Note that [command-property] takes precedence over this config."},
	)
}

// socketBufferFlag is the option that stands for the size of a socket's buffer.
const socketBufferFlag = "socket-buffer-size"

// producerFlags are the options that stand for a property, and the property.
var producerFlags = [][2]string{
	{"timeout", "linger.ms"}, {"request-required-acks", "acks"}, {"request-timeout-ms", "request.timeout.ms"}, {"message-send-max-retries", "retries"},
	{"retry-backoff-ms", "retry.backoff.ms"}, {socketBufferFlag, "send.buffer.bytes"}, {"max-memory-bytes", "buffer.memory"}, {"batch-size", "batch.size"},
	{"max-partition-memory-bytes", "batch.size"}, {"metadata-expiry-ms", "metadata.max.age.ms"}, {"max-block-ms", "max.block.ms"},
}

// renamedOption is an option that has an older name.
type renamedOption struct{ now, old string }

// renamed refuses both names of an option together, and warns of an older one. It returns the name that was used of each.
func (s *joptSet) renamed(env Env, conflict, warning string, options ...renamedOption) (map[string]string, error) {
	used := make(map[string]string, len(options))
	for _, o := range options {
		used[o.now] = o.now
		if s.has(o.now) && s.has(o.old) {
			return nil, s.parser.usage(conflict, o.now, o.old)
		}
	}
	for _, o := range options {
		if s.has(o.old) {
			fmt.Fprintf(env.Stdout, warning+"\n", o.old, o.now)
			used[o.now] = o.old
		}
	}
	return used, nil
}

// mergeFlag sets a property from an option: if the option was given, or the property is not there yet.
func (s *joptSet) mergeFlag(props clientConfig, key, option string) error {
	if _, there := props[key]; there && !s.has(option) {
		return nil
	}
	value, _, err := s.text(option)
	if err == nil {
		props[key] = value
	}
	return err
}

// consoleProducerOptions is a command line that was accepted.
type consoleProducerOptions struct {
	reader clientConfig
	class  string // of the reader
	sync   bool
	props  func() (clientConfig, error) // read after the reader was made, as in Kafka: the first complaint is told
}

func parseConsoleProducer(env Env, args []string) (*consoleProducerOptions, error) {
	parser := consoleProducerParser()
	set, err := parser.parse(args)
	if err != nil {
		return nil, parser.usage("%s", err)
	}
	if err := set.helpOrVersion(env, args, producerPurpose); err != nil {
		return nil, err
	}
	if err := set.require("topic"); err != nil {
		return nil, err
	}
	used, err := set.renamed(env, "Options --%s and --%s cannot be specified together.",
		"Warning: --%s is deprecated and will be removed in a future version. Use --%s instead.",
		renamedOption{"command-property", "producer-property"}, renamedOption{"command-config", "producer.config"}, renamedOption{"reader-property", "property"})
	if err != nil {
		return nil, err
	}
	if set.has("max-partition-memory-bytes") {
		fmt.Fprintln(env.Stdout, "Warning: --max-partition-memory-bytes is deprecated and will be removed in Apache Kafka 5.0. Use --batch-size instead.")
	}
	servers, _, err := set.text("bootstrap-server")
	if err != nil {
		return nil, err
	}
	if err := checkServers(parser, servers); err != nil {
		return nil, err
	}
	o := &consoleProducerOptions{sync: set.has("sync"), reader: clientConfig{}}
	if o.class, _, err = set.text("line-reader"); err != nil {
		return nil, err
	}
	if o.reader, err = set.properties("reader-config"); err != nil {
		return nil, err
	}
	if o.reader["topic"], _, err = set.text("topic"); err != nil {
		return nil, err
	}
	o.reader.addPairs(set.all(used["reader-property"]))
	o.props = func() (clientConfig, error) {
		props, err := set.properties(used["command-config"])
		if err != nil {
			return nil, err
		}
		props.addPairs(set.all(used["command-property"]))
		props["bootstrap.servers"] = servers
		props["compression.type"] = "none"
		if set.has("compression-codec") {
			codec, _, err := set.text("compression-codec")
			if err != nil {
				return nil, err
			}
			if codec == "" {
				codec = "gzip"
			}
			props["compression.type"] = codec
		}
		for _, f := range producerFlags {
			if f[0] == socketBufferFlag && !set.has(socketBufferFlag) {
				continue // its default is smaller than what the kernel makes of it: see netDialer
			}
			if err := set.mergeFlag(props, f[1], f[0]); err != nil {
				return nil, err
			}
		}
		return props, nil
	}
	return o, nil
}

// kafkaConsoleProducer is kafka-console-producer.
func kafkaConsoleProducer(env Env, args []string) int {
	err := produceLines(env, args)
	if err == nil {
		return 0
	}
	if code, ended := endOfParsing(env, err); ended {
		return code
	}
	if option, ok := errors.AsType[*joptError](err); ok {
		fmt.Fprintln(env.Stderr, option)
		return 1
	}
	fmt.Fprintln(env.Stderr, asJava(err).trace())
	return 1
}

func produceLines(env Env, args []string) error {
	o, err := parseConsoleProducer(env, args)
	if err != nil {
		return err
	}
	if o.class != lineReaderClass {
		return throw("java.lang.ClassNotFoundException", o.class)
	}
	reader, err := newLineReader(o.reader)
	if err != nil {
		return err
	}
	props, err := o.props()
	if err != nil {
		return err
	}
	config, err := props.producer(env.Stderr, "console-producer")
	if err != nil {
		return err
	}
	if o.sync {
		// A record that is waited for has no company to wait for.
		config.linger = 0
	}
	cl, err := config.client()
	if err != nil {
		return err
	}
	p := &consoleProducer{env: env, config: config, cl: cl, reader: reader, sync: o.sync}
	return p.run()
}

// consoleProducer sends what it reads. Its one goroutine reads and sends; it ends with the input, or is left behind, waiting
// for a line that nobody types, when a signal ends the process.
type consoleProducer struct {
	env    Env
	config *producerConfig
	cl     *kgo.Client
	reader *lineReader
	sync   bool
	known  bool // the topic is
}

// flushTimeout bounds how long records may take to leave after the last line.
const flushTimeout = 5 * time.Minute

func (p *consoleProducer) run() error {
	signals := p.env.interrupted()
	read := make(chan error, 1)
	go func() { read <- p.sendLines() }()
	var err error
	var sig os.Signal
	select {
	case err = <-read:
	case sig = <-signals:
		err = &exitError{signalCode(sig)}
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	// What was read before an error or a signal is still sent, as Java's shutdown hook does.
	flushed := make(chan error, 1)
	go func() { flushed <- p.cl.Flush(ctx) }()
	select {
	case <-flushed:
	case again := <-signals:
		cancel()
		<-flushed
		return &exitError{signalCode(again)}
	}
	p.cl.Close()
	return err
}

func (p *consoleProducer) sendLines() error {
	lines := newLineScanner(p.env.Stdin)
	for {
		if p.env.Terminal {
			fmt.Fprint(p.env.Stdout, ">")
		}
		line, err := lines.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return throw(kafkaException, "java.io.IOException: "+err.Error())
		}
		rec, err := p.reader.record(line)
		if err != nil {
			return err
		}
		if err := p.send(rec); err != nil {
			return err
		}
	}
}

// send sends a record. Only when each is waited for does its failure end the tool.
func (p *consoleProducer) send(rec *kgo.Record) error {
	err := p.check(rec)
	if err == nil && !p.sync {
		p.cl.Produce(context.Background(), rec, func(rec *kgo.Record, err error) { p.report(rec, err) })
		return nil
	}
	if err == nil {
		err = p.cl.ProduceSync(context.Background(), rec).FirstErr()
	}
	if err == nil {
		return nil
	}
	if p.sync {
		return executionException(p.asJava(rec, err))
	}
	p.report(rec, err)
	return nil
}

// report logs that a record was not written.
func (p *consoleProducer) report(rec *kgo.Record, err error) {
	if err == nil {
		return
	}
	size := func(field []byte) string {
		if field == nil {
			return "null"
		}
		return fmt.Sprintf("%d bytes", len(field))
	}
	logLine(p.env.Stderr, "ERROR", fmt.Sprintf("Error when sending message to topic %s with key: %s, value: %s with error:", rec.Topic, size(rec.Key), size(rec.Value)),
		errorLogger, p.asJava(rec, err))
}

// check is what Java's producer does before it takes a record: it waits for the topic, and looks at the size.
func (p *consoleProducer) check(rec *kgo.Record) error {
	if !p.known {
		if err := p.awaitTopic(rec.Topic); err != nil {
			return err
		}
		p.known = true
	}
	size := recordSizeMost(rec)
	if size > p.config.maxRequest {
		return throw(kafkaErrors+"RecordTooLargeException", fmt.Sprintf(
			"The message is %d bytes when serialized which is larger than %d, which is the value of the max.request.size configuration.", size, p.config.maxRequest))
	}
	if size > p.config.bufferMemory {
		return throw(kafkaErrors+"RecordTooLargeException", fmt.Sprintf(
			"The message is %d bytes when serialized which is larger than the total memory buffer you have configured with the buffer.memory configuration.", size))
	}
	return nil
}

// awaitTopic asks for a topic until it is there, which creates it where brokers allow that, for max.block.ms at most.
func (p *consoleProducer) awaitTopic(topic string) error {
	ctx, cancel := context.WithTimeout(context.Background(), p.config.maxBlock)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = true
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	for {
		resp, err := req.RequestWith(ctx, p.cl)
		if e := loginFailure(err); e != nil {
			return e
		}
		if err == nil && len(resp.Topics) == 1 {
			switch code := resp.Topics[0].ErrorCode; code {
			case 0, kerr.LeaderNotAvailable.Code:
				if len(resp.Topics[0].Partitions) > 0 {
					return nil
				}
			case kerr.InvalidTopicException.Code:
				return throw(kafkaErrors+"InvalidTopicException", "Invalid topics: ["+topic+"]")
			case kerr.TopicAuthorizationFailed.Code:
				return throw(kafkaErrors+"TopicAuthorizationException", "Not authorized to access topics: ["+topic+"]")
			}
		}
		select {
		case <-ctx.Done():
			return throw(kafkaErrors+"TimeoutException", fmt.Sprintf("Topic %s not present in metadata after %d ms.", topic, p.config.maxBlock.Milliseconds()))
		case <-time.After(min(max(p.config.retryBackoff, time.Millisecond), time.Second)):
		}
	}
}

// asJava names an error of franz-go's producer as Java's would.
func (p *consoleProducer) asJava(rec *kgo.Record, err error) *javaError {
	switch {
	case errors.Is(err, kgo.ErrRecordTimeout), errors.Is(err, kgo.ErrRecordRetries), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return throw(kafkaErrors+"TimeoutException", fmt.Sprintf("Expiring 1 record(s) for %s-%d:%d ms has passed since batch creation", rec.Topic, rec.Partition, p.config.delivery.Milliseconds()))
	}
	return asJava(err)
}

// recordSizeMost is the most that a batch of this one record takes: Java's estimate, which users see in its error.
func recordSizeMost(rec *kgo.Record) int64 {
	const batchOverhead, recordOverheadMost = 61, 21
	field := func(b []byte) int64 {
		if b == nil {
			return 1
		}
		return varintSize(int64(len(b))) + int64(len(b))
	}
	size := batchOverhead + recordOverheadMost + field(rec.Key) + field(rec.Value) + varintSize(int64(len(rec.Headers)))
	for _, h := range rec.Headers {
		size += varintSize(int64(len(h.Key))) + int64(len(h.Key)) + field(h.Value)
	}
	return size
}

// varintSize is how many bytes a number takes, zigzag encoded.
func varintSize(n int64) int64 {
	size := int64(1)
	for z := uint64(n<<1) ^ uint64(n>>63); z >= 0x80; z >>= 7 {
		size++
	}
	return size
}
