package tools_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/quire-log/quire/internal/tools"
	"github.com/quire-log/quire/quiretest"
)

var dumpedBatch = regexp.MustCompile(`(?m)^baseOffset: .* baseSequence: (-?\d+) .* producerId: (-?\d+) .* isTransactional: (\w+) .* compresscodec: (\w+) .* isvalid: (\w+)$`)

// The producers' batches lie on disk as Java's do: in the codec asked for, though a record of one letter gets no smaller by it, and
// with a sequence only where there is a producer.
func TestProducersWriteAsJavaDoes(t *testing.T) {
	dir := t.TempDir()
	address := quiretest.Start(t, quiretest.OnDisk(dir)).Addr()
	for _, q := range []struct {
		topic string
		args  []string
		want  string // sequence, has a producer, transactional, codec
	}{
		{"plain", nil, "0 true false none"},
		{"gzip", []string{"--compression-codec"}, "0 true false gzip"},
		{"snappy", []string{"--compression-codec", "snappy"}, "0 true false snappy"},
		{"lz4", []string{"--compression-codec", "lz4", "--sync"}, "0 true false lz4"},
		{"zstd", []string{"--compression-codec", "zstd"}, "0 true false zstd"},
		{"nobody", []string{"--command-property", "enable.idempotence=false"}, "-1 false false none"},
		{"leader", []string{"--request-required-acks", "1", "--compression-codec", "zstd"}, "-1 false false zstd"},
		{"noack", []string{"--request-required-acks", "0", "--compression-codec", "gzip"}, "-1 false false gzip"},
	} {
		tool(t, address, "", "kafka-topics", "--create", "--topic", q.topic)
		tool(t, address, "x\n", append([]string{"kafka-console-producer", "--topic", q.topic}, q.args...)...)
		if got := tool(t, address, "", "kafka-console-consumer", "--topic", q.topic, "--from-beginning", "--max-messages", "1"); got != "x\n" {
			t.Errorf("%s: read %q", q.topic, got)
		}
		if got := dumped(t, dir, q.topic); len(got) != 1 || got[0] != q.want {
			t.Errorf("%s: batches %q, want %q", q.topic, got, q.want)
		}
	}

	tool(t, address, "", "kafka-topics", "--create", "--topic", "perf")
	tool(t, address, "", "kafka-producer-perf-test", "--topic", "perf", "--num-records", "100", "--record-size", "10", "--throughput", "-1",
		"--transactional-id", "perf", "--command-property", "compression.type=snappy")
	for _, got := range dumped(t, dir, "perf") {
		if !strings.HasSuffix(got, " true true snappy") && !strings.HasSuffix(got, " true true none") { // none: the marker at the end
			t.Errorf("perf: batch %q", got)
		}
	}
	if got := tool(t, address, "", "kafka-console-consumer", "--topic", "perf", "--from-beginning", "--max-messages", "100"); strings.Count(got, "\n") != 100 {
		t.Errorf("perf: read %q", got)
	}
}

// dumped is a line for each batch of a topic's log, of which there is at least one.
func dumped(t *testing.T, dir, topic string) []string {
	t.Helper()
	lines := dumpedPartition(t, dir, topic, 0)
	if len(lines) == 0 {
		t.Errorf("%s: no batch", topic)
	}
	return lines
}

// dumpedPartition is a line for each batch of a partition's log.
func dumpedPartition(t *testing.T, dir, topic string, partition int) []string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	file := filepath.Join(dir, fmt.Sprintf("%s-%d", topic, partition), "00000000000000000000.log")
	if code := tools.Main([]string{"kafka-dump-log", "--files", file}, strings.NewReader(""), &stdout, &stderr); code != 0 {
		t.Fatalf("dump of %s: code %d\n%s%s", topic, code, stdout.String(), stderr.String())
	}
	var lines []string
	for _, m := range dumpedBatch.FindAllStringSubmatch(stdout.String(), -1) {
		if m[5] != "true" {
			t.Errorf("%s: %s", topic, m[0])
		}
		has := "true"
		if m[2] == "-1" {
			has = "false"
		}
		lines = append(lines, strings.Join([]string{m[1], has, m[3], m[4]}, " "))
	}
	return lines
}
