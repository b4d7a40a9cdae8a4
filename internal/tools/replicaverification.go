package tools

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/record"
)

const (
	replicaVerificationPurpose = "Validate that all replicas for a set of topics have the same data."
	replicaVerificationLogger  = "org.apache.kafka.tools.ReplicaVerificationTool"
	// debuggingReplica is the replica id of who may read from followers and is none.
	debuggingReplica = -2
)

func replicaVerificationParser() *joptParser {
	return newJopt(
		joptOption{name: "broker-list", arg: requiredArg, what: "hostname:port,...,hostname:port", help: "REQUIRED: The list of hostname and port of the server to connect to."},
		joptOption{name: "fetch-size", arg: requiredArg, typ: "Integer", what: "bytes", def: "1048576", help: "The fetch size of each request."},
		joptOption{name: "max-wait-ms", arg: requiredArg, typ: "Integer", what: "ms", def: "1000", help: "The max amount of time each fetch request waits."},
		joptOption{name: "topics-include", arg: requiredArg, what: "Java regex (String)", def: ".*", help: "List of topics to verify replica consistency."},
		joptOption{name: "time", arg: requiredArg, typ: "Long", what: "timestamp/-1(latest)/-2(earliest)", def: "-1", help: "Timestamp for getting the initial offsets."},
		joptOption{name: "report-interval-ms", arg: requiredArg, typ: "Long", what: "ms", def: "30000", help: "The reporting interval."},
	)
}

// kafkaReplicaVerification is kafka-replica-verification.
func kafkaReplicaVerification(env Env, args []string) int {
	logLine(env.Stderr, "WARN", "This tool is deprecated and may be removed in a future major release.", replicaVerificationLogger, nil)
	return endTool(env, replicaVerification(env, args))
}

// replicaCheck compares what the replicas of partitions hold, from one offset to the next that all of them have.
type replicaCheck struct {
	env       Env
	admin     *admin
	wait      int32
	fetchSize int32
	every     time.Duration
	parts     []*replicaPart // by topic and partition
}

// A replicaPart is a partition and how far its replicas were compared.
type replicaPart struct {
	topicPartition
	id       [16]byte
	leader   int32
	replicas []int32
	offset   int64
	highest  int64 // high watermark that any replica told
}

func replicaVerification(env Env, args []string) error {
	parser := replicaVerificationParser()
	if len(args) == 0 {
		return parser.usage("%s", replicaVerificationPurpose)
	}
	set, err := parser.parse(args)
	if err != nil {
		return err
	}
	if err := set.helpOrVersion(env, args, replicaVerificationPurpose); err != nil {
		return err
	}
	if err := set.require("broker-list"); err != nil {
		return err
	}
	servers, _, err := set.text("broker-list")
	if err != nil {
		return err
	}
	if err := checkServers(parser, servers); err != nil {
		return err
	}
	pattern, _, err := set.text("topics-include")
	if err != nil {
		return err
	}
	include, err := compileJava(pattern)
	if err != nil {
		return throw("java.util.regex.PatternSyntaxException", err.Error())
	}
	var fetchSize, wait, when, every int64
	for option, to := range map[string]*int64{"fetch-size": &fetchSize, "max-wait-ms": &wait, "time": &when, "report-interval-ms": &every} {
		if *to, _, err = set.number(option); err != nil {
			return err
		}
	}
	a, err := newAdmin(env, clientConfig{"bootstrap.servers": servers, "client.id": "ReplicaVerificationTool"}, "ReplicaVerificationTool")
	if err != nil {
		return err
	}
	defer a.close()
	c := &replicaCheck{env: env, admin: a, wait: int32(wait), fetchSize: int32(fetchSize), every: time.Duration(min(every, maxMillis)) * time.Millisecond}
	answer, err := a.metadata("listTopics", nil)
	if err != nil {
		return err
	}
	for _, t := range answer.Topics {
		if t.Topic == nil || !include.MatchString(*t.Topic) {
			continue
		}
		for _, p := range t.Partitions {
			c.parts = append(c.parts, &replicaPart{topicPartition: topicPartition{*t.Topic, p.Partition}, id: t.TopicID, leader: p.Leader, replicas: p.Replicas})
		}
	}
	if len(c.parts) == 0 {
		logLine(env.Stderr, "ERROR", "No topics found. [topics-include] if specified, is either filtering out all topics or there is no topic.", replicaVerificationLogger, nil)
		return &exitError{1}
	}
	slices.SortFunc(c.parts, func(a, b *replicaPart) int {
		if n := strings.Compare(a.topic, b.topic); n != 0 {
			return n
		}
		return int(a.partition - b.partition)
	})
	if err := c.begin(when); err != nil {
		return err
	}
	signals := env.interrupted()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- c.run(ctx) }()
	select {
	case err := <-done:
		return err
	case sig := <-signals:
		cancel()
		<-done
		return &exitError{signalCode(sig)}
	}
}

