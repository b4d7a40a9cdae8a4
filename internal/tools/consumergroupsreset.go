package tools

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// runtimeException is how Java's lambdas let pass what they must not throw.
func runtimeException(err error) error {
	return throw("java.lang.RuntimeException", asJava(err).Error()).because(err)
}

// reset moves groups that have no members, or shows where they would go.
func (c *groupsCommand) reset() error {
	ids, err := c.groupIDs()
	if err != nil {
		return err
	}
	javaMapOrder(ids, javaHash, javaMapCapacity)
	moved := make(map[string][]resetRow, len(ids))
	for _, id := range ids {
		g, err := c.groupOf(id)
		switch {
		case err != nil && asJava(err).class != kafkaErrors+"GroupIdNotFoundException":
			return runtimeException(executionException(err))
		case err == nil && g.state != "Empty" && g.state != "Dead":
			printGroupError(c.env, fmt.Sprintf("Assignments can only be reset if the group '%s' is inactive, but the current state is %s.", id, g.state))
			continue
		}
		if moved[id], err = c.resetGroup(id); err != nil {
			return err
		}
	}
	if c.set.has("export") {
		c.exportResets(ids, moved)
	} else {
		c.printResets(ids, moved)
	}
	return nil
}

func (c *groupsCommand) exportResets(ids []string, moved map[string][]resetRow) {
	var text strings.Builder
	for _, id := range ids {
		for _, r := range moved[id] {
			if len(c.set.all("group")) != 1 {
				text.WriteString(id + ",")
			}
			fmt.Fprintf(&text, "%s,%d,%d\n", r.topic, r.partition, r.offset)
		}
	}
	fmt.Fprintln(c.env.Stdout, text.String())
}

func (c *groupsCommand) printResets(ids []string, moved map[string][]resetRow) {
	if len(ids) == 0 {
		fmt.Fprintln(c.env.Stdout)
		return
	}
	width := minColumn
	for _, id := range ids { // those too that go nowhere
		width = max(width, len(id))
	}
	printGroupTable(c.env.Stdout, []groupColumn{
		{title: "GROUP", width: width}, {title: "TOPIC", width: minColumn}, {title: "PARTITION", width: 10, fixed: true}, {title: "NEW-OFFSET"},
	}, resetCells(ids, moved))
}

// resetCells are the lines of a table of resets.
func resetCells(ids []string, moved map[string][]resetRow) [][]string {
	var rows [][]string
	for _, id := range ids {
		for _, r := range moved[id] {
			rows = append(rows, []string{id, r.topic, strconv.Itoa(int(r.partition)), strconv.FormatInt(r.offset, 10)})
		}
	}
	return rows
}

// resetGroup finds out where a group goes, and moves it there with --execute.
func (c *groupsCommand) resetGroup(id string) ([]resetRow, error) {
	commits, err := c.committedBy(id)
	if err != nil {
		return nil, executionException(err)
	}
	rows, err := c.resetPlan(id, commits)
	if err != nil {
		return nil, err
	}
	if c.set.has("execute") && len(rows) > 0 {
		if err := c.commit(id, rows); err != nil {
			return nil, runtimeException(executionException(err))
		}
	}
	return rows, nil
}

// resetPlan finds out where a group goes that has committed such offsets, in the order of a hash map.
func (c *groupsCommand) resetPlan(id string, commits []committed) (_ []resetRow, err error) {
	var partitions []groupPartition
	switch {
	case c.set.has("all-topics"):
		for _, commit := range commits {
			partitions = append(partitions, commit.groupPartition)
		}
	case c.set.has("topic"):
		if partitions, err = c.partitionsToReset("topic"); err != nil {
			return nil, err
		}
	case !c.set.has("from-file"):
		return nil, c.set.parser.usage("One of the reset scopes should be defined: --all-topics, --topic.")
	}
	rows, err := c.resetTo(id, partitions, commits)
	javaMapOrder(rows, resetRow.javaHash, javaMapCapacity)
	return rows, err
}

// topicPartitions reads the values of an option, TOPIC or TOPIC:0,1. Those without partitions are told apart.
func (c *groupsCommand) topicPartitions(option string) (named []groupPartition, whole []string, err error) {
	for _, arg := range c.set.all(option) {
		if !strings.Contains(arg, ":") {
			if !slices.Contains(whole, arg) {
				whole = append(whole, arg)
			}
			continue
		}
		topic, list, ok := strings.Cut(strings.TrimRight(arg, ":"), ":")
		if !ok || strings.Contains(list, ":") {
			return nil, nil, throw(illegalArgument, fmt.Sprintf("Invalid topic arg '%s', expected topic name and partitions", arg))
		}
		if list = strings.TrimRight(list, ","); list == "" {
			continue
		}
		for text := range strings.SplitSeq(list, ",") {
			n, err := strconv.ParseInt(text, 10, 32)
			if err != nil {
				return nil, nil, throw(illegalArgument, fmt.Sprintf("Invalid partition '%s' specified in topic arg '%s''", text, arg))
			}
			if p := (groupPartition{topic, int32(n)}); !slices.Contains(named, p) {
				named = append(named, p)
			}
		}
	}
	return named, whole, nil
}

