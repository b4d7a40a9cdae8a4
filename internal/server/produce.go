package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/replica"
	"github.com/quire-log/quire/internal/storage"
	"github.com/quire-log/quire/internal/wire"
)

// Produce, versions 3-13; 0-2 are advertised, since librdkafka before 2.11.1 would send uncompressed otherwise, and refused when used.
//
//	v3   transactional id; one batch of magic 2 per partition
//	v5   log start offset in the answer
//	v7   zstd
//	v8   errors of single records, and a message
//	v9   flexible
//	v10  a refused partition says who leads it (tag 0), and where that node is (tag 0 of the answer)
//	v12  transactions v2
//	v13  topic ids instead of names
//
// The request is walked three times where it lies: to see that it is whole, to append, and to answer. Nothing is kept per record,
// and nothing is allocated per request.
//
// Unlike Kafka, a partition with null records is answered (INVALID_RECORD), and a full disk does not end the broker (KAFKA_STORAGE_ERROR
// until there is room).
const (
	produceMin         = 3
	produceZstdMin     = 7
	produceErrorsMin   = 8
	produceLeadersMin  = 10
	produceTopicIDsMin = 13
)

// requestPartitionsMax bounds the partitions of one produce or fetch: each costs this node some hundred bytes and an entry of the answer,
// and a client as few as five.
const requestPartitionsMax = 1 << 18

var errManyPartitions = fmt.Errorf("it names more than %d partitions", requestPartitionsMax)

// A produceWalk goes over the topics and partitions of a request.
type produceWalk struct {
	r       wire.Reader
	version int16

	transactionalID string
	transactional   bool // has a transactional id
	acks            int16
	timeoutMs       int32

	topics, partitions int // that are still to come; partitions: of this topic
	topic              string
	id                 kmeta.UUID
	partition          int32
	records            []byte // nil: null
}

func walkProduce(req *wire.Request) produceWalk {
	w := produceWalk{r: req.Reader(), version: req.Version}
	w.transactionalID, w.transactional = w.r.NullableString()
	w.acks = w.r.Int16()
	w.timeoutMs = w.r.Int32()
	w.topics = w.r.ArrayLen(w.topicMin())
	return w
}

func (w *produceWalk) topicMin() int {
	if w.version >= produceTopicIDsMin {
		return 16 + 1
	}
	return 1 + 1
}

func (w *produceWalk) nextTopic() bool {
	if w.topics == 0 {
		w.r.Tags(nil)
		return false
	}
	w.topics--
	if w.version >= produceTopicIDsMin {
		w.id = w.r.UUID()
	} else {
		w.topic = w.r.String()
	}
	w.partitions = w.r.ArrayLen(4 + 1)
	return w.r.Err() == nil
}

func (w *produceWalk) nextPartition() bool {
	if w.partitions == 0 || w.r.Err() != nil {
		w.r.Tags(nil)
		return false
	}
	w.partitions--
	w.partition = w.r.Int32()
	w.records = w.r.NullableBytes()
	w.r.Tags(nil)
	return w.r.Err() == nil
}

// produced is what became of one partition of a request, in its order.
type produced struct {
	partition *replica.Partition
	await     replica.Offset // acks=all: the high watermark must reach it; 0: nothing to wait for
	code      int16
	err       error // of the records, for their messages
	base      int64
	time      int64
	logStart  int64
}

// A produceState is what a request needs while it is handled.
type produceState struct {
	results []produced
	checks  []txnCheck // of the partitions, in order; empty: no batch is part of a transaction
	body    wire.Body
	free    func()
}

var produceStates sync.Pool

func newProduceState() *produceState {
	if s, _ := produceStates.Get().(*produceState); s != nil {
		return s
	}
	s := &produceState{}
	s.free = func() {
		clear(s.results)
		clear(s.checks)
		s.results, s.checks = s.results[:0], s.checks[:0]
		s.body.Reset()
		produceStates.Put(s)
	}
	return s
}

