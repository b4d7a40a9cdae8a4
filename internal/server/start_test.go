package server

import (
	"errors"
	"sync"
	"testing"

	"github.com/quire-log/quire/internal/storage"
	"github.com/quire-log/quire/internal/vfs"
)

// Of nodes that are started at once on one empty directory one serves, as the node that the directory says, and the others leave it alone.
func TestStartsAtOnce(t *testing.T) {
	properties := map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0", "admin.listener": "", "log.dirs": "d/a,d/b"}
	for range 20 {
		fs := vfs.NewMem()
		var nodes [4]*Node
		var errs [len(nodes)]error
		var starts sync.WaitGroup
		for i := range nodes {
			starts.Go(func() { nodes[i], errs[i] = Start(t.Context(), Options{FS: fs, Properties: properties}) })
		}
		starts.Wait()
		var served *Node
		for i, n := range nodes {
			switch {
			case errs[i] != nil && !errors.Is(errs[i], vfs.ErrLocked):
				t.Errorf("a start failed for another reason: %v", errs[i])
			case n == nil:
			case served == nil:
				served = n
			default:
				t.Error("two nodes serve one directory")
				n.Abort()
			}
		}
		if served == nil {
			t.Fatalf("no node serves: %v", errs)
		}
		served.Abort()
		for _, dir := range []string{"d/a", "d/b"} {
			if meta, _, err := storage.Formatted(fs, dir); err != nil || meta.ClusterID != served.clusterID {
				t.Errorf("%s is of cluster %q (%v), the node that served it of %q", dir, meta.ClusterID, err, served.clusterID)
			}
		}
	}
}
