package metadata

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quire-log/quire/internal/golden"
	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/record"
)

// metadataLogs are the metadata logs of a golden: their files by name, by folder.
func metadataLogs(t *testing.T, name string) map[string]map[string][]byte {
	t.Helper()
	logs := map[string]map[string][]byte{}
	for _, dir := range []string{"*/__cluster_metadata-0/", "*/*/__cluster_metadata-0/"} {
		for file, b := range golden.Files(t, name, dir+"*.log", dir+"*.checkpoint") {
			if logs[path.Dir(file)] == nil {
				logs[path.Dir(file)] = map[string][]byte{}
			}
			logs[path.Dir(file)][path.Base(file)] = b
		}
	}
	if len(logs) == 0 {
		t.Fatal("no metadata log")
	}
	return logs
}

// replayLog replays every batch of a metadata log, in order, and calls f after each.
func replayLog(t *testing.T, files map[string][]byte, f func(*Image)) *Image {
	t.Helper()
	r := NewReplayer(Empty())
	var rd record.Reader
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for src := files[name]; path.Ext(name) == ".log" && len(src) > 0; {
			b, err := record.FirstBatch(src)
			if err != nil {
				t.Logf("%s: %d bytes at the end: %v", name, len(src), err)
				break
			}
			src = src[len(b):]
			var recs []kmeta.Record
			if !b.IsControl() {
				if err := rd.Reset(b, snapshotBatchBytes); err != nil {
					t.Fatal(err)
				}
				for rd.Next() {
					rec, _, err := kmeta.ReadValue(rd.Record().Value)
					if err != nil {
						t.Fatal(err)
					}
					recs = append(recs, rec)
				}
			}
			img, _, err := r.Replay(recs, b.LastOffset(), b.LeaderEpoch())
			if err != nil {
				t.Fatal(err)
			}
			f(img)
		}
	}
	return r.Image()
}

