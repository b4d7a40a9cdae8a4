package storage

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// A dirty part that is read from its end becomes what it becomes when it is read from its beginning, to the byte: of random histories with
// tombstones, transactions and every codec.
func TestCleanBackwardAsForward(t *testing.T) {
	for seed := range uint64(120) {
		var logs [2]*keyedLog
		rng := rand.New(rand.NewPCG(seed, 1))
		for i := range logs {
			k := newKeyedLog(t, seed)
			k.set = func(c *cleanRound) { c.fromBeginning, c.fromEnd = i == 0, i == 1 }
			logs[i] = k
		}
		for range 4 {
			n, keys := 5+rng.IntN(30), int64(1000)
			if rng.IntN(2) == 0 {
				keys = rng.Int64N(20) // the map is full in the middle of a batch, where the next cleaning begins
			}
			for i, k := range logs {
				k.write(n)
				if err := k.clean(keys); err != nil {
					t.Fatalf("seed %d, way %d: %v", seed, i, err)
				}
			}
			if err := sameFiles(logs[0], logs[1]); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
	}
}

// sameFiles compares what two logs have on their disks.
func sameFiles(a, b *keyedLog) error {
	stay := func(k *keyedLog) (names []string) {
		for _, n := range entryNames(k.mem, "/data/orders-3") {
			if !strings.HasSuffix(n, deletedSuffix) { // may be gone by now
				names = append(names, n)
			}
		}
		return names
	}
	names := stay(a)
	if other := stay(b); fmt.Sprint(other) != fmt.Sprint(names) {
		return fmt.Errorf("files %v, and %v", names, other)
	}
	for _, n := range names {
		x, y := fileBytes(a, n), fileBytes(b, n)
		if string(x) != string(y) {
			return fmt.Errorf("%s: %x\n%x", n, x, y)
		}
	}
	return nil
}

func fileBytes(k *keyedLog, name string) []byte {
	k.t.Helper()
	f, err := k.mem.OpenFile("/data/orders-3/"+name, 0, 0)
	if err != nil {
		k.t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		k.t.Fatal(err)
	}
	b := make([]byte, size)
	if err := readFull(f, b, 0); err != nil {
		k.t.Fatal(err)
	}
	return b
}
