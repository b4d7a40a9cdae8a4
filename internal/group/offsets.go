package group

import (
	"maps"
	"slices"

	"github.com/quire-log/quire/internal/kmeta"
)

// committed is what a group said of one partition.
type committed struct {
	offset      int64
	leaderEpoch int32
	metadata    string
	commitMs    int64
	expireMs    int64 // -1: by the broker's retention
	topicID     kmeta.UUID
	at          int64 // where in the log it stands
}

// offsets are by topic and partition. No topic is empty.
type offsets map[string]*topicOffsets

// topicOffsets are those of one topic. Most groups commit on all partitions, and those are found by their number; a partition whose
// number is large for how many there are is in high.
type topicOffsets struct {
	name string
	low  []*committed // nil: nothing, or in high
	high map[int32]*committed
	n    int
}

// lowMin is how many numbers low has room for however few partitions there are.
const lowMin = 16

func (t *topicOffsets) at(partition int32) *committed {
	if uint(partition) < uint(len(t.low)) {
		if c := t.low[partition]; c != nil {
			return c
		}
	}
	return t.high[partition]
}

// make returns what is said of a partition, which may be nothing yet.
func (t *topicOffsets) make(partition int32) *committed {
	if c := t.at(partition); c != nil {
		return c
	}
	c := new(committed)
	t.n++
	if partition < 0 || int(partition) >= max(len(t.low), 2*t.n, lowMin) {
		if t.high == nil {
			t.high = map[int32]*committed{}
		}
		t.high[partition] = c
		return c
	}
	if more := int(partition) + 1 - len(t.low); more > 0 {
		t.low = append(t.low, make([]*committed, more)...)
	}
	t.low[partition] = c
	return c
}

func (t *topicOffsets) remove(partition int32) {
	if t.at(partition) == nil {
		return
	}
	t.n--
	if uint(partition) < uint(len(t.low)) {
		t.low[partition] = nil
	}
	delete(t.high, partition)
}

// partitions are those of which something is said, by number.
func (t *topicOffsets) partitions() []int32 {
	all := make([]int32, 0, t.n)
	for i, c := range t.low {
		if c != nil {
			all = append(all, int32(i))
		}
	}
	if len(t.high) == 0 {
		return all
	}
	all = slices.AppendSeq(all, maps.Keys(t.high))
	slices.Sort(all)
	return all
}

func (o offsets) get(topic string, partition int32) *committed {
	if t := o[topic]; t != nil {
		return t.at(partition)
	}
	return nil
}

func (o offsets) put(topic string, partition int32, c committed) { *o.topic(topic).make(partition) = c }

// topic returns a topic's offsets. They may be new, and something is to be put into them at once.
func (o offsets) topic(name string) *topicOffsets {
	t := o[name]
	if t == nil {
		t = &topicOffsets{name: name}
		o[name] = t
	}
	return t
}

func (o offsets) remove(topic string, partition int32) {
	t := o[topic]
	if t == nil {
		return
	}
	if t.remove(partition); t.n == 0 {
		delete(o, topic)
	}
}

// each goes over all by topic and partition until yield returns false. What is visited may be removed meanwhile.
func (o offsets) each(yield func(topic string, partition int32, c *committed) bool) {
	for _, topic := range slices.Sorted(maps.Keys(o)) {
		t := o[topic]
		for _, partition := range t.partitions() {
			if !yield(topic, partition, t.at(partition)) {
				return
			}
		}
	}
}

// unstable is whether an open transaction has an offset of the partition.
func (g *group) unstable(topic string, partition int32) bool {
	for _, p := range g.pending {
		if p.get(topic, partition) != nil {
			return true
		}
	}
	return false
}

// intern returns the shard's own copy of a topic's name.
func (s *Shard) intern(topic []byte) string {
	if own, ok := s.topics[string(topic)]; ok {
		return own
	}
	own := string(topic)
	s.topics[own] = own
	return own
}
