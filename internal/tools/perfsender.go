package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/record"
)

// A perfSender sends records of one topic in batches that it makes itself: franz-go's producer has an object, a promise and a lock
// for every record, which takes longer than everything else together. It knows no transactions and waits for an acknowledgment
// of every batch; for the rest there is franz-go's.
//
// The batches of a partition leave in order. When one of them fails, nothing more is sent until all that is on its way has been
// answered; then what failed and may be tried again goes first, with the sequences it had.
//
// add, flush and close are called by one goroutine, which fills batches. loop, the other, sends them and owns all below queue.
type perfSender struct {
	run    *perfRun
	config *producerConfig
	cl     *kgo.Client
	topic  string

	inFlight int // requests on their way, at most

	builder *record.Builder
	filling *perfParcel // nil: none
	count   int         // of partitions
	at      int32       // the partition being filled
	handed  int64       // parcels

	queue   chan *perfParcel
	free    chan *perfParcel // to be filled again
	busy    atomic.Bool      // as many requests are on their way as may be
	written chan struct{}    // a Produce request was
	done    chan struct{}    // closed when loop ended

	id       [16]byte
	leaders  []int32 // of each partition
	producer int64   // -1: not idempotent
	epoch    int16
	next     []int32       // sequence of each partition
	renew    bool          // a batch was given up, and its sequence with it: a new producer id is needed
	results  chan perfSent // with room for all requests on their way
}

// A perfParcel is a batch on its way.
type perfParcel struct {
	number    int64 // order of sending
	partition int32
	sequence  int32 // below 0: none yet
	attempts  int64
	began     time.Time
	batch     []byte
	first     int64 // number of its first record
	records   []perfRecord
}

// A perfRecord is what is measured of a record.
type perfRecord struct {
	sent time.Time
	size int
}

// perfSent is an answered request.
type perfSent struct {
	parcels []*perfParcel
	resp    *kmsg.ProduceResponse
	err     error
}

const (
	perfPendingMax  = 64  // batches that wait for a request to be free
	perfInFlightMax = 256 // requests on their way, to all leaders together
	perfStartMost   = 2 * time.Second
)

// newPerfSender returns nil when there is something that it does not know how to do, or a topic that is not there at once.
func newPerfSender(ctx context.Context, run *perfRun, largest int64) *perfSender {
	c := run.producer.config
	if run.o.transactional != "" || c.acks == kgo.NoAck() {
		return nil
	}
	if size := recordSizeMost(&kgo.Record{Value: make([]byte, min(largest, c.maxRequest))}); size > min(c.maxRequest, c.bufferMemory) {
		return nil
	}
	s := &perfSender{
		run: run, config: c, topic: run.o.topic, builder: record.NewBuilder(), producer: -1,
		queue:   make(chan *perfParcel, min(max(c.bufferMemory/max(c.batchSize, 1), 1), perfPendingMax)),
		free:    make(chan *perfParcel, 2*perfPendingMax),
		written: make(chan struct{}, 1), done: make(chan struct{}), results: make(chan perfSent, min(c.inFlight, perfInFlightMax)),
	}
	s.inFlight = cap(s.results)
	s.builder.Codec = c.codec
	opts := append(slices.Clone(c.conn), kgo.RequiredAcks(c.acks), kgo.DisableIdempotentWrite(), kgo.WithHooks(s), kgo.MetadataMinAge(10*time.Millisecond))
	var err error
	if s.cl, err = kgo.NewClient(opts...); err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, min(perfStartMost, c.maxBlock))
	defer cancel()
	for err = s.refresh(ctx); err != nil && ctx.Err() == nil && isRetriable(err); err = s.refresh(ctx) {
		pause(ctx, perfBackoff)
	}
	if err == nil && c.idempotent {
		err = s.newProducer(ctx)
	}
	if err != nil {
		s.cl.Close()
		return nil
	}
	s.count = len(s.leaders)
	s.at = rand.Int32N(int32(s.count))
	return s
}

// OnBrokerWrite is called by franz-go when a request was written.
func (s *perfSender) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if kmsg.Key(key) != kmsg.Produce {
		return
	}
	select {
	case s.written <- struct{}{}:
	default:
	}
}

// add takes a record, whose value is the caller's again afterwards. number counts records.
func (s *perfSender) add(ctx context.Context, number int64, value []byte, now time.Time) {
	rec := record.Record{Value: value, Timestamp: now.UnixMilli()}
	if s.filling != nil && int64(s.builder.Size()+len(value))+perfRecordMost > s.config.batchSize {
		s.flush(ctx)
	}
	if s.filling == nil {
		select {
		case s.filling = <-s.free:
		default:
			s.filling = &perfParcel{}
		}
		*s.filling = perfParcel{partition: s.at, sequence: -1, began: now, first: number, records: s.filling.records[:0], batch: s.filling.batch[:0]}
	}
	s.builder.Add(rec)
	s.filling.records = append(s.filling.records, perfRecord{now, len(value)})
	if !s.busy.Load() && now.Sub(s.filling.began) >= s.config.linger {
		s.flush(ctx)
	}
}

