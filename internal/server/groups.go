package server

import (
	"net"
	"slices"
	"time"

	"github.com/quire-log/quire/internal/config"
	"github.com/quire-log/quire/internal/group"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/replica"
	"github.com/quire-log/quire/internal/wire"
)

// A groupMachine is the groups of one partition of __consumer_offsets.
type groupMachine struct {
	*group.Shard
	node    *Node
	records []coordRecord // scratch of the last effect

	// What is replayed.
	entry    group.Entry
	producer group.Producer
}

// startGroups begins to coordinate groups, from an image on.
func (n *Node) startGroups(img *metadata.Image) {
	n.groups = &shards[*groupMachine]{
		topic: offsetsTopic, node: n.id,
		make: func(int32) *groupMachine {
			// The newest image, not the one that clients see yet: it is the one that onImage speaks of.
			return &groupMachine{node: n, Shard: group.NewShard(group.Options{
				Config: n.groupConfig(n.newest.Load()), Image: n.newest.Load, OnEvent: n.groupEvents.add,
			})}
		},
		find:       func(partition int32) *replica.Partition { return n.replicas.Partition(offsetsTopic, partition) },
		codec:      record.Codec(n.value("offsets.topic.compression.codec").Int64()),
		loadBuffer: int(n.value("offsets.load.buffer.size").Int64()),
		log:        n.loggers.named(loggerGroup),
	}
	n.groups.run(img)
}

// leastRebalanceDelay is how long the first rebalance of a group waits for more members at least, and again for each that comes. Where
// the setting says 0, Kafka's timers still take some milliseconds, and members that start together are in one generation.
const leastRebalanceDelay = 30 * time.Millisecond

// groupConfig is what the file and the cluster say of groups.
func (n *Node) groupConfig(img *metadata.Image) group.Config {
	layers := n.controller.Layers(img, n.id)
	value := func(key string) config.Value {
		o, ok := config.Lookup(config.Broker(), key)
		if !ok {
			panic("no broker option " + key)
		}
		return config.BrokerValue(o, layers)
	}
	ms := func(key string) time.Duration { return time.Duration(value(key).Int64()) * time.Millisecond }
	return group.Config{
		MinSessionTimeout: ms("group.min.session.timeout.ms"), MaxSessionTimeout: ms("group.max.session.timeout.ms"),
		InitialRebalanceDelay: max(ms("group.initial.rebalance.delay.ms"), leastRebalanceDelay), MaxSize: int(value("group.max.size").Int64()),

		MaxMetadataBytes:       int(value("offset.metadata.max.bytes").Int64()),
		OffsetsRetention:       time.Duration(value("offsets.retention.minutes").Int64()) * time.Minute,
		RetentionCheckInterval: ms("offsets.retention.check.interval.ms"),

		ConsumerSessionTimeout:        ms("group.consumer.session.timeout.ms"),
		ConsumerMinSessionTimeout:     ms("group.consumer.min.session.timeout.ms"),
		ConsumerMaxSessionTimeout:     ms("group.consumer.max.session.timeout.ms"),
		ConsumerHeartbeatInterval:     ms("group.consumer.heartbeat.interval.ms"),
		ConsumerMinHeartbeatInterval:  ms("group.consumer.min.heartbeat.interval.ms"),
		ConsumerMaxHeartbeatInterval:  ms("group.consumer.max.heartbeat.interval.ms"),
		ConsumerAssignmentInterval:    ms("group.consumer.assignment.interval.ms"),
		ConsumerMinAssignmentInterval: ms("group.consumer.min.assignment.interval.ms"),
		ConsumerMaxAssignmentInterval: ms("group.consumer.max.assignment.interval.ms"),

		ConsumerMaxSize:      int(value("group.consumer.max.size").Int64()),
		ConsumerAssignors:    value("group.consumer.assignors").Items(),
		MigrationPolicy:      value("group.consumer.migration.policy").Text,
		RegexRefreshInterval: ms("group.consumer.regex.refresh.interval.ms"),
		ConsumerProtocol:     slices.Contains(value("group.coordinator.rebalance.protocols").Items(), "consumer"),
	}
}

func (m *groupMachine) replay(e *coordEntry) error { return m.Replay(m.entryOf(e)) }

func (m *groupMachine) replayPrepared(p *group.Prepared, value []byte) bool {
	return m.ReplayPrepared(p, value)
}

func (m *groupMachine) replayAsIs(p *group.Prepared, e *coordEntry) error {
	return m.ReplayAsIs(p, m.entryOf(e))
}

func (m *groupMachine) entryOf(e *coordEntry) *group.Entry {
	m.entry = group.Entry{Record: group.Record{Key: e.key, Value: e.value}, Offset: e.offset}
	if e.producer != nil {
		m.producer = group.Producer{ID: e.producer.id, Epoch: e.producer.epoch}
		m.entry.Producer = &m.producer
	}
	return &m.entry
}

func (m *groupMachine) replayMarker(producerID int64, producerEpoch int16, commit bool) {
	m.ReplayMarker(producerID, producerEpoch, commit)
}

// loaded looks at the configuration again, since what changed during the load was not heard of.
func (m *groupMachine) loaded(now time.Time) {
	m.SetConfig(m.node.groupConfig(m.node.newest.Load()))
	m.Loaded(now)
}

func (m *groupMachine) unload()                      { m.Unload() }
func (m *groupMachine) nextTimer() (time.Time, bool) { return m.NextTimer() }
func (m *groupMachine) tick(now time.Time) effect    { return m.effect(m.Tick(now)) }

func (m *groupMachine) onImage(now time.Time, d *metadata.Delta) {
	if slices.ContainsFunc(d.Configs, func(r metadata.ConfigResource) bool { return r.Type == metadata.BrokerResource }) {
		m.SetConfig(m.node.groupConfig(d.After))
	}
	m.OnImage(now, d)
}

func (m *groupMachine) effect(e group.Effect) effect {
	m.records = m.records[:0]
	for _, r := range e.Records {
		m.records = append(m.records, coordRecord{r.Key, r.Value})
	}
	out := effect{records: m.records, then: e.Then}
	if e.Producer != nil {
		out.producer = &coordProducer{e.Producer.ID, e.Producer.Epoch}
	}
	return out
}

// groupClient is who sent a request, as groups show it.
func groupClient(req *wire.Request) group.Client {
	var c group.Client
	if req.ClientID != nil {
		c.ID = *req.ClientID
	}
	if req.Conn != nil {
		if a, ok := req.Conn.RemoteAddr().(*net.TCPAddr); ok {
			c.Host = "/" + a.AddrPort().Addr().Unmap().String()
		}
	}
	return c
}
