package storage

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/quire-log/quire/internal/golden"
	"github.com/quire-log/quire/internal/vfs"
)

var testDirID = TopicID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

func TestMetaBytes(t *testing.T) {
	when := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	got := string(appendMeta(nil, Meta{"4L6g3nShT-eMCtK--X86sw", 1, testDirID}, when))
	want := "#\n#Thu Jan 01 00:00:00 UTC 2026\nnode.id=1\ndirectory.id=AQIDBAUGBwgJCgsMDQ4PEA\nversion=1\ncluster.id=4L6g3nShT-eMCtK--X86sw\n"
	if got != want {
		t.Errorf("bytes:\n%s\nwant:\n%s", got, want)
	}
	for _, cluster := range []string{" a=b:c#d!e\\f ", "täst", "a\tb\nc\rd\fe", "日本", "${x}"} {
		meta := Meta{cluster, 7, testDirID}
		if got, err := parseMeta(appendMeta(nil, meta, when)); got != meta || err != nil {
			t.Errorf("%q: read back as %+v, %v", cluster, got, err)
		}
	}
}

func TestParseMeta(t *testing.T) {
	id := testDirID.String()
	for _, tt := range []struct {
		text string
		want Meta
		err  string // part of it; "": none
	}{
		{"version=1\ncluster.id=c\nnode.id=3\ndirectory.id=" + id, Meta{"c", 3, testDirID}, ""},
		{"version=1\ncluster.id=c\nnode.id=3", Meta{"c", 3, TopicID{}}, ""},
		{"! old\r\nversion : 1\r\n  cluster.id c\r\nnode.id=\\\n 3\r\n", Meta{"c", 3, TopicID{}}, ""},
		{"version=1\ncluster.id=c\nnode.id=3\nsomething=else", Meta{"c", 3, TopicID{}}, ""},
		{"version=0\nbroker.id=5\ncluster.id=c", Meta{"c", 5, TopicID{}}, ""},
		{"broker.id=5", Meta{"", 5, TopicID{}}, ""},
		{"version=0\nbroker.id=-1", Meta{"", -1, TopicID{}}, ""},
		{"", Meta{"", -1, TopicID{}}, ""},
		{"version=2\ncluster.id=c\nnode.id=3", Meta{}, `unknown version "2"`},
		{"version=1\nnode.id=3", Meta{}, "cluster.id is missing"},
		{"version=1\ncluster.id=c", Meta{}, "node.id is missing"},
		{"version=1\ncluster.id=c\nnode.id=x", Meta{}, "node.id is"},
		{"version=1\ncluster.id=c\nnode.id=-1", Meta{}, "node.id is"},
		{"version=1\ncluster.id=c\nnode.id=2147483648", Meta{}, "node.id is"},
		{"version=1\ncluster.id=c\nnode.id=1\ndirectory.id=short", Meta{}, "directory.id"},
		{"version=1\ncluster.id=c\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ", Meta{}, "reserved"},
		{"version=1\ncluster.id=c\\u12", Meta{}, "unicode"},
		{strings.Repeat("#\n", metaBytesMax), Meta{}, "more than"},
	} {
		got, err := parseMeta([]byte(tt.text))
		if tt.err == "" && (err != nil || got != tt.want) || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%.80q: %+v, %v, want %+v, %q", tt.text, got, err, tt.want, tt.err)
		}
	}
}

func TestFormat(t *testing.T) {
	m := vfs.NewMem()
	meta := Meta{"cluster", 1, testDirID}
	if _, ok, err := Formatted(m, "/var/lib/quire"); ok || err != nil {
		t.Errorf("before: %v, %v", ok, err)
	}
	if err := Format(m, "/var/lib/quire", meta, []byte("bootstrap")); err != nil {
		t.Fatal(err)
	}
	if err := Format(m, "/var/lib/quire", meta, nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("again: %v", err)
	}
	// Everything is durable, whatever the lots of the crash.
	for seed := range uint64(20) {
		after := m.AfterCrash(seed)
		if got, ok, err := Formatted(after, "/var/lib/quire"); got != meta || !ok || err != nil {
			t.Fatalf("seed %d: %+v, %v, %v", seed, got, ok, err)
		}
		if got := get(t, after, "/var/lib/quire/bootstrap.checkpoint"); got != "bootstrap" {
			t.Fatalf("seed %d: bootstrap.checkpoint is %q", seed, got)
		}
	}
	m = vfs.NewMem()
	if err := Format(m, "d", Meta{"c", 0, TopicID{}}, nil); err != nil {
		t.Fatal(err)
	}
	if got, _, _ := Formatted(m, "d"); got.DirectoryID == (TopicID{}) {
		t.Error("no directory id was drawn")
	}
	for _, bad := range []Meta{{"", 1, testDirID}, {"c", -1, testDirID}} {
		if err := Format(m, "e", bad, nil); err == nil {
			t.Errorf("formatted as %+v", bad)
		}
	}
}

