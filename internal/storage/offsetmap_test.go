package storage

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// The first vectors that the authors of SipHash published for results of 128 bits, with the key 00 01 … 0f.
func TestSipHashVectors(t *testing.T) {
	key := sipKey{0x0706050403020100, 0x0f0e0d0c0b0a0908}
	for n, want := range []string{
		"a3817f04ba25a8e66df67214c7550293", "da87c1d86b99af44347659119b22fc45", "8177228da4a45dc7fca38bdef60affe4",
	} {
		in := make([]byte, n)
		for i := range in {
			in[i] = byte(i)
		}
		lo, hi := key.hash(in)
		got := hex.EncodeToString(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, lo), hi))
		if got != want {
			t.Errorf("hash of %d bytes = %s, want %s", n, got, want)
		}
	}
}

// An offset map says what a plain map would, until it is full; and then it refuses new keys only.
func TestOffsetMapModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m offsetMap
		for range rapid.IntRange(1, 3).Draw(t, "uses") {
			slots := rapid.Int64Range(1, 40).Draw(t, "slots")
			m.reset(slots*mapSlotSize, 0.9, rapid.Int64Range(1, 100).Draw(t, "records"))
			model := map[string]Offset{}
			for offset := range Offset(rapid.IntRange(0, 100).Draw(t, "puts")) {
				key := fmt.Sprint(rapid.IntRange(0, 60).Draw(t, "key"))
				_, known := model[key]
				if ok := m.put([]byte(key), offset); ok != (known || len(model) < m.limit) {
					t.Fatalf("put = %v with %d of %d keys, known %v", ok, len(model), m.limit, known)
				} else if ok {
					model[key] = offset
				}
			}
			for i := range 61 {
				key := fmt.Sprint(i)
				want, known := model[key]
				if !known {
					want = -1
				}
				if got := m.get([]byte(key)); got != want {
					t.Fatalf("get %s = %d, want %d", key, got, want)
				}
			}
		}
	})
}

// A map takes as little memory as its records need, and no more than it may.
func TestOffsetMapMemory(t *testing.T) {
	var m offsetMap
	m.reset(128<<20, 0.9, 9)
	if len(m.slots) > 12 || m.limit < 9 {
		t.Errorf("for 9 records: %d slots, limit %d", len(m.slots), m.limit)
	}
	m.reset(24*1000, 0.9, 1<<40)
	if len(m.slots) != 1000 || m.limit != 900 {
		t.Errorf("within 24000 bytes: %d slots, limit %d", len(m.slots), m.limit)
	}
}

func BenchmarkOffsetMap(b *testing.B) {
	var m offsetMap
	m.reset(128<<20, 0.9, 4<<20)
	key := make([]byte, 16)
	b.SetBytes(16)
	for i := range b.N {
		binary.BigEndian.PutUint64(key, uint64(i%(4<<20)))
		m.put(key, Offset(i))
	}
}
