package tools

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

// testdata/metadatashell holds a snapshot that Kafka 4.3.1 wrote, and what kafka-metadata-shell.sh of the same version printed of it on
// standard output. The node had an authorizer, SASL (PLAIN and SCRAM), a rack and a key for delegation tokens. Kafka's tools gave it three
// topics (one with configs), configs of a broker, of all brokers, of a group and of client metrics, a user's SCRAM credentials, quotas of
// a user, a client (one with a slash), an address, and of both a user and a client with characters that are escaped, three ACLs, and a
// token; then it was started again with metadata.log.max.record.bytes.between.snapshots=1000.
//
//	walk.out, history.out  kafka-metadata-shell.sh --snapshot kafka.checkpoint <walk.in (history.in)
//	tree.out               kafka-metadata-shell.sh --snapshot kafka.checkpoint tree /
const shellSnapshot = "testdata/metadatashell/kafka.checkpoint"

// runShell runs kafka-metadata-shell. What it logs comes without the time.
func runShell(t testing.TB, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = kafkaMetadataShell(Env{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs}, args)
	for line := range strings.Lines(errs.String()) {
		if _, rest, ok := strings.Cut(line, "] ERROR "); ok && line[0] == '[' {
			line = "ERROR " + rest
		}
		stderr += line
	}
	return code, out.String(), stderr
}

const shellSnapshotLog = `ERROR Ignoring control record with type SNAPSHOT_HEADER at offset 0 (org.apache.kafka.metadata.util.SnapshotFileReader)
ERROR Ignoring control record with type SNAPSHOT_FOOTER at offset 42 (org.apache.kafka.metadata.util.SnapshotFileReader)
`

