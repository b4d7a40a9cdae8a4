package tools

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A partitionReplica is a partition on a broker.
type partitionReplica struct {
	groupPartition
	broker int32
}

func (r partitionReplica) String() string { return fmt.Sprintf("%s-%d", r.groupPartition, r.broker) }

// sortedReplicas are the keys of a map, by topic, partition and broker.
func sortedReplicas[V any](of map[partitionReplica]V) []partitionReplica {
	all := make([]partitionReplica, 0, len(of))
	for r := range of {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b partitionReplica) int {
		return cmp.Or(cmp.Compare(a.broker, b.broker), comparePartitions(a.groupPartition, b.groupPartition))
	})
	return all
}

// A reassignPlan is what a file says should be where.
type reassignPlan struct {
	partitions []plannedPartition
	dirs       map[partitionReplica]string // replicas whose directory matters
}

type plannedPartition struct {
	at       groupPartition
	replicas []int32
}

// anyDirectory stands in a plan for a directory of the broker's choice.
const anyDirectory = "any"

func unsupportedJSONVersion(version int32) error {
	return throw(adminOperation, fmt.Sprintf("Not supported version field value %d", version))
}

func parseReassignment(text string) (*reassignPlan, error) {
	js, err := readJackson(text)
	if err != nil {
		return nil, throw(adminOperation, err.Error())
	}
	version, err := js.version()
	if err != nil {
		return nil, err
	}
	if version != 1 {
		return nil, unsupportedJSONVersion(version)
	}
	plan := &reassignPlan{dirs: map[partitionReplica]string{}}
	list, err := js.field("partitions")
	if err != nil {
		return plan, nil
	}
	entries, err := list.array(jacksonArray)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		p, dirs, err := parsePlanned(e)
		if err != nil {
			return nil, err
		}
		plan.partitions = append(plan.partitions, p)
		for i, dir := range dirs {
			if dir != anyDirectory {
				plan.dirs[partitionReplica{p.at, p.replicas[i]}] = dir
			}
		}
	}
	return plan, nil
}

func parsePlanned(e jacksonValue) (p plannedPartition, dirs []string, err error) {
	var fields [3]jacksonValue
	for i, name := range []string{"topic", "partition", "replicas"} {
		if fields[i], err = e.field(name); err != nil {
			return p, nil, err
		}
		switch i {
		case 0:
			p.at.topic, err = fields[i].str()
		case 1:
			p.at.partition, err = fields[i].int32()
		default:
			p.replicas, err = fields[i].int32s()
		}
		if err != nil {
			return p, nil, err
		}
	}
	list, err := e.field("log_dirs")
	if err != nil {
		return p, nil, nil
	}
	if dirs, err = list.strs(); err != nil {
		return p, nil, err
	}
	if len(dirs) != len(p.replicas) {
		return p, nil, throw(adminCommandFailed, fmt.Sprintf("Size of replicas list [%s] is different from size of log dirs list [%s] for partition %s",
			joinIDs(p.replicas, ", "), strings.Join(dirs, ", "), p.at))
	}
	return p, dirs, nil
}

// check refuses plans that make no sense.
func (plan *reassignPlan) check() error {
	if len(plan.partitions) == 0 {
		return throw(adminCommandFailed, "Partition reassignment list cannot be empty")
	}
	if slices.ContainsFunc(plan.partitions, func(p plannedPartition) bool { return len(p.replicas) == 0 }) {
		return throw(adminCommandFailed, "Partition replica list cannot be empty")
	}
	var names []string
	for _, p := range plan.partitions {
		names = append(names, p.at.String())
	}
	if twice := repeated(names); len(twice) > 0 {
		return throw(adminCommandFailed, "Partition reassignment contains duplicate topic partitions: "+strings.Join(twice, ","))
	}
	var complaints []string
	for _, p := range plan.partitions {
		if twice := repeated(p.replicas); len(twice) > 0 {
			complaints = append(complaints, fmt.Sprintf("%s contains multiple entries for %s", p.at, joinIDs(twice, ",")))
		}
	}
	if complaints != nil {
		return throw(adminCommandFailed, "Partition replica lists may not contain duplicate entries: "+strings.Join(complaints, ". "))
	}
	return nil
}

