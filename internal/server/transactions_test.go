package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/quire-log/quire/internal/golden"
	"github.com/quire-log/quire/internal/storage"
	"github.com/quire-log/quire/internal/vfs"
)

// protocols are the two that transactional clients speak.
var protocols = map[string]kgo.Opt{"v1": kgo.MaxVersions(kversion.V3_8_0()), "v2": kgo.MaxVersions(kversion.Stable())}

func newClient(t testing.TB, n *Node, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(n.Addr()), kgo.AllowAutoTopicCreation()}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// end ends the transaction in which c had records taken for topic. See endTransaction of package tools for what it waits for.
func end(ctx context.Context, c *kgo.Client, topic string, how kgo.TransactionEndTry) error {
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		if leader, _, _ := c.PartitionLeader(topic, 0); leader != -1 {
			return c.EndTransaction(ctx, how)
		}
		if time.Since(begin) > time.Minute {
			return fmt.Errorf("the client does not know %s after a minute", topic)
		}
	}
}

// committed reads a topic to its end as read_committed consumers do.
func committed(t testing.TB, n *Node, topic string, want int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := newClient(t, n, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	var values []string
	for len(values) < want {
		f := c.PollFetches(ctx)
		if err := f.Err(); err != nil {
			t.Fatalf("after %d of %d records: %v", len(values), want, err)
		}
		f.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	slices.Sort(values)
	return values
}

// stable waits until nothing holds back the last stable offset of a partition.
func stable(t testing.TB, n *Node, topic string, partition int32) {
	t.Helper()
	eventually(t, topic+" is stable", func() bool {
		p := n.replicas.Partition(topic, partition)
		return p.LastStableOffset() == p.HighWatermark()
	})
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for begin := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// A client of each protocol commits and aborts, and read_committed consumers see what was committed, and it alone.
func TestCommitAndAbort(t *testing.T) {
	for name, protocol := range protocols {
		t.Run(name, func(t *testing.T) {
			n := startNode(t, "num.partitions", "3")
			ctx := t.Context()
			c := newClient(t, n, protocol, kgo.TransactionalID("x"), kgo.DefaultProduceTopic("t"))
			var want []string
			for i := range 40 {
				if err := c.BeginTransaction(); err != nil {
					t.Fatal(err)
				}
				how := kgo.TransactionEndTry(i%3 > 0)
				for j := range 5 {
					value := fmt.Sprint(i, ".", j)
					c.Produce(ctx, &kgo.Record{Key: []byte(value), Value: []byte(value)}, func(_ *kgo.Record, err error) {
						if err != nil {
							t.Error(err)
						}
					})
					if how == kgo.TryCommit {
						want = append(want, value)
					}
				}
				if err := c.Flush(ctx); err != nil {
					t.Fatal(err)
				}
				if err := end(ctx, c, "t", how); err != nil {
					t.Fatalf("transaction %d: %v", i, err)
				}
			}
			slices.Sort(want)
			if got := committed(t, n, "t", len(want)); !slices.Equal(got, want) {
				t.Errorf("committed %q, want %q", got, want)
			}
			for p := range int32(3) {
				stable(t, n, "t", p)
			}
			// Another instance takes the id over, and the first one's open transaction ends.
			if err := c.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			if err := c.ProduceSync(ctx, kgo.StringRecord("lost")).FirstErr(); err != nil {
				t.Fatal(err)
			}
			d := newClient(t, n, protocol, kgo.TransactionalID("x"), kgo.DefaultProduceTopic("t"))
			if err := d.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			if err := d.ProduceSync(ctx, kgo.StringRecord("kept")).FirstErr(); err != nil {
				t.Fatal(err)
			}
			if err := end(ctx, c, "t", kgo.TryCommit); err == nil {
				t.Error("a fenced producer commits")
			}
			if err := end(ctx, d, "t", kgo.TryCommit); err != nil {
				t.Fatal(err)
			}
			if got := committed(t, n, "t", len(want)+1); !slices.Contains(got, "kept") || slices.Contains(got, "lost") {
				t.Errorf("after a takeover: %q", got)
			}
		})
	}
}

// What a group read and what came of it are committed together: over restarts of the consumer each record is copied once.
func TestExactlyOnce(t *testing.T) {
	for name, protocol := range protocols {
		t.Run(name, func(t *testing.T) {
			n := startNode(t, "num.partitions", "2", "group.initial.rebalance.delay.ms", "0")
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			p := newClient(t, n, kgo.DefaultProduceTopic("in"))
			var want []string
			for i := range 200 {
				value := fmt.Sprintf("%03d", i)
				want = append(want, value)
				if err := p.ProduceSync(ctx, kgo.KeyStringRecord(value, value)).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			for done, round := 0, 0; done < len(want); round++ {
				s, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(n.Addr()), kgo.AllowAutoTopicCreation(), protocol, kgo.TransactionalID("copy"),
					kgo.ConsumerGroup("g"), kgo.ConsumeTopics("in"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
					kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.DefaultProduceTopic("out"))
				if err != nil {
					t.Fatal(err)
				}
				for step := range 3 {
					f := s.PollRecords(ctx, 20)
					if err := f.Err(); err != nil {
						t.Fatal(err)
					}
					if err := s.Begin(); err != nil {
						t.Fatal(err)
					}
					f.EachRecord(func(r *kgo.Record) { s.Produce(ctx, &kgo.Record{Key: r.Key, Value: r.Value}, nil) })
					end := kgo.TransactionEndTry((round+step)%3 > 0)
					ok, err := s.End(ctx, end)
					if err != nil {
						t.Fatal(err)
					}
					if ok && end == kgo.TryCommit {
						done += f.NumRecords()
					}
					if done >= len(want) {
						break
					}
				}
				s.Close()
			}
			if got := committed(t, n, "out", len(want)); !slices.Equal(got, want) {
				t.Errorf("copied %q", got)
			}
		})
	}
}

// A coordinator that ends between decision and markers finishes after its restart; so it does for a timeout.
func TestDecisionOutlivesTheNode(t *testing.T) {
	for _, commit := range []bool{true, false} {
		fs := vfs.NewMem()
		start := func() *Node {
			n, err := Start(t.Context(), Options{FS: fs, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Properties: map[string]string{
				"listeners": "PLAINTEXT://127.0.0.1:0", "admin.listener": "", "transaction.abort.timed.out.transaction.cleanup.interval.ms": "50",
			}})
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		n := start()
		timeout := time.Minute
		if !commit {
			timeout = 200 * time.Millisecond // it is what ends the transaction
		}
		c := newClient(t, n, kgo.TransactionalID("x"), kgo.DefaultProduceTopic("t"), kgo.TransactionTimeout(timeout))
		if err := c.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		n.transactions.markers.close() // none is written any more
		if err := c.ProduceSync(t.Context(), kgo.StringRecord("v")).FirstErr(); err != nil {
			t.Fatal(err)
		}
		want := "PrepareAbort" // by its timeout
		if commit {
			want = "PrepareCommit"
			if err := end(t.Context(), c, "t", kgo.TryCommit); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, want, func() bool { return stateOf(t, n, "x") == want })
		if p := n.replicas.Partition("t", 0); p.LastStableOffset() != 0 {
			t.Errorf("without a marker, %d is stable", p.LastStableOffset())
		}
		n.Abort()
		n = start()
		eventually(t, "complete", func() bool { return strings.HasPrefix(stateOf(t, n, "x"), "Complete") })
		stable(t, n, "t", 0)
		if commit {
			committed(t, n, "t", 1)
		}
		if end := n.replicas.Partition("t", 0).Log().EndOffset(); end != 2 {
			t.Errorf("the log ends at %d, want a record and a marker", end)
		}
		n.Abort()
	}
}

func stateOf(t testing.TB, n *Node, id string) string {
	t.Helper()
	r := kmsg.NewPtrDescribeTransactionsRequest()
	r.TransactionalIDs = []string{id}
	c := newClient(t, n)
	defer c.Close()
	resp, err := r.RequestWith(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return resp.TransactionStates[0].State
}

// What this node knows of Kafka's transactions is what Kafka's tools say of them, and a producer that was in the middle goes on.
func TestGoldenTransactions(t *testing.T) {
	for version, name := range []string{"transactions-v0", "transactions-v1", "transactions-v2"} {
		t.Run(name, func(t *testing.T) {
			contents, err := os.ReadFile(golden.Shared(t, "golden", name, "contents.txt"))
			if err != nil {
				t.Fatal(err)
			}
			dir := golden.Unpack(t, name)
			n := startOn(t, dir)
			defer n.Abort()
			lines := bufio.NewScanner(bytes.NewReader(contents))
			lines.Buffer(nil, 1<<20)
			for lines.Scan() {
				if !bytes.HasPrefix(lines.Bytes(), []byte(`{"partition"`)) {
					continue
				}
				var want struct {
					Partition  string
					LastStable int64
				}
				if err := json.Unmarshal(lines.Bytes(), &want); err != nil {
					t.Fatal(err)
				}
				i := strings.LastIndexByte(want.Partition, '-')
				p := n.replicas.Partition(want.Partition[:i], int32(want.Partition[i+1]-'0'))
				if p == nil || int64(p.LastStableOffset()) != want.LastStable {
					t.Errorf("%s: last stable offset %d, want %d", want.Partition, p.LastStableOffset(), want.LastStable)
				}
			}
			var open []kmsg.ListTransactionsResponseTransactionState
			eventually(t, "the transactions are loaded", func() bool {
				r := kmsg.NewPtrListTransactionsRequest()
				r.StateFilters = []string{"Ongoing"}
				resp := ask[*kmsg.ListTransactionsResponse](t, n.Addr(), 2, r)
				open = resp.TransactionStates
				return resp.ErrorCode == 0
			})
			if len(open) != 3 {
				t.Fatalf("%d transactions are open, want 3: %+v", len(open), open)
			}
			for _, o := range open {
				d := kmsg.NewPtrDescribeTransactionsRequest()
				d.TransactionalIDs = []string{o.TransactionalID}
				s := ask[*kmsg.DescribeTransactionsResponse](t, n.Addr(), 0, d).TransactionStates[0]
				e := kmsg.NewPtrEndTxnRequest()
				e.TransactionalID, e.ProducerID, e.ProducerEpoch, e.Commit = o.TransactionalID, s.ProducerID, s.ProducerEpoch, true
				v := int16(4)
				if version == 2 {
					v = 5
				}
				r := ask[*kmsg.EndTxnResponse](t, n.Addr(), v, e)
				if r.ErrorCode != 0 || version == 2 && r.ProducerEpoch != s.ProducerEpoch+1 {
					t.Errorf("%s: EndTxn gives %v, producer %d/%d after %d", o.TransactionalID, kerr.ErrorForCode(r.ErrorCode), r.ProducerID, r.ProducerEpoch, s.ProducerEpoch)
				}
				for _, topic := range s.Topics {
					for _, q := range topic.Partitions {
						eventually(t, fmt.Sprint(o.TransactionalID, " is closed in ", topic.Topic, "-", q), func() bool {
							info, _ := n.replicas.Partition(topic.Topic, q).Log().Producer(s.ProducerID)
							return info.CurrentTxnStart < 0
						})
					}
				}
			}
		})
	}
}

// Markers that come by the wire: who may be told what.
func TestWriteTxnMarkers(t *testing.T) {
	n := startNode(t)
	c := newClient(t, n, kgo.TransactionalID("x"), kgo.DefaultProduceTopic("t"))
	if err := c.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := c.ProduceSync(t.Context(), kgo.StringRecord("v")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	id, epoch, err := c.ProducerID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	write := func(version int16, topic string, partition int32, epoch int16, coordinator int32, txnVersion int8) int16 {
		t.Helper()
		r := kmsg.NewPtrWriteTxnMarkersRequest()
		m := kmsg.NewWriteTxnMarkersRequestMarker()
		m.ProducerID, m.ProducerEpoch, m.Committed, m.CoordinatorEpoch, m.TransactionVersion = id, epoch, true, coordinator, txnVersion
		m.Topics = []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: topic, Partitions: []int32{partition}}}
		r.Markers = append(r.Markers, m)
		return ask[*kmsg.WriteTxnMarkersResponse](t, n.Addr(), version, r).Markers[0].Topics[0].Partitions[0].ErrorCode
	}
	for _, q := range []struct {
		what        string
		got, expect int16
	}{
		{"an unknown topic", write(1, "u", 0, epoch, 0, 0), codeUnknownTopicOrPartition},
		{"an unknown partition", write(1, "t", 7, epoch, 0, 0), codeUnknownTopicOrPartition},
		{"an old epoch", write(1, "t", 0, epoch-1, 0, 0), codeInvalidProducerEpoch},
		{"v2 wants a new epoch", write(2, "t", 0, epoch, 0, 2), codeInvalidProducerEpoch},
		{"a new epoch", write(2, "t", 0, epoch+1, 5, 2), codeNone},
		{"the same again", write(2, "t", 0, epoch+1, 5, 2), codeNone},
		{"an old coordinator", write(1, "t", 0, epoch+1, 4, 0), codeTransactionCoordinatorFenced},
	} {
		if q.got != q.expect {
			t.Errorf("%s: code %d, want %d", q.what, q.got, q.expect)
		}
	}
	stable(t, n, "t", 0)
	var refused *storage.SequenceError
	if err := c.ProduceSync(t.Context(), kgo.StringRecord("late")).FirstErr(); err == nil || errors.As(err, &refused) {
		t.Errorf("a producer whose transaction was ended writes on: %v", err)
	}
}

// BenchmarkTransactions runs small transactions of several producers through sockets: one record each.
func BenchmarkTransactions(b *testing.B) {
	for name, protocol := range protocols {
		b.Run(name, func(b *testing.B) {
			n, err := Start(b.Context(), Options{Properties: map[string]string{
				"listeners": "PLAINTEXT://127.0.0.1:0", "admin.listener": "", "log.dir": b.TempDir(), "num.partitions": "16",
			}})
			if err != nil {
				b.Fatal(err)
			}
			defer n.Close(context.Background())
			const producers = 16
			var all []*kgo.Client
			for i := range producers {
				c := newClient(b, n, protocol, kgo.TransactionalID(fmt.Sprint("x", i)), kgo.DefaultProduceTopic("t"), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
				if _, _, err := c.ProducerID(b.Context()); err != nil {
					b.Fatal(err)
				}
				all = append(all, c)
			}
			work := make(chan int)
			done := make(chan error)
			for i, c := range all {
				go func() {
					for range work {
						err := c.BeginTransaction()
						if err == nil {
							err = c.ProduceSync(context.Background(), &kgo.Record{Partition: int32(i), Value: []byte("v")}).FirstErr()
						}
						if err == nil {
							err = end(context.Background(), c, "t", kgo.TryCommit)
						}
						if err != nil {
							done <- err
							return
						}
					}
					done <- nil
				}()
			}
			b.ResetTimer()
			for i := range b.N {
				select {
				case work <- i:
				case err := <-done:
					b.Fatal(err)
				}
			}
			close(work)
			for range all {
				if err := <-done; err != nil {
					b.Error(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "transactions/s")
		})
	}
}
