package storage

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

var testPartition = TopicPartition{"orders", 3}

// testConfig has small segments and indexes, so that little data is many files.
func testConfig() Config {
	c := DefaultConfig()
	c.SegmentBytes, c.IndexBytesMax, c.IndexInterval = 2000, 1200, 200
	c.RetentionMs, c.ProducerExpirationMs, c.TimestampAfterMaxMs = -1, math.MaxInt64, math.MaxInt64
	c.FileDeleteDelayMs = 0
	return c
}

func testOptions(fsys vfs.FS, cfg Config) LogOptions {
	return LogOptions{FS: fsys, Dir: "/data/orders-3", Partition: testPartition, TopicID: TopicID{15: 200}, Config: cfg}
}

// newMem is a memory file system with a durable directory /data.
func newMem(t testing.TB) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	if err := errors.Join(mem.MkdirAll("/data", 0o755), mem.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	return mem
}

// batch packs n records of one time.
func batch(n int, at int64, change ...func(*record.Builder)) record.Batch {
	b := record.NewBuilder()
	for _, f := range change {
		f(b)
	}
	for i := range n {
		b.Add(record.Record{Timestamp: at, Key: fmt.Appendf(nil, "key%d", i), Value: []byte("value")})
	}
	out, err := b.Batch(nil)
	if err != nil {
		panic(err)
	}
	return out
}

// by makes a batch a producer's.
func by(id int64, epoch int16, sequence int32) func(*record.Builder) {
	return func(b *record.Builder) { b.ProducerID, b.ProducerEpoch, b.BaseSequence = id, epoch, sequence }
}

func transactional(b *record.Builder) { b.Attributes |= record.AttrTransactional }

// A workload is what a crash interrupts: appends from three producers, some in transactions, flushes, rolls, retention, truncations.
type workload struct {
	rng      *rand.Rand
	l        *Log
	sequence [3]int32
	open     [3]bool
	time     int64
	acked    Offset // a flush covered everything below, and nothing took it back
	start    Offset // the log start that was asked for last
	end      Offset // of the last batch, at least: a truncation inside a batch leaves offsets without records behind
}

func (w *workload) step() error {
	p := w.rng.IntN(3)
	w.time += int64(w.rng.IntN(20)) - 5
	switch w.rng.IntN(12) {
	case 0:
		if err := w.l.Flush(); err != nil {
			return err
		}
		w.acked = w.end
	case 1:
		return w.l.Roll()
	case 2:
		if w.rng.IntN(4) > 0 || w.l.EndOffset() == 0 {
			return nil
		}
		span := int64(w.l.EndOffset() - w.l.StartOffset())
		to := w.l.StartOffset() + Offset(w.rng.Int64N(span+1))
		w.start = max(w.start, to)
		if _, err := w.l.DeleteRecords(to); err != nil {
			return err
		}
		_, err := w.l.DeleteOldSegments(w.l.EndOffset())
		return err
	case 3:
		if w.rng.IntN(4) > 0 || w.l.EndOffset() <= w.l.StartOffset() {
			return nil
		}
		to := w.l.EndOffset() - Offset(w.rng.Int64N(min(5, int64(w.l.EndOffset()-w.l.StartOffset()))+1))
		w.end = min(w.end, to-3) // batches have up to 4 records
		w.acked = min(w.acked, w.end)
		if err := w.l.Truncate(to); err != nil {
			return err
		}
		w.resync()
	case 4:
		if !w.open[p] {
			return nil
		}
		m := record.AppendEndTxnMarker(nil, int64(p), 0, w.rng.IntN(2) == 0, 1, w.time)
		if _, err := w.l.Append(m, AppendOptions{LeaderEpoch: 1, Origin: FromCoordinator}); err != nil {
			return err
		}
		w.open[p], w.end = false, w.l.EndOffset()
	default:
		n := 1 + w.rng.IntN(4)
		change := []func(*record.Builder){by(int64(p), 0, w.sequence[p])}
		if p == 2 || w.open[p] {
			change = append(change, transactional)
		}
		if w.rng.IntN(5) == 0 {
			change = append(change, func(b *record.Builder) { b.Codec = record.LZ4 })
		}
		a, err := w.l.Append(batch(n, w.time, change...), AppendOptions{LeaderEpoch: 1})
		if err != nil {
			return err
		}
		if a.Duplicate {
			return fmt.Errorf("batch of producer %d, sequence %d, is called a duplicate at %d", p, w.sequence[p], a.BaseOffset)
		}
		w.sequence[p] += int32(n)
		w.end = a.LastOffset + 1
		w.open[p] = w.open[p] || p == 2
	}
	return nil
}

