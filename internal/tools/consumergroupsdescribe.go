package tools

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A groupPartition is a partition that a group reads.
type groupPartition struct {
	topic     string
	partition int32
}

func (p groupPartition) String() string { return partitionName(p.topic, p.partition) }

// javaHash is TopicPartition.hashCode.
func (p groupPartition) javaHash() uint32 { return 31*(31+uint32(p.partition)) + javaHash(p.topic) }

func comparePartitions(a, b groupPartition) int {
	return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
}

// A consumerGroup is what a coordinator says of a group, of either protocol. Epochs are nil in a classic one.
type consumerGroup struct {
	id, state, assignor    string
	coordinator            groupCoordinator
	epoch, assignmentEpoch *int32
	members                []groupMember
}

type groupMember struct {
	id, host, clientID string
	instance           *string
	epoch              *int32 // nil: a member of the classic protocol
	upgraded           *bool  // nil: the coordinator does not tell
	assigned, target   []groupPartition
	hasTarget          bool
}

// groupOf asks for one group: as a consumer group, then as a classic one. Its error is not wrapped.
func (a *admin) groupOf(id string) (*consumerGroup, error) {
	g, err := a.newGroupOf(id)
	if g == nil && err == nil {
		g, err = a.classicGroupOf(id)
	}
	if err != nil {
		return nil, err
	}
	g.coordinator, err = a.coordinatorOf("findCoordinator", id)
	return g, err
}

// newGroupOf returns nil if there is no such group of the new protocol.
func (a *admin) newGroupOf(id string) (*consumerGroup, error) {
	known, err := a.supports("describeConsumerGroups", int16(kmsg.ConsumerGroupDescribe))
	if err != nil || !known {
		return nil, err
	}
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Groups = []string{id}
	resp, err := call[*kmsg.ConsumerGroupDescribeResponse](a, "describeConsumerGroups", req)
	if err != nil {
		return nil, err
	}
	if len(resp.Groups) == 0 {
		return nil, nil
	}
	r := resp.Groups[0] // the one that was asked for
	switch r.ErrorCode {
	case 0:
	case kerr.GroupIDNotFound.Code, kerr.UnsupportedVersion.Code:
		return nil, nil
	default:
		if r.ErrorCode != kerr.GroupAuthorizationFailed.Code {
			a.logUnexpected("DescribeConsumerGroupsHandler", fmt.Sprintf("`ConsumerGroupDescribe` request for group id %s failed due to unexpected error %s.", id, errorName(r.ErrorCode)))
		}
		return nil, brokerError(r.ErrorCode, r.ErrorMessage)
	}
	g := &consumerGroup{id: id, state: r.State, assignor: r.AssignorName, epoch: &r.Epoch, assignmentEpoch: &r.AssignmentEpoch}
	for _, m := range r.Members {
		one := groupMember{id: m.MemberID, host: m.ClientHost, clientID: m.ClientID, instance: m.InstanceID, epoch: &m.MemberEpoch, hasTarget: true,
			assigned: partitionsOf(m.Assignment), target: partitionsOf(m.TargetAssignment)}
		if m.MemberType >= 0 {
			upgraded := m.MemberType == 1
			one.upgraded = &upgraded
		}
		g.members = append(g.members, one)
	}
	return g, nil
}

// logUnexpected notes an error that Java's client did not reckon with.
func (a *admin) logUnexpected(handler, message string) {
	logLine(a.dial.stderr, "ERROR", "[AdminClient clientId=adminclient-1] "+message, "org.apache.kafka.clients.admin.internals."+handler, nil)
}

// errorName is the protocol's name for an error code.
func errorName(code int16) string {
	if e := kerr.TypedErrorForCode(code); e != nil {
		return e.Message
	}
	return fmt.Sprint(code)
}

func partitionsOf(assignment kmsg.Assignment) []groupPartition {
	var all []groupPartition
	for _, t := range assignment.TopicPartitions {
		for _, p := range t.Partitions {
			all = append(all, groupPartition{t.Topic, p})
		}
	}
	slices.SortFunc(all, comparePartitions)
	return all
}

