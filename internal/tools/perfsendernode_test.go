package tools_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/quire-log/quire/quiretest"
)

// Each record that kafka-producer-perf-test was told to write is in the log once, and counted once.
func TestProducerPerfWrites(t *testing.T) {
	dir := t.TempDir()
	address := quiretest.Start(t, quiretest.OnDisk(dir)).Addr()
	for i, q := range []struct {
		args, batch string // batch: sequence of the first, has a producer, transactional, codec
	}{
		{"", "0 true false none"},
		{"--command-property batch.size=0", "0 true false none"},
		{"--command-property batch.size=1000 linger.ms=0", "0 true false none"},
		{"--command-property acks=1 compression.type=lz4", "-1 false false lz4"},
		{"--command-property acks=0 compression.type=gzip", "-1 false false gzip"},
		{"--command-property compression.type=zstd batch.size=500", "0 true false zstd"},
		{"--command-property enable.idempotence=false max.in.flight.requests.per.connection=2000000000", "-1 false false none"},
		{"--command-property max.in.flight.requests.per.connection=1 batch.size=300", "0 true false none"},
		{"--warmup-records 100", "0 true false none"},
		{"--throughput 5000", "0 true false none"},
	} {
		topic := fmt.Sprintf("pp-%d", i)
		tool(t, address, "", "kafka-topics", "--create", "--topic", topic, "--partitions", "3")
		args := append([]string{"kafka-producer-perf-test", "--topic", topic, "--num-records", "1000", "--record-size", "50"}, strings.Fields(q.args)...)
		if !strings.Contains(q.args, "--throughput") {
			args = append(args, "--throughput", "-1")
		}
		if got := tool(t, address, "", args...); !strings.Contains("\n"+got, "\n1000 records sent, ") || strings.Contains(q.args, "warmup") != strings.Contains(got, "\n900 steady state records sent, ") {
			t.Errorf("%s: printed\n%s", q.args, got)
		}
		row := tool(t, address, "", "kafka-consumer-perf-test", "--topic", topic, "--num-records", "1000", "--timeout", "60000", "--hide-header")
		if !strings.Contains(row, ", 1000, ") || !strings.Contains(row, fmt.Sprintf(", %.4f, ", 50000.0/(1<<20))) {
			t.Errorf("%s: read %s", q.args, row)
		}
		if n := sumOffsets(t, address, topic); n != 1000 {
			t.Errorf("%s: %d records are in the log", q.args, n)
		}
		found := false
		for p := range 3 {
			if lines := dumpedPartition(t, dir, topic, p); len(lines) > 0 {
				found = true
				if lines[0] != q.batch {
					t.Errorf("%s: first batch of partition %d is %q, want %q", q.args, p, lines[0], q.batch)
				}
			}
		}
		if !found {
			t.Errorf("%s: no batch", q.args)
		}
	}
}

// sumOffsets is how many records a topic's partitions have taken.
func sumOffsets(t *testing.T, address, topic string) (sum int) {
	t.Helper()
	for line := range strings.Lines(tool(t, address, "", "kafka-get-offsets", "--topic", topic)) {
		n, err := strconv.Atoi(strings.TrimSpace(line[strings.LastIndexByte(line, ':')+1:]))
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}
