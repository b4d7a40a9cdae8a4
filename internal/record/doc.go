// Package record knows the bytes of Kafka's record batches (magic 2) and of the message sets before them
// (magic 0 and 1, read only): it views, walks, validates, builds and compresses them.
//
//	I1  a Batch is a view: nothing is copied to look at one, and only the Set methods and Validate change it
//	I2  no input makes a function here panic, loop for ever, or allocate by a length that it claims: what is inflated whole
//	    is bounded by the caller, what is inflated as a stream by its codec's window (codec.go says how much that is)
//	I3  what Validate accepts, Kafka 4.3.1 reads
//	I4  once its buffers are warm, looking at a batch allocates nothing, however many records it has
//	I5  no goroutine is started here
//
// Files, offsets of a log and producers' sequences are not known here.
package record

// An Offset numbers a record within its partition.
type Offset int64

// An Epoch numbers a leader's reign. -1 is none.
type Epoch int32