// resync makes the producers go on from what the log knows of them.
func (w *workload) resync() {
	w.sequence, w.open = [3]int32{}, [3]bool{}
	for _, p := range w.l.Producers() {
		w.sequence[p.ProducerID] = p.LastSequence + 1
		w.open[p.ProducerID] = p.CurrentTxnStart >= 0
	}
}

// Wherever a crash strikes, the log opens, what a flush covered is there, and everything that is derived fits the batches.
func TestCrashAnywhere(t *testing.T) {
	seeds := uint64(500)
	if testing.Short() {
		seeds = 60
	}
	only := os.Getenv("CRASH_SEED")
	for seed := range seeds {
		if only != "" && only != strconv.FormatUint(seed, 10) {
			continue
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		mem := newMem(t)
		cfg := testConfig()
		cfg.Preallocate = rng.IntN(3) == 0
		w := &workload{rng: rng, time: 1_000_000}
		var mu sync.Mutex
		var story []string // what the log said and did
		tell := func(e Event) {
			mu.Lock()
			defer mu.Unlock()
			story = append(story, fmt.Sprintf("%s at %d: %s", e.Kind, e.Offset, e.Cause))
		}
		fatalf := func(format string, args ...any) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			t.Fatalf("seed %d: "+format+"\n%s", append(append([]any{seed}, args...), strings.Join(story[max(0, len(story)-40):], "\n"))...)
		}
		for life := range 3 {
			mem.CrashAfter(rng.IntN(400))
			o := testOptions(mem, cfg)
			o.Events = tell
			l, err := OpenLog(o)
			if err == nil {
				w.l, w.end = l, l.EndOffset()
				w.resync()
				if err := checkLog(l, w); err != nil && !errors.Is(err, vfs.ErrCrashed) {
					fatalf("life %d: %v", life, err)
				}
				for err == nil {
					err = w.step()
					if os.Getenv("CRASH_SEED") != "" {
						f, _ := l.active.file.Size()
						tell(Event{Kind: "step", Offset: l.EndOffset(), Cause: fmt.Sprint(w.acked, l.RecoveryPoint(), l.Size(), f, err)})
					}
				}
				tell(Event{Kind: "crash", Offset: l.EndOffset(), Cause: fmt.Sprintf("life %d, acknowledged %d: %v", life, w.acked, err)})
				l.Abandon()
			}
			if !errors.Is(err, vfs.ErrCrashed) {
				fatalf("life %d: %v", life, err)
			}
			mem = mem.AfterCrash(seed)
		}
		o := testOptions(mem, cfg)
		o.Events = tell
		l, err := OpenLog(o)
		if err != nil {
			fatalf("the log does not open: %v", err)
		}
		w.l = l
		if err := checkLog(l, w); err != nil {
			fatalf("%v", err)
		}
		if err := l.Close(); err != nil {
			fatalf("%v", err)
		}
		before := fmt.Sprint(l.StartOffset(), l.EndOffset(), infoStrings(l))
		o.Clean, o.LogStart = true, l.StartOffset()
		o.Events = func(e Event) {
			if e.Kind == "rebuild-index" {
				t.Errorf("seed %d: after a clean stop: %s", seed, e.Cause)
			}
		}
		if l, err = OpenLog(o); err != nil {
			t.Fatalf("seed %d: not again after a clean stop: %v", seed, err)
		}
		// A log without records forgets its producers at a start, as Kafka's does.
		if after := fmt.Sprint(l.StartOffset(), l.EndOffset(), infoStrings(l)); after != before && l.StartOffset() < l.EndOffset() {
			t.Fatalf("seed %d: before the clean stop %s, after %s", seed, before, after)
		}
		if err := checkLog(l, w); err != nil {
			t.Fatalf("seed %d: after a clean stop: %v", seed, err)
		}
		l.Abandon()
	}
}

