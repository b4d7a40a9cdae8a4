package tools

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// perfTestParser has everything that argparse4j can do to a help text: a long program name, groups, defaults.
func perfTestParser() *argParser {
	payload := &argGroup{exclusive: true, required: true, description: "Note that you must provide exactly one of --record-size, --payload-file or --payload-monotonic."}
	return &argParser{
		prog:         "kafka-producer-perf-test",
		showDefaults: true,
		description: "This tool is used to verify the producer performance. To enable transactions, you can specify a transactional id or set a transaction " +
			"duration using --transaction-duration-ms. There are three ways to specify the transactional id: set transactional.id=<id> via --command-property, " +
			"set transactional.id=<id> in the config file via --command-config, or use --transactional-id <id>.",
		arguments: []*argument{
			{flags: []string{"--bootstrap-server"}, metavar: "BOOTSTRAP-SERVER", help: "The server(s) to connect to. This config takes precedence over bootstrap.servers specified via --command-property or --command-config."},
			{flags: []string{"--topic"}, required: true, metavar: "TOPIC", help: "Produce records to this topic."},
			{flags: []string{"--num-records"}, required: true, typ: "Long", metavar: "NUM-RECORDS", help: "Number of records to produce."},
			{flags: []string{"--payload-delimiter"}, metavar: "PAYLOAD-DELIMITER", def: "\\n", help: "Provides the delimiter to be used when --payload-file is provided. Defaults to new line. Note that this parameter will be ignored if --payload-file is not provided."},
			{flags: []string{"--throughput"}, required: true, typ: "Double", metavar: "THROUGHPUT", help: "Throttle maximum record throughput to *approximately* THROUGHPUT records/sec. Set this to -1 to disable throttling."},
			{flags: []string{"--producer-props"}, many: "+", metavar: "PROP-NAME=PROP-VALUE", help: "(DEPRECATED) Kafka producer related configuration properties like client.id. These configs take precedence over those passed via --command-config or --producer.config. " +
				"This option will be removed in a future version. Use --command-property instead. Example: --command-property linger.ms=10 batch.size=32768"},
			{flags: []string{"--command-property"}, many: "+", action: appendArg, metavar: "PROP-NAME=PROP-VALUE", help: "Kafka producer related configuration properties like client.id. These configs take precedence over those passed via --command-config or --producer.config. Example: --command-property linger.ms=10 batch.size=32768"},
			{flags: []string{"--producer.config"}, metavar: "CONFIG-FILE", help: "(DEPRECATED) Producer config properties file. This option will be removed in a future version. Use --command-config instead."},
			{flags: []string{"--command-config"}, metavar: "CONFIG-FILE", help: "Producer config properties file."},
			{flags: []string{"--print-metrics"}, action: storeTrue, help: "Print out metrics at the end of the test."},
			{flags: []string{"--transactional-id"}, metavar: "TRANSACTIONAL-ID", help: "The transactional id to use. This config takes precedence over the transactional.id specified via --command-property or --command-config. " +
				"Note that if the transactional id is not specified while --transaction-duration-ms is provided, the default value for the transactional id will be performance-producer- followed by a random uuid."},
			{flags: []string{"--transaction-duration-ms"}, typ: "Long", metavar: "TRANSACTION-DURATION", help: "The maximum duration of each transaction. The commitTransaction will be called after this time has elapsed. The value should be greater than 0. " +
				"If the transactional id is specified via --command-property, --command-config or --transactional-id but --transaction-duration-ms is not specified, the default value will be 3000."},
			{flags: []string{"--warmup-records"}, typ: "Long", def: "0", metavar: "WARMUP-RECORDS", help: "The number of records to treat as warmup. These initial records will not be included in steady-state statistics. An additional summary line will be printed describing the steady-state statistics."},
			{flags: []string{"--reporting-interval"}, typ: "Long", def: "5000", metavar: "INTERVAL-MS", help: "Interval in milliseconds at which to print progress info."},
			{flags: []string{"--record-size"}, typ: "Integer", metavar: "RECORD-SIZE", group: payload, help: "Record size in bytes. Note that you must provide exactly one of --record-size, --payload-file or --payload-monotonic."},
			{flags: []string{"--payload-file"}, metavar: "PAYLOAD-FILE", group: payload, help: "File to read the record payloads from. This works only for UTF-8 encoded text files. Payloads will be read from this file and a payload will be randomly selected when sending records. " +
				"Note that you must provide exactly one of --record-size, --payload-file or --payload-monotonic."},
			{flags: []string{"--payload-monotonic"}, action: storeTrue, group: payload, help: "Payload is a monotonically increasing integer. Note that you must provide exactly one of --record-size, --payload-file or --payload-monotonic."},
		},
	}
}

// transactionsParser has options above its commands, and a list of commands with a title.
func transactionsParser() *argParser {
	return &argParser{prog: "kafka-transactions.sh", commandsTitle: "commands", commandsMetavar: "COMMAND",
		arguments: []*argument{{flags: []string{"--bootstrap-server"}, metavar: "host:port", required: true}},
		commands: []*argParser{{name: "list", arguments: []*argument{
			{flags: []string{"--duration-filter"}, typ: "Long", help: "Duration (in millis) to filter by: if < 0, all transactions will be returned; otherwise, only transactions running longer than this duration will be returned"},
			{flags: []string{"--transactional-id-pattern"}, help: "Transactional id regular expression pattern to filter by"},
		}}}}
}

