package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/config"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/vfs"
)

// startForConfigs starts a node in memory, and a topic "orders" on it.
func startForConfigs(t *testing.T, properties ...string) *Node {
	t.Helper()
	p := map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0", "admin.listener": "", "log.dirs": "/data"}
	for i := 0; i < len(properties); i += 2 {
		p[properties[i]] = properties[i+1]
	}
	n, err := Start(t.Context(), Options{Properties: p, FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	r := kmsg.NewPtrCreateTopicsRequest()
	r.SetVersion(7)
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "orders", 1, 1
	r.Topics = append(r.Topics, topic)
	if resp := n.controller.CreateTopics(t.Context(), r); resp.Topics[0].ErrorCode != 0 {
		t.Fatalf("create orders: code %d", resp.Topics[0].ErrorCode)
	}
	return n
}

// describe asks for one resource, with everything, and returns the answer's lines by key.
func describe(n *Node, kind kmsg.ConfigResourceType, name string, keys ...string) (code int16, message string, entries map[string]string) {
	r := kmsg.NewPtrDescribeConfigsRequest()
	r.SetVersion(4)
	r.IncludeSynonyms, r.IncludeDocumentation = true, true
	in := kmsg.NewDescribeConfigsRequestResource()
	in.ResourceType, in.ResourceName, in.ConfigNames = kind, name, keys
	r.Resources = append(r.Resources, in)
	out := n.describeConfigs(n.controller.Image(), r, describedEntriesMax).Resources[0]
	if out.ErrorMessage != nil {
		message = *out.ErrorMessage
	}
	entries = map[string]string{}
	for _, c := range out.Configs {
		var synonyms []string
		for _, s := range c.ConfigSynonyms {
			synonyms = append(synonyms, fmt.Sprintf("%s:%s=%s", config.Source(s.Source), s.Name, orNull(s.Value)))
		}
		entries[c.Name] = fmt.Sprintf("%s %s %s readOnly=%v sensitive=%v {%s}", orNull(c.Value), config.Type(c.ConfigType), config.Source(c.Source),
			c.ReadOnly, c.IsSensitive, strings.Join(synonyms, ", "))
	}
	return out.ErrorCode, message, entries
}

func orNull(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

// alter changes one resource: "key=value" sets, "key" deletes, "key+=value" and "key-=value" change lists.
func alter(n *Node, kind kmsg.ConfigResourceType, name string, validateOnly bool, changes ...string) (code int16, message string) {
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r.SetVersion(1)
	r.ValidateOnly = validateOnly
	in := kmsg.NewIncrementalAlterConfigsRequestResource()
	in.ResourceType, in.ResourceName = kind, name
	for _, c := range changes {
		kv := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		key, value, set := strings.Cut(c, "=")
		switch {
		case !set:
			kv.Op = kmsg.IncrementalAlterConfigOpDelete
		case strings.HasSuffix(key, "+"):
			kv.Op = kmsg.IncrementalAlterConfigOpAppend
		case strings.HasSuffix(key, "-"):
			kv.Op = kmsg.IncrementalAlterConfigOpSubtract
		}
		kv.Name = strings.TrimRight(key, "+-")
		if set {
			kv.Value = &value
		}
		in.Configs = append(in.Configs, kv)
	}
	r.Resources = append(r.Resources, in)
	resp := n.alterIncrementally(r, func(r *kmsg.IncrementalAlterConfigsRequest) *kmsg.IncrementalAlterConfigsResponse {
		return n.controller.IncrementalAlterConfigs(context.Background(), r)
	})
	out := resp.Resources[0]
	if out.ErrorMessage != nil {
		message = *out.ErrorMessage
	}
	return out.ErrorCode, message
}

// A fresh node describes itself as Kafka 4.3.1 does, but for what hangs on addresses, directories and what its file said.
func TestFreshNodeDescribesItselfAsKafka(t *testing.T) {
	f, err := os.Open(filepath.Join("..", "..", "..", "shared", "facts", "describe-configs.tsv"))
	if err != nil {
		t.Skip("the shared folder with Kafka's own answers is not here")
	}
	defer f.Close()
	n := startForConfigs(t,
		"process.roles", "broker,controller", "node.id", "1", "controller.quorum.voters", "1@127.0.0.1:9093",
		"listeners", "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:9093", "advertised.listeners", "PLAINTEXT://127.0.0.1:9092",
		"controller.listener.names", "CONTROLLER", "inter.broker.listener.name", "PLAINTEXT",
		"listener.security.protocol.map", "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT", "log.dirs", "DIR/1/data")
	got := map[string]map[string]string{}
	for entity, ask := range map[string]struct {
		kind kmsg.ConfigResourceType
		name string
	}{
		"broker": {resourceBroker, "1"}, "broker-default": {resourceBroker, ""}, "topic": {resourceTopic, "orders"},
		"group": {resourceGroup, "nobody"}, "client-metrics": {resourceClientMetrics, "nothing"},
	} {
		_, _, got[entity] = describe(n, ask.kind, ask.name)
	}
	rows := 0
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		c := strings.Split(lines.Text(), "\t")
		if got[c[0]] == nil {
			continue
		}
		rows++
		want := fmt.Sprintf("%s %s %s readOnly=%s sensitive=%s {%s}", c[2], c[3], c[4], c[5], c[6], c[7])
		is := strings.ReplaceAll(got[c[0]][c[1]], "127.0.0.1:0", "127.0.0.1:9092")
		if is != want {
			t.Errorf("%s %s\n got %s\nwant %s", c[0], c[1], is, want)
		}
	}
	if rows < 390 {
		t.Errorf("only %d rows compared", rows)
	}
	if _, shown := got["broker"]["admin.listener"]; !shown {
		t.Error("admin.listener was set, but is not described")
	}
}

func TestDescribeConfigsOf(t *testing.T) {
	n := startForConfigs(t)
	for _, c := range []struct {
		kind    kmsg.ConfigResourceType
		name    string
		keys    []string
		code    int16
		message string
		entries int
	}{
		{resourceTopic, "orders", nil, 0, "", 33},
		{resourceTopic, "orders", []string{}, 0, "", 33},
		{resourceTopic, "orders", []string{"retention.ms"}, 0, "", 1},
		{resourceTopic, "orders", []string{"nonsense"}, 0, "", 0},
		{resourceTopic, "none", nil, 3, "", 0},
		{resourceTopic, "a/b", nil, 17, "Topic name is invalid: 'a/b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'", 0},
		{resourceBroker, "", nil, 0, "", 1},
		{resourceBroker, "1", []string{"node.id", "log.dirs"}, 0, "", 2},
		{resourceBroker, "77", nil, 42, "Unexpected broker id, expected 1 or empty string, but received 77", 0},
		{resourceBroker, "one", nil, 42, "Broker id must be an integer, but it is: one", 0},
		{resourceBrokerLogger, "1", nil, 0, "", 8},
		{resourceBrokerLogger, "", nil, 42, "Broker id must not be empty", 0},
		{resourceBrokerLogger, "2", nil, 42, "Unexpected broker id, expected 1 but received 2", 0},
		{resourceGroup, "g", nil, 0, "", 17},
		{resourceGroup, "", nil, 42, "Group name must not be empty", 0},
		{resourceClientMetrics, "m", nil, 0, "", 3},
		{resourceClientMetrics, "", nil, 42, "Client metrics subscription name must not be empty", 0},
		{7, "x", nil, 42, "Unexpected resource type UNKNOWN for resource x", 0},
	} {
		code, message, entries := describe(n, c.kind, c.name, c.keys...)
		if code != c.code || message != c.message || len(entries) != c.entries {
			t.Errorf("%d %q %v: %d %q, %d entries; want %d %q, %d", c.kind, c.name, c.keys, code, message, len(entries), c.code, c.message, c.entries)
		}
	}
}

func TestAnswersOfDescribeConfigsAreBounded(t *testing.T) {
	n := startForConfigs(t)
	r := kmsg.NewPtrDescribeConfigsRequest()
	r.SetVersion(4)
	in := kmsg.NewDescribeConfigsRequestResource()
	in.ResourceType, in.ResourceName = resourceGroup, "g"
	r.Resources = slices.Repeat([]kmsg.DescribeConfigsRequestResource{in}, 5)
	var codes []int16
	for _, out := range n.describeConfigs(n.controller.Image(), r, 2*len(config.Group())).Resources {
		codes = append(codes, out.ErrorCode)
	}
	if want := []int16{0, 0, 42, 42, 42}; !slices.Equal(codes, want) {
		t.Errorf("codes %v, want %v", codes, want)
	}
}

// A change is seen by the describe after it, and acts on the log at once.
func TestChangesActAtOnce(t *testing.T) {
	n := startForConfigs(t)
	segmentMs := func() int64 { return n.configs.of(n.controller.Image(), "orders").SegmentMs }
	value := func(key string) string {
		_, _, entries := describe(n, resourceTopic, "orders", key)
		return entries[key]
	}
	if code, message := alter(n, resourceTopic, "orders", false, "segment.ms=7000"); code != 0 {
		t.Fatalf("%d %s", code, message)
	}
	if got := value("segment.ms"); !strings.HasPrefix(got, "7000 LONG DYNAMIC_TOPIC_CONFIG") || segmentMs() != 7000 {
		t.Errorf("%s, and for the log %d", got, segmentMs())
	}
	if code, _ := alter(n, resourceTopic, "orders", true, "segment.ms=8000"); code != 0 || segmentMs() != 7000 {
		t.Errorf("validateOnly: code %d, and the log has %d", code, segmentMs())
	}
	if code, _ := alter(n, resourceTopic, "orders", false, "segment.ms"); code != 0 {
		t.Errorf("delete: code %d", code)
	}
	if code, _ := alter(n, resourceBroker, "", false, "log.roll.ms=9000"); code != 0 {
		t.Errorf("cluster default: code %d", code)
	}
	if got := value("segment.ms"); !strings.HasPrefix(got, "9000 LONG DYNAMIC_DEFAULT_BROKER_CONFIG") || segmentMs() != 9000 {
		t.Errorf("%s, and for the log %d", got, segmentMs())
	}
	if code, _ := alter(n, resourceBroker, "1", false, "log.roll.ms=10000"); code != 0 {
		t.Errorf("broker: code %d", code)
	}
	if got := value("segment.ms"); !strings.HasPrefix(got, "10000 LONG DYNAMIC_BROKER_CONFIG") || segmentMs() != 10000 {
		t.Errorf("%s, and for the log %d", got, segmentMs())
	}
	p := n.replicas.Partition("orders", 0)
	if got := p.Log().Config().SegmentMs; got != 10000 {
		t.Errorf("the open log has segment.ms %d", got)
	}
	alter(n, resourceBroker, "", false, "min.insync.replicas=2")
	if got := n.minISR(n.controller.Image(), "orders"); got != 2 {
		t.Errorf("min.insync.replicas is %d", got)
	}
}

// Limits of connections act on the next one, whoever sets them.
func TestConnectionsAreLimitedAtOnce(t *testing.T) {
	n := startForConfigs(t)
	served := func() bool {
		c, err := net.Dial("tcp", n.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		// ApiVersions v0, correlation 7, no client id.
		if _, err := c.Write([]byte{0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 255, 255}); err != nil {
			return false
		}
		var head [8]byte
		_, err = io.ReadFull(c, head[:])
		return err == nil && head[7] == 7
	}
	if !served() {
		t.Fatal("the node does not answer")
	}
	if code, message := alter(n, resourceBroker, "", false, "max.connections.per.ip=0"); code != 0 {
		t.Fatalf("%d %s", code, message)
	}
	if served() {
		t.Error("a connection beyond the limit was served")
	}
	alter(n, resourceBroker, "", false, "max.connections.per.ip")
	if !served() {
		t.Error("the limit stays after it was taken away")
	}
}

func TestLevelsOfLoggers(t *testing.T) {
	n := startForConfigs(t)
	var said strings.Builder
	n.loggers = newLoggers(slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})))
	storage, server := n.loggers.named(loggerStorage).With("a", 1), n.loggers.named(loggerServer)
	change := func(changes ...string) string {
		code, message := alter(n, resourceBrokerLogger, "1", false, changes...)
		return strings.TrimSpace(fmt.Sprint(code, " ", message))
	}
	level := func(name string) string {
		_, _, entries := describe(n, resourceBrokerLogger, "1", name)
		return strings.Fields(entries[name])[0]
	}
	storage.Debug("not said")
	for _, c := range []struct{ got, want string }{
		{change("quire.storage=DEBUG"), "0"},
		{level("quire.storage"), "DEBUG"},
		{level("quire.server"), "INFO"},
		{change("root=ERROR"), "0"},
		{level("quire.server"), "ERROR"},
		{level("quire.storage"), "DEBUG"},
		{change("quire.storage=LOUD"), "40 Cannot set the log level of quire.storage to LOUD as it is not a supported log level. Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"},
		{change("no.such=INFO"), "40 Logger no.such does not exist!"},
		{change("root"), "42 Removing the log level of the root logger is not allowed"},
		{change("root+=INFO"), "42 APPEND operation is not allowed for the BROKER_LOGGER resource"},
		{change("root=INFO", "root=INFO"), "42 Error due to duplicate config keys"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
	storage.Debug("said")
	server.Warn("not said")
	if got, want := change("quire.storage"), "0"; got != want || level("quire.storage") != "ERROR" {
		t.Errorf("delete: %s, then %s", got, level("quire.storage"))
	}
	storage.Debug("not said either")
	if got, want := said.String(), "level=DEBUG msg=said a=1\n"; got != want {
		t.Errorf("said %q, want %q", got, want)
	}
}

func TestListConfigResources(t *testing.T) {
	n := startForConfigs(t)
	alter(n, resourceGroup, "g", false, "consumer.session.timeout.ms=50000")
	alter(n, resourceClientMetrics, "m", false, "interval.ms=1000")
	list := func(version int16, kinds ...int8) string {
		r := kmsg.NewPtrListConfigResourcesRequest()
		r.SetVersion(version)
		r.ResourceTypes = kinds
		resp := n.listConfigResources(n.controller.Image(), r)
		s := fmt.Sprint(resp.ErrorCode)
		for _, c := range resp.ConfigResources {
			s += fmt.Sprintf(" %d/%s", c.Type, c.Name)
		}
		return s
	}
	for _, c := range []struct{ got, want string }{
		{list(0), "0 16/m"},
		{list(1), "0 2/orders 4/1 8/1 16/m 32/g"},
		{list(1, 32, 2, 32), "0 32/g 2/orders"},
		{list(1, 3), "35"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
}

// What each topic option does to a log's settings, and that no field is forgotten.
func TestLogConfig(t *testing.T) {
	n := startForConfigs(t)
	plain := n.configs.of(n.controller.Image(), "orders")
	for _, c := range []struct{ change, diff string }{
		{"segment.bytes=2000000", "SegmentBytes"},
		{"internal.segment.bytes=2000", "SegmentBytes"},
		{"segment.ms=5", "SegmentMs"},
		{"segment.jitter.ms=5", "SegmentJitterMs"},
		{"segment.index.bytes=64", "IndexBytesMax"},
		{"index.interval.bytes=5", "IndexInterval"},
		{"flush.messages=5", "FlushMessages"},
		{"flush.ms=5", "FlushMs"},
		{"preallocate=true", "Preallocate"},
		{"max.message.bytes=5", "MaxMessageBytes"},
		{"cleanup.policy=compact,delete", "Compact"},
		{"cleanup.policy=", "Delete"},
		{"retention.ms=5", "RetentionMs"},
		{"retention.bytes=5", "RetentionBytes"},
		{"file.delete.delay.ms=5", "FileDeleteDelayMs"},
		{"max.compaction.lag.ms=5", "MaxCompactionLagMs"},
		{"min.compaction.lag.ms=5", "MinCompactionLagMs"},
		{"delete.retention.ms=5", "DeleteRetentionMs"},
		{"min.cleanable.dirty.ratio=0.1", "MinCleanableDirtyRatio"},
		{"compression.type=gzip", "Recompress Codec"},
		{"message.timestamp.type=LogAppendTime", "LogAppendTime"},
		{"message.timestamp.before.max.ms=5", "TimestampBeforeMaxMs"},
		{"message.timestamp.after.max.ms=5", "TimestampAfterMaxMs"},
		{"unclean.leader.election.enable=true", ""},
	} {
		key, _, _ := strings.Cut(c.change, "=")
		if code, message := alter(n, resourceTopic, "orders", false, c.change); code != 0 {
			t.Fatalf("%s: %d %s", c.change, code, message)
		}
		var fields []string
		for line := range strings.SplitSeq(cmp.Diff(plain, n.configs.of(n.controller.Image(), "orders")), "\n") {
			if name, _, ok := strings.Cut(strings.TrimLeft(line, "+ \u00a0\t"), ":"); ok && strings.HasPrefix(line, "+") {
				fields = append(fields, name)
			}
		}
		if got := strings.Join(fields, " "); got != c.diff {
			t.Errorf("%s changed %q, want %q", c.change, got, c.diff)
		}
		alter(n, resourceTopic, "orders", false, key)
	}
	if got := n.configs.of(n.controller.Image(), "orders"); got != plain {
		t.Errorf("in the end: %s", cmp.Diff(plain, got))
	}
	alter(n, resourceBroker, "", false, "producer.id.expiration.ms=5")
	if got := n.configs.of(n.controller.Image(), "orders").ProducerExpirationMs; got != 5 {
		t.Errorf("producers expire after %d ms", got)
	}
	if got := maps.Clone(n.controller.Image().Configs(metadata.TopicResource, "orders")); len(got) != 0 {
		t.Errorf("left over: %v", got)
	}
}

// What was changed is there after the next start, whichever way the node ended.
func TestChangesOutliveTheNode(t *testing.T) {
	disk := vfs.NewMem()
	start := func() *Node {
		n, err := Start(t.Context(), Options{FS: disk, Properties: map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0", "admin.listener": "", "log.dirs": "/data"}})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	n := start()
	for _, c := range []struct {
		kind         kmsg.ConfigResourceType
		name, change string
	}{
		{resourceBroker, "", "log.roll.ms=9000"}, {resourceBroker, "1", "my.own.key=5"}, {resourceGroup, "g", "share.auto.offset.reset=earliest"},
		{resourceClientMetrics, "m", "interval.ms=1000"},
	} {
		if code, message := alter(n, c.kind, c.name, false, c.change); code != 0 {
			t.Fatalf("%s: %d %s", c.change, code, message)
		}
	}
	n.Abort()
	n = start()
	defer n.Close(context.Background())
	img := n.controller.Image()
	for _, c := range []struct {
		kind      int8
		name, key string
		want      string
	}{
		{metadata.BrokerResource, "", "log.roll.ms", "9000"}, {metadata.BrokerResource, "1", "my.own.key", "5"},
		{metadata.GroupResource, "g", "share.auto.offset.reset", "earliest"}, {metadata.ClientMetricsResource, "m", "interval.ms", "1000"},
	} {
		if got := img.Configs(c.kind, c.name)[c.key]; got != c.want {
			t.Errorf("%d/%s %s = %q, want %q", c.kind, c.name, c.key, got, c.want)
		}
	}
}
