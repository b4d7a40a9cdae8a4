package tools

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

const invalidReplicationFactor = kafkaErrors + "InvalidReplicationFactorException"

// generate proposes where the partitions of topics could be among some brokers.
func (r *reassignment) generate(text string) error {
	list, _, err := r.set.text("broker-list")
	if err != nil {
		return err
	}
	var ids []int32
	for word := range strings.SplitSeq(list, ",") {
		id, err := javaInt(word, 32)
		if err != nil {
			return err
		}
		ids = append(ids, int32(id))
	}
	if twice := repeated(ids); len(twice) > 0 {
		return throw(adminCommandFailed, "Broker list contains duplicate entries: ["+joinIDs(twice, ", ")+"]")
	}
	topics, err := parseTopicsToMove(text)
	if err != nil {
		return err
	}
	if twice := repeated(topics); len(twice) > 0 {
		return throw(adminCommandFailed, "List of topics to reassign contains duplicate entries: ["+strings.Join(twice, ", ")+"]")
	}
	current, dirs, err := r.placement(topics, nil)
	if err != nil {
		return err
	}
	brokers, err := r.usableBrokers(ids)
	if err != nil {
		return err
	}
	proposed := map[groupPartition][]int32{}
	for _, topic := range topics {
		var partitions []groupPartition
		for _, at := range sortedPartitions(current) {
			if at.topic == topic {
				partitions = append(partitions, at)
			}
		}
		if partitions == nil {
			continue
		}
		placed, err := placeReplicas(brokers, len(partitions), len(current[partitions[0]]))
		if err != nil {
			return err
		}
		for i, at := range partitions {
			proposed[at] = placed[i]
		}
	}
	fmt.Fprintf(r.env.Stdout, "Current partition replica assignment\n%s\n\n", reassignmentJSON(current, dirs))
	fmt.Fprintf(r.env.Stdout, "Proposed partition reassignment configuration\n%s\n", reassignmentJSON(proposed, nil))
	return nil
}

// parseTopicsToMove reads names of topics.
func parseTopicsToMove(text string) ([]string, error) {
	js, err := readJackson(text)
	if err != nil {
		return nil, throw(adminOperation, "The input string is not a valid JSON")
	}
	version, err := js.version()
	if err != nil {
		return nil, err
	}
	if version != 1 {
		return nil, unsupportedJSONVersion(version)
	}
	list, err := js.field("topics")
	if err != nil {
		return nil, nil
	}
	entries, err := list.array(jacksonArray)
	if err != nil {
		return nil, err
	}
	var topics []string
	for _, e := range entries {
		field, err := e.field("topic")
		if err != nil {
			return nil, err
		}
		topic, err := field.str()
		if err != nil {
			return nil, err
		}
		topics = append(topics, topic)
	}
	return topics, nil
}

// A usableBroker may be given replicas; rack is "" if it has none or racks do not count.
type usableBroker struct {
	id   int32
	rack string
}

// usableBrokers are those of the brokers named that are there, sorted.
func (r *reassignment) usableBrokers(ids []int32) ([]usableBroker, error) {
	live, err := r.liveBrokers()
	if err != nil {
		return nil, err
	}
	aware := !r.set.has("disable-rack-aware")
	var usable []usableBroker
	rackless := 0
	for _, b := range live {
		if !slices.Contains(ids, b.NodeID) {
			continue
		}
		u := usableBroker{id: b.NodeID}
		if aware && b.Rack != nil {
			u.rack = *b.Rack
		} else {
			rackless++
		}
		usable = append(usable, u)
	}
	if aware && rackless > 0 && rackless < len(usable) {
		return nil, throw(adminOperation, "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica assignment without rack information.")
	}
	slices.SortFunc(usable, func(a, b usableBroker) int { return cmp.Compare(a.id, b.id) })
	return usable, nil
}

// placeReplicas gives each partition as many brokers as it has replicas. Leaders go round the brokers; a partition's
// replicas come from as many racks as there are, and within one round no two leaders have the same followers. Where the
// round begins is chance.
func placeReplicas(brokers []usableBroker, partitions, replicas int) ([][]int32, error) {
	if len(brokers) == 0 {
		return nil, throw(invalidReplicationFactor, "All brokers are currently fenced, or have all their log directories cordoned.")
	}
	if replicas > len(brokers) {
		return nil, throw(invalidReplicationFactor, fmt.Sprintf("The target replication factor of %d cannot be reached because only %d broker(s) are registered or some brokers have all their log directories cordoned.", replicas, len(brokers)))
	}
	ring := byTurns(brokers)
	n := len(ring)
	start, shift := rand.IntN(n), rand.IntN(n)
	placed := make([][]int32, partitions)
	for i := range placed {
		if i > 0 && i%n == 0 {
			shift++
		}
		leader := (i + start) % n
		chosen := []usableBroker{ring[leader]}
		// First brokers in racks that the partition has no replica in yet, then any.
		for _, everyRack := range []bool{true, false} {
			for step := 0; step < n-1 && len(chosen) < replicas; step++ {
				next := ring[(leader+1+(shift+step)%(n-1))%n]
				if slices.Contains(chosen, next) || everyRack && next.rack != "" && slices.ContainsFunc(chosen, func(b usableBroker) bool { return b.rack == next.rack }) {
					continue
				}
				chosen = append(chosen, next)
			}
		}
		for _, b := range chosen {
			placed[i] = append(placed[i], b.id)
		}
	}
	return placed, nil
}

// byTurns orders brokers so that neighbours are of different racks, as far as there are.
func byTurns(brokers []usableBroker) []usableBroker {
	racks := map[string][]usableBroker{}
	var names []string
	for _, b := range brokers {
		if racks[b.rack] == nil {
			names = append(names, b.rack)
		}
		racks[b.rack] = append(racks[b.rack], b)
	}
	slices.Sort(names)
	var ring []usableBroker
	for turn := 0; len(ring) < len(brokers); turn++ {
		for _, name := range names {
			if rack := racks[name]; turn < len(rack) {
				ring = append(ring, rack[turn])
			}
		}
	}
	return ring
}
