package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/config"
	"github.com/quire-log/quire/internal/metadata"
)

// acting is all that follows from the settings of a running node: of the logs of a topic, of compaction, of groups and transactions.
func acting(n *Node) string {
	img := n.controller.Image()
	var b strings.Builder
	log := n.replicas.Partition("orders", 0).Log()
	fmt.Fprintf(&b, "log %+v\n", log.Config()) // as the log itself has it
	cleaner, percent, delay := n.logs.Acting()
	fmt.Fprintf(&b, "cleaner %+v, percent %v, delay %d\n", cleaner, percent, delay)
	fmt.Fprintf(&b, "groups %+v\n", n.groupConfig(img))
	fmt.Fprintf(&b, "verifies %v, in sync %d\n", n.verifiesTransactions(img), n.minISR(img, "orders"))
	total, perIP := n.wire.ConnectionsMax()
	fmt.Fprintf(&b, "connections %d, %d\n", total, perIP)
	return b.String()
}

// Each option that may change for the whole cluster, and is not marked as one without effect, has an effect as soon as its change is answered,
// without a restart, and none any more when it is taken back.
func TestDynamicOptionsAct(t *testing.T) {
	n := startForConfigs(t)
	// Other values than the default, for those whose type alone gives none.
	values := map[string]string{
		"compression.type": "zstd", "log.cleanup.policy": "compact", "log.message.timestamp.type": "LogAppendTime",
		"log.cleaner.min.cleanable.ratio": "0.25", "log.cleaner.io.buffer.load.factor": "0.75", "log.cleaner.io.max.bytes.per.second": "1000000",
		"log.cleaner.threads": "2", "retention.disk.percent": "50", "log.cleaner.dedupe.buffer.size": "67108864",
		"group.consumer.assignment.interval.ms": "5000", "log.segment.bytes": "2097152", "log.index.size.max.bytes": "4096",
		"compression.gzip.level": "5", "compression.lz4.level": "5", "compression.zstd.level": "5", "min.insync.replicas": "2",
	}
	// A codec's effort is seen where the codec is used.
	codecs := map[string]string{"compression.gzip.level": "gzip", "compression.lz4.level": "lz4", "compression.zstd.level": "zstd"}
	// These are the controller's: its own tests see them act.
	elsewhere := map[string]bool{"unclean.leader.election.enable": true}
	alter := func(op kmsg.IncrementalAlterConfigOp, key, value string) {
		t.Helper()
		r := kmsg.NewPtrIncrementalAlterConfigsRequest()
		r.SetVersion(1)
		in := kmsg.NewIncrementalAlterConfigsRequestResource()
		in.ResourceType = kmsg.ConfigResourceType(metadata.BrokerResource)
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op, c.Value = key, op, &value
		in.Configs = append(in.Configs, c)
		r.Resources = append(r.Resources, in)
		if out := n.controller.IncrementalAlterConfigs(t.Context(), r).Resources[0]; out.ErrorCode != 0 {
			t.Errorf("%s=%s: error %d: %s", key, value, out.ErrorCode, orNull(out.ErrorMessage))
		}
	}
	seen := 0
	for _, o := range config.Broker() {
		if o.Mode != config.ClusterWide || o.Inert || elsewhere[o.Key] || o.Key == "num.recovery.threads.per.data.dir" { // which is refused
			continue
		}
		value := values[o.Key]
		if value == "" {
			switch o.Type {
			case config.Boolean:
				value = fmt.Sprint(o.Default != "true")
			case config.Int, config.Long:
				value = "123456"
			default:
				t.Errorf("%s: no value to try", o.Key)
				continue
			}
		}
		if codec := codecs[o.Key]; codec != "" {
			alter(kmsg.IncrementalAlterConfigOpSet, "compression.type", codec)
		}
		before := acting(n)
		alter(kmsg.IncrementalAlterConfigOpSet, o.Key, value)
		after := acting(n)
		if before == after {
			t.Errorf("%s=%s changes nothing:\n%s", o.Key, value, after)
		}
		if o.Key == "min.insync.replicas" { // it must have a value while there are eligible leader replicas
			alter(kmsg.IncrementalAlterConfigOpSet, o.Key, "1")
		} else {
			alter(kmsg.IncrementalAlterConfigOpDelete, o.Key, "")
		}
		if again := acting(n); again != before {
			t.Errorf("%s taken back leaves\n%s\nwant\n%s", o.Key, again, before)
		}
		if codecs[o.Key] != "" {
			alter(kmsg.IncrementalAlterConfigOpDelete, "compression.type", "")
		}
		seen++
	}
	if seen < 25 {
		t.Errorf("%d options were tried", seen)
	}
}
