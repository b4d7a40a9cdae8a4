package txn

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quire-log/quire/internal/kmeta"
)

// from are the states that a state may follow. No transactional id at all counts as Empty.
var from = map[State][]State{
	Empty:          {Empty, CompleteCommit, CompleteAbort},
	Ongoing:        {Ongoing, Empty, CompleteCommit, CompleteAbort},
	PrepareCommit:  {Ongoing},
	PrepareAbort:   {Ongoing, Empty, CompleteCommit, CompleteAbort}, // but for Ongoing: an abort of nothing, transactions v2
	CompleteCommit: {PrepareCommit},
	CompleteAbort:  {PrepareAbort},
}

// A grant is a producer id and epoch that a client was given.
type grant struct {
	id    int64
	epoch int16
}

// A checker looks at every record and every request for markers, and knows what must follow from what.
type checker struct {
	*bench
	t       *rapid.T
	seen    int // records of the log that were looked at
	last    map[string]*kmeta.TransactionLogValue
	granted map[grant]string
	holds   map[string]Producer // who holds an id, by what was answered last
	decided map[string]Markers  // of ids that are prepared
}

func (c *checker) check() {
	for ; c.seen < len(c.log); c.seen++ {
		r := c.log[c.seen]
		k, _ := kmeta.ReadKey(kmeta.TransactionsLog, r.Key)
		id := k.(*kmeta.TransactionLogKey).TransactionalID
		before := c.last[id]
		if r.Value == nil {
			if before == nil || !State(before.TransactionStatus).idle() {
				c.t.Fatalf("%s is forgotten", show(c.t, r))
			}
			delete(c.last, id)
			continue
		}
		v, _, err := kmeta.ReadVersioned(k, r.Value)
		if err != nil {
			c.t.Fatal(err)
		}
		now := v.(*kmeta.TransactionLogValue)
		was := Empty
		if before != nil {
			was = State(before.TransactionStatus)
		}
		state := State(now.TransactionStatus)
		if !slices.Contains(from[state], was) {
			c.t.Fatalf("%s after %s", show(c.t, r), was)
		}
		if before != nil && now.ProducerID == before.ProducerID && now.ProducerEpoch < before.ProducerEpoch {
			c.t.Fatalf("%s after epoch %d", show(c.t, r), before.ProducerEpoch) // keeps I4
		}
		switch {
		case state.prepared():
			c.decided[id] = Markers{ProducerID: now.ProducerID, ProducerEpoch: now.ProducerEpoch, Commit: state == PrepareCommit, Partitions: before.TransactionPartitions}
			if was != Ongoing {
				c.decided[id] = Markers{ProducerID: now.ProducerID, ProducerEpoch: now.ProducerEpoch}
			}
		case state == CompleteCommit || state == CompleteAbort:
			if d, ok := c.decided[id]; !ok || d.Commit != (state == CompleteCommit) {
				c.t.Fatalf("%s, but %+v was decided", show(c.t, r), d) // keeps I2
			}
			delete(c.decided, id)
		}
		c.last[id] = now
	}
	for _, m := range c.markers {
		d, ok := c.decided[m.TransactionalID]
		if !ok {
			continue // asked for before a restart, and by it
		}
		if d.Commit != m.Commit || d.ProducerID != m.ProducerID || d.ProducerEpoch != m.ProducerEpoch || len(d.Partitions) != len(m.Partitions) ||
			len(d.Partitions) > 0 && !reflect.DeepEqual(d.Partitions, m.Partitions) {
			c.t.Fatalf("markers %+v, but %+v was decided", m, d) // keeps I3
		}
	}
	for id := range c.decided {
		if !slices.ContainsFunc(c.markers, func(m Markers) bool { return m.TransactionalID == id }) {
			c.t.Fatalf("%s is decided, and nobody writes its markers", id) // keeps I2
		}
	}
	c.reload(c.log, "the log")
	latest := map[string]Record{}
	for _, r := range c.log {
		latest[string(r.Key)] = r
	}
	c.reload(slices.Collect(func(yield func(Record) bool) {
		for _, r := range latest {
			if !yield(r) {
				return
			}
		}
	}), "the compacted log")
}

// reload compares the state with that of a Shard that knows a log alone. keeps I1
func (c *checker) reload(log []Record, what string) {
	s := NewShard(Options{Config: c.config, Version: func() int16 { return c.version }})
	for _, r := range log {
		if err := s.Replay(r); err != nil {
			c.t.Fatal(err)
		}
	}
	if len(s.ids) != len(c.s.ids) {
		c.t.Fatalf("%d ids, and %d from %s", len(c.s.ids), len(s.ids), what)
	}
	for id, t := range c.s.ids {
		if u := s.ids[id]; u == nil || !reflect.DeepEqual(t.transit, u.transit) {
			c.t.Fatalf("%s is %+v, and from %s %+v", id, t.transit, what, u)
		}
	}
}

