package txn

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
)

// The codes that transactions answer with.
var (
	codeInvalidRequest   = kerr.InvalidRequest.Code
	codeInvalidTxnState  = kerr.InvalidTxnState.Code
	codeInvalidMapping   = kerr.InvalidProducerIDMapping.Code
	codeInvalidTimeout   = kerr.InvalidTransactionTimeout.Code
	codeConcurrent       = kerr.ConcurrentTransactions.Code
	codeProducerFenced   = kerr.ProducerFenced.Code
	codeIDNotFound       = kerr.TransactionalIDNotFound.Code
	codeTxnAbortable     = kerr.TransactionAbortable.Code
	codeInvalidPattern   = kerr.InvalidRegularExpression.Code
	codeUnknownServerErr = kerr.UnknownServerError.Code
)

// codeOf is the code for what went wrong with an append.
func codeOf(err error) int16 {
	if err == nil {
		return 0
	}
	var k *kerr.Error
	if errors.As(err, &k) {
		return k.Code
	}
	return codeUnknownServerErr
}
