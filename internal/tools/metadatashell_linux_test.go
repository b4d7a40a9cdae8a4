package tools

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// shellAtTerminal types keys to kafka-metadata-shell at a terminal of 100 columns, and returns its exit code and the lines that the
// screen got.
func shellAtTerminal(t *testing.T, keys string) (code int, lines []string) {
	t.Helper()
	screen, terminal := openTerminal(t)
	var shown bytes.Buffer
	read, typed := make(chan struct{}), false
	go func() {
		defer close(read)
		var buf [4096]byte
		for {
			n, err := screen.Read(buf[:])
			shown.Write(buf[:n])
			if err != nil { // nobody has the terminal open any more
				return
			}
			// What is typed before the prompt is there would go through the terminal's own editing.
			if !typed && bytes.Contains(shown.Bytes(), []byte(shellPrompt)) {
				typed = true
				_, _ = screen.WriteString(keys)
			}
		}
	}()
	env := Env{Stdin: terminal, Stdout: terminal, Stderr: io.Discard, Terminal: true}
	code = kafkaMetadataShell(env, []string{"-s", shellSnapshot})
	terminal.Close()
	<-read
	for line := range strings.Lines(shown.String()) {
		lines = append(lines, strings.TrimRight(line, "\r\n"))
	}
	return code, lines
}

// At a terminal, keys complete words and list what a word may become; Control-C empties the line; ls has columns.
func TestMetadataShellAtTerminal(t *testing.T) {
	code, lines := shellAtTerminal(t, "cat loc\tver\t\rls /image/topics/by\t\x03ls /im\t\rhistory\rexit\r")
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	text := strings.Join(lines, "\n")
	for _, want := range []string{
		"[ Kafka Metadata Shell ]\n", "\n4.3.1\n", "/image/topics/byId/  /image/topics/byName/\n", "\n^C\n",
		"\nacls          cluster  delegationToken  producerIds  scram\nclientQuotas  configs  features         provenance   topics\n",
		"    0  cat local/version\n    1  ls /image/\n    2  history\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the screen has no %q:\n%s", want, text)
		}
	}
	if code, lines := shellAtTerminal(t, "\x04"); code != 0 {
		t.Errorf("Control-D: exit code %d, screen %q", code, lines)
	}
}
