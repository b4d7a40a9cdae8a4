package group

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/quire-log/quire/internal/kmeta"
)

// Partitions are what was gathered, in order, the last of each.
func TestPartitions(t *testing.T) {
	draw := func(t *rapid.T, name string) (partitions, map[kmeta.UUID]map[int32]int32) {
		var g gathered
		model := map[kmeta.UUID]map[int32]int32{}
		for range rapid.IntRange(0, 12).Draw(t, name) {
			id, partition, epoch := kmeta.UUID{rapid.Byte().Draw(t, "id") % 3}, rapid.Int32Range(-1, 4).Draw(t, "partition"), rapid.Int32().Draw(t, "epoch")
			g.add(id, partition, epoch)
			if model[id] == nil {
				model[id] = map[int32]int32{}
			}
			model[id][partition] = epoch
		}
		return g.partitions(), model
	}
	rapid.Check(t, func(t *rapid.T) {
		p, model := draw(t, "p")
		q, other := draw(t, "q")
		n := 0
		for i, topic := range p {
			if numbers := topic.numbers(); len(numbers) != len(model[topic.topic]) || !slices.IsSorted(numbers) {
				t.Fatalf("%v, want %v", p, model)
			}
			if i > 0 && p[i-1].topic[0] >= topic.topic[0] {
				t.Fatalf("not in order: %v", p)
			}
		}
		touches, within := false, true
		p.each(func(id kmeta.UUID, partition, epoch int32) bool {
			if want, ok := model[id][partition]; !ok || want != epoch {
				t.Fatalf("%v %d at %d, want %d", id, partition, epoch, want)
			}
			_, common := other[id][partition]
			touches, within = touches || common, within && common
			if q.has(id, partition) != common {
				t.Fatalf("%v has %v %d, or not", q, id, partition)
			}
			n++
			return true
		})
		for _, parts := range model {
			n -= len(parts)
		}
		if n != 0 || len(p) != len(model) {
			t.Fatalf("%v, want %v", p, model)
		}
		if p.touches(q) != touches || p.within(q) != within || p.same(q) != (within && q.within(p)) {
			t.Fatalf("%v and %v: touches %v, within %v, same %v", p, q, p.touches(q), p.within(q), p.same(q))
		}
	})
}
