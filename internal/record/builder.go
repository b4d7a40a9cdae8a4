package record

// A Builder makes a batch of magic 2 record by record.
type Builder struct {
	BaseOffset    Offset
	LeaderEpoch   Epoch
	Codec         Codec
	Level         int   // DefaultLevel for Kafka's
	ProducerID    int64 // -1 none; NewBuilder sets all three to -1
	ProducerEpoch int16
	BaseSequence  int32
	Attributes    int16 // bits besides the codec: AttrLogAppendTime, AttrTransactional, AttrControl, AttrDeleteHorizon
	unwritten     struct{}
}

// NewBuilder returns a builder of uncompressed batches from no producer.
func NewBuilder() *Builder { panic("unwritten") }

// Add appends a record; its Offset is ignored: deltas count from 0. AddAt keeps offset deltas (gaps), as compaction needs.
func (b *Builder) Add(r Record)                      { panic("unwritten") }
func (b *Builder) AddAt(offsetDelta int32, r Record) { panic("unwritten") }
func (b *Builder) Len() int                          { panic("unwritten") } // records so far
func (b *Builder) Size() int                         { panic("unwritten") } // bytes before compression, header included

// Batch finishes the batch, appends it to dst, and makes the builder empty again.
func (b *Builder) Batch(dst []byte) ([]byte, error) { panic("unwritten") }
