package tools

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quire-log/quire/internal/golden"
	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/record"
)

// runDump calls kafka-dump-log.
func runDump(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, complaints bytes.Buffer
	code = kafkaDumpLog(Env{Stdout: &out, Stderr: &complaints}, args)
	return code, out.String(), complaints.String()
}

// Kafka's own tool dumped every file of the goldens: what it printed is what is printed here.
func TestDumpLogAgainstKafka(t *testing.T) {
	for _, name := range golden.Names(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dumps, err := filepath.Glob(filepath.Join(golden.Shared(t, "golden", name), "dump", "*.txt"))
			if err != nil || len(dumps) == 0 {
				t.Fatalf("no dumps: %v", err)
			}
			dir := golden.Unpack(t, name)
			for _, dump := range dumps {
				text, err := os.ReadFile(dump)
				if err != nil {
					t.Fatal(err)
				}
				for _, want := range strings.Split(string(text), "\n$ kafka-dump-log.sh ")[1:] {
					compareDump(t, dir, want)
				}
			}
		})
	}
}

// compareDump runs the command line that want begins with. Kafka's two outputs are mixed there, so the complaints,
// which come last, are appended here; their paths are absolute, and those of another machine.
func compareDump(t *testing.T, dir, want string) {
	t.Helper()
	line, want, _ := strings.Cut(want, "\n")
	args := strings.Fields(line)
	var file string
	for i, arg := range args {
		if strings.HasPrefix(arg, "data") || i > 0 && args[i-1] == "--files" {
			file = arg
			args[i] = filepath.Join(dir, arg)
			if _, err := os.Stat(args[i]); err != nil { // dumped under a name with the folder's / made a _
				args[i] = filepath.Join(dir, strings.Replace(arg, "_", "/", 1))
			}
		}
	}
	_, out, complaints := runDump(t, args...)
	got := strings.ReplaceAll(out+complaints, dir+"/", "")
	got = strings.ReplaceAll(got, `Exception in thread "main" `, "") // whoever made the dumps called the tool within a program
	if first, rest, ok := strings.Cut(file, "_"); ok {
		got = strings.ReplaceAll(got, first+"/"+rest, file)
		if dot := strings.LastIndexByte(rest, '.'); dot > 0 {
			got = strings.ReplaceAll(got, first+"/"+rest[:dot], first+"_"+rest[:dot])
		}
	}
	var kept []string
	for w := range strings.SplitSeq(want, "\n") {
		if strings.HasPrefix(w, "Empty ") && strings.HasSuffix(w, "index") {
			continue // said by whoever made the dump, of the next file
		}
		kept = append(kept, w)
	}
	want = strings.Join(kept, "\n")
	if i := strings.Index(want, file); i >= 0 {
		for at := range strings.SplitSeq(want, " ") {
			if abs := strings.TrimSuffix(at, ":"); filepath.IsAbs(abs) && strings.HasSuffix(abs, file) {
				want = strings.ReplaceAll(want, strings.TrimSuffix(abs, file), "")
			}
		}
	}
	if diff := cmp.Diff(strings.TrimSpace(want), strings.TrimSpace(got)); diff != "" {
		t.Errorf("%s (-Kafka +here):\n%.2000s", line, diff)
	}
}

