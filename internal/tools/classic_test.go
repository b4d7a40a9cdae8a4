package tools

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/quire-log/quire/internal/classic"
	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
	"github.com/quire-log/quire/quiretest"
)

// classicTool runs `quire classic` and returns its exit code and outputs.
func classicTool(t testing.TB, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, complaints bytes.Buffer
	code = classicCommand(Env{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &complaints}, args)
	return code, out.String(), complaints.String()
}

// An imported is a message as its import shows it.
type imported struct{ value, offset, index string }

// makeClassic makes a log of all kinds of entries and returns its messages.
func makeClassic(t testing.TB, dir string, entries int) (want []imported) {
	t.Helper()
	l, err := classic.Open(classic.Options{
		FS: vfs.OS(), Dir: dir, Partition: classic.TopicPartition{Topic: "my_topic"},
		Config: classic.Config{SegmentBytes: 300, MessageBytesMax: 1 << 20},
	})
	if err != nil {
		t.Fatal(err)
	}
	for n := range entries {
		text := fmt.Sprintf("message %d of the old log", n)
		m := classic.Message{Magic: byte(n % 2), Payload: []byte(text)}
		values := []string{text}
		if n%3 == 2 {
			values = []string{text, "", text + "!"}
			codec := record.Gzip
			if n%2 == 0 {
				codec = record.Snappy
			}
			if m, err = classic.Pack(codec, []byte(values[0]), nil, []byte(values[2])); err != nil {
				t.Fatal(err)
			}
		}
		offset, err := l.Append(m)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range values {
			index := ""
			if len(values) > 1 {
				index = fmt.Sprint(i)
			}
			want = append(want, imported{v, fmt.Sprint(offset), index})
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return want
}

// readImported reads a partition to its end with a client of today.
func readImported(t testing.TB, address, topic string, partition int32) (got []imported) {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ends, err := kadm.NewClient(c).ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup(topic, partition)
	for next := int64(0); next < end.Offset; {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("after %d of %d records: %v", len(got), end.Offset, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			next = r.Offset + 1
			if r.Attrs.IsControl() {
				return
			}
			m := imported{value: string(r.Value)}
			for _, h := range r.Headers {
				switch h.Key {
				case headerOffset:
					m.offset = string(h.Value)
				case headerIndex:
					m.index = string(h.Value)
				case headerSource:
					if string(h.Value) != "my_topic_0" {
						t.Errorf("source %q", h.Value)
					}
				}
			}
			got = append(got, m)
		})
	}
	return got
}

// What was imported is what was in the log, in order, whatever an earlier run has left to do.
func TestClassicImport(t *testing.T) {
	address := quiretest.Start(t).Addr()
	dir := filepath.Join(t.TempDir(), "my_topic-0") // as 0.7 named it
	want := makeClassic(t, dir, 30)
	c, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for done := 0; done <= len(want); done += 7 { // how far the run before came
		topic := fmt.Sprintf("imported-%d", done)
		for _, m := range want[:done] {
			r := &kgo.Record{Topic: topic, Value: []byte(m.value), Headers: []kgo.RecordHeader{{Key: headerSource, Value: []byte("my_topic_0")}, {Key: headerOffset, Value: []byte(m.offset)}}}
			if m.index != "" {
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: headerIndex, Value: []byte(m.index)})
			}
			if err := c.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		for run := range 2 {
			code, stdout, stderr := classicTool(t, "", "import", dir, "--topic", topic, "--bootstrap-server", address)
			if code != 0 || stderr != "" {
				t.Fatalf("%s: exit code %d\n%s%s", topic, code, stdout, stderr)
			}
			n := len(want) - done
			if run == 1 {
				n = 0
			}
			if !strings.HasPrefix(stdout, fmt.Sprintf("my_topic_0: imported %d messages into %s, partition 0", n, topic)) {
				t.Errorf("it says %s", stdout)
			}
			if got := readImported(t, address, topic, 0); !slices.Equal(got, want) {
				t.Fatalf("%s, run %d: %d messages\n%v, want %d\n%v", topic, run, len(got), got, len(want), want)
			}
		}
	}
}

