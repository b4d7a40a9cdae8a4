package txn

import (
	"errors"
	"fmt"
	"time"

	"github.com/quire-log/quire/internal/kmeta"
)

// Config is what the broker's configuration says of transactions.
type Config struct {
	MaxTimeout     time.Duration // transaction.max.timeout.ms
	Expiration     time.Duration // transactional.id.expiration.ms
	AbortInterval  time.Duration // transaction.abort.timed.out.transaction.cleanup.interval.ms
	ExpiryInterval time.Duration // transaction.remove.expired.transaction.cleanup.interval.ms
}

// DefaultConfig is the configuration of a broker that says nothing.
func DefaultConfig() Config {
	return Config{MaxTimeout: 15 * time.Minute, Expiration: 7 * 24 * time.Hour, AbortInterval: 10 * time.Second, ExpiryInterval: time.Hour}
}

// Options are what a Shard needs of its surroundings. No function of theirs may call the Shard.
type Options struct {
	Config Config
	// Version is the cluster's transaction.version as of now.
	Version func() int16
	// Markers hears what a decision, which is committed, asks to be written. When all is, MarkersWritten is to be called.
	Markers func(Markers)
	// OnEvent hears what happens to transactions that no client asked for; nil: nobody listens.
	OnEvent func(Event)
}

// An Event tells an operator what was done to a transaction, and why.
type Event struct {
	TransactionalID string
	Kind            EventKind
	ProducerID      int64
	ProducerEpoch   int16
	Cause           string
}

// An EventKind says what happened to a transaction.
type EventKind string

const (
	EventTimedOut EventKind = "timed out" // it is aborted: it was open for longer than its producer allowed
	EventFenced   EventKind = "fenced"    // it is aborted: its transactional id has another producer
	EventExpired  EventKind = "expired"   // the transactional id was not used for long, and is forgotten
	EventResumed  EventKind = "resumed"   // the coordinator found it decided, and has its markers written
)

// A Record is one record for the log. A nil Value is a tombstone.
type Record struct {
	Key, Value []byte
}

// An Effect is what came of an event. The zero Effect means that there is nothing to do.
type Effect struct {
	// Records go into the log as one batch, in this order, with the time of the event.
	Records []Record
	// Then is called once Records are replayed and committed, at once if there are none; or with what went wrong. The error's
	// code is that of a *kerr.Error in its chain, else UNKNOWN_SERVER_ERROR. nil: nothing waits.
	Then func(error)
}

// Markers are those of one transaction: a control batch for each partition.
type Markers struct {
	TransactionalID string
	ProducerID      int64
	ProducerEpoch   int16
	Commit          bool
	Version         int16 // V2: the epoch is one that the producer has not yet written with
	Resumed         bool  // some of them may be in their logs already
	Partitions      []kmeta.TxnPartitions
}

// A Shard is the transactional ids of one partition of __transaction_state.
type Shard struct {
	opts Options
	ids  map[string]*transaction

	// adopt is the lastEpoch of the transaction whose record was decided on last. The record is replayed before the next decision.
	adopt int16

	loaded              bool
	nextAbort, nextTidy time.Time // when to look for what has timed out, and for what is expired
	due                 []func(now time.Time) Effect
}

// NewShard returns one that is to be loaded.
func NewShard(o Options) *Shard {
	if o.OnEvent == nil {
		o.OnEvent = func(Event) {}
	}
	return &Shard{opts: o, ids: map[string]*transaction{}, adopt: noEpoch}
}

// Replay applies one record of the log. A record of a type that is not known is skipped. The error is of bytes that are
// damaged, or of states that cannot follow each other while this coordinator leads.
func (s *Shard) Replay(r Record) error {
	last := s.adopt
	s.adopt = noEpoch
	k, err := kmeta.ReadKey(kmeta.TransactionsLog, r.Key)
	var unknown *kmeta.KeyTypeError
	if errors.As(err, &unknown) {
		return nil
	} else if err != nil {
		return err
	}
	key := k.(*kmeta.TransactionLogKey)
	if r.Value == nil {
		delete(s.ids, key.TransactionalID)
		return nil
	}
	v, _, err := kmeta.ReadVersioned(k, r.Value)
	if err != nil {
		return fmt.Errorf("transactional id %q: %w", key.TransactionalID, err)
	}
	t := &transaction{id: key.TransactionalID, transit: transitOf(v.(*kmeta.TransactionLogValue)), lastEpoch: last}
	if t.state < Empty || t.state >= dead {
		return fmt.Errorf("transactional id %q: a record of state %s", t.id, t.state)
	}
	s.ids[t.id] = t
	return nil
}

// Loaded ends loading: decisions whose markers may not all be written are carried on (I2), and timers begin to run.
func (s *Shard) Loaded(now time.Time) {
	s.loaded = true
	s.nextAbort, s.nextTidy = now.Add(s.opts.Config.AbortInterval), now.Add(s.opts.Config.ExpiryInterval)
	for _, t := range s.ids {
		if t.state.prepared() {
			s.opts.OnEvent(Event{t.id, EventResumed, t.producerID, t.epoch, "the coordinator ended while it was " + t.state.String()})
			m := t.markers()
			m.Resumed = true
			s.opts.Markers(m)
		}
	}
}

// Unload ends the Shard. Nothing waits in it.
func (s *Shard) Unload() { s.loaded, s.due = false, nil }

// SetConfig changes the configuration from the next event on.
func (s *Shard) SetConfig(c Config) { s.opts.Config = c }

// Len is the number of transactional ids.
func (s *Shard) Len() int { return len(s.ids) }

// write is the effect that makes n the next state of an id. then is called as an effect's Then.
func (s *Shard) write(id string, n transit, lastEpoch int16, then func(error)) Effect {
	s.adopt = lastEpoch
	return Effect{Records: []Record{n.record(id, s.opts.Version())}, Then: then}
}

// answer is the effect of an event that changes nothing.
func answer(reply func()) Effect { return Effect{Then: func(error) { reply() }} }
