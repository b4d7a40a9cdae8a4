package tools_test

import (
	"bytes"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
	{regexp.MustCompile(`\S+ records/sec .*`), "<N> records/sec <...>"},
	{regexp.MustCompile(`(salt|storedKey|serverKey)=\[[^\]]*\]`), "$1=<BYTES>"},
	{regexp.MustCompile(`\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?([.,:]\d{3})?\]?`), "<DATE>"},
	{regexp.MustCompile(`\b1[789]\d{11}\b`), "<MS>"},
	{regexp.MustCompile(`^(\d+\t)\d+\.[\dE-]+`), "$1<N>"},
	{regexp.MustCompile(`^\d{4}, \d{4}, .*`), "<ROW>"},
	{regexp.MustCompile(`perf-consumer-\d+`), "perf-consumer-<N>"},
	{regexp.MustCompile(`(LeaderEpoch|HighWatermark|Epoch): +\d+`), "$1: <N>"},
	{regexp.MustCompile(`\d+\.\d{4,}`), "<N>"},
	{regexp.MustCompile(`^quire \S+, Kafka`), "quire <VERSION>, Kafka"},
	{regexp.MustCompile(`"avg_throughput":[\d.E-]+`), `"avg_throughput":<N>`},
	{regexp.MustCompile(`"size":[1-9]\d*`), `"size":<N>`},
	{regexp.MustCompile(`\b(producerId|crc): \d+\b`), "$1: <N>"},
	// Records further apart in time take more bytes, and compressed ones other bytes.
	{regexp.MustCompile(`\b(position|CreateTime: \S+ size): [1-9]\d*\b`), "$1: <N>"},
	{regexp.MustCompile(`\b[1-9]\d* bytes, (cleanup\.policy=|newest record )`), "<N> bytes, $1"},
	{regexp.MustCompile(`is \S+ old: it expires in \S+`), "is <AGE> old: it expires in <TIME>"},
	{regexp.MustCompile(`(99.9th = |99th = |50th = )\d+`), "$1<N>"},
}

// scriptID finds words, of which those of 22 letters are ids: 16 bytes in base64, so the last one has two bits.
var scriptID = regexp.MustCompile(`[\w-]+`)

// An error is followed by a table of options or by the usage, which are in full only where a script asks for them with --help.
var (
	optionTable = regexp.MustCompile(`(?m)^Option( \(\* = required\))? +Description *\n-+ +-+ *\n(?s:.*)`)
	usageBefore = regexp.MustCompile(`(?m)^usage: .*\n(( .*)?\n)*([^ \n]+: +error:)`)
)

// TestScripts runs the tools as testdata/script has it, all against one node. The command `tool` runs one and leaves in the
// file `out` its exit code after "= ", the lines of standard output after "> " and those of standard error after "! ". A last
// argument `<./FILE` is its standard input.
func TestScripts(t *testing.T) {
	data := t.TempDir()
	node := quiretest.Start(t, quiretest.OnDisk(data), quiretest.With("group.initial.rebalance.delay.ms", "0"), quiretest.With("admin.listener", "127.0.0.1:0"))
	address := node.Addr()
	testdata, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *updateScripts,
		Setup: func(env *testscript.Env) error {
			env.Vars = append(env.Vars, "DATA="+data, "ADMIN=http://"+node.AdminAddr(), "NODE="+address, "TESTDATA="+testdata)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"tool":   func(ts *testscript.TestScript, _ bool, args []string) { runScripted(ts, address, args, false) },
			"sorted": func(ts *testscript.TestScript, _ bool, args []string) { runScripted(ts, address, args, true) },
		},
	})
}

func runScripted(ts *testscript.TestScript, address string, args []string, sorted bool) {
	var stdout, stderr bytes.Buffer
	var stdin string
	if n := len(args) - 1; strings.HasPrefix(args[n], "<./") {
		stdin, args = ts.ReadFile(args[n][len("<./"):]), args[:n]
	}
	for i, arg := range args {
		if strings.HasPrefix(arg, "./") {
			args[i] = ts.MkAbs(arg)
			writeAddress(ts, args[i], address)
		}
	}
	code := tools.Main(append([]string{"quire"}, args...), strings.NewReader(stdin), &stdout, &stderr)
	printed := stdout.String()
	if sorted {
		printed = strings.Join(slices.Sorted(strings.Lines(printed)), "")
	}
	_, port, err := net.SplitHostPort(address)
	ts.Check(err)
	var out strings.Builder
	fmt.Fprintf(&out, "= %d\n", code)
	for _, stream := range []struct {
		mark string
		text string
	}{{"> ", printed}, {"! ", stderr.String()}} {
		if !slices.Contains(args, "--help") {
			stream.text = optionTable.ReplaceAllString(stream.text, "<option table>\n")
			stream.text = usageBefore.ReplaceAllString(stream.text, "<usage>\n$3")
		}
		for line := range strings.Lines(stream.text) {
			line = strings.ReplaceAll(line, address, "NODE")
			line = strings.ReplaceAll(line, ts.Getenv("WORK"), "WORK")
			line = strings.ReplaceAll(line, ts.Getenv("DATA"), "data")
			line = strings.ReplaceAll(line, "127.0.0.1 "+port+" ", "127.0.0.1 PORT  ")
			line = scriptID.ReplaceAllStringFunc(line, func(word string) string {
				if len(word) == 22 && strings.ContainsAny(word[21:], "AQgw") {
					return "<ID>"
				}
				return word
			})
			for _, m := range scriptMasks {
				line = m.pattern.ReplaceAllString(line, m.text)
			}
			out.WriteString(strings.TrimRight(stream.mark+strings.TrimRight(line, "\n"), " ") + "\n")
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs("out"), []byte(out.String()), 0o644))
}

// writeAddress puts what the scripts call $NODE and $WORK into a file that a tool is about to read.
func writeAddress(ts *testscript.TestScript, name, address string) {
	text, err := os.ReadFile(name)
	if err != nil {
		return // the tool is to say so
	}
	filled := strings.NewReplacer("$NODE", address, "$WORK", ts.Getenv("WORK")).Replace(string(text))
	ts.Check(os.WriteFile(name, []byte(filled), 0o644))
}
