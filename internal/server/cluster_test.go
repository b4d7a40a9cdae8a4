package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/vfs"
)

// startNode starts a node in memory, closed at the test's end. Properties come in pairs.
func startNode(t *testing.T, properties ...string) *Node {
	t.Helper()
	o := Options{FS: vfs.NewMem(), Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Properties: map[string]string{
		"listeners": "PLAINTEXT://127.0.0.1:0", "admin.listener": "",
	}}
	for i := 0; i < len(properties); i += 2 {
		o.Properties[properties[i]] = properties[i+1]
	}
	n, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := n.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return n
}

// ask sends a request at a version on a connection of its own and decodes the answer.
func ask[R kmsg.Response](t *testing.T, address string, version int16, req kmsg.Request) R {
	t.Helper()
	req.SetVersion(version)
	body := askRaw(t, address, kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, req, 7))
	resp := req.ResponseKind()
	if req.IsFlexible() && req.Key() != kmsg.ApiVersions.Int16() {
		body = body[1:] // the header's empty tag section
	}
	if err := resp.ReadFrom(body); err != nil {
		t.Fatalf("%s v%d: %v", kmsg.NameForKey(req.Key()), version, err)
	}
	return resp.(R)
}

// askRaw sends a frame and returns what follows the correlation id of the answer.
func askRaw(t *testing.T, address string, frame []byte) []byte {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := c.Write(frame); err != nil {
		t.Fatal(err)
	}
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c, answer); err != nil {
		t.Fatal(err)
	}
	return answer[4:]
}

func createTopics(t *testing.T, n *Node, names ...string) {
	t.Helper()
	r := kmsg.NewPtrCreateTopicsRequest()
	for _, name := range names {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 3, 1
		r.Topics = append(r.Topics, topic)
	}
	for _, a := range ask[*kmsg.CreateTopicsResponse](t, n.Addr(), 7, r).Topics {
		if a.ErrorCode != 0 {
			t.Fatalf("create %s: %d", a.Topic, a.ErrorCode)
		}
	}
}

// The features of a new cluster, as a 4.3.1 broker lists them, in the tagged fields of v3 and v4.
func TestApiVersionsFeatures(t *testing.T) {
	n := startNode(t)
	for version, want := range map[int16]string{
		0: "[] []",
		3: "[metadata.version 7-30] [eligible.leader.replicas.version 1 group.version 1 metadata.version 30 share.version 1 streams.version 1 transaction.version 2]",
		4: "[eligible.leader.replicas.version 0-1 group.version 0-1 kraft.version 0-1 metadata.version 7-30 share.version 0-1 streams.version 0-1 transaction.version 0-2] " +
			"[eligible.leader.replicas.version 1 group.version 1 metadata.version 30 share.version 1 streams.version 1 transaction.version 2]",
	} {
		r := kmsg.NewPtrApiVersionsRequest()
		r.ClientSoftwareName, r.ClientSoftwareVersion = "test", "1.0"
		resp := ask[*kmsg.ApiVersionsResponse](t, n.Addr(), version, r)
		var supported, finalized []string
		for _, f := range resp.SupportedFeatures {
			supported = append(supported, fmt.Sprintf("%s %d-%d", f.Name, f.MinVersion, f.MaxVersion))
		}
		for _, f := range resp.FinalizedFeatures {
			if f.MinVersionLevel != f.MaxVersionLevel {
				t.Errorf("%s: levels %d and %d", f.Name, f.MinVersionLevel, f.MaxVersionLevel)
			}
			finalized = append(finalized, fmt.Sprintf("%s %d", f.Name, f.MaxVersionLevel))
		}
		slices.Sort(supported)
		if got := fmt.Sprint(supported, " ", finalized); got != want {
			t.Errorf("v%d: %s\nwant %s", version, got, want)
		}
	}
}

// A range below 0 of Produce is listed and refused; all else is listed as it is served.
func TestApiVersionsTable(t *testing.T) {
	n := startNode(t)
	r := kmsg.NewPtrApiVersionsRequest()
	last := int16(-1)
	for _, k := range ask[*kmsg.ApiVersionsResponse](t, n.Addr(), 0, r).ApiKeys {
		if k.ApiKey <= last {
			t.Errorf("key %d comes after %d", k.ApiKey, last)
		}
		last = k.ApiKey
		if k.ApiKey == 0 && (k.MinVersion != 0 || k.MaxVersion != 13) {
			t.Errorf("Produce is listed %d-%d, want 0-13", k.MinVersion, k.MaxVersion)
		}
	}
}

