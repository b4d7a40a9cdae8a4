package record

// An Entry is one whole entry of a log, of any magic: a Batch, or a message of a set of magic 0 or 1
// (which may be a wrapper around compressed messages). Like Batch it is a view.
//
//	magic 0, 1:  offset 8 | size 4 | crc 4 | magic 1 | attributes 1 | [timestamp 8, magic 1] | key 4+n | value 4+n
type Entry []byte

// FirstEntry returns the entry that src begins with; errors as FirstBatch.
func FirstEntry(src []byte) (Entry, error) { panic("unwritten") }

func (e Entry) Magic() int8 { return int8(e[magicOffset]) }

// Batch is e as a batch; only for magic 2.
func (e Entry) Batch() Batch { return Batch(e) }

// LastOffset is that of its last record (a wrapper's own offset is its last message's).
func (e Entry) LastOffset() Offset { panic("unwritten") }

// BaseOffset is that of its first record; for a wrapper of magic 0 or 1, whose first offset only inflating tells, its last.
func (e Entry) BaseOffset() Offset { panic("unwritten") }

// MaxTimestamp is the largest time in ms; -1 for magic 0.
func (e Entry) MaxTimestamp() int64 { panic("unwritten") }

// LeaderEpoch is -1 for magic 0 and 1.
func (e Entry) LeaderEpoch() Epoch { panic("unwritten") }

// Check verifies checksum and structure without inflating: nil or a *FormatError.
func (e Entry) Check() error { panic("unwritten") }

// ResetEntry is Reset for an entry of any magic.
func (r *Reader) ResetEntry(e Entry, limit int) error { panic("unwritten") }
