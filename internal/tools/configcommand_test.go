package tools

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func runConfig(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = quireConfig(Env{Stdout: &out, Stderr: &errs}, args)
	return code, out.String(), errs.String()
}

func propertiesIn(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "server.properties")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestConfigCheck(t *testing.T) {
	name := propertiesIn(t, "# a comment\nnode.id=1\nlog.retenton.hours=24\nnum.io.threads=zero\nlog.segment.bytes = 1\n")
	code, stdout, _ := runConfig("check", name)
	want := `FILE:5: error: log.segment.bytes=1: Value must be at least 1048576
FILE:4: error: num.io.threads=zero: Not a number of type INT
FILE:3: warning: log.retenton.hours: unknown; did you mean log.retention.hours?
FILE: no node starts with this file: 2 errors
`
	if got := strings.ReplaceAll(stdout, name, "FILE"); code != exitBad || got != want {
		t.Errorf("code %d, printed\n%s", code, got)
	}
	// What breaks a rule over several keys.
	name = propertiesIn(t, "listeners=PLAINTEXT://:9092\nadvertised.listeners=PLAINTEXT://0.0.0.0:9092\n")
	code, stdout, _ = runConfig("check", name)
	if want := name + ":2: error: advertised.listeners=PLAINTEXT://0.0.0.0:9092: advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address.\n"; code != exitBad || !strings.HasPrefix(stdout, want) {
		t.Errorf("code %d, printed\n%s", code, stdout)
	}
	// What a start finds out of logins.
	const sasl = "listeners=SASL_PLAINTEXT://:9092\nsasl.enabled.mechanisms=PLAIN\n"
	name = propertiesIn(t, sasl)
	code, stdout, _ = runConfig("check", name)
	if want := name + ": error: listener SASL_PLAINTEXT: PLAIN is among sasl.enabled.mechanisms, but listener.name.sasl_plaintext.plain.sasl.jaas.config, which names its users, is not set; it can be "; code != exitBad || !strings.HasPrefix(stdout, want) {
		t.Errorf("code %d, printed\n%s", code, stdout)
	}
	name = propertiesIn(t, sasl+`listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";`+"\n")
	if code, stdout, _ := runConfig("check", name); code != exitGood {
		t.Errorf("code %d, printed\n%s", code, stdout)
	}
	name = propertiesIn(t, "log.retention.hours=24\n")
	if code, stdout, _ := runConfig("check", name); code != exitGood || stdout != name+": 1 setting, a node starts with this file\n" {
		t.Errorf("code %d, printed\n%s", code, stdout)
	}
}

func TestConfigShow(t *testing.T) {
	name := propertiesIn(t, "node.id=7\nlog.retention.hours=24\nssl.key.password=secret\nmy.own.key=secret\n")
	code, stdout, _ := runConfig("show", name)
	lines := strings.Split(stdout, "\n")
	for i, want := range []string{"log.retention.hours=24", "my.own.key=[hidden]", "node.id=7", "ssl.key.password=[hidden]", ""} {
		if word, _, _ := strings.Cut(lines[i], " "); word != want {
			t.Errorf("line %d: %q, want %q", i, lines[i], want)
		}
	}
	if code != exitGood || strings.Contains(stdout, "secret") {
		t.Errorf("code %d, printed\n%s", code, stdout)
	}
	_, stdout, _ = runConfig("show", "--effective", name)
	for key, source := range map[string]string{"broker.id=7": "server.properties, as node.id", "log.retention.hours=24": "server.properties", "num.partitions=1": "default",
		"log.dirs=data": "quire's own, which makes a whole node of one"} {
		found := false
		for line := range strings.Lines(stdout) {
			if rest, ok := strings.CutPrefix(line, key+" "); ok {
				found = strings.TrimSpace(rest) == source
			}
		}
		if !found {
			t.Errorf("%s is not said to be from %q:\n%s", key, source, stdout)
		}
	}
}

func TestConfigMisuse(t *testing.T) {
	name := propertiesIn(t, "")
	for _, args := range [][]string{nil, {"frob", name}, {"check"}, {"check", name, name}, {"check", "--effective", name}, {"show", "--frob"}} {
		if code, stdout, stderr := runConfig(args...); code != exitMisuse || stdout != "" || !strings.Contains(stderr, "Example:") {
			t.Errorf("%v: code %d, printed %q %q", args, code, stdout, stderr)
		}
	}
	if code, _, stderr := runConfig("check", name+"x"); code != exitBad || !strings.Contains(stderr, "no such file") {
		t.Errorf("a missing file: code %d, printed %q", code, stderr)
	}
}
