package tools_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/quire-log/quire/internal/tools"
	"github.com/quire-log/quire/quiretest"
)

// tool runs a tool by its name against an address and returns what it printed on standard output.
func tool(t *testing.T, address, stdin string, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	argv := append([]string{args[0], "--bootstrap-server", address}, args[1:]...)
	if code := tools.Main(argv, strings.NewReader(stdin), &stdout, &stderr); code != 0 {
		t.Fatalf("%s: code %d\n%s%s", strings.Join(args, " "), code, stdout.String(), stderr.String())
	}
	return stdout.String()
}

// A topic is made, written, read and deleted, on a node of our own.
func TestToolsAgainstNode(t *testing.T) {
	address := quiretest.Start(t).Addr()
	run := func(stdin string, args ...string) string { return tool(t, address, stdin, args...) }
	if got := run("", "kafka-topics", "--create", "--topic", "orders", "--partitions", "2", "--config", "retention.ms=60000"); got != "Created topic orders.\n" {
		t.Errorf("create printed %q", got)
	}
	described := run("", "kafka-topics.sh", "--describe", "--topic", "orders")
	for _, want := range []string{"Topic: orders\tTopicId: ", "\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: ", "retention.ms=60000", "\n\tTopic: orders\tPartition: 1\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: \n"} {
		if !strings.Contains(described, want) {
			t.Errorf("describe lacks %q:\n%s", want, described)
		}
	}
	run("k\tone\nk\ttwo\n", "kafka-console-producer", "--topic", "orders", "--reader-property", "parse.key=true")
	if got := run("", "kafka-console-consumer", "--topic", "orders", "--from-beginning", "--max-messages", "2", "--formatter-property", "print.key=true"); got != "k\tone\nk\ttwo\n" {
		t.Errorf("the consumer printed %q", got)
	}
	// Java's hash of "k" puts both records into one partition.
	if got := run("", "kafka-get-offsets", "--topic", "orders"); got != "orders:0:2\norders:1:0\n" && got != "orders:0:0\norders:1:2\n" {
		t.Errorf("offsets:\n%s", got)
	}
	run("", "kafka-topics", "--delete", "--topic", "orders")
	if got := run("", "kafka-topics", "--list"); got != "\n" {
		t.Errorf("the list after deletion is %q", got)
	}
}
