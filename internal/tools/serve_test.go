package tools

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A lockedBuffer is written by a tool while a test reads it.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// `quire serve` says where it serves and how to stop it, stops at the first signal with everything on disk, and starts again there.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "server.properties")
	text := "node.id=7\nprocess.roles=broker,controller\nlisteners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\ncontroller.listener.names=CONTROLLER\nadmin.listener=\n" +
		"listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\nlog.dirs=/nowhere\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		signals := make(chan os.Signal, 2)
		var stdout, stderr lockedBuffer
		code := make(chan int)
		go func() {
			code <- Serve(Env{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Interrupted: func() <-chan os.Signal { return signals }},
				[]string{file, "--override", "log.dirs=" + filepath.Join(dir, "data")})
		}()
		for deadline := time.Now().Add(time.Minute); !strings.Contains(stdout.String(), "stops it cleanly"); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("never ready:\n%s", stderr.String())
			}
		}
		if !regexp.MustCompile(`^Kafka clients find this node at 127\.0\.0\.1:\d+; its data is in `).MatchString(stdout.String()) {
			t.Errorf("it says\n%s", stdout.String())
		}
		signals <- syscall.SIGTERM
		if c := <-code; c != 0 {
			t.Errorf("exit code %d:\n%s", c, stderr.String())
		}
		if _, err := os.Stat(filepath.Join(dir, "data", ".kafka_cleanshutdown")); err != nil {
			t.Errorf("no clean mark: %v", err)
		}
	}
}

func TestServeCommandLine(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.properties")
	if err := os.WriteFile(bad, []byte("num.partitions=0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, q := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--help"}, 0, "Usage: quire serve"},
		{[]string{"--nonsense"}, 2, "unknown flag: --nonsense\n"},
		{[]string{"--overide", "a=b"}, 2, "unknown flag: --overide; did you mean --override?\n"},
		{[]string{"--override", "listeners=PLAINTEXT://" + taken.Addr().String(), "--override", "admin.listener="}, 1, "Something serves at that address already"},
		{[]string{"a", "b"}, 2, "one file of properties"},
		{[]string{"--override", "novalue"}, 2, "key=value"},
		{[]string{"/does/not/exist"}, 1, "no such file"},
		{[]string{bad}, 1, "num.partitions"},
		{[]string{bad}, 1, "quire config check FILE"},
	} {
		var stdout, stderr lockedBuffer
		code := Serve(Env{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr}, q.args)
		if code != q.code || !strings.Contains(stdout.String()+stderr.String(), q.want) {
			t.Errorf("serve %v: %d\n%s\nwant %d and %q", q.args, code, stderr.String(), q.code, q.want)
		}
	}
}
