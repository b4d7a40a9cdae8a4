package tools

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const streamsGroupsPurpose = "This tool helps to list, or describe streams groups."

var streamsStates = []string{"Empty", "NotReady", "Stable", "Assigning", "Reconciling", "Dead"}

func streamsGroupsParser() *joptParser {
	return newJopt(append(resetOptions("streams group"),
		joptOption{name: "bootstrap-server", arg: requiredArg, what: "server to connect to", help: "REQUIRED: The server(s) to connect to."},
		joptOption{name: "group", arg: requiredArg, what: "streams group", help: "The streams group we wish to act on."},
		joptOption{name: "input-topic", arg: requiredArg, what: "topic", help: "The input topic whose committed offset should be deleted or reset. In `reset-offsets` case, partitions can be specified using this format: " +
			"`topic1:0,1,2`, where 0,1,2 are the partition to be included in the process. Multiple input topics can be specified. Supported operations: delete-offsets, reset-offsets."},
		joptOption{name: "all-input-topics", help: "Consider all source topics used in the topology of the group. Supported operations: delete-offsets, reset-offsets."},
		joptOption{name: "list", help: "List all streams groups."},
		joptOption{name: "describe", help: "Describe streams group and list offset lag related to given group."},
		joptOption{name: "all-groups", help: "Apply to all streams groups."},
		joptOption{name: "delete", help: "Pass in groups to delete topic partition offsets and ownership information over the entire streams group. For instance --group g1 --group g2"},
		joptOption{name: "delete-offsets", help: "Delete offsets of streams group. Supports one streams group at the time, and multiple topics."},
		joptOption{name: "timeout", arg: requiredArg, typ: "Long", what: "timeout (ms)", def: "30000", help: "The timeout that can be set for some use cases. For example, it can be used when describing the group " +
			"to specify the maximum amount of time in milliseconds to wait before the group stabilizes."},
		joptOption{name: "command-config", arg: requiredArg, what: "command config property file", help: "Property file containing configs to be passed to Admin Client."},
		joptOption{name: "state", arg: optionalArg, help: "When specified with '--list', it displays the state of all groups. It can also be used to list groups with specific states. " +
			"Valid values are Empty, NotReady, Stable, Assigning, Reconciling, and Dead."},
		joptOption{name: "members", help: "Describe members of the group. This option may be used with the '--describe' option only."},
		joptOption{name: "offsets", help: "Describe the group and list all topic partitions in the group along with their offset information." +
			"This is the default sub-action and may be used with the '--describe' option only."},
		joptOption{name: "reset-offsets", help: "Reset offsets of streams group. The instances should be inactive.\n" +
			"Has 2 execution options: --dry-run to plan which offsets to reset, and --execute to update the offsets.\n" +
			"If you use --execute, all internal topics linked to the group will also be deleted.\n" +
			"You must choose one of the following reset specifications: --to-datetime, --by-duration, --to-earliest, --to-latest, --shift-by, --from-file, --to-current, --to-offset.\n" +
			"To define the scope use --all-input-topics or --input-topic. One scope must be specified unless you use '--from-file'.\n" +
			"Fails if neither '--dry-run' nor '--execute' is specified."},
		joptOption{name: "delete-internal-topic", arg: requiredArg, help: "Delete specified internal topic of the streams group. Supported operations: reset-offsets." +
			"This option is applicable only when --execute is used."},
		joptOption{name: "delete-all-internal-topics", help: "Delete all internal topics linked to the streams group. Supported operations: reset-offsets, delete. " +
			"With reset-offsets, this option is applicable only when --execute is used."},
		joptOption{name: "verbose", help: "Use with --describe --state  to show group epoch and target assignment epoch.\n" +
			"Use with --describe --members to show for each member the member epoch, target assignment epoch, current assignment, target assignment, and whether member is still using the classic rebalance protocol.\n" +
			"Use with --describe --offsets  and --describe  to show leader epochs for each partition."},
	)...)
}

// streamsGroupsCommand is one call of kafka-streams-groups, with its client.
type streamsGroupsCommand struct{ groupsCommand }

