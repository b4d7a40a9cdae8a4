package group

import "time"

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
