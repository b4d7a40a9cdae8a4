package tools

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/quire-log/quire/internal/config"
)

// A nodeProcess is a process that runs a node.
type nodeProcess struct {
	pid        int
	dir        string // where relative names begin
	properties string // the file, "" without one
	overrides  map[string]string
}

const serverStopUsage = `Usage: kafka-server-stop [--process-role ROLES | --node-id ID]

  --process-role ROLES  stop the nodes whose process.roles these are
  --node-id ID          stop the node of this id
  --help                show this and stop nothing

Sends SIGTERM, or $SIGNAL, to the nodes that run on this machine.
`

// kafkaServerStop is kafka-server-stop: it sends SIGTERM (or $SIGNAL) to the nodes of this machine, or those of a role or id.
// Kafka's script passes over what it does not know, and stops everything then. Whoever asks for help, or mistypes a flag, does not want that.
func kafkaServerStop(env Env, args []string) int {
	for i := 0; i < len(args); i++ {
		name, _, joined := strings.Cut(args[i], "=")
		switch {
		case name == "--help" || name == "-h":
			fmt.Fprint(env.Stdout, serverStopUsage)
			return 0
		case name != "--process-role" && name != "--node-id" || !joined && i+1 == len(args):
			fmt.Fprintf(env.Stderr, "kafka-server-stop: %s is not understood\n%s", args[i], serverStopUsage)
			return 1
		case !joined:
			i++
		}
	}
	return stopNodes(env, args, runningNodes, syscall.Kill)
}

// stopNodes signals those of the running nodes that were asked for.
func stopNodes(env Env, args []string, running func() ([]nodeProcess, error), kill func(int, syscall.Signal) error) int {
	name := os.Getenv("SIGNAL")
	if name == "" {
		name = "TERM"
	}
	sig := unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(name), "SIG"))
	if sig == 0 {
		fmt.Fprintf(env.Stderr, "kafka-server-stop: SIGNAL=%s is no signal\n", name)
		return 1
	}
	nodes, err := running()
	if err != nil {
		fmt.Fprintln(env.Stderr, "kafka-server-stop:", err)
		return 1
	}
	role, id := scriptOption(args, "--process-role"), scriptOption(args, "--node-id")
	nodes = slices.DeleteFunc(nodes, func(n nodeProcess) bool { return !n.is(role, id) })
	if len(nodes) == 0 {
		fmt.Fprintln(env.Stdout, "No kafka server to stop")
		return 1
	}
	code := 0
	for _, n := range nodes {
		if err := kill(n.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			fmt.Fprintf(env.Stderr, "kafka-server-stop: process %d: %v\n", n.pid, err)
			code = 1
		}
	}
	return code
}

// scriptOption is the value of --name VALUE or --name=VALUE, "" without.
func scriptOption(args []string, name string) string {
	for i, word := range args {
		if value, ok := strings.CutPrefix(word, name+"="); ok {
			return value
		}
		if word == name && i+1 < len(args) {
			return args[i+1]
		}
	}
	return ""
}

// is tells whether a node is one that was asked for. With an id the role does not matter.
func (n nodeProcess) is(role, id string) bool {
	if role == "" && id == "" {
		return true
	}
	static := map[string]string{}
	if n.properties != "" {
		name := n.properties
		if !filepath.IsAbs(name) {
			name = filepath.Join(n.dir, name)
		}
		f, err := os.Open(name)
		if err != nil {
			return false
		}
		defer f.Close()
		if static, err = config.ReadProperties(f); err != nil {
			return false
		}
	}
	for key, value := range n.overrides {
		static[key] = value
	}
	full := config.Complete(static)
	if id != "" {
		own := full["node.id"]
		if own == "" {
			own = "1" // what a new directory is given
		}
		return strings.TrimSpace(own) == id
	}
	var wanted, has []string
	for _, list := range []struct {
		text string
		to   *[]string
	}{{role, &wanted}, {full["process.roles"], &has}} {
		for r := range strings.SplitSeq(list.text, ",") {
			*list.to = append(*list.to, strings.TrimSpace(r))
		}
		slices.Sort(*list.to)
	}
	return slices.Equal(wanted, has)
}

// nodeOf reads a process's command line; ok is false if it runs no node.
func nodeOf(argv []string) (n nodeProcess, ok bool) {
	if len(argv) == 0 {
		return n, false
	}
	words := argv[1:]
	if name := strings.TrimSuffix(filepath.Base(argv[0]), ".sh"); name != "kafka-server-start" {
		if len(words) == 0 || name != "quire" || words[0] != "serve" && strings.TrimSuffix(words[0], ".sh") != "kafka-server-start" {
			return n, false
		}
		words = words[1:]
	}
	n.overrides = map[string]string{}
	for i := 0; i < len(words); i++ {
		pair, given := strings.CutPrefix(words[i], "--override=")
		switch {
		case words[i] == "--override" && i+1 < len(words):
			i++
			pair, given = words[i], true
		case words[i] == "-daemon": // which starts another process, and ends
			return n, false
		case !looksLikeOption(words[i]) && n.properties == "":
			n.properties = words[i]
		}
		if key, value, ok := strings.Cut(pair, "="); given && ok {
			n.overrides[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return n, true
}

// runningNodes finds the nodes that run on this machine: by /proc where there is one, by ps elsewhere.
func runningNodes() ([]nodeProcess, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil || len(entries) == 0 {
		return nodesByPS()
	}
	var nodes []nodeProcess
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil {
			continue // it has ended, or is another's
		}
		var argv []string
		for word := range bytes.SplitSeq(bytes.TrimSuffix(line, []byte{0}), []byte{0}) {
			argv = append(argv, string(word))
		}
		if n, ok := nodeOf(argv); ok {
			n.pid = pid
			n.dir, _ = os.Readlink(filepath.Join("/proc", e.Name(), "cwd"))
			nodes = append(nodes, n)
		}
	}
	return nodes, nil
}

func nodesByPS() ([]nodeProcess, error) {
	out, err := exec.Command("ps", "-axww", "-o", "pid=,args=").Output()
	if err != nil {
		return nil, fmt.Errorf("ps: %w", err)
	}
	var nodes []nodeProcess
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		pid, err := strconv.Atoi(words[0])
		if n, ok := nodeOf(words[1:]); ok && err == nil && pid != os.Getpid() {
			n.pid = pid
			nodes = append(nodes, n)
		}
	}
	return nodes, nil
}
