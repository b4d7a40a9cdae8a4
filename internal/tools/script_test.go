package tools_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/quire-log/quire/internal/tools"
	"github.com/quire-log/quire/quiretest"
)

var updateScripts = flag.Bool("update-scripts", false, "write what the tools print into testdata/script instead of comparing")

// scriptMasks replace what differs from run to run.
var scriptMasks = []struct {
	pattern *regexp.Regexp
	text    string
}{
	{regexp.MustCompile(`\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?([.,:]\d{3})?\]?`), "<DATE>"},
	{regexp.MustCompile(`(^|[^\w-])([A-Za-z0-9_-]{21}[AQgw])($|[^\w-])`), "$1<ID>$3"},
	{regexp.MustCompile(`\b1[789]\d{11}\b`), "<MS>"},
	{regexp.MustCompile(`^(\d+\t)\d+\.[\dE-]+`), "$1<N>"},
	{regexp.MustCompile(`^\d{4}, \d{4}, .*`), "<ROW>"},
	{regexp.MustCompile(`perf-consumer-\d+`), "perf-consumer-<N>"},
	{regexp.MustCompile(`(LeaderEpoch|HighWatermark|Epoch): +\d+`), "$1: <N>"},
	{regexp.MustCompile(`\d+\.\d{4,}`), "<N>"},
	{regexp.MustCompile(`(99.9th = |99th = |50th = )\d+`), "$1<N>"},
}

// TestScripts runs the tools as testdata/script has it, all against one node. The command `tool` runs one and leaves in the
// file `out` its exit code after "= ", the lines of standard output after "> " and those of standard error after "! ".
func TestScripts(t *testing.T) {
	address := quiretest.Start(t, quiretest.With("group.initial.rebalance.delay.ms", "0")).Addr()
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *updateScripts,
		Setup: func(env *testscript.Env) error {
			env.Vars = append(env.Vars, "NODE="+address)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"tool": func(ts *testscript.TestScript, _ bool, args []string) { runScripted(ts, address, args) },
		},
	})
}

func runScripted(ts *testscript.TestScript, address string, args []string) {
	var stdout, stderr bytes.Buffer
	for i, arg := range args {
		if strings.HasPrefix(arg, "./") {
			args[i] = ts.MkAbs(arg)
		}
	}
	code := tools.Main(append([]string{"quire"}, args...), strings.NewReader(""), &stdout, &stderr)
	var out strings.Builder
	fmt.Fprintf(&out, "= %d\n", code)
	for _, stream := range []struct {
		mark string
		text string
	}{{"> ", stdout.String()}, {"! ", stderr.String()}} {
		for line := range strings.Lines(stream.text) {
			line = strings.ReplaceAll(line, address, "NODE")
			line = strings.ReplaceAll(line, ts.Getenv("WORK"), "WORK")
			for _, m := range scriptMasks {
				line = m.pattern.ReplaceAllString(line, m.text)
			}
			out.WriteString(strings.TrimRight(stream.mark+strings.TrimRight(line, "\n"), " ") + "\n")
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs("out"), []byte(out.String()), 0o644))
}
