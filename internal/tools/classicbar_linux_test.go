package tools

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quire-log/quire/quiretest"
)

// openTerminal makes a terminal: what a program writes to it is read from screen.
func openTerminal(t *testing.T) (screen, terminal *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		t.Skipf("needs a pseudo-terminal: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	screen = os.NewFile(uintptr(fd), "ptmx")
	t.Cleanup(func() { screen.Close() })
	err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); errors.Is(err, fs.ErrNotExist) { // no devpts is mounted
		t.Skipf("needs a pseudo-terminal: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 100}); err != nil {
		t.Fatal(err)
	}
	return screen, terminal
}

// On a terminal an import shows how far it is, and takes the bar away at its end; in a pipe there is nothing of it.
func TestImportBar(t *testing.T) {
	address := quiretest.Start(t).Addr()
	dir := filepath.Join(t.TempDir(), "my_topic_0")
	makeClassic(t, dir, 30)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := func(topic string, stderr io.Writer) (*exec.Cmd, *bytes.Buffer) {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), importArgs+"="+strings.Join([]string{"import", dir, "--topic", topic, "--bootstrap-server", address}, "\n"))
		var stdout bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, stderr
		return cmd, &stdout
	}
	screen, terminal := openTerminal(t)
	cmd, stdout := command("seen", terminal)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	terminal.Close()
	shown, err := io.ReadAll(screen) // until the last who has the terminal is gone
	if err != nil && !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, shown)
	}
	t.Logf("%q", shown)
	for _, s := range []string{"my_topic_0 ", " / ", " KiB", "[", "%"} {
		if !bytes.Contains(shown, []byte(s)) {
			t.Errorf("the terminal does not show %q: %q", s, shown)
		}
	}
	if !strings.Contains(stdout.String(), "messages into seen, partition 0") || strings.ContainsAny(stdout.String(), "\x1b%") {
		t.Errorf("standard output: %q", stdout.String())
	}

	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	cmd, stdout = command("unseen", write)
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	if text, err := io.ReadAll(read); err != nil || len(text) > 0 || !strings.Contains(stdout.String(), "messages into unseen, partition 0") {
		t.Errorf("in a pipe: %q, %v; standard output %q", text, err, stdout.String())
	}
}
