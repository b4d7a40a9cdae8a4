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
type offsets map[string]map[int32]*committed

func (o offsets) get(topic string, partition int32) *committed { return o[topic][partition] }

func (o offsets) put(topic string, partition int32, c committed) {
	parts := o[topic]
	if parts == nil {
		parts = map[int32]*committed{}
		o[topic] = parts
	}
	have := parts[partition]
	if have == nil {
		have = new(committed)
		parts[partition] = have
	}
	*have = c
}

func (o offsets) remove(topic string, partition int32) {
	parts := o[topic]
	delete(parts, partition)
	if len(parts) == 0 {
		delete(o, topic)
	}
}

// each goes over all by topic and partition until yield returns false.
func (o offsets) each(yield func(topic string, partition int32, c *committed) bool) {
	for _, topic := range slices.Sorted(maps.Keys(o)) {
		for _, partition := range slices.Sorted(maps.Keys(o[topic])) {
			if !yield(topic, partition, o[topic][partition]) {
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
func (s *Shard) intern(topic string) string {
	if own, ok := s.topics[topic]; ok {
		return own
	}
	own := string([]byte(topic))
	s.topics[own] = own
	return own
}
