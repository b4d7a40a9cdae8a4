package group

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/golden"
	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/record"
)

// The groups that Kafka left behind are what Kafka says they are, and go on.
func TestGoldenGroups(t *testing.T) {
	image := goldenImage(t)
	w := newWorld(t)
	w.image = image
	w.s = w.shard()
	files := golden.Files(t, "groups", "*/__consumer_offsets-*/*.log")
	for _, file := range slices.Sorted(maps.Keys(files)) {
		replayFile(t, w.s, files[file])
	}
	w.s.Loaded(w.now)
	admin, err := os.ReadFile(filepath.Join(golden.Shared(t, "golden", "groups"), "admin.txt"))
	if err != nil {
		t.Fatal(err)
	}
	listed := table(string(admin), "--list --state --type")
	if len(listed) < 10 {
		t.Fatalf("%d groups in the list", len(listed))
	}
	ours := map[string]string{}
	for _, l := range w.s.ListGroups(w.now, &kmsg.ListGroupsRequest{TypesFilter: []string{"classic", "consumer"}}) {
		if l.ProtocolType != "" && l.ProtocolType != "consumer" {
			continue // which that tool does not list
		}
		ours[l.Group] = strings.ToLower(l.GroupType + " " + l.GroupState)
	}
	for _, row := range listed {
		w.want("state of "+row[0], ours[row[0]], strings.ToLower(row[1]+" "+row[2]))
		delete(ours, row[0])
	}
	w.want("groups that Kafka does not list", ours, map[string]string{})
	n := 0
	for _, row := range table(string(admin), "kafka-consumer-groups.sh --bootstrap-server 127.0.0.1:19140 --all-groups --describe\n") {
		var partition int32
		fmt.Sscan(row[2], &partition)
		offset, _ := w.committed(row[0], row[1], partition, false)
		if got := strings.Replace(fmt.Sprint(offset), "-1", "-", 1); got != row[3] {
			t.Errorf("%s of %s-%s: %s, and Kafka says %s", row[0], row[1], row[2], got, row[3])
		}
		n++
	}
	if n < 40 {
		t.Errorf("%d offsets are described", n)
	}
	describeGolden(t, w, string(admin))

	// A member of a group that was reconciling goes on, and so does a static one that was away.
	c := w.s.groups["new-reconciling"].consumer
	owner := c.members["nAeGAyjZT9K5oTrmnC_tfA"]
	r := w.heartbeat("new-reconciling", owner.id, owner.epoch, owning(owner.assigned))
	w.want("goes on", fmt.Sprint(r.ErrorCode), "0")
	away := w.s.groups["new-static-away"].consumer
	r = w.heartbeat("new-static-away", "back", 0, subscribe("orders"), func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = kmsg.StringPtr("away") })
	w.want("is back", fmt.Sprint(r.ErrorCode, len(r.Assignment.Topics), len(away.members)), "0 1 1")
	for name, g := range w.s.groups {
		if g.classic == nil || g.classic.state != stateStable {
			continue
		}
		for _, m := range g.classic.members {
			req := &kmsg.HeartbeatRequest{Group: name, MemberID: m.id, Generation: g.classic.generation, InstanceID: m.instancePtr()}
			w.want("heartbeat in "+name, w.s.Heartbeat(w.now, req), 0)
		}
	}
}

