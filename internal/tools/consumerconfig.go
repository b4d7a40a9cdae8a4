package tools

import (
	"context"
	"encoding/binary"
	"io"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// consumerConfig is what the tools act on of a Java consumer's properties.
type consumerConfig struct {
	opts       []kgo.Opt
	reset      kgo.Offset // where to begin without a committed offset
	resetNone  bool       // auto.offset.reset=none: nowhere
	autoCreate bool
	autoCommit bool
	commitEach time.Duration
	protocol   string // classic or consumer
	session    time.Duration
	heartbeat  time.Duration
	maxPoll    time.Duration
	instance   string
	dial       *dialWatch
}

// readMost is the largest answer that is read: franz-go's limit.
const readMost = 1 << 30

// consumer checks the properties as Java's consumer does.
func (c clientConfig) consumer(stderr io.Writer, clientID string) (*consumerConfig, error) {
	isolation, err := c.oneOf("isolation.level", "read_uncommitted", "read_committed", "read_uncommitted")
	if err != nil {
		return nil, err
	}
	config := &consumerConfig{instance: c["group.instance.id"]}
	switch reset := c["auto.offset.reset"]; reset {
	case "earliest":
		config.reset = kgo.NewOffset().AtStart()
	case "", "latest":
		config.reset = kgo.NewOffset().AtEnd()
	case "none":
		config.reset, config.resetNone = kgo.NoResetOffset(), true
	default:
		return nil, configError("auto.offset.reset", reset, "Invalid value `"+reset+"` for configuration auto.offset.reset. The value must be either 'earliest', 'latest', 'none' or of the format 'by_duration:<PnDTnHnMn.nS.>'.")
	}
	var fetchMin, fetchMax, partitionMax int64
	for _, n := range []struct {
		key        string
		def, least int64
		to         *int64
	}{
		{"fetch.min.bytes", 1, 0, &fetchMin}, {"fetch.max.bytes", 50 << 20, 0, &fetchMax}, {"max.partition.fetch.bytes", 1 << 20, 0, &partitionMax},
	} {
		if *n.to, err = c.atLeast(n.key, 32, n.def, n.least); err != nil {
			return nil, err
		}
	}
	var fetchWait, metadataMaxAge time.Duration
	for _, d := range []struct {
		key string
		def int64
		to  *time.Duration
	}{
		{"fetch.max.wait.ms", 500, &fetchWait}, {"metadata.max.age.ms", 300000, &metadataMaxAge}, {"auto.commit.interval.ms", 5000, &config.commitEach},
		{"session.timeout.ms", 45000, &config.session}, {"heartbeat.interval.ms", 3000, &config.heartbeat}, {"max.poll.interval.ms", 300000, &config.maxPoll},
	} {
		if *d.to, err = c.millis(d.key, 64, d.def); err != nil {
			return nil, err
		}
	}
	for _, b := range []struct {
		key string
		to  *bool
	}{{"allow.auto.create.topics", &config.autoCreate}, {"enable.auto.commit", &config.autoCommit}} {
		if *b.to, err = c.boolean(b.key, true); err != nil {
			return nil, err
		}
	}
	if config.protocol, err = c.oneOf("group.protocol", "classic", "classic", "consumer", "CLASSIC", "CONSUMER"); err != nil {
		return nil, err
	}
	config.protocol = strings.ToLower(config.protocol)
	conn, dial, err := c.connection(stderr, "Consumer", clientID)
	if err != nil {
		return nil, throw(kafkaException, "Failed to construct kafka consumer").because(err)
	}
	config.dial = dial
	fetchMax = min(max(fetchMax, 1), readMost)
	config.opts = append(conn,
		kgo.FetchMaxWait(min(fetchWait, time.Minute)),
		kgo.FetchMinBytes(int32(fetchMin)),
		kgo.FetchMaxBytes(int32(fetchMax)),
		kgo.FetchMaxPartitionBytes(int32(min(max(partitionMax, 1), fetchMax))),
		kgo.BrokerMaxReadBytes(readMost), // a batch larger than all of these comes whole
		kgo.MetadataMaxAge(max(metadataMaxAge, time.Second)),
		kgo.MetadataMinAge(100*time.Millisecond),
	)
	if isolation == "read_committed" {
		config.opts = append(config.opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if config.autoCreate {
		config.opts = append(config.opts, kgo.AllowAutoTopicCreation())
	}
	return config, nil
}

// withoutMetadata has a commit carry no text, as Java's do: franz-go writes the member's id.
func withoutMetadata(ctx context.Context) context.Context {
	return kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		for i := range req.Topics {
			for j := range req.Topics[i].Partitions {
				req.Topics[i].Partitions[j].Metadata = new(string)
			}
		}
		return nil
	})
}

// commitOffsets commits as Java's consumer does, and returns the first refusal, of the whole or of a partition.
func commitOffsets(cl *kgo.Client, offsets map[string]map[int32]kgo.EpochOffset) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var refused error
	cl.CommitOffsetsSync(withoutMetadata(ctx), offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		refused = err
		if resp == nil {
			return
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if refused == nil {
					refused = brokerErrorOrNil(p.ErrorCode, nil)
				}
			}
		}
	})
	return refused
}