func (a *admin) classicGroupOf(id string) (*consumerGroup, error) {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{id}
	resp, err := call[*kmsg.DescribeGroupsResponse](a, "describeConsumerGroups", req)
	if err != nil {
		return nil, err
	}
	if len(resp.Groups) == 0 {
		return nil, brokerError(kerr.GroupIDNotFound.Code, nil)
	}
	r := resp.Groups[0] // the one that was asked for
	if e := brokerError(r.ErrorCode, r.ErrorMessage); e != nil {
		return nil, e
	}
	if r.ProtocolType != "" && r.ProtocolType != "consumer" {
		return nil, throw(illegalArgument, fmt.Sprintf("GroupId %s is not a consumer group (%s).", id, r.ProtocolType))
	}
	g := &consumerGroup{id: id, state: r.State, assignor: r.Protocol}
	for _, m := range r.Members {
		one := groupMember{id: m.MemberID, host: m.ClientHost, clientID: m.ClientID, instance: m.InstanceID}
		var assignment kmsg.ConsumerMemberAssignment
		if len(m.MemberAssignment) > 0 && assignment.ReadFrom(m.MemberAssignment) == nil {
			for _, t := range assignment.Topics {
				for _, p := range t.Partitions {
					one.assigned = append(one.assigned, groupPartition{t.Topic, p})
				}
			}
		}
		slices.SortFunc(one.assigned, comparePartitions)
		g.members = append(g.members, one)
	}
	return g, nil
}

// A groupCoordinator is the broker that keeps a group.
type groupCoordinator struct {
	host     string
	port, id int32
}

// String is how the tables of consumers and share groups show it.
func (c groupCoordinator) String() string { return fmt.Sprintf("%s:%d  (%d)", c.host, c.port, c.id) }

// coordinatorOf asks who keeps a group; name is what Java calls that.
func (a *admin) coordinatorOf(name, group string) (groupCoordinator, error) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKeys = []string{group}
	resp, err := call[*kmsg.FindCoordinatorResponse](a, name, req)
	if err != nil {
		return groupCoordinator{}, err
	}
	for _, c := range resp.Coordinators {
		return groupCoordinator{c.Host, c.Port, c.NodeID}, brokerErrorOrNil(c.ErrorCode, c.ErrorMessage)
	}
	return groupCoordinator{resp.Host, resp.Port, resp.NodeID}, brokerErrorOrNil(resp.ErrorCode, resp.ErrorMessage)
}

// brokerErrorOrNil is brokerError as an error, whose nil is nil.
func brokerErrorOrNil(code int16, message *string) error {
	if e := brokerError(code, message); e != nil {
		return e
	}
	return nil
}

// A committed is a group's place in a partition.
type committed struct {
	groupPartition
	offset int64
	epoch  int32 // -1: not known
}

// committedBy lists what a group has committed, sorted.
func (a *admin) committedBy(group string) ([]committed, error) {
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Groups = append(req.Groups, g)
	resp, err := call[*kmsg.OffsetFetchResponse](a, "listConsumerGroupOffsets", req)
	if err != nil {
		return nil, err
	}
	var all []committed
	for _, g := range resp.Groups {
		if e := brokerError(g.ErrorCode, nil); e != nil {
			return nil, e
		}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if e := brokerError(p.ErrorCode, nil); e != nil {
					return nil, e
				}
				if p.Offset >= 0 {
					all = append(all, committed{groupPartition{t.Topic, p.Partition}, p.Offset, p.LeaderEpoch})
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b committed) int { return comparePartitions(a.groupPartition, b.groupPartition) })
	return all, nil
}

// offsetsAt asks ListOffsets about partitions. Those with an error are left out, or are the error if strict.
func (a *admin) offsetsAt(partitions []groupPartition, timestamp int64, strict bool) (map[groupPartition]int64, error) {
	found := make(map[groupPartition]int64, len(partitions))
	if len(partitions) == 0 {
		return found, nil
	}
	req := kmsg.NewPtrListOffsetsRequest()
	for _, p := range partitions {
		i := slices.IndexFunc(req.Topics, func(t kmsg.ListOffsetsRequestTopic) bool { return t.Topic == p.topic })
		if i < 0 {
			i = len(req.Topics)
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = p.topic
			req.Topics = append(req.Topics, t)
		}
		part := kmsg.NewListOffsetsRequestTopicPartition()
		part.Partition, part.Timestamp = p.partition, timestamp
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, part)
	}
	resp, err := call[*kmsg.ListOffsetsResponse](a, "listOffsets", req)
	if err != nil {
		return nil, err
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if e := brokerError(p.ErrorCode, nil); e != nil {
				if strict {
					return nil, e
				}
				continue
			}
			found[groupPartition{t.Topic, p.Partition}] = p.Offset
		}
	}
	return found, nil
}

