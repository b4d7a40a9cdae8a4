package controller

import (
	"context"
	"fmt"
	"slices"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
)

// A Registration is what a broker says of itself at start.
type Registration struct {
	BrokerID            int32
	Endpoints           []metadata.Endpoint
	ControllerEndpoints []metadata.Endpoint
	Rack                *string
	Directories         []kmeta.UUID
	PreviousEpoch       int64 // of the clean mark; -1: unclean
}

// Levels of metadata.version at which a node's registration grew.
const (
	levelControllerRegistration = 15 // 3.7-IV0: controllers register too
	levelDirectories            = 17 // 3.7-IV2: partitions name the directories of their replicas
	levelCordonedDirectories    = 30 // 4.3-IV0: a broker says which directories take no new replicas
)

// Register registers this node's controller and broker (fenced); Unfence lets it lead: elections from ISR or ELR follow, as Kafka's. It returns the broker epoch.
//
// A former registration that was not fenced belongs to a process that was killed. Kafka waits for its session to run out; a
// node alone knows that nobody else can be it, and fences it at once. Other brokers' registrations are fenced for the same
// reason: no other node has a session here.
func (c *Controller) Register(ctx context.Context, r Registration) (brokerEpoch int64, err error) {
	err = c.write(ctx, func(d draft) ([]kmeta.Record, error) {
		var recs []kmeta.Record
		for b := range d.img.Brokers() {
			if !b.Fenced {
				recs = append(recs, c.fence(d.img, b)...)
			}
		}
		return recs, nil
	})
	if err != nil {
		return 0, err
	}
	err = c.write(ctx, func(d draft) ([]kmeta.Record, error) {
		if d.img.MetadataVersion() < levelControllerRegistration {
			return nil, nil
		}
		return []kmeta.Record{&kmeta.RegisterControllerRecord{
			ControllerID:  r.BrokerID,
			IncarnationID: kmeta.RandomUUID(),
			EndPoints:     endpoints(r.ControllerEndpoints),
			Features:      registeredFeatures(),
		}}, nil
	})
	if err != nil {
		return 0, err
	}
	err = c.write(ctx, func(d draft) ([]kmeta.Record, error) {
		brokerEpoch = int64(d.next)
		recs := []kmeta.Record{}
		if old := d.img.Broker(r.BrokerID); old != nil && old.Epoch != r.PreviousEpoch {
			recs = c.uncleanShutdown(d.img, r.BrokerID)
		}
		reg := &kmeta.RegisterBrokerRecord{
			BrokerID:      r.BrokerID,
			IncarnationID: kmeta.RandomUUID(),
			BrokerEpoch:   brokerEpoch,
			EndPoints:     endpoints(r.Endpoints),
			Features:      registeredFeatures(),
			Rack:          r.Rack,
			Fenced:        true,
		}
		if d.img.MetadataVersion() >= levelDirectories {
			reg.LogDirs = r.Directories
		}
		return append(recs, reg), nil
	})
	if err != nil {
		return 0, err
	}
	return brokerEpoch, c.write(ctx, func(d draft) ([]kmeta.Record, error) {
		if d.img.MetadataVersion() < levelCordonedDirectories {
			return nil, nil
		}
		return []kmeta.Record{&kmeta.BrokerRegistrationChangeRecord{BrokerID: r.BrokerID, BrokerEpoch: brokerEpoch, CordonedLogDirs: []kmeta.UUID{}}}, nil
	})
}

// AddDirectories tells of a broker's directories that can be used; those that it did not register with are added.
func (c *Controller) AddDirectories(ctx context.Context, brokerID int32, directories []kmeta.UUID) error {
	return c.write(ctx, func(d draft) ([]kmeta.Record, error) {
		b := d.img.Broker(brokerID)
		if b == nil || d.img.MetadataVersion() < levelDirectories {
			return nil, nil
		}
		all := slices.Clone(b.Directories)
		for _, id := range directories {
			if !slices.Contains(all, id) {
				all = append(all, id)
			}
		}
		if len(all) == len(b.Directories) {
			return nil, nil
		}
		return []kmeta.Record{&kmeta.BrokerRegistrationChangeRecord{BrokerID: brokerID, BrokerEpoch: b.Epoch, LogDirs: all}}, nil
	})
}

// A TopicPartition names a partition by its topic's id.
type TopicPartition struct {
	TopicID   kmeta.UUID
	Partition int32
}

