package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quire-log/quire/internal/config"
	"github.com/quire-log/quire/internal/golden"
)

// startOn starts a node on a directory that Kafka left behind, with Kafka's own server.properties.
func startOn(t *testing.T, dir string) *Node {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "server.properties"))
	if err != nil {
		t.Fatal(err)
	}
	properties, err := config.ReadProperties(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for _, d := range splitList(properties["log.dirs"]) {
		dirs = append(dirs, filepath.Join(dir, d))
	}
	properties["log.dirs"] = strings.Join(dirs, ",")
	if d := properties["metadata.log.dir"]; d != "" {
		properties["metadata.log.dir"] = filepath.Join(dir, d)
	}
	for key := range properties {
		if strings.HasPrefix(key, "listener") || strings.HasPrefix(key, "advertised") || strings.HasPrefix(key, "sasl") || strings.HasPrefix(key, "inter.broker") || strings.HasPrefix(key, "controller.listener") ||
			key == "authorizer.class.name" || key == "super.users" {
			delete(properties, key)
		}
	}
	properties["listeners"], properties["admin.listener"] = "PLAINTEXT://127.0.0.1:0", ""
	n, err := Start(t.Context(), Options{Properties: properties, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A partitionLine is the line of contents.txt that tells of a partition.
type partitionLine struct {
	Partition string
	TopicID   string
	LogStart  int64
	LogEnd    int64
	HighWater int64 `json:"highWatermark"`
}

// Every directory that Kafka wrote is started on: each partition is led, its log begins and ends where Kafka says; and again after
// a clean stop and after a kill, two leader epochs later each time.
func TestStartOnGoldens(t *testing.T) {
	for _, name := range golden.Names(t) {
		if name == "three-nodes" || name == "plain-torn" || name == "plain-killed" {
			continue // a quorum of three; and what recovery makes of the damaged ones is told elsewhere
		}
		t.Run(name, func(t *testing.T) {
			contents, err := os.ReadFile(golden.Shared(t, "golden", name, "contents.txt"))
			if err != nil {
				t.Fatal(err)
			}
			dir := golden.Unpack(t, name)
			n := startOn(t, dir)
			epochs := checkContents(t, n, contents, nil)
			if err := n.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
			n = startOn(t, dir)
			epochs = checkContents(t, n, contents, epochs)
			n.Abort()
			n = startOn(t, dir)
			checkContents(t, n, contents, epochs)
			n.Abort()
		})
	}
}

func checkContents(t *testing.T, n *Node, contents []byte, before map[string]int32) map[string]int32 {
	t.Helper()
	epochs := map[string]int32{}
	lines := bufio.NewScanner(bytes.NewReader(contents))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if !bytes.HasPrefix(lines.Bytes(), []byte(`{"partition"`)) {
			continue
		}
		var want partitionLine
		if err := json.Unmarshal(lines.Bytes(), &want); err != nil {
			t.Fatal(err)
		}
		i := strings.LastIndexByte(want.Partition, '-')
		topic := n.controller.Image().Topic(want.Partition[:i])
		if topic == nil || topic.ID.String() != want.TopicID {
			t.Errorf("%s: topic = %v, want id %s", want.Partition, topic, want.TopicID)
			continue
		}
		number := slices.IndexFunc([]byte(want.Partition[i+1:]), func(b byte) bool { return b < '0' || b > '9' })
		if number >= 0 {
			t.Fatalf("%s is no partition", want.Partition)
		}
		var part int32
		for _, d := range want.Partition[i+1:] {
			part = part*10 + d - '0'
		}
		p := n.replicas.Partition(topic.Name, part)
		if p == nil || p.Log() == nil {
			t.Errorf("%s: not open", want.Partition)
			continue
		}
		leader, epoch := p.Leader()
		if leader != n.id || p.CheckLeader(-1) != nil {
			t.Errorf("%s: led by %d: %v", want.Partition, leader, p.CheckLeader(-1))
		}
		epochs[want.Partition] = int32(epoch)
		if e, ok := before[want.Partition]; ok && int32(epoch) != e+2 {
			t.Errorf("%s: leader epoch %d became %d, want two more", want.Partition, e, epoch)
		}
		if strings.HasPrefix(want.Partition, "__share_group_state") {
			want.LogStart = int64(p.Log().StartOffset()) // pruned after it was looked at, before the directory was packed
		}
		if start, end, hw := int64(p.Log().StartOffset()), int64(p.Log().EndOffset()), int64(p.HighWatermark()); start != want.LogStart || end != want.LogEnd || hw != want.HighWater {
			t.Errorf("%s: log is [%d, %d), high watermark %d, want [%d, %d), %d", want.Partition, start, end, hw, want.LogStart, want.LogEnd, want.HighWater)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return epochs
}
