package storage

import (
	"testing"

	"pgregory.net/rapid"
)

// Marks say what sets of offsets would, and nothing of offsets that they do not cover.
func TestOffsetMarksModel(t *testing.T) {
	var m offsetMarks
	rapid.Check(t, func(t *rapid.T) {
		first := Offset(rapid.Int64Range(0, 1<<40).Draw(t, "first"))
		n := Offset(rapid.Int64Range(0, 300).Draw(t, "n"))
		m.reset(first, first+n)
		dead, tomb := map[Offset]bool{}, map[Offset]bool{}
		offset := rapid.Int64Range(-70, 370)
		for range rapid.IntRange(0, 200).Draw(t, "marks") {
			o := first + Offset(offset.Draw(t, "offset"))
			if rapid.Bool().Draw(t, "dead") {
				m.setDead(o)
				dead[o] = true
			} else {
				m.setTomb(o)
				tomb[o] = true
			}
		}
		from := first + Offset(offset.Draw(t, "from"))
		to := from + Offset(rapid.Int64Range(-1, 200).Draw(t, "length"))
		if got, want := m.covers(from, to), from >= first && to < first+n && from <= to; got != want {
			t.Fatalf("covers %d to %d = %v", from, to, got)
		} else if !got {
			return
		}
		wantDead, wantTombs := 0, 0
		for o := from; o <= to; o++ {
			if m.isDead(o) != dead[o] || m.isTomb(o) != tomb[o] {
				t.Fatalf("offset %d: dead %v, tomb %v", o, m.isDead(o), m.isTomb(o))
			}
			if dead[o] {
				wantDead++
			} else if tomb[o] {
				wantTombs++
			}
		}
		if gotDead, gotTombs := m.tally(from, to); gotDead != wantDead || gotTombs != wantTombs {
			t.Fatalf("tally %d, %d, want %d, %d", gotDead, gotTombs, wantDead, wantTombs)
		}
	})
}

// However many offsets there are, the marks take what they may.
func TestOffsetMarksMemory(t *testing.T) {
	var m offsetMarks
	m.reset(5, 1<<50)
	if len(m.dead) != marksMax/64 || !m.covers(5, 4+marksMax) || m.covers(5, 5+marksMax) {
		t.Errorf("%d words", len(m.dead))
	}
}
