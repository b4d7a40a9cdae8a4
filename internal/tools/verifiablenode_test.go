package tools_test

import (
	"regexp"
	"testing"

	"github.com/quire-log/quire/quiretest"
)

// The verifiable tools and the formatters of internal topics, on a node of our own. Times are masked.
func TestVerifiableAgainstNode(t *testing.T) {
	address := quiretest.Start(t).Addr()
	run := func(args ...string) string {
		return regexp.MustCompile(`"timestamp":\d+`).ReplaceAllString(tool(t, address, "", args...), `"timestamp":T`)
	}
	run("kafka-topics", "--create", "--topic", "v", "--partitions", "1")
	want := `{"timestamp":T,"name":"startup_complete"}
{"timestamp":T,"name":"producer_send_success","key":"0","value":"7.0","offset":0,"topic":"v","partition":0}
{"timestamp":T,"name":"producer_send_success","key":"1","value":"7.1","offset":1,"topic":"v","partition":0}
{"timestamp":T,"name":"producer_send_success","key":"0","value":"7.2","offset":2,"topic":"v","partition":0}
{"timestamp":T,"name":"shutdown_complete"}
{"timestamp":T,"name":"tool_data","sent":3,"acked":3,"target_throughput":-1,"avg_throughput":N}
`
	got := run("kafka-verifiable-producer", "--topic", "v", "--max-messages", "3", "--value-prefix", "7", "--repeating-keys", "2")
	if got = regexp.MustCompile(`"avg_throughput":[\d.E]+`).ReplaceAllString(got, `"avg_throughput":N`); got != want {
		t.Errorf("the producer printed\n%s", got)
	}
	want = `{"timestamp":T,"name":"startup_complete"}
{"timestamp":T,"name":"partitions_assigned","partitions":[{"topic":"v","partition":0}]}
{"timestamp":T,"name":"records_consumed","count":3,"partitions":[{"topic":"v","partition":0,"count":2,"minOffset":0,"maxOffset":1}]}
{"timestamp":T,"name":"offsets_committed","offsets":[{"topic":"v","partition":0,"offset":2}],"success":true}
{"timestamp":T,"name":"partitions_revoked","partitions":[{"topic":"v","partition":0}]}
{"timestamp":T,"name":"shutdown_complete"}
{"timestamp":T,"name":"shutdown_requested"}
`
	for _, protocol := range []string{"classic", "consumer"} {
		if got := run("kafka-verifiable-consumer", "--topic", "v", "--group-id", protocol, "--group-protocol", protocol, "--max-messages", "2"); got != want {
			t.Errorf("the %s consumer printed\n%s", protocol, got)
		}
	}
}
