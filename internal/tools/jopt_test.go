package tools

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// runTestTool runs a tool with nothing around it.
func runTestTool(tool Tool, stdin string, args ...string) (code int, stdout, stderr string) {
	var out, complaint bytes.Buffer
	code = tool(Env{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &complaint}, args)
	return code, out.String(), complaint.String()
}

// The tables are those that Kafka 4.3.1 prints.
func TestHelpTables(t *testing.T) {
	for _, name := range []string{"kafka-topics", "kafka-get-offsets", "kafka-console-producer", "kafka-console-consumer", "kafka-configs", "kafka-consumer-groups", "kafka-groups",
		"kafka-delete-records", "kafka-log-dirs", "kafka-broker-api-versions"} {
		want, err := os.ReadFile("testdata/" + name + "-help.txt")
		if err != nil {
			t.Fatal(err)
		}
		c, ok := lookup(name)
		if !ok {
			t.Errorf("%s is not in the table of tools", name)
			continue
		}
		code, stdout, stderr := runTestTool(c.run, "", "--help")
		if code != 1 || stdout != "" {
			t.Errorf("%s --help: code %d, standard output %q", name, code, stdout)
		}
		if diff := cmp.Diff(string(want), stderr); diff != "" {
			t.Errorf("%s --help (-want +got):\n%s", name, diff)
		}
		if code, stdout, stderr := runTestTool(c.run, "", "--version"); code != 0 || stdout != "4.3.1\n" || stderr != "" {
			t.Errorf("%s --version: code %d, %q, %q", name, code, stdout, stderr)
		}
	}
}

