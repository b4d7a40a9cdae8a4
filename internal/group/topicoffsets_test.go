package group

import (
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Offsets are a map by partition, whatever numbers partitions have, and what is kept for numbers is bounded by how many there are.
func TestTopicOffsets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, model := offsets{}, map[int32]int64{}
		number := rapid.OneOf(rapid.Int32Range(0, 40), rapid.Int32Range(0, 2000), rapid.SampledFrom([]int32{-1, math.MinInt32, math.MaxInt32}))
		for i := range rapid.IntRange(0, 300).Draw(t, "steps") {
			p := number.Draw(t, "partition")
			if rapid.IntRange(0, 3).Draw(t, "removes") == 0 {
				o.remove("t", p)
				delete(model, p)
			} else {
				o.put("t", p, committed{offset: int64(i)})
				model[p] = int64(i)
			}
			_, there := model[p]
			if c := o.get("t", p); (c != nil) != there || there && c.offset != model[p] {
				t.Fatalf("%d: %+v", p, c)
			}
		}
		var seen []int32
		o.each(func(_ string, p int32, c *committed) bool {
			if c.offset != model[p] || o.get("t", p) != c {
				t.Fatalf("%d: %+v, want %d", p, c, model[p])
			}
			seen = append(seen, p)
			return true
		})
		if want := slices.Sorted(maps.Keys(model)); !slices.Equal(seen, want) {
			t.Fatalf("%v, want %v", seen, want)
		}
		if topic := o["t"]; (topic != nil) != (len(model) > 0) {
			t.Fatalf("%d partitions, and the topic is there: %v", len(model), topic != nil)
		} else if topic != nil && (topic.n != len(model) || len(topic.low) > max(lowMin, 2*300)) {
			t.Fatalf("%d of %d, room for %d", topic.n, len(model), len(topic.low))
		}
	})
}
