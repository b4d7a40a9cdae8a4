package server

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/replica"
	"github.com/quire-log/quire/internal/storage"
)

// A machine is the state of one partition of a coordinator's topic: it decides, and its log is its memory. One goroutine at a
// time uses it.
type machine interface {
	// replay applies one record of the log, of which it keeps nothing, replayMarker the end of a transaction. An error of replay is of one damaged record.
	replay(e *coordEntry) error
	replayMarker(producerID int64, producerEpoch int16, commit bool)
	// loaded ends the loading; unload answers everything that waits, and is the last call.
	loaded(now time.Time)
	unload()
	// onImage hears what has changed in the cluster.
	onImage(now time.Time, d *metadata.Delta)
	// nextTimer is when tick has something to do: it may be early, never late. tick does one thing that is due, if any.
	nextTimer() (time.Time, bool)
	tick(now time.Time) effect
}

// A coordRecord is a record of a coordinator's log. A nil value is a tombstone.
type coordRecord struct{ key, value []byte }

// A coordEntry is a record as it stands in the log.
type coordEntry struct {
	coordRecord
	offset   int64
	producer *coordProducer // of a transactional batch
}

// A coordProducer is who writes within a transaction.
type coordProducer struct {
	id    int64
	epoch int16
}

// An effect is what an event of a machine comes to; the zero effect: nothing is to be written, nobody to be told.
type effect struct {
	// records are appended in this order, as one batch unless they are too many for one, and replayed. They are used before the
	// machine's next event, so the slice may be its scratch.
	records []coordRecord
	// producer makes the batch transactional.
	producer *coordProducer
	// then is called once the records are replayed and committed, or with why they could not be: a *kerr.Error is in its chain.
	then func(error)
}

// shards run the machines of one coordinator's topic: one for each partition that this node leads, from the load of its log until
// the leadership ends.
//
//	S1  a machine's records are those of its log: what could not be appended is not in its state. Where events that shared an
//	    append were replayed and the append failed, the machine is thrown away and loaded anew
//	S2  nobody is answered before the records that were decided before the answer are committed
//	S3  no request is kept waiting by a load: it is answered COORDINATOR_LOAD_IN_PROGRESS
//	S4  what a shard owns ends, answered, before its partition is led again or the node stops
type shards[M machine] struct {
	topic string
	node  int32
	make  func(partition int32) M
	find  func(partition int32) *replica.Partition
	// codec compresses batches. sequence is their base sequence: Kafka's coordinators of groups write 0, that of transactions -1.
	codec      record.Codec
	sequence   int32
	loadBuffer int // bytes read at once
	log        *slog.Logger

	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup // loads, timers, and who carries events out for others
	loads  chan struct{}  // as many loads run at once as it has room

	wake atomic.Int64  // when the timers' goroutine gets up, ns
	kick chan struct{} // of capacity 1

	// mu guards the fields below. It is held by applies, one at a time; a shard's own lock is taken under it.
	mu      sync.Mutex
	changes []*metadata.Delta // not yet handed to machines
	closed  bool
	id      metadata.UUID // of the topic that the shards are of

	led atomic.Pointer[[]*shard[M]] // by partition; nil: not led, or no topic. Replaced as a whole under mu
}

// loadsAtOnce bounds how many logs are read side by side: they wait for the disk, and replay keeps a processor busy.
const loadsAtOnce = 4

const never = math.MaxInt64

// run makes the shards follow images from now on: begin is the first.
func (c *shards[M]) run(begin *metadata.Image) {
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.loads, c.kick = make(chan struct{}, loadsAtOnce), make(chan struct{}, 1)
	c.wake.Store(never)
	c.apply(begin, nil)
	c.work.Go(c.serveTimers)
}

// partitionOf is the partition that a key belongs to. false: there is no topic yet.
func (c *shards[M]) partitionOf(img *metadata.Image, key string) (int32, bool) {
	t := img.Topic(c.topic)
	if t == nil || len(t.Partitions) == 0 {
		return -1, false
	}
	return javaHash(key) % int32(len(t.Partitions)), true
}

// javaHash is the absolute value of Java's hash of a string, which counts UTF-16 units; of the one number that has none, 0.
func javaHash(s string) int32 {
	var h int32
	for _, r := range s {
		if r > 0xffff {
			r -= 0x10000
			h = 31*h + 0xd800 + (r >> 10)
			r = 0xdc00 + (r & 0x3ff)
		}
		h = 31*h + r
	}
	if h == math.MinInt32 {
		return 0
	}
	return max(h, -h)
}

