package kmeta_test

import (
	"bufio"
	"bytes"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quire-log/quire/internal/golden"
	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/record"
)

// Every record that Kafka wrote reads, is written again to the same bytes at the version that VersionAt says, and
// prints as kafka-dump-log prints it.
func TestGoldenRecords(t *testing.T) {
	for _, name := range golden.Names(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := golden.Files(t, name, "*/__cluster_metadata-0/*.log", "*/__cluster_metadata-0/*.checkpoint", "*/bootstrap.checkpoint",
				"*/*/__cluster_metadata-0/*.log", "*/*/__cluster_metadata-0/*.checkpoint", "*/*/bootstrap.checkpoint")
			if len(files) == 0 {
				t.Fatal("no metadata log")
			}
			level := map[string]int16{} // of metadata.version, by directory
			for _, file := range slices.Sorted(maps.Keys(files)) {
				dumped := dumpedRecords(t, name, file)
				mv := level[path.Dir(file)]
				if path.Ext(file) == ".checkpoint" {
					mv = 0
				}
				n := 0
				for r := range records(t, file, files[file]) {
					line := r.check(t, &mv)
					if n < len(dumped) && line != dumped[n] {
						t.Errorf("%s: offset %d:\n%s, and Kafka prints\n%s", file, r.Offset, line, dumped[n])
					}
					n++
				}
				if n != len(dumped) {
					t.Errorf("%s: %d records, and %d in the dump", file, n, len(dumped))
				}
				if path.Ext(file) == ".log" {
					level[path.Dir(file)] = mv
				}
			}
		})
	}
}

type logRecord struct {
	record.Record
	file    string
	control bool
}

// records yields the records of a log or snapshot.
func records(t *testing.T, file string, src []byte) func(func(logRecord) bool) {
	return func(yield func(logRecord) bool) {
		var rd record.Reader
		for len(src) > 0 {
			b, err := record.FirstBatch(src)
			if err != nil {
				t.Logf("%s: %d bytes at the end: %v", file, len(src), err)
				return
			}
			src = src[len(b):]
			if err := rd.Reset(b, 8<<20); err != nil {
				t.Fatal(err)
			}
			for rd.Next() {
				if !yield(logRecord{*rd.Record(), file, b.IsControl()}) {
					return
				}
			}
			if err := rd.Err(); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
		}
	}
}

// check reads r, writes it again, and returns its JSON form as it stands in a dump.
func (r logRecord) check(t *testing.T, mv *int16) string {
	t.Helper()
	if r.control {
		typ, err := record.ParseControlKey(r.Key)
		if err != nil {
			t.Fatal(err)
		}
		c, v, err := kmeta.ReadControl(int16(typ), r.Value)
		if err != nil {
			t.Fatalf("%s: offset %d: %v", r.file, r.Offset, err)
		}
		if again := kmeta.AppendControl(nil, c, -1); !bytes.Equal(again, r.Value) {
			t.Errorf("%s: offset %d: %s is written again as %x, was %x", r.file, r.Offset, c.TypeName(), again, r.Value)
		}
		return c.TypeName() + " " + string(kmeta.AppendControlJSON(nil, c, v))
	}
	m, v, err := kmeta.ReadValue(r.Value)
	if err != nil {
		t.Fatalf("%s: offset %d: %v", r.file, r.Offset, err)
	}
	if f, ok := m.(*kmeta.FeatureLevelRecord); ok && f.Name == "metadata.version" {
		*mv = f.FeatureLevel
	}
	if want := kmeta.VersionAt(m, *mv); v != want {
		t.Errorf("%s: offset %d: %s v%d, and VersionAt %d says %d", r.file, r.Offset, m.TypeName(), v, *mv, want)
	}
	if again := kmeta.AppendValue(nil, m, v); !bytes.Equal(again, r.Value) {
		t.Errorf("%s: offset %d: %s is written again as %x, was %x", r.file, r.Offset, m.TypeName(), again, r.Value)
	}
	return string(kmeta.AppendJSON(nil, m, v))
}

