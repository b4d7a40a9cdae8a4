package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/replica"
	"github.com/quire-log/quire/internal/storage"
	"github.com/quire-log/quire/internal/vfs"
)

// A counter is a machine that adds numbers up: each record is one. It holds replies until the sum has reached what they ask for.
type counter struct {
	sum     int64
	offsets []int64
	markers []string
	waits   []counterWait
	due     time.Time
	images  int
	failed  []error
	ended   bool
}

type counterWait struct {
	least int64
	reply func(string)
}

func number(n int64) coordRecord {
	return coordRecord{[]byte("n"), binary.BigEndian.AppendUint64(nil, uint64(n))}
}

func (c *counter) replay(e *coordEntry) error {
	if len(e.value) != 8 {
		return errors.New("no number")
	}
	c.sum += int64(binary.BigEndian.Uint64(e.value))
	c.offsets = append(c.offsets, e.offset)
	return nil
}

func (c *counter) replayMarker(id int64, epoch int16, commit bool) {
	c.markers = append(c.markers, fmt.Sprint(id, epoch, commit))
}

func (c *counter) loaded(time.Time)                   {}
func (c *counter) onImage(time.Time, *metadata.Delta) { c.images++ }
func (c *counter) nextTimer() (time.Time, bool)       { return c.due, !c.due.IsZero() }
func (c *counter) unload()                            { c.ended = true; c.answer(1<<62, "unloaded") }
func (c *counter) tick(now time.Time) effect          { c.due = time.Time{}; return c.add(1000) }
func (c *counter) add(n int64) effect                 { return c.addThen(n, nil) }
func (c *counter) addThen(n int64, f func(error)) effect {
	return effect{records: []coordRecord{number(n)}, then: f}
}

func (c *counter) answer(sum int64, what string) {
	c.waits = slices.DeleteFunc(c.waits, func(w counterWait) bool {
		if w.least > sum {
			return false
		}
		w.reply(what)
		return true
	})
}

// counters runs counters over a topic of a node.
func counters(t *testing.T, properties ...string) (*Node, *shards[*counter], *vfs.Mem) {
	t.Helper()
	n := dataNode(t, "", properties...)
	c := dialNode(t, n)
	c.topic("counted", 2)
	s := &shards[*counter]{
		topic: "counted", node: n.id, sequence: 0, loadBuffer: 1 << 20, log: n.log,
		make: func(int32) *counter { return &counter{} },
		find: func(p int32) *replica.Partition { return n.replicas.Partition("counted", p) },
	}
	s.run(n.controller.Image())
	t.Cleanup(s.close)
	s.await(t)
	return n, s, n.options.FS.(*vfs.Mem)
}

// await waits until all shards are loaded.
func (c *shards[M]) await(t *testing.T) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		loading := slices.ContainsFunc(c.all(), func(s *shard[M]) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.state == shardLoading
		})
		if !loading {
			return
		}
		if time.Since(begin) > time.Minute {
			t.Fatal("shards do not load")
		}
	}
}

// add lets a counter add, and returns its sum once it is committed.
func add(c *shards[*counter], partition int32, n int64) (int64, error) {
	sum, code := consult(context.Background(), c, partition, func(m *counter, _ time.Time, reply func(int64)) effect {
		return m.addThen(n, func(err error) {
			if err != nil {
				m.failed = append(m.failed, err)
			}
			reply(m.sum)
			m.answer(m.sum, "reached")
		})
	})
	if code != nil {
		return 0, code
	}
	return sum, nil
}

// state reads a counter.
func state(t *testing.T, c *shards[*counter], partition int32) counter {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		m, code := consult(context.Background(), c, partition, func(m *counter, _ time.Time, reply func(counter)) effect {
			reply(*m)
			return effect{}
		})
		if code == nil {
			return m
		}
		if code != kerr.CoordinatorLoadInProgress || time.Since(begin) > time.Minute {
			t.Fatal(code)
		}
	}
}