// Version 99 is answered in the form of v0 with the one range that helps; a bad software name is INVALID_REQUEST.
func TestApiVersionsBytes(t *testing.T) {
	n := startNode(t)
	frame, _ := hex.DecodeString("0000000b0012006300000007ffff00")
	if got := hex.EncodeToString(askRaw(t, n.Addr(), frame)); got != "0023"+"00000001"+"001200000004" {
		t.Errorf("answer to version 99 = %s", got)
	}
	for _, name := range []string{"", "-x", "x-", "a b", "ä"} {
		r := kmsg.NewPtrApiVersionsRequest()
		r.ClientSoftwareName, r.ClientSoftwareVersion = name, "1"
		if resp := ask[*kmsg.ApiVersionsResponse](t, n.Addr(), 3, r); resp.ErrorCode != 42 || len(resp.ApiKeys) != 0 {
			t.Errorf("software %q: code %d, %d keys", name, resp.ErrorCode, len(resp.ApiKeys))
		}
	}
}

func TestMetadata(t *testing.T) {
	n := startNode(t, "broker.rack", "r1")
	createTopics(t, n, "a", "b")
	host, port := splitAddr(n.listeners[0].bound.Addr())
	for version := int16(0); version <= 13; version++ {
		all := kmsg.NewPtrMetadataRequest()
		if version == 0 {
			all.Topics = []kmsg.MetadataRequestTopic{}
		}
		m := ask[*kmsg.MetadataResponse](t, n.Addr(), version, all)
		if len(m.Brokers) != 1 || m.Brokers[0].NodeID != 1 || m.Brokers[0].Host != host || m.Brokers[0].Port != port {
			t.Fatalf("v%d: brokers %+v", version, m.Brokers)
		}
		if version >= 1 && (m.ControllerID != 1 || *m.Brokers[0].Rack != "r1") {
			t.Errorf("v%d: controller %d, rack %v", version, m.ControllerID, m.Brokers[0].Rack)
		}
		if version >= 2 && *m.ClusterID != n.clusterID {
			t.Errorf("v%d: cluster %v", version, m.ClusterID)
		}
		if len(m.Topics) != 2 || *m.Topics[0].Topic != "a" || len(m.Topics[0].Partitions) != 3 {
			t.Fatalf("v%d: topics %+v", version, m.Topics)
		}
		p := m.Topics[0].Partitions[2]
		if p.ErrorCode != 0 || p.Partition != 2 || p.Leader != 1 || !slices.Equal(p.Replicas, []int32{1}) || !slices.Equal(p.ISR, []int32{1}) || len(p.OfflineReplicas) != 0 {
			t.Errorf("v%d: partition %+v", version, p)
		}
		if version >= 10 && m.Topics[0].TopicID == [16]byte{} {
			t.Errorf("v%d: no topic id", version)
		}
		if version >= 8 && m.Topics[0].AuthorizedOperations != -2147483648 {
			t.Errorf("v%d: operations %d, though not asked for", version, m.Topics[0].AuthorizedOperations)
		}
	}
	none := kmsg.NewPtrMetadataRequest()
	none.Topics = []kmsg.MetadataRequestTopic{}
	if m := ask[*kmsg.MetadataResponse](t, n.Addr(), 1, none); len(m.Topics) != 0 {
		t.Errorf("v1 with no topics lists %d", len(m.Topics))
	}
}

