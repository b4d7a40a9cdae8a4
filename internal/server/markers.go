package server

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/replica"
	"github.com/quire-log/quire/internal/storage"
	"github.com/quire-log/quire/internal/txn"
)

// A markerWriter writes the markers of transactions that are decided, and tells their coordinator when all are written. What cannot
// be written is tried again until it can, or the coordinator's partition is led elsewhere; after a restart the coordinator asks anew.
type markerWriter struct {
	transactions *transactions
	log          *slog.Logger
	// offsets appends a marker to __consumer_offsets and tells the groups of it.
	offsets func(partition int32, p coordProducer, commit bool, batch record.Batch, o storage.AppendOptions) error

	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	// mu guards the fields below. It is a leaf: nothing is taken under it.
	mu      sync.Mutex
	queue   []*markerTask
	workers int
	tasks   map[string]*markerTask // by transactional id, until they are done
	closed  bool
}

// A markerTask is the markers of one transaction that are still to be written.
type markerTask struct {
	txn.Markers
	left      []kmeta.TxnPartitions
	partition int32         // of __transaction_state
	epoch     replica.Epoch // of the coordinator, which stands in the markers
	attempts  int
	done      chan struct{}
}

const (
	// markerWorkersMax bounds the goroutines that write markers side by side.
	markerWorkersMax = 8
	// Pauses before what failed is tried again double between these.
	markerRetryMin = 10 * time.Millisecond
	markerRetryMax = time.Second
)

func newMarkerWriter(t *transactions, log *slog.Logger) *markerWriter {
	w := &markerWriter{transactions: t, log: log, tasks: map[string]*markerTask{}}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// close waits for what is being written. The rest is left to the next start.
func (w *markerWriter) close() {
	w.mu.Lock()
	w.closed, w.queue = true, nil
	w.mu.Unlock()
	w.cancel()
	w.work.Wait()
}

// add takes markers on. It is called by the shard itself, so it only takes note.
func (w *markerWriter) add(partition int32, m txn.Markers) {
	s, err := w.transactions.shard(partition)
	if err != nil {
		return
	}
	t := &markerTask{Markers: m, left: m.Partitions, partition: partition, epoch: s.epoch, done: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tasks[m.TransactionalID] = t
	w.enqueue(t)
}

// enqueue has a worker take t on. mu is held.
func (w *markerWriter) enqueue(t *markerTask) {
	if w.closed {
		return
	}
	w.queue = append(w.queue, t)
	if w.workers < markerWorkersMax {
		w.workers++
		w.work.Go(w.run)
	}
}

// run writes until nothing is left in the queue.
func (w *markerWriter) run() {
	for {
		w.mu.Lock()
		if len(w.queue) == 0 {
			w.workers--
			w.mu.Unlock()
			return
		}
		t := w.queue[0]
		w.queue = w.queue[1:]
		w.mu.Unlock()
		if retry := w.attempt(t); retry {
			pause := min(markerRetryMin<<min(t.attempts, 10), markerRetryMax)
			t.attempts++
			time.AfterFunc(pause, func() {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.enqueue(t)
			})
			continue
		}
		w.mu.Lock()
		if w.tasks[t.TransactionalID] == t {
			delete(w.tasks, t.TransactionalID)
		}
		w.mu.Unlock()
		close(t.done)
	}
}

// await waits until the markers of a transactional id are written, for at most limit, or, if none are being written, for a pause. False: ctx has ended.
func (w *markerWriter) await(ctx context.Context, id string, limit, pause time.Duration) bool {
	w.mu.Lock()
	t := w.tasks[id]
	w.mu.Unlock()
	var done chan struct{}
	if t != nil {
		done = t.done
	} else {
		limit = min(limit, pause)
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
		return false
	}
	return true
}

// attempt writes what is left, and completes the transaction. retry: not all could be done.
func (w *markerWriter) attempt(t *markerTask) (retry bool) {
	var left []kmeta.TxnPartitions
	for _, topic := range t.left {
		var ids []int32
		for _, p := range topic.PartitionIDs {
			if err := w.write(t, topic.Topic, p); err != nil {
				ids = append(ids, p)
				if t.attempts == 0 {
					w.log.Warn("a transaction marker is not written yet", "partition", storage.TopicPartition{Topic: topic.Topic, Partition: p}.String(),
						"transactional id", t.TransactionalID, "error", err)
				}
			}
		}
		if ids != nil {
			left = append(left, kmeta.TxnPartitions{Topic: topic.Topic, PartitionIDs: ids})
		}
	}
	if t.left = left; left != nil {
		return true
	}
	code, err := consult(w.ctx, w.transactions.shards, t.partition, func(m *txnMachine, now time.Time, reply func(int16)) effect {
		return m.effect(m.MarkersWritten(now, t.Markers, reply))
	})
	// Where the partition is led elsewhere, the coordinator there has asked for the markers, too.
	return err != nil && err != kerr.NotCoordinator || code != codeNone
}

// write writes one marker. A partition that is no more needs none.
func (w *markerWriter) write(t *markerTask, topic string, partition int32) error {
	n := w.transactions.node
	said := n.controller.Image().Topic(topic)
	if said == nil || int(partition) >= len(said.Partitions) {
		return nil
	}
	p := n.replicas.Partition(topic, partition)
	if p == nil {
		return kerr.NotLeaderForPartition
	}
	if err := p.CheckLeader(-1); err != nil {
		return err
	}
	if log := p.Log(); log.EndOffset() == 0 {
		// Nothing was ever written there: the topic is a new one of that name, or the producer did not come to write. A marker would
		// be the first thing in it.
		log.TakeBackVerification(t.ProducerID, t.ProducerEpoch, t.Version >= txn.V2)
		return nil
	} else if info, known := log.Producer(t.ProducerID); t.Resumed && known && info.ProducerEpoch == t.ProducerEpoch && info.CurrentTxnStart < 0 {
		return nil // it was written before the coordinator ended
	}
	err := w.append(p, markerOf{producer: coordProducer{t.ProducerID, t.ProducerEpoch}, commit: t.Commit, coordinatorEpoch: int32(t.epoch), version: t.Version})
	var sequence *storage.SequenceError
	if errors.As(err, &sequence) {
		// The partition has heard of a newer epoch, of the producer or of the coordinator: what this marker ends has been ended.
		w.log.Warn("a transaction marker came too late", "partition", p.TopicPartition().String(), "transactional id", t.TransactionalID, "error", err)
		return nil
	}
	return err
}

// A markerOf is what a marker says.
type markerOf struct {
	producer         coordProducer
	commit           bool
	coordinatorEpoch int32
	version          int16 // of transactions
}

// append writes a marker into a partition's log. In __consumer_offsets the groups hear of it.
func (w *markerWriter) append(p *replica.Partition, m markerOf) error {
	batch := record.Batch(record.AppendEndTxnMarker(make([]byte, 0, 96), m.producer.id, m.producer.epoch, m.commit, m.coordinatorEpoch, time.Now().UnixMilli()))
	o := storage.AppendOptions{Origin: storage.FromCoordinator, NewEpochPerTransaction: m.version >= txn.V2}
	if tp := p.TopicPartition(); tp.Topic == offsetsTopic {
		return w.offsets(tp.Partition, m.producer, m.commit, batch, o)
	}
	_, err := p.Append(batch, -1, o)
	return err
}
