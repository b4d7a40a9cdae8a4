package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/config"
	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
)

// partitionsMax bounds the partitions that one request may make: they are one batch of the metadata log.
const partitionsMax = 10000

const partitionsMaxMessage = "Excessively large number of partitions per request."

// CreateTopics makes topics, each or none of one: Kafka's checks in Kafka's order, so that the first complaint is the same.
// When it answers, the partitions take produce.
func (c *Controller) CreateTopics(ctx context.Context, r *kmsg.CreateTopicsRequest) *kmsg.CreateTopicsResponse {
	resp := r.ResponseKind().(*kmsg.CreateTopicsResponse)
	err := c.write(ctx, func(d draft) ([]kmeta.Record, error) {
		var recs []kmeta.Record
		recs, resp.Topics = c.createTopics(d.img, r)
		if r.ValidateOnly {
			return nil, nil
		}
		return recs, nil
	})
	if err != nil {
		resp.Topics = resp.Topics[:0]
		code, message := answer(err)
		for _, t := range r.Topics {
			resp.Topics = append(resp.Topics, refusedTopic(t.Topic, code, message))
		}
	}
	return resp
}

func refusedTopic(name string, code int16, message *string) kmsg.CreateTopicsResponseTopic {
	t := kmsg.NewCreateTopicsResponseTopic()
	t.Topic, t.ErrorCode, t.ErrorMessage = name, code, message
	return t
}

// createTopics decides a request on an image.
func (c *Controller) createTopics(img *metadata.Image, r *kmsg.CreateTopicsRequest) (recs []kmeta.Record, answers []kmsg.CreateTopicsResponseTopic) {
	defaultPartitions := int32(c.static("num.partitions").Int64())
	seen := map[string]int{}
	total := int64(0)
	for _, t := range r.Topics {
		seen[t.Topic]++
		switch {
		case len(t.ReplicaAssignment) > 0:
			total += int64(len(t.ReplicaAssignment))
		case t.NumPartitions == -1:
			total += int64(defaultPartitions)
		case t.NumPartitions > 0:
			total += int64(t.NumPartitions)
		}
	}
	if total > partitionsMax {
		message := partitionsMaxMessage
		for _, t := range r.Topics {
			answers = append(answers, refusedTopic(t.Topic, kerr.PolicyViolation.Code, &message))
		}
		return nil, answers
	}
	collisions := c.collisions(img, r)
	for i := range r.Topics {
		t := &r.Topics[i]
		if n := seen[t.Topic]; n != 1 {
			if n > 1 {
				seen[t.Topic] = -1 // answered once
				code, message := answer(refuse(kerr.InvalidRequest, "Duplicate topic name."))
				answers = append(answers, refusedTopic(t.Topic, code, message))
			}
			continue
		}
		more, a, err := c.createTopic(img, t, collisions)
		if err != nil {
			code, message := answer(err)
			answers = append(answers, refusedTopic(t.Topic, code, message))
			continue
		}
		if key := collisionKey(t.Topic); key != "" {
			collisions[key] = t.Topic
		}
		recs, answers = append(recs, more...), append(answers, a)
	}
	return recs, answers
}

// collisions maps the collision keys that matter to a request to a topic that has them. The image is walked only when some name asked for has one.
func (c *Controller) collisions(img *metadata.Image, r *kmsg.CreateTopicsRequest) map[string]string {
	wanted := map[string]string{}
	asked := false
	for _, t := range r.Topics {
		asked = asked || collisionKey(t.Topic) != ""
	}
	if !asked {
		return wanted
	}
	for t := range img.Topics() {
		if key := collisionKey(t.Name); key != "" {
			wanted[key] = t.Name
		}
	}
	return wanted
}

