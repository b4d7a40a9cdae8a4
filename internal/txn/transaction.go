package txn

import (
	"slices"
	"strings"
	"time"

	"github.com/quire-log/quire/internal/kmeta"
)

// The versions of transactions: what a client's protocol is, and what the cluster's feature transaction.version says.
const (
	V0 int16 = 0 // values of the log are of version 0
	V1 int16 = 1 // values of the log are of version 1, flexible
	V2 int16 = 2 // each transaction has an epoch of its own (KIP-890)
)

const (
	noProducer  int64 = -1
	noEpoch     int16 = -1
	lastEpoch   int16 = 1<<15 - 1     // never given to a client: it fences the one before
	exhausted         = lastEpoch - 1 // whoever has it gets another producer id next
	noTimestamp int64 = -1
)

// A transaction is what is known of a transactional id: the value that stands in the log, decoded. It is immutable but for lastEpoch.
type transaction struct {
	id string
	transit
	// lastEpoch is the epoch that the producer had before, so that it may repeat an InitProducerId whose answer was lost.
	// noEpoch: nobody may. It is in no record.
	lastEpoch int16
}

// A transit is what a transaction is to become: the content of its next record.
type transit struct {
	producerID   int64
	previousID   int64 // the producer id before this record
	nextID       int64 // the one after completion, where epochs have run out; else noProducer
	epoch        int16
	version      int16 // of the client's protocol
	timeoutMs    int32
	state        State
	partitions   []kmeta.TxnPartitions // by topic as they came, ids ascending; never changed in place
	start        int64                 // ms; noTimestamp
	lastUpdate   int64                 // ms
	nextEpochTag int16                 // of two-phase commits, which nobody here begins: kept
}

// exhaustedEpoch tells whether the next InitProducerId needs another producer id.
func (t *transit) exhaustedEpoch() bool { return t.epoch >= exhausted }

// fenced tells whether the epochs ran out by fencing the last of them. Nobody was given the epoch that did: who names it guesses, and who
// names the one before must not go on with it.
func (t *transit) fenced() bool { return t.epoch > exhausted && !t.state.prepared() }

func (t *transit) startTime() time.Time { return time.UnixMilli(t.start) }

// has tells whether the transaction has a partition.
func (t *transit) has(topic string, partition int32) bool {
	for i := range t.partitions {
		if t.partitions[i].Topic == topic {
			_, found := slices.BinarySearch(t.partitions[i].PartitionIDs, partition)
			return found
		}
	}
	return false
}

// hasAll tells whether it has all of them.
func (t *transit) hasAll(more []kmeta.TxnPartitions) bool {
	for i := range more {
		for _, p := range more[i].PartitionIDs {
			if !t.has(more[i].Topic, p) {
				return false
			}
		}
	}
	return true
}

// union is a new list with more added. Strings of more are copied (I6).
func union(have, more []kmeta.TxnPartitions) []kmeta.TxnPartitions {
	all := make([]kmeta.TxnPartitions, len(have), len(have)+len(more))
	copy(all, have)
	for i := range more {
		n := slices.IndexFunc(all, func(t kmeta.TxnPartitions) bool { return t.Topic == more[i].Topic })
		if n < 0 {
			all = append(all, kmeta.TxnPartitions{Topic: strings.Clone(more[i].Topic)})
			n = len(all) - 1
		}
		ids := slices.Concat(all[n].PartitionIDs, more[i].PartitionIDs)
		slices.Sort(ids)
		all[n].PartitionIDs = slices.Compact(ids)
	}
	return all
}

// next is the transit that keeps all but what the caller changes then: previousID is what the producer id was.
func (t *transaction) next(state State, now time.Time) transit {
	n := t.transit
	n.previousID, n.nextID = t.producerID, noProducer
	n.state, n.lastUpdate = state, now.UnixMilli()
	return n
}

// record is the transit as the log holds it at a transaction.version.
func (t *transit) record(id string, version int16) Record {
	v := kmeta.NewTransactionLogValue()
	v.ProducerID, v.PreviousProducerID, v.NextProducerID = t.producerID, t.previousID, t.nextID
	v.ProducerEpoch, v.NextProducerEpoch, v.ClientTransactionVersion = t.epoch, t.nextEpochTag, t.version
	v.TransactionTimeoutMs, v.TransactionStatus = t.timeoutMs, int8(t.state)
	v.TransactionLastUpdateTimestampMs, v.TransactionStartTimestampMs = t.lastUpdate, t.start
	if t.state != Empty {
		v.TransactionPartitions = t.partitions
		if v.TransactionPartitions == nil {
			v.TransactionPartitions = []kmeta.TxnPartitions{}
		}
	}
	valueVersion := int16(0)
	if version >= V1 {
		valueVersion = 1
	}
	return Record{
		Key:   kmeta.AppendKey(nil, &kmeta.TransactionLogKey{TransactionalID: id}),
		Value: kmeta.AppendVersioned(nil, v, valueVersion),
	}
}

// transitOf is the content of a record.
func transitOf(v *kmeta.TransactionLogValue) transit {
	t := transit{
		producerID: v.ProducerID, previousID: v.PreviousProducerID, nextID: v.NextProducerID,
		epoch: v.ProducerEpoch, nextEpochTag: v.NextProducerEpoch, version: v.ClientTransactionVersion,
		timeoutMs: v.TransactionTimeoutMs, state: State(v.TransactionStatus),
		start: v.TransactionStartTimestampMs, lastUpdate: v.TransactionLastUpdateTimestampMs,
	}
	if len(v.TransactionPartitions) > 0 {
		t.partitions = union(nil, v.TransactionPartitions)
	}
	return t
}