// canonical is the state that records say, as text: each as JSON, with lists that Kafka keeps in hash order sorted. Records after
// producer ids and the like carry no order either, so lines are sorted.
func canonical(recs []kmeta.Record) string {
	level := (&Snapshot{Records: recs}).MetadataVersion()
	var lines []string
	for _, r := range recs {
		switch c := r.(type) {
		case *kmeta.RegisterBrokerRecord:
			sorted := *c
			sorted.EndPoints, sorted.Features = sortedByName(c.EndPoints, c.Features)
			sorted.LogDirs = slices.SortedFunc(slices.Values(c.LogDirs), func(a, b UUID) int { return bytes.Compare(a[:], b[:]) })
			r = &sorted
		case *kmeta.RegisterControllerRecord:
			sorted := *c
			sorted.EndPoints, sorted.Features = sortedByName(c.EndPoints, c.Features)
			r = &sorted
		}
		lines = append(lines, string(kmeta.AppendJSON(nil, r, kmeta.VersionAt(r, level))))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func sortedByName(e []kmeta.Endpoint, f []kmeta.Feature) ([]kmeta.Endpoint, []kmeta.Feature) {
	return slices.SortedFunc(slices.Values(e), func(a, b kmeta.Endpoint) int { return strings.Compare(a.Name, b.Name) }),
		slices.SortedFunc(slices.Values(f), func(a, b kmeta.Feature) int { return strings.Compare(a.Name, b.Name) })
}

func diff(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	var out []string
	for _, l := range g {
		if !slices.Contains(w, l) {
			out = append(out, "+ "+l)
		}
	}
	for _, l := range w {
		if !slices.Contains(g, l) {
			out = append(out, "- "+l)
		}
	}
	return strings.Join(out, "\n")
}

// replaySnapshot is the image that a snapshot's records make.
func replaySnapshot(t testing.TB, recs []kmeta.Record, last Offset, epoch Epoch) *Image {
	t.Helper()
	img, _, err := NewReplayer(Empty()).Replay(recs, last, epoch)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// Replaying a log up to where Kafka took a snapshot gives what Kafka wrote into the snapshot; and any image, written as a snapshot
// and replayed, is itself (I4).
func TestGoldenReplay(t *testing.T) {
	for _, name := range golden.Names(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for dir, files := range metadataLogs(t, name) {
				snapshots := map[Offset]*Snapshot{}
				for file, b := range files {
					if path.Ext(file) != ".checkpoint" {
						continue
					}
					end, err := strconv.ParseInt(file[:20], 10, 64)
					if err != nil {
						t.Fatal(err)
					}
					s, err := ReadSnapshot(b)
					if err != nil {
						t.Fatalf("%s: %v", file, err)
					}
					if end > 0 {
						snapshots[Offset(end-1)] = s
					}
				}
				img := replayLog(t, files, func(img *Image) {
					s := snapshots[img.Offset()]
					if s == nil {
						return
					}
					delete(snapshots, img.Offset())
					if got, want := canonical(img.Records()), canonical(s.Records); got != want {
						t.Errorf("%s: at offset %d:\n%s", dir, img.Offset(), diff(got, want))
					}
					if s.Epoch != img.Epoch() {
						t.Errorf("%s: at offset %d: epoch %d, and the snapshot's is %d", dir, img.Offset(), img.Epoch(), s.Epoch)
					}
					again := replaySnapshot(t, s.Records, img.Offset(), img.Epoch())
					if got, want := canonical(again.Records()), canonical(img.Records()); got != want {
						t.Errorf("%s: the snapshot at offset %d, replayed:\n%s", dir, img.Offset(), diff(got, want))
					}
				})
				for offset := range snapshots {
					t.Errorf("%s: no batch ends at %d, where a snapshot does", dir, offset)
				}
				again := replaySnapshot(t, img.Records(), img.Offset(), img.Epoch())
				if got, want := canonical(again.Records()), canonical(img.Records()); got != want {
					t.Errorf("%s: written and replayed:\n%s", dir, diff(got, want))
				}
				if again.TopicCount() != img.TopicCount() || again.PartitionCount() != img.PartitionCount() || again.NextProducerID() != img.NextProducerID() {
					t.Errorf("%s: %d topics, %d partitions, next producer id %d; and again %d, %d, %d", dir, img.TopicCount(), img.PartitionCount(),
						img.NextProducerID(), again.TopicCount(), again.PartitionCount(), again.NextProducerID())
				}
			}
		})
	}
}

var (
	topicLine     = regexp.MustCompile(`(?m)^Topic: (\S+)\tTopicId: (\S+)\tPartitionCount: (\d+)`)
	partitionLine = regexp.MustCompile(`(?m)^\tTopic: \S+\tPartition: \d+\tLeader: .*$`)
	configsOf     = regexp.MustCompile(`(?m)^Dynamic configs for topic (\S+) are:\n((?:  .*\n)*)`)
	configLine    = regexp.MustCompile(`(?m)^  (\S+?)=(.*) sensitive=`)
)

// described is what kafka-topics --describe says of an image.
func described(img *Image) (lines []string) {
	list := func(s []int32) string { return strings.Trim(strings.ReplaceAll(fmt.Sprint(s), " ", ","), "[]") }
	for topic := range img.Topics() {
		for n, p := range topic.Partitions {
			leader := strconv.Itoa(int(p.Leader))
			if p.Leader < 0 {
				leader = "none"
			}
			lines = append(lines, fmt.Sprintf("\tTopic: %s\tPartition: %d\tLeader: %s\tReplicas: %s\tIsr: %s\tElr: %s\tLastKnownElr: %s",
				topic.Name, n, leader, list(p.Replicas), list(p.ISR), list(p.ELR), list(p.LastKnownELR)))
		}
	}
	slices.Sort(lines)
	return lines
}

// At the time when Kafka's own commands looked at a cluster, its image says what they say.
func TestGoldenAdmin(t *testing.T) {
	for _, name := range golden.Names(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			admin, err := os.ReadFile(filepath.Join(golden.Shared(t, "golden", name), "admin.txt"))
			if os.IsNotExist(err) {
				t.Skip("no admin.txt")
			} else if err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, l := range partitionLine.FindAllString(string(admin), -1) {
				want = append(want, strings.TrimRight(l, "\t "))
			}
			slices.Sort(want)
			for dir, files := range metadataLogs(t, name) {
				seen := false
				img := replayLog(t, files, func(img *Image) {
					got := described(img)
					for i := range got {
						got[i] = strings.TrimRight(got[i], "\t ")
					}
					seen = seen || slices.Equal(got, want)
				})
				if !seen && len(want) > 0 {
					t.Errorf("%s: the image was never what kafka-topics said:\n%s\n\nbut in the end\n%s", dir, strings.Join(want, "\n"), strings.Join(described(img), "\n"))
				}
				for _, m := range topicLine.FindAllStringSubmatch(string(admin), -1) {
					topic := img.Topic(m[1])
					if topic == nil {
						t.Errorf("%s: no topic %s", dir, m[1])
					} else if topic.ID.String() != m[2] || strconv.Itoa(len(topic.Partitions)) != m[3] || img.TopicByID(topic.ID) != topic {
						t.Errorf("%s: topic %s has id %v and %d partitions, want %s and %s", dir, m[1], topic.ID, len(topic.Partitions), m[2], m[3])
					}
				}
				for _, m := range configsOf.FindAllStringSubmatch(string(admin), -1) {
					want := map[string]string{}
					for _, c := range configLine.FindAllStringSubmatch(m[2], -1) {
						want[c[1]] = c[2]
					}
					if got := img.Configs(TopicResource, m[1]); !maps.Equal(got, want) {
						t.Errorf("%s: topic %s has %v, want %v", dir, m[1], got, want)
					}
				}
			}
		})
	}
}

