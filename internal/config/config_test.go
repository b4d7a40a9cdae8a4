package config

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestValidateTopic(t *testing.T) {
	for _, c := range []struct{ key, value, want string }{
		{"retention.ms", "soon", "Invalid value soon for configuration retention.ms: Not a number of type LONG"},
		{"retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"},
		{"retention.ms", " 7 ", ""},
		{"retention.ms", "", "Invalid value  for configuration retention.ms: Not a number of type LONG"},
		{"retention.bytes", "-77", ""},
		{"segment.ms", "0", "Invalid value 0 for configuration segment.ms: Value must be at least 1"},
		{"segment.bytes", "1000", "Invalid value 1000 for configuration segment.bytes: Value must be at least 1048576"},
		{"segment.bytes", "4294967296", "Invalid value 4294967296 for configuration segment.bytes: Not a number of type INT"},
		{"min.insync.replicas", "0", "Invalid value 0 for configuration min.insync.replicas: Value must be at least 1"},
		{"max.message.bytes", "-1", "Invalid value -1 for configuration max.message.bytes: Value must be at least 0"},
		{"cleanup.policy", "shred", "Invalid value shred for configuration cleanup.policy: String must be one of: compact, delete"},
		{"cleanup.policy", "", ""},
		{"cleanup.policy", "compact , delete", ""},
		{"cleanup.policy", "delete,delete", ""},
		{"cleanup.policy", ",delete", "Configuration 'cleanup.policy' values must not be empty."},
		{"compression.type", "brotli", "Invalid value brotli for configuration compression.type: String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"},
		{"compression.gzip.level", "0", "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1"},
		{"compression.lz4.level", "18", "Invalid value 18 for configuration compression.lz4.level: Value must be no more than 17"},
		{"compression.zstd.level", "-131073", "Invalid value -131073 for configuration compression.zstd.level: Value must be at least -131072"},
		{"min.cleanable.dirty.ratio", "1.01", "Invalid value 1.01 for configuration min.cleanable.dirty.ratio: Value must be no more than 1"},
		{"min.cleanable.dirty.ratio", "0x1p-2", "Invalid value 0x1p-2 for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE"},
		{"preallocate", "yes", "Invalid value yes for configuration preallocate: Expected value to be either true or false"},
		{"preallocate", "TRUE", ""},
		{"message.timestamp.type", "createtime", "Invalid value createtime for configuration message.timestamp.type: String must be one of: CreateTime, LogAppendTime"},
		{"leader.replication.throttled.replicas", "*", ""},
		{"leader.replication.throttled.replicas", "0:1,2:3", ""},
		{"leader.replication.throttled.replicas", "0-1,x", "Invalid value [0-1, x] for configuration leader.replication.throttled.replicas: leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."},
		{"min.compaction.lag.ms", "9223372036854775807", ""},
		{"remote.storage.enable", "true", "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."},
		{"no.such.key", "1", "Unknown topic config name: no.such.key"},
		{"log.retention.ms", "1", "Unknown topic config name: log.retention.ms"},
	} {
		err := ValidateTopic(map[string]string{c.key: c.value})
		if got := message(err); got != c.want {
			t.Errorf("%s=%q:\n got %s\nwant %s", c.key, c.value, got, c.want)
		}
	}
	err := ValidateTopic(map[string]string{"min.compaction.lag.ms": "20", "max.compaction.lag.ms": "10"})
	if got, want := message(err), "conflict topic config setting min.compaction.lag.ms (20) > max.compaction.lag.ms (10)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	// The broker's half of the conflict counts as well.
	err = ValidateTopicOn(map[string]string{"min.compaction.lag.ms": "20"}, Layers{DynamicDefault: map[string]string{"log.cleaner.max.compaction.lag.ms": "10"}})
	if message(err) == "" {
		t.Error("a conflict with the broker's default passed")
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestValidateGroupAndClientMetrics(t *testing.T) {
	group := func(kv ...string) string { return message(ValidateGroup(pairs(kv...), Layers{})) }
	metrics := func(kv ...string) string { return message(ValidateClientMetrics(pairs(kv...))) }
	for _, c := range []struct{ got, want string }{
		{group("consumer.session.timeout.ms", "50000", "share.auto.offset.reset", "earliest"), ""},
		{group("frob", "1"), "Unknown group config name: frob"},
		{group("consumer.session.timeout.ms", "1"), "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms"},
		{group("consumer.heartbeat.interval.ms", "20000"), "consumer.heartbeat.interval.ms must be less than or equal to group.consumer.max.heartbeat.interval.ms"},
		{group("share.auto.offset.reset", "by_duration:PT1H30M"), ""},
		{group("share.auto.offset.reset", "by_duration:P"), "Invalid value by_duration:P for configuration share.auto.offset.reset: Invalid value `by_duration:P` for configuration share.auto.offset.reset. The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."},
		{group("streams.num.standby.replicas", "3"), "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas"},
		{metrics("interval.ms", "10000", "match", "client_id=app.*", "metrics", "org.apache."), ""},
		{metrics("interval.ms", "1"), "Invalid value 1 for interval.ms, interval must be between 100 and 3600000 (1 hour)"},
		{metrics("frob", "1"), "Unknown client metrics configuration: frob"},
		{metrics("match", "client_id=("), "Illegal client matching pattern: client_id=("},
		{metrics("match", "shoe_size=44"), "Illegal client matching pattern: shoe_size=44"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func pairs(kv ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i]] = kv[i+1]
	}
	return m
}

func TestTopicValuePrecedence(t *testing.T) {
	for _, c := range []struct {
		name, key                     string
		topic, own, cluster, static   map[string]string
		value, source, wantedSynonyms string
	}{
		{name: "default", key: "retention.ms", value: "604800000", source: "DEFAULT_CONFIG"},
		{name: "hours of the file", key: "retention.ms", static: pairs("log.retention.hours", "2"), value: "7200000", source: "DEFAULT_CONFIG"},
		{name: "minutes before hours", key: "retention.ms", static: pairs("log.retention.hours", "2", "log.retention.minutes", "3"), value: "180000", source: "DEFAULT_CONFIG"},
		{name: "ms before both", key: "retention.ms", static: pairs("log.retention.minutes", "3", "log.retention.ms", "4"), value: "4", source: "STATIC_BROKER_CONFIG",
			wantedSynonyms: "STATIC_BROKER_CONFIG:log.retention.ms=4, STATIC_BROKER_CONFIG:log.retention.minutes=3, DEFAULT_CONFIG:log.retention.hours=168"},
		{name: "no limit in hours", key: "retention.ms", static: pairs("log.retention.hours", "-1"), value: "-1", source: "DEFAULT_CONFIG"},
		{name: "cluster before file", key: "retention.ms", cluster: pairs("log.retention.ms", "5"), static: pairs("log.retention.ms", "4"), value: "5", source: "DYNAMIC_DEFAULT_BROKER_CONFIG",
			wantedSynonyms: "DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=5, STATIC_BROKER_CONFIG:log.retention.ms=4, DEFAULT_CONFIG:log.retention.hours=168"},
		{name: "broker before cluster", key: "segment.bytes", own: pairs("log.segment.bytes", "3000000"), cluster: pairs("log.segment.bytes", "2000000"), value: "3000000", source: "DYNAMIC_BROKER_CONFIG",
			wantedSynonyms: "DYNAMIC_BROKER_CONFIG:log.segment.bytes=3000000, DYNAMIC_DEFAULT_BROKER_CONFIG:log.segment.bytes=2000000, DEFAULT_CONFIG:log.segment.bytes=1073741824"},
		{name: "topic before all", key: "cleanup.policy", topic: pairs("cleanup.policy", "compact, delete"), value: "compact,delete", source: "DYNAMIC_TOPIC_CONFIG",
			wantedSynonyms: "DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact, delete, DEFAULT_CONFIG:log.cleanup.policy=delete"},
		{name: "set to the default", key: "retention.ms", topic: pairs("retention.ms", "604800000"), value: "604800000", source: "DYNAMIC_TOPIC_CONFIG",
			wantedSynonyms: "DYNAMIC_TOPIC_CONFIG:retention.ms=604800000"},
		{name: "flush.ms from the scheduler", key: "flush.ms", static: pairs("log.flush.scheduler.interval.ms", "2000"), value: "2000", source: "DEFAULT_CONFIG"},
		{name: "a stored value that is no value", key: "segment.bytes", cluster: pairs("log.segment.bytes", "many"), value: "1073741824", source: "DYNAMIC_DEFAULT_BROKER_CONFIG",
			wantedSynonyms: "DYNAMIC_DEFAULT_BROKER_CONFIG:log.segment.bytes=many, DEFAULT_CONFIG:log.segment.bytes=1073741824"},
	} {
		o, _ := Lookup(Topic(), c.key)
		v := TopicValue(o, c.topic, Layers{c.own, c.cluster, c.static})
		if v.Text != c.value || v.Source.String() != c.source || synonyms(v.Synonyms) != c.wantedSynonyms {
			t.Errorf("%s: %s from %s {%s},\n want %s from %s {%s}", c.name, v.Text, v.Source, synonyms(v.Synonyms), c.value, c.source, c.wantedSynonyms)
		}
	}
}

func TestForeignKeysAreSecrets(t *testing.T) {
	l := Layers{DynamicBroker: pairs("my.own.key", "1", "listener.name.internal.ssl.key.password", "secret", "listener.name.internal.ssl.keystore.type", "PEM")}
	got := map[string]string{}
	for _, e := range DescribeBroker(l) {
		if _, ok := l.DynamicBroker[e.Key]; ok {
			got[e.Key] = text(e.Text, e.Null) + " {" + synonyms(e.Synonyms) + "}"
		}
		for _, s := range e.Synonyms {
			if strings.Contains(s.Text, "secret") {
				t.Errorf("%s shows a secret", e.Key)
			}
		}
	}
	want := map[string]string{
		"my.own.key": "null {DYNAMIC_BROKER_CONFIG:my.own.key=null}",
		"listener.name.internal.ssl.key.password":  "null {DYNAMIC_BROKER_CONFIG:listener.name.internal.ssl.key.password=null}",
		"listener.name.internal.ssl.keystore.type": "PEM {DYNAMIC_BROKER_CONFIG:listener.name.internal.ssl.keystore.type=PEM, DEFAULT_CONFIG:ssl.keystore.type=JKS}",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestCheckDynamic(t *testing.T) {
	now := measured()
	own := func(kv ...string) string { return message(CheckDynamic(pairs(kv...), true, now)) }
	cluster := func(kv ...string) string { return message(CheckDynamic(pairs(kv...), false, now)) }
	for _, c := range []struct{ got, want string }{
		{own("log.dirs", "/x", "process.roles", "broker"), "Cannot update these configs dynamically: [process.roles, log.dirs]"},
		{own("my.own.key", "1"), ""},
		{own("log.cleaner.threads", "500"), "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."},
		{own("log.cleaner.threads", "3"), "Log cleaner threads cannot be increased to more than double the current value 1"},
		{own("num.io.threads", "17"), "Dynamic thread count update validation failed for num.io.threads=17, value should not be greater than double the current value 8"},
		{own("num.io.threads", "3"), "Dynamic thread count update validation failed for num.io.threads=3, value should be at least half the current value 8"},
		{own("num.io.threads", "16"), ""},
		{own("log.segment.bytes", "5"), "Invalid value 5 for configuration log.segment.bytes: Value must be at least 1048576"},
		{own("log.retention.ms", "0"), "Invalid value 0 for configuration log.retention.ms: log.retention.ms must be unlimited (-1) or, greater than or equal to 1"},
		{own("listener.name.internal.ssl.key.password", "x"), ""},
		{cluster("listener.name.internal.ssl.keystore.type", "PEM"), "Cannot update these configs at default cluster level, broker id must be specified: [listener.name.internal.ssl.keystore.type]"},
		{cluster("listener.name.internal.max.connections", "5"), ""},
		{own("listener.name.in.plain.sasl.jaas.config", "secret"), "Invalid value [hidden] for configuration listener.name.in.plain.sasl.jaas.config: Quire reads it at start alone; change server.properties and restart"},
		{own("listener.name.in.sasl.enabled.mechanisms", "PLAIN"), "Invalid value PLAIN for configuration listener.name.in.sasl.enabled.mechanisms: Quire reads it at start alone; change server.properties and restart"},
		{own("sasl.enabled.mechanisms", "PLAIN"), "Invalid value PLAIN for configuration sasl.enabled.mechanisms: Quire reads it at start alone; change server.properties and restart"},
		{own("listeners", "PLAINTEXT://127.0.0.1:1"), "Invalid value PLAINTEXT://127.0.0.1:1 for configuration listeners: Quire reads it at start alone; change server.properties and restart"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestBase(t *testing.T) {
	for key, want := range map[string]string{
		"listener.name.l.ssl.key.password":       "ssl.key.password",
		"listener.name.l.plain.sasl.jaas.config": "sasl.jaas.config",
		"listener.name.l":                        "listener.name.l",
		"log.dirs":                               "log.dirs",
	} {
		if got, prefixed := Base(key); got != want || prefixed != (got != key) {
			t.Errorf("Base(%s) = %s, %v", key, got, prefixed)
		}
	}
}

func TestComplete(t *testing.T) {
	full := Complete(nil)
	if full["node.id"] != "" || full["listeners"] == "" || full["log.dirs"] != "data" {
		t.Errorf("of nothing: %v", full)
	}
	full = Complete(pairs("broker.id", "7", "log.dir", "/d"))
	if _, ok := full["log.dirs"]; ok || full["node.id"] != "7" {
		t.Errorf("with old names: %v", full)
	}
	given := pairs("node.id", "3")
	before := maps.Clone(given)
	Complete(given)
	if d := cmp.Diff(before, given); d != "" {
		t.Errorf("the argument changed: %s", d)
	}
}
