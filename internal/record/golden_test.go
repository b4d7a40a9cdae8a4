package record

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// shared is the folder of data directories and transcripts that Kafka made, beside the repository; without it the test is skipped.
func shared(t testing.TB, parts ...string) string {
	t.Helper()
	dir := filepath.Join(append([]string{"..", "..", "..", "shared"}, parts...)...)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no %s beside the repository", filepath.Join(append([]string{"shared"}, parts...)...))
	}
	return dir
}

// eachFile hands over the files in a golden's archive whose names end in .log or .checkpoint.
func eachFile(t *testing.T, archive string, use func(name string, content []byte)) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if ext := path.Ext(h.Name); h.Typeflag != tar.TypeReg || ext != ".log" && ext != ".checkpoint" {
			continue
		}
		content, err := io.ReadAll(io.LimitReader(r, 64<<20))
		if err != nil {
			t.Fatal(err)
		}
		use(h.Name, content)
	}
}

// A section is what kafka-dump-log.sh said of one file.
type section struct {
	lines []string // those about batches and records
	deep  bool     // records too
	fell  bool     // the tool came upon bytes that it could not read
}

// dumpSections reads a golden's transcripts, by file.
func dumpSections(t *testing.T, golden string) map[string]*section {
	t.Helper()
	all := map[string]*section{}
	files, err := filepath.Glob(filepath.Join(golden, "dump", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no dumps, %v", golden, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var s *section
		for line := range strings.Lines(string(b)) {
			line = strings.TrimSuffix(line, "\n")
			switch {
			case strings.HasPrefix(line, "$ kafka-dump-log.sh --files "):
				words := strings.Fields(line)
				s = &section{deep: strings.Contains(line, "--deep-iteration")}
				all[words[3]] = s
			case s == nil:
			case strings.HasPrefix(line, "baseOffset: "), strings.HasPrefix(line, "| offset: "),
				strings.HasPrefix(line, "offset: ") && strings.Contains(line, " magic: "):
				s.lines = append(s.lines, line)
			case strings.Contains(line, "Exception"), strings.Contains(line, "invalid bytes at the end"):
				s.fell = true
			}
		}
	}
	return all
}

func timeKind(e Entry) string {
	switch {
	case e.Magic() == 0:
		return "NoTimestampType"
	case e.IsLogAppendTime():
		return "LogAppendTime"
	}
	return "CreateTime"
}

// dumpEntry prints an entry as kafka-dump-log.sh does.
func dumpEntry(e Entry, pos int) string {
	tail := fmt.Sprintf("position: %d %s: %d size: %d magic: %d compresscodec: %v crc: %d isvalid: %v",
		pos, timeKind(e), e.MaxTimestamp(), len(e), e.Magic(), e.Codec(), e.CRC(), e.computeCRC() == e.CRC())
	if e.Magic() != 2 {
		return fmt.Sprintf("offset: %d %s", e.LastOffset(), tail)
	}
	b, horizon := e.Batch(), "OptionalLong.empty"
	if b.HasDeleteHorizon() {
		horizon = fmt.Sprintf("OptionalLong[%d]", b.BaseTimestamp())
	}
	return fmt.Sprintf("baseOffset: %d lastOffset: %d count: %d baseSequence: %d lastSequence: %d producerId: %d producerEpoch: %d "+
		"partitionLeaderEpoch: %d isTransactional: %v isControl: %v deleteHorizonMs: %s %s", b.BaseOffset(), b.LastOffset(), b.Count(),
		b.BaseSequence(), b.LastSequence(), b.ProducerID(), b.ProducerEpoch(), b.LeaderEpoch(), b.IsTransactional(), b.IsControl(), horizon, tail)
}

// dumpRecord prints a record as kafka-dump-log.sh does, but for its content.
func dumpRecord(e Entry, r *Record) string {
	size := func(b []byte) int {
		if b == nil {
			return -1
		}
		return len(b)
	}
	head := fmt.Sprintf("| offset: %d %s: %d keySize: %d valueSize: %d ", r.Offset, timeKind(e), r.Timestamp, size(r.Key), size(r.Value))
	if e.Magic() != 2 {
		return head + "isValid: true"
	}
	sequence := int32(-1)
	if base := e.Batch().BaseSequence(); base >= 0 {
		sequence = int32((uint32(base) + uint32(r.Offset-e.BaseOffset())) & 0x7fffffff)
	}
	var keys []string
	for _, h := range r.Headers {
		keys = append(keys, h.Key)
	}
	return head + fmt.Sprintf("sequence: %d headerKeys: [%s]", sequence, strings.Join(keys, ","))
}

// Every batch and record of every log that Kafka wrote reads as Kafka's own tool reads it.
func TestGoldens(t *testing.T) {
	archives, err := filepath.Glob(filepath.Join(shared(t, "golden"), "*.tar.zst"))
	if err != nil || len(archives) == 0 {
		t.Fatalf("no goldens: %v", err)
	}
	for _, archive := range archives {
		golden := strings.TrimSuffix(archive, ".tar.zst")
		t.Run(filepath.Base(golden), func(t *testing.T) {
			sections := dumpSections(t, golden)
			batches, records := 0, 0
			eachFile(t, archive, func(name string, content []byte) {
				s := sections[name]
				if s == nil { // of several nodes: 1/data/… is 1_data/… in the dump
					s = sections[strings.Replace(name, "/", "_", 1)]
				}
				if s == nil {
					return // such as files of deleted partitions
				}
				lines := s.lines
				expect := func(got string) bool {
					if len(lines) == 0 {
						if !s.fell {
							t.Errorf("%s: the dump ends before %s", name, got)
						}
						return false
					}
					want := lines[0]
					lines = lines[1:]
					if !strings.HasPrefix(want, got) {
						t.Errorf("%s:\n got %s\nwant %s", name, got, want)
						return false
					}
					return true
				}
				var r Reader
				for pos := 0; pos < len(content); {
					e, err := FirstEntry(content[pos:])
					if err != nil {
						break // a torn tail, as the dump will tell
					}
					if !expect(dumpEntry(e, pos)) {
						return
					}
					batches++
					pos += len(e)
					if !s.deep {
						continue
					}
					if err := r.ResetEntry(e, 64<<20); err != nil && !s.fell {
						t.Errorf("%s: offset %d: %v", name, e.BaseOffset(), err)
					}
					for r.Next() {
						if !expect(dumpRecord(e, r.Record())) {
							return
						}
						records++
					}
					if r.Err() != nil && !s.fell {
						t.Errorf("%s: offset %d: %v", name, e.BaseOffset(), r.Err())
					}
				}
				if len(lines) > 0 {
					t.Errorf("%s: the dump goes on with %s", name, lines[0])
				}
			})
			if batches == 0 || records == 0 {
				t.Errorf("%d batches and %d records compared", batches, records)
			}
			t.Logf("%d batches, %d records", batches, records)
		})
	}
}

// The old formats that the command-line fixtures hold.
func TestOldFixtures(t *testing.T) {
	logs, err := filepath.Glob(filepath.Join(shared(t, "cli", "fixtures"), "old-*", "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	for _, log := range logs {
		content, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		var r Reader
		last := Offset(-1)
		for len(content) > 0 {
			e, err := FirstEntry(content)
			if err != nil {
				t.Fatalf("%s: after offset %d: %v", log, last, err)
			}
			content = content[len(e):]
			if err := e.Check(); err != nil {
				t.Errorf("%s: offset %d: %v", log, e.LastOffset(), err)
			}
			if err := r.ResetEntry(e, 1<<20); err != nil {
				t.Errorf("%s: offset %d: %v", log, e.LastOffset(), err)
			}
			for r.Next() {
				if o := r.Record().Offset; o <= last {
					t.Errorf("%s: offset %d after %d", log, o, last)
				} else {
					last = o
				}
			}
			if r.Err() != nil || last != e.LastOffset() {
				t.Errorf("%s: offset %d: ends at %d, %v", log, e.LastOffset(), last, r.Err())
			}
		}
	}
}

// A batch that Kafka wrote, taken apart and built again with what its reader tells, is the same to the byte where it is
// not compressed, and reads the same where it is.
func TestGoldensBuiltAgain(t *testing.T) {
	archives, err := filepath.Glob(filepath.Join(shared(t, "golden"), "*.tar.zst"))
	if err != nil {
		t.Fatal(err)
	}
	same, compressed := 0, 0
	for _, archive := range archives {
		eachFile(t, archive, func(name string, content []byte) {
			var r Reader
			for len(content) > 0 {
				e, err := FirstEntry(content)
				if err != nil {
					return
				}
				content = content[len(e):]
				if e.Magic() != 2 || e.Check() != nil {
					continue
				}
				b := e.Batch()
				if b.Codec() != None && raceEnabled {
					// A codec under the race detector takes twenty times as long: a fourth of their batches must do.
					if compressed++; compressed%4 != 0 {
						continue
					}
				}
				got := rebuild(t, &r, b)
				switch {
				case b.Codec() != None:
					if a, b := text(t, got), text(t, b); a != b {
						t.Errorf("%s %s: offset %d built again reads\n%.200s, want\n%.200s", archive, name, e.BaseOffset(), a, b)
						return
					}
				case !bytes.Equal(got, b):
					t.Errorf("%s %s: offset %d built again\n got %.100x\nwant %.100x", archive, name, b.BaseOffset(), got, []byte(b))
					return
				}
				same++
			}
		})
	}
	t.Logf("%d batches", same)
}

// rebuild builds a batch from what a reader tells of b.
func rebuild(t testing.TB, r *Reader, b Batch) Batch {
	t.Helper()
	if b.Count() == 0 {
		return AppendEmpty(nil, b)
	}
	w := NewBuilder()
	w.BaseOffset, w.LeaderEpoch, w.Codec, w.Attributes = b.BaseOffset(), b.LeaderEpoch(), b.Codec(), b.Attributes()&^AttrCodecMask
	w.ProducerID, w.ProducerEpoch, w.BaseSequence, w.LastOffsetDelta = b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), b.LastOffsetDelta()
	if b.HasDeleteHorizon() {
		w.DeleteHorizon = b.BaseTimestamp()
	}
	if b.IsLogAppendTime() && b.BaseTimestamp() != b.MaxTimestamp() {
		return b // the times that its producer gave are not read any more
	}
	if err := r.Reset(b, 64<<20); err != nil {
		t.Fatal(err)
	}
	for r.Next() {
		w.AddAt(int32(r.Record().Offset-b.BaseOffset()), *r.Record())
	}
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	got, err := w.Batch(nil)
	if err != nil {
		t.Fatal(err)
	}
	return got
}
