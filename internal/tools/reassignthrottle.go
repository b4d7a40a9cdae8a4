package tools

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A throttle is a rate on brokers, and on topics the list of replicas that it holds for.
const (
	leaderThrottleRate   = "leader.replication.throttled.rate"
	followerThrottleRate = "follower.replication.throttled.rate"
	dirThrottleRate      = "replica.alter.log.dirs.io.max.bytes.per.second"
	leaderThrottled      = "leader.replication.throttled.replicas"
	followerThrottled    = "follower.replication.throttled.replicas"
)

// A replicaMove says from which brokers to which a partition's data goes.
type replicaMove struct{ sources, destinations []int32 }

// proposedMoves are the moves that are under way and those that a plan adds. What is under way keeps its sources.
func proposedMoves(current map[groupPartition]moving, plan, before map[groupPartition][]int32) map[groupPartition]replicaMove {
	moves := map[groupPartition]replicaMove{}
	without := func(all, some []int32) []int32 {
		return slices.DeleteFunc(slices.Clone(all), func(id int32) bool { return slices.Contains(some, id) })
	}
	for at, m := range current {
		moves[at] = replicaMove{without(m.replicas, m.adding), m.adding}
	}
	for at, replicas := range plan {
		sources := before[at]
		if m, ok := moves[at]; ok {
			sources = m.sources
		}
		moves[at] = replicaMove{sources, without(replicas, sources)}
	}
	return moves
}

// throttleMoves limits moves to a rate.
func (r *reassignment) throttleMoves(moves map[groupPartition]replicaMove, rate int64) error {
	leaders, followers := map[string][]string{}, map[string][]string{}
	var topics []string
	var brokers [][]int32
	for _, at := range sortedPartitions(moves) {
		m := moves[at]
		if !slices.Contains(topics, at.topic) {
			topics = append(topics, at.topic)
		}
		brokers = append(brokers, m.sources, m.destinations)
		for _, id := range m.sources {
			leaders[at.topic] = append(leaders[at.topic], fmt.Sprintf("%d:%d", at.partition, id))
		}
		for _, id := range m.destinations {
			if !slices.Contains(m.sources, id) {
				followers[at.topic] = append(followers[at.topic], fmt.Sprintf("%d:%d", at.partition, id))
			}
		}
	}
	var changes configChanges
	for _, topic := range topics {
		for key, replicas := range map[string][]string{leaderThrottled: leaders[topic], followerThrottled: followers[topic]} {
			if len(replicas) > 0 {
				slices.Sort(replicas)
				text := strings.Join(replicas, ",")
				changes.add(kmsg.ConfigResourceTypeTopic, topic, key, &text)
			}
		}
	}
	if err := r.change(changes); err != nil {
		return err
	}
	text := strconv.FormatInt(rate, 10)
	changes = configChanges{}
	for _, id := range brokersOf(brokers...) {
		for _, key := range []string{leaderThrottleRate, followerThrottleRate} {
			changes.add(kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(id)), key, &text)
		}
	}
	if err := r.change(changes); err != nil {
		return err
	}
	fmt.Fprintf(r.env.Stdout, "The inter-broker throttle limit was set to %d B/s\n", rate)
	return nil
}

// throttleDirs limits the moves of a plan between directories to a rate.
func (r *reassignment) throttleDirs(plan *reassignPlan, rate int64) error {
	text := strconv.FormatInt(rate, 10)
	var changes configChanges
	var brokers []int32
	for at := range plan.dirs {
		brokers = append(brokers, at.broker)
	}
	for _, id := range brokersOf(brokers) {
		changes.add(kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(id)), dirThrottleRate, &text)
	}
	if err := r.change(changes); err != nil {
		return err
	}
	fmt.Fprintf(r.env.Stdout, "The replica-alter-dir throttle limit was set to %d B/s\n", rate)
	return nil
}

// clearThrottles takes throttles off all brokers, and the topics of a plan.
func (r *reassignment) clearThrottles(plan *reassignPlan) error {
	live, err := r.liveBrokers()
	if err != nil {
		return err
	}
	var ids []int32
	for _, b := range live {
		ids = append(ids, b.NodeID)
	}
	brokers := brokersOf(append([][]int32{ids}, plan.planned()...)...)
	fmt.Fprintf(r.env.Stdout, "Clearing broker-level throttles on broker%s %s\n", plural(len(brokers)), joinIDs(brokers, ","))
	var changes configChanges
	for _, id := range brokers {
		for _, key := range []string{leaderThrottleRate, followerThrottleRate, dirThrottleRate} {
			changes.add(kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(id)), key, nil)
		}
	}
	if err := r.change(changes); err != nil {
		return err
	}
	topics := plan.topics()
	fmt.Fprintf(r.env.Stdout, "Clearing topic-level throttles on topic%s %s\n", plural(len(topics)), strings.Join(topics, ","))
	changes = configChanges{}
	for _, topic := range topics {
		for _, key := range []string{leaderThrottled, followerThrottled} {
			changes.add(kmsg.ConfigResourceTypeTopic, topic, key, nil)
		}
	}
	return r.change(changes)
}

// configChanges are values to set, or, where nil, to take away.
type configChanges struct {
	resources []kmsg.IncrementalAlterConfigsRequestResource
}

func (c *configChanges) add(typ kmsg.ConfigResourceType, name, key string, value *string) {
	i := slices.IndexFunc(c.resources, func(r kmsg.IncrementalAlterConfigsRequestResource) bool {
		return r.ResourceType == typ && r.ResourceName == name
	})
	if i < 0 {
		i = len(c.resources)
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = typ, name
		c.resources = append(c.resources, r)
	}
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value, config.Op = key, value, kmsg.IncrementalAlterConfigOpSet
	if value == nil {
		config.Op = kmsg.IncrementalAlterConfigOpDelete
	}
	c.resources[i].Configs = append(c.resources[i].Configs, config)
}

// change makes changes, and returns the first refusal.
func (a *admin) change(c configChanges) error {
	if len(c.resources) == 0 {
		return nil
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = c.resources
	resp, err := call[*kmsg.IncrementalAlterConfigsResponse](a, "incrementalAlterConfigs", req)
	if err != nil {
		return executionException(err)
	}
	for _, r := range resp.Resources {
		if e := brokerError(r.ErrorCode, r.ErrorMessage); e != nil {
			return executionException(e)
		}
	}
	return nil
}
