package metadata

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/tidwall/btree"

	"github.com/quire-log/quire/internal/kmeta"
)

// maxPartitions bounds what one topic's records may make: more than Kafka has ever run in a whole cluster.
const maxPartitions = 1 << 20

// A draft is an image in the making. It begins as a copy of one, and copies a tree, a topic or a map of that image before it
// changes it for the first time: what is its own then, it changes in place.
type draft struct {
	img    Image
	owned  tree            // trees that are this draft's own
	topics map[UUID]*Topic // topics that are, with their lists of partitions
	values map[string]bool // keys of configs whose map is
	quotas map[string]bool // keys of quotas whose map is
	levels bool            // the map of features is
	holes  map[UUID]*Topic // topics with partitions that came before one of a lower number
	changes
}

// A tree is a set of an image's trees.
type tree uint

const (
	topicTrees tree = 1 << iota
	brokerTree
	controllerTree
	configTree
	quotaTree
	aclTree
	scramTree
	tokenTree
)

func newDraft(img *Image) *draft { return &draft{img: *img} }

// own returns a tree that the draft may change.
func own[K cmp.Ordered, V any](d *draft, which tree, t **btree.Map[K, V]) *btree.Map[K, V] {
	if d.owned&which == 0 {
		*t = copyTree(*t)
		d.owned |= which
	}
	return *t
}

// apply changes the draft as a record says.
func (d *draft) apply(rec kmeta.Record) error {
	switch r := rec.(type) {
	case *kmeta.TopicRecord:
		return d.createTopic(r)
	case *kmeta.PartitionRecord:
		return d.setPartition(r)
	case *kmeta.PartitionChangeRecord:
		return d.changePartition(r)
	case *kmeta.RemoveTopicRecord:
		return d.removeTopic(r)
	case *kmeta.ClearELRRecord:
		return d.clearELR(r)
	case *kmeta.RegisterBrokerRecord:
		d.registerBroker(r)
	case *kmeta.UnregisterBrokerRecord:
		return d.unregisterBroker(r)
	case *kmeta.FenceBrokerRecord:
		return d.changeBroker(r.ID, r.Epoch, func(b *Broker) { b.Fenced = true })
	case *kmeta.UnfenceBrokerRecord:
		return d.changeBroker(r.ID, r.Epoch, func(b *Broker) { b.Fenced = false })
	case *kmeta.BrokerRegistrationChangeRecord:
		return d.changeRegistration(r)
	case *kmeta.RegisterControllerRecord:
		d.registerController(r)
	case *kmeta.FeatureLevelRecord:
		d.setFeature(r)
	case *kmeta.ConfigRecord:
		d.setConfig(r)
	case *kmeta.ClientQuotaRecord:
		d.setQuota(r)
	case *kmeta.ProducerIDsRecord:
		d.img.nextProducerID = r.NextProducerID
	case *kmeta.AccessControlEntryRecord:
		d.changes.acls = true
		own(d, aclTree, &d.img.acls).Set(string(r.ID[:]), r)
	case *kmeta.RemoveAccessControlEntryRecord:
		d.changes.acls = true
		if _, ok := own(d, aclTree, &d.img.acls).Delete(string(r.ID[:])); !ok {
			return fmt.Errorf("no access control entry %v", r.ID)
		}
	case *kmeta.UserScramCredentialRecord:
		d.changes.scram = true
		own(d, scramTree, &d.img.scram).Set(scramKey(r.Name, r.Mechanism), r)
	case *kmeta.RemoveUserScramCredentialRecord:
		d.changes.scram = true
		own(d, scramTree, &d.img.scram).Delete(scramKey(r.Name, r.Mechanism))
	case *kmeta.DelegationTokenRecord:
		d.changes.tokens = true
		own(d, tokenTree, &d.img.tokens).Set(r.TokenID, r)
	case *kmeta.RemoveDelegationTokenRecord:
		d.changes.tokens = true
		own(d, tokenTree, &d.img.tokens).Delete(r.TokenID)
	case *kmeta.NoOpRecord, *kmeta.ZKMigrationStateRecord:
		// The one says nothing, the other nothing of meaning since 4.0.
	default:
		return fmt.Errorf("record type %d is not known", rec.Type())
	}
	return nil
}

// check makes sure that what the draft has gathered is whole.
func (d *draft) check() error {
	for _, t := range d.holes {
		if n := slices.Index(t.Partitions, nil); n >= 0 {
			return fmt.Errorf("topic %s has %d partitions, but no partition %d", t.Name, len(t.Partitions), n)
		}
	}
	return nil
}

