package tools

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// knownTopicMax bounds how long a client may take to store what it already uses.
const knownTopicMax = 10 * time.Second

// endTransaction ends the transaction of client, in which a broker has taken records for topic and nothing waits for an answer.
//
// franz-go (v1.22.3) takes a partition for a part of the transaction only if it finds it in its table of topics. To the records that
// waited for a topic's first metadata it gives their partitions before it stores that table: a broker that answers quickly enough has
// taken them while the table is still empty. EndTransaction then finds nothing to end. It aborts what it was told to commit, or leaves
// the transaction open, and reports no error. So this waits for the table, which is a matter of microseconds.
func endTransaction(ctx context.Context, client *kgo.Client, topic string, end kgo.TransactionEndTry) error {
	for begin := time.Now(); ; {
		if leader, _, _ := client.PartitionLeader(topic, 0); leader != -1 { // -1: the table has no such partition
			return client.EndTransaction(ctx, end)
		}
		if time.Since(begin) > knownTopicMax {
			return fmt.Errorf("the client produced to topic %s and does not know it: its transaction was not ended", topic)
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
