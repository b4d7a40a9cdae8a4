package quiretest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/quire-log/quire"
	"github.com/quire-log/quire/quiretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client makes a client of a node that is gone at the test's end.
func client(t *testing.T, n *quire.Node, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(n.Addr()), kgo.MetadataMinAge(50 * time.Millisecond)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func produce(t *testing.T, c *kgo.Client, topic string, from, to int) {
	t.Helper()
	var recs []*kgo.Record
	for i := from; i < to; i++ {
		recs = append(recs, &kgo.Record{Topic: topic, Value: fmt.Append(nil, i)})
	}
	if err := c.ProduceSync(within(t, time.Minute), recs...).FirstErr(); err != nil {
		t.Fatalf("produce: %v", err)
	}
}

// consume reads partition 0 of a topic until it has n records, and wants them to be 0..n-1.
func consume(t *testing.T, node *quire.Node, topic string, n int) {
	t.Helper()
	c := client(t, node, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	ctx := within(t, time.Minute)
	for got := 0; got < n; {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("after %d records: %v", got, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if string(r.Value) != fmt.Sprint(got) {
				t.Errorf("record %d = %s", got, r.Value)
			}
			got++
		})
	}
}

func TestProduceAndConsume(t *testing.T) {
	n := quiretest.Start(t)
	c := client(t, n)
	if _, err := kadm.NewClient(c).CreateTopic(within(t, time.Minute), 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	produce(t, c, "t", 0, 1000)
	consume(t, n, "t", 1000)
}

// A topic that a producer asks for comes into being, and takes its records.
func TestAutoCreation(t *testing.T) {
	n := quiretest.Start(t)
	produce(t, client(t, n, kgo.AllowAutoTopicCreation()), "auto", 0, 10)
	consume(t, n, "auto", 10)
}

func TestDeleteAndRecreate(t *testing.T) {
	n := quiretest.Start(t)
	adm := kadm.NewClient(client(t, n))
	for range 5 {
		if _, err := adm.CreateTopic(within(t, time.Minute), 2, 1, nil, "t"); err != nil {
			t.Fatal(err)
		}
		produce(t, client(t, n, kgo.RecordPartitioner(kgo.ManualPartitioner())), "t", 0, 10)
		consume(t, n, "t", 10)
		if _, err := adm.DeleteTopic(within(t, time.Minute), "t"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := adm.DeleteTopic(within(t, time.Minute), "t"); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("deleting what is gone: %v", err)
	}
}

// Whether a node stops cleanly or at once, the next one on its directory has every record, the same cluster id, and serves at once.
func TestRestarts(t *testing.T) {
	for name, end := range map[string]func(*quire.Node) error{
		"close": func(n *quire.Node) error { return n.Close(context.Background()) },
		"abort": func(n *quire.Node) error { n.Abort(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			const each = 50
			var cluster string
			for round := range 6 {
				n := quiretest.Start(t, quiretest.OnDisk(dir))
				c := client(t, n)
				adm := kadm.NewClient(c)
				if round == 0 {
					if _, err := adm.CreateTopic(within(t, time.Minute), 1, 1, nil, "t"); err != nil {
						t.Fatal(err)
					}
				}
				m, err := adm.Metadata(within(t, time.Minute), "t")
				if err != nil {
					t.Fatal(err)
				}
				if cluster != "" && m.Cluster != cluster {
					t.Errorf("cluster id %s became %s", cluster, m.Cluster)
				}
				cluster = m.Cluster
				if epoch := m.Topics["t"].Partitions[0].LeaderEpoch; epoch != int32(2*round) {
					t.Errorf("round %d: leader epoch %d, want %d", round, epoch, 2*round)
				}
				produce(t, c, "t", round*each, (round+1)*each)
				consume(t, n, "t", (round+1)*each)
				c.Close()
				if err := end(n); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// Several nodes live in one process, each with its own files and port.
func TestSeveralNodes(t *testing.T) {
	a, b := quiretest.Start(t), quiretest.Start(t)
	produce(t, client(t, a, kgo.AllowAutoTopicCreation()), "t", 0, 5)
	topics, err := kadm.NewClient(client(t, b)).ListTopics(within(t, time.Minute))
	if err != nil || len(topics) != 0 {
		t.Errorf("the other node's topics = %v, %v", topics.Names(), err)
	}
}

// A second node on a directory is refused before it touches anything, and the first goes on.
func TestDirectoryLock(t *testing.T) {
	dir := t.TempDir()
	n := quiretest.Start(t, quiretest.OnDisk(dir))
	_, err := quire.Start(t.Context(), quire.Options{Properties: map[string]string{"log.dirs": dir, "listeners": "PLAINTEXT://127.0.0.1:0", "admin.listener": ""}})
	if err == nil {
		t.Fatal("two nodes share a directory")
	}
	produce(t, client(t, n, kgo.AllowAutoTopicCreation()), "t", 0, 5)
}
