package tools

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
		{"perf-test-help.txt", producerPerfParser(), "--help"},
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
		{producerPerfParser(), "--frob", "kafka-producer-perf-test: error: unrecognized arguments: '--frob'\n"},
		{producerPerfParser(), "--num-records 10 --record-size 10 --throughput -1", "kafka-producer-perf-test: error: argument --topic is required\n"},
		{producerPerfParser(), "--topic t --num-records 1 --throughput -1", "kafka-producer-perf-test: error:  one  of  the  arguments  --record-size --\npayload-file --payload-monotonic is required\n"},
		{producerPerfParser(), "--num-records many", "kafka-producer-perf-test: error: argument --num-records:  could not convert\n'many' to Long (For input string: \"many\")\n"},
		{producerPerfParser(), "--payload-monotonic" + enough, "kafka-producer-perf-test: error: argument  --record-size:  not allowed with\nargument --payload-monotonic\n"},
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
	values, err := producerPerfParser().parse(strings.Fields("--topic t --num-rec 10 --throughput -1 --record-size=5 --command-property a=b c=d --command-property e=f --print-metrics"))
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
