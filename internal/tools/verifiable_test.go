package tools

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
)

// An event's fields keep their order, and texts are escaped as Jackson does, that is not for HTML.
func TestEventBytes(t *testing.T) {
	got := string(appendFields(nil, []field{{"name", "a<b>\"\\"}, {"key", nullable(nil)}, {"value", nullable([]byte("ü"))},
		{"partitions", []object{{{"topic", "t"}, {"partition", int32(1)}}}}, {"none", []object{}}, {"rate", json.RawMessage("1.0E7")}}))
	if want := `{"name":"a<b>\"\\","key":null,"value":"ü","partitions":[{"topic":"t","partition":1}],"none":[],"rate":1.0E7}`; got != want {
		t.Errorf("event %s, want %s", got, want)
	}
}

func TestVerifiableCommandLines(t *testing.T) {
	for _, c := range []struct {
		tool   Tool
		line   string
		code   int
		stderr string // its end
	}{
		{kafkaVerifiableProducer, "--bootstrap-server x:1 --topic t --acks 7", 1, "verifiable-producer: error: argument  --acks:  invalid  choice: '7' (choose\nfrom {0,1,-1})\n"},
		{kafkaVerifiableProducer, "--bootstrap-server x:1", 1, "verifiable-producer: error: argument --topic is required\n"},
		{kafkaVerifiableProducer, "--bootstrap-server x:1 --topic t --command-config none", 1, "verifiable-producer: error: none\n"},
		{kafkaVerifiableProducer, "--bootstrap-server x:1 --topic t --command-config none --producer.config none", 1, "verifiable-producer: error: Options  --producer.config and --command-config\nare mutually exclusive.\n"},
		{kafkaVerifiableConsumer, "--bootstrap-server x:1 --topic t", 1, "verifiable-consumer: error: argument --group-id is required\n"},
		{kafkaVerifiableConsumer, "--bootstrap-server x:1 --topic t --group-id g --group-protocol frob", 1, "Exception in thread \"main\" java.lang.IllegalArgumentException: No enum constant org.apache.kafka.clients.consumer.GroupProtocol.FROB\n"},
		{kafkaVerifiableConsumer, "--bootstrap-server x:1 --topic t --group-id g --reset-policy middle", 1,
			"ConfigException: Invalid value middle for configuration auto.offset.reset: Invalid value `middle` for configuration auto.offset.reset. The value must be either 'earliest', 'latest', 'none' or of the format 'by_duration:<PnDTnHnMn.nS.>'.\n"},
		{kafkaVerifiableShareConsumer, "--bootstrap-server x:1 --topic t", 1, "verifiable-share-consumer: error: argument --group-id is required\n"},
	} {
		var out, errs bytes.Buffer
		code := c.tool(Env{Stdout: &out, Stderr: &errs}, strings.Fields(c.line))
		if code != c.code || out.Len() > 0 || !strings.HasSuffix(errs.String(), c.stderr) {
			t.Errorf("%s: code %d\n%s%s", c.line, code, out.String(), errs.String())
		}
	}
	for _, tool := range []Tool{kafkaVerifiableProducer, kafkaVerifiableConsumer, kafkaVerifiableShareConsumer} {
		var without, help bytes.Buffer
		if code := tool(Env{Stdout: &without}, nil); code != 0 {
			t.Errorf("without arguments: code %d", code)
		}
		if code := tool(Env{Stdout: &help}, []string{"-h"}); code != 1 || help.String() != without.String() || !strings.HasPrefix(help.String(), "usage: verifiable-") {
			t.Errorf("-h: code %d\n%s", code, help.String())
		}
	}
}

func TestAssignors(t *testing.T) {
	all, err := assignors(assignorPackage + "RoundRobinAssignor, " + assignorPackage + "CooperativeStickyAssignor")
	if err != nil || len(all) != 2 || all[0].ProtocolName() != "roundrobin" || all[1].ProtocolName() != "cooperative-sticky" {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := assignors("x.Y"); err == nil {
		t.Error("an unknown class is taken")
	}
}

// The client joins its group as soon as it is made, so that partitions can come before the tool says that it started.
func TestVerifiableConsumerStartsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		c := &verifiableConsumer{eventWriter: eventWriter{env: Env{Stdout: &out}}, started: make(chan struct{})}
		go c.partitions("partitions_assigned", map[string][]int32{"t": {0}})
		synctest.Wait()
		c.start()
		synctest.Wait()
		started, assigned, _ := strings.Cut(out.String(), "\n")
		if !strings.Contains(started, "startup_complete") || !strings.Contains(assigned, "partitions_assigned") {
			t.Errorf("printed\n%s", out.String())
		}
	})
}
