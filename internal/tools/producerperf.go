package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/quire-log/quire/internal/kmeta"
)

const (
	perfClientID             = "perf-producer-client"
	perfTransactionMsDefault = 3000
)

func producerPerfParser() *argParser {
	payload := &argGroup{exclusive: true, required: true, description: "Note that you must provide exactly one of --record-size, --payload-file or --payload-monotonic."}
	return &argParser{
		prog:         "kafka-producer-perf-test",
		showDefaults: true,
		description: "This tool is used to verify the producer performance. To enable transactions, you can specify a transactional id or set a transaction " +
			"duration using --transaction-duration-ms. There are three ways to specify the transactional id: set transactional.id=<id> via --command-property, " +
			"set transactional.id=<id> in the config file via --command-config, or use --transactional-id <id>.",
		arguments: []*argument{
			{flags: []string{"--bootstrap-server"}, metavar: "BOOTSTRAP-SERVER", help: "The server(s) to connect to. This config takes precedence over bootstrap.servers specified via --command-property or --command-config."},
			{flags: []string{"--topic"}, required: true, metavar: "TOPIC", help: "Produce records to this topic."},
			{flags: []string{"--num-records"}, required: true, typ: "Long", metavar: "NUM-RECORDS", help: "Number of records to produce."},
			{flags: []string{"--payload-delimiter"}, metavar: "PAYLOAD-DELIMITER", def: "\\n", help: "Provides the delimiter to be used when --payload-file is provided. Defaults to new line. Note that this parameter will be ignored if --payload-file is not provided."},
			{flags: []string{"--throughput"}, required: true, typ: "Double", metavar: "THROUGHPUT", help: "Throttle maximum record throughput to *approximately* THROUGHPUT records/sec. Set this to -1 to disable throttling."},
			{flags: []string{"--producer-props"}, many: "+", metavar: "PROP-NAME=PROP-VALUE", help: "(DEPRECATED) Kafka producer related configuration properties like client.id. These configs take precedence over those passed via --command-config or --producer.config. " +
				"This option will be removed in a future version. Use --command-property instead. Example: --command-property linger.ms=10 batch.size=32768"},
			{flags: []string{"--command-property"}, many: "+", action: appendArg, metavar: "PROP-NAME=PROP-VALUE", help: "Kafka producer related configuration properties like client.id. These configs take precedence over those passed via --command-config or --producer.config. Example: --command-property linger.ms=10 batch.size=32768"},
			{flags: []string{"--producer.config"}, metavar: "CONFIG-FILE", help: "(DEPRECATED) Producer config properties file. This option will be removed in a future version. Use --command-config instead."},
			{flags: []string{"--command-config"}, metavar: "CONFIG-FILE", help: "Producer config properties file."},
			{flags: []string{"--print-metrics"}, action: storeTrue, help: "Print out metrics at the end of the test."},
			{flags: []string{"--transactional-id"}, metavar: "TRANSACTIONAL-ID", help: "The transactional id to use. This config takes precedence over the transactional.id specified via --command-property or --command-config. " +
				"Note that if the transactional id is not specified while --transaction-duration-ms is provided, the default value for the transactional id will be performance-producer- followed by a random uuid."},
			{flags: []string{"--transaction-duration-ms"}, typ: "Long", metavar: "TRANSACTION-DURATION", help: "The maximum duration of each transaction. The commitTransaction will be called after this time has elapsed. The value should be greater than 0. " +
				"If the transactional id is specified via --command-property, --command-config or --transactional-id but --transaction-duration-ms is not specified, the default value will be 3000."},
			{flags: []string{"--warmup-records"}, typ: "Long", def: "0", metavar: "WARMUP-RECORDS", help: "The number of records to treat as warmup. These initial records will not be included in steady-state statistics. An additional summary line will be printed describing the steady-state statistics."},
			{flags: []string{"--reporting-interval"}, typ: "Long", def: "5000", metavar: "INTERVAL-MS", help: "Interval in milliseconds at which to print progress info."},
			{flags: []string{"--record-size"}, typ: "Integer", metavar: "RECORD-SIZE", group: payload, help: "Record size in bytes. Note that you must provide exactly one of --record-size, --payload-file or --payload-monotonic."},
			{flags: []string{"--payload-file"}, metavar: "PAYLOAD-FILE", group: payload, help: "File to read the record payloads from. This works only for UTF-8 encoded text files. Payloads will be read from this file and a payload will be randomly selected when sending records. " +
				"Note that you must provide exactly one of --record-size, --payload-file or --payload-monotonic."},
			{flags: []string{"--payload-monotonic"}, action: storeTrue, group: payload, help: "Payload is a monotonically increasing integer. Note that you must provide exactly one of --record-size, --payload-file or --payload-monotonic."},
		},
	}
}