func (n *Node) handleProduce(ctx context.Context, req *wire.Request) wire.Response {
	if req.Version < produceMin {
		return wire.Close(fmt.Errorf("produce v%d is listed for old clients' sake, but not served", req.Version))
	}
	whole, transactional, err := surveyProduce(req)
	if err != nil {
		return wire.Close(fmt.Errorf("produce v%d: %w", req.Version, err))
	}
	img := n.controller.Image()
	s := newProduceState()
	if transactional && whole == codeNone {
		s.checks = n.checkTransaction(ctx, req, img, s.checks)
	}
	w := walkProduce(req)
	for w.nextTopic() {
		t := w.find(img)
		for w.nextPartition() {
			if whole != codeNone {
				s.results = append(s.results, failed(whole))
			} else {
				var check txnCheck
				if transactional {
					check = s.checks[len(s.results)]
				}
				s.results = append(s.results, n.produce(req, &w, t, check))
			}
		}
	}
	if w.acks == 0 {
		defer s.free()
		for i := range s.results {
			if r := &s.results[i]; r.code != codeNone {
				return wire.Close(fmt.Errorf("a produce with acks=0 failed with error %d (%v)", r.code, r.err))
			}
		}
		return wire.NoResponse()
	}
	if err := s.await(ctx, req, time.Duration(w.timeoutMs)*time.Millisecond); err != nil {
		s.free()
		return wire.Close(err)
	}
	s.encode(n, req, img)
	return wire.Stream(req, &s.body, s.free)
}

// surveyProduce sees that the request is whole, before anything of it is done, and finds what is wrong with it as a whole.
func surveyProduce(req *wire.Request) (code int16, transactional bool, err error) {
	w := walkProduce(req)
	producer, several := int64(-1), false
	partitions := 0
	for w.nextTopic() {
		for w.nextPartition() {
			if partitions++; partitions > requestPartitionsMax {
				return 0, false, errManyPartitions
			}
			if b := w.records; transactionalBatch(b) {
				id := record.Batch(b).ProducerID()
				several = several || transactional && id != producer
				transactional, producer = true, id
			}
		}
	}
	if err := w.r.Done(); err != nil {
		return 0, false, err
	}
	switch {
	case transactional && !w.transactional:
		return codeTransactionalIDAuthorization, true, nil
	case several:
		return codeInvalidProducerIDMapping, true, nil
	}
	return codeNone, transactional, nil
}

// find is the topic that the walk is at, nil if the cluster has none such.
func (w *produceWalk) find(img *metadata.Image) *metadata.Topic {
	if w.version >= produceTopicIDsMin {
		return img.TopicByID(w.id)
	}
	return img.Topic(w.topic)
}

func failed(code int16) produced {
	return produced{code: code, base: invalidOffset, time: -1, logStart: invalidOffset}
}

// produce appends the batch of one partition. The order of the checks is Kafka's.
func (n *Node) produce(req *wire.Request, w *produceWalk, t *metadata.Topic, check txnCheck) produced {
	if t == nil {
		if w.version >= produceTopicIDsMin {
			return failed(codeUnknownTopicID)
		}
		return failed(codeUnknownTopicOrPartition)
	}
	if w.partition < 0 || int(w.partition) >= len(t.Partitions) {
		return failed(codeUnknownTopicOrPartition)
	}
	batch, code := onlyBatch(w.records, w.version)
	if code != codeNone {
		return failed(code)
	}
	if w.acks < -1 || w.acks > 1 {
		return failed(codeInvalidRequiredAcks)
	}
	if check.code != codeNone {
		return failed(check.code)
	}
	if internalTopic(t.Name) && (req.ClientID == nil || *req.ClientID != internalClient) {
		return failed(codeInvalidTopic)
	}
	// By its id: the name may belong to a younger topic than the image's by now, which must not get what was meant for this one.
	p := n.replicas.PartitionByID(t.ID, w.partition)
	if p == nil {
		return failed(codeNotLeaderOrFollower)
	}
	a, err := p.Append(batch, w.acks, storage.AppendOptions{
		Origin: storage.FromClient, Verification: check.verification,
		VerifyUnknownProducer: check.verification != nil && w.version >= produceAddsMin,
	})
	if err != nil {
		return appendFailed(p, err)
	}
	r := produced{partition: p, base: int64(a.BaseOffset), time: a.LogAppendTime, logStart: int64(a.LogStart)}
	if w.acks == -1 {
		r.await = a.LastOffset + 1
	}
	return r
}

// onlyBatch is the one batch that a partition's records must be.
func onlyBatch(records []byte, version int16) (record.Batch, int16) {
	batch, err := record.FirstBatch(records)
	var format *record.FormatError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, codeInvalidRecord // no batch at all
	case errors.As(err, &format):
		if len(records) >= record.MinEntry && record.Entry(records).Magic() != 2 {
			return nil, codeInvalidRecord
		}
		return nil, codeCorruptMessage
	case err != nil:
		return nil, codeCorruptMessage
	case len(batch) < len(records):
		return nil, codeInvalidRecord // more than one
	case batch.Codec() == record.Zstd && version < produceZstdMin:
		return nil, codeUnsupportedCompressionType
	}
	return batch, codeNone
}