// describeGolden compares members with what kafka-consumer-groups --describe --members --verbose prints.
func describeGolden(t *testing.T, w *world, admin string) {
	n := 0
	for _, line := range tableLines(admin, "--all-groups --describe --members --verbose") {
		f := regexp.MustCompile(`\s{2,}|\s+(/\S+)\s+`).Split(strings.TrimSpace(line), -1)
		group := strings.Fields(line)[0]
		if g := w.s.groups[group]; g == nil || g.consumer == nil {
			continue
		}
		for _, m := range w.s.ConsumerGroupDescribe(w.now, group).Members {
			if !strings.Contains(line, m.MemberID) {
				continue
			}
			n++
			if want := assignmentText(m.Assignment); !slices.Contains(f, want) && !strings.Contains(line, " "+want+" ") {
				t.Errorf("%s has %s, and Kafka says %s", m.MemberID, want, line)
			}
			if want := assignmentText(m.TargetAssignment); !strings.Contains(line+" ", " "+want+" ") {
				t.Errorf("%s shall have %s, and Kafka says %s", m.MemberID, want, line)
			}
			if !strings.Contains(line, fmt.Sprintf(" %d ", m.MemberEpoch)) {
				t.Errorf("%s is at epoch %d, and Kafka says %s", m.MemberID, m.MemberEpoch, line)
			}
		}
	}
	if n < 10 {
		t.Errorf("%d members are described", n)
	}
}

// assignmentText is how the tool prints partitions: orders:0,1;payments:2.
func assignmentText(a kmsg.Assignment) string {
	var topics []string
	for _, tp := range a.TopicPartitions {
		topics = append(topics, tp.Topic+":"+strings.ReplaceAll(strings.Trim(fmt.Sprint(tp.Partitions), "[]"), " ", ","))
	}
	if len(topics) == 0 {
		return "-"
	}
	slices.Sort(topics)
	return strings.Join(topics, ";")
}

// tableLines are the rows that a command printed in a transcript, those of the first run of it.
func tableLines(text, command string) (rows []string) {
	_, rest, ok := strings.Cut(text, command)
	if !ok {
		return nil
	}
	rest, _, _ = strings.Cut(rest, "\n$ ")
	for line := range strings.Lines(rest) {
		line = strings.TrimRight(line, "\n")
		if f := strings.Fields(line); len(f) > 2 && f[0] != "GROUP" && !strings.HasPrefix(line, "Consumer group '") && !strings.HasPrefix(line, "Warning:") {
			rows = append(rows, line)
		}
	}
	return rows
}

func table(text, command string) (rows [][]string) {
	for _, line := range tableLines(text, command) {
		rows = append(rows, strings.Fields(line))
	}
	return rows
}

// replayFile replays a log as the runtime does: records with their batch's producer if that is transactional, and markers.
func replayFile(t *testing.T, s *Shard, src []byte) {
	t.Helper()
	var rd record.Reader
	for len(src) > 0 {
		b, err := record.FirstBatch(src)
		if err != nil {
			return
		}
		src = src[len(b):]
		if err := rd.Reset(b, 8<<20); err != nil {
			t.Fatal(err)
		}
		for rd.Next() {
			r := rd.Record()
			e := Entry{Record: Record{r.Key, r.Value}, Offset: int64(r.Offset)}
			if b.IsControl() {
				typ, err := record.ParseControlKey(r.Key)
				if err != nil {
					t.Fatal(err)
				}
				s.ReplayMarker(b.ProducerID(), b.ProducerEpoch(), typ == record.ControlCommit)
				continue
			}
			if b.IsTransactional() {
				e.Producer = &Producer{b.ProducerID(), b.ProducerEpoch()}
			}
			if err := s.Replay(&e); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func goldenImage(t *testing.T) *metadata.Image {
	t.Helper()
	r := metadata.NewReplayer(metadata.Empty())
	files := golden.Files(t, "groups", "*/__cluster_metadata-0/*.log")
	for _, file := range slices.Sorted(maps.Keys(files)) {
		var rd record.Reader
		for src := files[file]; len(src) > 0; {
			b, err := record.FirstBatch(src)
			if err != nil {
				break
			}
			src = src[len(b):]
			if b.IsControl() {
				continue
			}
			if err := rd.Reset(b, 8<<20); err != nil {
				t.Fatal(err)
			}
			var recs []kmeta.Record
			var last record.Offset
			for rd.Next() {
				v, _, err := kmeta.ReadValue(rd.Record().Value)
				if err != nil {
					t.Fatal(err)
				}
				recs, last = append(recs, v), rd.Record().Offset
			}
			if _, _, err := r.Replay(recs, last, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	return r.Image()
}
