package tools

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const consumerPerfPurpose = "This tool is used to verify the consumer performance."

func consumerPerfParser() *joptParser {
	return newJopt(append(readPerfOptions("Consumer", "Kafka consumer"),
		joptOption{name: "bootstrap-server", arg: requiredArg, what: "server to connect to", help: "REQUIRED: The server(s) to connect to."},
		joptOption{name: "topic", arg: requiredArg, what: "topic", help: "The topic to consume from."},
		joptOption{name: "include", arg: requiredArg, what: "Java regex (String)", help: "Regular expression specifying list of topics to include for consumption."},
		joptOption{name: "group", arg: requiredArg, what: "gid", def: fmt.Sprintf("perf-consumer-%d", rand.IntN(100000)), help: "The group id to consume on."},
		joptOption{name: "fetch-size", arg: requiredArg, typ: "Integer", what: "size", def: "1048576", help: "The maximum amount of data to fetch from a single partition per request."},
		joptOption{name: "from-latest", help: "If the consumer does not already have an established offset to consume from, start with the latest record present in the log rather than the earliest record."},
	)...)
}

// kafkaConsumerPerfTest is kafka-consumer-perf-test.
func kafkaConsumerPerfTest(env Env, args []string) int {
	set, err := parseConsumerPerf(env, args)
	if err == nil {
		err = consumerPerf(env, set)
	}
	return endTool(env, err)
}

func parseConsumerPerf(env Env, args []string) (*joptSet, error) {
	return parseReadPerf(env, args, consumerPerfParser(), consumerPerfPurpose, func(set *joptSet) error {
		if err := set.oneOf("include", "topic"); err != nil {
			return err
		}
		if err := set.oneOf("messages", "num-records"); err != nil {
			return err
		}
		return set.require("bootstrap-server")
	})
}

// consumerPerfRun is one run: what it was asked for, and how far it is. All of it runs on its caller's goroutine.
type consumerPerfRun struct {
	env      Env
	set      *joptSet
	want     int64
	timeout  time.Duration
	interval time.Duration
	detailed bool
	format   func(time.Time) string
	topic    string         // to read; "" with include
	include  *regexp.Regexp // topics to read
	create   bool           // brokers may create the topic
	perPoll  int64          // how many records Java takes before it looks at what it has
	crcs     bool           // look at checksums
	// committed leaves out what is of open and aborted transactions.
	committed bool

	start          time.Time
	joined         time.Duration // from the start to the first partition
	records, bytes int64
	// At the last line of progress:
	reported                     time.Time
	reportedRecords, reportedLen int64
}

const mebibyte = 1 << 20

func consumerPerf(env Env, set *joptSet) error {
	props, err := consumerPerfProps(set)
	if err != nil {
		return err
	}
	r := &consumerPerfRun{env: env, set: set, detailed: set.has("show-detailed-stats")}
	if !set.has("hide-header") {
		first := "start.time, end.time"
		if r.detailed {
			first = "time, threadId"
		}
		fmt.Fprintln(env.Stdout, first+", data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec")
	}
	if err := r.readNumbers(); err != nil {
		return err
	}
	config, err := props.consumer(env.Stderr, "perf-consumer-client")
	if err != nil {
		return err
	}
	if r.perPoll, err = props.atLeast("max.poll.records", 32, 500, 1); err != nil {
		return err
	}
	if r.crcs, err = props.boolean("check.crcs", true); err != nil {
		return err
	}
	r.create, r.committed = config.autoCreate, props["isolation.level"] == "read_committed"
	if r.topic, r.include, err = consumerPerfTopics(set); err != nil {
		return err
	}
	// Only a group that the user names is joined: one made up for the run would be left behind on the broker.
	opts := config.opts
	var member *perfMember
	if set.has("group") {
		group, _, err := set.text("group")
		if err != nil {
			return err
		}
		member = newPerfMember(group, config)
		opts = append(opts, member.options(r.topic, r.include)...)
	}
	r.start = time.Now()
	r.reported = r.start
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return throw(kafkaException, "Failed to construct kafka consumer").because(err)
	}
	if e := refusedLogin(cl); e != nil {
		cl.Close()
		return e
	}
	if member == nil {
		err = r.read(cl, nil)
		cl.Close()
	} else {
		member.watch(cl)
		err = r.read(cl, member)
		member.close()
	}
	if err != nil {
		return err
	}
	if !r.detailed {
		r.printTotal(time.Now())
	}
	if set.has("print-metrics") {
		r.printMetrics(props["client.id"])
	}
	return nil
}

