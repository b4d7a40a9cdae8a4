package tools

import (
	"fmt"
	"math"

	"github.com/quire-log/quire/internal/record"
)

// A perfCount counts what a consumer would be given of fetched batches, without making records of them.
type perfCount struct {
	records, bytes int64 // bytes of keys and values
	// stopAt is the number of records to stop at. Java looks at its count after every poll, so that is a multiple of max.poll.records.
	stopAt int64
	crcs   bool // look at checksums

	reader record.Reader
}

// newPerfCount counts until there are want records, in polls of perPoll.
func newPerfCount(want, perPoll int64, crcs bool) *perfCount {
	c := &perfCount{stopAt: want, crcs: crcs}
	if over := want % perPoll; over > 0 {
		c.stopAt += min(perPoll-over, math.MaxInt64-want)
	}
	return c
}

// add counts the records of f until there are enough, and says which offset comes after them. Of a transaction, what was aborted is
// left out if f says what was; the records that end one always are.
func (c *perfCount) add(f *perfFetched) (next int64, err error) {
	next = f.from
	aborted := map[int64]bool{} // producers, inside a transaction that was
	pending := f.aborted        // those that begin later; brokers send them by their first offsets
	for _, e := range f.entries {
		if c.records >= c.stopAt {
			return next, nil
		}
		if c.crcs {
			if err := e.Check(); err != nil {
				return next, perfCorrupt(f.topicPartition, err)
			}
		}
		if e.Magic() < 2 {
			if err := c.reader.ResetEntry(e, readMost); err != nil {
				return next, perfCorrupt(f.topicPartition, err)
			}
		} else {
			b := e.Batch()
			for len(pending) > 0 && pending[0].FirstOffset <= int64(b.LastOffset()) {
				aborted[pending[0].ProducerID] = true
				pending = pending[1:]
			}
			if b.IsControl() {
				if b.IsTransactional() {
					delete(aborted, b.ProducerID()) // whichever way it ended
				}
				next = int64(b.LastOffset()) + 1
				continue
			}
			if b.IsTransactional() && aborted[b.ProducerID()] {
				next = int64(b.LastOffset()) + 1
				continue
			}
			if err := c.reader.Reset(b, readMost); err != nil {
				return next, perfCorrupt(f.topicPartition, err)
			}
		}
		for c.records < c.stopAt && c.reader.Next() {
			rec := c.reader.Record()
			if int64(rec.Offset) < f.from {
				continue
			}
			next = int64(rec.Offset) + 1
			c.records++
			c.bytes += int64(len(rec.Key) + len(rec.Value))
		}
		if err := c.reader.Err(); err != nil {
			return next, perfCorrupt(f.topicPartition, err)
		}
		if c.records < c.stopAt {
			next = max(next, int64(e.LastOffset())+1) // compaction leaves offsets without records at a batch's end
		}
	}
	return next, nil
}

// perfCorrupt is what Java's consumer says of a batch that cannot be read.
func perfCorrupt(p topicPartition, err error) error {
	return throw(kafkaException, fmt.Sprintf("Received exception when fetching the next record from %s-%d. If needed, please seek past the record to continue consumption.", p.topic, p.partition)).because(err)
}
