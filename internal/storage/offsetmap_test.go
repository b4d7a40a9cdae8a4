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
				h := m.hashed([]byte(key), offset, false)
				last, ok := m.put(&h)
				if ok != (known || len(model) < m.limit) {
					t.Fatalf("put = %v with %d of %d keys, known %v", ok, len(model), m.limit, known)
				}
				if want, known := model[key]; known && last != want || !known && last != -1 {
					t.Fatalf("put: before it was at %d, want %d (%v)", last, want, known)
				}
				if ok {
					model[key] = offset
				}
			}
			for i := range 61 {
				key := fmt.Sprint(i)
				want, known := model[key]
				if !known {
					want = -1
				}
				h := m.hashed([]byte(key), 0, false)
				if got := m.get(&h); got != want {
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

// BenchmarkOffsetMap puts keys of 16 bytes in the way that a cleaning does.
func BenchmarkOffsetMap(b *testing.B) {
	var m offsetMap
	m.reset(128<<20, 0.9, 4<<20)
	key := make([]byte, 16)
	keys := make([]hashedKey, 0, warmKeys)
	b.SetBytes(16)
	for i := range b.N {
		binary.BigEndian.PutUint64(key, uint64(i%(4<<20)))
		if keys = append(keys, m.hashed(key, Offset(i), false)); len(keys) < warmKeys {
			continue
		}
		m.warm(keys)
		for i := range keys {
			m.put(&keys[i])
		}
		keys = keys[:0]
	}
}
