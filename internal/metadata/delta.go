package metadata

import (
	"cmp"
	"maps"
	"slices"
)

// A Delta says what changed from one image to the next. If nothing did, Before is After.
type Delta struct {
	Before, After *Image
	// Topics are those created, deleted (by the id in Before), or with partitions that changed or came. A topic that was
	// deleted and created again under its name is in both lists; one that came and went is in none.
	Created, Deleted []*Topic
	Changed          []PartitionChange
	// Configs are the resources with changed dynamic values. Those of a deleted topic are among them.
	Configs []ConfigResource
	// Brokers are those that registered, changed or went, Controllers likewise.
	Brokers     []int32
	Controllers []int32
	Features    bool
	Quotas      bool
	ACLs        bool
	Scram       bool
	Tokens      bool
}

// A PartitionChange names a partition that came or changed in a topic that lives on.
type PartitionChange struct {
	Topic     *Topic
	Partition int32
}

// A ConfigResource names what a config belongs to.
type ConfigResource struct {
	Type int8
	Name string
}

// changes are what records touched. What of it is different in the end, delta finds by comparing.
type changes struct {
	topics      map[UUID]struct{}
	configs     map[ConfigResource]struct{}
	brokers     map[int32]struct{}
	controllers map[int32]struct{}
	features    bool
	quotas      bool
	acls        bool
	scram       bool
	tokens      bool
}

func mark[K comparable](set *map[K]struct{}, key K) {
	if *set == nil {
		*set = map[K]struct{}{}
	}
	(*set)[key] = struct{}{}
}

func (c *changes) add(o changes) {
	union(&c.topics, o.topics)
	union(&c.configs, o.configs)
	union(&c.brokers, o.brokers)
	union(&c.controllers, o.controllers)
	c.features = c.features || o.features
	c.quotas = c.quotas || o.quotas
	c.acls = c.acls || o.acls
	c.scram = c.scram || o.scram
	c.tokens = c.tokens || o.tokens
}

func union[K comparable](set *map[K]struct{}, o map[K]struct{}) {
	if *set == nil {
		*set = o
		return
	}
	maps.Copy(*set, o)
}

// delta compares what was touched. Order is by name and number, whatever the order of the records.
func (c *changes) delta(before, after *Image) *Delta {
	d := &Delta{Before: before, After: after, Features: c.features && !maps.Equal(before.features, after.features), Quotas: c.quotas, ACLs: c.acls, Scram: c.scram, Tokens: c.tokens}
	for id := range c.topics {
		was, is := before.TopicByID(id), after.TopicByID(id)
		switch {
		case was == nil && is != nil:
			d.Created = append(d.Created, is)
		case was != nil && is == nil:
			d.Deleted = append(d.Deleted, was)
		case was != is:
			for n, p := range is.Partitions {
				if n >= len(was.Partitions) || was.Partitions[n] != p {
					d.Changed = append(d.Changed, PartitionChange{is, int32(n)})
				}
			}
		}
	}
	byName := func(a, b *Topic) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortFunc(d.Created, byName)
	slices.SortFunc(d.Deleted, byName)
	slices.SortFunc(d.Changed, func(a, b PartitionChange) int {
		return cmp.Or(cmp.Compare(a.Topic.Name, b.Topic.Name), cmp.Compare(a.Partition, b.Partition))
	})
	for r := range c.configs {
		key := configKey(r.Type, r.Name)
		was, _ := before.configs.Get(key)
		if is, _ := after.configs.Get(key); was != is {
			d.Configs = append(d.Configs, r)
		}
	}
	slices.SortFunc(d.Configs, func(a, b ConfigResource) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name))
	})
	d.Brokers = different(c.brokers, before.Broker, after.Broker)
	d.Controllers = different(c.controllers, before.Controller, after.Controller)
	return d
}

func different[V comparable](touched map[int32]struct{}, before, after func(int32) V) (ids []int32) {
	for id := range touched {
		if before(id) != after(id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
