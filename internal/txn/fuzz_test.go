package txn

import (
	"testing"
	"time"

	"github.com/quire-log/quire/internal/golden"
	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/record"
)

// FuzzReplay: whatever stands in a log, loading it ends in a state that can be asked, listed and ticked.
func FuzzReplay(f *testing.F) {
	start := transit{producerID: 1, previousID: 1, nextID: noProducer, nextEpochTag: noEpoch, timeoutMs: 1, state: Ongoing, start: 5,
		partitions: []kmeta.TxnPartitions{{Topic: "t", PartitionIDs: []int32{0}}}}
	for _, version := range []int16{V0, V1} {
		r := start.record("x", version)
		f.Add(r.Key, r.Value)
	}
	f.Add([]byte{0, 9}, []byte{})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		b := &bench{t: t, config: DefaultConfig(), version: V2, now: time.UnixMilli(1_000_000)}
		b.s = b.shard()
		_ = b.s.Replay(Record{key, value})
		b.s.Loaded(b.now)
		for range b.markers {
			b.written()
		}
		b.pass(24 * time.Hour)
		for _, l := range b.s.List(b.now, Filter{LongerThanMs: -1}) {
			b.s.Describe(l.TransactionalID)
		}
	})
}

// Every value that Kafka wrote comes out again as it went in, at the version of its cluster.
func TestGoldenRecords(t *testing.T) {
	for version, name := range []string{"transactions-v0", "transactions-v1", "transactions-v2"} {
		files := golden.Files(t, name, "*/__transaction_state-*/*.log")
		n := 0
		for file, log := range files {
			var r record.Reader
			for len(log) > 0 {
				batch, err := record.FirstBatch(log)
				if err != nil {
					break // preallocated
				}
				log = log[len(batch):]
				if err := r.Reset(batch, 1<<20); err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				for r.Next() {
					got := r.Record()
					k, err := kmeta.ReadKey(kmeta.TransactionsLog, got.Key)
					if err != nil {
						t.Fatalf("%s: %v", file, err)
					}
					v, _, err := kmeta.ReadVersioned(k, got.Value)
					if err != nil {
						t.Fatalf("%s: %v", file, err)
					}
					x := transitOf(v.(*kmeta.TransactionLogValue))
					again := x.record(k.(*kmeta.TransactionLogKey).TransactionalID, int16(version))
					if string(again.Key) != string(got.Key) || string(again.Value) != string(got.Value) {
						t.Errorf("%s: %s\n%x\nbecomes\n%x", file, show(t, Record{got.Key, got.Value}), got.Value, again.Value)
					}
					n++
				}
			}
		}
		if n == 0 {
			t.Errorf("%s: no records in %d files", name, len(files))
		}
	}
}
