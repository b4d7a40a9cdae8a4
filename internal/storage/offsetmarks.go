package storage

import (
	"math/bits"
	"slices"
)

// offsetMarks keep two bits for each offset of a log's dirty part, which the first pass of a cleaning sets:
//
//	dead   its record has no key, or a later record of the dirty part has the same
//	tomb   its record is a tombstone
//
// So the second pass knows of a batch what becomes of it without inflating it, and hashes no key twice. An offset without a mark is
// of a record that stays, or of none. Beyond marksMax offsets nothing is marked, and keys are looked up again.
type offsetMarks struct {
	first      Offset
	n          Offset // offsets from first on that can be marked
	dead, tomb []uint64
	skip       []uint64 // see setSkip; empty until one is set
}

// marksMax is how many offsets can be marked: 2 MiB of either bit.
const marksMax = 16 << 20

// reset begins anew with the offsets [first, limit), or as many of them as there may be.
func (m *offsetMarks) reset(first, limit Offset) {
	m.first, m.n = first, min(limit-first, marksMax)
	m.skip = m.skip[:0]
	words := int(m.n+63) / 64
	for _, b := range [...]*[]uint64{&m.dead, &m.tomb} {
		if cap(*b) < words {
			*b = make([]uint64, words)
		} else {
			*b = (*b)[:words]
			clear(*b)
		}
	}
}

// covers tells whether all of [from, to] can be marked.
func (m *offsetMarks) covers(from, to Offset) bool {
	return from >= m.first && from <= to && to < m.first+m.n
}

func (m *offsetMarks) setDead(o Offset) { m.set(m.dead, o) }
func (m *offsetMarks) setTomb(o Offset) { m.set(m.tomb, o) }

func (m *offsetMarks) set(b []uint64, o Offset) {
	if i := uint64(o - m.first); i < uint64(m.n) {
		b[i/64] |= 1 << (i % 64)
	}
}

// setSkip marks a batch by its base offset, or by first if it begins before that: its records count for nothing. These marks are for the
// first pass alone, and take room only where there are any.
func (m *offsetMarks) setSkip(base Offset) {
	if words := len(m.dead); len(m.skip) < words {
		m.skip = slices.Grow(m.skip, words)[:words]
		clear(m.skip)
	}
	m.set(m.skip, max(base, m.first))
}

func (m *offsetMarks) isSkipped(base Offset) bool {
	return len(m.skip) > 0 && m.has(m.skip, max(base, m.first))
}

// isDead and isTomb are for offsets that are covered.
func (m *offsetMarks) isDead(o Offset) bool { return m.has(m.dead, o) }
func (m *offsetMarks) isTomb(o Offset) bool { return m.has(m.tomb, o) }

func (m *offsetMarks) has(b []uint64, o Offset) bool {
	i := uint64(o - m.first)
	return b[i/64]&(1<<(i%64)) != 0
}

// tally counts, of the offsets [from, to], which are covered, those that are dead, and those that are tombstones and not dead.
func (m *offsetMarks) tally(from, to Offset) (dead, tombs int) {
	i, j := uint64(from-m.first), uint64(to-m.first)
	for w := i / 64; w <= j/64; w++ {
		mask := ^uint64(0)
		if w == i/64 {
			mask <<= i % 64
		}
		if w == j/64 {
			mask &= ^uint64(0) >> (63 - j%64)
		}
		dead += bits.OnesCount64(m.dead[w] & mask)
		tombs += bits.OnesCount64(m.tomb[w] &^ m.dead[w] & mask)
	}
	return dead, tombs
}
