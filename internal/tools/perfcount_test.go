package tools

import (
	"math"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/record"
)

// perfBatch makes a batch of n records, whose keys and values have 5 bytes together.
func perfBatch(t *testing.T, base record.Offset, n int, codec record.Codec, producer int64, attributes int16) record.Entry {
	t.Helper()
	b := record.NewBuilder()
	b.BaseOffset, b.Codec, b.ProducerID, b.Attributes = base, codec, producer, attributes
	for range n {
		b.Add(record.Record{Key: []byte("k"), Value: []byte("1234")})
	}
	batch, err := b.Batch(nil)
	if err != nil {
		t.Fatal(err)
	}
	return record.Entry(batch)
}

func TestPerfCount(t *testing.T) {
	marker := func(base record.Offset, producer int64, commit bool) record.Entry {
		b := record.Batch(record.AppendEndTxnMarker(nil, producer, 0, commit, 0, 1))
		b.SetBaseOffset(base)
		return record.Entry(b)
	}
	// Producer 7 aborts 10-12 and commits 16-17; 8, whose transaction begins between, commits 13-14.
	entries := []record.Entry{
		perfBatch(t, 0, 4, record.None, -1, 0),
		perfBatch(t, 4, 6, record.Zstd, -1, 0),
		perfBatch(t, 10, 3, record.LZ4, 7, record.AttrTransactional),
		perfBatch(t, 13, 2, record.None, 8, record.AttrTransactional),
		marker(15, 7, false),
		perfBatch(t, 16, 2, record.Gzip, 7, record.AttrTransactional),
		marker(18, 7, true),
		marker(19, 8, true),
		perfBatch(t, 20, 5, record.Snappy, -1, 0),
	}
	aborted := []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: 7, FirstOffset: 10}}
	for _, test := range []struct {
		name          string
		from          int64
		aborted       []kmsg.FetchResponseTopicPartitionAbortedTransaction
		want, perPoll int64
		records, next int64
	}{
		{"all of it", 0, nil, 100, 500, 22, 25},
		{"as many as there are numbers", 0, nil, math.MaxInt64, 500, 22, 25},
		{"committed", 0, aborted, 100, 500, 19, 25},
		{"from inside a compressed batch", 7, nil, 100, 500, 15, 25},
		{"to the end of a poll", 0, nil, 5, 4, 8, 8},
		{"exactly", 0, nil, 11, 1, 11, 11},
		{"exactly, committed", 0, aborted, 11, 1, 11, 14},
		{"to the end of a transaction", 0, aborted, 12, 1, 12, 15},
	} {
		c := newPerfCount(test.want, test.perPoll, true)
		next, err := c.add(&perfFetched{from: test.from, entries: entries, aborted: test.aborted})
		if err != nil || next != test.next {
			t.Errorf("%s: next %d, %v; want %d", test.name, next, err, test.next)
		}
		if c.records != test.records || c.bytes != 5*test.records {
			t.Errorf("%s: %d records of %d bytes, want %d of 5 each", test.name, c.records, c.bytes, test.records)
		}
	}
}

func TestPerfCountChecks(t *testing.T) {
	e := perfBatch(t, 0, 2, record.None, -1, 0)
	e[len(e)-2] ^= 1 // in a value, so that only the checksum tells
	f := &perfFetched{topicPartition: topicPartition{"t", 3}, entries: []record.Entry{e}}
	if _, err := newPerfCount(5, 1, true).add(f); err == nil || !strings.Contains(err.Error(), "t-3") {
		t.Errorf("a damaged batch: %v", err)
	}
	c := newPerfCount(5, 1, false)
	if _, err := c.add(f); err != nil || c.records != 2 {
		t.Errorf("check.crcs=false: %d records, %v", c.records, err)
	}
}

func TestCutEntries(t *testing.T) {
	first, second := perfBatch(t, 5, 3, record.None, -1, 0), perfBatch(t, 8, 2, record.None, -1, 0)
	both := append(append([]byte{}, first...), second...)
	for _, test := range []struct {
		name    string
		b       []byte
		entries int
		next    int64
		ok      bool
	}{
		{"nothing", nil, 0, 6, true},
		{"both", both, 2, 10, true},
		{"the second torn", both[:len(both)-1], 1, 8, true},
		{"the first torn", first[:len(first)-1], 0, 6, true},
		{"nonsense", make([]byte, 100), 0, 6, false},
	} {
		entries, next, err := cutEntries(test.b, 6)
		if len(entries) != test.entries || next != test.next || (err == nil) != test.ok {
			t.Errorf("%s: %d entries, next %d, %v", test.name, len(entries), next, err)
		}
	}
}
