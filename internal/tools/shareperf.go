package tools

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const sharePerfPurpose = "This tool is used to verify the share consumer performance."

func sharePerfParser() *joptParser {
	return newJopt(append(readPerfOptions("Share consumer", "Kafka share consumer"),
		joptOption{name: "bootstrap-server", arg: requiredArg, what: "server to connect to", help: "REQUIRED. The server(s) to connect to."},
		joptOption{name: "topic", arg: requiredArg, what: "topic", help: "REQUIRED: The topic to consume from."},
		joptOption{name: "group", arg: requiredArg, what: "gid", def: "perf-share-consumer", help: "The group id to consume on."},
		joptOption{name: "fetch-size", arg: requiredArg, typ: "Integer", what: "size", def: "1048576", help: "The amount of data to fetch in a single request."},
		joptOption{name: "threads", arg: requiredArg, typ: "Integer", what: "count", def: "1", help: "The number of share consumers to use for sharing the load."},
		joptOption{name: "show-consumer-stats", help: "If set, stats are reported for each share consumer depending on the no. of threads."},
	)...)
}

// kafkaSharePerfTest is kafka-share-consumer-perf-test.
func kafkaSharePerfTest(env Env, args []string) int {
	set, err := parseSharePerf(env, args)
	if err == nil {
		err = sharePerf(env, set)
	}
	return endTool(env, err)
}

func parseSharePerf(env Env, args []string) (*joptSet, error) {
	return parseReadPerf(env, args, sharePerfParser(), sharePerfPurpose, func(set *joptSet) error {
		if err := set.require("topic", "bootstrap-server"); err != nil {
			return err
		}
		return set.oneOf("messages", "num-records")
	})
}

// A sharePerfRun is one run of several members of a share group.
type sharePerfRun struct {
	env      Env
	set      *joptSet
	props    clientConfig
	topic    string
	group    string
	want     int64
	timeout  time.Duration // between records of a member
	interval time.Duration // between lines of progress
	format   func(time.Time) string

	mu           sync.Mutex   // guards the output of members
	count, bytes atomic.Int64 // of all members
	start        time.Time
	members      []*sharePerfMember
}

// A sharePerfMember is one of them, of a goroutine of its own until the run waits for it.
type sharePerfMember struct {
	*sharePerfRun
	number       int // from 1
	clientID     string
	cl           *kgo.Client
	reached      func() bool // whether any broker was
	count, bytes int64
	err          error
}

func sharePerf(env Env, set *joptSet) error {
	if !set.has("hide-header") {
		fmt.Fprintln(env.Stdout, "start.time, end.time, data.consumed.in.MB, MB.sec, nMsg.sec, data.consumed.in.nMsg, fetch.time.ms")
	}
	r := &sharePerfRun{env: env, set: set}
	threads, err := r.read()
	if err != nil {
		return err
	}
	if threads < 1 {
		return throw(illegalArgument, "")
	}
	defer r.close()
	for i := range int(threads) {
		if err := r.join(i+1, threads > 1); err != nil {
			return err
		}
	}
	r.start = time.Now()
	var members sync.WaitGroup
	for _, m := range r.members {
		members.Go(m.consume)
	}
	members.Wait()
	end := time.Now()
	for _, m := range r.members {
		if m.err != nil {
			return m.err
		}
		if set.has("show-consumer-stats") {
			fmt.Fprintf(env.Stdout, "Share consumer %d having client id %s consumption metrics- %s\n", m.number, m.clientID, r.row(r.start, end, m.count, m.bytes, m.count, m.bytes))
		}
	}
	r.close()
	fmt.Fprintln(env.Stdout, r.row(r.start, time.Now(), r.count.Load(), r.bytes.Load(), r.count.Load(), r.bytes.Load()))
	if set.has("print-metrics") {
		for _, m := range r.members {
			printReadMetrics(env.Stdout, "consumer-share-fetch-manager-metrics", m.clientID, r.start, m.count, m.bytes)
		}
	}
	return nil
}

