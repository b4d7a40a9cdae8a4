package group

import (
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quire-log/quire/internal/kmeta"
)

// A log that is prepared ahead gives the state that it gives as it is, wherever its names get their places and however far ahead it is.
func TestAheadIsReplay(t *testing.T) {
	w := newWorld(t)
	rapid.Check(t, func(t *rapid.T) {
		plain, ahead := w.shard(), w.shard()
		a := &Ahead{seed: maphash.MakeSeed(), places: make([]aheadPlace, rapid.SampledFrom([]int{2, 4, aheadPlaces}).Draw(t, "places"))}
		var waiting []Entry
		var prepared []Prepared
		known := 0
		flush := func() {
			for i := range waiting {
				p, e := &prepared[i], &waiting[i]
				var value []byte
				if p.Noted() {
					value = e.Value
				}
				if ahead.ReplayPrepared(p, value) {
					known++
				} else if err := ahead.ReplayAsIs(p, e); err != nil {
					t.Fatal(err)
				}
			}
			waiting, prepared = nil, nil
		}
		for at := range int64(rapid.IntRange(0, 200).Draw(t, "records")) {
			k := kmeta.OffsetCommitKey{
				Group:     rapid.SampledFrom([]string{"a", "b", "ab", strings.Repeat("long", 40)}).Draw(t, "group"),
				Topic:     rapid.SampledFrom([]string{"", "b", "bb"}).Draw(t, "topic"),
				Partition: rapid.SampledFrom([]int32{0, 1, 2, 1 << 20, -1}).Draw(t, "partition"),
			}
			v := kmeta.OffsetCommitValue{
				Offset: at * 10, LeaderEpoch: rapid.Int32Range(-1, 3).Draw(t, "epoch"), CommitTimestamp: at, ExpireTimestamp: -1,
				Metadata: rapid.SampledFrom([]string{"", "", "note", strings.Repeat("x", 200)}).Draw(t, "note"),
				TopicID:  rapid.SampledFrom([]kmeta.UUID{{1}, {1}, {1}, {2}, {}}).Draw(t, "id"),
			}
			e := Entry{Record: newRecord(&k, &v, 4), Offset: at}
			switch what := rapid.IntRange(0, 19).Draw(t, "what"); what {
			case 0:
				v.ExpireTimestamp = 77
				e.Record = newRecord(&k, &v, 1)
			case 1, 2, 3:
				e.Record = tombstone(&k)
			case 4, 5:
				e.Producer = &Producer{ID: int64(what)}
			case 6, 7:
				flush()
				plain.ReplayMarker(int64(what-2), 0, what == 6)
				ahead.ReplayMarker(int64(what-2), 0, what == 6)
				continue
			}
			if err := plain.Replay(&e); err != nil {
				t.Fatal(err)
			}
			if e.Producer != nil {
				flush()
				if err := ahead.Replay(&e); err != nil {
					t.Fatal(err)
				}
				continue
			}
			var p Prepared
			a.Prepare(&p, e.Key, e.Value, e.Offset)
			waiting, prepared = append(waiting, e), append(prepared, p)
			if rapid.IntRange(0, 9).Draw(t, "flush") == 0 {
				flush()
			}
		}
		flush()
		if got, want := dumpOffsets(ahead), dumpOffsets(plain); got != want {
			t.Fatalf("%d known:\n%s\nwant:\n%s", known, got, want)
		}
	})
}

func dumpOffsets(s *Shard) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.groups)) {
		g := s.groups[name]
		g.offsets.each(func(topic string, partition int32, c *committed) bool {
			fmt.Fprintf(&b, "%s %s %d: %+v\n", name, topic, partition, *c)
			return true
		})
	}
	return b.String() + dump(s)
}

// A Prepared commit of names that are known allocates nothing, neither where it is prepared nor where it is replayed.
func TestAheadAllocates(t *testing.T) {
	s, a := newWorld(t).shard(), NewAhead()
	k, v := kmeta.OffsetCommitKey{Group: "g", Topic: "orders"}, kmeta.OffsetCommitValue{Offset: 7, Metadata: "a note", ExpireTimestamp: -1, TopicID: topicID("orders")}
	e := Entry{Record: newRecord(&k, &v, 4), Offset: 1}
	var p Prepared
	a.Prepare(&p, e.Key, e.Value, 1)
	if s.ReplayPrepared(&p, e.Value) || s.ReplayAsIs(&p, &e) != nil {
		t.Fatal("names are known before they came")
	}
	if n := testing.AllocsPerRun(1000, func() {
		a.Prepare(&p, e.Key, e.Value, 2)
		if !p.Noted() || !s.ReplayPrepared(&p, e.Value) {
			t.Fatal("names are not known")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Whatever a record is, preparing it does not say more of it than Replay does.
func FuzzPrepare(f *testing.F) {
	k := kmeta.OffsetCommitKey{Group: "g", Topic: "orders", Partition: 3}
	for _, v := range []kmeta.OffsetCommitValue{{Offset: 42, ExpireTimestamp: -1}, {Offset: math.MinInt64, LeaderEpoch: -1, Metadata: "a note", ExpireTimestamp: -1, TopicID: kmeta.UUID{1}}} {
		r := newRecord(&k, &v, 4)
		f.Add(r.Key, r.Value)
		f.Add(r.Key[:len(r.Key)-1], r.Value)
		f.Add(r.Key, r.Value[:len(r.Value)-1])
	}
	f.Add([]byte{0, 1, 0, 200, 0, 0, 0, 0}, []byte{0, 4})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		w := newWorld(t)
		plain, ahead, a := w.shard(), w.shard(), NewAhead()
		e := Entry{Record: Record{Key: key, Value: value}}
		for e.Offset = range 3 {
			var p Prepared
			a.Prepare(&p, key, value, e.Offset)
			want := plain.Replay(&e)
			if ahead.ReplayPrepared(&p, value) {
				if want != nil {
					t.Fatalf("replayed what is damaged: %v", want)
				}
			} else if err := ahead.ReplayAsIs(&p, &e); fmt.Sprint(err) != fmt.Sprint(want) {
				t.Fatalf("%v, want %v", err, want)
			}
		}
		if got, want := dumpOffsets(ahead), dumpOffsets(plain); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	})
}