// A format that is cut off anywhere leaves a directory that is formatted wholly or not at all.
func TestFormatCrash(t *testing.T) {
	for n := 1; ; n++ {
		m := vfs.NewMem()
		m.CrashAfter(n)
		err := Format(m, "/a/b", Meta{"cluster", 1, testDirID}, []byte("bootstrap"))
		for seed := range uint64(30) {
			after := m.AfterCrash(seed)
			got, ok, readErr := Formatted(after, "/a/b")
			if readErr != nil || ok && got.ClusterID != "cluster" {
				t.Fatalf("step %d, seed %d: %+v, %v", n, seed, got, readErr)
			}
			if ok {
				if got := get(t, after, "/a/b/bootstrap.checkpoint"); got != "bootstrap" {
					t.Fatalf("step %d, seed %d: bootstrap.checkpoint is %q", n, seed, got)
				}
			} else if err == nil {
				t.Fatalf("step %d, seed %d: lost after success", n, seed)
			}
		}
		if err == nil {
			if n < 8 {
				t.Fatalf("done in %d steps?", n)
			}
			return
		}
	}
}

func TestCleanMark(t *testing.T) {
	m := vfs.NewMem()
	if err := m.MkdirAll("d", 0o755); err != nil {
		t.Fatal(err)
	}
	if epoch, clean, err := readCleanMark(m, "d"); epoch != -1 || clean || err != nil {
		t.Errorf("none: %d, %v, %v", epoch, clean, err)
	}
	if err := writeCleanMark(m, "d", 123); err != nil {
		t.Fatal(err)
	}
	if got, want := get(t, m, "d/.kafka_cleanshutdown"), `{"version":0,"brokerEpoch":123}`; got != want {
		t.Errorf("bytes %q, want %q", got, want)
	}
	if epoch, clean, err := readCleanMark(m, "d"); epoch != 123 || !clean || err != nil {
		t.Errorf("read %d, %v, %v", epoch, clean, err)
	}
	for text, want := range map[string]int64{
		"": -1, "0": -1, "nonsense": -1, "{}": -1, `{"version":0}`: -1, `{"brokerEpoch":5}`: -1, `{"version":1,"brokerEpoch":5}`: -1,
		`{"version":0,"brokerEpoch":"5"}`: -1, `{"brokerEpoch":5,"version":0,"later":[1]}`: 5, "{\"version\":0,\"brokerEpoch\":-1}\n": -1,
	} {
		put(t, m, "d/.kafka_cleanshutdown", text)
		if epoch, clean, err := readCleanMark(m, "d"); epoch != want || !clean || err != nil {
			t.Errorf("%q: %d, %v, %v, want %d", text, epoch, clean, err, want)
		}
	}
	if err := removeCleanMark(m, "d"); err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(10) {
		if _, clean, _ := readCleanMark(m.AfterCrash(seed), "d"); clean {
			t.Fatalf("seed %d: a removed mark came back", seed)
		}
	}
}