// perfOptions is the command line of kafka-producer-perf-test, checked.
type perfOptions struct {
	topic            string
	records, warmup  int64
	size             int // 0: none
	monotonic        bool
	payloads         [][]byte
	perSecond        float64 // below 0: as fast as can be
	reporting        time.Duration
	metrics          bool
	props            clientConfig
	transactional    string        // "": no transactions
	transactionEvery time.Duration // how long each lasts
}

// kafkaProducerPerfTest is kafka-producer-perf-test.
func kafkaProducerPerfTest(env Env, args []string) int {
	parser := producerPerfParser()
	values, err := parser.parse(args)
	var o *perfOptions
	if err == nil {
		o, err = newPerfOptions(env, parser, values)
	}
	if e, ok := errors.AsType[*argError](err); ok {
		if len(args) == 0 {
			fmt.Fprint(env.Stdout, parser.fullHelp())
			return 0
		}
		return printArgError(env, e, 1)
	}
	if err == nil {
		err = producerPerf(env, o)
	}
	return uncaught(env, err)
}

func newPerfOptions(env Env, parser *argParser, v *argValues) (*perfOptions, error) {
	o := &perfOptions{topic: v.text("topic"), monotonic: v.has("payload-monotonic"), metrics: v.has("print-metrics")}
	o.records, _ = v.number("num-records")
	o.warmup, _ = v.number("warmup-records")
	o.warmup = max(o.warmup, 0)
	size, sized := v.number("record-size")
	o.size = int(size)
	o.perSecond, _ = strconv.ParseFloat(v.text("throughput"), 64)
	reporting, _ := v.number("reporting-interval")
	o.reporting = time.Duration(min(reporting, maxMillis)) * time.Millisecond
	duration, timed := v.number("transaction-duration-ms")
	switch {
	case o.records <= 0:
		return nil, parser.fail("--num-records should be greater than zero.")
	case o.warmup >= o.records:
		return nil, parser.fail("The value for --warmup-records must be strictly fewer than the number of records in the test, --num-records.")
	case sized && size <= 0:
		return nil, parser.fail("--record-size should be greater than zero.")
	case !v.has("bootstrap-server") && !v.has("command-property") && !v.has("producer-props") && !v.has("producer.config") && !v.has("command-config"):
		return nil, parser.fail("At least one of --bootstrap-server, --command-property, --producer-props, --producer.config or --command-config must be specified.")
	case v.has("command-property") && v.has("producer-props"):
		return nil, parser.fail("--command-property and --producer-props cannot be specified together.")
	case v.has("command-config") && v.has("producer.config"):
		return nil, parser.fail("--command-config and --producer.config cannot be specified together.")
	case timed && duration <= 0:
		return nil, parser.fail("--transaction-duration-ms should be greater than zero.")
	case reporting <= 0:
		return nil, parser.fail("--reporting-interval should be greater than zero.")
	}
	if v.has("payload-file") {
		delimiter := v.text("payload-delimiter")
		if delimiter == `\n` {
			delimiter = "\n"
		}
		var err error
		if o.payloads, err = readPayloads(env, v.text("payload-file"), delimiter); err != nil {
			return nil, err
		}
	}
	for _, old := range [][2]string{{"producer-props", "command-property"}, {"producer.config", "command-config"}} {
		if v.has(old[0]) {
			fmt.Fprintf(env.Stdout, "Option --%s has been deprecated and will be removed in a future version. Use --%s instead.\n", old[0], old[1])
		}
	}
	if err := o.properties(v); err != nil {
		return nil, err
	}
	o.transactional = o.props["transactional.id"]
	delete(o.props, "transactional.id")
	if v.has("transactional-id") {
		o.transactional = v.text("transactional-id")
	}
	if timed && o.transactional == "" {
		o.transactional = "performance-producer-" + kmeta.RandomUUID().String()
	}
	if !timed {
		duration = perfTransactionMsDefault
	}
	o.transactionEvery = time.Duration(min(duration, maxMillis)) * time.Millisecond
	return o, nil
}

// properties gathers the producer's: those of a file, those of the command line, --bootstrap-server.
func (o *perfOptions) properties(v *argValues) error {
	o.props = clientConfig{}
	for _, file := range []string{"command-config", "producer.config"} {
		if !v.has(file) {
			continue
		}
		read, err := loadProperties(v.text(file))
		if err != nil {
			return err
		}
		o.props = read
	}
	for _, pair := range append(v.all("command-property"), v.all("producer-props")...) {
		pieces := strings.Split(strings.TrimRight(pair, "="), "=")
		if len(pieces) != 2 {
			return throw(illegalArgument, "Invalid property: "+pair)
		}
		o.props[pieces[0]] = pieces[1]
	}
	if v.has("bootstrap-server") {
		o.props["bootstrap.servers"] = v.text("bootstrap-server")
	}
	return nil
}

