package server

import (
	"context"
	"testing"

	"github.com/quire-log/quire/internal/vfs"
)

// A power cut at any file operation of the first start, or of a stop, leaves directories that the next start opens: formatting
// is fsynced step by step, and nothing that matters rests on a file that may be missing.
func TestCrashesOfFirstStart(t *testing.T) {
	properties := map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0", "admin.listener": "", "log.dirs": "d/a,d/b"}
	start := func(fs vfs.FS) (*Node, error) {
		return Start(t.Context(), Options{FS: fs, Properties: properties})
	}
	for seed := 0; ; seed++ {
		fs := vfs.NewMem()
		fs.CrashAfter(seed)
		n, err := start(fs)
		survived := err == nil
		if survived {
			createTopicsIfAlive(t, n)
			n.Close(context.Background())
		}
		again := fs.AfterCrash(uint64(seed))
		n, err = start(again)
		if err != nil {
			t.Fatalf("crash after %d operations: %v", seed, err)
		}
		for topic := range n.controller.Image().Topics() {
			for i := range topic.Partitions {
				if p := n.replicas.Partition(topic.Name, int32(i)); p == nil || p.CheckLeader(-1) != nil {
					t.Fatalf("crash after %d operations: %s-%d is not led", seed, topic.Name, i)
				}
			}
		}
		cluster := n.clusterID
		n.Abort()
		if n, err = start(again); err != nil {
			t.Fatalf("crash after %d operations, second start: %v", seed, err)
		}
		if n.clusterID != cluster {
			t.Fatalf("crash after %d operations: cluster id %s became %s", seed, cluster, n.clusterID)
		}
		n.Abort()
		if survived && seed > 400 {
			return
		}
		if seed > 2000 {
			t.Fatal("a start never got through")
		}
	}
}

// createTopicsIfAlive makes a topic, on a file system that may crash meanwhile.
func createTopicsIfAlive(t *testing.T, n *Node) {
	t.Helper()
	n.createMissing(t.Context(), []string{"t"})
}
