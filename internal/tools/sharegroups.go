package tools

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const shareGroupsPurpose = "This tool helps to list, describe, reset and delete share groups."

var shareStates = []string{"Empty", "Stable", "Dead"}

func shareGroupsParser() *joptParser {
	return newJopt(append(resetOptions("share groups", "to-offset", "from-file", "by-duration", "to-current", "shift-by", "export"),
		joptOption{name: "bootstrap-server", arg: requiredArg, what: "server to connect to", help: "REQUIRED: The server(s) to connect to."},
		joptOption{name: "group", arg: requiredArg, what: "share group", help: "The share group we wish to act on."},
		joptOption{name: "topic", arg: requiredArg, what: "topic", help: "The topic whose offset information should be deleted or included in the reset offset process. When resetting offsets, partitions can be specified using this format: 'topic1:0,1,2', where 0,1,2 are the partitions to be included."},
		joptOption{name: "all-topics", help: "Consider all topics assigned to a share group in the 'reset-offsets' process."},
		joptOption{name: "list", help: "List all share groups."},
		joptOption{name: "describe", help: "Describe share group, members and offset information."},
		joptOption{name: "all-groups", help: "Apply to all share groups."},
		joptOption{name: "delete", help: "Delete share group."},
		joptOption{name: "timeout", arg: requiredArg, typ: "Long", what: "timeout (ms)", def: "30000", help: "The timeout that can be set for some use cases. For example, it can be used when describing the group to specify the maximum amount of time in milliseconds to wait before the group stabilizes."},
		joptOption{name: "command-config", arg: requiredArg, what: "command config property file", help: "Property file containing configs to be passed to Admin Client."},
		joptOption{name: "reset-offsets", help: "Reset offsets of share group. Supports one share group at the time, and instances must be inactive.\n" +
			"Has 2 execution options: --dry-run to plan which offsets to reset, and --execute to reset the offsets.\n" +
			"You must choose one of the following reset specifications: --to-datetime, --to-earliest, --to-latest.\n" +
			"To define the scope use --all-topics or --topic.\n" +
			"Fails if neither '--dry-run' nor '--execute' is specified."},
		joptOption{name: "delete-offsets", help: "Delete offsets of share group. Supports one share group at the time, and multiple topics."},
		joptOption{name: "members", help: "Describe members of the group. This option may be used with the '--describe' option only."},
		joptOption{name: "verbose", help: "Provide additional information, if any, when describing the group. This option may be used with the '--describe' option only."},
		joptOption{name: "offsets", help: "Describe the group and list all topic partitions in the group along with their offset information. This is the default sub-action and may be used with the '--describe' option only."},
		joptOption{name: "state", arg: optionalArg, help: "When specified with '--describe', includes the state of the group.\n" +
			"When specified with '--list', it displays the state of all groups. It can also be used to list groups with specific states. Valid values are Empty, Stable and Dead."},
	)...)
}

// shareGroupsCommand is one call of kafka-share-groups, with its client.
type shareGroupsCommand struct{ groupsCommand }

// kafkaShareGroups is kafka-share-groups. Like kafka-consumer-groups it ends with 0 after what brokers refuse.
func kafkaShareGroups(env Env, args []string) int {
	set, err := parseShareGroups(env, args)
	if err != nil {
		return uncaught(env, err)
	}
	err = runShareGroups(env, set)
	if err == nil {
		return 0
	}
	if code, ended := endOfParsing(env, err); ended {
		return code
	}
	e := asJava(err)
	if e.class == illegalArgument || e.class == numberFormat {
		return (&usageError{e.text(), set.parser}).print(env)
	}
	printGroupError(env, "Executing share group command failed due to "+e.text())
	fmt.Fprintln(env.Stderr, e.trace())
	return 0
}