func (d *draft) createTopic(r *kmeta.TopicRecord) error {
	if t := d.img.Topic(r.Name); t != nil {
		return fmt.Errorf("topic %s exists already, with id %v", t.Name, t.ID)
	}
	if t := d.img.TopicByID(r.TopicID); t != nil {
		return fmt.Errorf("topic id %v of %s is that of %s", r.TopicID, r.Name, t.Name)
	}
	d.setTopic(&Topic{Name: r.Name, ID: r.TopicID})
	return nil
}

// setTopic puts a topic of the draft's own into the trees.
func (d *draft) setTopic(t *Topic) {
	if d.owned&topicTrees == 0 {
		d.img.topicsByName, d.img.topicsByID = copyTree(d.img.topicsByName), copyTree(d.img.topicsByID)
		d.owned |= topicTrees
	}
	d.img.topicsByName.Set(t.Name, t)
	d.img.topicsByID.Set(string(t.ID[:]), t)
	if d.topics == nil {
		d.topics = map[UUID]*Topic{}
	}
	d.topics[t.ID] = t
	mark(&d.changes.topics, t.ID)
}

// topic returns a topic that the draft may change, with its list of partitions.
func (d *draft) topic(id UUID) (*Topic, error) {
	if t := d.topics[id]; t != nil {
		return t, nil
	}
	t := d.img.TopicByID(id)
	if t == nil {
		return nil, fmt.Errorf("no topic with id %v", id)
	}
	t = &Topic{Name: t.Name, ID: t.ID, Partitions: slices.Clone(t.Partitions)}
	d.setTopic(t)
	return t, nil
}

func (d *draft) setPartition(r *kmeta.PartitionRecord) error {
	if r.PartitionID < 0 || r.PartitionID >= maxPartitions {
		return fmt.Errorf("partition %d of topic id %v: a topic has at most %d", r.PartitionID, r.TopicID, maxPartitions)
	}
	if len(r.Directories) > 0 && len(r.Directories) != len(r.Replicas) {
		return fmt.Errorf("partition %d of topic id %v: %d directories for %d replicas", r.PartitionID, r.TopicID, len(r.Directories), len(r.Replicas))
	}
	t, err := d.topic(r.TopicID)
	if err != nil {
		return err
	}
	n := int(r.PartitionID)
	if n > len(t.Partitions) {
		if d.holes == nil {
			d.holes = map[UUID]*Topic{}
		}
		d.holes[t.ID] = t
	}
	if n >= len(t.Partitions) {
		t.Partitions = append(t.Partitions, make([]*Partition, n+1-len(t.Partitions))...)
	}
	if t.Partitions[n] == nil {
		d.img.partitions++
	}
	t.Partitions[n] = &Partition{
		Leader: r.Leader, LeaderEpoch: Epoch(r.LeaderEpoch), PartitionEpoch: r.PartitionEpoch,
		LeaderRecoveryState: r.LeaderRecoveryState, Replicas: r.Replicas, ISR: r.ISR,
		Adding: r.AddingReplicas, Removing: r.RemovingReplicas,
		ELR: nilIfEmpty(r.EligibleLeaderReplicas), LastKnownELR: nilIfEmpty(r.LastKnownELR),
		Directories: directories(r.Replicas, r.Directories, nil),
	}
	return nil
}

// directories are those of replicas: as said, else as they were in the partition before, else zero.
func directories(replicas []int32, said []UUID, before *Partition) []UUID {
	if len(said) == len(replicas) {
		return said
	}
	out := make([]UUID, len(replicas))
	if before != nil {
		for i, r := range replicas {
			if n := slices.Index(before.Replicas, r); n >= 0 {
				out[i] = before.Directories[n]
			}
		}
	}
	return out
}

// Values of a PartitionChangeRecord that leave things as they were.
const (
	leaderUnchanged        = -2
	recoveryStateUnchanged = -1
)

