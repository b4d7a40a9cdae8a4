package metadata

import (
	"iter"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/record"
)

type (
	Offset = record.Offset
	Epoch  = record.Epoch
	UUID   = kmeta.UUID
)

// An Image is the cluster as of one offset of the metadata log.
type Image struct{ unwritten struct{} }

// Empty is the image before any record.
func Empty() *Image { panic("unwritten") }

// Offset is the last offset replayed, -1 if none; Epoch the leader epoch it was written in. Features' epoch in ApiVersions is Offset.
func (i *Image) Offset() Offset { panic("unwritten") }
func (i *Image) Epoch() Epoch   { panic("unwritten") }

// Topic, TopicByID and Topics find topics (nil: unknown); Topics goes by name.
func (i *Image) Topic(name string) *Topic { panic("unwritten") }
func (i *Image) TopicByID(id UUID) *Topic { panic("unwritten") }
func (i *Image) Topics() iter.Seq[*Topic] { panic("unwritten") }
func (i *Image) TopicCount() int          { panic("unwritten") }
func (i *Image) PartitionCount() int      { panic("unwritten") }

// A Topic is immutable, its partitions too. Partitions[n] is partition n.
type Topic struct {
	Name       string
	ID         UUID
	Partitions []*Partition
}

// A Partition is what the controller says of one.
type Partition struct {
	Leader              int32 // -1 none
	LeaderEpoch         Epoch
	PartitionEpoch      int32
	LeaderRecoveryState int8 // 1: recovering from an unclean election
	Replicas, ISR       []int32
	Adding, Removing    []int32
	ELR, LastKnownELR   []int32
	Directories         []UUID
}

// A Broker is a registration.
type Broker struct {
	ID                   int32
	Epoch                int64
	IncarnationID        UUID
	Endpoints            []Endpoint
	Rack                 *string
	Fenced               bool
	InControlledShutdown bool
	Features             []FeatureRange
	Directories          []UUID
	CordonedDirectories  []UUID
}

// An Endpoint is an address under a listener's name.
type Endpoint struct {
	Listener string
	Host     string
	Port     uint16
	Protocol int16 // 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL
}

// A FeatureRange is what a node supports.
type FeatureRange struct {
	Name     string
	Min, Max int16
}

// Broker returns a registration or nil; Brokers go by id. Controllers likewise.
func (i *Image) Broker(id int32) *Broker    { panic("unwritten") }
func (i *Image) Brokers() iter.Seq[*Broker] { panic("unwritten") }

// Features are the finalized levels by name (a level of 0 is not there); MetadataVersion is that of metadata.version.
func (i *Image) Features() map[string]int16 { panic("unwritten") }
func (i *Image) MetadataVersion() int16     { panic("unwritten") }

// Resource types of configs, as on the wire.
const (
	TopicResource         int8 = 2
	BrokerResource        int8 = 4
	ClientMetricsResource int8 = 16
	GroupResource         int8 = 32
)

// Config returns one dynamic value; Configs all of a resource, by key. A broker's name is its id in digits, "" the cluster default.
func (i *Image) Config(resourceType int8, name, key string) (string, bool) { panic("unwritten") }
func (i *Image) Configs(resourceType int8, name string) map[string]string  { panic("unwritten") }
func (i *Image) ConfigResources(resourceType int8) []string                { panic("unwritten") }

// NextProducerID is the first producer id that no block holds.
func (i *Image) NextProducerID() int64 { panic("unwritten") }

// Records writes the image as the records of a snapshot, in Kafka's order.
func (i *Image) Records() []kmeta.Record { panic("unwritten") }
