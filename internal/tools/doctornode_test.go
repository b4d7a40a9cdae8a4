package tools_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/quire-log/quire/internal/tools"
	"github.com/quire-log/quire/quiretest"
)

// The doctor asks a running node as its clients would.
func TestDoctorOfNode(t *testing.T) {
	address := quiretest.Start(t).Addr()
	tool(t, address, "", "kafka-topics", "--create", "--topic", "large", "--config", "max.message.bytes=5000000")
	said := own(t, "doctor", "--bootstrap-server", address)
	for _, want := range []string{"broker 1 tells clients to come to " + address + ", which answers from here", "1 partition of 1 topic, each with a leader", "topic large takes messages of 5000000 bytes, more than followers fetch at once"} {
		if !strings.Contains(said, want) {
			t.Errorf("not said: %s\n%s", want, said)
		}
	}
}

// own runs one of quire's own commands and returns what it printed on standard output.
func own(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := tools.Main(append([]string{"quire"}, args...), strings.NewReader(""), &stdout, &stderr); code != 0 {
		t.Fatalf("%s: code %d\n%s%s", strings.Join(args, " "), code, stdout.String(), stderr.String())
	}
	return stdout.String()
}
