package storage

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/quire-log/quire/internal/golden"
	"github.com/quire-log/quire/internal/vfs"
)

// A goldenPartition is what Kafka says of a partition.
type goldenPartition struct {
	Partition     string
	LogStart      Offset
	LastStable    Offset
	HighWatermark Offset
	LogEnd        Offset
	MaxTimestamp  struct {
		Offset    Offset
		Timestamp int64
	}
	Producers []struct {
		ID               int64
		Epoch            int16
		LastSequence     int32
		LastTimestamp    int64
		CoordinatorEpoch int32
		TxnStart         Offset
	}
}

// goldenContents reads the lines of contents.txt that describe partitions.
func goldenContents(t testing.TB, name string) map[string]goldenPartition {
	t.Helper()
	content, err := os.ReadFile(golden.Shared(t, "golden", name, "contents.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if diff, err := os.ReadFile(filepath.Join(golden.Shared(t, "golden", name), "after-restart.diff")); err == nil {
		for line := range bytes.Lines(diff) { // what a restart changes is what is seen here
			if after, ok := bytes.CutPrefix(line, []byte("< ")); ok {
				content = append(content, after...)
			}
		}
	}
	all := map[string]goldenPartition{}
	for lines := bufio.NewReader(bytes.NewReader(content)); ; {
		line, err := lines.ReadBytes('\n')
		if bytes.HasPrefix(line, []byte(`{"partition"`)) {
			var p goldenPartition
			if err := json.Unmarshal(line, &p); err != nil {
				t.Fatal(err)
			}
			all[p.Partition] = p
		}
		if err != nil {
			return all
		}
	}
}

var (
	topicLine   = regexp.MustCompile(`(?m)^Topic: (\S+)\s.*Configs: (\S+)$`)
	intSettings = map[string]func(*Config, int64){
		"index.interval.bytes": func(c *Config, v int64) { c.IndexInterval = int32(v) },
		"segment.bytes":        func(c *Config, v int64) { c.SegmentBytes = int32(v) },
		"segment.index.bytes":  func(c *Config, v int64) { c.IndexBytesMax = int32(v) },
		"segment.ms":           func(c *Config, v int64) { c.SegmentMs = v },
	}
)

// goldenConfigs reads the settings of topics from admin.txt.
func goldenConfigs(t testing.TB, name string) func(topic string) Config {
	t.Helper()
	b, err := os.ReadFile(golden.Shared(t, "golden", name, "admin.txt"))
	if err != nil {
		t.Fatal(err)
	}
	configs := map[string]Config{}
	for _, m := range topicLine.FindAllSubmatch(b, -1) {
		c := DefaultConfig()
		for setting := range strings.SplitSeq(string(m[2]), ",") {
			key, value, _ := strings.Cut(setting, "=")
			if set := intSettings[key]; set != nil {
				n, err := strconv.ParseInt(value, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				set(&c, n)
			}
			c.Preallocate = c.Preallocate || setting == "preallocate=true"
		}
		configs[string(m[1])] = c
	}
	return func(topic string) Config {
		c, ok := configs[topic]
		if !ok {
			c = DefaultConfig()
		}
		c.ProducerExpirationMs = math.MaxInt64
		return c
	}
}

// goldenFiles reads a files.txt: the sum of each file by its path.
func goldenFiles(t testing.TB, elem ...string) map[string]string {
	t.Helper()
	b, err := os.ReadFile(golden.Shared(t, append([]string{"golden"}, elem...)...))
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(b)) {
		f := strings.SplitN(strings.TrimSpace(line), " ", 3)
		sums[f[2]] = f[0]
	}
	return sums
}

// openGolden opens one partition's directory of an unpacked golden.
func openGolden(t testing.TB, data, dir string, cfg func(string) Config, events func(Event)) *Log {
	t.Helper()
	fsys := vfs.OS()
	tp, kind, ok := parseDirName(dir)
	if !ok || kind != dirLive {
		t.Fatalf("%s is no partition's directory", dir)
	}
	points := map[string]map[TopicPartition]Offset{}
	for _, name := range []string{recoveryPointFile, logStartFile} {
		offsets, err := readOffsetCheckpoint(fsys, filepath.Join(data, name))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		points[name] = offsets
	}
	_, err := os.Stat(filepath.Join(data, ".kafka_cleanshutdown"))
	l, err := OpenLog(LogOptions{
		FS: fsys, Dir: filepath.Join(data, dir), Partition: tp, Config: cfg(tp.Topic), Clean: err == nil,
		RecoveryPoint: points[recoveryPointFile][tp], LogStart: points[logStartFile][tp], Metadata: tp == MetadataPartition, Events: events,
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// partitionDirs lists the partitions' directories under root, as data/topic-0.
func partitionDirs(t testing.TB, root string) (dirs []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range found {
		_, kind, ok := parseDirName(filepath.Base(d))
		if info, err := os.Stat(d); err == nil && info.IsDir() && ok && kind == dirLive {
			dirs = append(dirs, d)
		}
	}
	return dirs
}

// sums returns the sum of each file in dir by its path from root.
func sums(t testing.TB, root, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		rel, _ := filepath.Rel(root, filepath.Join(dir, e.Name()))
		all[rel] = fmt.Sprintf("%x", sha256.Sum256(b))
	}
	return all
}

// wantSums compares a partition's files with what Kafka made of them.
func wantSums(t *testing.T, root, dir string, want map[string]string, ignore func(name string) bool) {
	t.Helper()
	got := sums(t, root, dir)
	rel, _ := filepath.Rel(root, dir)
	names := map[string]bool{}
	for n := range got {
		names[n] = true
	}
	for n := range want {
		if filepath.Dir(n) == rel {
			names[n] = true
		}
	}
	for n := range names {
		if strings.HasSuffix(n, windowSuffix) {
			continue // ours alone
		}
		if got[n] != want[n] && !ignore(filepath.Base(n)) {
			info, _ := os.Stat(filepath.Join(root, n))
			size := int64(-1)
			if info != nil {
				size = info.Size()
			}
			t.Errorf("%s: sum %.8s, Kafka's %.8s (%d bytes)", n, got[n], want[n], size)
		}
	}
}

// wantContents compares what a log says of itself with what Kafka said.
func wantContents(t *testing.T, l *Log, p goldenPartition) {
	t.Helper()
	if l.StartOffset() != p.LogStart || l.EndOffset() != p.LogEnd || l.LastStableOffset(p.HighWatermark) != p.LastStable {
		t.Errorf("start %d, end %d, stable %d; Kafka: %d, %d, %d", l.StartOffset(), l.EndOffset(), l.LastStableOffset(p.HighWatermark), p.LogStart, p.LogEnd, p.LastStable)
	}
	largest, err := l.OffsetOfMaxTimestamp()
	if err != nil {
		t.Fatal(err)
	}
	if largest.Offset != p.MaxTimestamp.Offset || largest.Timestamp != p.MaxTimestamp.Timestamp {
		t.Errorf("greatest time %d at %d, Kafka: %d at %d", largest.Timestamp, largest.Offset, p.MaxTimestamp.Timestamp, p.MaxTimestamp.Offset)
	}
	var got, want []string
	for _, q := range l.Producers() {
		got = append(got, fmt.Sprint(q))
	}
	for _, q := range p.Producers {
		want = append(want, fmt.Sprint(ProducerInfo{q.ID, q.Epoch, q.LastSequence, q.LastTimestamp, q.CoordinatorEpoch, q.TxnStart}))
	}
	sort.Strings(got)
	sort.Strings(want)
	if !slices.Equal(got, want) {
		t.Errorf("producers %v\nKafka: %v", got, want)
	}
}

// Kafka's clean directories open without a byte being read that need not be, say what Kafka said, and are the same bytes afterwards.
func TestGoldenClean(t *testing.T) {
	for _, name := range []string{"plain-clean", "transactions-v0", "transactions-v1", "transactions-v2", "groups",
		"compacted-1-before", "compacted-1-after", "compacted-2-before", "compacted-2-after", "jbod"} {
		t.Run(name, func(t *testing.T) {
			root := golden.Unpack(t, name)
			contents, cfg, want := goldenContents(t, name), goldenConfigs(t, name), goldenFiles(t, name, "files.txt")
			for _, dir := range partitionDirs(t, root) {
				base := filepath.Base(dir)
				p, known := contents[base]
				if !known || base == "__share_group_state-2" { // its start moved after it was asked
					continue
				}
				t.Run(base, func(t *testing.T) {
					l := openGolden(t, filepath.Dir(dir), base, cfg, func(e Event) {
						if e.Kind == "recover" && !strings.HasSuffix(e.Cause, "its deletion was decided before the stop") || e.Kind == "rebuild-index" {
							t.Errorf("%s at %d: %s", e.Kind, e.Offset, e.Cause)
						}
					})
					wantContents(t, l, p)
					if err := l.Close(); err != nil {
						t.Fatal(err)
					}
					wantSums(t, root, dir, want, func(n string) bool {
						o, suffix, ok := parseFileName(n)
						stray := ok && suffix == snapshotSuffix && (o < l.EndOffset() || want[filepath.Join("data", base, n)] == "") // Kafka's next start removes or makes it, too
						return strings.HasSuffix(n, deletedSuffix) || n == epochFileName || stray
					})
				})
			}
		})
	}
}

// The metadata log is read whole at every start, and stays as it is.
func TestGoldenMetadataLog(t *testing.T) {
	for _, name := range []string{"plain-clean", "metadata-rich"} {
		t.Run(name, func(t *testing.T) {
			root := golden.Unpack(t, name)
			dir := filepath.Join(root, "data", "__cluster_metadata-0")
			l := openGolden(t, filepath.Dir(dir), filepath.Base(dir), goldenConfigs(t, name), nil)
			if l.EndOffset() < 100 {
				t.Errorf("it ends at %d", l.EndOffset())
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			wantSums(t, root, dir, goldenFiles(t, name, "files.txt"), func(n string) bool {
				return strings.HasSuffix(n, deletedSuffix) || strings.HasSuffix(n, snapshotSuffix)
			})
		})
	}
}

// What a kill left is recovered to the same bytes as Kafka recovers it to.
func TestGoldenRecovered(t *testing.T) {
	// Where we differ from Kafka on purpose: it empties a segment for one batch of earlier offsets.
	// three-2 lost its partition.metadata, which the manager judges; v1-compacted-0 was compacted before Kafka stopped.
	differs := map[string]bool{"plain-torn/out-of-order-0": true, "plain-torn/three-2": true, "old-formats/v1-compacted-0": true}
	for _, name := range []string{"plain-killed", "plain-torn", "old-formats"} {
		t.Run(name, func(t *testing.T) {
			root := golden.Unpack(t, name)
			cfg, want := goldenConfigs(t, name), goldenFiles(t, name, "recovered", "files.txt")
			for _, dir := range partitionDirs(t, root) {
				base := filepath.Base(dir)
				if base == "__cluster_metadata-0" || differs[name+"/"+base] {
					continue
				}
				t.Run(base, func(t *testing.T) {
					l := openGolden(t, filepath.Dir(dir), base, cfg, nil)
					for _, e := range []Epoch{0, 2} { // the epoch before the kill is led on until the next is elected
						if err := l.AssignEpoch(e); err != nil {
							t.Fatal(err)
						}
					}
					// A reign without records is in Kafka's file, and would not be in ours (decision 2): write it all the same.
					if err := l.epochs.save(l.EndOffset() + 1); err != nil {
						t.Fatal(err)
					}
					if err := l.Close(); err != nil {
						t.Fatal(err)
					}
					wantSums(t, root, dir, want, func(n string) bool {
						// Kafka lost the line of the first reign here, which our file has still.
						return n == ".hidden" || base == "from-none-0" && name == "plain-torn" && n == epochFileName
					})
				})
			}
		})
	}
}

// One batch whose offsets lie before those of its predecessor costs that batch alone.
func TestGoldenOutOfOrderBatch(t *testing.T) {
	root := golden.Unpack(t, "plain-torn")
	l := openGolden(t, filepath.Join(root, "data"), "out-of-order-0", goldenConfigs(t, "plain-torn"), nil)
	defer l.Close()
	if l.EndOffset() != 18 {
		t.Errorf("the log ends at %d, want 18", l.EndOffset())
	}
}

func TestIndexEntryBytes(t *testing.T) {
	offsets := appendOffsetEntry(appendOffsetEntry(nil, 37, 4200), 81, 8391)
	if got, want := hex.EncodeToString(offsets), "0000002500001068"+"00000051000020c7"; got != want {
		t.Errorf("offset entries = %s, want %s", got, want)
	}
	times := appendTimeEntry(appendTimeEntry(nil, 1767225601000, 37), 1767225602500, 81)
	if got, want := hex.EncodeToString(times), "0000019b76daabe800000025"+"0000019b76dab1c400000051"; got != want {
		t.Errorf("time entries = %s, want %s", got, want)
	}
	txn := appendTxnEntry(nil, abortedTxn{4000, 120, 131, 132})
	if got, want := hex.EncodeToString(txn), "0000"+"0000000000000fa0"+"0000000000000078"+"0000000000000083"+"0000000000000084"; got != want {
		t.Errorf("txn entry = %s, want %s", got, want)
	}
}

func TestSnapshotBytes(t *testing.T) {
	if got := hex.EncodeToString(appendSnapshot(nil, nil)); got != "000148674bc700000000" {
		t.Errorf("empty snapshot = %s", got)
	}
	p := newProducer(4000)
	p.epoch, p.lastTimestamp = 0, 1767225600010
	p.sent = []sentBatch{{11, 150, 2, 1767225600010}}
	q := newProducer(4001)
	q.epoch, q.lastTimestamp, q.coordinatorEpoch, q.txnStart = 3, 1767225600020, 7, 158
	q.sent = []sentBatch{{4, 160, 0, 1767225600020}}
	const want = "000111a5694a000000020000000000000fa000000000000b0000000000000096000000020000019b76daa80affffffffffffffffffffffff" +
		"0000000000000fa100030000000400000000000000a0000000000000019b76daa81400000007000000000000009e"
	b, err := hex.DecodeString(want)
	if err != nil {
		t.Fatal(err)
	}
	got := appendSnapshot(nil, map[int64]*producer{4000: p, 4001: q})
	all, err := parseSnapshot(got)
	if err != nil || len(all) != 2 {
		t.Fatal(err, len(all))
	}
	if all[0].id == 4000 && !bytes.Equal(got, b) { // the order of entries is a map's
		t.Errorf("snapshot = %x\nwant       %s", got, want)
	}
}