// appendFailed answers an append that the partition refused. Those codes that Kafka gives before it has looked at the log come without its start.
func appendFailed(p *replica.Partition, err error) produced {
	code, _ := errorCode(err)
	r := failed(code)
	r.partition, r.err = p, err
	switch code {
	case codeUnknownTopicOrPartition, codeNotLeaderOrFollower, codeMessageTooLarge, codeRecordListTooLarge, codeCorruptMessage, codeKafkaStorageError:
	default:
		if log := p.Log(); log != nil {
			r.logStart = int64(log.StartOffset())
		}
	}
	return r
}

// await waits until the high watermarks have reached what was appended with acks=all. Alone, a node's have. The error is ctx's.
func (s *produceState) await(ctx context.Context, req *wire.Request, timeout time.Duration) error {
	var waiter *replica.Waiter
	var timer *time.Timer
	for {
		open := false
		for i := range s.results {
			r := &s.results[i]
			if r.await == 0 {
				continue
			}
			if r.partition.HighWatermark() >= r.await {
				r.await = 0
			} else if err := r.partition.CheckLeader(-1); err != nil {
				code, _ := errorCode(err)
				*r = failed(code)
			} else {
				open = true
			}
		}
		if !open {
			return nil
		}
		if waiter == nil {
			req.Waits()
			waiter, timer = replica.NewWaiter(), time.NewTimer(timeout)
			defer waiter.Stop()
			defer timer.Stop()
			for i := range s.results {
				if r := &s.results[i]; r.await != 0 {
					r.partition.Watch(waiter)
				}
			}
			continue // what came between the look and the watch is seen now
		}
		select {
		case <-waiter.C:
			continue
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		for i := range s.results {
			if r := &s.results[i]; r.await != 0 {
				*r = failed(codeRequestTimedOut)
			}
		}
		return nil
	}
}

// encode writes the answer.
func (s *produceState) encode(n *Node, req *wire.Request, img *metadata.Image) {
	flexible := req.Flexible()
	b := s.body.Buf
	w := walkProduce(req)
	b = wire.AppendArrayLen(b, w.topics, flexible)
	results := s.results
	var leaders leaderHints
	for w.nextTopic() {
		if w.version >= produceTopicIDsMin {
			b = append(b, w.id[:]...)
		} else {
			b = wire.AppendString(b, w.topic, flexible)
		}
		b = wire.AppendArrayLen(b, w.partitions, flexible)
		for w.nextPartition() {
			r := &results[0]
			results = results[1:]
			b = binary.BigEndian.AppendUint32(b, uint32(w.partition))
			b = binary.BigEndian.AppendUint16(b, uint16(r.code))
			b = binary.BigEndian.AppendUint64(b, uint64(r.base))
			b = binary.BigEndian.AppendUint64(b, uint64(r.time))
			if w.version >= 5 {
				b = binary.BigEndian.AppendUint64(b, uint64(r.logStart))
			}
			if w.version >= produceErrorsMin {
				b = appendRecordErrors(b, r.err, flexible)
			}
			if !flexible {
				continue
			}
			if w.version >= produceLeadersMin && r.code == codeNotLeaderOrFollower {
				b = leaders.append(b, 0, img, w.find(img), w.partition)
			} else {
				b = append(b, 0)
			}
		}
		b = wire.AppendNoTags(b, flexible)
	}
	b = binary.BigEndian.AppendUint32(b, 0) // throttle time
	if flexible {
		b = leaders.appendNodes(b, n, img, req.Conn)
	}
	s.body.Buf = b
}

// appendRecordErrors appends which records of a batch were at fault, and the message that goes with them: only such errors have one.
func appendRecordErrors(b []byte, err error, flexible bool) []byte {
	var invalid *record.InvalidError
	if err == nil || !errors.As(err, &invalid) || len(invalid.Records) == 0 {
		b = wire.AppendArrayLen(b, 0, flexible)
		return wire.AppendNullableString(b, "", true, flexible)
	}
	b = wire.AppendArrayLen(b, len(invalid.Records), flexible)
	for _, e := range invalid.Records {
		b = binary.BigEndian.AppendUint32(b, uint32(e.Index))
		b = wire.AppendNullableString(b, e.Message, e.Message == "", flexible)
		b = wire.AppendNoTags(b, flexible)
	}
	return wire.AppendString(b, invalid.Message, flexible)
}

// internalTopic tells whether only the broker writes a topic.
func internalTopic(name string) bool {
	switch name {
	case "__consumer_offsets", "__transaction_state", "__share_group_state":
		return true
	}
	return false
}
