package tools

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/quire-log/quire/quiretest"
)

// A transaction is committed, although its records were taken before the client has stored what it knows of their topic.
func TestEndTransactionOfNewTopic(t *testing.T) {
	address := quiretest.Start(t).Addr()
	release := make(chan struct{})
	// The second record's partition is chosen late, and wrong: until then the client's table of topics has no partitions.
	partitioner := kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
		return func(r *kgo.Record, _ int) int {
			if string(r.Value) == "taken" {
				return 0
			}
			<-release
			return -1
		}
	})
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.AllowAutoTopicCreation(), kgo.TransactionalID("x"), kgo.RecordPartitioner(partitioner), kgo.ProducerLinger(0))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, _, err := client.ProducerID(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	taken, refused := make(chan error, 1), make(chan error, 1)
	client.Produce(t.Context(), &kgo.Record{Topic: "t", Value: []byte("taken")}, func(_ *kgo.Record, err error) { taken <- err })
	client.Produce(t.Context(), &kgo.Record{Topic: "t", Value: []byte("refused")}, func(_ *kgo.Record, err error) { refused <- err })
	if err := <-taken; err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(20*time.Millisecond, func() { close(release) })
	if err := endTransaction(t.Context(), client, "t", kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	if err := <-refused; err == nil {
		t.Error("a record without a partition was taken")
	}
	got := readImported(t, address, "t", 0)
	if !slices.Equal(got, []imported{{value: "taken"}}) {
		t.Errorf("committed: %v", got)
	}
}
