package record

// Rules are what a log demands of the batches that clients produce (facts: log-behaviour.md §1, rows 13-23).
type Rules struct {
	Now                  int64 // ms
	LogAppendTime        bool
	TimestampBeforeMaxMs int64
	TimestampAfterMaxMs  int64
	Compacted            bool  // records need keys
	Codec                Codec // what the log stores, when Recompress
	Recompress           bool  // compression.type is not "producer"
	Level                int
	MaxBytes             int // max.message.bytes, of the batch as received and after recompression
	InflateMax           int // bound on the inflated payload
}

// A Verdict is what became of a batch that was accepted.
type Verdict struct {
	// Batch is the batch to store: the one given, patched in place, or a new one when a rule demanded to encode it anew.
	Batch        Batch
	MaxTimestamp int64 // ms, of its records
	// OffsetOfMax is the delta of the first record that has MaxTimestamp (with append time: 0).
	OffsetOfMax int32
	Rewritten   bool
}

// Validate checks one batch from a client by the rules, assigns times, and re-encodes only when it must. What it returns may alias b or buf.
// buf is scratch for a batch that must be encoded anew. The error is an *InvalidError.
func Validate(b Batch, rules Rules, buf []byte) (Verdict, error) { panic("unwritten") }

// A Fault is why a batch is refused; server gives each a Kafka error code.
type Fault int

const (
	FaultCorrupt          Fault = iota + 1 // CORRUPT_MESSAGE
	FaultInvalid                           // INVALID_RECORD
	FaultTooLarge                          // MESSAGE_TOO_LARGE
	FaultTimestamp                         // INVALID_TIMESTAMP
	FaultUnsupportedCodec                  // UNKNOWN_SERVER_ERROR, as Kafka says it
)

// An InvalidError says why a batch was refused, and which of its records were at fault.
type InvalidError struct {
	Fault   Fault
	Message string // Kafka's, where it has one
	Records []RecordError
}

// A RecordError names one record of a refused batch.
type RecordError struct {
	Index   int // within the batch
	Message string
}

func (e *InvalidError) Error() string { return e.Message }
