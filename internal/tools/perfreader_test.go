package tools_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/quire-log/quire/internal/tools"
	"github.com/quire-log/quire/quiretest"
)

// kafka-consumer-perf-test counts each record once: of several partitions and topics, of batches in every codec, and of transactions
// as isolation.level says.
func TestConsumerPerfCounts(t *testing.T) {
	address := quiretest.Start(t).Addr()
	tool(t, address, "", "kafka-topics", "--create", "--topic", "cp-many", "--partitions", "5")
	tool(t, address, "", "kafka-topics", "--create", "--topic", "cp-tx")
	for i, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		tool(t, address, "", "kafka-producer-perf-test", "--topic", "cp-many", "--num-records", fmt.Sprint(301+i), "--record-size", "100", "--throughput", "-1",
			"--command-property", "compression.type="+codec, "batch.size=2000")
	}
	transact(t, address, "cp-tx", kgo.TryCommit, 30)
	transact(t, address, "cp-tx", kgo.TryAbort, 20)
	transact(t, address, "cp-tx", kgo.TryCommit, 4)

	read := func(want int, args ...string) (row []string) {
		t.Helper()
		out := tool(t, address, "", append([]string{"kafka-consumer-perf-test", "--hide-header", "--timeout", "60000", "--num-records", fmt.Sprint(want)}, args...)...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		return strings.Split(lines[len(lines)-1], ", ")
	}
	const many = 301 + 302 + 303 + 304 + 305
	for _, test := range []struct {
		want    int
		args    string
		records string
		mb      float64
	}{
		{many, "--topic cp-many", fmt.Sprint(many), many * 100},
		{many, "--topic cp-many --fetch-size 1", fmt.Sprint(many), many * 100},
		{many, "--topic cp-many --command-property fetch.max.bytes=1", fmt.Sprint(many), many * 100},
		{700, "--topic cp-many --command-property max.poll.records=1", "700", 70000},
		{54, "--topic cp-tx", "54", 54 * 5},
		{many + 54, "--include cp-.*", fmt.Sprint(many + 54), many*100 + 54*5},
		{34, "--topic cp-tx --command-property isolation.level=read_committed", "34", 34 * 5},
		{34, "--topic cp-tx --command-property isolation.level=read_committed --group cp-group", "34", 34 * 5},
	} {
		row := read(test.want, strings.Fields(test.args)...)
		if len(row) != 10 || row[4] != test.records || row[2] != fmt.Sprintf("%.4f", test.mb/(1<<20)) {
			t.Errorf("%s: row %q, want %s records, %.4f MB", test.args, row, test.records, test.mb/(1<<20))
		}
	}
}

// transact writes n records of 5 bytes in a transaction and ends it.
func transact(t *testing.T, address, topic string, end kgo.TransactionEndTry, n int) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.DefaultProduceTopic(topic), kgo.TransactionalID("perf-reader"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx := context.Background()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for range n {
		if err := cl.ProduceSync(ctx, kgo.KeyStringRecord("k", "1234")).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if err := tools.EndTransaction(ctx, cl, topic, end); err != nil {
		t.Fatal(err)
	}
}