// consumerPerfProps are the consumer's properties: those of the file, of --command-property, and the tool's own.
func consumerPerfProps(set *joptSet) (clientConfig, error) {
	props := clientConfig{}
	for _, option := range []string{"consumer.config", "command-config"} {
		path, ok, err := set.text(option)
		if err != nil {
			return nil, err
		}
		if ok {
			if props, err = loadProperties(path); err != nil {
				return nil, err
			}
		}
	}
	props.addPairs(set.all("command-property"))
	if props["client.id"] == "" {
		props["client.id"] = "perf-consumer-client"
	}
	for option, key := range map[string]string{"bootstrap-server": "bootstrap.servers", "fetch-size": "max.partition.fetch.bytes", socketBufferFlag: "receive.buffer.bytes"} {
		if option == socketBufferFlag && !set.has(option) {
			continue // its default is smaller than what the kernel makes of it: see netDialer
		}
		text, _, err := set.text(option)
		if err != nil {
			return nil, err
		}
		props[key] = text
	}
	props["auto.offset.reset"] = "earliest"
	if set.has("from-latest") {
		props["auto.offset.reset"] = "latest"
	}
	return props, nil
}

// consumerPerfTopics are the topics to read: one, or all that match.
func consumerPerfTopics(set *joptSet) (topic string, include *regexp.Regexp, err error) {
	topic, ok, err := set.text("topic")
	if err != nil || ok {
		return topic, nil, err
	}
	pattern, _, err := set.text("include")
	if err != nil {
		return "", nil, err
	}
	if include, err = compileJava(pattern); err != nil {
		return "", nil, throw("java.util.regex.PatternSyntaxException", err.Error())
	}
	return "", include, nil
}

func (r *consumerPerfRun) readNumbers() error {
	option := "num-records"
	if r.set.has("messages") {
		option = "messages"
	}
	var err error
	if r.want, _, err = r.set.number(option); err != nil {
		return err
	}
	timeout, _, err := r.set.number("timeout")
	if err != nil {
		return err
	}
	interval, _, err := r.set.number("reporting-interval")
	if err != nil {
		return err
	}
	if interval <= 0 {
		return throw(illegalArgument, "Reporting interval must be greater than 0.")
	}
	r.timeout, r.interval = time.Duration(min(timeout, maxMillis))*time.Millisecond, time.Duration(min(interval, maxMillis))*time.Millisecond
	pattern, _, err := r.set.text("date-format")
	if err != nil {
		return err
	}
	r.format, err = javaDateFormat(pattern)
	return err
}