// What Kafka wrote into a data directory itself is read as it was meant, and written by us it is the same but for order and date.
func TestGoldenDirectoryFiles(t *testing.T) {
	files := golden.Files(t, "plain-clean", "data/*")
	m := vfs.NewMem()
	if err := m.MkdirAll("data", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, b := range files {
		put(t, m, "data/"+path.Base(name), string(b))
	}
	meta, ok, err := Formatted(m, "data")
	if want := (Meta{"Z29sZGVuLWNsdXN0ZXItMQ", 1, meta.DirectoryID}); meta != want || !ok || err != nil || meta.DirectoryID == (TopicID{}) {
		t.Errorf("meta %+v, %v, %v", meta, ok, err)
	}
	theirs := strings.SplitAfterN(get(t, m, "data/meta.properties"), "\n", 3)
	ours := strings.SplitAfterN(string(appendMeta(nil, meta, time.Now())), "\n", 3)
	if theirs[0] != ours[0] || theirs[2] != ours[2] {
		t.Errorf("we write %q, Kafka %q", ours, theirs)
	}
	if when, err := time.Parse(metaDateLayout, strings.Trim(theirs[1], "#\n")); err != nil || when.Year() < 2020 {
		t.Errorf("Kafka's date %q: %v", theirs[1], err)
	}
	if epoch, clean, err := readCleanMark(m, "data"); epoch <= 0 || !clean || err != nil {
		t.Errorf("clean mark %d, %v, %v", epoch, clean, err)
	}
	mark := get(t, m, "data/.kafka_cleanshutdown")
	if epoch, _, _ := readCleanMark(m, "data"); writeCleanMark(m, "data", epoch) != nil || get(t, m, "data/.kafka_cleanshutdown") != mark {
		t.Errorf("we do not write %q", mark)
	}
	for name, want := range map[string]map[TopicPartition]Offset{
		recoveryPointFile: {{"segments", 0}: 2490, {"trimmed", 0}: 36, {strings.Repeat("x", 249), 0}: 1},
		logStartFile:      {{"trimmed", 0}: 16, {"trimmed-to-end", 0}: 3},
		highWatermarkFile: {{"with.dots_and-dashes-7", 0}: 1, {"three", 2}: 174},
		cleanerFile:       {},
	} {
		text := get(t, m, "data/"+name)
		got, err := readOffsetCheckpoint(m, "data/"+name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for tp, offset := range want {
			if got[tp] != offset {
				t.Errorf("%s: %s is %d, want %d", name, tp, got[tp], offset)
			}
		}
		ours := string(appendOffsetCheckpoint(nil, got))
		if len(ours) != len(text) || len(got)+2 != strings.Count(text, "\n") {
			t.Errorf("%s: we write %d bytes for %d entries, Kafka %d", name, len(ours), len(got), len(text))
		}
		for _, line := range strings.SplitAfter(text, "\n") {
			if !strings.Contains(ours, line) {
				t.Errorf("%s: we do not write %q", name, line)
			}
		}
	}
}

// Every name of a directory in the goldens is one that we know.
func TestGoldenDirectoryNames(t *testing.T) {
	kinds := map[dirKind]int{}
	for _, name := range []string{"plain-clean", "jbod"} {
		seen := map[string]bool{}
		for file := range golden.Files(t, name, "*/*/partition.metadata") {
			dir := path.Base(path.Dir(file))
			tp, kind, ok := parseDirName(dir)
			if !ok || kind == dirLive && tp.String() != dir {
				t.Errorf("%s: %v %q %v", dir, tp, kind, ok)
			}
			if !seen[dir] {
				kinds[kind]++
			}
			seen[dir] = true
		}
	}
	if kinds[dirLive] < 40 || kinds[dirDeleted] < 4 {
		t.Errorf("found %v", kinds)
	}
}

func FuzzMeta(f *testing.F) {
	f.Add([]byte("#\n#Thu Jan 01 00:00:00 UTC 2026\nnode.id=1\ndirectory.id=AQIDBAUGBwgJCgsMDQ4PEA\nversion=1\ncluster.id=4L6g3nShT-eMCtK--X86sw\n"))
	f.Add([]byte("version=0\nbroker.id=5"))
	f.Add([]byte("a\\u00e4=b\\\n c\r\n!x"))
	f.Fuzz(func(t *testing.T, b []byte) {
		meta, err := parseMeta(b)
		parseCleanMark(b)
		if err != nil {
			return
		}
		if meta.DirectoryID == (TopicID{}) || meta.NodeID < 0 {
			return // version 0: what we write anew has both
		}
		again, err := parseMeta(appendMeta(nil, meta, time.Unix(0, 0)))
		if err != nil || again != meta {
			t.Errorf("%q is %+v, written and read again %+v, %v", b, meta, again, err)
		}
	})
}