// A run that is interrupted again and again imports everything once.
func TestClassicImportInterrupted(t *testing.T) {
	address := quiretest.Start(t).Addr()
	dir := filepath.Join(t.TempDir(), "my_topic_0")
	l, err := classic.Open(classic.Options{
		FS: vfs.OS(), Dir: dir, Partition: classic.TopicPartition{Topic: "my_topic"}, Config: classic.Config{SegmentBytes: 1 << 20, MessageBytesMax: 1 << 20},
	})
	if err != nil {
		t.Fatal(err)
	}
	var want []imported
	for n := range 400 {
		value := fmt.Sprintf("%d %s", n, strings.Repeat("x", 30_000))
		offset, err := l.Append(classic.Message{Payload: []byte(value)})
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, imported{value, fmt.Sprint(offset), ""})
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	interruptions := 0
	for run := 0; ; run++ {
		signals := make(chan os.Signal, 1)
		timer := time.AfterFunc(time.Duration(run*run+1)*2*time.Millisecond, func() { signals <- os.Interrupt })
		var stdout, stderr bytes.Buffer
		code := classicCommand(Env{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Interrupted: func() <-chan os.Signal { return signals }},
			[]string{"import", dir, "--topic", "t", "--bootstrap-server", address})
		timer.Stop()
		if code == 0 {
			break
		}
		interruptions++
		if run > 100 || !strings.Contains(stderr.String(), "interrupted; run it again to go on") {
			t.Fatalf("run %d: exit code %d\n%s%s", run, code, stdout.String(), stderr.String())
		}
	}
	got := readImported(t, address, "t", 0)
	if !slices.Equal(got, want) {
		t.Errorf("%d messages after %d interruptions, want %d", len(got), interruptions, len(want))
	}
}

