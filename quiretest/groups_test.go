package quiretest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/quire-log/quire"
	"github.com/quire-log/quire/quiretest"
)

// A nodeNow is the node that there is at present, whatever address clients think that it has. A node that is started again may listen
// elsewhere: its former port may have become another's.
type nodeNow struct{ atomic.Pointer[quire.Node] }

func (n *nodeNow) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, n.Load().Addr())
}

func nodeIs(n *quire.Node) *nodeNow {
	now := new(nodeNow)
	now.Store(n)
	return now
}

// A crew is consumers of one group, and what they have read.
type crew struct {
	t            *testing.T
	topic, group string
	opts         []kgo.Opt
	node         *nodeNow

	// mu guards the fields below.
	mu   sync.Mutex
	read map[string]int      // how often a record was read
	by   map[int32]*consumer // who read a partition last
}

// A consumer reads and commits until it leaves or is killed.
type consumer struct {
	node *nodeNow
	cl   *kgo.Client
	stop context.CancelFunc
	done chan struct{}

	// mu guards the fields below.
	mu    sync.Mutex
	conns []net.Conn
	dead  bool
}

func newCrew(t *testing.T, node *nodeNow, topic, group string, opts ...kgo.Opt) *crew {
	return &crew{t: t, topic: topic, group: group, opts: opts, node: node, read: map[string]int{}, by: map[int32]*consumer{}}
}

func (c *crew) hire() *consumer {
	c.t.Helper()
	m := &consumer{node: c.node, done: make(chan struct{})}
	opts := append([]kgo.Opt{
		kgo.SeedBrokers("node:9092"), kgo.ConsumerGroup(c.group), kgo.ConsumeTopics(c.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.HeartbeatInterval(100 * time.Millisecond), kgo.AutoCommitMarks(), kgo.AutoCommitInterval(100 * time.Millisecond),
		kgo.BlockRebalanceOnPoll(), // what was read is marked before its partition goes to another
		kgo.Dialer(m.dial),
	}, c.opts...)
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		c.t.Fatal(err)
	}
	var ctx context.Context
	m.cl = cl
	ctx, m.stop = context.WithCancel(context.Background())
	go func() {
		defer close(m.done)
		for {
			fetches := cl.PollFetches(ctx)
			if ctx.Err() != nil {
				return
			}
			c.mu.Lock()
			fetches.EachRecord(func(r *kgo.Record) {
				c.read[string(r.Value)]++
				c.by[r.Partition] = m
			})
			c.mu.Unlock()
			cl.MarkCommitRecords(fetches.Records()...)
			cl.AllowRebalance()
		}
	}()
	c.t.Cleanup(m.kill)
	return m
}

func (m *consumer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	nc, err := m.node.dial(ctx, network, address)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead && err == nil {
		nc.Close()
		err = errors.New("killed")
	}
	if err == nil {
		m.conns = append(m.conns, nc)
	}
	return nc, err
}

// leave says goodbye, having committed.
func (m *consumer) leave() {
	m.stop()
	<-m.done
	m.cl.CommitMarkedOffsets(context.Background())
	m.cl.CloseAllowingRebalance()
}

// kill lets the consumer vanish.
func (m *consumer) kill() {
	m.mu.Lock()
	m.dead = true
	for _, nc := range m.conns {
		nc.Close()
	}
	m.mu.Unlock()
	m.stop()
	<-m.done
	m.cl.CloseAllowingRebalance()
}

// state is how many records were read, how many more than once, and by how many consumers partitions were read last.
func (c *crew) state() (records, twice, readers int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := map[*consumer]bool{}
	for _, m := range c.by {
		seen[m] = true
	}
	for _, n := range c.read {
		if n > 1 {
			twice++
		}
	}
	return len(c.read), twice, len(seen)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begin := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > 2*time.Minute {
			t.Fatalf("never: %s", what)
		}
	}
}

// protocols are both kinds of groups, as franz-go speaks them.
func protocols(t *testing.T, each func(t *testing.T, opts ...kgo.Opt)) {
	t.Run("classic", func(t *testing.T) { each(t, kgo.Balancers(kgo.CooperativeStickyBalancer())) })
	t.Run("eager", func(t *testing.T) { each(t, kgo.Balancers(kgo.RangeBalancer())) })
	t.Run("consumer", func(t *testing.T) {
		each(t, kgo.ServerSideBalancer())
	})
}