// kafkaStreamsGroups is kafka-streams-groups. Unlike its siblings it ends with 1 after what brokers refuse.
func kafkaStreamsGroups(env Env, args []string) int {
	set, err := streamsGroupsParser().parse(args)
	if err == nil {
		err = groupOptionsAvailable(set)
	}
	if err != nil {
		fmt.Fprintln(env.Stderr, err)
		return 1
	}
	if err = checkStreamsGroups(env, set, args); err == nil {
		err = runStreamsGroups(env, set)
	}
	if err == nil {
		return 0
	}
	if code, ended := endOfParsing(env, err); ended {
		return code
	}
	e := asJava(err)
	if _, badOption := errors.AsType[*joptError](err); badOption || e.class == illegalArgument || e.class == numberFormat {
		return (&usageError{e.text(), set.parser}).print(env)
	}
	printGroupError(env, "Executing streams group command failed due to "+e.text())
	fmt.Fprintln(env.Stderr, e.trace())
	return 1
}

func checkStreamsGroups(env Env, set *joptSet, args []string) error {
	if err := set.helpOrVersion(env, args, streamsGroupsPurpose); err != nil {
		return err
	}
	if err := set.require("bootstrap-server"); err != nil {
		return err
	}
	if err := checkGroupViews(set, "[all-groups], [group]"); err != nil {
		return err
	}
	usage := set.parser.usage
	scoped := set.has("group") || set.has("all-groups")
	topics := set.has("input-topic") || set.has("all-input-topics")
	switch {
	case set.has("delete") && !scoped:
		return usage("Option [delete] takes one of these options: [all-groups], [group]")
	case set.has("delete") && topics:
		return usage("Kafka Streams does not support topic-specific offset deletion from a streams group.")
	case set.has("delete-offsets") && !(topics && set.has("group")):
		return usage("Option [delete-offsets] takes the [group] and one of these options: [all-input-topics], [input-topic]")
	case set.has("delete-offsets") && len(set.all("group")) > 1:
		return usage("Option [delete-offsets] supports only one [group] at a time, but found: %s", javaList(set.all("group")))
	}
	if set.has("reset-offsets") {
		switch {
		case set.has("dry-run") && set.has("execute"):
			return usage("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
		case !set.has("dry-run") && !set.has("execute"):
			return usage("Option [reset-offsets] takes the option: [execute] or [dry-run]")
		case !scoped:
			return usage("Option [reset-offsets] takes one of these options: [all-groups], [group]")
		}
		if err := set.alternatives(resetWaysChecked...); err != nil {
			return err
		}
	}
	switch {
	case set.has("delete-all-internal-topics"):
		switch {
		case !set.has("reset-offsets") && !set.has("delete"):
			return usage("Option [delete-all-internal-topics] takes one of these options: [delete], [reset-offsets]")
		case set.has("reset-offsets") && !set.has("execute"):
			return usage("Option [delete-all-internal-topics] takes [execute] when [reset-offsets] is used.")
		}
	case set.has("delete-internal-topic") && !(set.has("reset-offsets") && set.has("execute")):
		return usage("Option [delete-internal-topic] takes [reset-offsets] when [execute] is used.")
	}
	if (set.has("dry-run") || set.has("execute")) && !set.has("reset-offsets") {
		return usage("Only Option [reset-offsets] accepts [execute] or [dry-run]")
	}
	for _, row := range [][]string{{"list", "members", "offsets"}, {"group", "all-groups", "list"}, {"input-topic", "list", "describe", "delete"}} {
		if err := set.conflict(row[0], row[1:]...); err != nil {
			return err
		}
	}
	if set.countOf("list", "describe", "delete", "reset-offsets", "delete-offsets") != 1 {
		return usage("Command must include exactly one action: --list, --describe, --delete, --reset-offsets, or --delete-offsets.")
	}
	return nil
}

func runStreamsGroups(env Env, set *joptSet) error {
	common, err := newGroupsCommand(env, set)
	if err != nil {
		return err
	}
	defer common.close()
	for _, way := range resetWaysChecked { // their values are read whatever there is to do
		if set.has(way) && set.parser.lookup(way).arg == requiredArg {
			if _, err := set.resetValue(way); err != nil {
				return err
			}
		}
	}
	c := &streamsGroupsCommand{*common}
	switch {
	case set.has("list"):
		return c.listType("Streams", streamsStates)
	case set.has("describe"):
		return c.describe()
	case set.has("delete"):
		return c.delete()
	case set.has("reset-offsets"):
		return c.reset()
	}
	return c.deleteOffsets()
}

// ids are the groups to act on, as often as they are named.
func (c *streamsGroupsCommand) ids() ([]string, error) {
	if !c.set.has("all-groups") {
		return slices.Clone(c.set.all("group")), nil
	}
	groups, err := c.groupsOfType("Streams", nil)
	if err != nil {
		return nil, runtimeException(err)
	}
	var ids []string
	for _, g := range groups {
		ids = append(ids, g.Group)
	}
	return ids, nil
}

// A streamsGroup is what a coordinator says of one.
type streamsGroup struct {
	kmsg.StreamsGroupDescribeResponseGroup
	coordinator groupCoordinator
}

// streamsRetryAfter is how long a coordinator that moves or loads is left alone.
const streamsRetryAfter = 100 * time.Millisecond

// describeStreams asks for one group. Its error is not wrapped.
func (c *streamsGroupsCommand) describeStreams(id string) (*streamsGroup, error) {
	for begin := time.Now(); ; time.Sleep(streamsRetryAfter) {
		g, err := c.describeStreamsOnce(id)
		// franz-go finds coordinators for the requests that it knows, which this one is not.
		if err == nil || !isKafkaError(err, kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator) || time.Since(begin) > c.apiTimeout {
			return g, err
		}
	}
}

func (c *streamsGroupsCommand) describeStreamsOnce(id string) (*streamsGroup, error) {
	coordinator, err := c.coordinatorOf("describeStreamsGroups(api=FIND_COORDINATOR)", id)
	if err == nil {
		err = c.served("describeStreamsGroups", kmsg.StreamsGroupDescribe, "STREAMS_GROUP_DESCRIBE")
	}
	if err != nil {
		return nil, err
	}
	req := kmsg.NewPtrStreamsGroupDescribeRequest()
	req.Groups = []string{id}
	resp, err := callBroker[*kmsg.StreamsGroupDescribeResponse](c.admin, "describeStreamsGroups", coordinator.id, req)
	if err != nil {
		return nil, err
	}
	if len(resp.Groups) == 0 {
		return nil, brokerError(kerr.GroupIDNotFound.Code, nil)
	}
	switch code := resp.Groups[0].ErrorCode; code {
	case 0:
		return &streamsGroup{resp.Groups[0], coordinator}, nil
	case kerr.GroupIDNotFound.Code, kerr.UnsupportedVersion.Code, kerr.GroupAuthorizationFailed.Code,
		kerr.CoordinatorLoadInProgress.Code, kerr.CoordinatorNotAvailable.Code, kerr.NotCoordinator.Code:
	default:
		c.logUnexpected("DescribeStreamsGroupsHandler", fmt.Sprintf("`DescribeStreamsGroups` request for group id %s failed due to unexpected error %s", id, errorName(code)))
	}
	return nil, brokerError(resp.Groups[0].ErrorCode, resp.Groups[0].ErrorMessage)
}

// subtopologies are the parts of the application that can be assigned; there are none until its topics are there.
func (g *streamsGroup) subtopologies() []kmsg.StreamsGroupDescribeResponseGroupTopologySubtopology {
	if g.Topology == nil {
		return nil
	}
	return g.Topology.Subtopologies
}

// reads reports whether the application's source topics have this one among them; inner says whether its repartition topics count.
func (g *streamsGroup) reads(topic string, inner bool) bool {
	for _, s := range g.subtopologies() {
		if slices.Contains(s.SourceTopics, topic) || inner && slices.ContainsFunc(s.RepartitionSourceTopics, func(t kmsg.TopicInfo) bool { return t.Topic == topic }) {
			return true
		}
	}
	return false
}

func (c *streamsGroupsCommand) describe() error {
	ids, err := c.ids()
	if err != nil {
		return err
	}
	return describeEach(&c.groupsCommand, ids, c.describeStreams, c.printState, c.printMembers, c.printOffsets)
}

func (c *streamsGroupsCommand) printState(g *streamsGroup) error {
	switch g.State {
	case "Dead":
		printGroupError(c.env, "Streams group '"+g.Group+"' does not exist.")
	case "Empty":
		printGroupError(c.env, "Streams group '"+g.Group+"' has no active members.")
	}
	verbose := c.set.has("verbose")
	printTightTable(c.env.Stdout, []groupColumn{
		{title: "GROUP", width: minColumn}, {title: "COORDINATOR (ID)", width: 25}, {title: "STATE", width: 25, fixed: true},
		{title: "GROUP-EPOCH", width: 15, fixed: true, hidden: !verbose}, {title: "TARGET-ASSIGNMENT-EPOCH", width: 25, fixed: true, hidden: !verbose}, {title: "#MEMBERS"},
	}, [][]string{{g.Group, fmt.Sprintf("%s:%d (%d)", g.coordinator.host, g.coordinator.port, g.coordinator.id), g.State,
		strconv.Itoa(int(g.Epoch)), strconv.Itoa(int(g.AssignmentEpoch)), strconv.Itoa(len(g.Members))}})
	return nil
}

// hasTable is whether members and offsets of a group are shown.
func (g *streamsGroup) hasTable() bool { return g.State != "Dead" && len(g.Members) > 0 }

func (c *streamsGroupsCommand) printMembers(g *streamsGroup) error {
	if !g.hasTable() {
		return nil
	}
	verbose := c.set.has("verbose")
	topologyEpoch := int32(0)
	if g.Topology != nil {
		topologyEpoch = g.Topology.Epoch
	}
	var rows [][]string
	for _, m := range g.Members {
		protocol := "streams"
		if m.IsClassic {
			protocol = "classic"
		}
		tasks := tasksText("", m.Assignment)
		if verbose {
			tasks += tasksText("TARGET-", m.TargetAssignment)
		}
		rows = append(rows, []string{g.Group, strconv.Itoa(int(g.AssignmentEpoch)), strconv.Itoa(int(topologyEpoch)), m.MemberID, protocol,
			strconv.Itoa(int(m.MemberEpoch)), m.ProcessID, m.ClientID, tasks})
	}
	printTightTable(c.env.Stdout, []groupColumn{
		{title: "GROUP", width: minColumn},
		{title: "TARGET-ASSIGNMENT-EPOCH", width: 25, fixed: true, hidden: !verbose}, {title: "TOPOLOGY-EPOCH", width: 14, fixed: true, hidden: !verbose},
		{title: "MEMBER", width: minColumn},
		{title: "MEMBER-PROTOCOL", width: 15, fixed: true, hidden: !verbose}, {title: "MEMBER-EPOCH", width: 15, fixed: true, hidden: !verbose},
		{title: "PROCESS", width: minColumn}, {title: "CLIENT-ID", width: minColumn}, {title: "ASSIGNMENTS"},
	}, rows)
	return nil
}

// tasksText is how the tables show what a member has to do.
func tasksText(prefix string, a kmsg.StreamsAssignment) string {
	var text strings.Builder
	for _, kind := range []struct {
		name  string
		tasks []kmsg.TaskIDs
	}{{"ACTIVE", a.ActiveTasks}, {"STANDBY", a.StandbyTasks}, {"WARMUP", a.WarmupTasks}} {
		if len(kind.tasks) == 0 {
			continue
		}
		text.WriteString(prefix + kind.name + ": ")
		for _, t := range kind.tasks {
			numbers := make([]string, len(t.Partitions))
			for i, p := range t.Partitions {
				numbers[i] = strconv.Itoa(int(p))
			}
			fmt.Fprintf(&text, "%s:[%s]; ", t.SubtopologyID, strings.Join(numbers, ","))
		}
	}
	return text.String()
}

// assigned are the partitions that the members' active tasks read.
func (g *streamsGroup) assigned() ([]groupPartition, error) {
	parts := g.subtopologies()
	var all []groupPartition
	for _, m := range g.Members {
		for _, task := range m.Assignment.ActiveTasks {
			i := slices.IndexFunc(parts, func(s kmsg.StreamsGroupDescribeResponseGroupTopologySubtopology) bool {
				return s.SubtopologyID == task.SubtopologyID
			})
			if i < 0 {
				return nil, throw(illegalArgument, "Subtopology "+task.SubtopologyID+" not found in group description!")
			}
			topics := slices.Clone(parts[i].SourceTopics)
			for _, t := range parts[i].RepartitionSourceTopics {
				topics = append(topics, t.Topic)
			}
			for _, topic := range topics {
				for _, p := range task.Partitions {
					all = append(all, groupPartition{topic, p})
				}
			}
		}
	}
	return all, nil
}

// existing keeps the partitions that there are: a task has a number, and not every topic of its part has so many partitions.
func (c *streamsGroupsCommand) existing(all []groupPartition) ([]groupPartition, error) {
	if len(all) == 0 {
		return nil, nil
	}
	there := map[groupPartition]bool{}
	meta, err := c.metadata("describeTopics", topicsIn(all))
	if err != nil {
		return nil, err
	}
	for _, t := range meta.Topics {
		for _, p := range t.Partitions {
			there[groupPartition{*t.Topic, p.Partition}] = true
		}
	}
	return slices.DeleteFunc(all, func(p groupPartition) bool { return !there[p] }), nil
}

func (c *streamsGroupsCommand) printOffsets(g *streamsGroup) error {
	partitions, err := g.assigned()
	if err != nil {
		return err
	}
	var starts, ends map[groupPartition]int64
	if partitions, err = c.existing(partitions); err == nil {
		if starts, err = c.offsetsAt(partitions, namedTimes["earliest"], true); err == nil {
			ends, err = c.offsetsAt(partitions, namedTimes["latest"], true)
		}
	}
	if err != nil {
		return executionException(err)
	}
	commits, err := c.committedTo(g, true)
	if err != nil || !g.hasTable() {
		return err
	}
	javaMapOrder(partitions, groupPartition.javaHash, javaMapCapacity)
	var rows [][]string
	for _, p := range partitions {
		current, epoch, from := missingColumn, missingColumn, starts[p]
		if i := slices.IndexFunc(commits, func(at committed) bool { return at.groupPartition == p }); i >= 0 {
			from = commits[i].offset
			current = strconv.FormatInt(from, 10)
			if commits[i].epoch >= 0 {
				epoch = strconv.Itoa(int(commits[i].epoch))
			}
		}
		rows = append(rows, []string{g.Group, p.topic, strconv.Itoa(int(p.partition)), current, epoch, strconv.FormatInt(ends[p], 10), strconv.FormatInt(ends[p]-from, 10)})
	}
	verbose := c.set.has("verbose")
	lag := groupColumn{title: "OFFSET-LAG"}
	if verbose {
		lag.width, lag.fixed = 15, true
	}
	printTightTable(c.env.Stdout, []groupColumn{
		{title: "GROUP", width: minColumn}, {title: "TOPIC", width: minColumn}, {title: "PARTITION", width: 10, fixed: true},
		{title: "CURRENT-OFFSET", width: 15, fixed: true, hidden: !verbose}, {title: "LEADER-EPOCH", width: 15, fixed: true, hidden: !verbose},
		{title: "LOG-END-OFFSET", width: 15, fixed: true, hidden: !verbose}, lag,
	}, rows)
	return nil
}

// committedTo lists what a group has committed to the topics that its application reads; inner says whether its repartition topics count.
func (c *streamsGroupsCommand) committedTo(g *streamsGroup, inner bool) ([]committed, error) {
	commits, err := c.committedBy(g.Group)
	if err != nil {
		return nil, runtimeException(executionException(err))
	}
	return slices.DeleteFunc(commits, func(at committed) bool { return !g.reads(at.topic, inner) }), nil
}

// topicsIn are the topics of partitions, each once.
func topicsIn(partitions []groupPartition) []string {
	var topics []string
	for _, p := range partitions {
		if !slices.Contains(topics, p.topic) {
			topics = append(topics, p.topic)
		}
	}
	return topics
}
