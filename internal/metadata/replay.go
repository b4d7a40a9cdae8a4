package metadata

import "github.com/quire-log/quire/internal/kmeta"

// A Replayer turns records into images. It carries what an open metadata transaction has gathered.
type Replayer struct{ unwritten struct{} }

// NewReplayer begins at img.
func NewReplayer(img *Image) *Replayer { panic("unwritten") }

// Replay applies the records of one batch, the last of which is at offset last, and returns the next image and what changed.
// The image is unchanged while a metadata transaction is open. The error says which record cannot be applied.
func (r *Replayer) Replay(recs []kmeta.Record, last Offset, epoch Epoch) (*Image, *Delta, error) {
	panic("unwritten")
}

// A Delta says what changed from one image to the next.
type Delta struct {
	Before, After *Image
	// Topics are those created, deleted (by the id in Before), or with partitions that changed or came.
	Created, Deleted []*Topic
	Changed          []PartitionChange
	// Configs are the resources with changed dynamic values.
	Configs  []ConfigResource
	Brokers  []int32
	Features bool
}

// A PartitionChange names a partition that came or changed in a topic that lives on.
type PartitionChange struct {
	Topic     *Topic
	Partition int32
}

// A ConfigResource names what a config belongs to.
type ConfigResource struct {
	Type int8
	Name string
}