// apply follows an image: d is what changed, nil for the first. Logs are made and led by then. It waits for nothing.
func (c *shards[M]) apply(img *metadata.Image, d *metadata.Delta) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	var was []*shard[M]
	if l := c.led.Load(); l != nil {
		was = *l
	}
	t := img.Topic(c.topic)
	var now []*shard[M]
	changed := t == nil && len(was) > 0
	if t != nil {
		now = make([]*shard[M], len(t.Partitions))
		changed = changed || len(now) != len(was)
		for i, said := range t.Partitions {
			var before *shard[M]
			if i < len(was) {
				before = was[i]
			}
			if before != nil && c.id == t.ID && said.Leader == c.node && before.epoch == said.LeaderEpoch {
				now[i] = before
				continue
			}
			if said.Leader == c.node {
				now[i] = newShard(c, int32(i), said.LeaderEpoch)
			}
			changed = changed || before != now[i]
		}
		c.id = t.ID
	}
	if changed {
		c.led.Store(&now)
		for i, s := range was {
			if s != nil && (i >= len(now) || now[i] != s) {
				s.close()
				if i >= len(now) || now[i] == nil {
					c.work.Go(s.end)
				}
			}
		}
		for i, s := range now {
			if s == nil || i < len(was) && was[i] == s {
				continue
			}
			var before *shard[M]
			if i < len(was) {
				before = was[i]
			}
			c.work.Go(func() { s.load(before) })
		}
	}
	if d != nil && len(now) > 0 {
		c.changes = append(c.changes, d)
		c.rouse()
	}
}

// shard finds the shard of a partition, or says why a client cannot be served here.
func (c *shards[M]) shard(partition int32) (*shard[M], *kerr.Error) {
	l := c.led.Load()
	if l == nil || len(*l) == 0 {
		return nil, kerr.CoordinatorNotAvailable
	}
	if partition < 0 || int(partition) >= len(*l) || (*l)[partition] == nil {
		return nil, kerr.NotCoordinator
	}
	return (*l)[partition], nil
}

// all are the shards that there are.
func (c *shards[M]) all() []*shard[M] {
	var all []*shard[M]
	if l := c.led.Load(); l != nil {
		for _, s := range *l {
			if s != nil {
				all = append(all, s)
			}
		}
	}
	return all
}

// rouse lets the timers' goroutine look again.
func (c *shards[M]) rouse() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// serveTimers hands images to the machines and ticks those whose time has come, until close.
func (c *shards[M]) serveTimers() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		// In this order: a shard that moves its time to an earlier one after it was looked at finds a later time here, and kicks.
		c.wake.Store(never)
		next := int64(never)
		for _, s := range c.all() {
			next = min(next, s.due.Load())
		}
		c.wake.Store(next)
		wait := time.Duration(math.MaxInt64)
		if next != never {
			wait = time.Until(time.Unix(0, next))
		}
		timer.Reset(wait)
		select {
		case <-c.ctx.Done():
			return
		case <-c.kick:
		case <-timer.C:
		}
		c.mu.Lock()
		changes := c.changes
		c.changes = nil
		c.mu.Unlock()
		for _, s := range c.all() {
			for _, d := range changes {
				s.do(&event[M]{decide: func(m M, now time.Time) effect { m.onImage(now, d); return effect{} }})
			}
			if s.due.Load() <= time.Now().UnixNano() {
				s.do(&event[M]{ticks: true})
			}
		}
	}
}

// appendMarker ends a transaction in a partition's log, by the control batch given, and in its machine. The error has a *kerr.Error in
// its chain, or is the log's (*storage.SequenceError).
func (c *shards[M]) appendMarker(partition int32, p coordProducer, commit bool, batch record.Batch, o storage.AppendOptions) error {
	s, code := c.shard(partition)
	if code != nil {
		return code
	}
	done := make(chan error, 1)
	s.do(&event[M]{marker: &markerEvent{p, commit, batch, o, done}, refuse: func(err error) { done <- err }})
	return <-done
}