// createTopic decides one topic: its records and its answer, or why not.
func (c *Controller) createTopic(img *metadata.Image, t *kmsg.CreateTopicsRequestTopic, collisions map[string]string) ([]kmeta.Record, kmsg.CreateTopicsResponseTopic, error) {
	var none kmsg.CreateTopicsResponseTopic
	if t.Topic == metadataTopic {
		return nil, none, refuse(kerr.TopicAuthorizationFailed, "Authorization failed.")
	}
	if err := CheckTopicName(t.Topic); err != nil {
		return nil, none, err
	}
	if img.Topic(t.Topic) != nil {
		return nil, none, refuse(kerr.TopicAlreadyExists, fmt.Sprintf("Topic '%s' already exists.", t.Topic))
	}
	if other, ok := collisions[collisionKey(t.Topic)]; ok && other != t.Topic {
		return nil, none, refuse(kerr.InvalidTopicException, fmt.Sprintf("Topic '%s' collides with existing topic: %s", t.Topic, other))
	}
	overrides, err := c.checkOverrides(img, t)
	if err != nil {
		return nil, none, err
	}
	assignments, err := c.assign(img, t)
	if err != nil {
		return nil, none, err
	}

	// What goes into the image outlives the request, whose strings are views of its frame.
	name := strings.Clone(t.Topic)
	id := kmeta.RandomUUID()
	for img.TopicByID(id) != nil {
		id = kmeta.RandomUUID()
	}
	recs := []kmeta.Record{&kmeta.TopicRecord{Name: name, TopicID: id}}
	for _, kv := range t.Configs {
		value := strings.Clone(*kv.Value)
		recs = append(recs, &kmeta.ConfigRecord{ResourceType: metadata.TopicResource, ResourceName: name, Name: strings.Clone(kv.Name), Value: &value})
	}
	if _, ok := overrides["min.insync.replicas"]; ok && img.Features()[metadata.ELRVersion] > 0 {
		recs = append(recs, &kmeta.ClearELRRecord{TopicName: name})
	}
	for n, replicas := range assignments {
		recs = append(recs, newPartition(img, id, int32(n), replicas))
	}

	a := kmsg.NewCreateTopicsResponseTopic()
	a.Topic, a.TopicID = t.Topic, id
	a.NumPartitions, a.ReplicationFactor = int32(len(assignments)), int16(len(assignments[0]))
	layers := c.Layers(img, c.options.NodeID)
	for _, option := range config.Topic() {
		if option.Internal {
			continue
		}
		v := config.TopicValue(&option, overrides, layers)
		ac := kmsg.NewCreateTopicsResponseTopicConfig()
		ac.Name, ac.Source, ac.IsSensitive = option.Key, int8(v.Source), option.Type == config.Password
		if !v.Null && !ac.IsSensitive {
			text := v.Text
			ac.Value = &text
		}
		a.Configs = append(a.Configs, ac)
	}
	return recs, a, nil
}

// checkOverrides checks the settings that a new topic asks for.
func (c *Controller) checkOverrides(img *metadata.Image, t *kmsg.CreateTopicsRequestTopic) (map[string]string, error) {
	overrides := make(map[string]string, len(t.Configs))
	for _, kv := range t.Configs {
		if kv.Value == nil {
			return nil, refuse(kerr.InvalidConfig, "Null value not supported for topic configs: "+kv.Name)
		}
		if err := checkLength(*kv.Value); err != nil {
			return nil, err
		}
		overrides[kv.Name] = *kv.Value
	}
	return overrides, config.ValidateTopicOn(overrides, c.Layers(img, c.options.NodeID))
}

// assign decides on which brokers each partition of a new topic lies.
func (c *Controller) assign(img *metadata.Image, t *kmsg.CreateTopicsRequestTopic) ([][]int32, error) {
	if len(t.ReplicaAssignment) > 0 {
		return c.assignAsTold(img, t)
	}
	factor, partitions := int(t.ReplicationFactor), t.NumPartitions
	switch {
	case factor < -1 || factor == 0:
		return nil, refuse(kerr.InvalidReplicationFactor, "Replication factor must be larger than 0, or -1 to use the default value.")
	case partitions < -1 || partitions == 0:
		return nil, refuse(kerr.InvalidPartitions, "Number of partitions was set to an invalid non-positive value.")
	}
	if factor == -1 {
		factor = int(c.static("default.replication.factor").Int64())
	}
	if partitions == -1 {
		partitions = int32(c.static("num.partitions").Int64())
	}
	return place(img, int(partitions), factor)
}

func (c *Controller) assignAsTold(img *metadata.Image, t *kmsg.CreateTopicsRequestTopic) ([][]int32, error) {
	switch {
	case t.ReplicationFactor != -1:
		return nil, refuse(kerr.InvalidRequest, "A manual partition assignment was specified, but replication factor was not set to -1.")
	case t.NumPartitions != -1:
		return nil, refuse(kerr.InvalidRequest, "A manual partition assignment was specified, but numPartitions was not set to -1.")
	}
	byPartition := map[int32][]int32{}
	factor := 0
	for _, a := range t.ReplicaAssignment {
		if _, twice := byPartition[a.Partition]; twice {
			return nil, refuse(kerr.InvalidReplicaAssignment, fmt.Sprintf("Found multiple manual partition assignments for partition %d", a.Partition))
		}
		if err := checkAssignment(img, a.Partition, a.Replicas, factor); err != nil {
			return nil, err
		}
		factor = len(a.Replicas)
		byPartition[a.Partition] = slices.Clone(a.Replicas)
	}
	assignments := make([][]int32, len(byPartition))
	for n := range assignments {
		replicas, ok := byPartition[int32(n)]
		if !ok {
			return nil, refuse(kerr.InvalidReplicaAssignment, "partitions should be a consecutive 0-based integer sequence")
		}
		assignments[n] = replicas
	}
	return assignments, nil
}