// Many at once: each is in the log, in the order in which the machine saw it, and a load gives the same machine.
func TestShardManyEvents(t *testing.T) {
	n, c, _ := counters(t)
	var wait sync.WaitGroup
	for range 50 {
		wait.Go(func() {
			for range 40 {
				if _, err := add(c, 0, 1); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	m := state(t, c, 0)
	if m.sum != 2000 || len(m.offsets) != 2000 {
		t.Errorf("sum %d of %d records", m.sum, len(m.offsets))
	}
	log := n.replicas.Partition("counted", 0).Log()
	if end := log.EndOffset(); end != 2000 || !slices.IsSorted(m.offsets) || m.offsets[1999] != 1999 {
		t.Errorf("the log ends at %d, the last record was thought to be at %d", end, m.offsets[len(m.offsets)-1])
	}
	again := &shards[*counter]{topic: c.topic, node: c.node, loadBuffer: 1000, log: c.log, make: c.make, find: c.find}
	again.run(n.controller.Image())
	defer again.close()
	again.await(t)
	if l := state(t, again, 0); l.sum != m.sum || !slices.Equal(l.offsets, m.offsets) {
		t.Errorf("loaded: sum %d of %d records", l.sum, len(l.offsets))
	}
}

// The bytes of a batch: no producer, base sequence 0, times as of now; a transactional one has its producer.
func TestShardBatches(t *testing.T) {
	n, c, _ := counters(t)
	if _, err := add(c, 1, 7); err != nil {
		t.Fatal(err)
	}
	_, code := consult(t.Context(), c, 1, func(m *counter, _ time.Time, reply func(bool)) effect {
		e := m.addThen(8, func(error) { reply(true) })
		e.producer = &coordProducer{42, 3}
		return e
	})
	if code != nil {
		t.Fatal(code)
	}
	p := n.replicas.Partition("counted", 1)
	marker := record.AppendEndTxnMarker(nil, 42, 3, true, 5, time.Now().UnixMilli())
	if err := c.appendMarker(1, coordProducer{42, 3}, true, marker, storage.AppendOptions{Origin: storage.FromCoordinator}); err != nil {
		t.Fatal(err)
	}
	if m := state(t, c, 1); fmt.Sprint(m.markers, m.offsets) != "[42 3 true] [0 1]" {
		t.Errorf("markers %v, offsets %v", m.markers, m.offsets)
	}
	d, err := p.Log().Read(0, storage.ReadOptions{MaxBytes: 1 << 20, Limit: p.Log().EndOffset()})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Release()
	b := make([]byte, d.Size)
	d.Regions[0].File.ReadAt(b, d.Regions[0].Pos)
	var got []string
	for len(b) > 0 {
		x, err := record.FirstBatch(b)
		if err != nil {
			t.Fatal(err)
		}
		if age := time.Since(time.UnixMilli(x.MaxTimestamp())); age < -time.Second || age > time.Minute {
			t.Errorf("a batch's time is %v old", age)
		}
		got = append(got, fmt.Sprint(x.BaseOffset(), x.ProducerID(), x.ProducerEpoch(), x.BaseSequence(), x.IsTransactional(), x.IsControl()))
		b = b[len(x):]
	}
	want := []string{"0 -1 -1 0 false false", "1 42 3 0 true false", "2 42 3 -1 true true"}
	if !slices.Equal(got, want) {
		t.Errorf("batches\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// More than a batch may hold goes into several; one record that none holds is refused, and changes nothing.
func TestShardLargeEffects(t *testing.T) {
	n, c, _ := counters(t, "message.max.bytes", "500")
	many := make([]coordRecord, 100)
	for i := range many {
		many[i] = number(1)
	}
	put := func(records []coordRecord) error {
		err, code := consult(t.Context(), c, 0, func(m *counter, _ time.Time, reply func(error)) effect {
			return effect{records: records, then: reply}
		})
		if code != nil {
			return code
		}
		return err
	}
	if err := put(many); err != nil {
		t.Fatal(err)
	}
	if m := state(t, c, 0); m.sum != 100 || m.offsets[99] != 99 {
		t.Errorf("sum %d", m.sum)
	}
	if err := put([]coordRecord{{[]byte("n"), make([]byte, 600)}}); coordinatorCode(err) != kerr.UnknownServerError {
		t.Errorf("a record that fits no batch: %v", err)
	}
	if end := n.replicas.Partition("counted", 0).Log().EndOffset(); end != 100 {
		t.Errorf("the log ends at %d", end)
	}
	if _, err := add(c, 0, 1); err != nil {
		t.Error(err)
	}
}

// A full disk: nobody is told of what was not written, the machine forgets it, and goes on once there is room.
func TestShardFullDisk(t *testing.T) {
	_, c, fs := counters(t)
	for range 3 {
		if _, err := add(c, 0, 1); err != nil {
			t.Fatal(err)
		}
	}
	fs.SetCapacity(1)
	// Several at once share an append, which fails: each is refused, and the machine is loaded anew.
	s, _ := c.shard(0)
	s.mu.Lock()
	s.busy = true
	s.mu.Unlock()
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			if _, err := add(c, 0, 1); err == nil {
				t.Error("added on a full disk")
			}
		})
	}
	eventually(t, "eight wait", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.queue) == 8
	})
	for s.round() {
	}
	wait.Wait()
	if m := state(t, c, 0); m.sum != 3 {
		t.Errorf("sum %d after a full disk", m.sum)
	}
	fs.SetCapacity(-1)
	if sum, err := add(c, 0, 1); err != nil || sum != 4 {
		t.Errorf("sum %d, %v", sum, err)
	}
}

// Replies that are held are given when their time has come, by timers too; the end of the shard answers the rest.
func TestShardHeldReplies(t *testing.T) {
	_, c, _ := counters(t)
	hold := func(least int64) chan string {
		done := make(chan string, 1)
		go func() {
			what, code := consult(t.Context(), c, 0, func(m *counter, _ time.Time, reply func(string)) effect {
				m.waits = append(m.waits, counterWait{least, reply})
				return effect{}
			})
			if code != nil {
				what = code.Message
			}
			done <- what
		}()
		eventually(t, "one waits", func() bool { return len(state(t, c, 0).waits) > 0 })
		return done
	}
	ten := hold(10)
	add(c, 0, 9)
	add(c, 0, 1)
	if what := <-ten; what != "reached" {
		t.Error(what)
	}
	_, code := consult(t.Context(), c, 0, func(m *counter, now time.Time, reply func(bool)) effect {
		m.due = now.Add(5 * time.Millisecond)
		reply(true)
		return effect{}
	})
	if code != nil {
		t.Fatal(code)
	}
	eventually(t, "the timer has fired", func() bool { return state(t, c, 0).sum == 1010 })
	never := hold(1 << 40)
	c.close()
	if what := <-never; what != "unloaded" {
		t.Error(what)
	}
	if _, err := add(c, 0, 1); err != kerr.CoordinatorNotAvailable {
		t.Errorf("after the end: %v", err)
	}
}

// Whose turn has gone waits no longer; what it asked for still happens.
func TestShardContextEnds(t *testing.T) {
	_, c, _ := counters(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, code := consult(ctx, c, 0, func(m *counter, _ time.Time, reply func(string)) effect {
		m.waits = append(m.waits, counterWait{1, reply})
		return effect{}
	})
	if code != kerr.RequestTimedOut {
		t.Error(code)
	}
	add(c, 0, 1)
	if m := state(t, c, 0); len(m.waits) != 0 {
		t.Error("still held")
	}
}

// Partitions that nobody leads here, and topics that are not there.
func TestShardsElsewhere(t *testing.T) {
	n, c, _ := counters(t)
	if _, err := add(c, 7, 1); err != kerr.NotCoordinator {
		t.Error(err)
	}
	dialNode(t, n).topic("other", 1)
	d := &metadata.Delta{Before: n.controller.Image(), After: n.controller.Image()}
	c.apply(n.controller.Image(), d)
	eventually(t, "the image is there", func() bool { return state(t, c, 0).images > 0 })
	c.apply(metadata.Empty(), d)
	if _, err := add(c, 0, 1); err != kerr.CoordinatorNotAvailable {
		t.Error(err)
	}
	c.apply(n.controller.Image(), d)
	c.await(t)
	if m := state(t, c, 0); m.sum != 0 {
		t.Errorf("sum %d", m.sum)
	}
}
