package metadata

import (
	"maps"
	"slices"

	"github.com/quire-log/quire/internal/kmeta"
)

// Records writes the image as the records of a snapshot, in Kafka's order: features with metadata.version first, brokers,
// controllers, each topic followed by its partitions, configs, quotas, producer ids, ACLs, SCRAM credentials, delegation tokens.
// Within each kind they are sorted.
func (i *Image) Records() []kmeta.Record {
	out := make([]kmeta.Record, 0, len(i.features)+i.topicsByName.Len()+i.partitions+64)
	if i.metadataVersion != 0 {
		out = append(out, &kmeta.FeatureLevelRecord{Name: MetadataVersion, FeatureLevel: i.metadataVersion})
	}
	for _, name := range slices.Sorted(maps.Keys(i.features)) {
		if name != MetadataVersion {
			out = append(out, &kmeta.FeatureLevelRecord{Name: name, FeatureLevel: i.features[name]})
		}
	}
	for b := range i.Brokers() {
		out = append(out, b.record())
	}
	for c := range i.Controllers() {
		out = append(out, c.record())
	}
	for t := range i.Topics() {
		out = append(out, &kmeta.TopicRecord{Name: t.Name, TopicID: t.ID})
		for n, p := range t.Partitions {
			out = append(out, p.record(t.ID, int32(n)))
		}
	}
	for r := range values(i.configs) {
		for _, key := range slices.Sorted(maps.Keys(r.values)) {
			value := r.values[key]
			out = append(out, &kmeta.ConfigRecord{ResourceType: r.Type, ResourceName: r.Name, Name: key, Value: &value})
		}
	}
	for q := range i.Quotas() {
		for _, key := range slices.Sorted(maps.Keys(q.Values)) {
			out = append(out, &kmeta.ClientQuotaRecord{Entity: q.entity(), Key: key, Value: q.Values[key]})
		}
	}
	if i.nextProducerID > 0 {
		out = append(out, &kmeta.ProducerIDsRecord{BrokerID: -1, BrokerEpoch: -1, NextProducerID: i.nextProducerID})
	}
	for a := range i.ACLs() {
		out = append(out, a)
	}
	for c := range i.ScramCredentials() {
		out = append(out, c)
	}
	for t := range i.DelegationTokens() {
		out = append(out, t)
	}
	return out
}

func (b *Broker) record() *kmeta.RegisterBrokerRecord {
	return &kmeta.RegisterBrokerRecord{
		BrokerID: b.ID, BrokerEpoch: b.Epoch, IncarnationID: b.IncarnationID,
		EndPoints: endpointsToRecord(b.Endpoints), Features: featuresToRecord(b.Features), Rack: b.Rack,
		Fenced: b.Fenced, InControlledShutdown: b.InControlledShutdown,
		LogDirs: b.Directories, CordonedLogDirs: b.CordonedDirectories,
	}
}

func (c *Controller) record() *kmeta.RegisterControllerRecord {
	return &kmeta.RegisterControllerRecord{
		ControllerID: c.ID, IncarnationID: c.IncarnationID, ZKMigrationReady: c.ZKMigrationReady,
		EndPoints: endpointsToRecord(c.Endpoints), Features: featuresToRecord(c.Features),
	}
}

func (p *Partition) record(topic UUID, id int32) *kmeta.PartitionRecord {
	return &kmeta.PartitionRecord{
		PartitionID: id, TopicID: topic, Replicas: p.Replicas, ISR: p.ISR,
		RemovingReplicas: p.Removing, AddingReplicas: p.Adding,
		Leader: p.Leader, LeaderRecoveryState: p.LeaderRecoveryState,
		LeaderEpoch: int32(p.LeaderEpoch), PartitionEpoch: p.PartitionEpoch, Directories: p.Directories,
		EligibleLeaderReplicas: nilIfEmpty(p.ELR), LastKnownELR: nilIfEmpty(p.LastKnownELR),
	}
}

func (q *Quota) entity() []kmeta.EntityData {
	out := make([]kmeta.EntityData, len(q.Entity))
	for i, e := range q.Entity {
		out[i] = kmeta.EntityData{EntityType: e.Type, EntityName: e.Name}
	}
	return out
}

func endpointsToRecord(in []Endpoint) (out []kmeta.Endpoint) {
	for _, e := range in {
		out = append(out, kmeta.Endpoint{Name: e.Listener, Host: e.Host, Port: e.Port, SecurityProtocol: e.Protocol})
	}
	return out
}

func endpointsFromRecord(in []kmeta.Endpoint) (out []Endpoint) {
	for _, e := range in {
		out = append(out, Endpoint{Listener: e.Name, Host: e.Host, Port: e.Port, Protocol: e.SecurityProtocol})
	}
	return out
}

func featuresToRecord(in []FeatureRange) (out []kmeta.Feature) {
	for _, f := range in {
		out = append(out, kmeta.Feature{Name: f.Name, MinSupportedVersion: f.Min, MaxSupportedVersion: f.Max})
	}
	return out
}

func featuresFromRecord(in []kmeta.Feature) (out []FeatureRange) {
	for _, f := range in {
		out = append(out, FeatureRange{f.Name, f.MinSupportedVersion, f.MaxSupportedVersion})
	}
	return out
}

// nilIfEmpty makes an empty list one that no record says.
func nilIfEmpty(s []int32) []int32 {
	if len(s) == 0 {
		return nil
	}
	return s
}
