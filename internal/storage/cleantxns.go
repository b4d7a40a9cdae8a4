package storage

import (
	"slices"
	"sort"

	"github.com/quire-log/quire/internal/record"
)

// cleanTxns follows the transactions of a log while its batches are read in order, and tells whose data was aborted and which
// markers have nothing left to say.
//
// An abort's marker is wanted as long as a batch of its transaction is met before it; a commit's, as long as a batch of its producer
// is. Both then go in two steps, like tombstones: see cleanPass.
type cleanTxns struct {
	waiting   []abortedTxn // aborted, and not begun yet; by first offset
	aborting  map[int64]*abortingTxn
	committed map[int64]bool // producers of which a batch of a transaction was met that was not aborted
}

type abortingTxn struct {
	txn abortedTxn
	met bool // a batch of it was read
}

func newCleanTxns() *cleanTxns {
	return &cleanTxns{aborting: map[int64]*abortingTxn{}, committed: map[int64]bool{}}
}

// add tells of aborted transactions that overlap what is read next. One may be told of again.
func (t *cleanTxns) add(txns []abortedTxn) {
	for _, a := range txns {
		i := sort.Search(len(t.waiting), func(i int) bool { return t.waiting[i].firstOffset > a.firstOffset })
		t.waiting = slices.Insert(t.waiting, i, a)
	}
}

// begin lets the transactions begin whose first offset is reached.
func (t *cleanTxns) begin(reached Offset) {
	for len(t.waiting) > 0 && t.waiting[0].firstOffset <= reached {
		a := t.waiting[0]
		t.waiting = t.waiting[1:]
		if t.aborting[a.producerID] == nil {
			t.aborting[a.producerID] = &abortingTxn{txn: a}
		}
	}
}

// data notes a batch of data, and tells whether it was aborted.
func (t *cleanTxns) data(b record.Batch) (aborted bool) {
	t.begin(b.LastOffset())
	if !b.IsTransactional() {
		return false
	}
	if a := t.aborting[b.ProducerID()]; a != nil {
		a.met = true
		return true
	}
	t.committed[b.ProducerID()] = true
	return false
}

// marker notes a control batch, and tells whether it could go because nothing is left of its transaction. Of an abort that is
// still wanted, it returns the entry for the transaction index.
func (t *cleanTxns) marker(b record.Batch, r *record.Reader) (idle bool, wanted *abortedTxn, err error) {
	t.begin(b.LastOffset())
	if b.Count() == 0 {
		return true, nil, nil // it was cleaned before
	}
	if err := r.Reset(b, inflateMax); err != nil {
		return false, nil, err
	}
	if !r.Next() {
		return true, nil, r.Err()
	}
	kind, err := record.ParseControlKey(r.Record().Key)
	if err != nil {
		return false, nil, err
	}
	id := b.ProducerID()
	switch kind {
	case record.ControlAbort:
		a := t.aborting[id]
		delete(t.aborting, id)
		if a != nil && a.met {
			return false, &a.txn, nil
		}
		return true, nil, nil
	case record.ControlCommit:
		met := t.committed[id]
		delete(t.committed, id)
		return !met, nil, nil
	}
	return false, nil, nil
}

// abortedWithin lists the aborted transactions that overlap [from, to), of the .txnindex files of segs.
func abortedWithin(segs []*segment, from, to Offset) (all []abortedTxn) {
	i := max(sort.Search(len(segs), func(i int) bool { return segs[i].base > from })-1, 0)
	for _, s := range segs[i:] {
		for _, a := range s.aborted() {
			if a.lastOffset >= from && a.firstOffset < to {
				all = append(all, a)
			}
			if a.lastStable >= to {
				return all
			}
		}
	}
	return all
}