// begin asks the leaders where to begin.
func (c *replicaCheck) begin(when int64) error {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	for _, p := range c.parts {
		topic, part := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
		topic.Topic, part.Partition, part.Timestamp = p.topic, p.partition, when
		topic.Partitions = append(topic.Partitions, part)
		req.Topics = append(req.Topics, topic)
	}
	answer, err := call[*kmsg.ListOffsetsResponse](c.admin, "listOffsets", req)
	if err != nil {
		return err
	}
	for _, t := range answer.Topics {
		for _, got := range t.Partitions {
			if err := brokerError(got.ErrorCode, nil); err != nil {
				return err
			}
			for _, p := range c.parts {
				if p.topic == t.Topic && p.partition == got.Partition {
					p.offset = max(got.Offset, 0) // of a time after the last record none is told
				}
			}
		}
	}
	return nil
}

func (c *replicaCheck) print(format string, args ...any) {
	fmt.Fprintf(c.env.Stdout, "%s: %s\n", time.Now().Format("2006-01-02 15:04:05,000"), fmt.Sprintf(format, args...))
}

// run compares until replicas differ or ctx ends.
func (c *replicaCheck) run(ctx context.Context) error {
	c.print("verification process is started")
	for reported := time.Now(); ctx.Err() == nil; {
		held := c.fetch(ctx)
		if ctx.Err() != nil {
			return nil
		}
		quiet := true
		for _, p := range c.parts {
			before := p.offset
			if !c.compare(p, held) {
				return &exitError{1}
			}
			quiet = quiet && p.offset == before
		}
		if time.Since(reported) > c.every {
			most := slices.MaxFunc(c.parts, func(a, b *replicaPart) int { return int(a.highest - a.offset - (b.highest - b.offset)) })
			c.print("max lag is %d for partition %s-%d at offset %d among %d partitions", most.highest-most.offset, most.topic, most.partition, most.offset, len(c.parts))
			reported = time.Now()
		}
		if quiet {
			pause(ctx, perfBackoff) // a broker that is down, or behind, answers at once
		}
	}
	return nil
}

// replicaBytes is what one replica holds from an offset on.
type replicaBytes struct {
	broker, partition int32
	id                [16]byte
	topic             string
	high              int64
	entries           []record.Entry
}

// fetch asks every broker for the partitions of which it has a replica. Of what fails there is nothing.
func (c *replicaCheck) fetch(ctx context.Context) []replicaBytes {
	requests := map[int32]*kmsg.FetchRequest{}
	for _, p := range c.parts {
		for _, broker := range p.replicas {
			req := requests[broker]
			if req == nil {
				req = kmsg.NewPtrFetchRequest()
				req.ReplicaID, req.ReplicaState.ID = debuggingReplica, debuggingReplica
				req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = c.wait, 1, 1<<31-1, -1
				requests[broker] = req
			}
			topic, part := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
			topic.Topic, topic.TopicID = p.topic, p.id
			part.Partition, part.FetchOffset, part.PartitionMaxBytes = p.partition, p.offset, c.fetchSize
			if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != p.topic {
				req.Topics = append(req.Topics, topic)
			}
			last := &req.Topics[len(req.Topics)-1]
			last.Partitions = append(last.Partitions, part)
		}
	}
	var all sync.WaitGroup
	var mu sync.Mutex // guards held
	var held []replicaBytes
	for broker, req := range requests {
		all.Go(func() {
			resp, err := c.admin.cl.Broker(int(broker)).RetriableRequest(ctx, req)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for _, t := range resp.(*kmsg.FetchResponse).Topics {
				for _, got := range t.Partitions {
					entries, _, err := cutEntries(got.RecordBatches, 0)
					if kerr.ErrorForCode(got.ErrorCode) == nil && err == nil {
						held = append(held, replicaBytes{broker, got.Partition, t.TopicID, t.Topic, got.HighWatermark, entries})
					}
				}
			}
		})
	}
	all.Wait()
	return held
}

// compare moves on over the batches that all replicas of p hold below their high watermarks. It is false when two of them differ in
// their offsets; what differs otherwise is told.
func (c *replicaCheck) compare(p *replicaPart, held []replicaBytes) bool {
	var replicas []replicaBytes
	for _, r := range held {
		if r.partition == p.partition && (r.id == p.id || r.topic == p.topic && r.topic != "") {
			replicas = append(replicas, r)
			p.highest = max(p.highest, r.high)
		}
	}
	if len(replicas) < len(p.replicas) || len(replicas) == 0 {
		return true
	}
	slices.SortFunc(replicas, func(a, b replicaBytes) int { return int(a.broker - b.broker) })
	for i := 0; ; i++ {
		for _, r := range replicas {
			if i >= len(r.entries) || int64(r.entries[i].LastOffset()) >= r.high {
				return true
			}
		}
		first := replicas[0].entries[i]
		for _, r := range replicas[1:] {
			e := r.entries[i]
			if e.LastOffset() != first.LastOffset() {
				c.print("partition %s-%d: replica %d's offset %d doesn't match replica %d's offset %d", p.topic, p.partition, replicas[0].broker, first.LastOffset(), r.broker, e.LastOffset())
				return false
			}
			if e.CRC() != first.CRC() {
				c.print("partition %s-%d has unmatched checksum at offset %d; replica %d's checksum %d; replica %d's checksum %d", p.topic, p.partition, e.LastOffset(), replicas[0].broker, first.CRC(), r.broker, e.CRC())
			}
		}
		p.offset = int64(first.LastOffset()) + 1
	}
}
