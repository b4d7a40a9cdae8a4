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

func (o offsets) has(topic string, partition int32) bool {
	t := o[topic]
	return t != nil && t.find(partition) != nil
}

// get returns what was said of a partition, false: nothing.
func (o offsets) get(topic string, partition int32) (c committed, ok bool) {
	if t := o[topic]; t != nil {
		if k := t.find(partition); k != nil {
			return t.committed(partition, k), true
		}
	}
	return c, false
}

// topic returns a topic's offsets. They may be new, and something is to be put into them at once.
func (o offsets) topic(name *topicName) *topicOffsets {
	t := o[name.name]
	if t == nil {
		t = &topicOffsets{topic: name}
		o[name.name] = t
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

// each goes over all by topic and partition until yield returns false. What is visited may be removed meanwhile; c lasts until yield
// returns.
func (o offsets) each(yield func(topic string, partition int32, c *committed) bool) {
	var c committed
	for _, topic := range slices.Sorted(maps.Keys(o)) {
		t := o[topic]
		for _, partition := range t.partitions() {
			k := t.find(partition)
			if k == nil {
				continue
			}
			c = t.committed(partition, k)
			if !yield(topic, partition, &c) {
				return
			}
		}
	}
}

// unstable is whether an open transaction has an offset of the partition.
func (g *group) unstable(topic string, partition int32) bool {
	for _, p := range g.pending {
		if p.has(topic, partition) {
			return true
		}
	}
	return false
}

// topic returns what the shard's groups have in common of a topic.
func (s *Shard) topic(name []byte) *topicName {
	t := s.topics[string(name)]
	if t == nil {
		t = &topicName{name: string(name)}
		s.topics[t.name] = t
	}
	return t
}