// repeated are the values that stand in a list more than once, each once.
func repeated[V comparable](list []V) []V {
	var twice []V
	for i, v := range list {
		if slices.Contains(list[:i], v) && !slices.Contains(twice, v) {
			twice = append(twice, v)
		}
	}
	return twice
}

func (plan *reassignPlan) byPartition() map[groupPartition][]int32 {
	all := map[groupPartition][]int32{}
	for _, p := range plan.partitions {
		all[p.at] = p.replicas
	}
	return all
}

// topics are those of the plan, in the order of Java's sets.
func (plan *reassignPlan) topics() []string {
	var all []string
	for _, p := range plan.partitions {
		if !slices.Contains(all, p.at.topic) {
			all = append(all, p.at.topic)
		}
	}
	javaMapOrder(all, javaHash, javaMapCapacity)
	return all
}

// brokersOf are brokers, each once, in the order of Java's sets.
func brokersOf(lists ...[]int32) []int32 {
	var all []int32
	for _, list := range lists {
		for _, id := range list {
			if !slices.Contains(all, id) {
				all = append(all, id)
			}
		}
	}
	javaMapOrder(all, func(id int32) uint32 { return uint32(id) }, javaMapCapacity)
	return all
}

// planned are the brokers that the plan names.
func (plan *reassignPlan) planned() [][]int32 {
	var lists [][]int32
	for _, p := range plan.partitions {
		lists = append(lists, p.replicas)
	}
	return lists
}

// liveBrokers are the nodes of the cluster, with their racks.
func (r *reassignment) liveBrokers() ([]kmsg.DescribeClusterResponseBroker, error) {
	endpoints := brokerEndpoints
	if r.controllers != nil {
		endpoints = controllerEndpoints
	}
	resp, err := r.cluster(endpoints, false)
	if err != nil {
		return nil, executionException(err)
	}
	return resp.Brokers, nil
}

// checkBrokers refuses a plan with brokers that are not there.
func (r *reassignment) checkBrokers(plan *reassignPlan) error {
	live, err := r.liveBrokers()
	if err != nil {
		return err
	}
	for _, id := range brokersOf(plan.planned()...) {
		if !slices.ContainsFunc(live, func(b kmsg.DescribeClusterResponseBroker) bool { return b.NodeID == id }) {
			return throw(adminCommandFailed, fmt.Sprintf("Unknown broker id %d", id))
		}
	}
	return nil
}

// describeReplicas asks for the replicas of topics. Those that do not exist are named apart.
func (r *reassignment) describeReplicas(topics []string) (replicas map[groupPartition][]int32, unknown []string, live []int32, err error) {
	replicas = map[groupPartition][]int32{}
	if len(topics) == 0 {
		return replicas, nil, nil, nil
	}
	resp, err := r.metadata("describeTopics", topics)
	if err != nil {
		return nil, nil, nil, executionException(err)
	}
	for _, b := range resp.Brokers {
		live = append(live, b.NodeID)
	}
	for _, t := range resp.Topics {
		if t.ErrorCode == kerr.UnknownTopicOrPartition.Code {
			unknown = append(unknown, *t.Topic)
			continue
		}
		if e := brokerError(t.ErrorCode, nil); e != nil {
			return nil, nil, nil, executionException(e)
		}
		for _, p := range t.Partitions {
			replicas[groupPartition{*t.Topic, p.Partition}] = p.Replicas
		}
	}
	return replicas, unknown, live, nil
}

func unknownTopicOrPartition(message string) error {
	return executionException(throw(kafkaErrors+"UnknownTopicOrPartitionException", message))
}

