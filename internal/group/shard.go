package group

import (
	"time"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
)

// Options are what a Shard needs of its surroundings.
type Options struct {
	Config Config
	// Image is the cluster as of now. Never nil.
	Image func() *metadata.Image
	// OnEvent hears what happens to groups; nil: nobody listens. It must not call the Shard.
	OnEvent func(Event)
	// NewID draws the random part of member ids; nil: kmeta.RandomUUID.
	NewID func() kmeta.UUID
}

// A Client is who sent a request.
type Client struct {
	ID   string // the header's client id
	Host string // as Kafka shows it: "/127.0.0.1"
}

// A Record is one record for the log. A nil Value is a tombstone.
type Record struct {
	Key, Value []byte
}

// An Effect is what came of an event. The zero Effect means that there is nothing to do.
type Effect struct {
	// Records go into the log as one batch, in this order, with the time of the event.
	Records []Record
	// Producer is set for offsets within a transaction: the batch is transactional, with this id and epoch.
	Producer *Producer
	// Then is called once Records are replayed and committed, at once if there are none; or with what went wrong: clients are
	// answered, and soft state is as before the event, but a rebalance that moved on stays so, and its group's next record says
	// it. The error's code is that of a *kerr.Error in its chain, else UNKNOWN_SERVER_ERROR. nil: nothing waits.
	Then func(error)
}

// A Producer is who writes within a transaction.
type Producer struct {
	ID    int64
	Epoch int16
}

// An Entry is one record of the log, as Replay takes it.
type Entry struct {
	Record
	Offset   int64
	Producer *Producer // of a transactional batch
}

// A Shard is the groups and offsets of one partition of __consumer_offsets.
type Shard struct {
	opts   Options
	config Config
	loaded bool
	over   bool // unloaded: no timer runs any more

	groups map[string]*group
	recent *group                // one of groups, or nil: of the offset that was replayed last
	topics map[string]*topicName // of topics with offsets
	timers timerHeap
	places []place // while loading, with an Ahead; nil until there is one

	lastMember kmeta.ConsumerGroupMemberMetadataValue // the member of a consumer group that was replayed last, as far as others may say the same

	// open are the groups with offsets of a producer's open transaction.
	open map[int64]map[*group]struct{}
}

// NewShard returns one that is to be loaded.
func NewShard(o Options) *Shard {
	if o.NewID == nil {
		o.NewID = kmeta.RandomUUID
	}
	if o.OnEvent == nil {
		o.OnEvent = func(Event) {}
	}
	return &Shard{
		opts: o, config: o.Config,
		groups: map[string]*group{}, topics: map[string]*topicName{}, open: map[int64]map[*group]struct{}{},
	}
}

// SetConfig changes the configuration from the next event on. Timers that run keep their deadlines.
func (s *Shard) SetConfig(c Config) { s.config = c }

// Loaded ends loading: timers begin to run, counted from now.
func (s *Shard) Loaded(now time.Time) {
	s.loaded, s.places = true, nil
	for _, g := range s.groups {
		g.loaded(now)
	}
}

// Unload answers everything that waits with NOT_COORDINATOR. Effects whose records were under way still want their Then, with an
// error.
func (s *Shard) Unload() {
	for _, g := range s.groups {
		if g.classic != nil {
			g.classic.answerAll(codeNotCoordinator)
		}
	}
	for _, t := range s.timers {
		t.index = 0
	}
	s.timers, s.over = nil, true
}

// OnImage hears of a new image: what is to be done because of it, NextTimer and Tick say.
func (s *Shard) OnImage(now time.Time, d *metadata.Delta) {
	for _, t := range d.Deleted {
		for _, g := range s.groups {
			if g.offsets[t.Name] != nil {
				s.arm(&g.cleanup, now)
			}
		}
	}
	for _, g := range s.groups {
		if g.consumer != nil {
			g.consumer.onImage(now, d)
		}
	}
}

// NextTimer is when Tick has something to do. It may be early, never late.
func (s *Shard) NextTimer() (time.Time, bool) {
	if len(s.timers) == 0 {
		return time.Time{}, false
	}
	return s.timers[0].due, true
}

// Tick does what one timer that is due asks for; the zero Effect if none is.
func (s *Shard) Tick(now time.Time) Effect {
	t := s.expired(now)
	if t == nil {
		return Effect{}
	}
	return t.fire(now)
}