func (d *draft) changePartition(r *kmeta.PartitionChangeRecord) error {
	t, err := d.topic(r.TopicID)
	if err != nil {
		return err
	}
	if r.PartitionID < 0 || int(r.PartitionID) >= len(t.Partitions) || t.Partitions[r.PartitionID] == nil {
		return fmt.Errorf("topic %s has no partition %d", t.Name, r.PartitionID)
	}
	before := t.Partitions[r.PartitionID]
	p := *before
	if r.Replicas != nil {
		p.Replicas = r.Replicas
	}
	if len(r.Directories) > 0 && len(r.Directories) != len(p.Replicas) {
		return fmt.Errorf("%s-%d: %d directories for %d replicas", t.Name, r.PartitionID, len(r.Directories), len(p.Replicas))
	}
	p.Directories = directories(p.Replicas, r.Directories, before)
	for _, list := range []struct {
		now  *[]int32
		said []int32
	}{
		{&p.ISR, r.ISR},
		{&p.Adding, r.AddingReplicas},
		{&p.Removing, r.RemovingReplicas},
		{&p.ELR, r.EligibleLeaderReplicas},
		{&p.LastKnownELR, r.LastKnownELR},
	} {
		if list.said != nil {
			*list.now = nilIfEmpty(list.said)
		}
	}
	if r.Leader != leaderUnchanged {
		p.Leader = r.Leader
		p.LeaderEpoch++
	}
	if r.LeaderRecoveryState != recoveryStateUnchanged {
		p.LeaderRecoveryState = r.LeaderRecoveryState
	}
	p.PartitionEpoch++
	t.Partitions[r.PartitionID] = &p
	return nil
}

func (d *draft) removeTopic(r *kmeta.RemoveTopicRecord) error {
	t := d.img.TopicByID(r.TopicID)
	if t == nil {
		return fmt.Errorf("no topic with id %v", r.TopicID)
	}
	for _, p := range t.Partitions {
		if p != nil {
			d.img.partitions--
		}
	}
	d.setTopic(t) // for the trees to be the draft's own
	d.img.topicsByName.Delete(t.Name)
	d.img.topicsByID.Delete(string(t.ID[:]))
	delete(d.topics, t.ID)
	delete(d.holes, t.ID)
	if key := configKey(TopicResource, t.Name); d.hasConfigs(key) {
		mark(&d.changes.configs, ConfigResource{TopicResource, t.Name})
		own(d, configTree, &d.img.configs).Delete(key)
		delete(d.values, key)
	}
	return nil
}

// clearELR forgets eligible leader replicas. Like any change it raises the epoch of a partition that had some.
func (d *draft) clearELR(r *kmeta.ClearELRRecord) error {
	if r.TopicName != "" {
		t := d.img.Topic(r.TopicName)
		if t == nil {
			return fmt.Errorf("no topic %s", r.TopicName)
		}
		return d.clearTopicELR(t)
	}
	for _, t := range d.img.topicsByName.Values() {
		if err := d.clearTopicELR(t); err != nil {
			return err
		}
	}
	return nil
}

func (d *draft) clearTopicELR(t *Topic) error {
	for n, p := range t.Partitions {
		if p == nil || len(p.ELR) == 0 && len(p.LastKnownELR) == 0 {
			continue
		}
		t, err := d.topic(t.ID)
		if err != nil {
			return err
		}
		cleared := *p
		cleared.ELR, cleared.LastKnownELR = nil, nil
		cleared.PartitionEpoch++
		t.Partitions[n] = &cleared
	}
	return nil
}

func (d *draft) registerBroker(r *kmeta.RegisterBrokerRecord) {
	mark(&d.changes.brokers, r.BrokerID)
	own(d, brokerTree, &d.img.brokers).Set(r.BrokerID, &Broker{
		ID: r.BrokerID, Epoch: r.BrokerEpoch, IncarnationID: r.IncarnationID,
		Endpoints: endpointsFromRecord(r.EndPoints), Rack: r.Rack,
		Fenced: r.Fenced, InControlledShutdown: r.InControlledShutdown, Features: featuresFromRecord(r.Features),
		Directories: r.LogDirs, CordonedDirectories: r.CordonedLogDirs,
	})
}

func (d *draft) unregisterBroker(r *kmeta.UnregisterBrokerRecord) error {
	if err := d.checkBroker(r.BrokerID, r.BrokerEpoch); err != nil {
		return err
	}
	mark(&d.changes.brokers, r.BrokerID)
	own(d, brokerTree, &d.img.brokers).Delete(r.BrokerID)
	return nil
}

func (d *draft) checkBroker(id int32, epoch int64) error {
	switch b := d.img.Broker(id); {
	case b == nil:
		return fmt.Errorf("broker %d is not registered", id)
	case b.Epoch != epoch:
		return fmt.Errorf("broker %d has epoch %d, not %d", id, b.Epoch, epoch)
	}
	return nil
}