// put writes files into a folder of the test's own.
func put(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// dumpBatch makes a batch of one record at an offset.
func dumpBatch(t *testing.T, offset record.Offset, r record.Record) []byte {
	t.Helper()
	b := record.NewBuilder()
	b.Add(r)
	batch, err := b.Batch(nil)
	if err != nil {
		t.Fatal(err)
	}
	record.Batch(batch).SetBaseOffset(offset)
	return batch
}

const zeroBase = "00000000000000000000"

// What Kafka's tool says of damage, word for word.
func TestDumpLogDamage(t *testing.T) {
	whole := dumpBatch(t, 0, record.Record{Timestamp: 1, Value: []byte("v")})
	offsets := func(pairs ...uint32) (b []byte) {
		for _, n := range pairs {
			b = binary.BigEndian.AppendUint32(b, n)
		}
		return b
	}
	snapshot := binary.BigEndian.AppendUint32([]byte{0, 1, 0, 0, 0, 9}, 0)
	dir := put(t, map[string][]byte{
		zeroBase + ".log":               append(bytes.Clone(whole), make([]byte, 100)...),
		zeroBase + ".index":             append(offsets(0, 0), 1, 2, 3),
		zeroBase + ".timeindex":         {},
		"00000000000000000005.log":      whole,
		"00000000000000000005.index":    offsets(0xfffffffe, 0),
		"00000000000000000006.index":    offsets(1, 0),
		"00000000000000000007.snapshot": snapshot,
		"00000000000000000008.snapshot": {0, 2, 0, 0, 0, 0, 0, 0, 0, 0},
		"00000000000000000009.snapshot": {0},
		"x.checkpoint":                  {},
		"other.txt":                     {},
		"abc.log":                       {},
	})
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, test := range []struct {
		args         string
		code         int
		out, missing string // what the last line of stdout is, and of stderr
	}{
		{zeroBase + ".log", 1, "", `Exception in thread "main" org.apache.kafka.common.errors.CorruptRecordException: Found record size 0 smaller than minimum record overhead (14) in file ` + at(zeroBase+".log") + "."},
		{zeroBase + ".index --index-sanity-check", 1, "", `Exception in thread "main" org.apache.kafka.storage.internals.log.CorruptIndexException: Index file ` + at(zeroBase+".index") + " is corrupt, found 11 bytes which is neither positive nor a multiple of 8"},
		{zeroBase + ".index", 0, "offset: 0 position: 0", ""},
		{"00000000000000000005.index --index-sanity-check", 1, "", `Exception in thread "main" org.apache.kafka.storage.internals.log.CorruptIndexException: Corrupt index found, index file ` + at("00000000000000000005.index") + " has non-zero size but the last offset is 3 which is less than the base offset 5"},
		{"00000000000000000005.index", 0, "offset: 3 position: 0", "  Index offset: 3, log offset: 0"},
		{"00000000000000000006.index", 1, "", `Exception in thread "main" java.nio.file.NoSuchFileException: ` + at("00000000000000000006.log")},
		{"00000000000000000007.snapshot", 0, "", fmt.Sprintf("Snapshot is corrupt (CRC is no longer valid). Stored crc: 9. Computed crc: %d", crc32.Checksum(make([]byte, 4), dumpCRC))},
		{"00000000000000000008.snapshot", 0, "", "Snapshot failed schema validation: Snapshot contained an unknown file version 2"},
		{"00000000000000000009.snapshot", 0, "", "Snapshot failed schema validation: null"},
		{"x.checkpoint", 1, "", `Exception in thread "main" java.lang.StringIndexOutOfBoundsException: begin 0, end 20, length 12`},
		{"other.txt", 0, "", "Ignoring unknown file " + at("other.txt")},
		{"abc.log", 1, "", `Exception in thread "main" java.lang.NumberFormatException: For input string: "abc"`},
	} {
		words := strings.Fields(test.args)
		code, out, complaints := runDump(t, append([]string{"--files", at(words[0])}, words[1:]...)...)
		last := func(s string) string {
			lines := strings.Split(strings.TrimSpace(s), "\n")
			return strings.TrimPrefix(lines[len(lines)-1], " ")
		}
		if code != test.code || test.out != "" && last(out) != test.out || strings.TrimSpace(last(complaints)) != strings.TrimSpace(test.missing) {
			t.Errorf("%s: code %d\n%s\n%s", test.args, code, out, complaints)
		}
	}
}

// Records that a decoder cannot read are told of, and the next ones shown.
func TestDumpLogDecoders(t *testing.T) {
	commit := kmeta.AppendKey(nil, &kmeta.OffsetCommitKey{Group: "g", Topic: "t", Partition: 1})
	value := kmeta.AppendVersioned(nil, &kmeta.OffsetCommitValue{Offset: 7, LeaderEpoch: -1, CommitTimestamp: 5}, 3)
	for _, test := range []struct {
		decoder    string
		key, value []byte
		want       string
	}{
		{"offsets", commit, value, `key: {"type":"1","data":{"group":"g","topic":"t","partition":1}} payload: {"version":"3","data":{"offset":7,"leaderEpoch":-1,"metadata":"","commitTimestamp":5}}`},
		{"offsets", commit, nil, `key: {"type":"1","data":{"group":"g","topic":"t","partition":1}} payload: <DELETE>`},
		{"offsets", []byte("k1"), value, "key: Unknown record type 27441 at offset 0, skipping."},
		{"offsets", []byte{0}, value, "key: Error at offset 0, skipping. Could not read version from key's buffer."},
		{"offsets", commit[:4], value, "key: Error at offset 0, skipping. Could not read record with version 0 from key's buffer due to: null."},
		{"cluster-metadata", nil, []byte("v1"), "payload: Error at 0, skipping. Could not deserialize metadata record due to unknown frame version 118(only frame version 1 is supported)"},
		{"remote-log-metadata", nil, []byte("in"), "payload: Error at offset 0, skipping. Could not deserialize metadata record due to unknown frame version 105(only frame version 1 is supported)"},
	} {
		dir := put(t, map[string][]byte{zeroBase + ".log": dumpBatch(t, 0, record.Record{Key: test.key, Value: test.value})})
		code, out, complaints := runDump(t, "--"+test.decoder+"-decoder", "--skip-record-metadata", "--files", filepath.Join(dir, zeroBase+".log"))
		if want := "| " + test.want + "\n"; code != 0 || complaints != "" || !strings.HasSuffix(out, "\n"+want) {
			t.Errorf("%s: code %d, %s%s\nwant %s", test.decoder, code, out, complaints, want)
		}
	}
}

// Java's decoder counts a broken character once, not each of its bytes.
func TestJavaText(t *testing.T) {
	for _, test := range []struct{ bytes, want string }{
		{"plain é €", "plain é €"},
		{"a\xe2\x82b", "a\uFFFDb"},
		{"\xf0\x9f\x98", "\uFFFD"},
		{"\xed\xa0\x80", "\uFFFD\uFFFD\uFFFD"},
		{"\xc0\xaf", "\uFFFD\uFFFD"},
		{"\xff", "\uFFFD"},
		{"\xef\xbf\xbd", "\uFFFD"},
	} {
		if got := javaText([]byte(test.bytes)); got != test.want {
			t.Errorf("%x = %q, want %q", test.bytes, got, test.want)
		}
	}
}

// Whatever a file holds, the tool ends, and says one thing more than it has shown at most.
func FuzzDumpLog(f *testing.F) {
	b := record.NewBuilder()
	b.Add(record.Record{Key: []byte("k"), Value: []byte("v")})
	batch, _ := b.Batch(nil)
	for _, suffix := range []string{".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint"} {
		f.Add(suffix, batch)
		f.Add(suffix, make([]byte, 64))
	}
	f.Fuzz(func(t *testing.T, suffix string, content []byte) {
		switch suffix {
		case ".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint":
		default:
			t.Skip()
		}
		dir := t.TempDir()
		for name, c := range map[string][]byte{zeroBase + ".log": content, zeroBase + ".index": content, zeroBase + suffix: content} {
			if err := os.WriteFile(filepath.Join(dir, name), c, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for _, decoder := range []string{"--print-data-log", "--offsets-decoder", "--cluster-metadata-decoder"} {
			code, _, complaints := runDump(t, decoder, "--files", filepath.Join(dir, zeroBase+suffix))
			if code != 0 && !strings.Contains(complaints, "Exception in thread") {
				t.Errorf("code %d without a reason: %s", code, complaints)
			}
		}
	})
}
