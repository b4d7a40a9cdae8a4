package tools

import (
	"bytes"
	"strings"
	"testing"

	"github.com/quire-log/quire/internal/record"
)

func TestReplicaCompare(t *testing.T) {
	a, b := perfBatch(t, 0, 3, record.None, -1, 0), perfBatch(t, 3, 2, record.None, -1, 0)
	shorter, other := perfBatch(t, 3, 1, record.None, -1, 0), perfBatch(t, 3, 2, record.None, 7, 0)
	for _, test := range []struct {
		name          string
		first, second []record.Entry
		high          int64
		same          bool
		offset        int64
		told          string
	}{
		{"the same", []record.Entry{a, b}, []record.Entry{a, b}, 5, true, 5, ""},
		{"one is behind", []record.Entry{a, b}, []record.Entry{a}, 5, true, 3, ""},
		{"above the high watermark", []record.Entry{a, b}, []record.Entry{a, shorter}, 3, true, 3, ""},
		{"offsets", []record.Entry{a, b}, []record.Entry{a, shorter}, 5, false, 3, "partition t-1: replica 1's offset 4 doesn't match replica 2's offset 3\n"},
		{"bytes", []record.Entry{a, b}, []record.Entry{a, other}, 5, true, 5, "partition t-1 has unmatched checksum at offset 4; replica 1's checksum "},
	} {
		var out bytes.Buffer
		c := &replicaCheck{env: Env{Stdout: &out}}
		p := &replicaPart{topicPartition: topicPartition{"t", 1}, replicas: []int32{1, 2}}
		held := []replicaBytes{{broker: 2, partition: 1, high: test.high, entries: test.second}, {broker: 1, partition: 1, high: test.high, entries: test.first}}
		if same := c.compare(p, held); same != test.same || p.offset != test.offset || (out.Len() == 0) != (test.told == "") || !strings.Contains(out.String(), test.told) {
			t.Errorf("%s: same %v, offset %d, told %q", test.name, same, p.offset, out.String())
		}
	}
	// A replica that did not answer is waited for.
	p := &replicaPart{topicPartition: topicPartition{"t", 1}, replicas: []int32{1, 2}}
	if c := (&replicaCheck{}); !c.compare(p, []replicaBytes{{broker: 1, partition: 1, high: 5, entries: []record.Entry{a}}}) || p.offset != 0 {
		t.Errorf("one of two answered: offset %d", p.offset)
	}
}