func makeTopic(t *testing.T, n *nodeNow, partitions int32) (*kgo.Client, *kadm.Client) {
	t.Helper()
	cl := client(t, n.Load(), kgo.Dialer(n.dial), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	adm := kadm.NewClient(cl)
	if _, err := adm.CreateTopic(within(t, time.Minute), partitions, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	return cl, adm
}

// committed is the sum of what the group has committed, which is how many records it has read.
func committed(t *testing.T, adm *kadm.Client) int {
	t.Helper()
	offsets, err := adm.FetchOffsets(within(t, time.Minute), "g")
	if err != nil {
		return -1
	}
	total := int64(0)
	offsets.Each(func(o kadm.OffsetResponse) { total += o.At })
	return int(total)
}

// Consumers share the partitions; when one leaves or vanishes, the others take over, and every record is read.
func TestGroupShares(t *testing.T) {
	protocols(t, func(t *testing.T, opts ...kgo.Opt) {
		n := nodeIs(quiretest.Start(t, quiretest.With("group.initial.rebalance.delay.ms", "0"),
			quiretest.With("group.consumer.min.session.timeout.ms", "1000"), quiretest.With("group.consumer.session.timeout.ms", "6000"),
			quiretest.With("group.consumer.min.heartbeat.interval.ms", "100"), quiretest.With("group.consumer.heartbeat.interval.ms", "200")))
		cl, adm := makeTopic(t, n, 6)
		c := newCrew(t, n, "t", "g", append(opts, kgo.SessionTimeout(6*time.Second))...) // one that vanishes is noticed before long
		sent := 0
		// each sends records, and more once the crew has read all, until so many consumers have read some of the last.
		each := func(what string, readers int) {
			t.Helper()
			eventually(t, what, func() bool {
				c.mu.Lock()
				clear(c.by)
				c.mu.Unlock()
				produce(t, cl, "t", sent, sent+60)
				sent += 60
				eventually(t, what, func() bool { records, _, _ := c.state(); return records == sent })
				_, _, now := c.state()
				return now == readers
			})
		}
		first := c.hire()
		each("one reads all", 1)
		second, third := c.hire(), c.hire()
		each("three share", 3)
		second.leave()
		each("two share", 2)
		third.kill()
		each("the last reads all", 1)
		eventually(t, "all is committed", func() bool { return committed(t, adm) == sent })
		first.leave()
		eventually(t, "an empty group that has committed all", func() bool {
			groups, err := adm.ListGroups(within(t, time.Minute))
			return err == nil && groups["g"].State == "Empty" && committed(t, adm) == sent
		})
		if records, _, _ := c.state(); records != sent {
			t.Errorf("%d of %d records were read", records, sent)
		}
	})
}

// A group goes on where it was after a restart: a clean one, and one as by a kill.
func TestGroupOutlivesItsCoordinator(t *testing.T) {
	protocols(t, func(t *testing.T, opts ...kgo.Opt) {
		dir := t.TempDir()
		start := func() *quire.Node {
			return quiretest.Start(t, quiretest.OnDisk(dir), quiretest.With("group.initial.rebalance.delay.ms", "0"))
		}
		n := nodeIs(start())
		cl, adm := makeTopic(t, n, 4)
		c := newCrew(t, n, "t", "g", opts...)
		a, b := c.hire(), c.hire()
		sent := 0
		more := func(what string) {
			t.Helper()
			produce(t, cl, "t", sent, sent+100)
			sent += 100
			eventually(t, what, func() bool { records, _, _ := c.state(); return records == sent })
			eventually(t, what+", and committed", func() bool { return committed(t, adm) == sent })
		}
		more("read")
		if err := n.Load().Close(within(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
		n.Store(start())
		more("read after a clean stop")
		n.Load().Abort()
		n.Store(start())
		more("read after a kill")
		if _, twice, _ := c.state(); twice > 0 {
			t.Errorf("%d committed records were read again", twice)
		}
		a.leave()
		b.leave()
	})
}

// Deleting, resetting and describing from outside.
func TestGroupAdmin(t *testing.T) {
	n := nodeIs(quiretest.Start(t, quiretest.With("group.initial.rebalance.delay.ms", "0")))
	cl, adm := makeTopic(t, n, 2)
	produce(t, cl, "t", 0, 10)
	c := newCrew(t, n, "t", "g")
	m := c.hire()
	eventually(t, "read", func() bool { records, _, _ := c.state(); return records == 10 })
	ctx := within(t, 2*time.Minute)
	groups, err := adm.DescribeGroups(ctx, "g")
	if g := groups["g"]; err != nil || g.Err != nil || g.State != "Stable" || len(g.Members) != 1 || g.Members[0].ClientHost != "/127.0.0.1" {
		t.Errorf("%+v, %v", groups, err)
	}
	if r, err := adm.DeleteGroups(ctx, "g"); err != nil || r["g"].Err == nil {
		t.Errorf("a group with members was deleted: %v, %v", r, err)
	}
	m.leave()
	var o kadm.Offsets
	o.Add(kadm.Offset{Topic: "t", Partition: 1, At: 3, LeaderEpoch: -1, Metadata: "back"})
	if err := adm.CommitAllOffsets(ctx, "g", o); err != nil {
		t.Fatal(err)
	}
	got, err := adm.FetchOffsets(ctx, "g")
	if at, ok := got.Lookup("t", 1); err != nil || !ok || at.At != 3 || at.Metadata != "back" {
		t.Errorf("%+v, %v", got, err)
	}
	if listed, err := adm.ListGroups(ctx); err != nil || fmt.Sprint(listed.Groups()) != "[g]" {
		t.Errorf("%v, %v", listed, err)
	}
	if r, err := adm.DeleteGroups(ctx, "g"); err != nil || r["g"].Err != nil {
		t.Errorf("%v, %v", r, err)
	}
	if listed, err := adm.ListGroups(ctx); err != nil || len(listed) != 0 {
		t.Errorf("%v, %v", listed, err)
	}
}
