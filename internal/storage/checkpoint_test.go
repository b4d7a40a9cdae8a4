package storage

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/quire-log/quire/internal/vfs"
)

func put(t *testing.T, fsys vfs.FS, name, content string) {
	t.Helper()
	if err := vfs.WriteFile(fsys, name, []byte(content)); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	b, err := vfs.ReadFile(fsys, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestOffsetCheckpointBytes(t *testing.T) {
	m := vfs.NewMem()
	offsets := map[TopicPartition]Offset{{"orders", 1}: 1498, {"orders", 0}: 1500, {"a.b-c", 12}: 1<<63 - 1}
	if got, want := string(appendOffsetCheckpoint(nil, offsets)), "0\n3\na.b-c 12 9223372036854775807\norders 0 1500\norders 1 1498\n"; got != want {
		t.Errorf("bytes %q, want %q", got, want)
	}
	if got, want := string(appendOffsetCheckpoint(nil, nil)), "0\n0\n"; got != want {
		t.Errorf("no entries: %q, want %q", got, want)
	}
	put(t, m, "f", string(appendOffsetCheckpoint(nil, offsets)))
	if got, err := readOffsetCheckpoint(m, "f"); !maps.Equal(got, offsets) || err != nil {
		t.Errorf("read %v, %v", got, err)
	}
}

func TestEpochCheckpointBytes(t *testing.T) {
	m := vfs.NewMem()
	epochs := []epochEntry{{0, 0}, {5, 1200}}
	if err := writeEpochCheckpoint(m, "f", epochs); err != nil {
		t.Fatal(err)
	}
	if got, want := get(t, m, "f"), "0\n2\n0 0\n5 1200\n"; got != want {
		t.Errorf("bytes %q, want %q", got, want)
	}
	if got, err := readEpochCheckpoint(m, "f"); !slices.Equal(got, epochs) || err != nil {
		t.Errorf("read %v, %v", got, err)
	}
}

func TestCheckpointOddities(t *testing.T) {
	long := strings.Repeat("x", 249)
	for _, tt := range []struct {
		content string
		entries int
		line    int // of the error, 0: none
	}{
		{"", 0, 0},
		{"0", 0, 0},
		{"0\n", 0, 0},
		{"0\n0\n", 0, 0},
		{"0\n1\na 0 5", 1, 0}, // no last newline
		{"0\r\n1\r\na 0 5\r\n", 1, 0},
		{"0\n1\na\t0  5\n", 1, 0},
		{"0\n1\n" + long + " 2147483647 9223372036854775807\n", 1, 0},
		{"1\n0\n", 0, 1},
		{"\n", 0, 1},
		{"text, not a checkpoint\n", 0, 1},
		{"0\nmany\n", 0, 2},
		{"0\n-1\n", 0, 2},
		{"0\n99999999999\n", 0, 2},
		{"0\n2\na 0 5\n", 0, 3},
		{"0\n0\na 0 5\n", 0, 3},
		{"0\n1\na 0\n", 0, 3},
		{"0\n1\na 0 5 6\n", 0, 3},
		{"0\n1\n\n", 0, 3},
		{"0\n1\na 2147483648 5\n", 0, 3},
		{"0\n1\na 0 9223372036854775808\n", 0, 3},
		{"0\n2\na 0 5\na 1 x\n", 0, 4},
		{"0\n1\na 0 " + strings.Repeat("5", 2000), 0, 3},
		{strings.Repeat("\x00", 5000), 0, 1},
	} {
		m := vfs.NewMem()
		put(t, m, "dir-checkpoint", tt.content)
		got, err := readOffsetCheckpoint(m, "dir-checkpoint")
		var ce *CheckpointError
		switch {
		case tt.line == 0 && (err != nil || len(got) != tt.entries):
			t.Errorf("%.60q: %d entries, %v, want %d", tt.content, len(got), err, tt.entries)
		case tt.line > 0 && (!errors.As(err, &ce) || ce.Line != tt.line || ce.File != "dir-checkpoint"):
			t.Errorf("%.60q: error %v, want one in line %d", tt.content, err, tt.line)
		}
	}
}

// A sparse file of a terabyte is refused at its first bytes.
func TestCheckpointHuge(t *testing.T) {
	m := vfs.NewMem()
	put(t, m, "f", "0\n1\n")
	f, err := m.OpenFile("f", 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(1 << 40); err != nil {
		t.Fatal(err)
	}
	var ce *CheckpointError
	if _, err := readOffsetCheckpoint(m, "f"); !errors.As(err, &ce) {
		t.Errorf("error %v", err)
	}
}

// A disk's fault is not taken for a malformed file.
func TestCheckpointReadErrors(t *testing.T) {
	m := vfs.NewMem()
	if _, err := readOffsetCheckpoint(m, "f"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	put(t, m, "f", "0\n0\n")
	m.FailNth(1, syscall.EIO, func(op, name string) bool { return op == "read" })
	var ce *CheckpointError
	if _, err := readOffsetCheckpoint(m, "f"); !errors.Is(err, syscall.EIO) || errors.As(err, &ce) {
		t.Errorf("bad sector: %v", err)
	}
}

func FuzzCheckpoint(f *testing.F) {
	for _, s := range []string{"", "0", "0\n0\n", "0\n2\norders 0 1500\norders 1 1498\n", "0\n2\n0 0\n5 1200\n", "0\n1\na 0 5", "1\n", "\x00\x00"} {
		f.Add([]byte(s))
	}
	m := vfs.NewMem()
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := vfs.WriteFile(m, "f", b); err != nil {
			t.Fatal(err)
		}
		if offsets, err := readOffsetCheckpoint(m, "f"); err == nil {
			again := appendOffsetCheckpoint(nil, offsets)
			put(t, m, "g", string(again))
			got, err := readOffsetCheckpoint(m, "g")
			if err != nil || !maps.Equal(got, offsets) {
				t.Errorf("%q: written as %q, read as %v, %v", b, again, got, err)
			}
		}
		if epochs, err := readEpochCheckpoint(m, "f"); err == nil {
			if err := writeEpochCheckpoint(m, "g", epochs); err != nil {
				t.Fatal(err)
			}
			if got, err := readEpochCheckpoint(m, "g"); err != nil || !slices.Equal(got, epochs) {
				t.Errorf("%q: read as %v, again as %v, %v", b, epochs, got, err)
			}
		}
		if _, err := parseCheckpoint(bytes.NewReader(b), 1, func([]string) error { return nil }); err != nil && err.Error() == "" {
			t.Error("error without a word")
		}
	})
}
