package controller

import (
	"slices"

	"github.com/quire-log/quire/internal/config"
	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
)

// An election decides who leads partitions when brokers come and go (facts: cluster.md §6).
type election struct {
	c      *Controller
	img    *metadata.Image
	active map[int32]bool // brokers that are neither fenced nor shutting down
	elr    bool           // eligible.leader.replicas.version is 1

	// rules of the topic whose partitions were decided last: they come one after the other
	topic   *metadata.Topic
	minISR  int
	unclean bool
}

func (c *Controller) election(img *metadata.Image) *election {
	e := &election{c: c, img: img, active: map[int32]bool{}, elr: img.Features()[metadata.ELRVersion] > 0}
	for b := range img.Brokers() {
		if !b.Fenced && !b.InControlledShutdown {
			e.active[b.ID] = true
		}
	}
	return e
}

// appendChanges appends what becomes of the partitions that concerned picks, after isr, if not nil, has said who stays in sync.
func (e *election) appendChanges(recs []kmeta.Record, concerned func(*metadata.Partition) bool, isr func([]int32) []int32) []kmeta.Record {
	for t := range e.img.Topics() {
		for n, p := range t.Partitions {
			if !concerned(p) {
				continue
			}
			target := p.ISR
			if isr != nil {
				target = isr(p.ISR)
			}
			if r := e.change(t, p, target); r != nil {
				r.PartitionID, r.TopicID = int32(n), t.ID
				recs = append(recs, r)
			}
		}
	}
	return recs
}

// change decides what becomes of a partition whose in-sync set should be isr; nil: nothing.
func (e *election) change(t *metadata.Topic, p *metadata.Partition, isr []int32) *kmeta.PartitionChangeRecord {
	e.rules(t)
	r := kmeta.NewPartitionChangeRecord()
	if len(isr) == 0 && !e.elr {
		isr = p.ISR // without eligible leaders the last one in sync is all that is known of the data
	}
	leader, unclean := e.elect(p, isr)
	switch {
	case leader < 0:
	case unclean:
		isr = []int32{leader}
		if p.LeaderRecoveryState == 0 {
			r.LeaderRecoveryState = 1
		}
	case !slices.Contains(isr, leader): // elected from the eligible ones
		isr = []int32{leader}
	}
	if leader != p.Leader {
		r.Leader = leader
	}
	if !slices.Equal(isr, p.ISR) {
		r.ISR = append([]int32{}, isr...)
	}
	if e.elr {
		e.changeELR(r, p, isr)
	}
	if r.Leader == -2 && r.ISR == nil && r.EligibleLeaderReplicas == nil && r.LastKnownELR == nil {
		return nil
	}
	return r
}

// elect picks a leader: the present one if it may stay, else the first of the assignment that is in sync or, with nobody
// in sync, eligible; then, uncleanly, the last known leader; then, where the topic allows it, anybody.
func (e *election) elect(p *metadata.Partition, isr []int32) (leader int32, unclean bool) {
	from := isr
	if len(isr) == 0 {
		from = p.ELR
	}
	may := func(id int32) bool { return e.active[id] && slices.Contains(from, id) }
	if p.Leader >= 0 && may(p.Leader) {
		return p.Leader, false
	}
	if i := slices.IndexFunc(p.Replicas, may); i >= 0 {
		return p.Replicas[i], false
	}
	if e.elr && len(isr) == 0 && len(p.ELR) == 0 && len(p.LastKnownELR) == 1 && e.active[p.LastKnownELR[0]] {
		return p.LastKnownELR[0], true
	}
	if e.unclean {
		if i := slices.IndexFunc(p.Replicas, func(id int32) bool { return e.active[id] }); i >= 0 {
			return p.Replicas[i], true
		}
	}
	return -1, false
}

// changeELR keeps account of who may lead though not in sync: members that left while fewer than min.insync.replicas stayed.
func (e *election) changeELR(r *kmeta.PartitionChangeRecord, p *metadata.Partition, isr []int32) {
	if len(isr) >= min(e.minISR, len(p.Replicas)) {
		if len(p.ELR) > 0 {
			r.EligibleLeaderReplicas = []int32{}
		}
		if len(p.LastKnownELR) > 0 {
			r.LastKnownELR = []int32{}
		}
		return
	}
	eligible := []int32{}
	for _, id := range p.Replicas {
		if (slices.Contains(p.ISR, id) || slices.Contains(p.ELR, id)) && !slices.Contains(isr, id) {
			eligible = append(eligible, id)
		}
	}
	slices.Sort(eligible)
	if !sameMembers(eligible, p.ELR) {
		r.EligibleLeaderReplicas = eligible
	}
	if len(isr) == 0 && r.ISR != nil && p.Leader >= 0 && !slices.Equal(p.LastKnownELR, []int32{p.Leader}) {
		r.LastKnownELR = []int32{p.Leader}
	}
}

func sameMembers(a, b []int32) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(id int32) bool { return !slices.Contains(b, id) })
}

// rules looks up what the topic's settings say.
func (e *election) rules(t *metadata.Topic) {
	if e.topic != t {
		e.topic = t
		e.minISR = int(e.c.topicValue(e.img, t.Name, "min.insync.replicas").Int64())
		e.unclean = e.c.topicValue(e.img, t.Name, "unclean.leader.election.enable").Bool()
	}
}

// topicValue resolves an option of a topic as the controller sees it: no broker's own values count.
func (c *Controller) topicValue(img *metadata.Image, topic, key string) config.Value {
	option, ok := config.Lookup(config.Topic(), key)
	if !ok {
		panic("no topic option " + key)
	}
	return config.TopicValue(option, img.Configs(metadata.TopicResource, topic), c.clusterLayers(img))
}

// clusterLayers are the values that hold for every broker.
func (c *Controller) clusterLayers(img *metadata.Image) config.Layers {
	return config.Layers{DynamicDefault: img.Configs(metadata.BrokerResource, ""), Static: c.options.Static}
}