// partitionsToReset are the partitions that an option names, all of which must be there and have a leader.
func (c *groupsCommand) partitionsToReset(option string) ([]groupPartition, error) {
	named, whole, err := c.topicPartitions(option)
	if err != nil {
		return nil, err
	}
	topics := slices.Clone(whole)
	for _, topic := range topicsIn(named) {
		if !slices.Contains(topics, topic) {
			topics = append(topics, topic)
		}
	}
	// Kafka's tool asks for whole topics first, and for all of them in a place that wraps what goes wrong.
	wrapped := func(err error) error {
		if len(whole) == 0 {
			return runtimeException(executionException(err))
		}
		return err
	}
	resp, err := c.metadata("describeTopics", topics)
	if err != nil {
		return nil, wrapped(err)
	}
	javaMapOrder(resp.Topics, func(t kmsg.MetadataResponseTopic) uint32 { return javaHash(*t.Topic) }, javaMapCapacity)
	leader := map[groupPartition]int32{}
	var all []groupPartition
	for _, t := range resp.Topics {
		if e := brokerError(t.ErrorCode, nil); e != nil {
			return nil, wrapped(e)
		}
		for _, p := range t.Partitions {
			at := groupPartition{*t.Topic, p.Partition}
			leader[at] = p.Leader
			if slices.Contains(whole, at.topic) && !slices.Contains(named, at) {
				all = append(all, at)
			}
		}
	}
	all = append(all, named...)
	var unknown, leaderless []string
	for _, p := range all {
		switch l, known := leader[p]; {
		case !known:
			unknown = append(unknown, p.String())
		case l < 0:
			leaderless = append(leaderless, p.String())
		}
	}
	switch {
	case unknown != nil:
		return nil, throw(kafkaErrors+"UnknownTopicOrPartitionException", fmt.Sprintf("The partitions \"%s\" do not exist", strings.Join(unknown, ",")))
	case leaderless != nil:
		return nil, throw(kafkaErrors+"LeaderNotAvailableException", fmt.Sprintf("The partitions \"%s\" have no leader", strings.Join(leaderless, ",")))
	}
	return all, nil
}

// resetTo applies the way that the options name.
func (c *groupsCommand) resetTo(id string, partitions []groupPartition, commits []committed) ([]resetRow, error) {
	has := make(map[groupPartition]int64, len(commits))
	for _, commit := range commits {
		has[commit.groupPartition] = commit.offset
	}
	javaMapOrder(partitions, groupPartition.javaHash, javaMapCapacity)
	switch {
	case c.set.has("to-offset"), c.set.has("shift-by"):
		way := "to-offset"
		if c.set.has("shift-by") {
			way = "shift-by"
		}
		text, err := c.set.resetValue(way)
		if err != nil {
			return nil, err
		}
		n, err := javaInt(text, 64)
		if err != nil {
			return nil, err
		}
		rows := make([]resetRow, len(partitions))
		for i, p := range partitions {
			rows[i] = resetRow{p, n}
			if c.set.has("shift-by") {
				at, ok := has[p]
				if !ok {
					return nil, throw(illegalArgument, fmt.Sprintf("Cannot shift offset for partition %s since there is no current committed offset", p))
				}
				rows[i].offset += at
			}
		}
		return c.walk().within(rows)
	case c.set.has("from-file"):
		return c.resetFromFile(id)
	case c.set.has("to-current"):
		var rows []resetRow
		var rest []groupPartition
		for _, p := range partitions {
			if at, ok := has[p]; ok {
				rows = append(rows, resetRow{p, at})
			} else {
				rest = append(rest, p)
			}
		}
		more, err := c.walk().at(rest, namedTimes["latest"])
		return append(rows, more...), err
	}
	when, ok, err := c.timeToReset()
	if err != nil {
		return nil, err
	}
	if ok {
		return c.walk().at(partitions, when)
	}
	ways := make([]string, len(resetWays))
	for i, way := range resetWays {
		ways[i] = "[" + way + "]"
	}
	return nil, c.set.parser.usage("Option '[reset-offsets]' requires one of the following scenarios: [%s]", strings.Join(ways, ", "))
}

