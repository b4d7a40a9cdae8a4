package storage

import (
	"errors"
	"io/fs"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

// producers is what a log knows of those that wrote to it. The log's mu guards all but txns, which has a lock of its own:
// a fetch asks for the last stable offset and shall not wait for a write.
type producers struct {
	at        *place
	byID      map[int64]*producer
	txns      txnSet
	end       Offset   // the state is that of the log below end
	snapshots []Offset // of the .snapshot files that exist, ascending
	snapped   Offset   // the state at this offset was written to a file, or needs none
	windows   []Offset // of the .window files that exist
	windowed  Offset   // the .window file of this offset is of this state when that is at the same; -1: none is
	reader    record.Reader
}

func newProducers(at *place) *producers {
	return &producers{at: at, byID: map[int64]*producer{}, windowed: -1}
}

// A txnSet is the transactions that hold back the last stable offset.
type txnSet struct {
	any atomic.Bool // without it, nobody needs mu

	// mu guards the fields below. It is a leaf: nothing is locked under it.
	mu   sync.Mutex
	open []openTxn      // by first offset
	done []completedTxn // in the order of their markers; until the high watermark has passed those
}

type openTxn struct {
	producerID int64
	first      Offset
}

func (t *txnSet) begin(id int64, first Offset) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := sort.Search(len(t.open), func(i int) bool { return t.open[i].first > first })
	t.open = slices.Insert(t.open, i, openTxn{id, first})
	t.any.Store(true)
}

func (t *txnSet) complete(c completedTxn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = slices.DeleteFunc(t.open, func(o openTxn) bool { return o.producerID == c.producerID && o.first == c.first })
	t.done = append(t.done, c)
}

// forgetBelow drops completed transactions that lie wholly before the log's start.
func (t *txnSet) forgetBelow(start Offset) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done = slices.DeleteFunc(t.done, func(c completedTxn) bool { return c.last < start })
	t.any.Store(len(t.open)+len(t.done) > 0)
}

func (t *txnSet) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open, t.done = nil, nil
	t.any.Store(false)
}

// stableAfter is the last stable offset right after the marker of c: what its .txnindex entry keeps.
func (t *txnSet) stableAfter(c completedTxn) Offset {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.open {
		if o.producerID != c.producerID {
			return o.first
		}
	}
	return c.last + 1
}

// lastStable is the first offset of the earliest transaction that is open, or whose marker is not below hw; at most hw.
func (t *txnSet) lastStable(hw Offset) Offset {
	if !t.any.Load() {
		return hw
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.done) > 0 && t.done[0].last < hw {
		t.done = t.done[1:]
	}
	t.any.Store(len(t.open)+len(t.done) > 0)
	stable := hw
	if len(t.open) > 0 {
		stable = min(stable, t.open[0].first)
	}
	for _, c := range t.done {
		stable = min(stable, c.first)
	}
	return stable
}

// apply notes a batch that was appended: a producer's data, or with m its marker. It returns the transaction that ended.
func (ps *producers) apply(b record.Batch, m *marker) (completedTxn, bool) {
	p := ps.byID[b.ProducerID()]
	if p == nil {
		p = newProducer(b.ProducerID())
		ps.byID[p.id] = p
	}
	if m == nil {
		if p.addData(b) {
			ps.txns.begin(p.id, p.txnStart)
		}
		return completedTxn{}, false
	}
	return p.addMarker(b, *m)
}

// replay is apply for a batch that is in the log already: nothing is checked.
func (ps *producers) replay(b record.Batch) (completedTxn, bool, error) {
	if !b.HasProducer() {
		return completedTxn{}, false, nil
	}
	if !b.IsControl() {
		ps.apply(b, nil)
		return completedTxn{}, false, nil
	}
	m, ok, err := readMarker(b, &ps.reader)
	if !ok {
		return completedTxn{}, false, err
	}
	done, ok := ps.apply(b, &m)
	return done, ok, nil
}

// clear forgets every producer.
func (ps *producers) clear(end Offset) {
	clear(ps.byID)
	ps.txns.clear()
	ps.end, ps.snapped, ps.windowed = end, 0, -1
}

// adopt takes producers from a snapshot, but those that now are expired.
func (ps *producers) adopt(all []*producer, expired func(*producer) bool) {
	for _, p := range all {
		if expired(p) {
			continue
		}
		ps.byID[p.id] = p
		if p.txnStart >= 0 {
			ps.txns.begin(p.id, p.txnStart)
		}
	}
}

// load makes the state that of the newest usable snapshot at or below end and above start, or the empty one. Unusable
// snapshots are removed. It returns a note of what was wrong with them, for an event.
func (ps *producers) load(start, end Offset, expired func(*producer) bool) (notes []string, err error) {
	ps.clear(start)
	ps.snapped = start // a log without records needs no file that says so
	for i := len(ps.snapshots) - 1; i >= 0; i-- {
		offset := ps.snapshots[i]
		if offset > end || offset <= start {
			continue
		}
		name := fileName(offset, snapshotSuffix)
		b, err := vfs.ReadFile(ps.at.fs, ps.at.path(name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return notes, err
		}
		all, err := parseSnapshot(b)
		if err != nil {
			notes = append(notes, name+": "+err.Error())
			if err := ps.removeSnapshots(func(o Offset) bool { return o == offset }); err != nil {
				return notes, err
			}
			continue
		}
		ps.adopt(all, expired)
		ps.end, ps.snapped = offset, offset
		return notes, nil
	}
	return notes, nil
}

// snapshot writes the state at end, unless a file has it. A full disk is no error: older snapshots and the log suffice.
func (ps *producers) snapshot(sync bool) error {
	if ps.end <= ps.snapped {
		return nil
	}
	err := writeSnapshot(ps.at, ps.end, appendSnapshot(nil, ps.byID), sync)
	if err != nil {
		_ = ps.at.fs.Remove(ps.at.path(fileName(ps.end, snapshotSuffix)))
		if isDiskFull(err) {
			return nil
		}
		return err
	}
	if i, found := slices.BinarySearch(ps.snapshots, ps.end); !found {
		ps.snapshots = slices.Insert(ps.snapshots, i, ps.end)
	}
	ps.snapped = ps.end
	return nil
}

// removeSnapshots unlinks the files whose offset which picks.
func (ps *producers) removeSnapshots(which func(Offset) bool) error {
	var errs error
	ps.snapshots = slices.DeleteFunc(ps.snapshots, func(o Offset) bool {
		if !which(o) {
			return false
		}
		if err := ps.at.fs.Remove(ps.at.path(fileName(o, snapshotSuffix))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = errors.Join(errs, err)
		}
		if o == ps.snapped {
			ps.snapped = 0
		}
		return true
	})
	return errs
}

// expire forgets producers that are expired and have no transaction open.
func (ps *producers) expire(expired func(*producer) bool) {
	for id, p := range ps.byID {
		if expired(p) {
			delete(ps.byID, id)
		}
	}
}
