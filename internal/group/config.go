package group

import (
	"time"

	"github.com/quire-log/quire/internal/config"
)

// Config is what the broker's configuration says of groups. Group-level values are looked up in the image.
type Config struct {
	// group.min.session.timeout.ms, group.max.session.timeout.ms, group.initial.rebalance.delay.ms, group.max.size
	MinSessionTimeout, MaxSessionTimeout time.Duration
	InitialRebalanceDelay                time.Duration
	MaxSize                              int

	// offset.metadata.max.bytes, offsets.retention.minutes, offsets.retention.check.interval.ms
	MaxMetadataBytes       int
	OffsetsRetention       time.Duration
	RetentionCheckInterval time.Duration

	// group.consumer.session.timeout.ms, .heartbeat.interval.ms, .assignment.interval.ms and their bounds
	ConsumerSessionTimeout, ConsumerMinSessionTimeout, ConsumerMaxSessionTimeout             time.Duration
	ConsumerHeartbeatInterval, ConsumerMinHeartbeatInterval, ConsumerMaxHeartbeatInterval    time.Duration
	ConsumerAssignmentInterval, ConsumerMinAssignmentInterval, ConsumerMaxAssignmentInterval time.Duration

	// group.consumer.max.size, group.consumer.assignors, group.consumer.migration.policy, group.consumer.regex.refresh.interval.ms
	ConsumerMaxSize      int
	ConsumerAssignors    []string
	MigrationPolicy      string
	RegexRefreshInterval time.Duration

	// ConsumerProtocol is whether group.coordinator.rebalance.protocols has "consumer".
	ConsumerProtocol bool
}

// DefaultConfig is the configuration of a broker that says nothing.
func DefaultConfig() Config {
	return Config{
		MinSessionTimeout: 6 * time.Second, MaxSessionTimeout: 30 * time.Minute, InitialRebalanceDelay: 3 * time.Second, MaxSize: 1<<31 - 1,
		MaxMetadataBytes: 4096, OffsetsRetention: 7 * 24 * time.Hour, RetentionCheckInterval: 10 * time.Minute,
		ConsumerSessionTimeout: 45 * time.Second, ConsumerMinSessionTimeout: 45 * time.Second, ConsumerMaxSessionTimeout: time.Minute,
		ConsumerHeartbeatInterval: 5 * time.Second, ConsumerMinHeartbeatInterval: 5 * time.Second, ConsumerMaxHeartbeatInterval: 15 * time.Second,
		ConsumerAssignmentInterval: time.Second, ConsumerMaxAssignmentInterval: 15 * time.Second,
		ConsumerMaxSize: 1<<31 - 1, ConsumerAssignors: []string{"uniform", "range"}, MigrationPolicy: "bidirectional",
		RegexRefreshInterval: 10 * time.Minute, ConsumerProtocol: true,
	}
}

// ConfigOf reads what a broker's settings say.
func ConfigOf(l config.Layers) Config {
	ms := func(key string) time.Duration { return time.Duration(l.Of(key).Int64()) * time.Millisecond }
	c := Config{
		MinSessionTimeout:             ms("group.min.session.timeout.ms"),
		MaxSessionTimeout:             ms("group.max.session.timeout.ms"),
		InitialRebalanceDelay:         ms("group.initial.rebalance.delay.ms"),
		MaxSize:                       int(l.Of("group.max.size").Int64()),
		MaxMetadataBytes:              int(l.Of("offset.metadata.max.bytes").Int64()),
		OffsetsRetention:              time.Duration(l.Of("offsets.retention.minutes").Int64()) * time.Minute,
		RetentionCheckInterval:        ms("offsets.retention.check.interval.ms"),
		ConsumerSessionTimeout:        ms("group.consumer.session.timeout.ms"),
		ConsumerMinSessionTimeout:     ms("group.consumer.min.session.timeout.ms"),
		ConsumerMaxSessionTimeout:     ms("group.consumer.max.session.timeout.ms"),
		ConsumerHeartbeatInterval:     ms("group.consumer.heartbeat.interval.ms"),
		ConsumerMinHeartbeatInterval:  ms("group.consumer.min.heartbeat.interval.ms"),
		ConsumerMaxHeartbeatInterval:  ms("group.consumer.max.heartbeat.interval.ms"),
		ConsumerAssignmentInterval:    ms("group.consumer.assignment.interval.ms"),
		ConsumerMinAssignmentInterval: ms("group.consumer.min.assignment.interval.ms"),
		ConsumerMaxAssignmentInterval: ms("group.consumer.max.assignment.interval.ms"),
		ConsumerMaxSize:               int(l.Of("group.consumer.max.size").Int64()),
		ConsumerAssignors:             l.Of("group.consumer.assignors").Items(),
		MigrationPolicy:               l.Of("group.consumer.migration.policy").Text,
		RegexRefreshInterval:          ms("group.consumer.regex.refresh.interval.ms"),
	}
	for _, p := range l.Of("group.coordinator.rebalance.protocols").Items() {
		c.ConsumerProtocol = c.ConsumerProtocol || p == "consumer"
	}
	return c
}
