package storage

import (
	"crypto/rand"
	"encoding/binary"
	"math/bits"
)

// An offsetMap remembers the last offset of each key of a log's dirty part. It does not keep keys, but 128 bits of each, in open
// addressing with linear probing:
//
//	0                  16                 24
//	+------------------+------------------+
//	| hash of the key  | last offset + 1  |   a slot; zero: free
//	+------------------+------------------+
//
// Kafka takes MD5, for which keys that collide can be made at will. Here it is SipHash with a secret drawn anew for each cleaning:
// nothing of it is on disk, so nothing depends on which hash it is.
type offsetMap struct {
	key    sipKey
	slots  []mapSlot
	limit  int // keys that it takes
	size   int // keys in it
	latest Offset
}

type mapSlot struct {
	lo, hi uint64
	next   Offset
}

// mapSlotSize is the memory that a slot takes.
const mapSlotSize = 24

// reset empties the map for a cleaning that sees at most records keyed records, within memory bytes. Slots that it has are used again.
func (m *offsetMap) reset(memory int64, loadFactor float64, records int64) {
	if loadFactor <= 0 || loadFactor > 1 {
		loadFactor = 0.9
	}
	most := max(memory/mapSlotSize, 2)
	want := most
	if records < int64(float64(most)*loadFactor) {
		want = min(most, int64(float64(records)/loadFactor)+2)
	}
	if int64(cap(m.slots)) < want {
		m.slots = make([]mapSlot, want)
	} else {
		m.slots = m.slots[:want]
		clear(m.slots)
	}
	// One slot stays free, for a search to end at.
	m.limit = max(1, min(int(float64(want)*loadFactor), int(want)-1))
	m.size, m.latest = 0, -1
	var secret [16]byte
	_, _ = rand.Read(secret[:]) // it never fails
	m.key = sipKey{binary.LittleEndian.Uint64(secret[:]), binary.LittleEndian.Uint64(secret[8:])}
}

// find returns the key's slot, or the free one where it belongs.
func (m *offsetMap) find(key []byte) (s *mapSlot, lo, hi uint64) {
	lo, hi = m.key.hash(key)
	at, _ := bits.Mul64(lo, uint64(len(m.slots)))
	for {
		s = &m.slots[at]
		if s.next == 0 || s.lo == lo && s.hi == hi {
			return s, lo, hi
		}
		if at++; at == uint64(len(m.slots)) {
			at = 0
		}
	}
}

// put notes that key was last seen at offset; false: the map is full, and the key is not in it.
func (m *offsetMap) put(key []byte, offset Offset) bool {
	s, lo, hi := m.find(key)
	if s.next == 0 {
		if m.size >= m.limit {
			return false
		}
		m.size++
		s.lo, s.hi = lo, hi
	}
	s.next = offset + 1
	return true
}

// get returns the last offset of key, -1 if it is not in the map.
func (m *offsetMap) get(key []byte) Offset {
	s, _, _ := m.find(key)
	return s.next - 1
}
