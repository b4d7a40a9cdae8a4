package tools

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What the tools that look after a cluster say before they have a broker; the option table that may follow is cut off.
func TestAdminUsageErrors(t *testing.T) {
	const boot = "--bootstrap-server localhost:9092 "
	const taken = "Unexpected config names: "
	for _, c := range []struct{ tool, args, want string }{
		{"kafka-configs", boot + "--describe", "At least one entity type must be specified\n"},
		{"kafka-configs", "--describe --topic x", "Either --bootstrap-server or --bootstrap-controller must be specified.\n"},
		{"kafka-configs", boot + "--describe --topic x --broker 1", "Only 'users' and 'clients' entity types may be specified together\n"},
		{"kafka-configs", boot + "--describe --topic x --entity-name y", "--entity-{type,name,default} should not be used in conjunction with specific entity flags\n"},
		{"kafka-configs", boot + "--alter --user u --add-config a=1,b=2", "Only quota and SCRAM credential configs can be added for 'users' using --bootstrap-server. " + taken + "Set(a, b)\n"},
		{"kafka-configs", boot + "--alter --client u --delete-config x,y", "Only quota configs can be deleted for 'clients' using --bootstrap-server. " + taken + "ArrayBuffer(x, y)\n"},
		{"kafka-configs", boot + "--alter --topic x --add-config retention.ms", "requirement failed: Invalid entity config: "},
		{"kafka-configs", boot + "--describe --broker one", "The entity name for brokers must be a valid integer broker id, but it is: one\n"},
		{"kafka-configs", boot + "--describe --topic x --add-config a=b", "Option \"[describe]\" can't be used with option \"[add-config]\"\nOption "},
		{"kafka-configs", "--frob", "frob is not a recognized option\n"},
		{"kafka-consumer-groups", boot + "--list --describe", "Option [describe] takes one of these options: [group], [all-groups]\nOption "},
		{"kafka-consumer-groups", boot + "--list --members", "Exception in thread \"main\" joptsimple.UnavailableOptionException: Option(s) [members] are unavailable given other options on the command line\n"},
		{"kafka-consumer-groups", boot + "--list --group x", "Option \"[group]\" can't be used with option \"[list]\"\nOption "},
		{"kafka-consumer-groups", boot + "--list --state sleeping", "Invalid state list 'sleeping'. Valid states are: "},
		{"kafka-consumer-groups", boot + "--reset-offsets --group a --to-latest --to-earliest --dry-run", "Option \"[to-earliest]\" can't be used with option \"[to-latest]\"\nOption "},
		{"kafka-groups", "", "Missing required option(s) [bootstrap-server]\nOption "},
		{"kafka-groups", boot + "--list --group-type frob", "--group-type must be a valid group type.\njava.lang.IllegalArgumentException: --group-type must be a valid group type.\n\n"},
		{"kafka-delete-records", boot, "Missing required argument \"[offset-json-file]\"\nOption "},
		{"kafka-log-dirs", boot, "Missing required argument \"[describe]\"\nOption "},
		{"kafka-broker-api-versions", "--frob", "frob is not a recognized option\njoptsimple.UnrecognizedOptionException: frob is not a recognized option\n\n"},
		{"kafka-cluster", "--version", "usage: kafka-cluster [-h] {cluster-id,unregister,list-endpoints} ...\nkafka-cluster: error: unrecognized arguments: '--version'\n"},
	} {
		tool, ok := lookup(c.tool)
		if !ok {
			t.Fatalf("no %s", c.tool)
		}
		code, stdout, stderr := runTestTool(tool.run, "", strings.Fields(c.args)...)
		if code != 1 || stdout != "" || !strings.HasPrefix(stderr, c.want) {
			t.Errorf("%s %s: code %d, standard output %q\n got %.300q\nwant %q", c.tool, c.args, code, stdout, stderr, c.want)
		}
	}
}

func TestClusterHelp(t *testing.T) {
	for file, args := range map[string][]string{"cluster-help": {"--help"}, "cluster-list-endpoints-help": {"list-endpoints", "--help"}} {
		want, err := os.ReadFile("testdata/" + file + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		code, stdout, _ := runTestTool(kafkaCluster, "", args...)
		if diff := cmp.Diff(string(want), stdout); diff != "" || code != 1 {
			t.Errorf("%s: code %d (-want +got):\n%s", args, code, diff)
		}
	}
}

func TestParsePairs(t *testing.T) {
	for _, c := range []struct {
		text string
		want map[string]string // nil: refused
	}{
		{"a=1,b=2", map[string]string{"a": "1", "b": "2"}},
		{" a = 1 , b= ", map[string]string{"a": "1", "b": ""}},
		{"a=[x,y],b=[k=v]", map[string]string{"a": "x,y", "b": "k=v"}},
		{"S=[iterations=8192,password=x]", map[string]string{"S": "iterations=8192,password=x"}},
		{"a=1,", map[string]string{"a": "1"}},
		{",", map[string]string{}},
		{"a", nil}, {"", nil}, {"a=b=c", nil}, {"a=x,y", nil},
	} {
		got := map[string]string{}
		err := parsePairs(got, c.text)
		if c.want == nil {
			if err == nil {
				t.Errorf("%q = %v, want a complaint", c.text, got)
			}
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got):\n%s", c.text, err, diff)
		}
	}
}