// What kafka-configs and kafka-acls say of metadata-rich (admin.txt), where nothing but topics changed after.
func TestGoldenUsers(t *testing.T) {
	for _, files := range metadataLogs(t, "metadata-rich") {
		img := replayLog(t, files, func(*Image) {})
		alice, reports := "alice", "reports"
		for _, test := range []struct {
			entity []QuotaEntity
			want   map[string]float64
		}{
			{[]QuotaEntity{{"user", nil}}, map[string]float64{"request_percentage": 12.5}},
			{[]QuotaEntity{{"user", &alice}}, map[string]float64{"producer_byte_rate": 1048576}},
			{[]QuotaEntity{{"user", &alice}, {"client-id", &reports}}, map[string]float64{"consumer_byte_rate": 2097152}},
			{[]QuotaEntity{{"client-id", &reports}, {"user", &alice}}, map[string]float64{"consumer_byte_rate": 2097152}},
			{[]QuotaEntity{{"client-id", nil}, {"user", nil}}, map[string]float64{"controller_mutation_rate": 100}},
			{[]QuotaEntity{{"ip", nil}}, map[string]float64{"connection_creation_rate": 60}},
		} {
			if q := img.Quota(test.entity); q == nil || !maps.Equal(q.Values, test.want) {
				t.Errorf("quota %v is %v, want %v", test.entity, q, test.want)
			}
		}
		if q := img.Quota([]QuotaEntity{{"user", &reports}}); q != nil {
			t.Errorf("user reports has %v", q)
		}
		var users []string
		for c := range img.ScramCredentials() {
			users = append(users, fmt.Sprintf("%s %d %d", c.Name, c.Mechanism, c.Iterations))
		}
		if want := []string{"admin 1 4096", "admin 2 8192", "alice 1 4096", "alice 2 8192", "bob 2 4096"}; !slices.Equal(users, want) {
			t.Errorf("SCRAM credentials %v, want %v", users, want)
		}
		if img.ScramCredential("bob", 2) == nil || img.ScramCredential("bob", 1) != nil {
			t.Error("bob has not the one credential")
		}
		acls := 0
		for a := range img.ACLs() {
			if acls++; img.ACL(a.ID) != a {
				t.Errorf("access control entry %v is not found", a.ID)
			}
		}
		admin, err := os.ReadFile(filepath.Join(golden.Shared(t, "golden", "metadata-rich"), "admin.txt"))
		if err != nil {
			t.Fatal(err)
		}
		if want := bytes.Count(admin, []byte("\t(principal=")); acls != want {
			t.Errorf("%d access control entries, want %d", acls, want)
		}
		tokens := slices.Collect(img.DelegationTokens())
		if len(tokens) != 2 || img.DelegationToken(tokens[0].TokenID) != tokens[0] {
			t.Errorf("delegation tokens %v, want 2", tokens)
		}
		if got, want := img.Features(), map[string]int16{
			"metadata.version": 30, "group.version": 1, "streams.version": 1, "transaction.version": 1, "eligible.leader.replicas.version": 1, "share.version": 1,
		}; !maps.Equal(got, want) || img.MetadataVersion() != 30 {
			t.Errorf("features %v, want %v", got, want)
		}
		if v, _ := img.Config(BrokerResource, "", "message.max.bytes"); v != "2000000" {
			t.Errorf("message.max.bytes of all brokers is %q", v)
		}
		if names := img.ConfigResources(GroupResource); !slices.Equal(names, []string{"a-group"}) {
			t.Errorf("groups with values: %v", names)
		}
		if names := img.ConfigResources(BrokerResource); !slices.Equal(names, []string{"", "1"}) {
			t.Errorf("brokers with values: %v", names)
		}
		if img.Broker(7) != nil || img.Broker(8) == nil || !img.Broker(8).Fenced || *img.Broker(8).Rack != "rack-8" {
			t.Errorf("brokers 7 and 8 are %+v, %+v", img.Broker(7), img.Broker(8))
		}
		if c := img.Controller(1); c == nil || c.Endpoints[0].Port != 19151 {
			t.Errorf("controller 1 is %+v", c)
		}
	}
}
