package group

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
)

// An assignee is a member as an assignor sees it.
type assignee struct {
	id, instance string
	topics       map[kmeta.UUID]*metadata.Topic
	has          partitions // its last target
}

// assignors by the names that clients ask for them. Each gives every partition of a topic that somebody reads to one reader.
var assignors = map[string]func([]assignee) map[string]partitions{"uniform": assignUniform, "range": assignRange}

// inOrder puts static members first, by instance id, then the others by member id: an order that lasts across restarts.
func inOrder(members []assignee) []assignee {
	return slices.SortedFunc(slices.Values(members), func(a, b assignee) int {
		switch {
		case a.instance != "" && b.instance != "":
			return cmp.Compare(a.instance, b.instance)
		case a.instance != "":
			return -1
		case b.instance != "":
			return 1
		}
		return cmp.Compare(a.id, b.id)
	})
}

// readers are the topics that anybody reads, by id, and who does.
func readers(members []assignee) (topics []*metadata.Topic, by map[kmeta.UUID][]int) {
	by = map[kmeta.UUID][]int{}
	all := map[kmeta.UUID]*metadata.Topic{}
	for i, m := range members {
		for id, t := range m.topics {
			all[id] = t
			by[id] = append(by[id], i)
		}
	}
	for _, t := range all {
		topics = append(topics, t)
	}
	slices.SortFunc(topics, func(a, b *metadata.Topic) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return topics, by
}

// assignRange gives each reader of a topic a run of its partitions, so that readers of the same topics with equal partitions have
// equal numbers of each.
func assignRange(members []assignee) map[string]partitions {
	members = inOrder(members)
	given := make([]gathered, len(members))
	topics, by := readers(members)
	for _, t := range topics {
		who := by[t.ID]
		each, more := len(t.Partitions)/len(who), len(t.Partitions)%len(who)
		next := 0
		for n, i := range who {
			count := each
			if n < more {
				count++
			}
			for range count {
				given[i].add(t.ID, int32(next), 0)
				next++
			}
		}
	}
	return assigned(members, given)
}

// assignUniform gives members as equal numbers of partitions as their subscriptions allow, and lets each keep what it can.
func assignUniform(members []assignee) map[string]partitions {
	members = inOrder(members)
	topics, by := readers(members)
	total := 0
	for _, t := range topics {
		total += len(t.Partitions)
	}
	load := make([]int, len(members))
	owner := map[kmeta.UUID][]int{} // member by partition, -1 none yet
	equal := !slices.ContainsFunc(members, func(m assignee) bool { return len(m.topics) != len(topics) })
	quota, more := total, 0
	if equal && len(members) > 0 {
		quota, more = total/len(members), total%len(members)
	}
	for _, t := range topics {
		owner[t.ID] = slices.Repeat([]int{-1}, len(t.Partitions))
	}
	for i, m := range members { // what stays
		m.has.each(func(topic kmeta.UUID, partition, _ int32) bool {
			if m.topics[topic] == nil || int(partition) >= len(owner[topic]) || owner[topic][partition] >= 0 {
				return true
			}
			switch {
			case load[i] < quota:
			case load[i] == quota && more > 0:
				more--
			default:
				return true
			}
			owner[topic][partition] = i
			load[i]++
			return true
		})
	}
	lightest := func(who []int) int {
		best := who[0]
		for _, i := range who[1:] {
			if load[i] < load[best] {
				best = i
			}
		}
		return best
	}
	for _, t := range topics { // what is free
		for p := range t.Partitions {
			if owner[t.ID][p] < 0 {
				i := lightest(by[t.ID])
				owner[t.ID][p] = i
				load[i]++
			}
		}
	}
	// Where subscriptions differ, moves even out what keeping left uneven. Each makes the sum of squares of loads smaller.
	for moved := !equal; moved; {
		moved = false
		for _, t := range topics {
			for p := range t.Partitions {
				from, to := owner[t.ID][p], lightest(by[t.ID])
				if load[from] > load[to]+1 {
					owner[t.ID][p] = to
					load[from]--
					load[to]++
					moved = true
				}
			}
		}
	}
	given := make([]gathered, len(members))
	for _, t := range topics {
		for p, i := range owner[t.ID] {
			given[i].add(t.ID, int32(p), 0)
		}
	}
	return assigned(members, given)
}

func assigned(members []assignee, given []gathered) map[string]partitions {
	out := make(map[string]partitions, len(members))
	for i, m := range members {
		out[m.id] = given[i].partitions()
	}
	return out
}
