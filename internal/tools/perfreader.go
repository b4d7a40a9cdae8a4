package tools

import (
	"context"
	"errors"
	"io"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/record"
)

// A perfReader reads partitions from their leaders as fast as those answer, and hands over batches as they came: franz-go's own
// consumer makes an object of every record, which takes longer than everything else together. While one answer of a leader is
// looked at, the next is on its way.
//
// It asks for whole fetches, without a session. It joins no group: who is a member of one says which partitions it owns.
type perfReader struct {
	cl        *kgo.Client
	topic     string         // "" with include
	include   *regexp.Regexp // which topics, internal ones excepted
	create    bool           // brokers may create the topic
	fromEnd   bool           // begin at the end
	committed bool           // read_committed

	maxWait, minBytes, maxBytes, partitionBytes int32
	maxAge                                      time.Duration // of what is known about the topics

	// Both are of run's goroutine while it runs, and of its caller's before and after.
	owned map[topicPartition]int64          // the partitions to read, and where to begin, below 0 by fromEnd; nil: all that the topics have
	parts map[topicPartition]*perfPartition // those of one leader are lent to a goroutine of its own
}

// A perfReading is a reader at work.
type perfReading struct {
	out   chan perfFetched
	end   context.CancelFunc
	ended chan struct{} // closed when run has returned
	err   error         // what it returned; read once ended is closed
}

// A topicPartition names a partition.
type topicPartition struct {
	topic     string
	partition int32
}

// A perfPartition is a partition and how far it is read.
type perfPartition struct {
	topicPartition
	id       [16]byte
	leader   int32
	position int64 // of the next record; below 0, not known
}

// perfFetched is what one fetch brought of a partition.
type perfFetched struct {
	topicPartition
	from    int64 // records before it were not asked for
	entries []record.Entry
	aborted []kmsg.FetchResponseTopicPartitionAbortedTransaction // nil when everything is read
}

// perfBackoff is how long to wait before what failed is tried again.
const perfBackoff = 100 * time.Millisecond

// newPerfReader takes from cl what its options say about fetching.
func newPerfReader(cl *kgo.Client, create, fromEnd, committed bool) *perfReader {
	return &perfReader{
		cl: cl, create: create, fromEnd: fromEnd,
		committed:      committed,
		maxWait:        int32(cl.OptValue(kgo.FetchMaxWait).(time.Duration).Milliseconds()),
		minBytes:       cl.OptValue(kgo.FetchMinBytes).(int32),
		maxBytes:       cl.OptValue(kgo.FetchMaxBytes).(int32),
		partitionBytes: cl.OptValue(kgo.FetchMaxPartitionBytes).(int32),
		maxAge:         cl.OptValue(kgo.MetadataMaxAge).(time.Duration),
		parts:          map[topicPartition]*perfPartition{},
	}
}

// start has the reader work until stop.
func (r *perfReader) start() *perfReading {
	ctx, end := context.WithCancel(context.Background())
	reading := &perfReading{out: make(chan perfFetched, 1), end: end, ended: make(chan struct{})}
	go func() {
		defer close(reading.ended)
		reading.err = r.run(ctx, reading.out)
	}()
	return reading
}

// stop ends the work. What was read and not taken is still in out; the reader would go on behind it.
func (reading *perfReading) stop() {
	reading.end()
	<-reading.ended
}

// own changes which partitions are read. The reader must not be at work.
func (r *perfReader) own(gained map[topicPartition]int64, lost []topicPartition) {
	if r.owned == nil {
		r.owned = map[topicPartition]int64{}
	}
	for _, p := range lost {
		delete(r.owned, p)
		delete(r.parts, p)
	}
	for p, begin := range gained {
		r.owned[p] = begin
		delete(r.parts, p)
	}
}

// run sends what it reads to out, until ctx ends or something will not pass. No goroutine is left when it returns.
func (r *perfReader) run(ctx context.Context, out chan<- perfFetched) error {
	for ctx.Err() == nil {
		complete, err := r.refresh(ctx)
		if fatal := perfReadFatal("", err); fatal != nil {
			return fatal
		}
		age := r.maxAge
		if err != nil || !complete {
			age = perfBackoff
		}
		if err := r.round(ctx, age, out); err != nil {
			return err
		}
	}
	return nil
}

