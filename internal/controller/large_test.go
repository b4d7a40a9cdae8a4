package controller

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/storage"
)

// subscriptions asks for n client-metrics subscriptions of size bytes each.
func subscriptions(n, size int) *kmsg.IncrementalAlterConfigsRequest {
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r.Version = 1
	value := strings.Repeat("m", size)
	for i := range n {
		in := kmsg.NewIncrementalAlterConfigsRequestResource()
		in.ResourceType, in.ResourceName = kmsg.ConfigResourceType(metadata.ClientMetricsResource), fmt.Sprintf("s%05d", i)
		kv := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		kv.Name, kv.Value = "metrics", &value
		in.Configs = append(in.Configs, kv)
		r.Resources = append(r.Resources, in)
	}
	return r
}

// What one request asks for may be more than a batch of the metadata log holds.
func TestChangeLargerThanABatch(t *testing.T) {
	const n, size = 300, 32000 // 9.6 MB
	s := newSite(t)
	s.start()
	for _, out := range s.IncrementalAlterConfigs(t.Context(), subscriptions(n, size)).Resources {
		if out.ErrorCode != 0 {
			t.Fatalf("%s: error %d", out.ResourceName, out.ErrorCode)
		}
	}
	s.kill()
	s.open()
	if got := len(s.Image().ConfigResources(metadata.ClientMetricsResource)); got != n {
		t.Errorf("%d subscriptions are there after a restart, want %d", got, n)
	}
}

// A record that no batch could hold is refused, and is no reason to write nothing any more.
func TestRecordLargerThanABatch(t *testing.T) {
	s := newSite(t)
	s.start()
	end := s.log.EndOffset()
	r := subscriptions(2, 10)
	r.Resources[1].ResourceName = strings.Repeat("s", batchBytesMax)
	for _, out := range s.IncrementalAlterConfigs(t.Context(), r).Resources {
		if out.ErrorCode != kerr.RecordListTooLarge.Code {
			t.Errorf("%.10s: error %d, want %d", out.ResourceName, out.ErrorCode, kerr.RecordListTooLarge.Code)
		}
	}
	if got := s.log.EndOffset(); got != end {
		t.Errorf("the log ends at %d, want %d: nothing written", got, end)
	}
	if err := s.Failed(); err != nil {
		t.Error(err)
	}
	s.create("after", 1)
}

func TestCreateTopicsRefusesLongValues(t *testing.T) {
	s := newSite(t)
	s.start()
	w := topicWish{name: "long", partitions: 1, factor: 1, configs: "leader.replication.throttled.replicas=" + strings.Repeat("0:1,", configValueMax/4+1) + "0:1"}
	r := kmsg.NewPtrCreateTopicsRequest()
	r.Version, r.Topics = 7, []kmsg.CreateTopicsRequestTopic{w.request()}
	if a := s.CreateTopics(t.Context(), r).Topics[0]; a.ErrorCode != kerr.InvalidConfig.Code {
		t.Errorf("error %d, want %d", a.ErrorCode, kerr.InvalidConfig.Code)
	}
}

// The rules over several keys see what the broker supplies.
func TestCreateTopicsUnderTheBrokersValues(t *testing.T) {
	s := newSite(t)
	s.options.Static = map[string]string{"log.cleaner.max.compaction.lag.ms": "1000"}
	s.start()
	w := topicWish{name: "lags", partitions: 1, factor: 1, configs: "min.compaction.lag.ms=2000"}
	r := kmsg.NewPtrCreateTopicsRequest()
	r.Version, r.Topics = 7, []kmsg.CreateTopicsRequestTopic{w.request()}
	if a := s.CreateTopics(t.Context(), r).Topics[0]; a.ErrorCode != kerr.InvalidConfig.Code {
		t.Errorf("error %d, want %d", a.ErrorCode, kerr.InvalidConfig.Code)
	}
}

// A request of many resources costs no more than it is long: the writer is everybody's.
func BenchmarkCheckForm(b *testing.B) {
	changes := make([]configChange, 100_000)
	for i := range changes {
		changes[i].name = fmt.Sprint(i)
	}
	for b.Loop() {
		checkForm(changes)
	}
}

// The batches that cut makes fit in the log's.
func TestCutBounds(t *testing.T) {
	s := newSite(t)
	s.start()
	for _, q := range []struct{ n, size int }{{10_001, 1}, {300, 32000}} {
		size := q.size
		recs := s.decideChanges(s.Image(), changesOf(subscriptions(q.n, size)))
		batches, err := s.cut(s.Image(), recs)
		if err != nil {
			t.Fatal(err)
		}
		if len(batches) < 2 {
			t.Fatalf("records of %d bytes: %d batches", size, len(batches))
		}
		for i, b := range batches {
			if err := s.appendBatch(b, s.Image().MetadataVersion()); err != nil {
				t.Fatalf("records of %d bytes: batch %d of %d: %v", size, i, len(batches), err)
			}
			if n := len(s.scratch); n > batchBytesMax || len(b) > batchRecordsMax {
				t.Errorf("a batch of %d bytes, %d records", n, len(b))
			}
		}
	}
	if s.log.EndOffset() < storage.Offset(10_000) {
		t.Error("nothing was written")
	}
}

func changesOf(r *kmsg.IncrementalAlterConfigsRequest) (changes []configChange) {
	for _, in := range r.Resources {
		changes = append(changes, configChange{resource: int8(in.ResourceType), name: in.ResourceName,
			ops: []configOp{{in.Configs[0].Name, in.Configs[0].Op, in.Configs[0].Value}}})
	}
	return changes
}