// walk is how the tools of groups reset.
func (c *groupsCommand) walk() *resetWalk {
	return &resetWalk{
		admin: c.admin,
		empty: func(p groupPartition) {
			fmt.Fprintf(c.env.Stdout, "\nWarn: Partition %d from topic %s is empty. Falling back to latest known offset.\n", p.partition, p.topic)
		},
		moved: func(r resetRow, side string, to int64) {
			logLine(c.env.Stderr, "WARN", fmt.Sprintf("New offset (%d) is %s offset for topic partition %s. Value will be set to %d", r.offset, side, r.groupPartition, to),
				"org.apache.kafka.tools.OffsetsUtils", nil)
		},
		failed: func(err error) error { return runtimeException(executionException(err)) },
	}
}

// timeToReset is timeOfWay; what makes no date is thrown out of a lambda.
func (c *groupsCommand) timeToReset() (when int64, ok bool, err error) {
	when, ok, err = timeOfWay(c.set)
	if err != nil && asJava(err).class == parseException {
		err = runtimeException(err)
	}
	return when, ok, err
}

// resetFromFile reads a plan: TOPIC,PARTITION,OFFSET for one group, GROUP,TOPIC,PARTITION,OFFSET for several.
func (c *groupsCommand) resetFromFile(id string) ([]resetRow, error) {
	path, err := c.set.resetValue("from-file")
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, runtimeException(throw("java.io.IOException", "Unable to read file "+path))
	}
	reader := csv.NewReader(strings.NewReader(string(text)))
	reader.FieldsPerRecord = -1
	reader.TrimLeadingSpace = true
	var rows []resetRow
	grouped, found := len(c.set.all("group")) != 1, false
	var complaint *javaError // of a plan that does not have the shorter form
	for first := true; ; first = false {
		fields, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, throw("java.lang.RuntimeException", err.Error())
		}
		if first {
			if complaint = cmp.Or(notAnInt(fields, 1), notAnInt(fields, 2)); complaint != nil {
				grouped = true
				fmt.Fprintln(c.env.Stderr, complaint)
			}
		}
		owner := id
		if grouped {
			owner, fields = fields[0], fields[1:]
		}
		if wrong := cmp.Or(notAnInt(fields, 1), notAnInt(fields, 2)); wrong != nil {
			return nil, runtimeException(wrong)
		}
		if owner != id {
			continue
		}
		found = true
		fields = append(fields, make([]string, 3)...) // of a short line the rest is null, which is 0
		partition, _ := strconv.ParseInt(fields[1], 10, 32)
		offset, _ := strconv.ParseInt(fields[2], 10, 64)
		row := resetRow{groupPartition{fields[0], int32(partition)}, offset}
		if i := slices.IndexFunc(rows, func(r resetRow) bool { return r.groupPartition == row.groupPartition }); i >= 0 {
			rows[i] = row
		} else {
			rows = append(rows, row)
		}
	}
	if complaint != nil {
		fmt.Fprintln(c.env.Stderr, complaint) // Kafka's tool reads the plan twice
	}
	if !found {
		printGroupError(c.env, "No reset plan for group "+id+" found")
		return nil, nil
	}
	javaMapOrder(rows, resetRow.javaHash, javaMapCapacity)
	return c.walk().within(rows)
}

// notAnInt complains of a field that is no number; the second is a partition, the third an offset.
func notAnInt(fields []string, i int) *javaError {
	typ, bits := "int", 32
	if i == 2 {
		typ, bits = "long", 64
	}
	const class = "com.fasterxml.jackson.databind.exc.InvalidFormatException"
	if i >= len(fields) {
		return nil
	}
	if _, err := strconv.ParseInt(fields[i], 10, bits); err != nil {
		return throw(class, fmt.Sprintf("Cannot deserialize value of type `%s` from String \"%s\": not a valid `%s` value", typ, fields[i], typ))
	}
	return nil
}

// commit writes offsets for a group without members. Newer brokers want topics by id.
func (c *groupsCommand) commit(id string, rows []resetRow) error {
	var partitions []groupPartition
	for _, r := range rows {
		partitions = append(partitions, r.groupPartition)
	}
	topics := topicsIn(partitions)
	meta, err := c.metadata("describeTopics", topics)
	if err != nil {
		return err
	}
	ids := make(map[string][16]byte, len(topics))
	for _, t := range meta.Topics {
		if e := brokerError(t.ErrorCode, nil); e != nil {
			return e
		}
		ids[*t.Topic] = t.TopicID
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = id, -1
	for _, r := range rows {
		i := slices.IndexFunc(req.Topics, func(t kmsg.OffsetCommitRequestTopic) bool { return t.Topic == r.topic })
		if i < 0 {
			i = len(req.Topics)
			t := kmsg.NewOffsetCommitRequestTopic()
			t.Topic, t.TopicID = r.topic, ids[r.topic]
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = r.partition, r.offset, -1, new(string)
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
	}
	resp, err := call[*kmsg.OffsetCommitResponse](c.admin, "alterConsumerGroupOffsets", req)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if e := brokerError(p.ErrorCode, nil); e != nil {
				return e
			}
		}
	}
	return nil
}