// readPayloads cuts a file at a delimiter, which is a regular expression. A delimiter at either end makes no empty payload.
func readPayloads(env Env, file, delimiter string) ([][]byte, error) {
	path := absolute(file)
	fmt.Fprintf(env.Stdout, "Reading payloads from: %s\n", path)
	content, err := os.ReadFile(filepath.Clean(path))
	if err != nil || len(content) == 0 {
		return nil, throw(illegalArgument, "File does not exist or empty file provided.")
	}
	if !utf8.Valid(content) {
		content = appendJavaText(nil, content)
	}
	pattern, err := regexp.Compile(delimiter)
	if err != nil {
		return nil, throw("java.util.regex.PatternSyntaxException", err.Error())
	}
	if at := pattern.FindIndex(content); at != nil && at[0] == 0 {
		content = content[at[1]:]
	}
	var payloads [][]byte
	for len(content) > 0 {
		at := pattern.FindIndex(content)
		if at == nil || at[1] == 0 {
			payloads = append(payloads, content)
			break
		}
		payloads = append(payloads, bytes.Clone(content[:at[0]]))
		content = content[at[1]:]
	}
	fmt.Fprintf(env.Stdout, "Number of records read: %d\n", len(payloads))
	if len(payloads) == 0 {
		return nil, throw(illegalArgument, "bound must be positive")
	}
	return payloads, nil
}

// payload makes the value of a record, in buf if there is room.
func (o *perfOptions) payload(buf []byte, random *splittableRandom, i int64) []byte {
	switch {
	case o.payloads != nil:
		return o.payloads[random.below(int32(len(o.payloads)))]
	case o.size > 0:
		b := slices.Grow(buf[:0], o.size)[:o.size]
		for j := range b {
			b[j] = byte('A' + random.below(26))
		}
		return b
	}
	return strconv.AppendInt(buf[:0], i, 10)
}

// A splittableRandom gives the numbers of Java's class of that name, so that payloads are the same in every run, and Kafka's.
type splittableRandom struct{ seed uint64 }

func (r *splittableRandom) next() uint32 {
	r.seed += 0x9e3779b97f4a7c15
	z := r.seed
	z = (z ^ z>>33) * 0x62a9d9ed799705f5
	return uint32((z ^ z>>28) * 0xcb24d0a5c88c35b3 >> 32)
}

// below returns a number from 0 to bound, which is above 0 and not among the numbers.
func (r *splittableRandom) below(bound int32) int32 {
	n, m := int32(r.next()), bound-1
	if bound&m == 0 {
		return n & m
	}
	for u := int32(uint32(n) >> 1); ; u = int32(r.next() >> 1) {
		if n = u % bound; u+m-n >= 0 { // else u is among the few at the top that would favour small numbers
			return n
		}
	}
}

// producerPerf is the test.
func producerPerf(env Env, o *perfOptions) error {
	if o.props["client.id"] == "" {
		o.props["client.id"] = perfClientID
	}
	c, err := o.props.producer(env.Stderr, perfClientID)
	if err != nil {
		return err
	}
	// Java's batches end at batch.size, unless a single record is larger.
	c.maxRequest = max(c.maxRequest, 1)
	largest := max(int64(o.size), 20) // 20: a number
	for _, p := range o.payloads {
		largest = max(largest, int64(len(p)))
	}
	most := recordSizeMost(&kgo.Record{Value: make([]byte, min(largest, c.maxRequest))})
	extra := []kgo.Opt{kgo.ProducerBatchMaxBytes(int32(min(max(c.batchSize, most, perfBatchLeast), 1<<30)))}
	if o.transactional != "" {
		extra = append(extra, kgo.TransactionalID(o.transactional), kgo.TransactionTimeout(javaTransactionTimeout))
	}
	cl, err := c.client(extra...)
	if err != nil {
		return err
	}
	run := &perfRun{env: env, o: o, producer: &consoleProducer{env: env, config: c, cl: cl}}
	signals := env.interrupted()
	ctx, cancel := context.WithCancel(context.Background())
	run.largest = largest
	done := make(chan error, 1)
	go func() { done <- run.all(ctx) }()
	select {
	case err = <-done:
	case sig := <-signals:
		cancel()
		err = &exitError{signalCode(sig)}
		<-done
	}
	cancel()
	cl.Close()
	return err
}

// perfBatchLeast is the least size of a batch that franz-go takes.
const perfBatchLeast = 1 << 10