// close ends all shards: whoever waits is answered NOT_COORDINATOR. Nothing runs when it returns.
func (c *shards[M]) close() {
	c.mu.Lock()
	if c.closed || c.cancel == nil {
		c.closed = true
		c.mu.Unlock()
		return
	}
	c.closed = true
	all := c.all()
	c.led.Store(nil)
	c.mu.Unlock()
	c.cancel()
	for _, s := range all {
		s.close()
		s.end()
	}
	c.work.Wait()
}

// A question is an event of a machine whose reply somebody waits for. It can be put again and again, one after the other.
type question[M machine, T any] struct {
	event[M]
	ask   func(m M, now time.Time, reply func(T)) effect
	reply func(T)
	// aside: the event happens on a goroutine of its own, which ends with it: for what needs much stack. A connection's goroutine would
	// keep as much of it as it ever needed, and there are thousands that wait.
	aside  bool
	shard  *shard[M]
	done   chan struct{} // of capacity 1: the reply is there, or code
	answer T
	code   *kerr.Error
}

// newQuestion makes a question. ask has reply called once, by this event or a later one, always while the machine is in use.
func newQuestion[M machine, T any](ask func(m M, now time.Time, reply func(T)) effect) *question[M, T] {
	q := &question[M, T]{ask: ask, done: make(chan struct{}, 1)}
	q.decide = func(m M, now time.Time) effect { return q.ask(m, now, q.reply) }
	q.refuse = q.finish
	q.reply = func(t T) {
		q.answer = t
		q.shard.release(q)
	}
	return q
}

// put lets the question happen on the shard of a partition, and returns the reply once all records before it are committed. When ctx
// ends first, the reply is lost, and with it what the question holds: it cannot be put again, and whoever passes a ctx that ends must
// not decide on views of a request's buffer. The error is one of the coordinator's own: loading, not here, not written.
func (q *question[M, T]) put(ctx context.Context, c *shards[M], partition int32) (answer T, code *kerr.Error) {
	if code := q.begin(c, partition); code != nil {
		return answer, code
	}
	return q.wait(ctx)
}

// begin and wait are the two halves of put.
func (q *question[M, T]) begin(c *shards[M], partition int32) *kerr.Error {
	s, code := c.shard(partition)
	if code != nil {
		return code
	}
	var none T
	q.shard, q.answer, q.code = s, none, nil
	if q.aside {
		go s.do(&q.event)
	} else {
		s.do(&q.event)
	}
	return nil
}

func (q *question[M, T]) wait(ctx context.Context) (answer T, code *kerr.Error) {
	select {
	case <-q.done:
	default:
		select {
		case <-q.done:
		case <-ctx.Done():
			return q.result(false)
		}
	}
	return q.result(true)
}

// result is the reply once done has told, or if it has not, that nobody waits for it any more.
func (q *question[M, T]) result(done bool) (answer T, code *kerr.Error) {
	if !done {
		return answer, kerr.RequestTimedOut
	}
	return q.answer, q.code
}

// finish lets the one who waits go on.
func (q *question[M, T]) finish(err error) {
	if err != nil {
		q.code = coordinatorCode(err)
	}
	q.done <- struct{}{}
}

// consult puts a question once.
func consult[M machine, T any](ctx context.Context, c *shards[M], partition int32, ask func(m M, now time.Time, reply func(T)) effect) (T, *kerr.Error) {
	return newQuestion(ask).put(ctx, c, partition)
}

// A coordinatorError is what went wrong below a coordinator, and what its clients are told of it.
type coordinatorError struct {
	code *kerr.Error
	err  error
}

func (e *coordinatorError) Error() string   { return e.code.Message + ": " + e.err.Error() }
func (e *coordinatorError) Unwrap() []error { return []error{e.code, e.err} }

// coordinatorCode is the code that clients of a coordinator are told.
func coordinatorCode(err error) *kerr.Error {
	var k *kerr.Error
	if errors.As(err, &k) {
		return k
	}
	return kerr.UnknownServerError
}

// appendError says in a coordinator's terms why its records were not written, as Kafka does: clients know what to try again, and where.
func appendError(err error) error {
	code, _ := errorCode(err)
	k := kerr.UnknownServerError
	switch code {
	case codeUnknownTopicOrPartition, codeNotEnoughReplicas, codeRequestTimedOut:
		k = kerr.CoordinatorNotAvailable
	case codeNotLeaderOrFollower, codeKafkaStorageError:
		k = kerr.NotCoordinator
	}
	return &coordinatorError{k, err}
}
