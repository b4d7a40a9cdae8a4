package classic

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/quire-log/quire/internal/vfs"
)

// Recovery cuts the newest file where the first invalid entry is, and says so.
func TestRecovery(t *testing.T) {
	whole := appendEntry(appendEntry(nil, Message{Payload: []byte("first")}), Message{Magic: 1, Payload: []byte("second")})
	for _, c := range []struct {
		name   string
		tail   []byte
		reason string
	}{
		{"whole", nil, ""},
		{"short length", []byte{0, 0}, "the entry ends at byte 9 of 2"},
		{"short payload", appendEntry(nil, Message{Payload: []byte("third")})[:12], "the entry ends at byte 14 of 12"},
		{"zeros", make([]byte, 4096), "impossible length 0"},
		{"negative", append([]byte{0xff, 0xff, 0xff, 0xf0}, make([]byte, 100)...), "impossible length -16"},
		{"huge", append([]byte{0x7f, 0xff, 0xff, 0xff}, make([]byte, 100)...), "the entry ends at byte 2147483651 of 104"},
		{"nonsense", unhex(t, "0000000a 00 3610a687 68656c6c6f 00000005 00 00000000"), "crc 3610a686, want 3610a687"},
		{"magic", unhex(t, "0000000a 07 3610a687 68656c6c6f"), "unknown magic 7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := newMem(t)
			if err := errors.Join(mem.MkdirAll(testDir, 0o755), writeFile(mem, testDir+"/00000000000000001000.kafka", append(slices.Clone(whole), c.tail...))); err != nil {
				t.Fatal(err)
			}
			var cuts []string
			l, err := Open(Options{FS: mem, Dir: testDir, Partition: testPartition, Config: testConfig(), Cut: func(c Cut) { cuts = append(cuts, c.String()) }})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			var want []string
			if c.reason != "" {
				want = []string{fmt.Sprintf("my_topic_0: 00000000000000001000.kafka: %d bytes from byte 30, offset 1030, were cut off: %s", len(c.tail), c.reason)}
			}
			if !slices.Equal(cuts, want) {
				t.Errorf("told %q, want %q", cuts, want)
			}
			if first := appendText(t, l, "third"); first != 1030 {
				t.Errorf("appended at %d", first)
			}
			if got := texts(t, l, 1000); !slices.Equal(got, []string{"first", "second", "third"}) {
				t.Errorf("%q", got)
			}
		})
	}
}

// Damage in an old file stops reads there, and only there.
func TestDamageInside(t *testing.T) {
	mem := newMem(t)
	l := open(t, mem, testConfig())
	for i := range 40 {
		appendText(t, l, fmt.Sprintf("message %02d", i)) // 19 bytes each, 11 to a file
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	name := testDir + "/" + fileName(0)
	b, err := vfs.ReadFile(mem, name)
	if err != nil {
		t.Fatal(err)
	}
	b[2*19+12]++ // a payload
	b[5*19]++    // a length
	if err := writeFile(mem, name, b); err != nil {
		t.Fatal(err)
	}
	l = open(t, mem, testConfig())
	r := l.NewReader(0, Fail, ReadOptions{Bytes: 1 << 10})
	if set, err := r.Next(); err != nil || set.Next() != 38 {
		t.Errorf("before the damage: %v, next %d", err, set.Next())
	}
	var corrupt *CorruptError
	if _, err := r.Next(); !errors.As(err, &corrupt) || corrupt.File != fileName(0) || corrupt.Pos != 38 || corrupt.Offset != 38 {
		t.Errorf("at the damage: %v", err)
	}
	if _, err := l.Read(5*19, ReadOptions{Bytes: 1 << 10}); err == nil {
		t.Error("an impossible entry was read")
	}
	if set, err := l.Read(6*19, ReadOptions{Bytes: 1 << 10}); err != nil || set.First != 6*19 {
		t.Errorf("behind the damage: %v", err)
	}
	var outside *OutOfRangeError
	if _, err := l.Read(6*19+1, ReadOptions{Bytes: 1 << 10}); !errors.As(err, &outside) {
		t.Errorf("behind the damage, within an entry: %v", err)
	}
}

// A file that is missing in the middle is a hole: reads go over it, sends do not.
func TestHole(t *testing.T) {
	mem := newMem(t)
	l := open(t, mem, testConfig())
	for range 4 {
		appendText(t, l, strings.Repeat("a", 191))
	}
	if err := errors.Join(l.Close(), mem.Remove(testDir+"/"+fileName(200))); err != nil {
		t.Fatal(err)
	}
	l = open(t, mem, testConfig())
	set, err := l.Read(200, ReadOptions{Bytes: 1000})
	if err != nil || set.First != 400 || set.Next() != 600 {
		t.Errorf("%d to %d, %v", set.First, set.Next(), err)
	}
	if len(texts(t, l, 0)) != 3 {
		t.Errorf("%q", texts(t, l, 0))
	}
	var outside *OutOfRangeError
	if _, err := l.Read(300, ReadOptions{Bytes: 1000}); !errors.As(err, &outside) {
		t.Errorf("inside: %v", err)
	}
	if _, err := l.Send(200, 1000); !errors.As(err, &outside) {
		t.Errorf("send: %v", err)
	}
}

// A file that runs into the next is shown up to there.
func TestOverlap(t *testing.T) {
	mem := newMem(t)
	run := appendEntry(appendEntry(nil, Message{Payload: []byte("a")}), Message{Payload: []byte("b")})
	if err := errors.Join(mem.MkdirAll(testDir, 0o755), writeFile(mem, testDir+"/0.kafka", append(slices.Clone(run), "junk"...)), writeFile(mem, testDir+"/20.kafka", run)); err != nil {
		t.Fatal(err)
	}
	var cuts []string
	l, err := Open(Options{FS: mem, Dir: testDir, Partition: testPartition, Config: testConfig(), Cut: func(c Cut) { cuts = append(cuts, c.String()) }})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if len(texts(t, l, 0)) != 4 || l.EndOffset() != 40 || len(cuts) != 1 || !strings.Contains(cuts[0], "4 bytes from byte 20, offset 20, were left out") {
		t.Errorf("%q, end %d, %q", texts(t, l, 0), l.EndOffset(), cuts)
	}
	if b, err := vfs.ReadFile(mem, testDir+"/0.kafka"); err != nil || len(b) != 24 {
		t.Errorf("the file has %d bytes, %v", len(b), err)
	}
}

func writeFile(fsys vfs.FS, name string, b []byte) error {
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	return errors.Join(err, f.Close())
}
