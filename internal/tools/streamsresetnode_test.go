package tools_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/quire-log/quire/quiretest"
)

// An application's group goes back, and its own topics go away, once it is no longer a dry run.
func TestStreamsResetAgainstNode(t *testing.T) {
	address := quiretest.Start(t).Addr()
	run := func(stdin string, args ...string) string { return tool(t, address, stdin, args...) }
	run("", "kafka-topics", "--create", "--topic", "in", "--partitions", "1")
	run("", "kafka-topics", "--create", "--topic", "app-store-changelog", "--partitions", "1")
	run("one\ntwo\n", "kafka-console-producer", "--topic", "in")
	run("", "kafka-console-consumer", "--topic", "in", "--group", "app", "--from-beginning", "--max-messages", "2")
	plan := filepath.Join(t.TempDir(), "plan.csv")
	if err := os.WriteFile(plan, []byte("in,0,1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const dry = "----Dry run displays the actions which will be performed when running Streams Reset Tool----\n"
	const does = "Reset-offsets for input topics [in]\nFollowing input topics offsets will be reset to (for consumer group app)\n"
	const deletes = "Done.\nDeleting inferred internal topics [app-store-changelog]\nDone.\n"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--input-topics", "in", "--to-offset", "1", "--dry-run"}, dry + does + "Topic: in Partition: 0 Offset: 1\n" + deletes},
		{[]string{"--input-topics", "in", "--to-offset", "9", "--dry-run"}, dry + does + "New offset (9) is higher than latest offset. Value will be set to 2\nTopic: in Partition: 0 Offset: 2\n" + deletes},
		{[]string{"--input-topics", "in", "--shift-by", "-1", "--dry-run"}, dry + does + "Topic: in Partition: 0 Offset: 1\n" + deletes},
		{[]string{"--input-topics", "in", "--from-file", plan, "--dry-run"}, dry + does + "Topic: in Partition: 0 Offset: 1\n" + deletes},
		{[]string{"--input-topics", "in"}, does + "Topic: in Partition: 0 Offset: 0\n" + deletes},
	} {
		if got := run("", append([]string{"kafka-streams-application-reset", "--application-id", "app"}, c.args...)...); got != c.want {
			t.Errorf("%v printed\n%s", c.args, got)
		}
	}
	if got := run("", "kafka-topics", "--list", "--exclude-internal"); got != "in\n" {
		t.Errorf("topics left: %q", got)
	}
}