func parseShareGroups(env Env, args []string) (*joptSet, error) {
	set, err := shareGroupsParser().parse(args)
	if err != nil {
		return nil, err
	}
	if err := groupOptionsAvailable(set); err != nil {
		return nil, err
	}
	if err := set.helpOrVersion(env, args, shareGroupsPurpose); err != nil {
		return nil, err
	}
	usage := set.parser.usage
	if set.countOf("list", "describe", "delete", "reset-offsets", "delete-offsets") != 1 {
		return nil, usage("Command must include exactly one action: --list, --describe, --delete, --reset-offsets, --delete-offsets.")
	}
	if err := set.require("bootstrap-server"); err != nil {
		return nil, err
	}
	scoped := set.has("group") || set.has("all-groups")
	if err := checkGroupViews(set, "[all-groups], [group]"); err != nil {
		return nil, err
	}
	switch {
	case set.has("delete") && !scoped:
		return nil, usage("Option [delete] takes the options [group] or [all-groups]")
	case set.has("delete-offsets") && (!set.has("group") || !set.has("topic")):
		return nil, usage("Option [delete-offsets] takes the following options: [group], [topic]")
	}
	if set.has("reset-offsets") {
		switch {
		case set.has("dry-run") && set.has("execute"):
			return nil, usage("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
		case !set.has("dry-run") && !set.has("execute"):
			return nil, usage("Option [reset-offsets] takes the option: [execute] or [dry-run]")
		case !set.has("group"):
			return nil, usage("Option [reset-offsets] takes the following options: [group]")
		case !set.has("all-topics") && !set.has("topic"):
			return nil, usage("Option [reset-offsets] takes one of these options: [all-topics], [topic]")
		}
		if err := set.alternatives("to-datetime", "to-earliest", "to-latest"); err != nil {
			return nil, err
		}
	}
	if err := set.conflict("group", "all-groups", "list"); err != nil {
		return nil, err
	}
	return set, set.conflict("topic", "list", "describe", "delete")
}

func runShareGroups(env Env, set *joptSet) error {
	common, err := newGroupsCommand(env, set)
	if err != nil {
		return err
	}
	defer common.close()
	c := &shareGroupsCommand{*common}
	switch {
	case set.has("list"):
		return c.listType("Share", shareStates)
	case set.has("describe"):
		return c.describe()
	case set.has("delete"):
		return c.delete()
	case set.has("reset-offsets"):
		return c.reset()
	}
	return c.deleteOffsets()
}

// groupsOfType lists the groups of a type in some states, in all if none are given.
func (a *admin) groupsOfType(typ string, states []string) ([]kmsg.ListGroupsResponseGroup, error) {
	req := kmsg.NewPtrListGroupsRequest()
	req.TypesFilter, req.StatesFilter = []string{typ}, states
	groups, err := a.listGroups(req)
	if err != nil {
		return nil, executionException(err)
	}
	return slices.DeleteFunc(groups, func(g kmsg.ListGroupsResponseGroup) bool { return g.GroupType != typ }), nil
}

// listType prints the groups of a type, whose states can be those.
func (c *groupsCommand) listType(typ string, valid []string) error {
	states, err := c.words("state", "state", valid)
	if err != nil {
		return err
	}
	groups, err := c.groupsOfType(typ, states)
	if err != nil {
		if !c.set.has("state") {
			err = runtimeException(err)
		}
		return err
	}
	if !c.set.has("state") {
		for _, g := range groups {
			fmt.Fprintln(c.env.Stdout, g.Group)
		}
		return nil
	}
	width := minColumn
	for _, g := range groups {
		width = max(width, len(g.Group))
	}
	fmt.Fprintf(c.env.Stdout, "%-*s %s\n", width, "GROUP", "STATE")
	for _, g := range groups {
		fmt.Fprintf(c.env.Stdout, "%-*s %s\n", width, g.Group, g.GroupState)
	}
	return nil
}

// ids are the groups to act on, each once.
func (c *shareGroupsCommand) ids() ([]string, error) {
	if !c.set.has("all-groups") {
		return c.groupIDs()
	}
	groups, err := c.groupsOfType("Share", nil)
	var ids []string
	for _, g := range groups {
		ids = append(ids, g.Group)
	}
	return ids, err
}

// describeShare asks for one group.
func (c *shareGroupsCommand) describeShare(id string) (*kmsg.ShareGroupDescribeResponseGroup, error) {
	if err := c.served("describeShareGroups", kmsg.ShareGroupDescribe, "SHARE_GROUP_DESCRIBE"); err != nil {
		return nil, err
	}
	req := kmsg.NewPtrShareGroupDescribeRequest()
	req.GroupIDs = []string{id}
	resp, err := call[*kmsg.ShareGroupDescribeResponse](c.admin, "describeShareGroups", req)
	if err != nil {
		return nil, err
	}
	if len(resp.Groups) == 0 {
		return nil, brokerError(kerr.GroupIDNotFound.Code, nil)
	}
	if e := brokerError(resp.Groups[0].ErrorCode, resp.Groups[0].ErrorMessage); e != nil {
		return nil, e
	}
	return &resp.Groups[0], nil
}

// served refuses what the broker does not serve, in the words of Java's client.
func (a *admin) served(call string, key kmsg.Key, name string) error {
	known, err := a.supports(call, int16(key))
	if err == nil && !known {
		err = throw(kafkaErrors+"UnsupportedVersionException", "The node does not support "+name)
	}
	return err
}

// shareOffsets asks where a group begins in each partition that it has read.
func (c *shareGroupsCommand) shareOffsets(id string) ([]shareOffset, error) {
	if err := c.served("listShareGroupOffsets", kmsg.DescribeShareGroupOffsets, "DESCRIBE_SHARE_GROUP_OFFSETS"); err != nil {
		return nil, err
	}
	g := kmsg.NewDescribeShareGroupOffsetsRequestGroup()
	g.GroupID, g.Topics = id, nil
	req := kmsg.NewPtrDescribeShareGroupOffsetsRequest()
	req.Groups = append(req.Groups, g)
	resp, err := call[*kmsg.DescribeShareGroupOffsetsResponse](c.admin, "listShareGroupOffsets", req)
	if err != nil {
		return nil, err
	}
	var all []shareOffset
	for _, g := range resp.Groups {
		if e := brokerError(g.ErrorCode, g.ErrorMessage); e != nil {
			return nil, e
		}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode == 0 {
					all = append(all, shareOffset{groupPartition{t.Topic, p.Partition}, p.StartOffset, p.Lag, p.LeaderEpoch})
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b shareOffset) int { return comparePartitions(a.groupPartition, b.groupPartition) })
	return all, nil
}

// A shareOffset is where a share group begins in a partition; -1 is not known.
type shareOffset struct {
	groupPartition
	start, lag int64
	epoch      int32
}

func (c *shareGroupsCommand) describe() error {
	ids, err := c.ids()
	if err != nil {
		return err
	}
	return describeEach(&c.groupsCommand, ids, c.describeShare, c.printState, c.printMembers, c.printOffsets)
}

// describeEach asks about one group after the other and prints of each what --describe is to show. What has been printed of the first
// stays when the second fails.
func describeEach[G any](c *groupsCommand, ids []string, ask func(id string) (G, error), state, members, offsets func(G) error) error {
	view := offsets
	switch {
	case c.set.has("state"):
		view = state
	case c.set.has("members"):
		view = members
	}
	for _, id := range ids {
		g, err := ask(id)
		if err != nil {
			return executionException(err)
		}
		if err := view(g); err != nil {
			return err
		}
	}
	return nil
}

// noMembers tells that a group is empty or gone. It reports whether there is a table to show all the same.
func (c *shareGroupsCommand) noMembers(g *kmsg.ShareGroupDescribeResponseGroup) bool {
	switch {
	case g.GroupState == "Dead":
		fmt.Fprintf(c.env.Stderr, "\nShare group '%s' does not exist.\n", g.GroupID)
		return false
	case len(g.Members) == 0:
		fmt.Fprintf(c.env.Stderr, "\nShare group '%s' has no active members.\n", g.GroupID)
	}
	return true
}

func (c *shareGroupsCommand) printState(g *kmsg.ShareGroupDescribeResponseGroup) error {
	coordinator, err := c.coordinatorOf("findCoordinator", g.GroupID)
	if err != nil {
		return executionException(err)
	}
	if !c.noMembers(g) {
		return nil
	}
	verbose := c.set.has("verbose")
	printGroupTable(c.env.Stdout, []groupColumn{
		{title: "GROUP", width: minColumn}, {title: "COORDINATOR (ID)", width: 25}, {title: "STATE", width: 15, fixed: true},
		{title: "GROUP-EPOCH", width: 15, fixed: true, hidden: !verbose}, {title: "ASSIGNMENT-EPOCH", width: 17, fixed: true, hidden: !verbose}, {title: "#MEMBERS"},
	}, [][]string{{g.GroupID, coordinator.String(), g.GroupState, strconv.Itoa(int(g.GroupEpoch)), strconv.Itoa(int(g.AssignmentEpoch)), strconv.Itoa(len(g.Members))}})
	return nil
}

func (c *shareGroupsCommand) printMembers(g *kmsg.ShareGroupDescribeResponseGroup) error {
	if !c.noMembers(g) || len(g.Members) == 0 {
		return nil
	}
	var rows [][]string
	for _, m := range g.Members {
		var all []groupPartition
		for _, t := range m.Assignment.TopicPartitions {
			for _, p := range t.Partitions {
				all = append(all, groupPartition{t.Topic, p})
			}
		}
		slices.SortFunc(all, comparePartitions)
		rows = append(rows, []string{g.GroupID, m.MemberID, m.ClientHost, m.ClientID, strconv.Itoa(len(all)), strconv.Itoa(int(m.MemberEpoch)), assignmentText(all)})
	}
	printGroupTable(c.env.Stdout, []groupColumn{
		{title: "GROUP", width: minColumn}, {title: "CONSUMER-ID", width: minColumn}, {title: "HOST", width: minColumn}, {title: "CLIENT-ID", width: minColumn},
		{title: "#PARTITIONS", width: 12, fixed: true}, {title: "MEMBER-EPOCH", width: 13, fixed: true, hidden: !c.set.has("verbose")}, {title: "ASSIGNMENT"},
	}, rows)
	return nil
}

func (c *shareGroupsCommand) printOffsets(g *kmsg.ShareGroupDescribeResponseGroup) error {
	offsets, err := c.shareOffsets(g.GroupID)
	if err != nil {
		return executionException(err)
	}
	if len(offsets) == 0 {
		fmt.Fprintf(c.env.Stdout, "\nShare group '%s' has no offset information.\n", g.GroupID)
		return nil
	}
	known := func(n int64) string {
		if n < 0 {
			return missingColumn
		}
		return strconv.FormatInt(n, 10)
	}
	var rows [][]string
	for _, o := range offsets {
		rows = append(rows, []string{g.GroupID, o.topic, strconv.Itoa(int(o.partition)), known(int64(o.epoch)), known(o.start), known(o.lag)})
	}
	printGroupTable(c.env.Stdout, []groupColumn{
		{title: "GROUP", width: minColumn}, {title: "TOPIC", width: minColumn}, {title: "PARTITION", width: 10, fixed: true},
		{title: "LEADER-EPOCH", width: 13, fixed: true, hidden: !c.set.has("verbose")}, {title: "START-OFFSET", width: 13, fixed: true}, {title: "LAG"},
	}, rows)
	return nil
}
