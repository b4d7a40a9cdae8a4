package metadata

import (
	"cmp"
	"encoding/binary"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/tidwall/btree"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/record"
)

type (
	Offset = record.Offset
	Epoch  = record.Epoch
	UUID   = kmeta.UUID
)

// An Image is the cluster as of one offset of the metadata log. Any number of goroutines may read it.
type Image struct {
	offset Offset
	epoch  Epoch

	topicsByName *btree.Map[string, *Topic]
	topicsByID   *btree.Map[string, *Topic] // by the id's bytes
	partitions   int                        // of all topics

	brokers     *btree.Map[int32, *Broker]
	controllers *btree.Map[int32, *Controller]

	features        map[string]int16 // replaced as a whole
	metadataVersion int16

	configs *btree.Map[string, *resourceConfigs] // by configKey
	quotas  *btree.Map[string, *Quota]           // by entityKey
	acls    *btree.Map[string, *ACL]             // by the id's bytes
	scram   *btree.Map[string, *ScramCredential] // by scramKey
	tokens  *btree.Map[string, *DelegationToken] // by token id

	nextProducerID int64
}

// Trees of 32 items a node: a change copies two or three of them at ten thousand topics.
const treeDegree = 16

func newTree[K cmp.Ordered, V any]() *btree.Map[K, V] { return btree.NewMap[K, V](treeDegree) }

// copying is held while a tree is copied, which marks both copies: two Replayers may begin at one image.
// Readers do not look at the mark.
var copying sync.Mutex

func copyTree[K cmp.Ordered, V any](t *btree.Map[K, V]) *btree.Map[K, V] {
	copying.Lock()
	defer copying.Unlock()
	return t.Copy()
}

// Empty is the image before any record.
func Empty() *Image {
	return &Image{
		offset:       -1,
		epoch:        -1,
		topicsByName: newTree[string, *Topic](),
		topicsByID:   newTree[string, *Topic](),
		brokers:      newTree[int32, *Broker](),
		controllers:  newTree[int32, *Controller](),
		configs:      newTree[string, *resourceConfigs](),
		quotas:       newTree[string, *Quota](),
		acls:         newTree[string, *ACL](),
		scram:        newTree[string, *ScramCredential](),
		tokens:       newTree[string, *DelegationToken](),
	}
}

// Offset is the last offset replayed, -1 if none; Epoch the leader epoch it was written in. Features' epoch in ApiVersions is Offset.
func (i *Image) Offset() Offset { return i.offset }
func (i *Image) Epoch() Epoch   { return i.epoch }

// Topic, TopicByID and Topics find topics (nil: unknown); Topics goes by name.
func (i *Image) Topic(name string) *Topic {
	t, _ := i.topicsByName.Get(name)
	return t
}

func (i *Image) TopicByID(id UUID) *Topic {
	t, _ := i.topicsByID.Get(string(id[:]))
	return t
}

func (i *Image) Topics() iter.Seq[*Topic] { return values(i.topicsByName) }
func (i *Image) TopicCount() int          { return i.topicsByName.Len() }
func (i *Image) PartitionCount() int      { return i.partitions }

// values goes over a tree in the order of its keys.
func values[K cmp.Ordered, V any](t *btree.Map[K, V]) iter.Seq[V] {
	return func(yield func(V) bool) {
		t.Scan(func(_ K, v V) bool { return yield(v) })
	}
}

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
	Directories         []UUID // one for each of Replicas; zero where a record before 3.7-IV2 said nothing
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
	CordonedDirectories  []UUID // nil: never said
}

// An Endpoint is an address under a listener's name.
type Endpoint struct {
	Listener string
	Host     string
	Port     uint16
	Protocol int16 // 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL
}

// ProtocolSASLPlaintext is the security protocol SASL_PLAINTEXT as records and requests number it.
const ProtocolSASLPlaintext int16 = 2

// A FeatureRange is what a node supports.
type FeatureRange struct {
	Name     string
	Min, Max int16
}

// A Controller is a controller's registration.
type Controller struct {
	ID               int32
	IncarnationID    UUID
	ZKMigrationReady bool // of no meaning since 4.0
	Endpoints        []Endpoint
	Features         []FeatureRange
}

// Broker returns a registration or nil; Brokers go by id. Controllers likewise.
func (i *Image) Broker(id int32) *Broker {
	b, _ := i.brokers.Get(id)
	return b
}

func (i *Image) Brokers() iter.Seq[*Broker] { return values(i.brokers) }

func (i *Image) Controller(id int32) *Controller {
	c, _ := i.controllers.Get(id)
	return c
}

func (i *Image) Controllers() iter.Seq[*Controller] { return values(i.controllers) }

