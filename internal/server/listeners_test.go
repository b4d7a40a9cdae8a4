package server

import (
	"cmp"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/quire-log/quire/internal/vfs"
)

func TestParseListeners(t *testing.T) {
	for _, q := range []struct {
		listeners, advertised, protocols string
		want                             string // name host:port>advertised
	}{
		{"PLAINTEXT://127.0.0.1:9092", "", "", "PLAINTEXT 127.0.0.1:9092>127.0.0.1:9092"},
		{"PLAINTEXT://:9092", "", "", "PLAINTEXT :9092>dialled"},
		{"PLAINTEXT://0.0.0.0:9092", "", "", "PLAINTEXT 0.0.0.0:9092>dialled"},
		{"PLAINTEXT://[::]:9092", "PLAINTEXT://[::1]:9093", "", "PLAINTEXT [::]:9092>[::1]:9093"},
		{"plaintext://h:1", "Plaintext://k:2", "", "PLAINTEXT h:1>k:2"},
		{"IN://h:1, OUT://h:2", "OUT://k:2", "IN:PLAINTEXT,OUT:PLAINTEXT", "IN h:1>dialled OUT h:2>k:2"},
		{"PLAINTEXT://h:1,CONTROLLER://h:2", "PLAINTEXT://k:1", "", "PLAINTEXT h:1>k:1 CONTROLLER h:2>h:2 (controller)"},
		{"PLAINTEXT://h:1,CONTROLLER://:2", "PLAINTEXT://k:1", "", "PLAINTEXT h:1>k:1 CONTROLLER :2>dialled (controller)"},
	} {
		all, err := parseListeners(map[string]string{
			"listeners": q.listeners, "advertised.listeners": q.advertised, "controller.listener.names": "CONTROLLER",
			"listener.security.protocol.map": cmp.Or(q.protocols, "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"),
		})
		if err != nil {
			t.Errorf("%s: %v", q.listeners, err)
			continue
		}
		var got []string
		for _, l := range all {
			advertised := "dialled"
			if l.advertisedHost != "" {
				advertised = net.JoinHostPort(l.advertisedHost, fmt.Sprint(l.advertisedPort))
			}
			s := fmt.Sprintf("%s %s>%s", l.name, l.address(), advertised)
			if l.controller {
				s += " (controller)"
			}
			got = append(got, s)
		}
		if g := strings.Join(got, " "); g != q.want {
			t.Errorf("%s: %s, want %s", q.listeners, g, q.want)
		}
	}
}

// What a single node cannot be is refused before anything is touched, and says why.
func TestRefusedStarts(t *testing.T) {
	for _, q := range []struct{ key, value, want string }{
		{"process.roles", "broker", "broker and controller"},
		{"process.roles", "controller", "broker and controller"},
		{"controller.quorum.voters", "1@a:1,2@b:1,3@c:1", "cluster of one node"},
		{"controller.quorum.voters", "2@a:1", "set of voters"},
		{"num.partitions", "0", "num.partitions"},
		{"listeners", "SSL://127.0.0.1:0", "SSL"},
	} {
		fs := vfs.NewMem()
		properties := map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0", "admin.listener": "", "node.id": "1", q.key: q.value}
		n, err := Start(t.Context(), Options{FS: fs, Properties: properties})
		if err == nil {
			n.Abort()
			t.Errorf("%s=%s: started", q.key, q.value)
			continue
		}
		if !strings.Contains(err.Error(), q.want) {
			t.Errorf("%s=%s: %v, want %q", q.key, q.value, err, q.want)
		}
		if entries, err := fs.ReadDir("data/__cluster_metadata-0"); err == nil {
			t.Errorf("%s=%s: left %d files", q.key, q.value, len(entries))
		}
	}
}

// A taken port is found out before the data directory is touched.
func TestTakenPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	fs := vfs.NewMem()
	_, err = Start(t.Context(), Options{FS: fs, Properties: map[string]string{"listeners": "PLAINTEXT://" + l.Addr().String(), "admin.listener": ""}})
	if err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("start on a taken port: %v", err)
	}
	if _, err := fs.Stat("data"); err == nil {
		t.Error("the data directory was touched")
	}
}

// A directory with partitions and without meta.properties is not formatted over.
func TestForeignDirectory(t *testing.T) {
	fs := vfs.NewMem()
	if err := fs.MkdirAll("data/orders-0", 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), Options{FS: fs, Properties: map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0", "admin.listener": ""}})
	if err == nil || !strings.Contains(err.Error(), "meta.properties") {
		t.Errorf("start on a directory without meta.properties: %v", err)
	}
}
