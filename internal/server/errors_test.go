package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
	"testing"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/replica"
	"github.com/quire-log/quire/internal/storage"
)

// TestErrorCodes gives each error of the floors below its code, bare and wrapped. keeps I2
func TestErrorCodes(t *testing.T) {
	for _, q := range []struct {
		err  error
		code int16
	}{
		{nil, 0},
		{&record.InvalidError{Fault: record.FaultCorrupt}, 2},
		{&record.InvalidError{Fault: record.FaultInvalid}, 87},
		{&record.InvalidError{Fault: record.FaultTooLarge}, 10},
		{&record.InvalidError{Fault: record.FaultTimestamp}, 32},
		{&record.InvalidError{Fault: record.FaultUnsupportedCodec}, -1},
		{&record.FormatError{}, 2},
		{&record.TooLargeError{}, 10},
		{&storage.SequenceError{Fault: storage.OutOfOrderSequence}, 45},
		{&storage.SequenceError{Fault: storage.OldProducerEpoch}, 47},
		{&storage.SequenceError{Fault: storage.InvalidTxnState}, 48},
		{&storage.SequenceError{Fault: storage.CoordinatorFenced}, 52},
		{&storage.RecordListTooLargeError{}, 18},
		{&storage.DiskFullError{Err: syscall.ENOSPC}, 56},
		{&storage.FailedError{Err: syscall.EIO}, 56},
		{&storage.CorruptError{Err: io.EOF}, 56},
		{&storage.OutOfRangeError{}, 1},
		{&replica.NotLeaderError{}, 6},
		{&replica.EpochError{Given: 1, Current: 2}, 74},
		{&replica.EpochError{Given: 2, Current: 1}, 75},
		{&replica.OfflineError{Err: syscall.EIO}, 56},
		{&replica.NotEnoughReplicasError{}, 19},
		{context.DeadlineExceeded, 7},
		{context.Canceled, 7},
		{io.ErrUnexpectedEOF, 2},
		{fs.ErrClosed, 6},
		{errors.New("anything else"), -1},
	} {
		if code, _ := errorCode(q.err); code != q.code {
			t.Errorf("%T %v: code %d, want %d", q.err, q.err, code, q.code)
		}
		if q.err != nil {
			if code, _ := errorCode(fmt.Errorf("orders-3: %w", q.err)); code != q.code {
				t.Errorf("%T wrapped: code %d, want %d", q.err, code, q.code)
			}
		}
	}
}