// Features are the finalized levels by name (a level of 0 is not there); MetadataVersion is that of metadata.version.
func (i *Image) Features() map[string]int16 { return maps.Clone(i.features) }
func (i *Image) MetadataVersion() int16     { return i.metadataVersion }

// Feature is the finalized level of one feature, 0 if it has none.
func (i *Image) Feature(name string) int16 { return i.features[name] }

// Resource types of configs, as on the wire.
const (
	TopicResource         int8 = 2
	BrokerResource        int8 = 4
	ClientMetricsResource int8 = 16
	GroupResource         int8 = 32
)

// resourceConfigs are the dynamic values of one resource; it has at least one.
type resourceConfigs struct {
	ConfigResource
	values map[string]string // replaced as a whole
}

// configKey sorts by type, then name.
func configKey(resourceType int8, name string) string {
	return string(rune(uint8(resourceType))) + name
}

// Config returns one dynamic value; Configs all of a resource, by key. A broker's name is its id in digits, "" the cluster default.
func (i *Image) Config(resourceType int8, name, key string) (string, bool) {
	if r, ok := i.configs.Get(configKey(resourceType, name)); ok {
		v, ok := r.values[key]
		return v, ok
	}
	return "", false
}

func (i *Image) Configs(resourceType int8, name string) map[string]string {
	if r, ok := i.configs.Get(configKey(resourceType, name)); ok {
		return maps.Clone(r.values)
	}
	return nil
}

// ConfigResources are the names of a type's resources that have dynamic values, in order.
func (i *Image) ConfigResources(resourceType int8) (names []string) {
	i.configs.Ascend(configKey(resourceType, ""), func(_ string, r *resourceConfigs) bool {
		if r.Type == resourceType {
			names = append(names, r.Name)
		}
		return r.Type == resourceType
	})
	return names
}

// A Quota is what was set for one entity.
type Quota struct {
	Entity []QuotaEntity      // by type
	Values map[string]float64 // by key, such as producer_byte_rate; read only
}

// A QuotaEntity is one part of whom a quota is for.
type QuotaEntity struct {
	Type string  // user, client-id, ip
	Name *string // nil: the default
}

// entityKey is the same for the same entity, whatever the order of its parts, which are sorted by type.
func entityKey(entity []QuotaEntity) string {
	var key []byte
	for _, e := range entity {
		key = append(binary.AppendUvarint(key, uint64(len(e.Type))), e.Type...)
		if e.Name == nil {
			key = append(key, 0)
			continue
		}
		key = append(binary.AppendUvarint(key, uint64(len(*e.Name)+1)), *e.Name...)
	}
	return string(key)
}

func compareEntities(a, b QuotaEntity) int { return cmp.Compare(a.Type, b.Type) }

// Quotas go over all entities with quotas. Quota finds one, nil if it has none.
func (i *Image) Quotas() iter.Seq[*Quota] { return values(i.quotas) }

func (i *Image) Quota(entity []QuotaEntity) *Quota {
	q, _ := i.quotas.Get(entityKey(slices.SortedFunc(slices.Values(entity), compareEntities)))
	return q
}

// Access control entries, SCRAM credentials and delegation tokens are kept as the records that said them.
type (
	ACL             = kmeta.AccessControlEntryRecord
	ScramCredential = kmeta.UserScramCredentialRecord
	DelegationToken = kmeta.DelegationTokenRecord
)

// ACL returns an entry by id or nil; ACLs go by id.
func (i *Image) ACL(id UUID) *ACL {
	a, _ := i.acls.Get(string(id[:]))
	return a
}

func (i *Image) ACLs() iter.Seq[*ACL] { return values(i.acls) }

// scramKey sorts by user, then mechanism.
func scramKey(user string, mechanism int8) string {
	return user + "\x00" + string(rune(uint8(mechanism)))
}

// ScramCredential returns a user's credential for a mechanism (1 SCRAM-SHA-256, 2 SCRAM-SHA-512) or nil; ScramCredentials go by user.
func (i *Image) ScramCredential(user string, mechanism int8) *ScramCredential {
	c, _ := i.scram.Get(scramKey(user, mechanism))
	return c
}

func (i *Image) ScramCredentials() iter.Seq[*ScramCredential] { return values(i.scram) }

// DelegationToken returns a token by its id or nil; DelegationTokens go by id.
func (i *Image) DelegationToken(id string) *DelegationToken {
	t, _ := i.tokens.Get(id)
	return t
}

func (i *Image) DelegationTokens() iter.Seq[*DelegationToken] { return values(i.tokens) }

// NextProducerID is the first producer id that no block holds.
func (i *Image) NextProducerID() int64 { return i.nextProducerID }
