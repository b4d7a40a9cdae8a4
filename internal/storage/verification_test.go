package storage

import (
	"errors"
	"testing"
	"time"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

func txnBatch(t *testing.T, id int64, epoch int16, sequence int32) record.Batch {
	t.Helper()
	b := record.NewBuilder()
	b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Attributes = id, epoch, sequence, record.AttrTransactional
	b.Add(record.Record{Timestamp: time.Now().UnixMilli(), Value: []byte("v")})
	batch, err := b.Batch(nil)
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

// A batch opens a transaction only with leave that was asked for after the last marker, and no batch overtakes one that is to come again.
func TestVerification(t *testing.T) {
	l := openTest(t, vfs.NewMem(), testConfig())
	defer l.Close()
	send := func(sequence int32, v *Verification) SequenceFault {
		t.Helper()
		_, err := l.Append(txnBatch(t, 7, 0, sequence), AppendOptions{Verification: v})
		var refused *SequenceError
		if errors.As(err, &refused) {
			return refused.Fault
		}
		if err != nil {
			t.Fatal(err)
		}
		return 0
	}
	mark := func() {
		t.Helper()
		b := record.AppendEndTxnMarker(nil, 7, 0, true, 0, time.Now().UnixMilli())
		if _, err := l.Append(b, AppendOptions{Origin: FromCoordinator}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, got, want SequenceFault) {
		t.Helper()
		if got != want {
			t.Errorf("%s: fault %v, want %v", what, got, want)
		}
	}
	first := l.BeginVerification(7, 0, 0)
	later := l.BeginVerification(7, 0, 1)
	if first != later || first.Open() {
		t.Error("two batches that come together have no leave in common")
	}
	want("the later batch first", send(1, later), OutOfOrderSequence)
	want("the first batch", send(0, first), 0)
	want("the later batch", send(1, first), 0)
	open := l.BeginVerification(7, 0, 2)
	if !open.Open() {
		t.Error("an open transaction is to be asked for")
	}
	want("in the open transaction", send(2, open), 0)
	mark()
	want("after its end", send(3, open), InvalidTxnState)
	v := l.BeginVerification(7, 0, 3)
	mark()
	want("with a leave from before a marker", send(3, v), InvalidTxnState)
	v = l.BeginVerification(7, 0, 3)
	l.TakeBackVerification(7, 0, false)
	want("with a leave that was taken back", send(3, v), InvalidTxnState)
	v = l.BeginVerification(7, 0, 3)
	want("the next transaction", send(3, v), 0)
	if len(l.verifications) != 0 {
		t.Errorf("%d verifications are left", len(l.verifications))
	}
	l.EndVerification(l.BeginVerification(8, 0, 0))
	if len(l.verifications) != 0 {
		t.Error("one that came to nothing is left")
	}
}

// Where each transaction has an epoch of its own, a producer may ask for the next one before the last one's marker, which has the next
// one's epoch, has come: the leave stands. It falls with the marker of its own transaction.
func TestVerificationBeforeTheLastMarker(t *testing.T) {
	l := openTest(t, vfs.NewMem(), testConfig())
	defer l.Close()
	send := func(epoch int16, v *Verification) error {
		_, err := l.Append(txnBatch(t, 7, epoch, 0), AppendOptions{Verification: v})
		return err
	}
	mark := func(epoch int16) {
		t.Helper()
		b := record.AppendEndTxnMarker(nil, 7, epoch, true, 0, time.Now().UnixMilli())
		if _, err := l.Append(b, AppendOptions{Origin: FromCoordinator, NewEpochPerTransaction: true}); err != nil {
			t.Fatal(err)
		}
	}
	if err := send(0, l.BeginVerification(7, 0, 0)); err != nil {
		t.Fatal(err)
	}
	next := l.BeginVerification(7, 1, 0)
	mark(1)
	if err := send(1, next); err != nil {
		t.Errorf("a batch of the next transaction: %v", err)
	}
	mark(2)
	late := l.BeginVerification(7, 2, 0)
	mark(3)
	if err := send(2, late); err == nil {
		t.Error("a batch was let into a transaction that had ended")
	}
}
