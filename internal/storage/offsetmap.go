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

// A hashedKey is a record as the map sees it.
type hashedKey struct {
	lo, hi uint64 // the key's hash
	offset Offset
	kind   keyKind
	dead   bool // of a pass from the end: a later record has the key, or it has none
}

type keyKind uint8

const (
	withValue keyKind = iota
	tombstone
	withoutKey
)

// hashed is a record as the map sees it; workers may call it while another goroutine puts.
func (m *offsetMap) hashed(key []byte, offset Offset, isTombstone bool) hashedKey {
	k := hashedKey{offset: offset}
	switch {
	case key == nil:
		k.kind = withoutKey
		return k
	case isTombstone:
		k.kind = tombstone
	}
	k.lo, k.hi = m.key.hash(key)
	return k
}

// home is where the search for a key begins.
func (m *offsetMap) home(lo uint64) uint64 {
	at, _ := bits.Mul64(lo, uint64(len(m.slots)))
	return at
}

// warmKeys is how many keys are looked at together, so that the memory behind them is waited for once and not for each.
const warmKeys = 16

// warm touches the slots where the searches for keys begin. Its result means nothing: it keeps the reads from being dropped.
func (m *offsetMap) warm(keys []hashedKey) (sum Offset) {
	for i := range keys {
		sum += m.slots[m.home(keys[i].lo)].next
	}
	return sum
}

// find returns the key's slot, or the free one where it belongs.
func (m *offsetMap) find(lo, hi uint64) *mapSlot {
	for at := m.home(lo); ; {
		s := &m.slots[at]
		if s.next == 0 || s.lo == lo && s.hi == hi {
			return s
		}
		if at++; at == uint64(len(m.slots)) {
			at = 0
		}
	}
}

// put notes that a key was last seen at an offset, and returns where it was seen before, -1 for nowhere. false: the map is full, and
// the key is not in it.
func (m *offsetMap) put(k *hashedKey) (before Offset, ok bool) {
	s := m.find(k.lo, k.hi)
	before = s.next - 1
	if s.next == 0 {
		if m.size >= m.limit {
			return -1, false
		}
		m.size++
		s.lo, s.hi = k.lo, k.hi
	}
	s.next = k.offset + 1
	return before, true
}

// putFirst notes that a key was last seen at an offset, unless it is in the map already: false. There is room for it.
func (m *offsetMap) putFirst(k *hashedKey) bool {
	s := m.find(k.lo, k.hi)
	if s.next != 0 {
		return false
	}
	m.size++
	*s = mapSlot{k.lo, k.hi, k.offset + 1}
	return true
}

// get returns the last offset of a key, -1 if it is not in the map.
func (m *offsetMap) get(k *hashedKey) Offset { return m.find(k.lo, k.hi).next - 1 }