// placement is where partitions are: on which brokers, and there in which directories. Nil is all partitions of the topics.
func (r *reassignment) placement(topics []string, only map[groupPartition][]int32) (map[groupPartition][]int32, map[partitionReplica]string, error) {
	replicas, unknown, live, err := r.describeReplicas(topics)
	if err != nil {
		return nil, nil, err
	}
	if len(unknown) > 0 {
		return nil, nil, unknownTopicOrPartition("Topic " + unknown[0] + " not found.")
	}
	if only != nil {
		for at := range replicas {
			if _, ok := only[at]; !ok {
				delete(replicas, at)
			}
		}
		for _, at := range sortedPartitions(only) {
			if _, ok := replicas[at]; !ok {
				return nil, nil, unknownTopicOrPartition("Unable to find partition: " + at.String())
			}
		}
	}
	present := map[partitionReplica]string{}
	for at, ids := range replicas {
		for _, id := range ids {
			if slices.Contains(live, id) {
				present[partitionReplica{at, id}] = ""
			}
		}
	}
	found, err := r.dirsOf(present)
	if err != nil {
		return nil, nil, err
	}
	dirs := map[partitionReplica]string{}
	for at, d := range found {
		dirs[at] = d.current
	}
	return replicas, dirs, nil
}

// A replicaDirs is the directory of a replica, and the one that it moves to, if it does.
type replicaDirs struct {
	known           bool // the broker has it
	current, future string
}

// dirsOf asks brokers for the directories of replicas. What is not in the answer is not in the result.
func (r *reassignment) dirsOf(replicas map[partitionReplica]string) (map[partitionReplica]replicaDirs, error) {
	if len(replicas) > 0 {
		if err := r.brokersOnly(); err != nil {
			return nil, executionException(err)
		}
	}
	requests := map[int32]*kmsg.DescribeLogDirsRequest{}
	var brokers []int32
	for _, at := range sortedReplicas(replicas) {
		req := requests[at.broker]
		if req == nil {
			req = kmsg.NewPtrDescribeLogDirsRequest()
			requests[at.broker] = req
			brokers = append(brokers, at.broker)
		}
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != at.topic {
			t := kmsg.NewDescribeLogDirsRequestTopic()
			t.Topic = at.topic
			req.Topics = append(req.Topics, t)
		}
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, at.partition)
	}
	found := map[partitionReplica]replicaDirs{}
	for _, id := range brokers {
		resp, err := callBroker[*kmsg.DescribeLogDirsResponse](r.admin, "describeReplicaLogDirs", id, requests[id])
		if err != nil {
			return nil, executionException(err)
		}
		if e := brokerError(resp.ErrorCode, nil); e != nil {
			return nil, executionException(e)
		}
		for _, d := range resp.Dirs {
			for _, t := range d.Topics {
				for _, p := range t.Partitions {
					at := partitionReplica{groupPartition{t.Topic, p.Partition}, id}
					dirs := found[at]
					dirs.known = true
					if p.IsFuture {
						dirs.future = d.Dir
					} else {
						dirs.current = d.Dir
					}
					found[at] = dirs
				}
			}
		}
	}
	return found, nil
}

// dirMoves is dirsOf for replicas that a plan gives directories to.
func (r *reassignment) dirMoves(dirs map[partitionReplica]string) (map[partitionReplica]replicaDirs, error) {
	if len(dirs) == 0 {
		return nil, nil
	}
	return r.dirsOf(dirs)
}

// text tells how far the move of a replica to a directory is.
func (d replicaDirs) text(at partitionReplica, target string) string {
	switch {
	case !d.known:
		return fmt.Sprintf("Partition %s cannot be found in any live log directory on broker %d.", at.groupPartition, at.broker)
	case d.current == "":
		return fmt.Sprintf("Partition %s is not found in any live log dir on broker %d. There is likely an offline log directory on the broker.", at.groupPartition, at.broker)
	case d.future == target:
		return fmt.Sprintf("Reassignment of replica %s is still in progress.", at)
	case d.future != "":
		return fmt.Sprintf("Partition %s on broker %d is being moved to log dir %s instead of %s.", at.groupPartition, at.broker, d.future, target)
	case d.current != target:
		return fmt.Sprintf("Partition %s on broker %d is not being moved from log dir %s to %s.", at.groupPartition, at.broker, d.current, target)
	}
	return fmt.Sprintf("Reassignment of replica %s completed successfully.", at)
}