// deleteOffsets forgets where a group stands in topics.
func (c *groupsCommand) deleteOffsets() error {
	id, _, err := c.set.text("group")
	if err != nil {
		return err
	}
	partitions, whole, err := c.topicPartitions("topic")
	if err != nil {
		return err
	}
	return c.forgetOffsets(id, partitions, whole)
}

// forgetOffsets forgets where a group stands in partitions, and in all of whole topics, and says of each what became of it.
func (c *groupsCommand) forgetOffsets(id string, partitions []groupPartition, whole []string) error {
	const noPartition = -1
	result := map[groupPartition]*javaError{}
	if whole != nil {
		resp, err := c.metadata("listNodes", whole) // what describeTopics begins with
		if err != nil {
			for _, topic := range whole {
				result[groupPartition{topic, noPartition}] = asJava(err)
			}
			resp = &kmsg.MetadataResponse{}
		}
		for _, t := range resp.Topics {
			if e := brokerError(t.ErrorCode, nil); e != nil {
				result[groupPartition{*t.Topic, noPartition}] = e
			}
			for _, p := range t.Partitions {
				if at := (groupPartition{*t.Topic, p.Partition}); !slices.Contains(partitions, at) {
					partitions = append(partitions, at)
				}
			}
		}
	}
	code := c.deleteOffsetsOf(id, partitions, result)
	switch e := brokerError(code, nil); code {
	case 0:
		fmt.Fprintf(c.env.Stdout, "Request succeeded for deleting offsets from group %s.\n", id)
	case kerr.InvalidGroupID.Code, kerr.GroupIDNotFound.Code, kerr.GroupAuthorizationFailed.Code, kerr.NonEmptyGroup.Code:
		printGroupError(c.env, e.text())
	case kerr.GroupSubscribedToTopic.Code, kerr.TopicAuthorizationFailed.Code, kerr.UnknownTopicOrPartition.Code:
		printGroupError(c.env, "Encountered some partition-level error, see the follow-up details.")
	default:
		printGroupError(c.env, "Encountered some unknown error: "+errorName(code))
	}
	var rows [][]string
	for _, p := range slices.SortedFunc(maps.Keys(result), comparePartitions) {
		partition, status := strconv.Itoa(int(p.partition)), "Successful"
		if p.partition == noPartition {
			partition = missingColumn
		}
		if e := result[p]; e != nil {
			status = "Error: " + e.Error()
		}
		rows = append(rows, []string{p.topic, partition, status})
	}
	printGroupTable(c.env.Stdout, []groupColumn{{title: "TOPIC", width: minColumn}, {title: "PARTITION", width: 10, fixed: true}, {title: "STATUS", width: 15, fixed: true}}, rows)
	return nil
}

// deleteOffsetsOf sends the request and notes each partition's result. It returns the group's error code, or the first of a partition's.
func (a *admin) deleteOffsetsOf(id string, partitions []groupPartition, result map[groupPartition]*javaError) int16 {
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = id
	for _, p := range partitions {
		i := slices.IndexFunc(req.Topics, func(t kmsg.OffsetDeleteRequestTopic) bool { return t.Topic == p.topic })
		if i < 0 {
			i = len(req.Topics)
			t := kmsg.NewOffsetDeleteRequestTopic()
			t.Topic = p.topic
			req.Topics = append(req.Topics, t)
		}
		part := kmsg.NewOffsetDeleteRequestTopicPartition()
		part.Partition = p.partition
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, part)
	}
	resp, err := call[*kmsg.OffsetDeleteResponse](a, "deleteConsumerGroupOffsets", req)
	if err != nil {
		for _, p := range partitions {
			result[p] = asJava(err)
		}
		return errorCode(asJava(err))
	}
	code := resp.ErrorCode
	for _, p := range partitions {
		result[p] = brokerError(code, nil)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				result[groupPartition{t.Topic, p.Partition}] = brokerError(p.ErrorCode, nil)
				code = cmp.Or(code, p.ErrorCode)
			}
		}
	}
	return code
}