func (d *draft) changeBroker(id int32, epoch int64, change func(*Broker)) error {
	if err := d.checkBroker(id, epoch); err != nil {
		return err
	}
	b := *d.img.Broker(id)
	change(&b)
	mark(&d.changes.brokers, id)
	own(d, brokerTree, &d.img.brokers).Set(id, &b)
	return nil
}

func (d *draft) changeRegistration(r *kmeta.BrokerRegistrationChangeRecord) error {
	if r.Fenced < -1 || r.Fenced > 1 || r.InControlledShutdown < 0 || r.InControlledShutdown > 1 {
		return fmt.Errorf("broker %d: fenced %d, in controlled shutdown %d", r.BrokerID, r.Fenced, r.InControlledShutdown)
	}
	return d.changeBroker(r.BrokerID, r.BrokerEpoch, func(b *Broker) {
		if r.Fenced != 0 {
			b.Fenced = r.Fenced > 0
		}
		if r.InControlledShutdown != 0 {
			b.InControlledShutdown = true
		}
		if len(r.LogDirs) > 0 {
			b.Directories = r.LogDirs
		}
		if r.CordonedLogDirs != nil {
			b.CordonedDirectories = r.CordonedLogDirs
		}
	})
}

func (d *draft) registerController(r *kmeta.RegisterControllerRecord) {
	mark(&d.changes.controllers, r.ControllerID)
	own(d, controllerTree, &d.img.controllers).Set(r.ControllerID, &Controller{
		ID: r.ControllerID, IncarnationID: r.IncarnationID, ZKMigrationReady: r.ZKMigrationReady,
		Endpoints: endpointsFromRecord(r.EndPoints), Features: featuresFromRecord(r.Features),
	})
}

func (d *draft) setFeature(r *kmeta.FeatureLevelRecord) {
	if !d.levels {
		d.img.features = maps.Clone(d.img.features)
		if d.img.features == nil {
			d.img.features = map[string]int16{}
		}
		d.levels = true
	}
	d.changes.features = true
	if r.FeatureLevel == 0 {
		delete(d.img.features, r.Name)
	} else {
		d.img.features[r.Name] = r.FeatureLevel
	}
	d.img.metadataVersion = d.img.features[MetadataVersion]
}

func (d *draft) hasConfigs(key string) bool {
	_, ok := d.img.configs.Get(key)
	return ok
}

func (d *draft) setConfig(r *kmeta.ConfigRecord) {
	key := configKey(r.ResourceType, r.ResourceName)
	was, ok := d.img.configs.Get(key)
	if !ok {
		if r.Value == nil {
			return
		}
		was = &resourceConfigs{ConfigResource: ConfigResource{r.ResourceType, r.ResourceName}, values: map[string]string{}}
	}
	mark(&d.changes.configs, was.ConfigResource)
	is := was
	if !d.values[key] {
		is = &resourceConfigs{ConfigResource: was.ConfigResource, values: maps.Clone(was.values)}
		own(d, configTree, &d.img.configs).Set(key, is)
		if d.values == nil {
			d.values = map[string]bool{}
		}
		d.values[key] = true
	}
	if r.Value != nil {
		is.values[r.Name] = *r.Value
		return
	}
	delete(is.values, r.Name)
	if len(is.values) == 0 {
		d.img.configs.Delete(key)
		delete(d.values, key)
	}
}

func (d *draft) setQuota(r *kmeta.ClientQuotaRecord) {
	entity := make([]QuotaEntity, len(r.Entity))
	for i, e := range r.Entity {
		entity[i] = QuotaEntity{e.EntityType, e.EntityName}
	}
	slices.SortFunc(entity, compareEntities)
	key := entityKey(entity)
	was, ok := d.img.quotas.Get(key)
	if !ok {
		if r.Remove {
			return
		}
		was = &Quota{Entity: entity, Values: map[string]float64{}}
	}
	d.changes.quotas = true
	is := was
	if !d.quotas[key] {
		is = &Quota{Entity: was.Entity, Values: maps.Clone(was.Values)}
		own(d, quotaTree, &d.img.quotas).Set(key, is)
		if d.quotas == nil {
			d.quotas = map[string]bool{}
		}
		d.quotas[key] = true
	}
	if !r.Remove {
		is.Values[r.Key] = r.Value
		return
	}
	delete(is.Values, r.Key)
	if len(is.Values) == 0 {
		d.img.quotas.Delete(key)
		delete(d.quotas, key)
	}
}