// What is not valid stops an import where it is, or is told and left out.
func TestClassicImportInvalid(t *testing.T) {
	address := quiretest.Start(t).Addr()
	dir := filepath.Join(t.TempDir(), "my_topic_0")
	want := makeClassic(t, dir, 20)
	file := filepath.Join(dir, "00000000000.kafka")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	second := 4 + int(binary.BigEndian.Uint32(b))
	b[second+12]++ // in the payload of the second entry
	if err := os.WriteFile(file, b, 0o644); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := classicTool(t, "", "import", dir, "--topic", "t", "--bootstrap-server", address)
	if code != 1 || !regexp.MustCompile(fmt.Sprintf(`my_topic_0: imported 1 messages, then 00000000000\.kafka: no valid entry at byte %d, offset %d: crc`, second, second)).MatchString(stderr) {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if got := readImported(t, address, "t", 0); !slices.Equal(got, want[:1]) {
		t.Errorf("%d messages", len(got))
	}
	code, _, stderr = classicTool(t, "", "import", dir, "--topic", "t", "--bootstrap-server", address, "--skip-invalid")
	if code != 1 || !strings.Contains(stderr, "1 places were not valid and left out") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if got := readImported(t, address, "t", 0); !slices.Equal(got, slices.Delete(slices.Clone(want), 1, 2)) {
		t.Errorf("%d messages, want %d", len(got), len(want)-1)
	}
}

// A directory of topics goes partition by partition; two topics are one too many.
func TestClassicImportDirectory(t *testing.T) {
	address := quiretest.Start(t).Addr()
	root := t.TempDir()
	for i, dir := range []string{"my_topic_0", "my_topic_2"} {
		if code, _, stderr := classicTool(t, fmt.Sprintf("line of %d\n", i), "append", filepath.Join(root, dir)); code != 0 {
			t.Fatal(stderr)
		}
	}
	if code, _, stderr := classicTool(t, "", "import", root, "--topic", "t", "--bootstrap-server", address); code != 0 {
		t.Fatal(stderr)
	}
	for partition, n := range []int{2, 0, 2} { // one of two is the marker of the transaction
		got := 0
		c, err := kgo.NewClient(kgo.SeedBrokers(address))
		if err != nil {
			t.Fatal(err)
		}
		ends, err := kadm.NewClient(c).ListEndOffsets(t.Context(), "t")
		c.Close()
		if err != nil {
			t.Fatal(err)
		}
		end, _ := ends.Lookup("t", int32(partition))
		if got = int(end.Offset); got != n {
			t.Errorf("partition %d ends at %d, want %d", partition, got, n)
		}
	}
	if code, _, stderr := classicTool(t, "x\n", "append", filepath.Join(root, "other_0")); code != 0 {
		t.Fatal(stderr)
	}
	if code, _, stderr := classicTool(t, "", "import", root, "--topic", "t", "--bootstrap-server", address); code != 1 || !strings.Contains(stderr, "several topics") {
		t.Errorf("two topics: exit code %d, %s", code, stderr)
	}
}

func TestClassicAppendDumpVerify(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "my_topic_0")
	code, stdout, stderr := classicTool(t, "hello\nworld\n\nlast", "append", dir)
	if code != 0 || stderr != "" || stdout != "my_topic_0: 4 messages, offsets 0 to 50\n" {
		t.Fatalf("append: %d, %s%s", code, stdout, stderr)
	}
	if code, stdout, _ = classicTool(t, "a\nb\n", "append", dir, "--codec", "snappy"); code != 0 || !strings.HasPrefix(stdout, "my_topic_0: 2 messages, offsets 50 to ") {
		t.Fatalf("append packed: %d, %s", code, stdout)
	}
	if code, _, stderr = classicTool(t, "\x00\x01\n", "append", dir, "--magic", "1"); code != 0 {
		t.Fatal(stderr)
	}
	want := `Dumping my_topic_0: 00000000000.kafka
offset: 0 size: 14 magic: 0 codec: none crc: 3610a686 valid: true payload: hello
offset: 14 size: 14 magic: 0 codec: none crc: 3a771143 valid: true payload: world
offset: 28 size: 9 magic: 0 codec: none crc: 00000000 valid: true payload: 
offset: 37 size: 13 magic: 0 codec: none crc: 4adba9a0 valid: true payload: last
offset: 50 size: 54 magic: 1 codec: snappy crc: XXXXXXXX valid: true
| message: 0 size: 1 payload: a
| message: 1 size: 1 payload: b
offset: 104 size: 12 magic: 1 codec: none crc: 36de2269 valid: true payload-hex: 0001
`
	code, stdout, _ = classicTool(t, "", "dump", root)
	stdout = regexp.MustCompile(`(codec: snappy crc: )[0-9a-f]{8}`).ReplaceAllString(stdout, "${1}XXXXXXXX")
	if code != 0 || stdout != want {
		t.Errorf("dump: exit code %d\n%s\nwant\n%s", code, stdout, want)
	}
	if code, stdout, _ = classicTool(t, "", "verify", root); code != 0 || stdout != "my_topic_0: good: 6 entries, 7 messages, offsets 0 to 116 in 1 files\n" {
		t.Errorf("verify: %d, %s", code, stdout)
	}
	file := filepath.Join(dir, "00000000000.kafka")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(b []byte) []byte
		want   string
	}{
		{"magic", func(b []byte) []byte { b[18] = 9; return b }, "bad byte 18, offset 18, in the entry at byte 14: unknown magic 9"},
		{"payload", func(b []byte) []byte { b[9] = 'j'; return b }, "bad byte 0, offset 0, in the entry at byte 0: crc "},
		{"length", func(b []byte) []byte { b[28] = 0xff; return b }, "bad byte 28, offset 28, in the entry at byte 28: impossible length -16777211"},
		{"codec", func(b []byte) []byte { b[55] = 3; return b }, "bad byte 55, offset 55, in the entry at byte 50: unknown codec 3"},
		{"wrong codec", func(b []byte) []byte { b[55] = 1; return b }, "bad byte 50, offset 50, in the entry at byte 50: "},
		{"torn", func(b []byte) []byte { return b[:115] }, "bad byte 104, offset 104, in the entry at byte 104: the entry ends at byte 12 of 11"},
		{"zeros", func(b []byte) []byte { return append(b, make([]byte, 100)...) }, "bad byte 116, offset 116, in the entry at byte 116: impossible length 0"},
	} {
		if err := os.WriteFile(file, c.change(bytes.Clone(good)), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, target := range []string{root, dir, file} {
			code, stdout, _ := classicTool(t, "", "verify", target)
			if code != 1 || !strings.Contains(stdout, "00000000000.kafka: "+c.want) {
				t.Errorf("%s: exit code %d, %s; want %s", c.name, code, stdout, c.want)
			}
		}
		// Damage is shown, and no reason for dump to fail.
		if code, stdout, _ := classicTool(t, "", "dump", dir); code != 0 || !strings.Contains(stdout, "valid: false") {
			t.Errorf("%s: dump: exit code %d\n%s", c.name, code, stdout)
		}
	}
	if err := os.WriteFile(file, good, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "00000000200.kafka"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if code, stdout, _ := classicTool(t, "", "verify", dir); code != 1 || !strings.Contains(stdout, "00000000200.kafka: bad byte 0, offset 200, in the entry at byte 0: offsets 116 to 199 are missing before this file") {
		t.Errorf("a gap: %d, %s", code, stdout)
	}
}

func TestClassicWrongUse(t *testing.T) {
	empty := t.TempDir()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 2, "Usage: quire classic"},
		{[]string{"frobnicate"}, 2, `no command "frobnicate"`},
		{[]string{"dump"}, 2, "one directory, not 0"},
		{[]string{"dump", empty}, 1, "neither a file of a log"},
		{[]string{"verify", filepath.Join(empty, "nowhere")}, 1, "no such file"},
		{[]string{"dump", empty, "--payload", "xml"}, 2, "one of auto, text, hex, none"},
		{[]string{"append", empty + "/t"}, 2, "named TOPIC_NUMBER"},
		{[]string{"append", empty + "/t_0", "--codec", "lz4"}, 2, "one of none, gzip, snappy"},
		{[]string{"append", empty + "/t_0", "--magic", "2"}, 2, "0 or 1"},
		{[]string{"import", empty}, 2, "--topic and --bootstrap-server are needed"},
		{[]string{"serve", empty, "--listen", "nonsense"}, 1, "nonsense"},
		{[]string{"serve", empty, "--partitions", "1000000"}, 1, "at most 100000"},
	} {
		code, _, stderr := classicTool(t, "", c.args...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit code %d, %s; want %d, %s", c.args, code, stderr, c.code, c.want)
		}
	}
	if code, stdout, _ := classicTool(t, "", "--help"); code != 0 || !strings.Contains(stdout, "verify DIR") {
		t.Errorf("help: %d, %s", code, stdout)
	}
	if code, _, stderr := classicTool(t, strings.Repeat("x", 100)+"\n", "append", empty+"/t_0", "--max-message-bytes", "99"); code != 1 || !strings.Contains(stderr, "line 1: it has more than 99 bytes") {
		t.Errorf("a long line: %d, %s", code, stderr)
	}
}

