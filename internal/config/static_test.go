package config

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// combined is what Kafka's own server.properties for a combined node says, comments aside.
const combined = `
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
`

func TestCheckStatic(t *testing.T) {
	for _, c := range []struct{ name, file, want string }{
		{"nothing", "", ""},
		{"Kafka's own", combined, ""},
		{"a number of its own", "node.id=4", ""},
		{"the old name", "broker.id=4", ""},
		{"two numbers", "broker.id=4\nnode.id=5", "Invalid value 4 for configuration broker.id: You must set `node.id` to the same value as `broker.id`, which is 5 here."},
		{"one role", "process.roles=broker", "Invalid value broker for configuration process.roles: this version of Quire is a cluster of one node, which has to be broker and controller"},
		{"no role", "process.roles=", "Configuration 'process.roles' must not be empty. Valid values include: [broker, controller]"},
		{"a strange role", "process.roles=broker,king", "Invalid value king for configuration process.roles: String must be one of: broker, controller"},
		{"not among the voters", "node.id=2\ncontroller.quorum.voters=1@h:9093", "Invalid value 1@h:9093 for configuration controller.quorum.voters: If process.roles contains the 'controller' role, the node id 2 must be included in the set of voters controller.quorum.voters=Set(1)"},
		{"three voters", "controller.quorum.voters=1@h:9093,2@h:9094,3@h:9095", "Invalid value 1@h:9093,2@h:9094,3@h:9095 for configuration controller.quorum.voters: this version of Quire is a cluster of one node, and cannot share its quorum with others"},
		{"a bad voter", "controller.quorum.voters=one@h:9093", "Invalid value one@h:9093 for configuration controller.quorum.voters: Failed to parse voter ID as an integer from one@h:9093"},
		{"an impossible number", "log.segment.bytes=12", "Invalid value 12 for configuration log.segment.bytes: Value must be at least 1048576"},
		{"no number", "num.partitions=many", "Invalid value many for configuration num.partitions: Not a number of type INT"},
		{"no listener", "listeners=", "Configuration 'listeners' must not be empty. Valid values include: any non-empty value"},
		{"no port", "listeners=PLAINTEXT://h", "Unable to parse PLAINTEXT://h to a broker endpoint"},
		{"IPv6", "listeners=PLAINTEXT://[::1]:9092", ""},
		{"a name twice", "listeners=PLAINTEXT://:1,PLAINTEXT://:2", "Each listener must have a different name, listeners: PLAINTEXT://:1,PLAINTEXT://:2"},
		{"a port twice", "listeners=PLAINTEXT://:1,CONTROLLER://:1", "Each listener must have a different port, listeners: PLAINTEXT://:1,CONTROLLER://:1"},
		{"an unmapped name", "listeners=INTERNAL://:1", "No security protocol defined for listener INTERNAL"},
		{"a mapped name", "listeners=INTERNAL://:1\nlistener.security.protocol.map=internal:PLAINTEXT", ""},
		{"TLS", "listeners=SSL://:1", "Invalid value SSL://:1 for configuration listeners: listener SSL asks for SSL, but this version of Quire has no TLS: it speaks PLAINTEXT and SASL_PLAINTEXT"},
		{"TLS with logins", "listeners=SASL_SSL://:1", "Invalid value SASL_SSL://:1 for configuration listeners: listener SASL_SSL asks for SASL_SSL, but this version of Quire has no TLS: it speaks PLAINTEXT and SASL_PLAINTEXT"},
		{"logins", "listeners=SASL_PLAINTEXT://:1", ""},
		{"only controllers", "listeners=CONTROLLER://:1", "Invalid value CONTROLLER://:1 for configuration listeners: There must be at least one broker listener. Perhaps all listeners appear in controller.listener.names?"},
		{"controllers nowhere", "controller.listener.names=C\nlisteners=PLAINTEXT://:1", "Invalid value C for configuration controller.listener.names: controller.listener.names must contain at least one value appearing in the 'listeners' configuration when running the KRaft controller role"},
		{"advertised everywhere", "advertised.listeners=PLAINTEXT://0.0.0.0:1", "Invalid value PLAINTEXT://0.0.0.0:1 for configuration advertised.listeners: advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address."},
		{"bound everywhere", "listeners=PLAINTEXT://0.0.0.0:1", ""},
		{"advertised but not bound", "advertised.listeners=SSL://h:1", "Invalid value SSL://h:1 for configuration advertised.listeners: advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. Found SSL. The valid options based on the current configuration are PLAINTEXT"},
		{"no such listener between brokers", "inter.broker.listener.name=X", "Invalid value X for configuration inter.broker.listener.name: inter.broker.listener.name must be a listener name defined in advertised.listeners, and none of controller.listener.names"},
		{"two ways between brokers", "inter.broker.listener.name=PLAINTEXT\nsecurity.inter.broker.protocol=PLAINTEXT", "Invalid value PLAINTEXT for configuration inter.broker.listener.name: Only one of inter.broker.listener.name and security.inter.broker.protocol should be set."},
		{"retention of nothing", "log.retention.hours=0", "Invalid value 0 for configuration log.retention.hours: log.retention.ms must be unlimited (-1) or, greater than or equal to 1"},
		{"unlimited retention", "log.retention.hours=-1", ""},
		{"a small cleaner", "log.cleaner.dedupe.buffer.size=1000", "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."},
		{"an authorizer", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "Invalid value org.apache.kafka.metadata.authorizer.StandardAuthorizer for configuration authorizer.class.name: this version of Quire has no authorizer, and would let everybody do everything"},
		{"a policy", "create.topic.policy.class.name=a.B", "Invalid value a.B for configuration create.topic.policy.class.name: Class a.B could not be found."},
		{"a listener's own", "listener.name.plaintext.max.connections=-1", "Invalid value -1 for configuration max.connections: Value must be at least 0"},
	} {
		p, err := ReadProperties(strings.NewReader(c.file))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		_, err = CheckStatic(p)
		if got := message(err); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestWarnings(t *testing.T) {
	warnings, err := CheckStatic(pairs(
		"log.retention.hurs", "5", "retention.ms", "5", "zookeeper.connect", "h:2181", "colour", "red", "rsm.config.bucket", "b",
		"num.io.threads", "8", "listener.name.a.ssl.key.password", "x"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"colour: unknown",
		"log.retention.hurs: unknown; did you mean log.retention.hours?",
		"retention.ms: unknown here, it is an option of topics; the broker's is log.retention.ms",
		"zookeeper.connect: unknown, since Kafka 4 has no ZooKeeper",
		"accepted without effect in this version: listener.name.a.ssl.key.password, num.io.threads",
	}
	if d := cmp.Diff(want, warnings); d != "" {
		t.Error(d)
	}
}

func TestNearest(t *testing.T) {
	for key, want := range map[string]string{
		"log.dir":                      "log.dir",
		"logdirs":                      "log.dirs",
		"lgo.dirs":                     "log.dirs",
		"auto.create.topic.enable":     "auto.create.topics.enable",
		"advertised.listener":          "advertised.listeners",
		"log.segments.byte":            "log.segment.bytes",
		"message.max.byte":             "message.max.bytes",
		"offsets.topic.replica.factor": "offsets.topic.replication.factor",
		"xyz":                          "",
		"":                             "",
	} {
		if got := Nearest(Broker(), key); got != want {
			t.Errorf("Nearest(%s) = %q, want %q", key, got, want)
		}
	}
}

func TestReadProperties(t *testing.T) {
	got, err := ReadProperties(bytes.NewReader([]byte("# comment\n! another\r\n  a = b \\\n   c\nk:v\nspace separated value\npath=C:\\\\x\\u0041\numlaut=\xfc\nexp=${HOME}\ndup=1\ndup=2\nempty\nempty2=\n")))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"a": "b c", "k": "v", "space": "separated value", "path": `C:\xA`, "umlaut": "ü", "exp": "${HOME}", "dup": "2", "empty": "", "empty2": ""}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for text, want := range map[string]string{
		"a=b\nc=\\u00zz":  "properties: Line 2: invalid unicode literal",
		"a=b\n\n=\nc=d\n": "properties: Line 3: a line needs a key before its value",
	} {
		if _, err := ReadProperties(strings.NewReader(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if _, err := ReadProperties(strings.NewReader(strings.Repeat("x", propertiesBytesMax+1))); err == nil {
		t.Error("a file beyond the bound passed")
	}
}

func FuzzReadProperties(f *testing.F) {
	for _, s := range []string{"", combined, "a=b\\\n c", "a\\u0041=\\", "\xff\xfe=\x00", "a=${a}", "listeners=PLAINTEXT://[::1]:9092", "log.retention.ms=0"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ReadProperties(bytes.NewReader(text))
		if err != nil {
			return
		}
		// Whatever a file says, checking it ends in an answer, and an accepted file can be described.
		if _, err := CheckStatic(p); err == nil {
			DescribeBroker(Layers{Static: Complete(p)})
		}
	})
}

func FuzzValidate(f *testing.F) {
	for i := range Topic() {
		f.Add(Topic()[i].Key, Topic()[i].Default)
	}
	f.Add("listeners", "PLAINTEXT://:9092")
	f.Add("log.cleaner.io.max.bytes.per.second", "1e400")
	f.Add("cleanup.policy", " , compact\t,")
	f.Fuzz(func(t *testing.T, key, value string) {
		for _, table := range [][]Option{Topic(), Broker(), Group(), ClientMetrics()} {
			o, ok := Lookup(table, key)
			if !ok {
				Nearest(table, key)
				continue
			}
			text, err := o.parse(value)
			if err != nil {
				continue
			}
			// keeps I1: what was accepted is accepted again as it is shown, and reads as its type.
			if again, err := o.parse(text); err != nil || again != text {
				t.Fatalf("%s: %q is shown as %q, then %q: %v", key, value, text, again, err)
			}
			switch v := (Value{Option: o, Text: text}); o.Type {
			case Short, Int, Long:
				v.Int64()
			case Double:
				v.Float()
			case Boolean:
				v.Bool()
			case List:
				v.Items()
			}
		}
	})
}