// describe asks about all groups before it prints of any.
func (c *groupsCommand) describe() error {
	ids, err := c.groupIDs()
	if err != nil {
		return err
	}
	javaMapOrder(ids, javaHash, javaMapCapacity) // which decides whose failure is told
	var groups []*consumerGroup
	for _, id := range ids {
		g, err := c.groupOf(id)
		if err != nil {
			return executionException(err)
		}
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b *consumerGroup) int { return cmp.Compare(a.id, b.id) })
	switch verbose := c.set.has("verbose"); {
	case c.set.has("members"):
		for _, g := range groups {
			if c.shows(g, true) {
				g.printMembers(c.env.Stdout, verbose)
			}
		}
	case c.set.has("state"):
		for _, g := range groups {
			if c.shows(g, true) {
				g.printState(c.env.Stdout, verbose)
			}
		}
	default:
		var tables [][]offsetRow
		for _, g := range groups {
			rows, err := c.offsetRows(g)
			if err != nil {
				return err
			}
			tables = append(tables, rows)
		}
		for i, g := range groups {
			if c.shows(g, len(tables[i]) > 0) {
				printOffsetRows(c.env.Stdout, g.id, tables[i], verbose)
			}
		}
	}
	return nil
}

// shows tells of a group's state what is worth telling, and whether there is a table to print.
func (c *groupsCommand) shows(g *consumerGroup, rows bool) bool {
	switch g.state {
	case "Dead":
		printGroupError(c.env, "Consumer group '"+g.id+"' does not exist.")
		return false
	case "Empty":
		fmt.Fprintf(c.env.Stderr, "\nConsumer group '%s' has no active members.\n", g.id)
	case "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling":
		fmt.Fprintf(c.env.Stderr, "\nWarning: Consumer group '%s' is rebalancing.\n", g.id)
	}
	return rows
}

// An offsetRow is a line of the table of offsets.
type offsetRow struct {
	topic, partition, epoch, current, end, lag string
	member                                     groupMember
}

var noMember = groupMember{id: missingColumn, host: missingColumn, clientID: missingColumn}

// offsetRows are a group's partitions: first those that members have, of who has most first, then those nobody has.
func (c *groupsCommand) offsetRows(g *consumerGroup) ([]offsetRow, error) {
	commits, err := c.committedBy(g.id)
	if err != nil {
		return nil, executionException(err)
	}
	place := make(map[groupPartition]committed)
	free := make([]groupPartition, 0, len(commits))
	for _, commit := range commits {
		place[commit.groupPartition] = commit
		free = append(free, commit.groupPartition)
	}
	members := slices.Clone(g.members)
	slices.SortStableFunc(members, func(a, b groupMember) int { return len(b.assigned) - len(a.assigned) })
	all := slices.Clone(free)
	for _, m := range members {
		all = append(all, m.assigned...)
		free = slices.DeleteFunc(free, func(p groupPartition) bool { return slices.Contains(m.assigned, p) })
	}
	slices.SortFunc(all, comparePartitions)
	ends, err := c.offsetsAt(slices.Compact(all), namedTimes["latest"], false)
	if err != nil {
		return nil, executionException(err)
	}
	var rows []offsetRow
	add := func(m groupMember, partitions []groupPartition) {
		for _, p := range partitions {
			row := offsetRow{p.topic, strconv.Itoa(int(p.partition)), missingColumn, missingColumn, missingColumn, missingColumn, m}
			commit, hasCommit := place[p]
			end, hasEnd := ends[p]
			if hasCommit {
				row.current = strconv.FormatInt(commit.offset, 10)
				if commit.epoch >= 0 {
					row.epoch = strconv.Itoa(int(commit.epoch))
				}
			}
			if hasEnd {
				row.end = strconv.FormatInt(end, 10)
			}
			if hasCommit && hasEnd {
				row.lag = strconv.FormatInt(end-commit.offset, 10)
			}
			rows = append(rows, row)
		}
	}
	for _, m := range members {
		add(m, m.assigned)
	}
	add(noMember, free)
	return rows, nil
}