// round reads from every leader until age is over, or one of them has something to say that metadata must explain.
func (r *perfReader) round(ctx context.Context, age time.Duration, out chan<- perfFetched) error {
	leaders := map[int32][]*perfPartition{}
	for _, p := range r.parts {
		if p.leader >= 0 && p.position >= 0 {
			leaders[p.leader] = append(leaders[p.leader], p)
		}
	}
	stale := make(chan struct{})
	end := sync.OnceFunc(func() { close(stale) })
	timer := time.AfterFunc(age, end)
	defer timer.Stop()
	var followers sync.WaitGroup
	failed := make(chan error, len(leaders))
	for leader, parts := range leaders {
		followers.Go(func() {
			if err := r.follow(ctx, leader, parts, stale, out); err != nil {
				failed <- err
			}
			end()
		})
	}
	if len(leaders) == 0 {
		select {
		case <-stale:
		case <-ctx.Done():
		}
	}
	followers.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// follow reads partitions from their leader until stale is closed, ctx ends, or an error comes; it returns one that will not pass.
func (r *perfReader) follow(ctx context.Context, leader int32, parts []*perfPartition, stale <-chan struct{}, out chan<- perfFetched) error {
	for {
		select {
		case <-stale:
			return nil
		default:
		}
		resp, err := r.cl.Broker(int(leader)).RetriableRequest(ctx, r.request(parts))
		if err == nil {
			err = kerr.ErrorForCode(resp.(*kmsg.FetchResponse).ErrorCode)
		}
		if err == nil {
			var fed int
			var good bool
			if fed, good, err = r.take(ctx, resp.(*kmsg.FetchResponse), parts, out); err == nil && good {
				parts = slices.Concat(parts[fed:], parts[:fed]) // brokers fill an answer in the order of the request: all shall have their turn
				continue
			}
		}
		if fatal := perfReadFatal("", err); fatal != nil || ctx.Err() != nil {
			return fatal
		}
		select { // what is wrong may pass
		case <-ctx.Done():
		case <-time.After(perfBackoff):
		}
		return nil
	}
}

func (r *perfReader) request(parts []*perfPartition) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID = -1
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = r.maxWait, r.minBytes, r.maxBytes
	req.SessionEpoch = -1
	if r.committed {
		req.IsolationLevel = 1
	}
	for _, p := range parts {
		at := slices.IndexFunc(req.Topics, func(t kmsg.FetchRequestTopic) bool { return t.Topic == p.topic })
		if at < 0 {
			topic := kmsg.NewFetchRequestTopic()
			topic.Topic, topic.TopicID = p.topic, p.id
			at, req.Topics = len(req.Topics), append(req.Topics, topic)
		}
		part := kmsg.NewFetchRequestTopicPartition()
		part.Partition, part.FetchOffset, part.PartitionMaxBytes = p.partition, p.position, r.partitionBytes
		req.Topics[at].Partitions = append(req.Topics[at].Partitions, part)
	}
	return req
}

// take hands over what an answer brought, of how many partitions it says, and moves on behind what was taken. It is not good when
// metadata must be asked.
func (r *perfReader) take(ctx context.Context, resp *kmsg.FetchResponse, parts []*perfPartition, out chan<- perfFetched) (fed int, good bool, err error) {
	good = true
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			got := &t.Partitions[j]
			at := slices.IndexFunc(parts, func(p *perfPartition) bool {
				return p.partition == got.Partition && (p.id == t.TopicID || t.Topic != "" && p.topic == t.Topic)
			})
			if at < 0 {
				continue // nobody asked
			}
			p := parts[at]
			if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
				good = false
				if errors.Is(err, kerr.OffsetOutOfRange) {
					p.position = -1 // begins anew, by auto.offset.reset
				} else if fatal := perfReadFatal(p.topic, err); fatal != nil {
					return fed, false, fatal
				}
				continue
			}
			entries, next, err := cutEntries(got.RecordBatches, p.position)
			if err != nil {
				return fed, false, perfCorrupt(p.topicPartition, err)
			}
			if len(entries) == 0 {
				continue
			}
			fetched := perfFetched{topicPartition: p.topicPartition, from: p.position, entries: entries}
			if r.committed {
				fetched.aborted = got.AbortedTransactions
			}
			select {
			case out <- fetched:
				p.position = next
				fed++
			case <-ctx.Done():
				return fed, false, nil
			}
		}
	}
	return fed, good, nil
}

