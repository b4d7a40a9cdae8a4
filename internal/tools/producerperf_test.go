package tools

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Kafka's payloads begin so in every run.
func TestPerfPayloads(t *testing.T) {
	o, random := &perfOptions{size: 8}, &splittableRandom{}
	for i, want := range []string{"YQHHNEBS", "EPDNSEIF", "GAMSUJXK", "OLTXSPLG"} {
		if got := string(o.payload(nil, random, int64(i))); got != want {
			t.Errorf("payload %d is %s, want %s", i, got, want)
		}
	}
	if got := string((&perfOptions{monotonic: true}).payload(nil, random, 12)); got != "12" {
		t.Errorf("monotonic: %s", got)
	}
}

func TestReadPayloads(t *testing.T) {
	for _, test := range []struct{ content, delimiter, want string }{
		{"first\nsecond\n", "\n", "first|second"},
		{"first,second,third\n", ",", "first|second|third\n"},
		{"\na\n\nb", "\n", "a||b"},
		{"a1b22c", "[0-9]+", "a|b|c"},
	} {
		file := filepath.Join(t.TempDir(), "payloads")
		if err := os.WriteFile(file, []byte(test.content), 0o644); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		payloads, err := readPayloads(Env{Stdout: &out}, file, test.delimiter)
		if got := string(bytes.Join(payloads, []byte("|"))); err != nil || got != test.want {
			t.Errorf("%q by %q: %q, %v; want %q", test.content, test.delimiter, got, err, test.want)
		}
	}
}

// Every command line that is refused is refused before a client is made.
func TestPerfRefuses(t *testing.T) {
	base := "--topic t --num-records 10 --record-size 10 --throughput -1 --bootstrap-server 127.0.0.1:1 "
	for _, test := range []struct{ args, want string }{
		{base + "--warmup-records 50", "The value for --warmup-records must be strictly fewer than the number of records in the test, --num-records."},
		{base + "--reporting-interval 0", "--reporting-interval should be greater than zero."},
		{base + "--transaction-duration-ms 0", "--transaction-duration-ms should be greater than zero."},
		{base + "--producer-props acks=1 --command-property acks=1", "--command-property and --producer-props cannot be specified together."},
		{base + "--command-property nonsense", "java.lang.IllegalArgumentException: Invalid property: nonsense"},
		{strings.Replace(base, "--record-size 10", "--record-size 0", 1), "--record-size should be greater than zero."},
		{"--topic t --num-records 0 --record-size 10 --throughput -1", "--num-records should be greater than zero."},
	} {
		var out, complaints bytes.Buffer
		code := kafkaProducerPerfTest(Env{Stdout: &out, Stderr: &complaints}, strings.Fields(test.args))
		told := strings.Join(strings.Fields(complaints.String()), " ") // the complaint is justified and wrapped
		if code != 1 || !strings.HasSuffix(told, test.want) {
			t.Errorf("%s: code %d, %s", test.args, code, told)
		}
	}
}

func TestPerfStats(t *testing.T) {
	start := time.Now()
	s := newPerfStats(4, time.Second, false, start)
	var out bytes.Buffer
	env := Env{Stdout: &out}
	for i, latency := range []int64{5, 1, 9, 3} {
		s.record(env, latency, 1<<20, start.Add(time.Duration(i)*400*time.Millisecond))
	}
	const window = "4 records sent, 3.3 records/sec (3.33 MB/sec), 4.5 ms avg latency, 9.0 ms max latency.\n"
	if got := out.String(); got != window {
		t.Errorf("window: %s", got)
	}
	out.Reset()
	s.printTotal(env)
	if got := out.String(); !strings.HasPrefix(got, "4 records sent, ") || !strings.HasSuffix(got, ", 4.50 ms avg latency, 9.00 ms max latency, 5 ms 50th, 9 ms 95th, 9 ms 99th, 9 ms 99.9th.\n") {
		t.Errorf("total: %s", got)
	}
	if !slices.IsSorted(s.latencies) {
		t.Error("percentiles of what is not sorted")
	}
}