func TestMetadataLookups(t *testing.T) {
	n := startNode(t)
	createTopics(t, n, "a")
	id := n.controller.Image().Topic("a").ID
	byName := func(name string) kmsg.MetadataRequestTopic {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = &name
		return rt
	}
	byID := func(id [16]byte) kmsg.MetadataRequestTopic {
		rt := kmsg.NewMetadataRequestTopic()
		rt.TopicID = id
		return rt
	}
	for _, q := range []struct {
		what    string
		version int16
		allow   bool
		topics  []kmsg.MetadataRequestTopic
		want    string // name:code of each
	}{
		{"known and unknown", 12, false, []kmsg.MetadataRequestTopic{byName("x"), byName("a")}, "x:3 a:0"},
		{"the same twice", 12, false, []kmsg.MetadataRequestTopic{byName("a"), byName("a")}, "a:0"},
		{"by id", 12, false, []kmsg.MetadataRequestTopic{byID(id), byID([16]byte{9})}, "a:0 -:100"},
		{"by id too early", 11, false, []kmsg.MetadataRequestTopic{byID(id)}, ":42"},
		{"bad names", 12, true, []kmsg.MetadataRequestTopic{byName("a b"), byName(".."), byName(strings.Repeat("x", 250))}, "a b:17 ..:17 " + strings.Repeat("x", 250) + ":17"},
		{"a topic of a coordinator, made as its coordinator makes it", 12, true, []kmsg.MetadataRequestTopic{byName("__consumer_offsets")}, "__consumer_offsets:5"},
		{"no coordinator makes this one yet", 12, true, []kmsg.MetadataRequestTopic{byName("__share_group_state")}, "__share_group_state:3"},
		{"created", 12, true, []kmsg.MetadataRequestTopic{byName("new")}, "new:5"},
		{"and there", 12, true, []kmsg.MetadataRequestTopic{byName("new")}, "new:0"},
		{"colliding", 12, true, []kmsg.MetadataRequestTopic{byName("n.w"), byName("n_w")}, "n.w:5 n_w:17"},
		{"v3 has no say in it", 3, false, []kmsg.MetadataRequestTopic{byName("old")}, "old:5"},
	} {
		r := kmsg.NewPtrMetadataRequest()
		r.AllowAutoTopicCreation, r.Topics = q.allow, q.topics
		var got []string
		for _, rt := range ask[*kmsg.MetadataResponse](t, n.Addr(), q.version, r).Topics {
			name := "-"
			if rt.Topic != nil {
				name = *rt.Topic
			}
			got = append(got, fmt.Sprintf("%s:%d", name, rt.ErrorCode))
		}
		if g := strings.Join(got, " "); g != q.want {
			t.Errorf("%s: %s, want %s", q.what, g, q.want)
		}
	}
}

// Each listener's clients are told its own advertised address, or the one that they dialled.
func TestAdvertised(t *testing.T) {
	n := startNode(t,
		"listeners", "ONE://127.0.0.1:0,TWO://127.0.0.1:0,THREE://:0",
		"listener.security.protocol.map", "ONE:PLAINTEXT,TWO:PLAINTEXT,THREE:PLAINTEXT",
		"inter.broker.listener.name", "ONE",
		"advertised.listeners", "ONE://one.example:1111,TWO://two.example:2222,THREE://:0")
	for i, want := range []string{"one.example:1111", "two.example:2222", ""} {
		_, port := splitAddr(n.listeners[i].bound.Addr())
		address := fmt.Sprintf("127.0.0.1:%d", port)
		if want == "" {
			want = address
		}
		m := ask[*kmsg.MetadataResponse](t, address, 12, kmsg.NewPtrMetadataRequest())
		if got := fmt.Sprintf("%s:%d", m.Brokers[0].Host, m.Brokers[0].Port); got != want || m.Brokers[0].NodeID != 1 {
			t.Errorf("listener %d: Metadata says %s, want %s", i, got, want)
		}
		d := ask[*kmsg.DescribeClusterResponse](t, address, 2, kmsg.NewPtrDescribeClusterRequest())
		if got := fmt.Sprintf("%s:%d", d.Brokers[0].Host, d.Brokers[0].Port); got != want {
			t.Errorf("listener %d: DescribeCluster says %s, want %s", i, got, want)
		}
	}
}

func TestDescribeCluster(t *testing.T) {
	n := startNode(t)
	for endpoint, want := range map[int8]int16{1: 0, 2: 114, 3: 115} {
		r := kmsg.NewPtrDescribeClusterRequest()
		r.EndpointType, r.IncludeClusterAuthorizedOperations = endpoint, true
		resp := ask[*kmsg.DescribeClusterResponse](t, n.Addr(), 1, r)
		if resp.ErrorCode != want {
			t.Errorf("endpoint type %d: code %d, want %d", endpoint, resp.ErrorCode, want)
		}
		if want == 0 && (resp.ClusterID != n.clusterID || resp.ControllerID != 1 || resp.ClusterAuthorizedOperations != 8096) {
			t.Errorf("%+v", resp)
		}
	}
}