// cutEntries cuts what a fetch brought at its entries, of which the last may be torn, and says where the next fetch begins.
func cutEntries(b []byte, from int64) (entries []record.Entry, next int64, err error) {
	next = from
	for len(b) > 0 {
		e, err := record.FirstEntry(b)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			break // the first partition of an answer brings a whole entry, whatever its size; those after it bring what has room
		}
		if err != nil {
			return nil, from, err
		}
		entries, b = append(entries, e), b[len(e):]
		next = max(next, int64(e.LastOffset())+1)
	}
	return entries, next, nil
}

// refresh asks for the topics, and where to begin in partitions that are new. It is false when some of it is not known yet.
func (r *perfReader) refresh(ctx context.Context) (complete bool, err error) {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = r.create
	if r.include == nil {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &r.topic
		req.Topics = append(req.Topics, topic)
	}
	answer, err := r.cl.Request(ctx, req)
	if err != nil {
		return false, err
	}
	parts := map[topicPartition]*perfPartition{}
	complete = true
	for _, t := range answer.(*kmsg.MetadataResponse).Topics {
		if t.Topic == nil || r.include != nil && (t.IsInternal || !r.include.MatchString(*t.Topic)) {
			continue
		}
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			if fatal := perfReadFatal(*t.Topic, err); fatal != nil {
				return false, fatal
			}
			complete = false
			continue
		}
		for _, part := range t.Partitions {
			p := &perfPartition{topicPartition{*t.Topic, part.Partition}, t.TopicID, part.Leader, -1}
			if r.owned != nil {
				begin, ok := r.owned[p.topicPartition]
				if !ok {
					continue
				}
				p.position = max(begin, -1)
			}
			if old := r.parts[p.topicPartition]; old != nil && old.id == p.id {
				p.position = old.position
			}
			parts[p.topicPartition] = p
			complete = complete && p.leader >= 0
		}
	}
	r.parts = parts
	begun, err := r.begin(ctx)
	return complete && begun, err
}

// begin asks where partitions begin, or end, of which no position is known.
func (r *perfReader) begin(ctx context.Context) (complete bool, err error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	if r.committed {
		req.IsolationLevel = 1
	}
	for _, p := range r.parts {
		if p.position >= 0 || p.leader < 0 {
			continue
		}
		topic, part := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
		topic.Topic, part.Partition, part.Timestamp = p.topic, p.partition, namedTimes["earliest"]
		if r.fromEnd {
			part.Timestamp = namedTimes["latest"]
		}
		topic.Partitions = append(topic.Partitions, part)
		req.Topics = append(req.Topics, topic)
	}
	if len(req.Topics) == 0 {
		return true, nil
	}
	answer, err := r.cl.Request(ctx, req)
	if err != nil {
		return false, err
	}
	complete = true
	for _, t := range answer.(*kmsg.ListOffsetsResponse).Topics {
		for _, part := range t.Partitions {
			if err := kerr.ErrorForCode(part.ErrorCode); err != nil {
				if fatal := perfReadFatal(t.Topic, err); fatal != nil {
					return false, fatal
				}
				complete = false
			} else if p := r.parts[topicPartition{t.Topic, part.Partition}]; p != nil {
				p.position = part.Offset
			}
		}
	}
	return complete, nil
}

// perfReadFatal is err as Java tells it when it will not pass, nil otherwise.
func perfReadFatal(topic string, err error) error {
	if err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return nil
	}
	if e, ok := errors.AsType[*javaError](err); ok {
		return e
	}
	if e := consumerFatal("", topic, err); e != nil {
		return e
	}
	return nil
}
