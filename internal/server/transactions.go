package server

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/quire-log/quire/internal/config"
	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/replica"
	"github.com/quire-log/quire/internal/txn"
)

// transactions is this node's part of the transaction coordinator: the shards of __transaction_state that it leads, and the writer of
// their markers.
type transactions struct {
	node *Node
	*shards[*txnMachine]
	markers *markerWriter

	retryAfter, retryMax time.Duration // add.partitions.to.txn.retry.backoff.ms and .max.ms
}

// A txnMachine is a txn.Shard as shards run it.
type txnMachine struct {
	*txn.Shard
	records []coordRecord // scratch
}

func (m *txnMachine) replay(e *coordEntry) error {
	return m.Replay(txn.Record{Key: e.key, Value: e.value})
}
func (*txnMachine) replayMarker(int64, int16, bool)    {} // nobody writes into this log within a transaction
func (m *txnMachine) loaded(now time.Time)             { m.Loaded(now) }
func (m *txnMachine) unload()                          { m.Unload() }
func (*txnMachine) onImage(time.Time, *metadata.Delta) {}
func (m *txnMachine) nextTimer() (time.Time, bool)     { return m.NextTimer() }
func (m *txnMachine) tick(now time.Time) effect        { return m.effect(m.Tick(now)) }

func (m *txnMachine) effect(e txn.Effect) effect {
	m.records = m.records[:0]
	for _, r := range e.Records {
		m.records = append(m.records, coordRecord{r.Key, r.Value})
	}
	return effect{records: m.records, then: e.Then}
}

// newTransactions prepares the coordinator. It begins with follow.
func newTransactions(n *Node) *transactions {
	ms := func(key string) time.Duration { return time.Duration(n.value(key).Int64()) * time.Millisecond }
	t := &transactions{node: n, retryAfter: ms("add.partitions.to.txn.retry.backoff.ms"), retryMax: ms("add.partitions.to.txn.retry.backoff.max.ms")}
	log := n.loggers.named(loggerTxn)
	t.markers = newMarkerWriter(t, log)
	t.markers.offsets = n.groups.appendMarker
	options := txn.Options{
		Config: txn.Config{
			MaxTimeout:     ms("transaction.max.timeout.ms"),
			Expiration:     ms("transactional.id.expiration.ms"),
			AbortInterval:  ms("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
			ExpiryInterval: ms("transaction.remove.expired.transaction.cleanup.interval.ms"),
		},
		Version: func() int16 { return n.controller.Image().Feature(metadata.TransactionVersion) },
		OnEvent: func(e txn.Event) {
			log.Info("a transaction "+string(e.Kind), "transactional id", e.TransactionalID, "producer", e.ProducerID, "epoch", e.ProducerEpoch, "cause", e.Cause)
		},
	}
	t.shards = &shards[*txnMachine]{
		topic: transactionsTopic, node: n.id,
		make: func(partition int32) *txnMachine {
			o := options
			o.Markers = func(m txn.Markers) { t.markers.add(partition, m) }
			return &txnMachine{Shard: txn.NewShard(o)}
		},
		find:  func(partition int32) *replica.Partition { return n.replicas.Partition(transactionsTopic, partition) },
		codec: record.None, sequence: -1,
		loadBuffer: int(n.value("transaction.state.log.load.buffer.size").Int64()),
		log:        log,
	}
	return t
}

// startTransactions begins to coordinate transactions, from an image on.
func (n *Node) startTransactions(img *metadata.Image) {
	n.transactions = newTransactions(n)
	n.transactions.run(img)
}

// close ends the writer of markers, which asks the shards, and then those.
func (t *transactions) close() {
	t.markers.close()
	t.shards.close()
}

// onTxn lets an event happen at the coordinator of a transactional id. Events of transactions are answered soon, so no request's end is waited for.
func onTxn[T any](t *transactions, id string, decide func(m *txnMachine, now time.Time, reply func(T)) txn.Effect) (answer T, code *kerr.Error) {
	partition, ok := t.partitionOf(t.node.controller.Image(), id)
	if !ok {
		return answer, kerr.CoordinatorNotAvailable
	}
	return consult(context.Background(), t.shards, partition, func(m *txnMachine, now time.Time, reply func(T)) effect {
		return m.effect(decide(m, now, reply))
	})
}

// addPartitions makes partitions part of a transaction. While the producer's last one still ends it waits for that, as long as
// add.partitions.to.txn.retry.backoff.max.ms allows, which spares clients their own pauses. before, if not nil, is called before each
// question: leave to open a transaction that was got before the last one's marker is worth nothing after it.
func (t *transactions) addPartitions(ctx context.Context, p txn.Producer, partitions []kmeta.TxnPartitions, version int16, before func()) int16 {
	return t.patiently(ctx, p.TransactionalID, func() int16 {
		if before != nil {
			before()
		}
		answer, err := onTxn(t, p.TransactionalID, func(m *txnMachine, now time.Time, reply func(int16)) txn.Effect {
			return m.AddPartitions(now, p, partitions, version, reply)
		})
		if err != nil {
			return err.Code
		}
		return answer
	})
}

// patiently tries again what a transaction that is being ended stands in the way of.
func (t *transactions) patiently(ctx context.Context, id string, try func() int16) int16 {
	var deadline time.Time
	for {
		code := try()
		if code != codeConcurrentTransactions {
			return code
		}
		if deadline.IsZero() {
			deadline = time.Now().Add(t.retryMax)
		}
		left := time.Until(deadline)
		if left <= 0 || !t.markers.await(ctx, id, left, t.retryAfter) {
			return code
		}
	}
}

// verify asks whether partitions are part of a producer's open transaction. The codes are those of the partitions, in order.
func (t *transactions) verify(p txn.Producer, partitions []kmeta.TxnPartitions) ([]int16, int16) {
	answer, err := onTxn(t, p.TransactionalID, func(m *txnMachine, now time.Time, reply func([]int16)) txn.Effect {
		return txn.Effect{Then: func(error) {
			var codes []int16
			for i := range partitions {
				for _, q := range partitions[i].PartitionIDs {
					codes = append(codes, m.VerifyPartition(p, partitions[i].Topic, q))
				}
			}
			reply(codes)
		}}
	})
	if err != nil {
		return nil, err.Code
	}
	return answer, codeNone
}

// verifies tells whether old clients' first writes in a transaction are checked with the coordinator, as of an image.
func (n *Node) verifiesTransactions(img *metadata.Image) bool {
	o, _ := config.Lookup(config.Broker(), "transaction.partition.verification.enable")
	return config.BrokerValue(o, n.controller.Layers(img, n.id)).Bool()
}