// perfRecordMost is what a record takes besides a value, at most.
const perfRecordMost = 21

// lingers is how long the batch being filled may still wait; none waits for ever.
func (s *perfSender) lingers(now time.Time) (time.Duration, bool) {
	if s.filling == nil {
		return 0, false
	}
	return s.filling.began.Add(s.config.linger).Sub(now), true
}

// flush hands over the batch being filled, and goes on with another partition.
func (s *perfSender) flush(ctx context.Context) {
	p := s.filling
	if p == nil {
		return
	}
	s.filling = nil
	s.at = rand.Int32N(int32(s.count))
	p.number = s.handed
	s.handed++
	var err error
	if p.batch, err = s.builder.Batch(p.batch); err != nil {
		s.tell(p, err)
		return
	}
	select {
	case s.queue <- p:
	case <-ctx.Done():
	}
}

// close sends what is left and returns when all of it is answered.
func (s *perfSender) close(ctx context.Context) {
	s.flush(ctx)
	close(s.queue)
	<-s.done
	s.cl.Close()
}

// loop sends until the queue is closed and empty, or ctx ends.
func (s *perfSender) loop(ctx context.Context) {
	defer close(s.done)
	var pending, failed []*perfParcel
	inFlight := 0
	for queue := s.queue; queue != nil || len(pending)+len(failed)+inFlight > 0; {
		stalled := s.renew || len(failed) > 0
		if ctx.Err() != nil && inFlight == 0 {
			return
		}
		if stalled && inFlight == 0 {
			for len(queue) > 0 && len(pending) < perfPendingMax { // their time runs too
				pending = append(pending, <-queue)
			}
			pending, failed = s.recover(ctx, pending, failed), nil
			continue
		}
		s.busy.Store(inFlight >= s.inFlight)
		if !stalled && len(pending) > 0 && inFlight < s.inFlight && ctx.Err() == nil {
			pending = s.dispatch(ctx, pending)
			inFlight++
			continue
		}
		take := queue
		if len(pending) >= perfPendingMax || ctx.Err() != nil {
			take = nil
		}
		select {
		case p, ok := <-take:
			if !ok {
				queue = nil
				continue
			}
			pending = append(pending, p)
		case sent := <-s.results:
			inFlight--
			failed = s.settle(sent, failed)
		}
	}
}

// dispatch sends a request with the next batch of every partition of one leader, as far as they fit, and returns the rest.
func (s *perfSender) dispatch(ctx context.Context, pending []*perfParcel) (rest []*perfParcel) {
	leader := s.leaders[pending[0].partition]
	req := kmsg.NewPtrProduceRequest()
	req.TimeoutMillis = int32(s.config.requestTimeout.Milliseconds())
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic, topic.TopicID = s.topic, s.id
	var parcels []*perfParcel
	seen := make(map[int32]bool, len(pending))
	size := int64(0)
	for _, p := range pending {
		fits := len(parcels) == 0 || size+int64(len(p.batch)) <= s.config.maxRequest
		if seen[p.partition] || s.leaders[p.partition] != leader || !fits {
			seen[p.partition] = true
			rest = append(rest, p)
			continue
		}
		seen[p.partition] = true
		size += int64(len(p.batch))
		s.stamp(p)
		part := kmsg.NewProduceRequestTopicPartition()
		part.Partition, part.Records = p.partition, p.batch
		topic.Partitions = append(topic.Partitions, part)
		parcels = append(parcels, p)
	}
	req.Topics = append(req.Topics, topic)
	select { // of an attempt before
	case <-s.written:
	default:
	}
	answered := make(chan struct{})
	go func() { // ended by the answer, or ctx; its result is waited for
		resp, err := s.cl.Broker(int(leader)).Request(ctx, req)
		sent := perfSent{parcels: parcels, err: err}
		if err == nil {
			sent.resp = resp.(*kmsg.ProduceResponse)
		}
		s.results <- sent
		close(answered)
	}()
	// Requests are written one after the other: nothing else keeps two that wait at the same time in order.
	select {
	case <-s.written:
	case <-answered:
	}
	return rest
}

// stamp gives a batch its producer and sequence, unless it has them.
func (s *perfSender) stamp(p *perfParcel) {
	if s.producer < 0 || p.sequence >= 0 {
		return
	}
	p.sequence = s.next[p.partition]
	s.next[p.partition] = int32(uint32(p.sequence+int32(len(p.records))) & (1<<31 - 1))
	record.Batch(p.batch).SetProducer(s.producer, s.epoch, p.sequence)
}

// settle counts what was acknowledged, tells of what was refused, and adds to failed what may be tried again.
func (s *perfSender) settle(sent perfSent, failed []*perfParcel) []*perfParcel {
	now := time.Now()
	for _, p := range sent.parcels {
		err := sent.err
		if err == nil {
			err = partitionError(sent.resp, p.partition)
		}
		p.attempts++
		switch {
		case err == nil || errors.Is(err, kerr.DuplicateSequenceNumber):
			s.acknowledge(p, now)
		case p.attempts <= s.config.retries && (isRetriable(err) || errors.Is(err, kerr.OutOfOrderSequenceNumber) && len(failed) > 0):
			failed = append(failed, p)
		default:
			s.giveUp(p, err)
		}
	}
	return failed
}

