package controller

import (
	"context"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/config"
	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/storage"
)

// Options of a controller of one node that is both broker and controller.
type Options struct {
	NodeID    int32
	ClusterID string
	Log       *storage.Log // __cluster_metadata-0
	Dir       string       // its directory, for checkpoints and quorum-state
	// Bootstrap are the records of bootstrap.checkpoint, which begin an empty log; nil: those of a new 4.3 cluster.
	Bootstrap []kmeta.Record
	Static    map[string]string // of the broker: defaults for new topics
	Logger    *slog.Logger
	// Apply is called with each image before it is shown (replica.Manager.Apply).
	Apply func(*metadata.Image, *metadata.Delta) error
}

// A Controller writes the metadata log. Methods may be called from any goroutine; wishes are decided one after the other.
type Controller struct{ unwritten struct{} }

// Open replays snapshot and log, begins a new leader epoch (LEADER_CHANGE), writes bootstrap records if the log is empty, and writes quorum-state.
func Open(o Options) (*Controller, error) { panic("unwritten") }

// Image is what clients may see, now.
func (c *Controller) Image() *metadata.Image { panic("unwritten") }

// LeaderEpoch and HighWatermark of the metadata log, for DescribeQuorum.
func (c *Controller) LeaderEpoch() metadata.Epoch    { panic("unwritten") }
func (c *Controller) HighWatermark() metadata.Offset { panic("unwritten") }

// A Registration is what a broker says of itself at start.
type Registration struct {
	BrokerID            int32
	Endpoints           []metadata.Endpoint
	ControllerEndpoints []metadata.Endpoint
	Rack                *string
	Directories         []kmeta.UUID
	PreviousEpoch       int64 // of the clean mark; -1: unclean
}

// Register registers this node's controller and broker (fenced); Unfence lets it lead: elections from ISR or ELR follow, as Kafka's. It returns the broker epoch.
func (c *Controller) Register(ctx context.Context, r Registration) (brokerEpoch int64, err error) {
	panic("unwritten")
}
func (c *Controller) Unfence(ctx context.Context, brokerID int32) error { panic("unwritten") }

// ControlledShutdown takes leadership from a broker that stops cleanly (leader -1, ELR as Kafka leaves it).
func (c *Controller) ControlledShutdown(ctx context.Context, brokerID int32) error {
	panic("unwritten")
}

// A Caller is who wishes: for messages and policies.
type Caller struct{ ClientID, Host string }

// Each of these answers the request as Kafka 4.3's controller does, codes and messages included. Layers-dependent checks use Static and the image.
func (c *Controller) CreateTopics(ctx context.Context, r *kmsg.CreateTopicsRequest) *kmsg.CreateTopicsResponse {
	panic("unwritten")
}
func (c *Controller) DeleteTopics(ctx context.Context, r *kmsg.DeleteTopicsRequest) *kmsg.DeleteTopicsResponse {
	panic("unwritten")
}
func (c *Controller) CreatePartitions(ctx context.Context, r *kmsg.CreatePartitionsRequest) *kmsg.CreatePartitionsResponse {
	panic("unwritten")
}
func (c *Controller) AlterConfigs(ctx context.Context, r *kmsg.AlterConfigsRequest) *kmsg.AlterConfigsResponse {
	panic("unwritten")
}
func (c *Controller) IncrementalAlterConfigs(ctx context.Context, r *kmsg.IncrementalAlterConfigsRequest) *kmsg.IncrementalAlterConfigsResponse {
	panic("unwritten")
}

// AllocateProducerIDs reserves a block of 1000 ids for a broker: durable when it returns.
func (c *Controller) AllocateProducerIDs(ctx context.Context, brokerID int32, brokerEpoch int64) (first int64, n int32, err error) {
	panic("unwritten")
}

// Layers are the values that apply to a broker under img.
func (c *Controller) Layers(img *metadata.Image, brokerID int32) config.Layers { panic("unwritten") }

// Close stops the background work (no-op records, snapshots). It does not close the log.
func (c *Controller) Close() error { panic("unwritten") }