// A required option is starred, which widens the head; both columns are as narrow as they can be. This one is kafka-groups'.
func TestTableOfRequired(t *testing.T) {
	p := newJopt(
		joptOption{name: "bootstrap-server", arg: requiredArg, what: "server to connect to", required: true, help: "REQUIRED: The Kafka server to connect to."},
		joptOption{name: "command-config", arg: requiredArg, what: "command config property file", help: "Property file containing configs to be passed to Admin Client."},
		joptOption{name: "list", help: "List the groups."},
		joptOption{name: "group-type", arg: requiredArg, what: "type", help: "Filter the groups based on group type. Valid types are: 'classic', 'consumer', 'share' and 'streams'."},
		joptOption{name: "protocol", arg: requiredArg, what: "protocol", help: "Filter the groups based on protocol type."},
		joptOption{name: "consumer", help: "Filter the groups to show all kinds of consumer groups, including classic and simple consumer groups. This matches group type 'consumer', and group type 'classic' where the protocol type is 'consumer' or empty."},
		joptOption{name: "share", help: "Filter the groups to show share groups."},
		joptOption{name: "streams", help: "Filter the groups to show streams groups."},
	)
	want, err := os.ReadFile("testdata/kafka-groups-help.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), "This tool helps to list groups of all types.\n"+p.table()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestJoptParse(t *testing.T) {
	parser := newJopt(
		joptOption{name: "topic", arg: requiredArg},
		joptOption{name: "partitions", arg: requiredArg, typ: "Integer"},
		joptOption{name: "list"},
		joptOption{name: "a"},
		joptOption{name: "b", arg: requiredArg},
		joptOption{name: "codec", arg: optionalArg},
		joptOption{name: "level", arg: optionalArg, typ: "Integer"},
	)
	for _, c := range []struct {
		args string
		want map[string][]string
		err  string
	}{
		{"--topic x --list", map[string][]string{"topic": {"x"}, "list": {}}, ""},
		{"-topic x -list", map[string][]string{"topic": {"x"}, "list": {}}, ""},
		{"--topic=a=b", map[string][]string{"topic": {"a=b"}}, ""},
		{"--topic=", map[string][]string{"topic": {""}}, ""},
		{"--topic --list", map[string][]string{"topic": {"--list"}}, ""},
		{"--list=ignored words - more", map[string][]string{"list": {}}, ""},
		{"--topic x -- --list", map[string][]string{"topic": {"x"}}, ""},
		{"-ab value", map[string][]string{"a": {}, "b": {"value"}}, ""},
		{"-abvalue", map[string][]string{"a": {}, "b": {"value"}}, ""},
		{"--codec --list", map[string][]string{"codec": {}, "list": {}}, ""},
		{"--codec gzip", map[string][]string{"codec": {"gzip"}}, ""},
		{"--codec", map[string][]string{"codec": {}}, ""},
		{"--level high", map[string][]string{"level": {}}, ""},
		{"--topic x --topic y", map[string][]string{"topic": {"x", "y"}}, ""},
		{"--top x", nil, "top is not a recognized option"},
		{"--frob=1", nil, "frob is not a recognized option"},
		{"-frob", nil, "f is not a recognized option"},
		{"-ax", nil, "x is not a recognized option"},
		{"--topic", nil, "Option topic requires an argument"},
	} {
		set, err := parser.parse(strings.Fields(c.args))
		switch {
		case c.err != "" && (err == nil || err.Error() != c.err):
			t.Errorf("%q: error %v, want %q", c.args, err, c.err)
		case c.err == "" && err != nil:
			t.Errorf("%q: %v", c.args, err)
		case c.err == "":
			if diff := cmp.Diff(c.want, set.values); diff != "" {
				t.Errorf("%q (-want +got):\n%s", c.args, diff)
			}
		}
	}
}

func TestJoptValues(t *testing.T) {
	parser := newJopt(joptOption{name: "topic", arg: requiredArg}, joptOption{name: "n", arg: requiredArg, typ: "Integer", def: "7"}, joptOption{name: "must", required: true})
	if _, err := parser.parse([]string{"--n", "1"}); err == nil || err.Error() != "Missing required option(s) [must]" {
		t.Errorf("a missing option: %v", err)
	}
	if _, err := parser.parse([]string{"--help"}); err != nil {
		t.Errorf("help needs %v", err)
	}
	set, err := parser.parse([]string{"--must", "--topic", "x", "--topic", "y", "--n", "3000000000"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := set.text("topic"); err == nil || asJava(err).Error() != "joptsimple.MultipleArgumentsForOptionException: Found multiple arguments for option topic, but you asked for only one" {
		t.Errorf("a value given twice: %v", err)
	}
	if _, _, err := set.number("n"); err == nil || err.Error() != "Cannot parse argument '3000000000' of option n" {
		t.Errorf("a number too large: %v", err)
	}
	set, _ = parser.parse([]string{"--must"})
	if n, ok, err := set.number("n"); n != 7 || !ok || err != nil {
		t.Errorf("default = %d, %t, %v", n, ok, err)
	}
}

// What each tool says before it has a broker; the option table that may follow is cut off.
func TestUsageErrors(t *testing.T) {
	const boot = "--bootstrap-server localhost:9092 "
	for _, c := range []struct {
		tool, args string
		want       string // what standard error begins with
	}{
		{"kafka-topics", "", "Create, delete, describe, or change a topic.\nOption "},
		{"kafka-topics", boot + "--topic x", "Command must include exactly one action: --list, --describe, --create, --alter or --delete\nOption "},
		{"kafka-topics", "--list", "--bootstrap-server must be specified\njava.lang.IllegalArgumentException: --bootstrap-server must be specified\n\n"},
		{"kafka-topics", "--frob", "frob is not a recognized option\njoptsimple.UnrecognizedOptionException: frob is not a recognized option\n\n"},
		{"kafka-topics", boot + "--create", "Missing required argument \"[topic]\"\nOption "},
		{"kafka-topics", boot + "--create --topic x --replica-assignment 1 --partitions 2", "Option \"[replica-assignment]\" can't be used with option \"[partitions]\"\nOption "},
		{"kafka-topics", boot + "--list --partitions 2", "Option \"[partitions]\" can't be used with option \"[list]\"\nOption "},
		{"kafka-topics", boot + "--describe --topics-with-overrides --at-min-isr-partitions", "Option \"[at-min-isr-partitions]\" can't be used with option \"[topics-with-overrides]\"\nOption "},
		{"kafka-topics", boot + "--alter --topic x --config a=b", "Option combination \"[[bootstrap-server], [config]]\" can't be used with option \"[alter]\" (To alter topic configurations, the kafka-configs tool can be used.)\nOption "},
		{"kafka-topics", boot + "--list --command-config testdata/none", "testdata/none\njava.nio.file.NoSuchFileException: testdata/none\n\n"},
		{"kafka-topics", "--bootstrap-server nonsense --list", "Failed to create new KafkaAdminClient\norg.apache.kafka.common.KafkaException: Failed to create new KafkaAdminClient\nCaused by: org.apache.kafka.common.config.ConfigException: Invalid url in bootstrap.servers: nonsense\n\n"},
		{"kafka-get-offsets", "--frob", "Error occurred: frob is not a recognized option\n"},
		{"kafka-get-offsets", "--topic x", "Missing required argument \"[bootstrap-server]\"\nOption "},
		{"kafka-get-offsets", "--bootstrap-server nonsense", "Please provide valid host:port like host1:9091,host2:9092\n\nOption "},
		{"kafka-get-offsets", boot + "--topic-partitions x --partitions 1", "Error occurred: --topic-partitions cannot be used with --topic or --partitions\n"},
		{"kafka-get-offsets", boot + "--topic-partitions x:y", "Error occurred: org.apache.kafka.tools.TerseException: Invalid rule specification: x:y\njava.lang.RuntimeException: org.apache.kafka.tools.TerseException: Invalid rule specification: x:y\n"},
		{"kafka-get-offsets", boot + "--time soon", "Error occurred: Malformed time argument soon. Please use -1 or latest / -2 or earliest"},
		{"kafka-console-producer", "--topic x", "Error while validating the bootstrap address\n\nOption "},
		{"kafka-console-producer", boot + "--topic x --timeout soon", "Cannot parse argument 'soon' of option timeout\n"},
		{"kafka-console-producer", boot + "--topic x --line-reader a.B", "java.lang.ClassNotFoundException: a.B\n"},
		{"kafka-console-producer", boot + "--topic x --property a=b --reader-property a=b", "Options --reader-property and --property cannot be specified together.\nOption "},
		{"kafka-console-producer", boot + "--topic x --compression-codec brotli", "org.apache.kafka.common.config.ConfigException: Invalid value brotli for configuration compression.type: String must be one of: none, gzip, snappy, lz4, zstd\n"},
		{"kafka-console-producer", boot + "--topic x --command-property enable.idempotence=true --request-required-acks 1", "org.apache.kafka.common.config.ConfigException: Must set acks to all in order to use the idempotent producer. Otherwise we cannot guarantee idempotence.\n"},
		{"kafka-console-consumer", boot, "Exactly one of the following arguments is required: [topic], [include]\nOption "},
		{"kafka-console-consumer", boot + "--topic x --offset 3", "The partition is required when offset is specified.\nOption "},
		{"kafka-console-consumer", boot + "--topic x --partition 0 --offset -1", "The provided offset value '-1' is incorrect. Valid values are 'earliest', 'latest', or a non-negative long.\nOption "},
		{"kafka-console-consumer", boot + "--topic x --partition 0 --group g", "Options group and partition cannot be specified together.\nOption "},
		{"kafka-console-consumer", boot + "--topic x --formatter no.such.F", "no.such.F\nOption "},
		{"kafka-console-consumer", boot + "--topic x --from-beginning --command-property auto.offset.reset=latest", "Can't simultaneously specify --from-beginning and 'auto.offset.reset=latest', please remove one option\n"},
		{"kafka-console-consumer", boot + "--topic x --command-property security.protocol=TLS", "["},
	} {
		tool, ok := lookup(c.tool)
		if !ok {
			t.Fatalf("no %s", c.tool)
		}
		code, stdout, stderr := runTestTool(tool.run, "x\n", strings.Fields(c.args)...)
		if code != 1 || !strings.HasPrefix(stderr, c.want) {
			t.Errorf("%s %s: code %d\n got %.300q\nwant %q", c.tool, c.args, code, stderr, c.want)
		}
		if stdout != "" {
			t.Errorf("%s %s: standard output %q", c.tool, c.args, stdout)
		}
	}
}

func TestLookup(t *testing.T) {
	for _, name := range []string{"kafka-topics", "kafka-topics.sh", "version", "serve"} {
		if _, ok := lookup(name); !ok {
			t.Errorf("no command %s", name)
		}
	}
	if code := Main([]string{"quire", "kafka-topic"}, nil, io.Discard, io.Discard); code != 2 {
		t.Errorf("an unknown command: code %d", code)
	}
	var out bytes.Buffer
	Main([]string{"/usr/bin/kafka-topics.sh", "--version"}, nil, &out, io.Discard)
	if out.String() != "4.3.1\n" {
		t.Errorf("by the name of a link: %q", out.String())
	}
}
