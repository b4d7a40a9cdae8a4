package storage

import (
	"bytes"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quire-log/quire/internal/golden"
	"github.com/quire-log/quire/internal/vfs"
)

// A directory that Kafka stopped cleanly is opened and closed: the checkpoints, ids and marks say what they said before.
func TestManagerOnGoldens(t *testing.T) {
	// plain-torn's three-2 has no partition.metadata: LoadLogs is asked here to keep it all the same.
	for _, tt := range []struct {
		name     string
		dirs     []string
		metadata string
		clean    bool
	}{
		{"plain-clean", []string{"data"}, "data", true},
		{"jbod", []string{"data-a", "data-b"}, "data-b", true},
		{"plain-killed", []string{"data"}, "data", false},
		{"plain-torn", []string{"data"}, "data", false},
		{"old-formats", []string{"data"}, "data", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := golden.Unpack(t, tt.name)
			o := ManagerOptions{FS: vfs.OS(), NodeID: 1, MetadataDir: filepath.Join(root, tt.metadata), RecoveryThreads: 2}
			var said bytes.Buffer
			o.Log = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn}))
			before := map[string]map[TopicPartition]Offset{}
			metas := map[string]string{}
			var partitions []string
			deleted := 0
			for _, d := range tt.dirs {
				dir := filepath.Join(root, d)
				o.Dirs = append(o.Dirs, dir)
				metas[dir] = get(t, o.FS, dir+"/meta.properties")
				for _, name := range checkpointFiles {
					offsets, err := readOffsetCheckpoint(o.FS, dir+"/"+name)
					if err != nil {
						t.Fatal(err)
					}
					before[dir+"/"+name] = offsets
				}
				list, err := os.ReadDir(dir)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range list {
					switch {
					case !e.IsDir() || e.Name() == MetadataPartition.String():
					case strings.HasSuffix(e.Name(), "-delete"):
						deleted++
					default:
						partitions = append(partitions, e.Name())
					}
				}
			}
			m, err := OpenManager(o)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Abort()
			if tt.clean != (m.PreviousBrokerEpoch() >= 0) {
				t.Errorf("previous broker epoch %d", m.PreviousBrokerEpoch())
			}
			if err := m.LoadLogs(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			queued := 0
			for i, info := range m.Dirs() {
				if info.Err != nil || len(info.Failed) > 0 {
					t.Errorf("%s: %v, %v", info.Path, info.Err, info.Failed)
				}
				queued += len(m.dirs[i].found.deleted)
				for _, l := range info.Logs {
					if !slices.Contains(partitions, filepath.Base(l.Dir())) || (l.TopicID() == (TopicID{})) != (tt.name == "plain-torn" && filepath.Base(l.Dir()) == "three-2") {
						t.Errorf("%s has id %v", l.Dir(), l.TopicID())
					}
				}
			}
			if len(m.Logs()) != len(partitions) || queued != deleted {
				t.Errorf("%d logs, want %d; %d to be removed, want %d", len(m.Logs()), len(partitions), queued, deleted)
			}
			if tt.clean && said.Len() > 0 {
				t.Errorf("warned: %s", &said)
			}
			if err := m.Close(99); err != nil {
				t.Fatal(err)
			}
			for file, was := range before {
				now, err := readOffsetCheckpoint(o.FS, file)
				if err != nil {
					t.Fatal(err)
				}
				if tt.clean && !maps.Equal(now, was) {
					t.Errorf("%s: %v, was %v", filepath.Base(file), now, was)
				}
				for tp, offset := range now { // after recovery, only what was not known before
					if old, ok := was[tp]; ok && offset < old && filepath.Base(file) != highWatermarkFile && tt.name != "plain-torn" {
						t.Errorf("%s: %s fell from %d to %d", filepath.Base(file), tp, old, offset)
					}
				}
			}
			for dir, was := range metas {
				if now := get(t, o.FS, dir+"/meta.properties"); now != was {
					t.Errorf("%s: meta.properties was written anew", dir)
				}
				if epoch, clean, err := readCleanMark(o.FS, dir); epoch != 99 || !clean || err != nil {
					t.Errorf("%s: clean mark %d, %v, %v", dir, epoch, clean, err)
				}
			}
		})
	}
}
