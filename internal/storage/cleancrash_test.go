package storage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

// A keyedLog is a compacted log with a random history, and a model of it: what each offset held, and the latest of each key.
type keyedLog struct {
	t        testing.TB
	rng      *rand.Rand
	mem      *vfs.Mem
	cfg      Config
	l        *Log
	now      int64
	sequence [2]int32
	written  map[Offset]string // key=value of every record that was written
	aborted  map[Offset]bool
	latest   map[string]string // of committed records; tombstones are not in it
	cleaned  Offset
	codecs   []record.Codec
	workers  int               // of cleanings
	set      func(*cleanRound) // what else there is to say of them
	value    int               // bytes of a value, at most
}

func newKeyedLog(t testing.TB, seed uint64) *keyedLog { return newKeyedLogOf(t, seed, testConfig()) }

func newKeyedLogOf(t testing.TB, seed uint64, cfg Config) *keyedLog {
	cfg.Compact, cfg.Delete, cfg.DeleteRetentionMs, cfg.MinCleanableDirtyRatio = true, false, 0, 0
	k := &keyedLog{t: t, rng: rand.New(rand.NewPCG(seed, 5)), mem: newMem(t), cfg: cfg, now: 10_000, workers: int(seed % 2 * cleanWorkers), value: 60,
		codecs: []record.Codec{record.None, record.None, record.LZ4}, written: map[Offset]string{}, aborted: map[Offset]bool{}, latest: map[string]string{}}
	k.l = openTest(t, k.mem, cfg)
	return k
}

// write appends some batches and flushes them.
func (k *keyedLog) write(batches int) {
	k.t.Helper()
	must := func(err error) {
		if err != nil {
			k.t.Fatal(err)
		}
	}
	for range batches {
		k.now += 10
		b := record.NewBuilder()
		b.Codec = k.codecs[k.rng.IntN(len(k.codecs))]
		txn := k.rng.IntN(4) == 0
		if p := k.rng.IntN(3); txn || p < 2 {
			p %= 2
			b.ProducerID, b.ProducerEpoch, b.BaseSequence = int64(p), 0, k.sequence[p]
			if txn {
				b.Attributes |= record.AttrTransactional
			}
		}
		abort := txn && k.rng.IntN(2) == 0
		base := k.l.EndOffset()
		n := 1 + k.rng.IntN(4)
		for i := range Offset(n) {
			key := fmt.Sprint("k", k.rng.IntN(12))
			r := record.Record{Timestamp: k.now, Key: []byte(key)}
			value := "null"
			if k.rng.IntN(4) > 0 {
				value = fmt.Sprint("v", base+i, strings.Repeat("x", k.rng.IntN(k.value)))
				r.Value = []byte(value)
				r.Headers = []record.Header{{Key: "h", Value: []byte(key)}}
			}
			k.written[base+i] = key + "=" + value
			switch {
			case abort:
				k.aborted[base+i] = true
			case value == "null":
				delete(k.latest, key)
			default:
				k.latest[key] = value
			}
			b.Add(r)
		}
		if b.ProducerID >= 0 {
			k.sequence[b.ProducerID] += int32(n)
		}
		bytes, err := b.Batch(nil)
		must(err)
		_, err = k.l.Append(bytes, AppendOptions{LeaderEpoch: 1})
		must(err)
		if txn {
			m := record.AppendEndTxnMarker(nil, b.ProducerID, 0, !abort, 1, k.now)
			_, err = k.l.Append(m, AppendOptions{LeaderEpoch: 1, Origin: FromCoordinator})
			must(err)
		}
	}
	must(k.l.Flush())
}

// clean cleans what is dirty, with a map of so many keys at most.
func (k *keyedLog) clean(keys int64) error {
	k.now += 1000
	v, err := k.l.cleanView(k.cleaned, k.l.EndOffset())
	if err != nil {
		return err
	}
	p := planClean(k.now, v)
	round := cleanRound{memory: (keys + 2) * mapSlotSize, load: 0.9, workers: k.workers}
	if k.set != nil {
		k.set(&round)
	}
	end, _, err := round.run(context.Background(), k.l, p.First, p.Limit, k.now)
	if err == nil {
		k.cleaned = end
	}
	return err
}