// A javaAssignor is one of franz-go's balancers, whose plans a leader writes in the version that Java's do.
type javaAssignor struct {
	kgo.GroupBalancer
}

// assignmentVersion is that of ConsumerProtocolAssignment. No version differs from another in anything but this number.
const assignmentVersion = 3

// javaAssignors are balancers as Java's assignors.
func javaAssignors(balancers ...kgo.GroupBalancer) kgo.GroupOpt {
	for i, b := range balancers {
		balancers[i] = javaAssignor{b}
	}
	return kgo.Balancers(balancers...)
}

// MemberBalancer is called by franz-go when this member leads.
func (a javaAssignor) MemberBalancer(members []kmsg.JoinGroupResponseMember) (kgo.GroupMemberBalancer, map[string]struct{}, error) {
	b, err := kgo.NewConsumerBalancer(a, members)
	if err != nil {
		return nil, nil, err
	}
	return b, b.MemberTopics(), nil
}

// Balance makes the plan.
func (a javaAssignor) Balance(b *kgo.ConsumerBalancer, topics map[string]int32) kgo.IntoSyncAssignment {
	return &javaPlan{a.GroupBalancer.(kgo.ConsumerBalancerBalance).Balance(b, topics)}
}

// A javaPlan is who gets what.
type javaPlan struct {
	plan kgo.IntoSyncAssignment
}

// IntoSyncAssignment writes the plan down.
func (p *javaPlan) IntoSyncAssignment() []kmsg.SyncGroupRequestGroupAssignment {
	all := p.plan.IntoSyncAssignment()
	for _, member := range all {
		binary.BigEndian.PutUint16(member.MemberAssignment, assignmentVersion)
	}
	return all
}

// group returns the options of a member of a group. Of Java's assignors the two that it offers by default are offered.
func (config *consumerConfig) group(id string) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.ConsumerGroup(id),
		javaAssignors(kgo.RangeBalancer(), kgo.CooperativeStickyBalancer()),
		kgo.SessionTimeout(config.session),
		kgo.HeartbeatInterval(config.heartbeat),
		kgo.RebalanceTimeout(config.maxPoll),
		kgo.AutoCommitInterval(max(config.commitEach, 100*time.Millisecond)),
	}
	if config.protocol == "consumer" {
		opts = append(opts, kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.ServerSideBalancer()) // which asks for the assignor "uniform", the one that a broker takes when Java's consumer names none
	}
	if config.instance != "" {
		opts = append(opts, kgo.InstanceID(config.instance))
	}
	// What was handed out is not what was printed: only printed records are marked, and marks are committed.
	if config.autoCommit {
		return append(opts, kgo.AutoCommitMarks())
	}
	return append(opts, kgo.DisableAutoCommit())
}