// RaiseLeaderEpochs has a broker lead partitions in new epochs, where it still leads them.
func (c *Controller) RaiseLeaderEpochs(ctx context.Context, brokerID int32, of []TopicPartition) error {
	return c.write(ctx, func(d draft) (recs []kmeta.Record, err error) {
		for _, tp := range of {
			t := d.img.TopicByID(tp.TopicID)
			if t == nil || int(tp.Partition) >= len(t.Partitions) || t.Partitions[tp.Partition].Leader != brokerID {
				continue
			}
			r := kmeta.NewPartitionChangeRecord()
			r.TopicID, r.PartitionID, r.Leader = tp.TopicID, tp.Partition, brokerID
			recs = append(recs, r)
		}
		return recs, nil
	})
}

// Unfence lets a registered broker lead. Partitions without a leader that it has a replica of get one, where they may.
func (c *Controller) Unfence(ctx context.Context, brokerID int32) error {
	return c.write(ctx, func(d draft) ([]kmeta.Record, error) {
		b := d.img.Broker(brokerID)
		if b == nil {
			return nil, fmt.Errorf("broker %d is not registered", brokerID)
		}
		if !b.Fenced {
			return nil, nil
		}
		recs := []kmeta.Record{&kmeta.BrokerRegistrationChangeRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch, Fenced: -1}}
		e := c.election(d.img)
		e.active[brokerID] = true
		return e.appendChanges(recs, func(p *metadata.Partition) bool {
			return p.Leader < 0 && slices.Contains(p.Replicas, brokerID)
		}, nil), nil
	})
}

// ControlledShutdown takes leadership from a broker that stops cleanly (leader -1, ELR as Kafka leaves it), and fences it.
func (c *Controller) ControlledShutdown(ctx context.Context, brokerID int32) error {
	err := c.write(ctx, func(d draft) ([]kmeta.Record, error) {
		b := d.img.Broker(brokerID)
		if b == nil || b.Fenced || b.InControlledShutdown {
			return nil, nil
		}
		recs := []kmeta.Record{&kmeta.BrokerRegistrationChangeRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch, InControlledShutdown: 1}}
		return c.leave(d.img, recs, brokerID), nil
	})
	if err != nil {
		return err
	}
	return c.write(ctx, func(d draft) ([]kmeta.Record, error) {
		b := d.img.Broker(brokerID)
		if b == nil || b.Fenced {
			return nil, nil
		}
		return c.fence(d.img, b), nil
	})
}

// fence takes a broker out of the in-sync sets, then marks it.
func (c *Controller) fence(img *metadata.Image, b *metadata.Broker) []kmeta.Record {
	return append(c.leave(img, nil, b.ID), &kmeta.BrokerRegistrationChangeRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch, Fenced: 1})
}

// leave appends the changes of partitions that a broker leads or is in sync with and now leaves.
func (c *Controller) leave(img *metadata.Image, recs []kmeta.Record, brokerID int32) []kmeta.Record {
	e := c.election(img)
	delete(e.active, brokerID)
	return e.appendChanges(recs, func(p *metadata.Partition) bool {
		return p.Leader == brokerID || slices.Contains(p.ISR, brokerID)
	}, func(isr []int32) []int32 { return without(isr, brokerID) })
}

// uncleanShutdown takes a broker that may have lost its unsynced data out of the sets that a leader may be chosen from for certain.
// The broker is fenced already, so it is in no in-sync set, unless it was the last one and the cluster has no eligible leader replicas.
func (c *Controller) uncleanShutdown(img *metadata.Image, brokerID int32) []kmeta.Record {
	var recs []kmeta.Record
	for t := range img.Topics() {
		for n, p := range t.Partitions {
			if slices.Contains(p.ELR, brokerID) {
				r := kmeta.NewPartitionChangeRecord()
				r.PartitionID, r.TopicID, r.EligibleLeaderReplicas = int32(n), t.ID, without(p.ELR, brokerID)
				recs = append(recs, r)
			}
		}
	}
	return recs
}

// without returns a copy of ids that lacks id. It is never nil: nil means unchanged in a record.
func without(ids []int32, id int32) []int32 {
	rest := make([]int32, 0, len(ids))
	for _, i := range ids {
		if i != id {
			rest = append(rest, i)
		}
	}
	return rest
}

func endpoints(list []metadata.Endpoint) []kmeta.Endpoint {
	var out []kmeta.Endpoint
	for _, e := range list {
		out = append(out, kmeta.Endpoint{Name: e.Listener, Host: e.Host, Port: e.Port, SecurityProtocol: e.Protocol})
	}
	return out
}

func registeredFeatures() []kmeta.Feature {
	var out []kmeta.Feature
	for _, f := range metadata.SupportedFeatures() {
		out = append(out, kmeta.Feature{Name: f.Name, MinSupportedVersion: f.Min, MaxSupportedVersion: f.Max})
	}
	return out
}
