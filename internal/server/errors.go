package server

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/replica"
	"github.com/quire-log/quire/internal/storage"
)

// Kafka's error codes, those that the data path answers with.
const (
	codeUnknownServerError           int16 = -1
	codeNone                         int16 = 0
	codeOffsetOutOfRange             int16 = 1
	codeCorruptMessage               int16 = 2
	codeUnknownTopicOrPartition      int16 = 3
	codeNotLeaderOrFollower          int16 = 6
	codeRequestTimedOut              int16 = 7
	codeMessageTooLarge              int16 = 10
	codeCoordinatorLoadInProgress    int16 = 14
	codeCoordinatorNotAvailable      int16 = 15
	codeNotCoordinator               int16 = 16
	codeInvalidTopic                 int16 = 17
	codeRecordListTooLarge           int16 = 18
	codeNotEnoughReplicas            int16 = 19
	codeInvalidRequiredAcks          int16 = 21
	codeInvalidTimestamp             int16 = 32
	codeUnsupportedVersion           int16 = 35
	codeInvalidRequest               int16 = 42
	codePolicyViolation              int16 = 44
	codeOutOfOrderSequence           int16 = 45
	codeInvalidProducerEpoch         int16 = 47
	codeInvalidTxnState              int16 = 48
	codeInvalidProducerIDMapping     int16 = 49
	codeConcurrentTransactions       int16 = 51
	codeTransactionCoordinatorFenced int16 = 52
	codeTransactionalIDAuthorization int16 = 53
	codeKafkaStorageError            int16 = 56
	codeOperationNotAttempted        int16 = 55
	codeFetchSessionIDNotFound       int16 = 70
	codeInvalidFetchSessionEpoch     int16 = 71
	codeFencedLeaderEpoch            int16 = 74
	codeUnknownLeaderEpoch           int16 = 75
	codeUnsupportedCompressionType   int16 = 76
	codeInvalidRecord                int16 = 87
	codeProducerFenced               int16 = 90
	codeUnknownTopicID               int16 = 100
	codeFetchSessionTopicIDError     int16 = 106
	codeTransactionAbortable         int16 = 120
	invalidOffset                          = -1 // in answers that know none
	internalClient                         = "__admin_client"
)

// errorCode turns an error of the floors below into Kafka's code, and is the one place that does. message is what a client
// may be told beyond the code: "" when the code says it all. keeps I2
func errorCode(err error) (code int16, message string) {
	if err == nil {
		return codeNone, ""
	}
	var (
		invalid   *record.InvalidError
		format    *record.FormatError
		inflated  *record.TooLargeError
		sequence  *storage.SequenceError
		tooLarge  *storage.RecordListTooLargeError
		full      *storage.DiskFullError
		failed    *storage.FailedError
		corrupt   *storage.CorruptError
		outside   *storage.OutOfRangeError
		notLeader *replica.NotLeaderError
		epoch     *replica.EpochError
		offline   *replica.OfflineError
		few       *replica.NotEnoughReplicasError
	)
	switch {
	case errors.As(err, &invalid):
		return faultCode(invalid.Fault), invalid.Message
	case errors.As(err, &format):
		return codeCorruptMessage, format.Reason
	case errors.As(err, &inflated):
		return codeMessageTooLarge, inflated.Error()
	case errors.As(err, &sequence):
		return sequenceCode(sequence.Fault), sequence.Message
	case errors.As(err, &tooLarge):
		return codeRecordListTooLarge, tooLarge.Error()
	case errors.As(err, &offline), errors.As(err, &failed), errors.As(err, &corrupt):
		return codeKafkaStorageError, ""
	case errors.As(err, &full):
		if full.NoDescriptor() {
			return codeKafkaStorageError, "the broker has no file descriptor left"
		}
		// Retriable, as whatever else the disk does to a log; but the log goes on once there is room.
		return codeKafkaStorageError, "no space is left on the broker's disk"
	case errors.As(err, &outside):
		return codeOffsetOutOfRange, outside.Error()
	case errors.As(err, &notLeader):
		return codeNotLeaderOrFollower, ""
	case errors.As(err, &epoch):
		if epoch.Fenced() {
			return codeFencedLeaderEpoch, ""
		}
		return codeUnknownLeaderEpoch, ""
	case errors.As(err, &few):
		return codeNotEnoughReplicas, few.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return codeRequestTimedOut, ""
	case errors.Is(err, io.ErrUnexpectedEOF):
		return codeCorruptMessage, err.Error()
	case errors.Is(err, fs.ErrClosed):
		// The log was deleted, or the node stops, under the request.
		return codeNotLeaderOrFollower, ""
	}
	return codeUnknownServerError, err.Error()
}

func faultCode(f record.Fault) int16 {
	switch f {
	case record.FaultCorrupt:
		return codeCorruptMessage
	case record.FaultInvalid:
		return codeInvalidRecord
	case record.FaultTooLarge:
		return codeMessageTooLarge
	case record.FaultTimestamp:
		return codeInvalidTimestamp
	}
	return codeUnknownServerError
}

func sequenceCode(f storage.SequenceFault) int16 {
	switch f {
	case storage.OutOfOrderSequence:
		return codeOutOfOrderSequence
	case storage.OldProducerEpoch:
		return codeInvalidProducerEpoch
	case storage.InvalidTxnState:
		return codeInvalidTxnState
	case storage.CoordinatorFenced:
		return codeTransactionCoordinatorFenced
	}
	return codeUnknownServerError
}
