package tools

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/quire-log/quire/internal/config"
	"github.com/quire-log/quire/internal/vfs"
)

func newDoctor() (*doctor, *bytes.Buffer) {
	out := new(bytes.Buffer)
	return &doctor{env: Env{Stdout: out, Stderr: out}, timeout: time.Minute}, out
}

func TestDoctorSizes(t *testing.T) {
	usual, err := clientConfig{}.sizes("the client")
	if err != nil {
		t.Fatal(err)
	}
	defaults := brokerSizesOf(config.Layers{})
	for _, c := range []struct {
		name               string
		change             func(*brokerSizes, *clientSizes)
		topics             []topicSizes
		problems, warnings int64
		says               string
	}{
		{"defaults", func(*brokerSizes, *clientSizes) {}, nil, 0, 0, "messages of up to 1.0 MiB pass on all sides"},
		{"producer above broker", func(_ *brokerSizes, c *clientSizes) { c.requestMax = 2 << 20 }, nil, 1, 0, "max.request.size=2097152 bytes, and the broker refuses those above message.max.bytes=1048588"},
		{"producer above a topic", func(*brokerSizes, *clientSizes) {}, []topicSizes{{"small", 1000, 1 << 30}}, 0, 1, "max.message.bytes of topic small=1000"},
		{"topic above followers", func(*brokerSizes, *clientSizes) {}, []topicSizes{{"large", 5 << 20, 1 << 30}}, 0, 1, "replica.fetch.max.bytes=1048576"},
		{"topic above segment", func(*brokerSizes, *clientSizes) {}, []topicSizes{{"odd", 900_000, 800_000}}, 1, 1, "a segment holds 800000"},
		{"broker above request", func(b *brokerSizes, _ *clientSizes) { b.requestMax = 1 << 20 }, nil, 1, 0, "socket.request.max.bytes=1048576"},
		{"producer above its buffer", func(_ *brokerSizes, c *clientSizes) { c.bufferMax = 1000 }, nil, 1, 0, "does not fit buffer.memory=1000"},
		{"batches above broker", func(_ *brokerSizes, c *clientSizes) { c.batchMax = 8 << 20 }, nil, 0, 1, "refused, split and sent again"},
	} {
		d, out := newDoctor()
		b, client := defaults, usual
		c.change(&b, &client)
		d.sizes(b, c.topics, []clientSizes{client})
		if d.problems != c.problems || d.warnings != c.warnings || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: %d problems, %d warnings:\n%s", c.name, d.problems, d.warnings, out)
		}
	}
}

func TestDoctorClientSizes(t *testing.T) {
	if _, err := (clientConfig{"max.request.size": "many"}).sizes("producer.properties"); err == nil || !strings.Contains(err.Error(), "producer.properties: Invalid value many for configuration max.request.size") {
		t.Errorf("the error is %v", err)
	}
}

// A port that is taken, one that is free and led to, and an address that leads nowhere.
func TestDoctorPorts(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	static := func(listeners, advertised string) map[string]string {
		return config.Complete(map[string]string{"listeners": listeners, "advertised.listeners": advertised})
	}
	d, out := newDoctor()
	d.ports(static("PLAINTEXT://"+taken.Addr().String(), "PLAINTEXT://"+taken.Addr().String()), false)
	if !strings.Contains(out.String(), "PROBLEM  port       "+taken.Addr().String()+" of listener PLAINTEXT is taken") {
		t.Errorf("a port that is taken:\n%s", out)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer free.Close()
	d, out = newDoctor()
	a := config.ListenerAddress{Name: "PLAINTEXT", Host: "127.0.0.1", Port: uint16(free.Addr().(*net.TCPAddr).Port), Protocol: "PLAINTEXT"}
	d.advertised(a, nil, free)
	if d.problems != 0 || !strings.Contains(out.String(), "leads to it from here") || !strings.Contains(out.String(), "means the client's own machine elsewhere") {
		t.Errorf("an address that leads here:\n%s", out)
	}
	// Another machine's listener is not ours: nobody comes to ours, which gives up at once when it is closed.
	d, out = newDoctor()
	free.Close()
	other := a
	other.Port = uint16(taken.Addr().(*net.TCPAddr).Port)
	d.advertised(a, []config.ListenerAddress{other}, free)
	if d.problems != 1 || !strings.Contains(out.String(), "not this machine's listener") {
		t.Errorf("an address that leads elsewhere:\n%s", out)
	}
}

func TestDoctorDirectories(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a": "version=1\nnode.id=1\ncluster.id=one\ndirectory.id=J8kMQPNyR8qk7bxZVqdXfA\n", "b": "version=1\nnode.id=1\ncluster.id=two\ndirectory.id=K8kMQPNyR8qk7bxZVqdXfA\n"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "meta.properties"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := vfs.OS().Lock(filepath.Join(dir, "a", ".lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	d, out := newDoctor()
	running := d.directories(config.Layers{Static: map[string]string{"log.dirs": strings.Join([]string{dir + "/a", dir + "/b", dir + "/new", file}, ","), "node.id": "1"}})
	said := strings.ReplaceAll(out.String(), dir, "DIR")
	for _, want := range []string{"DIR/a: of node 1, cluster one, in use by a running node", "DIR/b is of cluster two, DIR/a of one", "DIR/new: new: it is formatted at the first start", "DIR/file: open DIR/file: not a directory"} {
		if !strings.Contains(said, want) {
			t.Errorf("not said: %s", want)
		}
	}
	if !running || d.problems != 2 {
		t.Errorf("running %t, %d problems:\n%s", running, d.problems, said)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*", ".quire-doctor-*")); left != nil {
		t.Errorf("files were left behind: %v", left)
	}
}

func TestDoctorCommandLine(t *testing.T) {
	for _, args := range [][]string{{"a", "b"}, {"--frob"}, {"--timeout", "0s"}} {
		d, out := newDoctor()
		if code := quireDoctor(d.env, args); code != exitMisuse || !strings.Contains(out.String(), "Example:") {
			t.Errorf("%v: code %d\n%s", args, code, out)
		}
	}
	const address = "127.0.0.1:1" // nobody listens there
	d, out := newDoctor()
	if code := quireDoctor(d.env, []string{"--bootstrap-server", address}); code != exitBad || !regexp.MustCompile(fmt.Sprintf(`(?m)^PROBLEM  broker     %s: `, address)).MatchString(out.String()) {
		t.Errorf("code %d\n%s", code, out)
	}
}
