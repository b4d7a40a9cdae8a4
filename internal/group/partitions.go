package group

import (
	"bytes"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
)

// partitions are partitions by topic, each with the epoch at which its member got it (0 where that means nothing). No topic is
// empty.
type partitions map[kmeta.UUID]map[int32]int32

func (p partitions) has(topic kmeta.UUID, partition int32) bool {
	_, ok := p[topic][partition]
	return ok
}

func (p partitions) add(topic kmeta.UUID, partition, epoch int32) {
	if p[topic] == nil {
		p[topic] = map[int32]int32{}
	}
	p[topic][partition] = epoch
}

// each goes over all by id and number until yield returns false.
func (p partitions) each(yield func(topic kmeta.UUID, partition, epoch int32) bool) {
	for _, topic := range p.topics() {
		for _, partition := range slices.Sorted(maps.Keys(p[topic])) {
			if !yield(topic, partition, p[topic][partition]) {
				return
			}
		}
	}
}

func (p partitions) topics() []kmeta.UUID {
	return slices.SortedFunc(maps.Keys(p), func(a, b kmeta.UUID) int { return bytes.Compare(a[:], b[:]) })
}

// within is whether q has all of p.
func (p partitions) within(q partitions) bool {
	for topic, parts := range p {
		for partition := range parts {
			if !q.has(topic, partition) {
				return false
			}
		}
	}
	return true
}

// same is whether both have the same partitions, whatever the epochs.
func (p partitions) same(q partitions) bool { return p.within(q) && q.within(p) }

// touches is whether p and q have a partition in common.
func (p partitions) touches(q partitions) bool {
	for topic, parts := range p {
		for partition := range parts {
			if q.has(topic, partition) {
				return true
			}
		}
	}
	return false
}

func (p partitions) size() (n int) {
	for _, parts := range p {
		n += len(parts)
	}
	return n
}

func requested(topics []kmsg.ConsumerGroupHeartbeatRequestTopic) partitions {
	p := partitions{}
	for _, t := range topics {
		for _, partition := range t.Partitions {
			p.add(t.TopicID, partition, 0)
		}
	}
	return p
}

func (p partitions) target() (out []kmeta.TopicPartitions) {
	for _, topic := range p.topics() {
		out = append(out, kmeta.TopicPartitions{TopicID: topic, Partitions: slices.Sorted(maps.Keys(p[topic]))})
	}
	return out
}

func targetOf(in []kmeta.TopicPartitions) partitions {
	p := partitions{}
	for _, t := range in {
		for _, partition := range t.Partitions {
			p.add(t.TopicID, partition, 0)
		}
	}
	return p
}

func (p partitions) owned() (out []kmeta.OwnedPartitions) {
	for _, topic := range p.topics() {
		o := kmeta.OwnedPartitions{TopicID: topic, Partitions: slices.Sorted(maps.Keys(p[topic]))}
		for _, partition := range o.Partitions {
			o.AssignmentEpochs = append(o.AssignmentEpochs, p[topic][partition])
		}
		out = append(out, o)
	}
	return out
}

// ownedOf reads partitions; where epochs are missing, as before 4.3, the member's own stands in.
func ownedOf(in []kmeta.OwnedPartitions, epoch int32) partitions {
	p := partitions{}
	for _, t := range in {
		for i, partition := range t.Partitions {
			since := epoch
			if i < len(t.AssignmentEpochs) {
				since = t.AssignmentEpochs[i]
			}
			p.add(t.TopicID, partition, since)
		}
	}
	return p
}

func (p partitions) response() *kmsg.ConsumerGroupHeartbeatResponseAssignment {
	a := &kmsg.ConsumerGroupHeartbeatResponseAssignment{Topics: []kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{}}
	for _, topic := range p.topics() {
		a.Topics = append(a.Topics, kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{TopicID: topic, Partitions: slices.Sorted(maps.Keys(p[topic]))})
	}
	return a
}
