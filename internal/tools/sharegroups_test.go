package tools

import (
	"bytes"
	"strings"
	"testing"
)

// Of what is refused, the message; the table of options follows each.
func TestGroupToolsCommandLines(t *testing.T) {
	for _, c := range []struct {
		tool       Tool
		line, want string
		code       int
	}{
		{kafkaShareGroups, "", shareGroupsPurpose, 1},
		{kafkaShareGroups, "--bootstrap-server x:1 --describe", "Option [describe] takes one of these options: [all-groups], [group]", 1},
		{kafkaShareGroups, "--bootstrap-server x:1 --delete", "Option [delete] takes the options [group] or [all-groups]", 1},
		{kafkaShareGroups, "--bootstrap-server x:1 --delete-offsets --group g", "Option [delete-offsets] takes the following options: [group], [topic]", 1},
		{kafkaShareGroups, "--bootstrap-server x:1 --reset-offsets --group g --topic t --to-earliest", "Option [reset-offsets] takes the option: [execute] or [dry-run]", 1},
		{kafkaShareGroups, "--bootstrap-server x:1 --reset-offsets --group g --topic t --execute --dry-run", "Option [reset-offsets] only accepts one of [execute] and [dry-run]", 1},
		{kafkaShareGroups, "--bootstrap-server x:1 --reset-offsets --group g --execute", "Option [reset-offsets] takes one of these options: [all-topics], [topic]", 1},
		{kafkaShareGroups, "--bootstrap-server x:1 --reset-offsets --group g --topic t --to-earliest --to-latest --execute", `Option "[to-earliest]" can't be used with option "[to-latest]"`, 1},
		{kafkaShareGroups, "--bootstrap-server x:1", "Command must include exactly one action: --list, --describe, --delete, --reset-offsets, --delete-offsets.", 1},
		{kafkaShareGroups, "--bootstrap-server x:1 --list --frob", `Exception in thread "main" joptsimple.UnrecognizedOptionException: frob is not a recognized option`, 1},
		{kafkaStreamsApplicationReset, "", "Missing required option(s) [application-id]", 1},
		{kafkaStreamsApplicationReset, "--application-id a --to-earliest --to-latest", `Option "[to-earliest]" can't be used with option "[to-latest]"`, 1},
		{kafkaConsoleShareConsumer, "", shareConsumerPurpose, 1},
		{kafkaConsoleShareConsumer, "--topic t", `Missing required argument "[bootstrap-server]"`, 1},
		{kafkaConsoleShareConsumer, "--bootstrap-server x:1 --topic t --reject --release", "At most one of --reject and --release may be specified.", 1},
		{kafkaConsoleShareConsumer, "--bootstrap-server x:1 --topic t --group a --command-property group.id=b",
			"The group ids provided in different places (directly using '--group', via '--consumer-property', or via '--consumer-config') do not match. Detected group ids: 'a', 'b'", 1},
	} {
		var out, errs bytes.Buffer
		code := c.tool(Env{Stdout: &out, Stderr: &errs}, strings.Fields(c.line))
		if first, _, _ := strings.Cut(errs.String(), "\n"); code != c.code || first != c.want || out.Len() > 0 {
			t.Errorf("%q: code %d\n%s%s", c.line, code, out.String(), first)
		}
	}
	for _, tool := range []Tool{kafkaShareGroups, kafkaStreamsApplicationReset, kafkaConsoleShareConsumer} {
		var out bytes.Buffer
		if code := tool(Env{Stdout: &out}, []string{"--version"}); code != 0 || out.String() != "4.3.1\n" {
			t.Errorf("--version: code %d, printed %q", code, out.String())
		}
	}
}

func TestInternalTopicNames(t *testing.T) {
	for name, want := range map[string]bool{"app-store-changelog": true, "app-x-repartition": true, "app-KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-0000000004-topic": true,
		"app-x-subscription-registration-topic": true, "app-orders": false, "app-changelog-2": false} {
		if got := internalTopic().MatchString(name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
