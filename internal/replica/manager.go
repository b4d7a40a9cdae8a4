package replica

import (
	"log/slog"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/storage"
)

type (
	Offset         = storage.Offset
	Epoch          = storage.Epoch
	TopicPartition = storage.TopicPartition
)

// A Manager has this node's partitions.
type Manager struct{ unwritten struct{} }

// Options of a manager. ConfigFor gives the settings of a topic under an image.
type Options struct {
	NodeID    int32
	Logs      *storage.Manager
	ConfigFor func(img *metadata.Image, topic string) storage.Config
	MinISR    func(img *metadata.Image, topic string) int
	Log       *slog.Logger
}

func NewManager(o Options) *Manager { panic("unwritten") }

// Apply makes the node's partitions what the image says: creates logs, takes leadership (AssignEpoch), resigns, deletes, hands on configs.
// Called in the order of the images, never twice at once, before the image is shown to anyone (I5). A partition whose log cannot be opened is kept as offline.
func (m *Manager) Apply(img *metadata.Image, d *metadata.Delta) error { panic("unwritten") }

// Partition finds one, by name or topic id; nil: this node has no replica of it.
func (m *Manager) Partition(topic string, partition int32) *Partition      { panic("unwritten") }
func (m *Manager) PartitionByID(id kmeta.UUID, partition int32) *Partition { panic("unwritten") }
func (m *Manager) Partitions() []*Partition                                { panic("unwritten") }

// HighWatermark is for storage.ManagerOptions.
func (m *Manager) HighWatermark(tp TopicPartition) (Offset, bool) { panic("unwritten") }

// Close wakes everybody who waits.
func (m *Manager) Close() { panic("unwritten") }

// A Partition is one replica on this node.
type Partition struct{ unwritten struct{} }

func (p *Partition) TopicPartition() TopicPartition { panic("unwritten") }
func (p *Partition) TopicID() kmeta.UUID            { panic("unwritten") }
func (p *Partition) Log() *storage.Log              { panic("unwritten") }

// Leader is who leads, and since which epoch; leader == node id: this one.
func (p *Partition) Leader() (leader int32, epoch Epoch) { panic("unwritten") }

// CheckLeader is nil if this node leads and epoch (−1: not given) is the current one: else *NotLeaderError or *EpochError, or *OfflineError.
func (p *Partition) CheckLeader(epoch Epoch) error { panic("unwritten") }

// Append appends for a client or coordinator and moves the high watermark. acks is the request's: -1 demands min.insync.replicas in sync beforehand (*NotEnoughReplicasError).
func (p *Partition) Append(b record.Batch, acks int16, o storage.AppendOptions) (storage.Appended, error) {
	panic("unwritten")
}

// HighWatermark, LastStableOffset: what consumers may see.
func (p *Partition) HighWatermark() Offset    { panic("unwritten") }
func (p *Partition) LastStableOffset() Offset { panic("unwritten") }

// DeleteRecords raises the log start (offset -1: to the high watermark): *storage.OutOfRangeError above it.
func (p *Partition) DeleteRecords(offset Offset) (lowWatermark Offset, err error) { panic("unwritten") }

// A Waiter is woken by partitions that it watches: a long poll, an acks=all. Make one with NewWaiter, Watch partitions, look, wait on C, look again, Stop.
type Waiter struct {
	C chan struct{} // of capacity 1
}

func NewWaiter() *Waiter { panic("unwritten") }

// Watch has w woken whenever p's high watermark, last stable offset, log start, leadership or existence changes. A waiter may watch many.
func (p *Partition) Watch(w *Waiter) { panic("unwritten") }

// Stop ends all watching.
func (w *Waiter) Stop() { panic("unwritten") }

// A NotLeaderError means that another node leads, or none (Leader -1).
type NotLeaderError struct {
	Partition TopicPartition
	Leader    int32
	Epoch     Epoch
}

func (e *NotLeaderError) Error() string { panic("unwritten") }

// An EpochError means that the epoch given is older (Fenced) or newer than the current one.
type EpochError struct {
	Partition      TopicPartition
	Given, Current Epoch
}

func (e *EpochError) Fenced() bool  { return e.Given < e.Current }
func (e *EpochError) Error() string { panic("unwritten") }

// An OfflineError means that the partition's log could not be opened or has failed.
type OfflineError struct {
	Partition TopicPartition
	Err       error
}

func (e *OfflineError) Error() string { panic("unwritten") }
func (e *OfflineError) Unwrap() error { return e.Err }

// A NotEnoughReplicasError refuses acks=all.
type NotEnoughReplicasError struct {
	Partition   TopicPartition
	InSync, Min int
}

func (e *NotEnoughReplicasError) Error() string { panic("unwritten") }