func printOffsetRows(w io.Writer, group string, rows []offsetRow, verbose bool) {
	var cells [][]string
	for _, r := range rows {
		cells = append(cells, []string{group, r.topic, r.partition, r.epoch, r.current, r.end, r.lag, r.member.id, r.member.host, r.member.clientID})
	}
	printGroupTable(w, []groupColumn{
		{title: "GROUP", width: minColumn}, {title: "TOPIC", width: minColumn}, {title: "PARTITION", width: 10, fixed: true},
		{title: "LEADER-EPOCH", width: 15, fixed: true, hidden: !verbose}, {title: "CURRENT-OFFSET", width: 15, fixed: true},
		{title: "LOG-END-OFFSET", width: 15, fixed: true}, {title: "LAG", width: 15, fixed: true},
		{title: "CONSUMER-ID", width: minColumn}, {title: "HOST", width: minColumn}, {title: "CLIENT-ID"},
	}, cells)
}

// assignmentText is how the verbose table shows partitions: orders:0,1;payments:0.
func assignmentText(partitions []groupPartition) string {
	if len(partitions) == 0 {
		return missingColumn
	}
	var text strings.Builder
	for i, p := range partitions {
		switch {
		case i == 0:
			fmt.Fprintf(&text, "%s:%d", p.topic, p.partition)
		case p.topic == partitions[i-1].topic:
			fmt.Fprintf(&text, ",%d", p.partition)
		default:
			fmt.Fprintf(&text, ";%s:%d", p.topic, p.partition)
		}
	}
	return text.String()
}

func orMissing(n *int32) string {
	if n == nil {
		return missingColumn
	}
	return strconv.Itoa(int(*n))
}

// printMembers prints who is in the group, who has most partitions first.
func (g *consumerGroup) printMembers(w io.Writer, verbose bool) {
	static, migrating := false, false
	members := slices.Clone(g.members)
	slices.SortStableFunc(members, func(a, b groupMember) int { return len(b.assigned) - len(a.assigned) })
	var rows [][]string
	for _, m := range members {
		instance, upgraded, targetEpoch, target := "", missingColumn, missingColumn, missingColumn
		if m.instance != nil {
			instance = *m.instance
			static = static || instance != ""
		}
		if m.upgraded != nil {
			upgraded = strconv.FormatBool(*m.upgraded)
			migrating = migrating || !*m.upgraded
		}
		if m.hasTarget {
			targetEpoch, target = orMissing(g.assignmentEpoch), assignmentText(m.target)
		}
		rows = append(rows, []string{g.id, m.id, instance, m.host, m.clientID, strconv.Itoa(len(m.assigned)), orMissing(m.epoch), assignmentText(m.assigned), targetEpoch, target, upgraded, ""})
	}
	printGroupTable(w, []groupColumn{
		{title: "GROUP", width: minColumn}, {title: "CONSUMER-ID", width: minColumn}, {title: "GROUP-INSTANCE-ID", width: 17, hidden: !static},
		{title: "HOST", width: minColumn}, {title: "CLIENT-ID", width: minColumn}, {title: "#PARTITIONS", width: 15, fixed: true},
		{title: "CURRENT-EPOCH", width: 15, fixed: true, hidden: !verbose}, {title: "CURRENT-ASSIGNMENT", width: 20, hidden: !verbose},
		{title: "TARGET-EPOCH", width: 15, fixed: true, hidden: !verbose}, {title: "TARGET-ASSIGNMENT", width: 20, hidden: !verbose},
		{title: "UPGRADED", hidden: !verbose || !migrating},
		{hidden: verbose}, // the shorter table ends in a blank
	}, rows)
}

func (g *consumerGroup) printState(w io.Writer, verbose bool) {
	printGroupTable(w, []groupColumn{
		{title: "GROUP", width: minColumn}, {title: "COORDINATOR (ID)", width: 25}, {title: "ASSIGNMENT-STRATEGY", width: 20, fixed: true},
		{title: "STATE", width: 20, fixed: true}, {title: "GROUP-EPOCH", width: 15, fixed: true, hidden: !verbose},
		{title: "TARGET-ASSIGNMENT-EPOCH", width: 25, fixed: true, hidden: !verbose}, {title: "#MEMBERS"},
	}, [][]string{{g.id, g.coordinator.String(), cmp.Or(g.assignor, missingColumn), g.state, orMissing(g.epoch), orMissing(g.assignmentEpoch), strconv.Itoa(len(g.members))}})
}