// checkAssignment checks the replicas that a client chose for a partition; factor is how many the others have, 0 if that is not settled.
func checkAssignment(img *metadata.Image, partition int32, replicas []int32, factor int) error {
	if len(replicas) == 0 {
		return refuse(kerr.InvalidReplicaAssignment, "The manual partition assignment includes an empty replica list.")
	}
	sorted := slices.Sorted(slices.Values(replicas))
	active := false
	for i, id := range sorted {
		b := img.Broker(id)
		if b == nil {
			return refuse(kerr.InvalidReplicaAssignment, fmt.Sprintf("The manual partition assignment includes broker %d, but no such broker is registered.", id))
		}
		if i > 0 && sorted[i-1] == id {
			return refuse(kerr.InvalidReplicaAssignment, fmt.Sprintf("The manual partition assignment includes the broker %d more than once.", id))
		}
		active = active || isActive(b)
	}
	if factor > 0 && len(replicas) != factor {
		return refuse(kerr.InvalidReplicaAssignment, fmt.Sprintf("The manual partition assignment includes a partition with %d replica(s), but this is not consistent with previous partitions, which have %d replica(s).", len(replicas), factor))
	}
	if !active {
		return refuse(kerr.InvalidReplicaAssignment, fmt.Sprintf("All brokers specified in the manual partition assignment for partition %d are fenced or in controlled shutdown.", partition))
	}
	return nil
}

func isActive(b *metadata.Broker) bool { return b != nil && !b.Fenced && !b.InControlledShutdown }

// place spreads partitions over the brokers that are there, beginning with any of them, so that leaders are spread too.
func place(img *metadata.Image, partitions, factor int) ([][]int32, error) {
	var usable []int32
	for b := range img.Brokers() {
		if !b.Fenced && !allCordoned(b) {
			usable = append(usable, b.ID)
		}
	}
	if factor > len(usable) {
		return nil, refuse(kerr.InvalidReplicationFactor, fmt.Sprintf("Unable to replicate the partition %d time(s): The target replication factor of %d cannot be reached because only %d broker(s) are registered or some brokers have all their log directories cordoned.", factor, factor, len(usable)))
	}
	first := rand.IntN(len(usable))
	assignments := make([][]int32, partitions)
	for n := range assignments {
		replicas := make([]int32, factor)
		for i := range replicas {
			replicas[i] = usable[(first+n+i)%len(usable)]
		}
		assignments[n] = replicas
	}
	return assignments, nil
}

func allCordoned(b *metadata.Broker) bool {
	return len(b.Directories) > 0 && len(b.CordonedDirectories) == len(b.Directories)
}

// newPartition is the record of a partition that did not exist: led by the first of its replicas that is there, all who are there in sync.
func newPartition(img *metadata.Image, topic kmeta.UUID, n int32, replicas []int32) *kmeta.PartitionRecord {
	p := &kmeta.PartitionRecord{PartitionID: n, TopicID: topic, Replicas: replicas, Leader: -1, ISR: []int32{}}
	for _, id := range replicas {
		b := img.Broker(id)
		if isActive(b) {
			p.ISR = append(p.ISR, id)
			if p.Leader < 0 {
				p.Leader = id
			}
		}
		if img.MetadataVersion() >= levelDirectories {
			p.Directories = append(p.Directories, defaultDirectory(b))
		}
	}
	return p
}

// unassigned stands for a directory that the broker has yet to choose.
var unassigned = kmeta.UUID{15: 1}

// defaultDirectory is where a broker puts a new replica, as far as the controller can know: a broker of several directories chooses for itself.
func defaultDirectory(b *metadata.Broker) kmeta.UUID {
	if b == nil {
		return unassigned
	}
	usable := slices.DeleteFunc(slices.Clone(b.Directories), func(id kmeta.UUID) bool { return slices.Contains(b.CordonedDirectories, id) })
	if len(usable) != 1 {
		return unassigned
	}
	return usable[0]
}
