package server

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/quire-log/quire/internal/storage"
	"github.com/quire-log/quire/internal/vfs"
)

const metadataSegment = "d/__cluster_metadata-0/00000000000000000000.log"

// A stopped is what a node left behind, with one partition's directory.
func stopped(t *testing.T, fsys *vfs.Mem, clean bool) map[string]string {
	t.Helper()
	properties := map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0", "admin.listener": "", "log.dirs": "d"}
	n, err := Start(t.Context(), Options{FS: fsys, Properties: properties})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.logs.CreateNewLog(storage.TopicPartition{Topic: "orders"}, storage.TopicID{9}); err != nil {
		t.Fatal(err)
	}
	if !clean {
		n.Abort()
	} else if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return properties
}

func content(t *testing.T, fsys vfs.FS, name string) []byte {
	t.Helper()
	b, err := vfs.ReadFile(fsys, name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// refuses wants starts to fail, twice, and to leave every byte and name as it is.
func refuses(t *testing.T, fsys *vfs.Mem, properties map[string]string, clean bool, words ...string) {
	t.Helper()
	before, _ := vfs.ReadFile(fsys, metadataSegment)
	for range 2 {
		n, err := Start(t.Context(), Options{FS: fsys, Properties: properties})
		if err == nil {
			n.Abort()
			t.Fatal("the node starts")
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q is not in: %v", w, err)
			}
		}
		if after, _ := vfs.ReadFile(fsys, metadataSegment); string(after) != string(before) {
			t.Error("the metadata log was changed")
		}
		if _, err := fsys.Stat("d/orders-0"); err != nil {
			t.Errorf("the partition's directory: %v", err)
		}
		if _, err := fsys.Stat("d/.kafka_cleanshutdown"); clean != (err == nil) {
			t.Errorf("clean mark: %v", err)
		}
	}
}

func TestDamagedMetadataIsRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		clean  bool
		damage func(b []byte) []byte
	}{
		{"a byte in the middle, clean", true, func(b []byte) []byte { b[len(b)/2] ^= 1; return b }},
		{"a byte in the middle, unclean", false, func(b []byte) []byte { b[len(b)/2] ^= 1; return b }},
		{"the first batch's length", false, func(b []byte) []byte { b[9] ^= 0x40; return b }},
		{"the last byte, clean", true, func(b []byte) []byte { b[len(b)-1] ^= 1; return b }},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := vfs.NewMem()
			properties := stopped(t, fsys, c.clean)
			if err := vfs.WriteFile(fsys, metadataSegment, c.damage(content(t, fsys, metadataSegment))); err != nil {
				t.Fatal(err)
			}
			refuses(t, fsys, properties, c.clean, "00000000000000000000.log: corrupt at byte", "after offset", "backup")
			var corrupt *storage.CorruptError
			if _, err := Start(t.Context(), Options{FS: fsys, Properties: properties}); !errors.As(err, &corrupt) {
				t.Errorf("%T: %v", err, err)
			}
		})
	}
}

// What a kill in the middle of an append leaves is cut.
func TestTornMetadataStarts(t *testing.T) {
	fsys := vfs.NewMem()
	properties := stopped(t, fsys, false)
	b := content(t, fsys, metadataSegment)
	if err := vfs.WriteFile(fsys, metadataSegment, b[:len(b)-5]); err != nil {
		t.Fatal(err)
	}
	n, err := Start(t.Context(), Options{FS: fsys, Properties: properties})
	if err != nil {
		t.Fatal(err)
	}
	n.Abort()
}

func TestMissingMetadataIsRefused(t *testing.T) {
	for name, remove := range map[string]func(fs vfs.FS) error{
		"the file":      func(fs vfs.FS) error { return fs.Remove(metadataSegment) },
		"its bytes":     func(fs vfs.FS) error { return vfs.WriteFile(fs, metadataSegment, nil) },
		"the directory": func(fs vfs.FS) error { return fs.RemoveAll(path.Dir(metadataSegment)) },
	} {
		t.Run(name, func(t *testing.T) {
			fsys := vfs.NewMem()
			properties := stopped(t, fsys, true)
			if err := remove(fsys); err != nil {
				t.Fatal(err)
			}
			refuses(t, fsys, properties, true, "metadata log is missing or empty", "d/orders-0", "backup")
		})
	}
}

// A directory that is not formatted while another one is may be one that is not mounted.
func TestBareDirectoryIsRefused(t *testing.T) {
	fsys := vfs.NewMem()
	properties := stopped(t, fsys, true)
	properties["log.dirs"] = "d,e"
	refuses(t, fsys, properties, true, "no `meta.properties` found in e", "--ignore-formatted")
	if _, err := fsys.Stat("e/meta.properties"); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory was formatted: %v", err)
	}
}

// Files that a hand has spoilt: the start says which, and what to do, and changes nothing.
func TestSpoiltDirectoriesAreRefused(t *testing.T) {
	replace := func(name, old, new string) func(*testing.T, *vfs.Mem) {
		return func(t *testing.T, fsys *vfs.Mem) {
			b := strings.ReplaceAll(string(content(t, fsys, name)), old, new)
			if err := vfs.WriteFile(fsys, name, []byte(b)); err != nil {
				t.Fatal(err)
			}
		}
	}
	const quorumState, meta = "d/__cluster_metadata-0/quorum-state", "d/meta.properties"
	for _, c := range []struct {
		name  string
		spoil func(*testing.T, *vfs.Mem)
		words []string
	}{
		{"quorum-state", replace(quorumState, "{", "x"), []string{quorumState, "damaged", "move the file away"}},
		{"node id", replace(meta, "node.id=1", "node.id=7"), []string{"id is 7", "of broker 1", "node.id"}},
		{"version", replace(meta, "version=1", "version=9"), []string{"d: meta.properties", `unknown version "9"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := vfs.NewMem()
			properties := stopped(t, fsys, false)
			c.spoil(t, fsys)
			refuses(t, fsys, properties, false, c.words...)
		})
	}
	t.Run("quorum-state moved away", func(t *testing.T) {
		fsys := vfs.NewMem()
		properties := stopped(t, fsys, true)
		if err := fsys.Remove(quorumState); err != nil {
			t.Fatal(err)
		}
		n, err := Start(t.Context(), Options{FS: fsys, Properties: properties})
		if err != nil {
			t.Fatal(err)
		}
		n.Abort()
	})
}

// Directories of log.dirs that can be none.
func TestImpossibleDirectoriesAreRefused(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return path.Join(dir, name) }
	if err := os.WriteFile(at("file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", at("link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ dirs, want string }{
		{"", "at least one log directory must be defined via log.dirs or log.dir"},
		{" , ", "at least one log directory must be defined via log.dirs or log.dir"},
		{at("file"), at("file") + ": the metadata directory cannot be used: open " + at("file/.lock") + ": not a directory"},
		{at("link"), "a symbolic link to nothing"},
	} {
		n, err := Start(t.Context(), Options{Properties: map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0", "admin.listener": "", "log.dirs": c.dirs}})
		if err == nil {
			n.Abort()
			t.Fatalf("log.dirs=%q: the node starts", c.dirs)
		}
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("log.dirs=%q: %v", c.dirs, err)
		}
	}
}