// read reads until there is enough or nothing more comes in time: everything, or what a member of a group is given.
func (r *consumerPerfRun) read(cl *kgo.Client, member *perfMember) error {
	reader := newPerfReader(cl, r.create, r.set.has("from-latest"), r.committed)
	reader.topic, reader.include = r.topic, r.include
	var changes chan perfChange
	var failed chan error
	if member != nil {
		reader.own(nil, nil) // nothing yet
		changes, failed = member.changes, member.failed
	}
	count := newPerfCount(r.want, r.perPoll, r.crcs)
	last := r.start
	take := func(fetched *perfFetched) error {
		next, err := count.add(fetched)
		last = time.Now()
		r.records, r.bytes = count.records, count.bytes
		if member != nil {
			member.reached(fetched.topicPartition, next)
		}
		return err
	}
	reading := reader.start()
	defer func() { reading.stop() }()
	for r.records < r.want && time.Since(last) <= r.timeout {
		idle := time.NewTimer(min(r.timeout-time.Since(last), r.interval) + time.Millisecond)
		var err error
		select {
		case fetched := <-reading.out:
			err = take(&fetched)
		case <-reading.ended:
			err = reading.err
		case err = <-failed:
		case change := <-changes:
			reading.stop()
			if len(reading.out) > 0 {
				fetched := <-reading.out
				err = take(&fetched)
			}
			if r.joined == 0 && len(change.gained) > 0 {
				r.joined = time.Since(r.start)
			}
			member.apply(change, reader)
			reading = reader.start()
		case <-idle.C:
		}
		idle.Stop()
		if err != nil {
			return err
		}
		if now := time.Now(); r.detailed && now.Sub(r.reported) >= r.interval {
			r.printProgress(now)
		}
	}
	r.warn()
	return nil
}

// warn says that there was not enough, if so.
func (r *consumerPerfRun) warn() {
	if r.records < r.want {
		fmt.Fprintf(r.env.Stdout, "WARNING: Exiting before consuming the expected number of records: timeout (%d ms) exceeded. You can use the --timeout option to increase the timeout.\n", r.timeout.Milliseconds())
	}
}

// javaFixed is %.4f of Java, for which 0/0 is NaN and 1/0 Infinity.
func javaFixed(f float64) string {
	if math.IsInf(f, 0) {
		return strings.TrimPrefix(strconv.FormatFloat(f, 'f', 4, 64), "+") + "inity"
	}
	return strconv.FormatFloat(f, 'f', 4, 64)
}

func (r *consumerPerfRun) printTotal(end time.Time) {
	mb := float64(r.bytes) / mebibyte
	elapsed := float64(end.Sub(r.start).Milliseconds()) / 1000
	fetch := end.Sub(r.start).Milliseconds() - r.joined.Milliseconds()
	seconds := float64(fetch) / 1000
	fmt.Fprintf(r.env.Stdout, "%s, %s, %s, %s, %d, %s, %d, %d, %s, %s\n", r.format(r.start), r.format(end), javaFixed(mb), javaFixed(mb/elapsed), r.records,
		javaFixed(float64(r.records)/elapsed), r.joined.Milliseconds(), fetch, javaFixed(mb/seconds), javaFixed(float64(r.records)/seconds))
}

// printProgress tells of the time since the last line.
func (r *consumerPerfRun) printProgress(now time.Time) {
	elapsed := float64(now.Sub(r.reported).Milliseconds())
	mb, recent := float64(r.bytes)/mebibyte, float64(r.bytes-r.reportedLen)/mebibyte
	count := float64(r.records - r.reportedRecords)
	joined := int64(0)
	if r.reportedRecords == 0 {
		joined = r.joined.Milliseconds()
	}
	fetch := now.Sub(r.reported).Milliseconds() - joined
	perFetch := func(n float64) float64 {
		if fetch <= 0 {
			return 0
		}
		return 1000 * n / float64(fetch)
	}
	fmt.Fprintf(r.env.Stdout, "%s, 0, %s, %s, %d, %s, %d, %d, %s, %s\n", r.format(now), javaFixed(mb), javaFixed(1000*recent/elapsed), r.records,
		javaFixed(1000*count/elapsed), joined, fetch, javaFixed(perFetch(recent)), javaFixed(perFetch(count)))
	r.reported, r.reportedRecords, r.reportedLen = now, r.records, r.bytes
}

// printMetrics prints those of Java's metrics that are known here, in its form.
func (r *consumerPerfRun) printMetrics(clientID string) {
	printReadMetrics(r.env.Stdout, "consumer-fetch-manager-metrics", clientID, r.start, r.records, r.bytes)
}
