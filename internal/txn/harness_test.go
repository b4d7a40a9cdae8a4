package txn

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/quire-log/quire/internal/kmeta"
)

// A failer is a *testing.T or a *rapid.T.
type failer interface{ Fatal(args ...any) }

// A bench is a Shard with a log in memory and everything that a runtime does for it.
type bench struct {
	t       failer
	config  Config
	version int16
	now     time.Time

	s       *Shard
	log     []Record
	markers []Markers // asked for, not yet written
	events  []Event
	fail    bool  // the next append fails
	nextID  int64 // the next producer id
	out     strings.Builder
}

func newBench(t failer) *bench {
	b := &bench{t: t, config: DefaultConfig(), version: V2, now: time.UnixMilli(1_000_000)}
	b.start()
	return b
}

// start loads a new Shard from the log.
func (b *bench) start() {
	b.markers = nil
	b.s = b.shard()
	for _, r := range b.log {
		if err := b.s.Replay(r); err != nil {
			b.t.Fatal(err)
		}
	}
	b.s.Loaded(b.now)
}

func (b *bench) shard() *Shard {
	return NewShard(Options{
		Config: b.config, Version: func() int16 { return b.version },
		Markers: func(m Markers) { b.markers = append(b.markers, m) },
		OnEvent: func(e Event) { b.events = append(b.events, e) },
	})
}

// do carries an effect out.
func (b *bench) do(e Effect) {
	var err error
	if len(e.Records) > 0 && b.fail {
		b.fail, err = false, kerr.CoordinatorNotAvailable
	} else {
		for _, r := range e.Records {
			b.log = append(b.log, r)
			fmt.Fprintf(&b.out, "log %s\n", show(b.t, r))
			if err := b.s.Replay(r); err != nil {
				b.t.Fatal(err)
			}
		}
	}
	if e.Then != nil {
		e.Then(err)
	}
}

func (b *bench) init(req Init) (r Initialised) {
	b.do(b.s.InitProducerID(b.now, req, noProducer, func(a Initialised) { r = a }))
	if r.NeedsID {
		b.nextID++
		b.do(b.s.InitProducerID(b.now, req, b.nextID-1, func(a Initialised) { r = a }))
	}
	return r
}

func (b *bench) add(p Producer, list []kmeta.TxnPartitions, version int16) (code int16) {
	b.do(b.s.AddPartitions(b.now, p, list, version, func(c int16) { code = c }))
	return code
}

func (b *bench) end(req End) (r Ended) {
	b.do(b.s.EndTxn(b.now, req, noProducer, func(a Ended) { r = a }))
	if r.NeedsID {
		b.nextID++
		b.do(b.s.EndTxn(b.now, req, b.nextID-1, func(a Ended) { r = a }))
	}
	return r
}

// written says that the markers which were asked for first are in their logs.
func (b *bench) written() (code int16) {
	m := b.markers[0]
	b.do(b.s.MarkersWritten(b.now, m, func(c int16) { code = c }))
	if code == 0 {
		b.markers = b.markers[1:]
	}
	return code
}

// pass lets time go by and does what is due.
func (b *bench) pass(d time.Duration) {
	b.now = b.now.Add(d)
	for {
		due, ok := b.s.NextTimer()
		if !ok || due.After(b.now) {
			return
		}
		b.do(b.s.Tick(b.now))
	}
}

// show is a record as a line of text.
func show(t failer, r Record) string {
	k, err := kmeta.ReadKey(kmeta.TransactionsLog, r.Key)
	if err != nil {
		t.Fatal(err)
	}
	id := k.(*kmeta.TransactionLogKey).TransactionalID
	if r.Value == nil {
		return id + ": gone"
	}
	value, version, err := kmeta.ReadVersioned(k, r.Value)
	if err != nil {
		t.Fatal(err)
	}
	v := value.(*kmeta.TransactionLogValue)
	s := fmt.Sprintf("%s v%d: %s producer=%d/%d", id, version, State(v.TransactionStatus), v.ProducerID, v.ProducerEpoch)
	if v.PreviousProducerID != v.ProducerID && version > 0 {
		s += fmt.Sprintf(" previous=%d", v.PreviousProducerID)
	}
	if v.NextProducerID != -1 {
		s += fmt.Sprintf(" next=%d", v.NextProducerID)
	}
	if v.ClientTransactionVersion != 0 {
		s += fmt.Sprintf(" client=%d", v.ClientTransactionVersion)
	}
	s += " " + showPartitions(v.TransactionPartitions)
	if v.TransactionStartTimestampMs >= 0 {
		s += fmt.Sprintf(" since=%d", v.TransactionStartTimestampMs)
	}
	return s
}

func showPartitions(list []kmeta.TxnPartitions) string {
	if list == nil {
		return "null"
	}
	var all []string
	for _, p := range list {
		all = append(all, fmt.Sprint(p.Topic, p.PartitionIDs))
	}
	return "[" + strings.Join(all, " ") + "]"
}

func codeName(code int16) string {
	if code == 0 {
		return "ok"
	}
	return kerr.TypedErrorForCode(code).Message
}
