package group

import (
	"testing"

	"pgregory.net/rapid"
)

// Keeps I1: whatever a simulation wrote, and however much of it compaction has cleaned in however many passes, loading it gives the
// state that the whole log gives. What fails is shrunk to few steps.
func TestCompactedPrefix(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sim := newSimulation(t, rapid.Uint64().Draw(rt, "seed"))
		for range rapid.IntRange(1, 150).Draw(rt, "steps") {
			sim.step()
		}
		state := func(log []Entry) string {
			s := sim.load(log)
			out := dump(s)
			s.Loaded(sim.now)
			return out + classics(s)
		}
		want := state(sim.log)
		log := sim.log
		for range rapid.IntRange(1, 3).Draw(rt, "passes") {
			log = compact(log, rapid.IntRange(0, len(log)).Draw(rt, "cleaned"), rapid.Bool().Draw(rt, "tombstones"))
			if got := state(log); got != want {
				rt.Fatalf("of %d records %d are left, and give\n%s\nwant\n%s", len(sim.log), len(log), got, want)
			}
		}
	})
}