// grantTo notes what a client was given. keeps I4
func (c *checker) grantTo(id string, g grant, again bool) {
	if g.epoch < 0 || g.epoch > exhausted {
		c.t.Fatalf("epoch %d is given to %s", g.epoch, id)
	}
	if to, ok := c.granted[g]; ok && !(again && to == id) {
		c.t.Fatalf("producer %d/%d is given to %s and to %s", g.id, g.epoch, to, id)
	}
	c.granted[g] = id
	c.holds[id] = Producer{id, g.id, g.epoch}
}

// TestModel lets clients of both protocols, restarts, failing appends, lost answers and time do what they like.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBench(t)
		c := &checker{bench: b, t: t, last: map[string]*kmeta.TransactionLogValue{}, granted: map[grant]string{}, holds: map[string]Producer{}, decided: map[string]Markers{}}
		ids := rapid.SampledFrom([]string{"a", "b"})
		// who is the holder of an id, or somebody who held it once, or never.
		who := func() Producer {
			id := ids.Draw(t, "id")
			p, ok := c.holds[id]
			if !ok {
				p = Producer{id, 0, 0}
			}
			switch rapid.IntRange(0, 9).Draw(t, "who") {
			case 0:
				p.Epoch--
			case 1:
				p.ID++
			}
			return p
		}
		protocol := func() int16 { return rapid.SampledFrom([]int16{V0, V2}).Draw(t, "protocol") }
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) { c.check() },
			"init": func(t *rapid.T) {
				id := ids.Draw(t, "id")
				if r := c.init(Init{id, 30000, noProducer, noEpoch}); r.Code == 0 {
					c.grantTo(id, grant{r.ProducerID, r.ProducerEpoch}, false)
				}
			},
			"bump": func(t *rapid.T) {
				p := who()
				if r := c.init(Init{p.TransactionalID, 30000, p.ID, p.Epoch}); r.Code == 0 {
					c.grantTo(p.TransactionalID, grant{r.ProducerID, r.ProducerEpoch}, true)
				}
			},
			"add": func(t *rapid.T) {
				p := who()
				list := []kmeta.TxnPartitions{{Topic: rapid.SampledFrom([]string{"t", "u"}).Draw(t, "topic"), PartitionIDs: []int32{rapid.Int32Range(0, 2).Draw(t, "partition")}}}
				code := c.add(p, list, protocol())
				_, decided := c.decided[p.TransactionalID]
				if code == 0 && (decided || p != c.holds[p.TransactionalID]) {
					t.Fatalf("%+v adds, %+v holds the id, decided: %v", p, c.holds[p.TransactionalID], decided)
				}
				if code == 0 && c.s.VerifyPartition(p, list[0].Topic, list[0].PartitionIDs[0]) != 0 {
					t.Fatal("what was added is not verified")
				}
			},
			"end": func(t *rapid.T) {
				e := End{who(), rapid.Bool().Draw(t, "commit"), protocol()}
				if r := c.end(e); r.Code == 0 && e.Version == V2 {
					c.grantTo(e.TransactionalID, grant{r.ProducerID, r.ProducerEpoch}, true)
				}
			},
			"written": func(t *rapid.T) {
				if len(c.markers) == 0 {
					t.Skip()
				}
				c.written()
			},
			"exhaust": func(t *rapid.T) {
				x := c.s.ids[ids.Draw(t, "id")]
				if x == nil || !x.state.idle() || x.epoch >= exhausted-2 {
					t.Skip()
				}
				n := x.transit
				n.epoch, n.state, n.partitions, n.start = exhausted-rapid.Int16Range(0, 2).Draw(t, "left"), Empty, nil, noTimestamp
				c.do(c.s.write(x.id, n, noEpoch, func(err error) {
					if err == nil {
						c.grantTo(x.id, grant{n.producerID, n.epoch}, false)
					}
				}))
			},
			"restart": func(*rapid.T) { c.start() },
			"fail":    func(*rapid.T) { c.fail = true },
			"pass":    func(t *rapid.T) { c.pass(time.Duration(rapid.IntRange(0, 40).Draw(t, "s")) * time.Second) },
			"week":    func(*rapid.T) { c.pass(170 * time.Hour) },
			"version": func(t *rapid.T) { c.version = rapid.SampledFrom([]int16{V1, V2}).Draw(t, "v") },
		})
	})
}

func TestStates(t *testing.T) {
	for s := Empty; s <= epochFence; s++ {
		if got, ok := StateNamed(s.String()); !ok || got != s {
			t.Errorf("%s is read as %v", s, got)
		}
	}
	if _, ok := StateNamed("ongoing"); ok {
		t.Error("names of states are not exact")
	}
	if got := fmt.Sprint(State(9)); got != "State(9)" {
		t.Error(got)
	}
}
