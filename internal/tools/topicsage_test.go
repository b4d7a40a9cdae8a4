package tools

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A topic's creation tells a person how old its records can become, from what the broker answered.
func TestAgeSays(t *testing.T) {
	for _, q := range []struct {
		configs string
		says    []string
	}{
		{"", []string{"at least 7.0 days", "at most 14.0 days"}},
		{"retention.ms=3600000 segment.ms=600000", []string{"at least 1h0m0s", "at most 1h10m0s"}},
		{"retention.ms=-1", []string{"no age limit"}},
		{"retention.ms=-1 retention.bytes=1000", []string{"no age limit", "retention.bytes=1000"}},
		{"cleanup.policy=compact", []string{"no age limit"}},
		{"cleanup.policy=compact,delete retention.ms=7200000 segment.ms=1 retention.bytes=5", []string{"at most 2h0m0s", "earlier when the log has more than retention.bytes=5"}},
	} {
		var configs []kmsg.CreateTopicsResponseTopicConfig
		for pair := range strings.FieldsSeq(q.configs) {
			key, value, _ := strings.Cut(pair, "=")
			configs = append(configs, kmsg.CreateTopicsResponseTopicConfig{Name: key, Value: &value})
		}
		got := ageSays(configs)
		for _, s := range q.says {
			if !strings.Contains(got, s) {
				t.Errorf("%s: %q does not say %q", q.configs, got, s)
			}
		}
	}
}
