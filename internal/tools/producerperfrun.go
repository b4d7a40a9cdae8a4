package tools

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// perfRun is the sending and its clocks.
type perfRun struct {
	env      Env
	o        *perfOptions
	producer *consoleProducer
	largest  int64       // bytes of a value
	sender   *perfSender // nil: franz-go's producer sends

	// answered is closed by the first answer. Until then franz-go does not know how a request to this broker is laid out,
	// takes the largest layout for granted, and ends its batches some records too early.
	answered func()
	first    <-chan struct{}

	// mu guards the fields below: callbacks of franz-go and the sender meet there. Nothing is locked under it.
	mu            sync.Mutex
	stats, steady *perfStats // steady is nil before the warm-up is over, and without one
}

// all sends every record and prints what it measured. It ends early when ctx does.
func (p *perfRun) all(ctx context.Context) error {
	o, cl := p.o, p.producer.cl
	if e := refusedLogin(cl); e != nil {
		return e
	}
	if o.transactional != "" {
		if err := p.initTransactions(ctx); err != nil {
			return err
		}
	}
	if o.warmup > 0 {
		fmt.Fprintf(p.env.Stdout, "Warmup first %d records. Steady state results will print after the complete test summary.\n", o.warmup)
	}
	answered := make(chan struct{})
	p.first, p.answered = answered, sync.OnceFunc(func() { close(answered) })
	start := time.Now()
	p.stats = newPerfStats(o.records, o.reporting, false, start)
	if p.sender = newPerfSender(ctx, p, p.largest); p.sender != nil {
		go p.sender.loop(ctx)
		defer p.closeSender(ctx)
	}
	var buf []byte // of values that are the sender's only while it is called
	random := &splittableRandom{}
	var began time.Time // of the open transaction
	open := false
	handed := int64(0)
	for i := range o.records {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		value := o.payload(buf, random, i)
		if o.transactional != "" && !open {
			if err := cl.BeginTransaction(); err != nil {
				return asJava(err)
			}
			open, began = true, time.Now()
		}
		sent := time.Now()
		if o.warmup > 0 && i == o.warmup {
			p.mu.Lock()
			p.steady = newPerfStats(o.records-o.warmup, o.reporting, true, sent)
			p.stats.silent = true
			p.mu.Unlock()
		}
		if p.sender != nil {
			if o.payloads == nil {
				buf = value
			}
			p.sender.add(ctx, i, value, sent)
			p.throttle(ctx, start, i)
			continue
		}
		p.send(ctx, value, sent)
		if handed < p.producer.config.batchSize {
			if handed += int64(len(value)); handed >= p.producer.config.batchSize {
				p.awaitFirst(ctx) // the first batch is full, and the second begun
			}
		}
		if open && sent.Sub(began) >= o.transactionEvery {
			if err := p.commit(ctx); err != nil {
				return err
			}
			open = false
		}
		p.throttle(ctx, start, i)
	}
	if open {
		if err := p.commit(ctx); err != nil {
			return err
		}
	}
	p.closeSender(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := cl.Flush(ctx); err != nil {
		return asJava(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.printTotal(p.env)
	if p.steady != nil {
		p.steady.printTotal(p.env)
	}
	if o.metrics {
		p.printMetrics()
	}
	return nil
}

// closeSender waits for the answers to all that the sender has.
func (p *perfRun) closeSender(ctx context.Context) {
	if p.sender != nil {
		p.sender.close(ctx)
		p.sender = nil
	}
}

// initTransactions asks for the transactional id's producer id, for max.block.ms at most.
func (p *perfRun) initTransactions(ctx context.Context) error {
	wait := p.producer.config.maxBlock
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	_, _, err := p.producer.cl.ProducerID(ctx)
	if err != nil && ctx.Err() != nil {
		return throw(kafkaErrors+"TimeoutException", fmt.Sprintf("Timeout expired after %dms while awaiting InitProducerId", wait.Milliseconds()))
	}
	if err != nil {
		return asJava(err)
	}
	return nil
}

// send hands over one record. What fails is told as it would be by Java's callback, and ends nothing.
func (p *perfRun) send(ctx context.Context, value []byte, sent time.Time) {
	rec := &kgo.Record{Topic: p.o.topic, Value: value}
	p.mu.Lock()
	steady := p.steady
	p.mu.Unlock()
	done := func(rec *kgo.Record, err error) {
		p.answered()
		now := time.Now()
		p.mu.Lock()
		defer p.mu.Unlock()
		if err != nil {
			fmt.Fprintln(p.env.Stderr, p.producer.asJava(rec, err).trace())
			return
		}
		latency := now.Sub(sent).Milliseconds()
		p.stats.record(p.env, latency, len(rec.Value), now)
		if steady != nil {
			steady.record(p.env, latency, len(rec.Value), now)
		}
	}
	if err := p.producer.check(rec); err != nil {
		done(rec, err)
		return
	}
	p.producer.cl.Produce(ctx, rec, done)
}

// awaitFirst waits until a broker answered.
func (p *perfRun) awaitFirst(ctx context.Context) {
	select {
	case <-p.first:
	case <-ctx.Done():
	}
}

func (p *perfRun) commit(ctx context.Context) error {
	if err := p.producer.cl.Flush(ctx); err != nil {
		return asJava(err)
	}
	p.mu.Lock()
	taken := p.stats.count > 0
	p.mu.Unlock()
	err := error(nil)
	if taken {
		err = endTransaction(ctx, p.producer.cl, p.o.topic, kgo.TryCommit)
	} else {
		err = p.producer.cl.EndTransaction(ctx, kgo.TryCommit)
	}
	if err != nil {
		return asJava(err)
	}
	return nil
}

// throttle waits until as many records as were sent are due.
func (p *perfRun) throttle(ctx context.Context, start time.Time, sent int64) {
	if p.o.perSecond < 0 {
		return
	}
	wait := time.Duration(math.MaxInt64)
	if p.o.perSecond > 0 {
		wait = time.Until(start.Add(time.Duration(float64(sent) / p.o.perSecond * float64(time.Second))))
	}
	if wait < time.Millisecond {
		return
	}
	if p.sender != nil {
		if lingers, ok := p.sender.lingers(time.Now()); ok && lingers < wait {
			pause(ctx, lingers)
			p.sender.flush(ctx)
			wait -= max(lingers, 0)
		}
	}
	pause(ctx, wait)
}

// latencySamplesMax bounds how many latencies are kept: of more records, every nth.
const latencySamplesMax = 500000

// perfStats counts what was acknowledged, from the start and in the current interval. Times are in ms.
type perfStats struct {
	start, windowStart                          time.Time
	reporting                                   time.Duration
	steady                                      bool
	silent                                      bool // report no more intervals
	sampling                                    int64
	latencies                                   []int32
	count, bytes, total, most                   int64
	windowCount, windowBytes, windowTotal, peak int64
}

func newPerfStats(records int64, reporting time.Duration, steady bool, now time.Time) *perfStats {
	return &perfStats{start: now, windowStart: now, reporting: reporting, steady: steady, sampling: records / min(records, latencySamplesMax)}
}

func (s *perfStats) record(env Env, latency int64, size int, now time.Time) {
	if s.count%s.sampling == 0 {
		s.latencies = append(s.latencies, int32(min(latency, math.MaxInt32)))
	}
	s.count++
	s.bytes += int64(size)
	s.total += latency
	s.most = max(s.most, latency)
	s.windowCount++
	s.windowBytes += int64(size)
	s.windowTotal += latency
	s.peak = max(s.peak, latency)
	if now.Sub(s.windowStart) < s.reporting {
		return
	}
	if s.steady && s.count == s.windowCount {
		fmt.Fprintln(env.Stdout, "In steady state.")
	}
	if !s.silent {
		perSecond, mb := s.rates(s.windowCount, s.windowBytes, now.Sub(s.windowStart))
		fmt.Fprintf(env.Stdout, "%d records sent, %.1f records/sec (%.2f MB/sec), %.1f ms avg latency, %.1f ms max latency.\n",
			s.windowCount, perSecond, mb, float64(s.windowTotal)/float64(s.windowCount), float64(s.peak))
	}
	s.windowStart, s.windowCount, s.windowBytes, s.windowTotal, s.peak = now, 0, 0, 0, 0
}

// rates are records and MiB in a second. Java counts whole milliseconds, and divides by zero; here it is one at least.
func (s *perfStats) rates(count, bytes int64, elapsed time.Duration) (perSecond, mb float64) {
	ms := float64(max(elapsed.Milliseconds(), 1))
	return 1000 * float64(count) / ms, 1000 * float64(bytes) / ms / (1 << 20)
}

func (s *perfStats) printTotal(env Env) {
	perSecond, mb := s.rates(s.count, s.bytes, time.Since(s.start))
	slices.Sort(s.latencies)
	percentile := func(share float64) int32 {
		if len(s.latencies) == 0 {
			return 0
		}
		return s.latencies[int(share*float64(len(s.latencies)))]
	}
	kind := ""
	if s.steady {
		kind = " steady state"
	}
	average := math.NaN()
	if s.count > 0 {
		average = float64(s.total) / float64(s.count)
	}
	fmt.Fprintf(env.Stdout, "%d%s records sent, %f records/sec (%.2f MB/sec), %.2f ms avg latency, %.2f ms max latency, %d ms 50th, %d ms 95th, %d ms 99th, %d ms 99.9th.\n",
		s.count, kind, perSecond, mb, average, float64(s.most), percentile(0.5), percentile(0.95), percentile(0.99), percentile(0.999))
}

// printMetrics prints those of Java's metrics that are known here, in its form. mu is held.
func (p *perfRun) printMetrics() {
	seconds := max(time.Since(p.stats.start).Seconds(), 0.001)
	printJavaMetrics(p.env.Stdout, "producer-metrics", p.o.props["client.id"], []javaMetric{
		{"record-send-rate", float64(p.stats.count) / seconds}, {"record-send-total", float64(p.stats.count)},
	})
}