func infoStrings(l *Log) []string {
	var all []string
	for _, p := range l.Producers() {
		all = append(all, fmt.Sprint(p))
	}
	slices.Sort(all)
	return all
}

// checkLog reads everything and compares it with what the log says.
func checkLog(l *Log, w *workload) error {
	start, end := l.StartOffset(), l.EndOffset()
	if end < w.acked {
		return fmt.Errorf("offset %d was acknowledged, but the log ends at %d", w.acked-1, end)
	}
	if start > w.start && start > end {
		return fmt.Errorf("log start %d, asked for was %d", start, w.start)
	}
	producers := newProducers(l.at)
	next := start
	first := l.list()[0].base
	holes := false // what was lost with an unsynced segment, snapshots may still know of
	for _, s := range l.list() {
		holes = holes || s.base > max(next, first)
		if s.base < first {
			return fmt.Errorf("segment %d after %d", s.base, first)
		}
		f, err := s.acquire()
		if err != nil {
			return err
		}
		size := s.size.Load()
		b := newIndexBuilder(s, l.config.Load())
		valid, fault, err := walkEntries(f, size, func(pos int64, e record.Entry) error {
			if err := e.Check(); err != nil {
				return err
			}
			b.add(found{pos, int64(len(e)), e.BaseOffset(), e.LastOffset()}, e.MaxTimestamp())
			if e.LastOffset() >= start {
				next = e.LastOffset() + 1
			}
			if done, ok, err := producers.replay(e.Batch()); err != nil {
				return err
			} else if ok {
				producers.txns.complete(done)
			}
			return nil
		})
		s.release()
		if err != nil {
			return err
		}
		if valid != size {
			return fmt.Errorf("%s: %d of %d bytes are sound: %v", s.name(logSuffix), valid, size, fault)
		}
		x, err := l.indexesOf(s)
		if err != nil {
			return err
		}
		if err := sameTimes(s, x, b); err != nil {
			return err
		}
	}
	if next > end {
		return fmt.Errorf("the log says that it ends at %d, and its batches end at %d", end, next)
	}
	for o := start; o < end; o++ {
		d, err := l.Read(o, ReadOptions{MaxBytes: 1, Limit: end, MinOneBatch: true})
		if err != nil {
			return fmt.Errorf("reading %d: %w", o, err)
		}
		buf := make([]byte, d.Size)
		if d.Size > 0 {
			if err := readFull(d.Regions[0].File, buf, d.Regions[0].Pos); err != nil {
				return err
			}
			if b, err := record.FirstBatch(buf); err != nil || b.BaseOffset() > o && b.BaseOffset() != d.First || b.LastOffset() < o {
				return fmt.Errorf("read at %d begins with %d to %d: %v", o, b.BaseOffset(), b.LastOffset(), err)
			}
		}
		d.Release()
	}
	if holes || next < end {
		return nil
	}
	// Producers: those of the log that its batches above the start tell of.
	for _, p := range l.Producers() {
		q := producers.byID[p.ProducerID]
		if q != nil && len(q.sent) > 0 && q.lastSequence() != p.LastSequence {
			return fmt.Errorf("producer %d: last sequence %d, its batches say %d", p.ProducerID, p.LastSequence, q.lastSequence())
		}
	}
	for id, q := range producers.byID {
		known := slices.ContainsFunc(l.Producers(), func(p ProducerInfo) bool { return p.ProducerID == id })
		if !known && len(q.sent) > 0 && q.sent[len(q.sent)-1].lastOffset >= start {
			return fmt.Errorf("producer %d is not known", id)
		}
	}
	return nil
}

// sameTimes compares a segment's largest timestamp and last time with those that its batches have.
func sameTimes(s *segment, x *segmentIndexes, b *indexBuilder) error {
	largest, known := s.largestSoFar()
	if known && largest != b.largest {
		return fmt.Errorf("%s: largest time %v, its batches say %v", s.name(logSuffix), largest, b.largest)
	}
	for o := s.base; ; o++ {
		n, last, _, err := x.offsets.floor(byA, int64(o-s.base))
		if err != nil {
			return err
		}
		if n > 0 && last.a > int64(o-s.base) {
			return fmt.Errorf("%s: floor of %d is %v", x.offsets.name, o, last)
		}
		if int64(o-s.base) > 60 {
			return nil
		}
	}
}
