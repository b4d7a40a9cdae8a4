// Package record knows the bytes of Kafka's record batches (magic 2) and of the message sets before them
// (magic 0 and 1, read only): it views, walks, validates, builds and compresses them.
//
//	I1  a Batch is a view: nothing is copied to look at one, and only the Set methods change it
//	I2  no input makes a function here panic, loop for ever, or allocate more than the bound it was given
//	I3  what Validate accepts, Kafka 4.3.1 reads
//
// Files, offsets of a log and producers' sequences are not known here.
package record

// An Offset numbers a record within its partition.
type Offset int64

// An Epoch numbers a leader's reign. -1 is none.
type Epoch int32