// dumped cuts the record out of a line of a dump: "payload: {…}", or of a control record "LeaderChange: {…}". A regular expression
// would be the longest of all that these tests do.
func dumped(line string) (record string, ok bool) {
	_, rest, ok := strings.Cut(line, " headerKeys: [] ")
	begin := strings.IndexByte(rest, '{')
	if !ok || !strings.HasPrefix(line, "| offset: ") || begin < 0 || !strings.HasSuffix(rest, "}") {
		return "", false
	}
	name := strings.TrimRight(strings.TrimPrefix(rest[:begin], "payload: "), ": ")
	return strings.TrimSpace(name + " " + rest[begin:]), true
}

// dumpedRecords are the records that kafka-dump-log printed of a file of a golden.
func dumpedRecords(t *testing.T, name, file string) (out []string) {
	t.Helper()
	dump := strings.ReplaceAll(path.Dir(file), "/", "_") + ".txt"
	f, err := os.Open(filepath.Join(golden.Shared(t, "golden", name, "dump"), dump))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	in := false
	for s.Scan() {
		if of, ok := strings.CutPrefix(s.Text(), "Dumping "); ok {
			in = strings.ReplaceAll(of, "/", "_") == strings.ReplaceAll(file, "/", "_")
		}
		if !in {
			continue
		}
		if r, ok := dumped(s.Text()); ok {
			out = append(out, r)
		}
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// Every record of the coordinators' logs reads, is written again to the same bytes, and prints as kafka-dump-log prints it.
func TestGoldenCoordinators(t *testing.T) {
	seen := map[string]int{}
	for _, name := range golden.Names(t) {
		for log, topic := range []string{"__consumer_offsets", "__transaction_state", "__share_group_state"} {
			files := golden.Files(t, name, "*/"+topic+"-*/*.log", "*/*/"+topic+"-*/*.log")
			for _, file := range slices.Sorted(maps.Keys(files)) {
				dumped := dumpedEntries(t, name, file)
				n := 0
				for r := range records(t, file, files[file]) {
					if r.control {
						continue
					}
					k, err := kmeta.ReadKey(kmeta.Log(log), r.Key)
					if err != nil {
						t.Fatalf("%s: offset %d: %v", file, r.Offset, err)
					}
					seen[k.TypeName()]++
					if again := kmeta.AppendKey(nil, k); !bytes.Equal(again, r.Key) {
						t.Errorf("%s: offset %d: %s is written again as %x, was %x", file, r.Offset, k.TypeName(), again, r.Key)
					}
					line := "key: " + string(kmeta.AppendKeyJSON(nil, k, true)) + " payload: <DELETE>"
					if r.Value != nil {
						v, version, err := kmeta.ReadVersioned(k, r.Value)
						if err != nil {
							t.Fatalf("%s: offset %d: %v in %x", file, r.Offset, err, r.Value)
						}
						if again := kmeta.AppendVersioned(nil, v, version); !bytes.Equal(again, r.Value) {
							t.Errorf("%s: offset %d: %s is written again as %x, was %x", file, r.Offset, v.TypeName(), again, r.Value)
						}
						line = "key: " + string(kmeta.AppendKeyJSON(nil, k, true)) + " payload: " + string(kmeta.AppendDumpJSON(nil, v, version))
					}
					if n < len(dumped) && line != dumped[n] {
						t.Errorf("%s: offset %d:\n%s, and Kafka prints\n%s", file, r.Offset, line, dumped[n])
					}
					n++
				}
				if n != len(dumped) {
					t.Errorf("%s: %d records, and %d in the dump", file, n, len(dumped))
				}
			}
		}
	}
	if len(seen) < 20 {
		t.Errorf("only %d types of key in the goldens: %v", len(seen), seen)
	}
}

// dumpedEntries are the keys and values that kafka-dump-log printed of a file of a golden.
func dumpedEntries(t *testing.T, name, file string) (out []string) {
	t.Helper()
	dump := strings.ReplaceAll(path.Dir(file), "/", "_") + ".txt"
	text, err := os.ReadFile(filepath.Join(golden.Shared(t, "golden", name, "dump"), dump))
	if err != nil {
		t.Fatal(err)
	}
	in := false
	for line := range strings.Lines(string(text)) {
		if dumped, ok := strings.CutPrefix(strings.TrimSpace(line), "Dumping "); ok {
			in = strings.ReplaceAll(dumped, "/", "_") == strings.ReplaceAll(file, "/", "_")
		}
		if _, entry, ok := strings.Cut(strings.TrimSpace(line), " headerKeys: [] key: "); ok && in {
			out = append(out, "key: "+entry)
		}
	}
	return out
}