// Pages of partitions, by topics in the order of their names.
func TestDescribeTopicPartitionsPages(t *testing.T) {
	n := startNode(t)
	createTopics(t, n, "b", "a", "c")
	var got []string
	r := kmsg.NewPtrDescribeTopicPartitionsRequest()
	r.ResponsePartitionLimit = 2
	for pages := 0; ; pages++ {
		resp := ask[*kmsg.DescribeTopicPartitionsResponse](t, n.Addr(), 0, r)
		page := ""
		for _, rt := range resp.Topics {
			for _, p := range rt.Partitions {
				page += fmt.Sprintf("%s%d", *rt.Topic, p.Partition)
			}
		}
		got = append(got, page)
		if resp.NextCursor == nil || pages > 10 {
			break
		}
		c := kmsg.NewDescribeTopicPartitionsRequestCursor()
		c.Topic, c.Partition = resp.NextCursor.Topic, resp.NextCursor.Partition
		r.Cursor = &c
	}
	if want := []string{"a0a1", "a2b0", "b1b2", "c0c1", "c2"}; !slices.Equal(got, want) {
		t.Errorf("pages %v, want %v", got, want)
	}

	r = kmsg.NewPtrDescribeTopicPartitionsRequest()
	r.ResponsePartitionLimit = 2000
	for _, name := range []string{"x", "c", "a b", "c"} {
		rt := kmsg.NewDescribeTopicPartitionsRequestTopic()
		rt.Topic = name
		r.Topics = append(r.Topics, rt)
	}
	got = nil
	for _, rt := range ask[*kmsg.DescribeTopicPartitionsResponse](t, n.Addr(), 0, r).Topics {
		got = append(got, fmt.Sprintf("%s:%d:%d", *rt.Topic, rt.ErrorCode, len(rt.Partitions)))
	}
	if want := []string{"a b:17:0", "c:0:3", "x:3:0"}; !slices.Equal(got, want) {
		t.Errorf("named topics %v, want %v", got, want)
	}
	c := kmsg.NewDescribeTopicPartitionsRequestCursor()
	c.Topic = "b"
	r.Cursor = &c
	for _, rt := range ask[*kmsg.DescribeTopicPartitionsResponse](t, n.Addr(), 0, r).Topics {
		if rt.ErrorCode != 42 {
			t.Errorf("a cursor that is none of the topics: code %d, want 42", rt.ErrorCode)
		}
	}
}

func TestDescribeLogDirs(t *testing.T) {
	n := startNode(t)
	createTopics(t, n, "a", "b")
	for version := int16(1); version <= 5; version++ {
		r := kmsg.NewPtrDescribeLogDirsRequest()
		resp := ask[*kmsg.DescribeLogDirsResponse](t, n.Addr(), version, r)
		if len(resp.Dirs) != 1 || resp.Dirs[0].ErrorCode != 0 || len(resp.Dirs[0].Topics) != 2 || len(resp.Dirs[0].Topics[1].Partitions) != 3 {
			t.Errorf("v%d: %+v", version, resp.Dirs)
		}
		one := kmsg.NewDescribeLogDirsRequestTopic()
		one.Topic, one.Partitions = "b", []int32{1, 9}
		r.Topics = append(r.Topics, one)
		resp = ask[*kmsg.DescribeLogDirsResponse](t, n.Addr(), version, r)
		if len(resp.Dirs[0].Topics) != 1 || len(resp.Dirs[0].Topics[0].Partitions) != 1 || resp.Dirs[0].Topics[0].Partitions[0].Partition != 1 {
			t.Errorf("v%d: b-1 alone: %+v", version, resp.Dirs[0].Topics)
		}
	}
}

// The operators' side: alive, ready, and numbers that are true.
func TestAdmin(t *testing.T) {
	n := startNode(t, "admin.listener", "127.0.0.1:0")
	createTopics(t, n, "a")
	get := func(path string) (int, string) {
		resp, err := http.Get("http://" + n.AdminAddr() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	for _, path := range []string{"/livez", "/readyz"} {
		if code, body := get(path); code != 200 || body != "ok\n" {
			t.Errorf("%s: %d %q", path, code, body)
		}
	}
	_, body := get("/metrics")
	for _, want := range []string{
		"quire_partitions 3\n", "quire_topics 1\n", `quire_requests_total{api="CreateTopics"} 1`, `quire_log_end_offset{partition="2",topic="a"} 0`, `quire_dir_online{dir="`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in\n%s", want, body)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// A scrape of many partitions shows the first ones alone.
func TestMetricsBound(t *testing.T) {
	n := startNode(t, "admin.listener", "127.0.0.1:0", "num.partitions", "100")
	r := kmsg.NewPtrCreateTopicsRequest()
	for i := range 12 {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = fmt.Sprint("t", i), -1, -1
		r.Topics = append(r.Topics, topic)
	}
	ask[*kmsg.CreateTopicsResponse](t, n.Addr(), 7, r)
	resp, err := http.Get("http://" + n.AdminAddr() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if got := bytes.Count(body, []byte("\nquire_log_end_offset{")); got != partitionSeriesMax {
		t.Errorf("%d partitions are shown, want %d", got, partitionSeriesMax)
	}
	http.DefaultClient.CloseIdleConnections()
}
