package group

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
)

// partitions are partitions by topic, each with the epoch at which its member got it (0 where that means nothing). No topic is
// empty. They are never changed: whoever wants others gathers them. There are several of them for each member, so they are kept in two
// pieces of memory, not in maps.
type partitions []topicPartitions // by id

type topicPartitions struct {
	topic kmeta.UUID
	parts []partitionEpoch // by number
}

type partitionEpoch struct{ partition, epoch int32 }

// gathered are partitions to be, in any order. Of what is there twice, the last counts.
type gathered []gatheredPartition

type gatheredPartition struct {
	topic kmeta.UUID
	partitionEpoch
}

func (g *gathered) add(topic kmeta.UUID, partition, epoch int32) {
	*g = append(*g, gatheredPartition{topic, partitionEpoch{partition, epoch}})
}

// partitions orders what is gathered. g is used up.
func (g gathered) partitions() partitions {
	if len(g) == 0 {
		return partitions{}
	}
	order := func(a, b gatheredPartition) int {
		return cmp.Or(bytes.Compare(a.topic[:], b.topic[:]), cmp.Compare(a.partition, b.partition))
	}
	if !slices.IsSortedFunc(g, order) {
		slices.SortStableFunc(g, order)
	}
	topics := 1
	for i := range g[1:] {
		if g[i].topic != g[i+1].topic {
			topics++
		}
	}
	p := make(partitions, 0, topics)
	all := make([]partitionEpoch, 0, len(g))
	for _, one := range g {
		last := len(p) - 1
		switch {
		case last < 0 || p[last].topic != one.topic:
			p = append(p, topicPartitions{one.topic, all[len(all):]})
		case all[len(all)-1].partition == one.partition:
			all[len(all)-1] = one.partitionEpoch
			continue
		}
		all = append(all, one.partitionEpoch)
		t := &p[len(p)-1]
		t.parts = t.parts[:len(t.parts)+1]
	}
	return p
}

// of are the partitions of a topic.
func (p partitions) of(topic kmeta.UUID) []partitionEpoch {
	i, ok := slices.BinarySearchFunc(p, topic, func(t topicPartitions, topic kmeta.UUID) int { return bytes.Compare(t.topic[:], topic[:]) })
	if !ok {
		return nil
	}
	return p[i].parts
}

// since is the epoch of a partition, false: it is not there.
func (p partitions) since(topic kmeta.UUID, partition int32) (epoch int32, ok bool) {
	parts := p.of(topic)
	i, ok := slices.BinarySearchFunc(parts, partition, func(e partitionEpoch, partition int32) int { return cmp.Compare(e.partition, partition) })
	if !ok {
		return 0, false
	}
	return parts[i].epoch, true
}

func (p partitions) has(topic kmeta.UUID, partition int32) bool {
	_, ok := p.since(topic, partition)
	return ok
}

// each goes over all by id and number until yield returns false.
func (p partitions) each(yield func(topic kmeta.UUID, partition, epoch int32) bool) {
	for _, t := range p {
		for _, e := range t.parts {
			if !yield(t.topic, e.partition, e.epoch) {
				return
			}
		}
	}
}

// numbers are the topic's partitions, in order.
func (t topicPartitions) numbers() []int32 {
	out := make([]int32, len(t.parts))
	for i, e := range t.parts {
		out[i] = e.partition
	}
	return out
}

// within is whether q has all of p.
func (p partitions) within(q partitions) bool {
	within := true
	p.each(func(topic kmeta.UUID, partition, _ int32) bool {
		within = q.has(topic, partition)
		return within
	})
	return within
}

// same is whether both have the same partitions, whatever the epochs.
func (p partitions) same(q partitions) bool {
	return slices.EqualFunc(p, q, func(a, b topicPartitions) bool {
		return a.topic == b.topic && slices.EqualFunc(a.parts, b.parts, func(a, b partitionEpoch) bool { return a.partition == b.partition })
	})
}

// touches is whether p and q have a partition in common.
func (p partitions) touches(q partitions) bool {
	touches := false
	p.each(func(topic kmeta.UUID, partition, _ int32) bool {
		touches = q.has(topic, partition)
		return !touches
	})
	return touches
}

func requested(topics []kmsg.ConsumerGroupHeartbeatRequestTopic) partitions {
	var g gathered
	for _, t := range topics {
		for _, partition := range t.Partitions {
			g.add(t.TopicID, partition, 0)
		}
	}
	return g.partitions()
}

func (p partitions) target() (out []kmeta.TopicPartitions) {
	for _, t := range p {
		out = append(out, kmeta.TopicPartitions{TopicID: t.topic, Partitions: t.numbers()})
	}
	return out
}

func targetOf(in []kmeta.TopicPartitions) partitions {
	var g gathered
	for _, t := range in {
		for _, partition := range t.Partitions {
			g.add(t.TopicID, partition, 0)
		}
	}
	return g.partitions()
}

func (p partitions) owned() (out []kmeta.OwnedPartitions) {
	for _, t := range p {
		o := kmeta.OwnedPartitions{TopicID: t.topic, Partitions: t.numbers()}
		for _, e := range t.parts {
			o.AssignmentEpochs = append(o.AssignmentEpochs, e.epoch)
		}
		out = append(out, o)
	}
	return out
}

// ownedOf reads partitions; where epochs are missing, as before 4.3, the member's own stands in.
func ownedOf(in []kmeta.OwnedPartitions, epoch int32) partitions {
	var g gathered
	for _, t := range in {
		for i, partition := range t.Partitions {
			since := epoch
			if i < len(t.AssignmentEpochs) {
				since = t.AssignmentEpochs[i]
			}
			g.add(t.TopicID, partition, since)
		}
	}
	return g.partitions()
}

func (p partitions) response() *kmsg.ConsumerGroupHeartbeatResponseAssignment {
	a := &kmsg.ConsumerGroupHeartbeatResponseAssignment{Topics: []kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{}}
	for _, t := range p {
		a.Topics = append(a.Topics, kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{TopicID: t.topic, Partitions: t.numbers()})
	}
	return a
}