// read reads the options.
func (r *sharePerfRun) read() (threads int64, err error) {
	file := "command-config"
	if r.set.has("consumer.config") {
		file = "consumer.config"
	}
	if r.props, err = r.set.properties(file); err != nil {
		return 0, err
	}
	r.props.addPairs(r.set.all("command-property"))
	if r.props["client.id"] == "" {
		r.props["client.id"] = "perf-share-consumer-client"
	}
	for _, option := range []struct {
		name string
		to   *string
	}{{"topic", &r.topic}, {"group", &r.group}} {
		if *option.to, _, err = r.set.text(option.name); err != nil {
			return 0, err
		}
	}
	for option, key := range map[string]string{"bootstrap-server": "bootstrap.servers", "fetch-size": "fetch.max.bytes", "socket-buffer-size": "receive.buffer.bytes"} {
		if option == "socket-buffer-size" && !r.set.has(option) {
			continue // its default is smaller than what the kernel makes of it
		}
		if r.props[key], _, err = r.set.text(option); err != nil {
			return 0, err
		}
	}
	delete(r.props, "auto.offset.reset") // the group's own, not a member's
	want := "num-records"
	if r.set.has("messages") {
		want = "messages"
	}
	var timeout, interval int64
	for _, option := range []struct {
		name string
		to   *int64
	}{{want, &r.want}, {"threads", &threads}, {"timeout", &timeout}, {"reporting-interval", &interval}} {
		if *option.to, _, err = r.set.number(option.name); err != nil {
			return 0, err
		}
	}
	r.timeout, r.interval = time.Duration(min(timeout, maxMillis))*time.Millisecond, time.Duration(min(interval, maxMillis))*time.Millisecond
	pattern, _, err := r.set.text("date-format")
	if err != nil {
		return 0, err
	}
	r.format, err = javaDateFormat(pattern)
	return threads, err
}

// join makes a member.
func (r *sharePerfRun) join(number int, several bool) error {
	m := &sharePerfMember{sharePerfRun: r, number: number, clientID: r.props["client.id"]}
	if several {
		m.clientID += fmt.Sprintf("-%d", number)
	}
	props := clientConfig{}
	for key, value := range r.props {
		props[key] = value
	}
	props["client.id"] = m.clientID
	config, err := props.consumer(r.env.Stderr, m.clientID)
	if err != nil {
		return err
	}
	config.dial.kind = "ShareConsumer"
	config.dial.clientID += ", groupId=" + r.group
	if m.cl, err = kgo.NewClient(shareOptions(config, r.group, r.topic)...); err != nil {
		return throw(kafkaException, "Failed to construct Kafka share consumer").because(err)
	}
	m.reached = config.dial.reached.Load
	r.members = append(r.members, m)
	return nil
}

// close has the members leave, each once.
func (r *sharePerfRun) close() {
	var leaving sync.WaitGroup
	for _, m := range r.members {
		if m.cl != nil {
			leaving.Go(func() { leaveShare(m.cl, m.reached()) })
		}
	}
	leaving.Wait()
	for _, m := range r.members {
		m.cl = nil
	}
}

// consume reads until all members together have enough, or nothing more comes in time.
func (m *sharePerfMember) consume() {
	if e := refusedLogin(m.cl); e != nil {
		m.err = e
		return
	}
	last := time.Now()
	reported, reportedCount, reportedBytes := last, int64(0), int64(0)
	for m.sharePerfRun.count.Load() < m.want && time.Since(last) <= m.timeout {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		fetches := m.cl.PollRecords(ctx, javaMaxPoll)
		cancel()
		if e := fatalOfShare(fetches, m.group); e != nil {
			m.err = e
			return
		}
		var n, size int64
		for r := range fetches.RecordsAll() {
			n++
			size += int64(len(r.Key) + len(r.Value))
		}
		if n == 0 {
			continue
		}
		last = time.Now()
		m.cl.MarkAcks(kgo.AckAccept)
		m.count += n
		m.bytes += size
		m.sharePerfRun.count.Add(n)
		m.sharePerfRun.bytes.Add(size)
		if m.set.has("show-detailed-stats") && last.Sub(reported) >= m.interval {
			m.say("%s for share consumer %d\n", m.row(reported, last, m.count, m.bytes, m.count-reportedCount, m.bytes-reportedBytes), m.number)
			reported, reportedCount, reportedBytes = last, m.count, m.bytes
		}
	}
	if m.sharePerfRun.count.Load() < m.want {
		m.say("WARNING: Exiting before consuming the expected number of records: timeout (%d ms) exceeded. You can use the --timeout option to increase the timeout.\n", m.timeout.Milliseconds())
	}
}

func (r *sharePerfRun) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.env.Stdout, format, args...)
}

// row tells of the time between start and end, in which recent records came of the count that there are.
func (r *sharePerfRun) row(start, end time.Time, count, bytes, recent, recentBytes int64) string {
	elapsed := end.UnixMilli() - start.UnixMilli()
	seconds := float64(elapsed) / 1000
	return fmt.Sprintf("%s, %s, %s, %s, %s, %d, %d", r.format(start), r.format(end), javaFixed(float64(bytes)/mebibyte), javaFixed(float64(recentBytes)/mebibyte/seconds),
		javaFixed(float64(recent)/seconds), count, elapsed)
}