// The order of java.util.HashMap, as Kafka's tools printed it.
func TestJavaMapOrder(t *testing.T) {
	names := []string{"gl-classic", "gl-consumer"}
	javaMapOrder(names, javaHash, javaMapCapacity)
	if names[0] != "gl-consumer" {
		t.Errorf("groups in the order %q", names)
	}
	quotas := []string{"producer_byte_rate", "consumer_byte_rate"}
	javaMapOrder(quotas, javaHash, len(quotas))
	if quotas[0] != "consumer_byte_rate" {
		t.Errorf("quotas in the order %q", quotas)
	}
}

func TestOffsetFile(t *testing.T) {
	rows, err := parseOffsetFile([]byte(`{"partitions": [{"topic": "a", "partition": 1, "offset": 9223372036854775807}], "version": 1}`))
	if err != nil || len(rows) != 1 || rows[0] != (resetRow{groupPartition{"a", 1}, 9223372036854775807}) {
		t.Errorf("rows %v, error %v", rows, err)
	}
	for text, want := range map[string]string{
		"this": "org.apache.kafka.tools.AdminOperationException: The input string is not a valid JSON",
		"{}":   "org.apache.kafka.tools.AdminOperationException: Missing partitions field",
		`{"partitions":[{"topic":"a","partition":0}]}`:                                                   "com.fasterxml.jackson.databind.JsonMappingException: No such field exists: `offset`",
		`{"partitions":[{"topic":"a","partition":0,"offset":1},{"topic":"a","partition":0,"offset":1}]}`: "org.apache.kafka.tools.AdminCommandFailedException: Offset json file contains duplicate topic partitions: a-0",
		`{"partitions":[],"version":2}`:                                                                  "org.apache.kafka.tools.AdminOperationException: Not supported version field value 2",
		`{"partitions":[{"topic":"a","partition":99999999999,"offset":1}]}`:                              "com.fasterxml.jackson.databind.JsonMappingException: Expected `Integer` value, received 99999999999",
	} {
		if _, err := parseOffsetFile([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestJavaTimes(t *testing.T) {
	for text, want := range map[string]int64{"1970-01-01T00:00:01.500": 1500, "1970-01-01T01:00:00.000+01:00": 0, "1970-01-01T00:00:00.007Z": 7} {
		if got, err := javaDateTime(text); got != want || err != nil {
			t.Errorf("%s = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"yesterday", "2001-02-03T04:05:06", "2001-02-30T00:00:00.000"} {
		if got, err := javaDateTime(text); err == nil {
			t.Errorf("%s = %d, want a complaint", text, got)
		}
	}
	for text, want := range map[string]time.Duration{"P1D": 24 * time.Hour, "pt1h2m3.5s": 3723500 * time.Millisecond, "-PT1S": -time.Second, "PT-1.5S": -1500 * time.Millisecond} {
		if got, err := javaDuration(text); got != want || err != nil {
			t.Errorf("%s = %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "P", "PT", "1D", "P1H"} {
		if got, err := javaDuration(text); err == nil {
			t.Errorf("%q = %s, want a complaint", text, got)
		}
	}
}

func TestUsableAPIs(t *testing.T) {
	var served []kmsg.ApiVersionsResponseApiKey
	for _, k := range []clientAPI{{1, 0, 3, ""}, {0, 0, 99, ""}, {3, 14, 15, ""}, {8, 2, 2, ""}, {999, 1, 2, ""}} {
		served = append(served, kmsg.ApiVersionsResponseApiKey{ApiKey: k.key, MinVersion: k.min, MaxVersion: k.max})
	}
	lines := usableAPIs(served)
	want := []string{"Produce(0): 0 to 99 [usable: 13]", "Fetch(1): 0 to 3 [unusable: node too old]", "ListOffsets(2): UNSUPPORTED",
		"Metadata(3): 14 to 15 [unusable: node too new]", "OffsetCommit(8): 2 [usable: 2]", "OffsetFetch(9): UNSUPPORTED"}
	if diff := cmp.Diff(want, lines[:len(want)]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if last := lines[len(lines)-1]; last != "UNKNOWN(999): 1 to 2" {
		t.Errorf("the last line is %q", last)
	}
}

// One replacement character stands for each broken sequence, not for a run of them.
func TestBrokenText(t *testing.T) {
	read := newDeserializer(serializationPackage + "StringDeserializer")
	if got, err := read([]byte("a\xff\xfeb\xe2\x82c")); got != "a\uFFFD\uFFFDb\uFFFDc" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