// alterDirs asks for moves once, and returns those that have begun.
func (r *reassignment) alterDirs(moves map[partitionReplica]string) ([]partitionReplica, error) {
	requests := map[int32]*kmsg.AlterReplicaLogDirsRequest{}
	var brokers []int32
	for _, at := range sortedReplicas(moves) {
		req := requests[at.broker]
		if req == nil {
			req = kmsg.NewPtrAlterReplicaLogDirsRequest()
			requests[at.broker] = req
			brokers = append(brokers, at.broker)
		}
		i := slices.IndexFunc(req.Dirs, func(d kmsg.AlterReplicaLogDirsRequestDir) bool { return d.Dir == moves[at] })
		if i < 0 {
			i = len(req.Dirs)
			d := kmsg.NewAlterReplicaLogDirsRequestDir()
			d.Dir = moves[at]
			req.Dirs = append(req.Dirs, d)
		}
		d := &req.Dirs[i]
		j := slices.IndexFunc(d.Topics, func(t kmsg.AlterReplicaLogDirsRequestDirTopic) bool { return t.Topic == at.topic })
		if j < 0 {
			j = len(d.Topics)
			t := kmsg.NewAlterReplicaLogDirsRequestDirTopic()
			t.Topic = at.topic
			d.Topics = append(d.Topics, t)
		}
		d.Topics[j].Partitions = append(d.Topics[j].Partitions, at.partition)
	}
	var begun []partitionReplica
	for _, id := range brokers {
		resp, err := callBroker[*kmsg.AlterReplicaLogDirsResponse](r.admin, "alterReplicaLogDirs", id, requests[id])
		if err != nil {
			return nil, throw(adminCommandFailed, "Failed to alter dir for "+r.firstOn(id, moves).String()).because(err)
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				at := partitionReplica{groupPartition{t.Topic, p.Partition}, id}
				switch e := brokerError(p.ErrorCode, nil); {
				case p.ErrorCode == kerr.ReplicaNotAvailable.Code: // not yet
				case e != nil:
					return nil, throw(adminCommandFailed, "Failed to alter dir for "+at.String()).because(e)
				default:
					begun = append(begun, at)
				}
			}
		}
	}
	return begun, nil
}

func (r *reassignment) firstOn(broker int32, moves map[partitionReplica]string) partitionReplica {
	all := sortedReplicas(moves)
	return all[max(0, slices.IndexFunc(all, func(at partitionReplica) bool { return at.broker == broker }))]
}

// reassignmentJSON writes where partitions are in the form that --reassignment-json-file reads.
func reassignmentJSON(replicas map[groupPartition][]int32, dirs map[partitionReplica]string) string {
	type partition struct {
		Topic     string   `json:"topic"`
		Partition int32    `json:"partition"`
		Replicas  []int32  `json:"replicas"`
		LogDirs   []string `json:"log_dirs"`
	}
	file := struct {
		Version    int         `json:"version"`
		Partitions []partition `json:"partitions"`
	}{1, []partition{}}
	for _, at := range sortedPartitions(replicas) {
		p := partition{at.topic, at.partition, append([]int32{}, replicas[at]...), []string{}}
		for _, id := range p.Replicas {
			p.LogDirs = append(p.LogDirs, cmp.Or(dirs[partitionReplica{at, id}], anyDirectory))
		}
		file.Partitions = append(file.Partitions, p)
	}
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(file); err != nil {
		return err.Error() // these types always encode
	}
	return strings.TrimSuffix(out.String(), "\n")
}