// read returns the log's committed records by offset, having checked that each is what was written.
func (k *keyedLog) read(l *Log) map[Offset]string {
	k.t.Helper()
	got := map[Offset]string{}
	aborts, err := l.AbortedTransactions(0, l.EndOffset())
	if err != nil {
		k.t.Fatal(err)
	}
	var r record.Reader
	next := l.StartOffset()
	aborting := map[int64]bool{}
	for next < l.EndOffset() {
		d, err := l.Read(next, ReadOptions{MaxBytes: 64 << 20, Limit: l.EndOffset(), MinOneBatch: true})
		if err != nil {
			k.t.Fatal(err)
		}
		if d.Size == 0 {
			break
		}
		b := make([]byte, d.Size)
		if err := readFull(d.Regions[0].File, b, d.Regions[0].Pos); err != nil {
			k.t.Fatal(err)
		}
		d.Release()
		for len(b) > 0 {
			e, err := record.FirstEntry(b)
			if err != nil || e.Check() != nil {
				k.t.Fatal(err, e.Check())
			}
			b = b[len(e):]
			h := e.Batch()
			if h.LastOffset() < next {
				k.t.Fatalf("batch %d-%d after offset %d", h.BaseOffset(), h.LastOffset(), next-1)
			}
			next = h.LastOffset() + 1
			for len(aborts) > 0 && aborts[0].FirstOffset <= h.LastOffset() { // in order of completion: one transaction at a time here
				aborting[aborts[0].ProducerID] = true
				aborts = aborts[1:]
			}
			if h.IsControl() {
				delete(aborting, h.ProducerID())
				continue
			}
			if err := r.Reset(h, 16<<20); err != nil {
				k.t.Fatal(err)
			}
			for r.Next() {
				rec := r.Record()
				s := string(rec.Key) + "=null"
				if rec.Value != nil {
					s = string(rec.Key) + "=" + string(rec.Value)
					if len(rec.Headers) != 1 || string(rec.Headers[0].Value) != string(rec.Key) {
						k.t.Fatalf("offset %d has headers %v", rec.Offset, rec.Headers)
					}
				}
				if s != k.written[rec.Offset] {
					k.t.Fatalf("offset %d holds %s, written was %s", rec.Offset, s, k.written[rec.Offset])
				}
				if h.IsTransactional() && aborting[h.ProducerID()] {
					if !k.aborted[rec.Offset] {
						k.t.Fatalf("offset %d counts as aborted", rec.Offset)
					}
					continue
				}
				if k.aborted[rec.Offset] {
					k.t.Fatalf("offset %d was aborted, and counts as committed", rec.Offset)
				}
				got[rec.Offset] = s
			}
			if r.Err() != nil {
				k.t.Fatal(r.Err())
			}
		}
	}
	return got
}

// check compares what the log holds with the model.
func (k *keyedLog) check(l *Log, when string) {
	k.t.Helper()
	latest := map[string]string{}
	records := k.read(l)
	for o := Offset(0); o < l.EndOffset(); o++ {
		s, ok := records[o]
		if !ok {
			continue
		}
		key, value, _ := strings.Cut(s, "=")
		if value == "null" {
			delete(latest, key)
		} else {
			latest[key] = value
		}
	}
	if !maps.Equal(latest, k.latest) {
		k.t.Fatalf("%s: latest values are %v\nwant %v", when, latest, k.latest)
	}
}

// A random history, cleaned at random with maps that are too small, says of each key what it said before; and so it does after
// a restart, by the same producers' state.
func TestCleanModel(t *testing.T) {
	for seed := range uint64(60) {
		k := newKeyedLog(t, seed)
		for range 6 {
			k.write(5 + k.rng.IntN(30))
			if err := k.clean(int64(1 + k.rng.IntN(20))); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			k.check(k.l, fmt.Sprint("seed ", seed))
		}
		for k.cleaned < k.l.list()[len(k.l.list())-1].base {
			before := k.cleaned
			if err := k.clean(3); err != nil {
				t.Fatal(err)
			}
			if k.cleaned <= before {
				t.Fatalf("seed %d: no progress at %d", seed, before)
			}
		}
		k.check(k.l, fmt.Sprint("seed ", seed))
		producers := lastOnes(k.l)
		k.l.Abandon()
		l := openTest(t, k.mem, k.cfg)
		k.check(l, fmt.Sprint("restarted, seed ", seed))
		if got := lastOnes(l); got != producers {
			t.Errorf("seed %d: producers %s, before the restart %s", seed, got, producers)
		}
		l.Abandon()
	}
}

