package storage

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/quire-log/quire/internal/record"
)

// twoWays are logs of the same random history, of which the first is cleaned from the beginning, and the other from the end.
func twoWays(t *testing.T, seed uint64, set func(*cleanRound)) (logs [2]*keyedLog) {
	for i := range logs {
		k := newKeyedLog(t, seed)
		k.codecs = []record.Codec{record.None, record.Gzip, record.Snappy, record.LZ4, record.Zstd}
		k.set = func(c *cleanRound) {
			c.fromBeginning, c.fromEnd = i == 0, i == 1
			if i == 1 && set != nil {
				set(c)
			}
		}
		logs[i] = k
	}
	return logs
}

// A dirty part that is read from its end becomes what it becomes when it is read from its beginning, to the byte: of random histories with
// tombstones, transactions and every codec; also where the spool has room for a part, and where its file cannot be read or be made.
func TestCleanBackwardAsForward(t *testing.T) {
	spooled := 0
	for seed := range uint64(80) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var most int64
		if seed%5 == 1 {
			most = 1 + rng.Int64N(2000)
		}
		logs := twoWays(t, seed, func(c *cleanRound) { c.spoolMost = most })
		if seed%5 == 2 {
			op := []string{"read", "remove", "open", "create"}[rng.IntN(4)]
			logs[1].mem.FailEvery(syscall.EIO, func(o, name string) bool { return o == op && strings.Contains(name, spoolSuffix) })
		}
		if seed%5 == 3 {
			logs[1].mem.FailEvery(syscall.ENOSPC, func(o, name string) bool {
				return o == "write" && strings.Contains(name, spoolSuffix) && rng.IntN(3) == 0
			})
		}
		logs[1].mem.FailEvery(nil, func(o, name string) bool {
			if o == "read" && strings.Contains(name, spoolSuffix) {
				spooled++
			}
			return false
		})
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
			logs[1].check(logs[1].l, fmt.Sprint("seed ", seed))
		}
	}
	if spooled < 50 {
		t.Errorf("the spool was read %d times", spooled)
	}
}

// A spool on a bad disk is reported, and the log is as it was.
func TestCleanSpoolFault(t *testing.T) {
	k := twoWays(t, 7, nil)[1]
	k.write(60)
	k.mem.FailEvery(syscall.EIO, func(op, name string) bool { return op == "write" && strings.Contains(name, spoolSuffix) })
	before := fmt.Sprint(k.l.Segments())
	if err := k.clean(1000); !errors.Is(err, syscall.EIO) {
		t.Errorf("%v", err)
	}
	if fmt.Sprint(k.l.Segments()) != before || k.l.Err() != nil {
		t.Errorf("the log has changed: %v", k.l.Err())
	}
	k.check(k.l, "after the fault")
	k.l.Abandon()
}

// Whenever the power goes, also while there is a spool, nothing is lost, nothing comes back, and no spool is left.
func TestCleanBackwardCrash(t *testing.T) {
	left := 0
	for seed := range uint64(2) {
		for n := 1; ; n++ {
			k := twoWays(t, seed, nil)[1]
			k.write(40)
			k.mem.CrashAfter(n)
			err := k.clean(1000)
			k.l.Abandon()
			if err == nil && k.l.Err() == nil {
				break
			}
			for lot := range uint64(3) {
				when := fmt.Sprintf("seed %d, operation %d, lot %d", seed, n, lot)
				disk := k.mem.AfterCrash(lot)
				spool := func(name string) bool { return strings.Contains(name, spoolSuffix) }
				if slices.ContainsFunc(entryNames(disk, "/data/orders-3"), spool) {
					left++
				}
				l, err := OpenLog(testOptions(disk, k.cfg))
				if err != nil {
					t.Fatalf("%s: %v", when, err)
				}
				if slices.ContainsFunc(entryNames(disk, "/data/orders-3"), spool) {
					t.Errorf("%s: a spool is left", when)
				}
				k.check(l, when)
				second := *k
				second.l, second.mem, second.cleaned = l, disk, 0
				if err := second.clean(1000); err != nil {
					t.Fatalf("%s: cleaning again: %v", when, err)
				}
				k.check(l, when+", cleaned again")
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if left == 0 {
		t.Error("no crash left a spool")
	}
}

// A spool gives back what was put into it, block by block, up to its bound and to the first write that finds no room.
func TestCleanSpool(t *testing.T) {
	batch := func(base Offset) []byte {
		b := record.NewBuilder()
		b.BaseOffset = base
		b.Add(record.Record{Key: []byte("k"), Value: make([]byte, 100)})
		out, err := b.Batch(nil)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	size := int64(len(batch(0)))
	mem := newMem(t)
	at := newPlace(mem, "/data/orders-3")
	if err := mem.MkdirAll("/data/orders-3", 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := newCleanSpool(at, 0, 5, 5*size)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if names := entryNames(mem, "/data/orders-3"); len(names) > 0 {
		t.Errorf("the spool has a name: %v", names)
	}
	for n := 4; n >= 0; n-- { // unit n has the batches at 10n, 10n+1 and 10n+2, of which the second stays as it is
		s.blocks[n].first = Offset(10 * n)
		if err := s.put(n, append(batch(Offset(10*n)), batch(Offset(10*n+2))...)); err != nil {
			t.Fatal(err)
		}
	}
	var r spoolReader
	for o := range Offset(50) {
		has := o >= 30 && (o%10 == 0 || o%10 == 2)
		if got := r.find(s, o, 1); (got != nil) != has || has && !bytes.Equal(got, batch(o)) {
			t.Errorf("offset %d: %x", o, got)
		}
	}
	if r.find(s, 40, 1) == nil {
		t.Error("not found again")
	}
	if r.find(s, 40, 2) != nil {
		t.Error("found with another number of records")
	}
	if _, err := s.f.WriteAt([]byte{1}, int64(s.blocks[3].pos)+record.HeaderSize+9); err != nil {
		t.Fatal(err)
	}
	if r.find(s, 30, 1) != nil {
		t.Error("found what is damaged")
	}
	if r.find(nil, 30, 1) != nil {
		t.Error("found without a spool")
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
