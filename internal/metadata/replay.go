package metadata

import (
	"errors"
	"fmt"

	"github.com/quire-log/quire/internal/kmeta"
)

// A Replayer turns records into images. It carries what an open metadata transaction has gathered. One goroutine uses it.
type Replayer struct {
	image *Image
	// open is what the records since BeginTransaction have made of image; nil outside of a transaction.
	open *draft
	err  error
}

// NewReplayer begins at img.
func NewReplayer(img *Image) *Replayer { return &Replayer{image: img} }

// Image is the last image that Replay returned, or that the Replayer began at.
func (r *Replayer) Image() *Image { return r.image }

// InTransaction says whether a metadata transaction is open, whose records are not in the image.
func (r *Replayer) InTransaction() bool { return r.open != nil }

var (
	errOpen   = errors.New("a metadata transaction is open already")
	errClosed = errors.New("no metadata transaction is open")
)

// Replay applies the records of one batch, the last of which is at offset last, and returns the next image and what changed.
// The image is unchanged while a metadata transaction is open. The records belong to the images from then on. A *ReplayError
// says which record cannot be applied; it is final, since what follows a record that makes no sense makes none either.
// A snapshot that ends before offset N is replayed from Empty by one call with last N-1.
func (r *Replayer) Replay(recs []kmeta.Record, last Offset, epoch Epoch) (*Image, *Delta, error) {
	if r.err != nil {
		return nil, nil, r.err
	}
	before := r.image
	var changed changes
	d, inTransaction := r.open, r.open != nil
	if !inTransaction {
		d = newDraft(r.image)
	}
	for n, rec := range recs {
		var err error
		switch rec.(type) {
		case *kmeta.BeginTransactionRecord:
			if inTransaction {
				err = errOpen
				break
			}
			// What came before it in the batch shows in any case.
			if n > 0 {
				err = r.show(d, &changed, last-Offset(len(recs)-n), epoch)
			}
			d, inTransaction = newDraft(r.image), true
		case *kmeta.EndTransactionRecord:
			if !inTransaction {
				err = errClosed
			}
			inTransaction = false
		case *kmeta.AbortTransactionRecord:
			if !inTransaction {
				err = errClosed
			}
			d, inTransaction = newDraft(r.image), false
		default:
			err = d.apply(rec)
		}
		if err != nil {
			r.err = &ReplayError{Record: rec.TypeName(), Index: n, Count: len(recs), Last: last, Err: err}
			return nil, nil, r.err
		}
	}
	if r.open = d; !inTransaction {
		r.open = nil
		if err := r.show(d, &changed, last, epoch); err != nil {
			r.err = &ReplayError{Index: len(recs) - 1, Count: len(recs), Last: last, Err: err}
			return nil, nil, r.err
		}
	}
	return r.image, changed.delta(before, r.image), nil
}

// show makes what d has gathered the image as of an offset.
func (r *Replayer) show(d *draft, changed *changes, offset Offset, epoch Epoch) error {
	if err := d.check(); err != nil {
		return err
	}
	img := d.img // apart from the draft, which may go
	img.offset, img.epoch = offset, epoch
	changed.add(d.changes)
	r.image = &img
	return nil
}

// A ReplayError says which record could not be applied, and why.
type ReplayError struct {
	Record       string // its type; empty when the records together make no sense
	Index, Count int    // the record's place among those that were replayed
	Last         Offset // of the last of them
	Err          error
}

func (e *ReplayError) Error() string {
	record := e.Record
	if record == "" {
		record = "after it"
	}
	return fmt.Sprintf("metadata: record %d of %d up to offset %d: %s: %v", e.Index+1, e.Count, e.Last, record, e.Err)
}

func (e *ReplayError) Unwrap() error { return e.Err }