func TestArgHelp(t *testing.T) {
	for _, c := range []struct {
		file   string
		parser *argParser
		args   string
	}{
		{"perf-test-help.txt", perfTestParser(), "--help"},
		{"storage-help.txt", storageParser(), "-h"},
		{"storage-format-help.txt", storageParser(), "format --help"},
		{"transactions-list-help.txt", transactionsParser(), "list --help"},
	} {
		want, err := os.ReadFile("testdata/" + c.file)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.parser.parse(strings.Fields(c.args))
		var out, complaint bytes.Buffer
		if code := printArgError(Env{Stdout: &out, Stderr: &complaint}, err, 7); code != 7 || complaint.Len() > 0 {
			t.Errorf("%s: code %d, complaint %q", c.file, code, complaint.String())
		}
		if diff := cmp.Diff(string(want), out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.file, diff)
		}
	}
}

// The complaints were seen from Kafka's tools; the usage before them is left out here.
func TestArgErrors(t *testing.T) {
	const enough = " --topic t --num-records 1 --throughput -1 --record-size 1"
	for _, c := range []struct {
		parser *argParser
		args   string
		want   string
	}{
		{storageParser(), "", "kafka-storage: error: too few arguments\n"},
		{storageParser(), "frobnicate", "kafka-storage: error: invalid  choice:  'frobnicate'  (choose  from 'info',\n'format', 'version-mapping', 'feature-dependencies', 'random-uuid')\n"},
		{storageParser(), "format", "kafka-storage: error: argument --cluster-id/-t is required\n"},
		{storageParser(), "form", "kafka-storage: error: argument --cluster-id/-t is required\n"},
		{storageParser(), "info --conf", "kafka-storage: error: argument --config/-c: expected one argument\n"},
		{storageParser(), "info --config a extra words", "kafka-storage: error: unrecognized arguments: 'extra words'\n"},
		{storageParser(), "info --config a --frob", "kafka-storage: error: unrecognized arguments: '--frob'\n"},
		{storageParser(), "format --standalone --no-initial-controllers", "kafka-storage: error:  argument  --no-initial-controllers/-N:  not  allowed\nwith argument --standalone/-s\n"},
		{storageParser(), "format --ignore-formatted=x -c a", "kafka-storage:  error:  argument   --ignore-formatted/-g:  ignore  implicit\nargument 'x'\n"},
		{storageParser(), "format --initial", "kafka-storage:  error:  argument   --initial-controllers/-I:  expected  one\nargument\n"},
		{perfTestParser(), "--frob", "kafka-producer-perf-test: error: unrecognized arguments: '--frob'\n"},
		{perfTestParser(), "--num-records 10 --record-size 10 --throughput -1", "kafka-producer-perf-test: error: argument --topic is required\n"},
		{perfTestParser(), "--topic t --num-records 1 --throughput -1", "kafka-producer-perf-test: error:  one  of  the  arguments  --record-size --\npayload-file --payload-monotonic is required\n"},
		{perfTestParser(), "--num-records many", "kafka-producer-perf-test: error: argument --num-records:  could not convert\n'many' to Long (For input string: \"many\")\n"},
		{perfTestParser(), "--payload-monotonic" + enough, "kafka-producer-perf-test: error: argument  --record-size:  not allowed with\nargument --payload-monotonic\n"},
	} {
		values, err := c.parser.parse(strings.Fields(c.args))
		if err == nil {
			t.Errorf("%s: no complaint, but %v", c.args, values.values)
			continue
		}
		var out, complaint bytes.Buffer
		if code := printArgError(Env{Stdout: &out, Stderr: &complaint}, err, 0); code != 1 || out.Len() > 0 {
			t.Errorf("%s: code %d, output %q", c.args, code, out.String())
		}
		_, got, _ := strings.Cut(complaint.String(), "\nkafka-")
		if "kafka-"+got != c.want {
			t.Errorf("%q\n got %q\nwant %q", c.args, "kafka-"+got, c.want)
		}
	}
}

func TestArgValues(t *testing.T) {
	values, err := perfTestParser().parse(strings.Fields("--topic t --num-rec 10 --throughput -1 --record-size=5 --command-property a=b c=d --command-property e=f --print-metrics"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, name := range []string{"topic", "num-records", "throughput", "record-size", "command-property", "print-metrics", "reporting-interval", "payload-file"} {
		got[name] = values.all(name)
	}
	want := map[string][]string{"topic": {"t"}, "num-records": {"10"}, "throughput": {"-1"}, "record-size": {"5"}, "command-property": {"a=b", "c=d", "e=f"},
		"print-metrics": {"true"}, "reporting-interval": {"5000"}, "payload-file": nil}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if n, ok := values.number("num-records"); n != 10 || !ok {
		t.Errorf("num-records = %d, %t", n, ok)
	}
	if values.has("reporting-interval") || !values.has("topic") {
		t.Errorf("has is wrong about defaults")
	}
	short, err := storageParser().parse(strings.Fields("format -gc file -tX"))
	if err != nil {
		t.Fatal(err)
	}
	if short.command != "format" || short.text("config") != "file" || short.text("cluster-id") != "X" || !short.has("ignore-formatted") {
		t.Errorf("short flags: %+v", short)
	}
}

func TestArgCommandAlike(t *testing.T) {
	_, err := storageParser().parse([]string{"formt"})
	var complaint bytes.Buffer
	printArgError(Env{Stderr: &complaint}, err, 0)
	if !strings.HasSuffix(complaint.String(), "\nDid you mean:\n\tformat\n") {
		t.Errorf("%q names no likely command", complaint.String())
	}
}