// `quire classic serve` answers until it is told to stop.
func TestClassicServe(t *testing.T) {
	root := t.TempDir()
	if code, _, stderr := classicTool(t, "hello\n", "append", filepath.Join(root, "my_topic_0")); code != 0 {
		t.Fatal(stderr)
	}
	signals := make(chan os.Signal, 1)
	var stdout, stderr lockedBuffer
	code := make(chan int)
	go func() {
		code <- classicCommand(Env{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Interrupted: func() <-chan os.Signal { return signals }},
			[]string{"serve", root, "--listen", "127.0.0.1:0"})
	}()
	ready := regexp.MustCompile(`find 1 logs at (127\.0\.0\.1:\d+);`)
	for deadline := time.Now().Add(time.Minute); !ready.MatchString(stdout.String()); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never ready:\n%s", stderr.String())
		}
	}
	conn, err := net.Dial("tcp", ready.FindStringSubmatch(stdout.String())[1])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// A fetch of my_topic, partition 0, offset 0, at most 1000 bytes.
	if _, err := conn.Write([]byte("\x00\x00\x00\x1c\x00\x01\x00\x08my_topic\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03\xe8")); err != nil {
		t.Fatal(err)
	}
	want := "\x00\x00\x00\x10\x00\x00\x00\x00\x00\x0a\x00\x36\x10\xa6\x86hello"
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
		t.Errorf("answer %q, %v; want %q", got, err, want)
	}
	signals <- syscall.SIGTERM
	if c := <-code; c != 0 {
		t.Errorf("exit code %d:\n%s", c, stderr.String())
	}
}