// partitionError is what a broker says of a partition.
func partitionError(resp *kmsg.ProduceResponse, partition int32) error {
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			if got := &resp.Topics[i].Partitions[j]; got.Partition == partition {
				if got.ErrorMessage != nil && got.ErrorCode != 0 && !kerr.IsRetriable(kerr.ErrorForCode(got.ErrorCode)) && got.ErrorCode != kerr.OutOfOrderSequenceNumber.Code {
					return brokerError(got.ErrorCode, got.ErrorMessage)
				}
				return kerr.ErrorForCode(got.ErrorCode)
			}
		}
	}
	return fmt.Errorf("the answer says nothing of partition %d", partition)
}

// isRetriable reports whether what failed may work later: all but a broker's last word.
func isRetriable(err error) bool {
	if _, ok := errors.AsType[*javaError](err); ok || errors.Is(err, kgo.ErrClientClosed) {
		return false
	}
	if e, ok := errors.AsType[*kerr.Error](err); ok {
		return e.Retriable
	}
	return true
}

// recover prepares for sending what failed again, ahead of what waits: by fresh metadata, and a new producer id if one is needed.
func (s *perfSender) recover(ctx context.Context, pending, failed []*perfParcel) []*perfParcel {
	pause(ctx, max(s.config.retryBackoff, time.Millisecond))
	all := append(failed, pending...)
	slices.SortFunc(all, func(a, b *perfParcel) int { return cmp.Compare(a.number, b.number) })
	all = slices.DeleteFunc(all, func(p *perfParcel) bool {
		if time.Since(p.began) < s.config.delivery {
			return false
		}
		s.giveUp(p, throw(kafkaErrors+"TimeoutException", fmt.Sprintf("Expiring %d record(s) for %s-%d:%d ms has passed since batch creation",
			len(p.records), s.topic, p.partition, s.config.delivery.Milliseconds())))
		return true
	})
	ctx, cancel := context.WithTimeout(ctx, s.config.requestTimeout)
	defer cancel()
	_ = s.refresh(ctx) // what it cannot tell now, it is asked again after the next failure
	if s.renew && s.newProducer(ctx) == nil {
		for _, p := range all {
			p.sequence = -1
		}
	}
	return all
}

// tell says of each record of a batch why it is lost, as Java's callback does.
func (s *perfSender) tell(p *perfParcel, err error) {
	s.run.mu.Lock()
	for range p.records {
		fmt.Fprintln(s.run.env.Stderr, asJava(err).trace())
	}
	s.run.mu.Unlock()
}

// giveUp tells of a batch that will not be sent again. Its sequence, if it has one, is missing from then on.
func (s *perfSender) giveUp(p *perfParcel, err error) {
	s.tell(p, err)
	s.renew = s.producer >= 0
}

// acknowledge counts the records of a batch, and takes its memory back.
func (s *perfSender) acknowledge(p *perfParcel, now time.Time) {
	run := s.run
	run.mu.Lock()
	for i, rec := range p.records {
		latency := now.Sub(rec.sent).Milliseconds()
		run.stats.record(run.env, latency, rec.size, now)
		if run.steady != nil && p.first+int64(i) >= run.o.warmup {
			run.steady.record(run.env, latency, rec.size, now)
		}
	}
	run.mu.Unlock()
	select {
	case s.free <- p:
	default:
	}
}

// refresh asks who leads the topic's partitions.
func (s *perfSender) refresh(ctx context.Context) error {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = true
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &s.topic
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, s.cl)
	if err != nil {
		return err
	}
	if len(resp.Topics) != 1 {
		return fmt.Errorf("%d topics in an answer about %s", len(resp.Topics), s.topic)
	}
	t := &resp.Topics[0]
	if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
		return err
	}
	leaders := make([]int32, len(t.Partitions))
	for _, p := range t.Partitions {
		if p.Partition < 0 || int(p.Partition) >= len(leaders) {
			return fmt.Errorf("partition %d of %d", p.Partition, len(leaders))
		}
		if p.Leader < 0 {
			return kerr.LeaderNotAvailable
		}
		leaders[p.Partition] = p.Leader
	}
	if len(leaders) == 0 || len(leaders) < len(s.leaders) {
		return kerr.LeaderNotAvailable
	}
	s.id, s.leaders = t.TopicID, leaders
	return nil
}

// newProducer asks for a producer id, whose sequences begin at 0.
func (s *perfSender) newProducer(ctx context.Context) error {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionTimeoutMillis = int32(javaTransactionTimeout.Milliseconds())
	resp, err := req.RequestWith(ctx, s.cl)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return err
	}
	s.producer, s.epoch, s.next, s.renew = resp.ProducerID, resp.ProducerEpoch, make([]int32, len(s.leaders)), false
	return nil
}

// pause waits unless ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
