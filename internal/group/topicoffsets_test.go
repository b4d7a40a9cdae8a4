package group

import (
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/quire-log/quire/internal/kmeta"
)

// Offsets are a map by partition, whatever numbers partitions have and whatever is said of them, and what is kept for numbers is bounded
// by how many there are.
func TestTopicOffsets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, model := offsets{}, map[int32]committed{}
		name := &topicName{name: "t", most: rapid.SampledFrom([]int{0, 5, 100, 5000}).Draw(t, "most")}
		number := rapid.OneOf(rapid.Int32Range(0, 40), rapid.Int32Range(0, 2000), rapid.SampledFrom([]int32{-1, math.MinInt32, math.MaxInt32}))
		for i := range rapid.IntRange(0, 300).Draw(t, "steps") {
			p := number.Draw(t, "partition")
			if rapid.IntRange(0, 3).Draw(t, "removes") == 0 {
				o.remove("t", p)
				delete(model, p)
			} else {
				c := committed{
					offset: int64(i), leaderEpoch: int32(i % 7), commitMs: int64(2 * i), at: int64(3 * i),
					expireMs: rapid.SampledFrom([]int64{-1, -1, 0, 5}).Draw(t, "expires"),
					metadata: rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "note"),
					topicID:  rapid.SampledFrom([]kmeta.UUID{{}, {1}, {1}, {2}}).Draw(t, "id"),
				}
				model[p] = c
				if rapid.Bool().Draw(t, "as text") {
					read := c
					read.metadata = ""
					o.topic(name).put(p, &read, []byte(c.metadata))
				} else {
					o.topic(name).put(p, &c, nil)
				}
			}
			want, there := model[p]
			if c, ok := o.get("t", p); ok != there || c != want || o.has("t", p) != there {
				t.Fatalf("%d: %+v, want %+v", p, c, want)
			}
		}
		var seen []int32
		o.each(func(_ string, p int32, c *committed) bool {
			if *c != model[p] {
				t.Fatalf("%d: %+v, want %+v", p, c, model[p])
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
		} else if topic != nil && cap(topic.low) > max(lowMin, 2*300, manyMore*300) {
			t.Fatalf("%d, room for %d", topic.n, cap(topic.low))
		}
	})
}
