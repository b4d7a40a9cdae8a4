package tools

import (
	"bytes"
	"strings"
	"testing"
)

func TestGroupWatch(t *testing.T) {
	admin := adminOf(t, map[string]string{
		"/groups/lag?":                 `{"complete":true,"partitions":[]}`,
		"/groups/lag?group=gone":       `{"complete":true,"partitions":[]}`,
		"/groups/lag?group=billing":    `{"complete":true,"partitions":[{"group":"billing","topic":"t","partition":1,"committed":2,"lastStableOffset":5,"records":3,"exact":true,"seconds":1.5}]}`,
		"/groups/events?group=gone":    `[]`,
		"/groups/events?group=billing": `[{"time":"2026-01-31T12:00:00Z","group":"billing","kind":"empty","generation":2}]`,
	})
	const of = "nothing is known of group gone: it has committed nothing, is not there, or another node coordinates it"
	for _, c := range []struct {
		run        Tool
		args, want string
		code       int
	}{
		{groupLag, "billing", "billing  t      1          2          0          5            3    1.5s", exitGood},
		{groupLag, "--group billing", "billing  t      1          2          0          5            3    1.5s", exitGood},
		{groupLag, "gone", of, exitGood},
		{groupLag, "", "nothing is known of any group yet", exitGood},
		{groupLag, "--group billing gone", "quire group lag: one group at a time", exitMisuse},
		{groupEvents, "--group billing", "2026-01-31T12:00:00.000Z  billing  empty  generation 2", exitGood},
		{groupEvents, "gone", of, exitGood},
		{groupEvents, "--gruop gone", "quire group events: unknown flag: --gruop; did you mean --group?", exitMisuse},
	} {
		var out bytes.Buffer
		code := c.run(Env{Stdout: &out, Stderr: &out}, append(strings.Fields(c.args), "--admin-url", admin))
		if code != c.code || !strings.Contains("\n"+out.String(), "\n"+c.want+"\n") {
			t.Errorf("%s: code %d, printed\n%s", c.args, code, out.String())
		}
	}
}
