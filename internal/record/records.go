package record

// A Record is one record of a batch, as views of the batch's (inflated) bytes.
type Record struct {
	Offset    Offset
	Timestamp int64  // ms; -1 none
	Key       []byte // nil: null
	Value     []byte // nil: null
	Headers   []Header
}

// A Header is a name and a value of a record.
type Header struct {
	Key   string
	Value []byte // nil: null
}

// A Reader walks the records of one batch, inflating at most its bound.
//
//	for r.Next() { use(r.Record()) }
//	if err := r.Err(); …
type Reader struct{ unwritten struct{} }

// Reset begins on b, which may inflate to limit bytes. Buffers of the batch before are used again, so its Records are gone.
func (r *Reader) Reset(b Batch, limit int) error { panic("unwritten") }
func (r *Reader) Next() bool                     { panic("unwritten") }
func (r *Reader) Record() *Record                { panic("unwritten") } // valid until Next
func (r *Reader) Err() error                     { panic("unwritten") } // *FormatError, *TooLargeError
