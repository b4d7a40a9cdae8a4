package tools

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestNodeOf(t *testing.T) {
	for _, c := range []struct {
		line, properties, overrides string
		ok                          bool
	}{
		{"/usr/bin/quire serve", "", "", true},
		{"quire serve server.properties --override node.id=3", "server.properties", "node.id=3", true},
		{"/opt/bin/kafka-server-start.sh server.properties --override=node.id=3", "server.properties", "node.id=3", true},
		{"quire kafka-server-start config/s.properties", "config/s.properties", "", true},
		{"kafka-server-start -daemon server.properties", "", "", false},
		{"quire dev", "", "", false},
		{"quire kafka-topics --list", "", "", false},
		{"vi serve", "", "", false},
		{"", "", "", false},
	} {
		n, ok := nodeOf(strings.Fields(c.line))
		want := map[string]string{}
		if key, value, given := strings.Cut(c.overrides, "="); given {
			want[key] = value
		}
		if ok != c.ok || ok && (n.properties != c.properties || !maps.Equal(n.overrides, want)) {
			t.Errorf("%s: %+v, %t", c.line, n, ok)
		}
	}
}

func TestNodeAsked(t *testing.T) {
	name := propertiesIn(t, "node.id=7\nprocess.roles=controller,broker\n")
	n := nodeProcess{dir: filepath.Dir(name), properties: filepath.Base(name)}
	for _, c := range []struct {
		role, id string
		want     bool
	}{{"", "", true}, {"", "7", true}, {"", "1", false}, {"broker,controller", "", true}, {"broker", "", false}, {"broker", "7", true}} {
		if got := n.is(c.role, c.id); got != c.want {
			t.Errorf("role %q, id %q: %t", c.role, c.id, got)
		}
	}
	n.overrides = map[string]string{"node.id": "8"}
	if !n.is("", "8") || n.is("", "7") {
		t.Error("an override does not count")
	}
	if (nodeProcess{properties: name + "x"}).is("", "7") {
		t.Error("a node whose file is gone is taken for one that was asked for")
	}
	if !(nodeProcess{}).is("", "1") {
		t.Error("a node without a file is not number 1")
	}
}

func TestServerStartCommandLine(t *testing.T) {
	name := propertiesIn(t, "node.id=7\n")
	table := "Option               Description                                         \n------               -----------                                         \n" +
		"--override <String>  Optional property that should override values set in\n                       server.properties file (e.g. Key=value)           \n" +
		"--version            Print version information and exit.                 \n"
	const use = "USAGE: kafka-server-start.sh [-daemon] server.properties [--override property=value]*\n"
	for _, c := range []struct {
		args           []string
		code           int
		stdout, stderr string // stderr without the head of a log line
	}{
		{nil, 1, use, ""},
		{[]string{"--help"}, 1, "", use + table},
		{[]string{"--version"}, 0, "4.3.1\n", ""},
		{[]string{name, "--version"}, 0, "4.3.1\n", ""},
		{[]string{name, "extra"}, 1, "", "Found non argument parameters: extra\n" + table},
		{[]string{name, "--override"}, 1, "", "ERROR Exiting Kafka due to fatal exception (kafka.Kafka$)\njoptsimple.OptionMissingRequiredArgumentException: Option override requires an argument\n"},
		{[]string{name, "--frob"}, 1, "", "ERROR Exiting Kafka due to fatal exception (kafka.Kafka$)\njoptsimple.UnrecognizedOptionException: frob is not a recognized option\n"},
		{[]string{"none.properties"}, 1, "", "ERROR Exiting Kafka due to fatal exception (kafka.Kafka$)\njava.nio.file.NoSuchFileException: none.properties\n"},
	} {
		var out, errs bytes.Buffer
		code := kafkaServerStart(Env{Stdout: &out, Stderr: &errs}, c.args)
		stderr := errs.String()
		if strings.HasPrefix(stderr, "[") {
			_, stderr, _ = strings.Cut(stderr, "] ")
		}
		if code != c.code || out.String() != c.stdout || stderr != c.stderr {
			t.Errorf("%v: code %d\n%s%s", c.args, code, out.String(), stderr)
		}
	}
}

// Only what was asked for is signalled; and nothing is when the command line is not understood.
func TestServerStop(t *testing.T) {
	var out bytes.Buffer
	env := Env{Stdout: &out, Stderr: &out}
	for _, args := range [][]string{{"--help"}, {"-h"}} {
		if code := kafkaServerStop(env, args); code != 0 {
			t.Errorf("%v: code %d", args, code)
		}
	}
	for _, args := range [][]string{{"--frob"}, {"--node-id"}, {"7"}} {
		if code := kafkaServerStop(env, args); code != 1 {
			t.Errorf("%v: code %d", args, code)
		}
	}
	name := propertiesIn(t, "node.id=7\n")
	running := func() ([]nodeProcess, error) {
		return []nodeProcess{{pid: 11}, {pid: 12, properties: name}}, nil
	}
	for _, c := range []struct {
		args []string
		want string
		code int
	}{{nil, "11 terminated 12 terminated ", 0}, {[]string{"--node-id", "7"}, "12 terminated ", 0}, {[]string{"--node-id=9"}, "", 1}, {[]string{"--process-role=broker"}, "", 1}} {
		var killed strings.Builder
		code := stopNodes(env, c.args, running, func(pid int, sig syscall.Signal) error {
			fmt.Fprintf(&killed, "%d %s ", pid, sig)
			return nil
		})
		if killed.String() != c.want || code != c.code {
			t.Errorf("%v: signalled %q, code %d", c.args, killed.String(), code)
		}
	}
}