func TestMetadataShellIsKafkas(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("testdata/metadatashell", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, session := range []string{"walk", "history"} {
		code, stdout, stderr := runShell(t, read(session+".in"), "--snapshot", shellSnapshot)
		if diff := cmp.Diff(read(session+".out"), stdout); diff != "" || code != 0 || stderr != shellSnapshotLog {
			t.Errorf("%s: exit code %d, stderr %q, stdout (-Kafka's +ours)\n%s", session, code, stderr, diff)
		}
	}
	code, stdout, _ := runShell(t, "", "-s", shellSnapshot, "tree", "/")
	if diff := cmp.Diff(read("tree.out"), stdout); diff != "" || code != 0 {
		t.Errorf("tree: exit code %d, stdout (-Kafka's +ours)\n%s", code, diff)
	}
}

// shellBatch is a batch of metadata records as a log has it.
func shellBatch(base record.Offset, epoch record.Epoch, records ...kmeta.Record) []byte {
	b := record.NewBuilder()
	b.BaseOffset, b.LeaderEpoch = base, epoch
	for _, r := range records {
		b.Add(record.Record{Timestamp: 1_700_000_000_000 + int64(base), Value: kmeta.AppendValue(nil, r, -1)})
	}
	out, err := b.Batch(nil)
	if err != nil {
		panic(err)
	}
	return out
}

// writeShellFile writes pieces of a log to a file of its own.
func writeShellFile(t testing.TB, name string, pieces ...[]byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, bytes.Join(pieces, nil), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func quotaOf(user string, rate float64) kmeta.Record {
	return &kmeta.ClientQuotaRecord{Entity: []kmeta.EntityData{{EntityType: "user", EntityName: &user}}, Key: "rate", Value: rate}
}

// A segment's records show batch by batch, those of a metadata transaction once it ends.
func TestMetadataShellSegment(t *testing.T) {
	id := kmeta.UUID{15: 200}
	topic := []kmeta.Record{&kmeta.TopicRecord{Name: "t", TopicID: id}, &kmeta.PartitionRecord{TopicID: id, Replicas: []int32{1}, ISR: []int32{1}, Leader: 1}}
	leader := record.NewBuilder()
	leader.Attributes, leader.BaseOffset = record.AttrControl, 0
	leader.Add(record.Record{Key: record.AppendControlKey(nil, record.ControlLeaderChange), Value: kmeta.AppendControl(nil, &kmeta.LeaderChange{LeaderID: 1}, -1)})
	head, err := leader.Batch(nil)
	if err != nil {
		t.Fatal(err)
	}
	whole := shellBatch(1, 3, quotaOf("a", 1))
	tests := []struct {
		name   string
		pieces [][]byte
		shows  string // find /image/clientQuotas /image/topics/byName, then the provenance
		logs   string
	}{
		{"batches", [][]byte{head, whole, shellBatch(2, 3, topic...)},
			"user(a) user(a)/rate t t/0 t/id t/name offset 3, epoch 3, time 2023-11-14T22:13:20.002Z[UTC]", ""},
		{"a transaction that ends",
			[][]byte{head, shellBatch(1, 3, quotaOf("a", 1), &kmeta.BeginTransactionRecord{}, topic[0]), shellBatch(4, 3, topic[1], &kmeta.EndTransactionRecord{})},
			"user(a) user(a)/rate t t/0 t/id t/name offset 5, epoch 3, time 2023-11-14T22:13:20.004Z[UTC]", ""},
		{"a transaction that is open",
			[][]byte{head, shellBatch(1, 3, quotaOf("a", 1), &kmeta.BeginTransactionRecord{}, topic[0]), shellBatch(4, 3, topic[1])},
			"user(a) user(a)/rate offset 1, epoch 3, time 2023-11-14T22:13:20.001Z[UTC]", ""},
		{"a transaction that never was",
			[][]byte{head, shellBatch(1, 3, &kmeta.BeginTransactionRecord{}, topic[0]), shellBatch(3, 3, &kmeta.AbortTransactionRecord{}), shellBatch(4, 3, quotaOf("a", 1))},
			"user(a) user(a)/rate offset 4, epoch 3, time 2023-11-14T22:13:20.004Z[UTC]", ""},
		{"a torn end", [][]byte{head, whole, shellBatch(2, 3, topic...)[:80]},
			"user(a) user(a)/rate offset 1, epoch 3, time 2023-11-14T22:13:20.001Z[UTC]", ""},
		{"not the log's first", [][]byte{shellBatch(70, 3, topic[1], quotaOf("a", 1), &kmeta.EndTransactionRecord{})},
			"user(a) user(a)/rate offset 72, epoch 3, time 2023-11-14T22:13:20.07Z[UTC]",
			`ERROR Encountered shell fault: Error loading metadata log record from offset 72 (org.apache.kafka.server.fault.LoggingFaultHandler)
java.lang.IllegalStateException: no metadata transaction is open
ERROR Encountered shell fault: Error loading metadata log record from offset 70 (org.apache.kafka.server.fault.LoggingFaultHandler)
java.lang.IllegalStateException: no topic with id AAAAAAAAAAAAAAAAAAAAyA
`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := writeShellFile(t, "00000000000000000000.log", test.pieces...)
			_, found, logs := runShell(t, "", "-s", path, "find", "/image/clientQuotas", "/image/topics/byName")
			_, provenance, _ := runShell(t, "", "-s", path, "cat", "/image/provenance")
			var shows []string
			for line := range strings.Lines(found) {
				for _, dir := range []string{"/image/clientQuotas/", "/image/topics/byName/"} {
					if rest, ok := strings.CutPrefix(line, dir); ok {
						shows = append(shows, strings.TrimSpace(rest))
					}
				}
			}
			got := strings.Join(append(shows, strings.TrimSpace(provenance)), " ")
			if got != test.shows || logs != test.logs {
				t.Errorf("shows %q, want %q\nlogs\n%swant\n%s", got, test.shows, logs, test.logs)
			}
		})
	}
}

func TestMetadataShellBadFiles(t *testing.T) {
	good, err := os.ReadFile(shellSnapshot)
	if err != nil {
		t.Fatal(err)
	}
	flipped := slices.Clone(good)
	flipped[1000] ^= 1
	senseless := record.NewBuilder()
	senseless.Add(record.Record{Value: []byte{1, 99, 0}})
	unknown, err := senseless.Batch(nil)
	if err != nil {
		t.Fatal(err)
	}
	control := record.NewBuilder()
	control.Attributes = record.AttrControl
	control.Add(record.Record{Key: []byte{0}, Value: nil})
	badControl, err := control.Batch(nil)
	if err != nil {
		t.Fatal(err)
	}
	old := append(make([]byte, 8), 0, 0, 0, 14, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	tests := []struct {
		name  string
		bytes []byte
		want  string // the last line of standard error, FILE for the path
	}{
		{"empty", nil, "Unexpected error: FILE: no snapshot and no segment of a metadata log: there is no whole batch in its 0 bytes"},
		{"text", []byte(strings.Repeat("hello, world\n", 50)), "Unexpected error: FILE: no snapshot and no segment of a metadata log: there is no whole batch in its 650 bytes"},
		{"zeros", make([]byte, 1000), "Unexpected error: FILE: corrupt at byte 0, before any record: Found record size 0 smaller than minimum record overhead (14) in file FILE."},
		{"a flipped bit", flipped, "Unexpected error: FILE: corrupt at byte 83, before any record: the checksum is wrong"},
		{"cut within a batch", good[:1500], "Unexpected error: FILE: the snapshot is not whole: it ends at byte 1500, before any record, without a footer"},
		{"cut before the footer", good[:len(good)-75], "Unexpected error: FILE: the snapshot is not whole: it ends at byte 2778, after offset 41, without a footer"},
		{"an unknown record", append(shellBatch(0, 1, quotaOf("a", 1)), unknown...),
			"Unexpected error: FILE: corrupt at byte 95, after offset 0: unable to read metadata record at offset 0: unknown metadata record type 99, version 0"},
		{"nothing but control records", badControl, "Unexpected error: FILE: there are no metadata records in it"},
		{"a message set", old, "Unexpected error: FILE: corrupt at byte 0, before any record: a message set of magic 1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := writeShellFile(t, "x.checkpoint", test.bytes)
			code, stdout, stderr := runShell(t, "", "--snapshot", path, "ls")
			lines := strings.Split(strings.TrimSpace(stderr), "\n")
			last := strings.ReplaceAll(lines[len(lines)-1], path, "FILE")
			if code != 1 || stdout != "" || last != test.want {
				t.Errorf("exit code %d, stdout %q, stderr ends with\n%s\nwant\n%s", code, stdout, last, test.want)
			}
		})
	}
}

// A node that runs has the lock of its directory, and then nobody looks into its files.
func TestMetadataShellLock(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "__cluster_metadata-0", "00000000000000000000.log")
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, shellBatch(0, 1, quotaOf("a", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := runShell(t, "", "-s", path, "ls"); code != 0 {
		t.Fatalf("without a lock file: exit code %d, %s", code, stderr)
	}
	lock, err := vfs.OS().Lock(filepath.Join(dir, ".lock"))
	if err != nil {
		t.Fatal(err)
	}
	code, _, stderr := runShell(t, "", "-s", path, "ls")
	want := fmt.Sprintf("Unable to lock %s. Please ensure that no broker or controller process is using this directory before proceeding.", dir)
	if want = fmt.Sprintf("Unexpected error: %s\njava.lang.RuntimeException: %[1]s\n", want); code != 1 || stderr != want {
		t.Errorf("with a node: exit code %d, stderr\n%swant\n%s", code, stderr, want)
	}
	lock.Close()
	if code, _, stderr := runShell(t, "pwd\n", "-s", path); code != 0 {
		t.Errorf("after the node: exit code %d, %s", code, stderr)
	}
	if lock, err = vfs.OS().Lock(filepath.Join(dir, ".lock")); err != nil {
		t.Errorf("the shell kept the lock: %v", err)
	} else {
		lock.Close()
	}
}

// Records that name a high partition of many topics take no memory for those in between.
func TestMetadataShellBoundsPartitions(t *testing.T) {
	var records []kmeta.Record
	for n := range 2000 {
		id := kmeta.UUID{0: 1, 14: byte(n >> 8), 15: byte(n)}
		records = append(records, &kmeta.TopicRecord{Name: fmt.Sprint("t", n), TopicID: id}, &kmeta.PartitionRecord{TopicID: id, PartitionID: 1<<20 - 1, Leader: 1})
	}
	path := writeShellFile(t, "00000000000000000000.log", shellBatch(0, 1, records...))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	code, stdout, _ := runShell(t, "", "-s", path, "ls", "/image/topics/byName/t1999")
	runtime.ReadMemStats(&after)
	if code != 0 || stdout != "id\nname\n" {
		t.Errorf("exit code %d, stdout %q", code, stdout)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<30 { // two thousand lists of a million would be 16 GiB
		t.Errorf("%d bytes were allocated", took)
	}
}

// What Kafka's shell cannot name or cannot show is shown all the same.
func TestMetadataShellOwnNames(t *testing.T) {
	name := func(s string) *string { return &s }
	quota := func(value float64, entity ...kmeta.EntityData) kmeta.Record {
		return &kmeta.ClientQuotaRecord{Entity: entity, Key: "rate", Value: value}
	}
	snapshot := metadata.Snapshot{Epoch: 2, Records: []kmeta.Record{
		quota(1, kmeta.EntityData{EntityType: "user"}, kmeta.EntityData{EntityType: "client-id", EntityName: name(`a\(b)`)}),
		quota(2, kmeta.EntityData{EntityType: "ip"}),
		quota(3, kmeta.EntityData{EntityType: "user", EntityName: name("")}),
		&kmeta.ConfigRecord{ResourceType: 2, ResourceName: "t", Name: "of.a.later.version", Value: name("x")},
	}}
	file, err := snapshot.AppendTo(nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	path := writeShellFile(t, "x.checkpoint", file)
	_, stdout, _ := runShell(t, "", "-s", path, "tree", "/image/clientQuotas", "/image/configs")
	want := `clientId(a\\\(b\))_user(<default>):
  rate:
    1.0
ip(<default>):
  rate:
    2.0
user():
  rate:
    3.0
TOPIC:t:
  of.a.later.version:
    x
`
	if diff := cmp.Diff(want, stdout); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A registration is told as Kafka tells it, with the order that Java gives its parts.
func TestMetadataShellRegistrations(t *testing.T) {
	id, high := kmeta.UUID{0: 9, 15: 7}, kmeta.UUID{0: 0x80}
	rack := ""
	image, _, err := metadata.NewReplayer(metadata.Empty()).Replay([]kmeta.Record{
		&kmeta.RegisterBrokerRecord{BrokerID: 3, BrokerEpoch: 5, IncarnationID: id, Fenced: true,
			EndPoints: []kmeta.Endpoint{{Name: "Z", Host: "h", Port: 1, SecurityProtocol: 3}, {Name: "A", Port: 65535, SecurityProtocol: 1}},
			Features:  []kmeta.Feature{{Name: "z", MinSupportedVersion: 2, MaxSupportedVersion: 2}, {Name: "a", MaxSupportedVersion: 32767}, {Name: "b", MinSupportedVersion: 1, MaxSupportedVersion: 3}},
			LogDirs:   []kmeta.UUID{id, {15: 3}, high}, CordonedLogDirs: []kmeta.UUID{}},
		&kmeta.RegisterBrokerRecord{BrokerID: 20, BrokerEpoch: 6, IncarnationID: id, InControlledShutdown: true, Rack: &rack},
	}, 9, 1)
	if err != nil {
		t.Fatal(err)
	}
	for broker, want := range map[int32]string{
		3: "BrokerRegistration(id=3, epoch=5, incarnationId=CQAAAAAAAAAAAAAAAAAABw, listeners=[Endpoint(listenerName='A', securityProtocol=SSL, host='', port=65535)," +
			" Endpoint(listenerName='Z', securityProtocol=SASL_SSL, host='h', port=1)], supportedFeatures={a: 0+, b: 1-3, z: 2}, rack=Optional.empty, fenced=true," +
			" inControlledShutdown=false, isMigratingZkBroker=false, directories=[gAAAAAAAAAAAAAAAAAAAAA, AAAAAAAAAAAAAAAAAAAAAw, CQAAAAAAAAAAAAAAAAAABw], cordonedDirectories=[])",
		20: "BrokerRegistration(id=20, epoch=6, incarnationId=CQAAAAAAAAAAAAAAAAAABw, listeners=[], supportedFeatures={}, rack=Optional[], fenced=false," +
			" inControlledShutdown=true, isMigratingZkBroker=false, directories=[], cordonedDirectories=null)",
	} {
		if got := brokerText(image.Broker(broker)); got != want {
			t.Errorf("broker %d:\n%s\nwant\n%s", broker, got, want)
		}
	}
}

// failingWriter is an output that nobody reads.
type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("nobody reads") }

func TestMetadataShellWithoutReader(t *testing.T) {
	env := Env{Stdin: strings.NewReader(strings.Repeat("tree /\n", 1000)), Stdout: failingWriter{}, Stderr: failingWriter{}}
	if code := kafkaMetadataShell(env, []string{"-s", shellSnapshot}); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// Whatever a batch's records are, the shell goes through them and ends.
func FuzzMetadataShell(f *testing.F) {
	id := kmeta.UUID{15: 200}
	for _, r := range []kmeta.Record{quotaOf("a", 1), &kmeta.TopicRecord{Name: "t", TopicID: id}, &kmeta.PartitionRecord{TopicID: id, PartitionID: 5},
		&kmeta.BeginTransactionRecord{}, &kmeta.EndTransactionRecord{}, &kmeta.RegisterBrokerRecord{BrokerID: 1}, &kmeta.FeatureLevelRecord{Name: "f", FeatureLevel: 1}} {
		value := kmeta.AppendValue(nil, r, -1)
		f.Add(append([]byte{byte(len(value))}, value...), false)
	}
	f.Add([]byte{4, 0, 0, 0, 3, 2, 0, 0}, true)
	f.Fuzz(func(t *testing.T, values []byte, control bool) {
		b := record.NewBuilder()
		if control {
			b.Attributes = record.AttrControl
		}
		for len(values) > 0 {
			n := min(int(values[0]), len(values)-1)
			b.Add(record.Record{Key: values[1 : 1+n], Value: values[1 : 1+n]})
			values = values[1+n:]
		}
		file, err := b.Batch(nil)
		if err != nil || b.Len() > 0 {
			t.Skip()
		}
		path := writeShellFile(t, "x.log", file)
		if code, _, _ := runShell(t, "cd /image/{topics,clientQuotas}/*\ntree .\nls /*/*\n", "-s", path); code != 0 && code != 1 {
			t.Errorf("exit code %d", code)
		}
		runShell(t, "", "-s", path, "find", "/")
	})
}