// Where entries are long, of some MiB even or between short ones, they are read by whoever works on them.
func TestCleanLongEntries(t *testing.T) {
	long := 0
	for seed := range uint64(4) {
		cfg := testConfig()
		cfg.SegmentBytes, cfg.MaxMessageBytes = 4<<20, 4<<20
		k := newKeyedLogOf(t, seed, cfg)
		var r *cleanRound
		k.set = func(c *cleanRound) { r = c; c.fromBeginning = true }
		for _, k.value = range []int{40_000, 60, 700_000, 40_000} {
			k.write(20)
			if err := errors.Join(k.l.Roll(), k.l.Flush(), k.clean(100)); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if r.pipe.long {
				long++
			}
			k.check(k.l, fmt.Sprint("seed ", seed))
		}
		k.l.Abandon()
	}
	if long < 4 {
		t.Errorf("entries were long in %d cleanings", long)
	}
}

// lastOnes says what cleaning must keep of producers. The epoch of a coordinator goes with its last marker, as in Kafka.
func lastOnes(l *Log) string {
	var all []string
	for _, p := range l.Producers() {
		all = append(all, fmt.Sprint(p.ProducerID, p.ProducerEpoch, p.LastSequence, p.CurrentTxnStart))
	}
	slices.Sort(all)
	return fmt.Sprint(all)
}

// Whenever the power goes during a cleaning, and whenever it goes again while the log is opened after that, nothing is lost and
// nothing comes back.
func TestCleanCrash(t *testing.T) {
	cleanCrash(t, 6, 3, func(*cleanRound) {})
}

// So it is where a group becomes several segments, whose names reach the disk in any order.
func TestCleanCrashSeveralOutputs(t *testing.T) {
	cleanCrash(t, 2, 4, func(c *cleanRound) { c.outputMost = 400 })
}

func cleanCrash(t *testing.T, seeds, lots uint64, set func(*cleanRound)) {
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		for n := 1; ; n++ {
			k := newKeyedLog(t, seed)
			k.set = set
			k.write(40)
			if err := k.clean(100); err != nil {
				t.Fatal(err)
			}
			k.write(30)
			k.mem.CrashAfter(n)
			err := k.clean(100)
			k.l.Abandon()
			if err == nil && k.l.Err() == nil {
				if n < 20 {
					t.Fatalf("a cleaning took %d operations", n)
				}
				break
			}
			for lot := range lots {
				when := fmt.Sprintf("seed %d, operation %d, lot %d", seed, n, lot)
				disk := k.mem.AfterCrash(lot)
				again := n%7 + int(lot)*5
				disk.CrashAfter(again)
				if l, err := OpenLog(testOptions(disk, k.cfg)); err == nil {
					l.Abandon()
				}
				disk = disk.AfterCrash(lot + 10)
				l, err := OpenLog(testOptions(disk, k.cfg))
				if err != nil {
					t.Fatalf("%s: %v", when, err)
				}
				k.check(l, when)
				second := *k
				second.l, second.cleaned = l, 0
				if err := second.clean(100); err != nil {
					t.Fatalf("%s: cleaning again: %v", when, err)
				}
				k.check(l, when+", cleaned again")
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// An operation that fails leaves the log as it was, or failed; and no half-made files once it is opened again.
func TestCleanFaults(t *testing.T) {
	broken := errors.New("a bad disk")
	for n := 1; ; n++ {
		k := newKeyedLog(t, 3)
		k.write(60)
		hit := false
		k.mem.FailNth(n, broken, func(op, name string) bool {
			hit = true
			return op != "read" && op != "open"
		})
		err := k.clean(100)
		if err == nil {
			if n < 10 {
				t.Fatalf("only %d operations", n)
			}
			k.l.Abandon()
			break
		}
		if !hit || !errors.Is(err, broken) {
			t.Fatalf("operation %d: %v", n, err)
		}
		if k.l.Err() == nil {
			k.check(k.l, fmt.Sprint("operation ", n))
		}
		k.l.Abandon()
		l := openTest(t, k.mem, k.cfg)
		k.check(l, fmt.Sprintf("opened after operation %d failed", n))
		entries, _ := k.mem.ReadDir("/data/orders-3")
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), cleanedSuffix) || strings.HasSuffix(e.Name(), swapSuffix) {
				t.Errorf("operation %d: %s is left", n, e.Name())
			}
		}
		l.Abandon()
	}
}
