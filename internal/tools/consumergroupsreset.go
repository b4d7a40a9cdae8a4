package tools

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A resetRow is where a group goes in a partition.
type resetRow struct {
	groupPartition
	offset int64
}

func compareResets(a, b resetRow) int { return comparePartitions(a.groupPartition, b.groupPartition) }

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
	groupWidth, topicWidth := minColumn, minColumn
	for _, id := range ids {
		groupWidth = max(groupWidth, len(id))
		for _, r := range moved[id] {
			topicWidth = max(topicWidth, len(r.topic))
		}
	}
	line := func(group, topic, partition, offset string) {
		fmt.Fprintf(c.env.Stdout, "\n%-*s %-*s %-10s %s", groupWidth, group, topicWidth, topic, partition, offset)
	}
	if len(ids) > 0 {
		line("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")
	}
	for _, id := range ids {
		for _, r := range moved[id] {
			line(id, r.topic, strconv.Itoa(int(r.partition)), strconv.FormatInt(r.offset, 10))
		}
	}
	fmt.Fprintln(c.env.Stdout)
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

// resetPlan finds out where a group goes that has committed such offsets, by partition.
func (c *groupsCommand) resetPlan(id string, commits []committed) (_ []resetRow, err error) {
	var partitions []groupPartition
	switch {
	case c.set.has("all-topics"):
		for _, commit := range commits {
			partitions = append(partitions, commit.groupPartition)
		}
	case c.set.has("topic"):
		if partitions, err = c.partitionsToReset(); err != nil {
			return nil, err
		}
	case !c.set.has("from-file"):
		return nil, c.set.parser.usage("One of the reset scopes should be defined: --all-topics, --topic.")
	}
	rows, err := c.resetTo(id, partitions, commits)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(rows, compareResets)
	return rows, nil
}

// topicPartitions reads --topic options, TOPIC or TOPIC:0,1. Those without partitions are told apart.
func (c *groupsCommand) topicPartitions() (named []groupPartition, whole []string, err error) {
	for _, arg := range c.set.all("topic") {
		topic, list, ok := strings.Cut(arg, ":")
		if !ok {
			if !slices.Contains(whole, arg) {
				whole = append(whole, arg)
			}
			continue
		}
		if strings.Contains(list, ":") {
			return nil, nil, throw(illegalArgument, fmt.Sprintf("Invalid topic arg '%s', expected topic name and partitions", arg))
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

// partitionsToReset are the partitions that --topic names, all of which must be there and have a leader.
func (c *groupsCommand) partitionsToReset() ([]groupPartition, error) {
	named, whole, err := c.topicPartitions()
	if err != nil {
		return nil, err
	}
	topics := slices.Clone(whole)
	for _, p := range named {
		if !slices.Contains(topics, p.topic) {
			topics = append(topics, p.topic)
		}
	}
	resp, err := c.metadata("describeTopics", topics)
	if err != nil {
		return nil, err
	}
	leader := map[groupPartition]int32{}
	all := slices.Clone(named)
	for _, t := range resp.Topics {
		if e := brokerError(t.ErrorCode, nil); e != nil {
			return nil, e
		}
		for _, p := range t.Partitions {
			at := groupPartition{*t.Topic, p.Partition}
			leader[at] = p.Leader
			if slices.Contains(whole, at.topic) && !slices.Contains(named, at) {
				all = append(all, at)
			}
		}
	}
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
	switch {
	case c.set.has("to-offset"), c.set.has("shift-by"):
		n, _, err := c.set.number("to-offset")
		if err != nil {
			return nil, err
		}
		if c.set.has("shift-by") {
			if n, _, err = c.set.number("shift-by"); err != nil {
				return nil, err
			}
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
		return c.withinLog(rows)
	case c.set.has("to-earliest"):
		return c.resetByTime(partitions, namedTimes["earliest"])
	case c.set.has("to-latest"):
		return c.resetByTime(partitions, namedTimes["latest"])
	case c.set.has("to-datetime"):
		text, _, err := c.set.text("to-datetime")
		if err != nil {
			return nil, err
		}
		when, err := javaDateTime(text)
		if err != nil {
			return nil, runtimeException(err)
		}
		return c.resetByTime(partitions, when)
	case c.set.has("by-duration"):
		text, _, err := c.set.text("by-duration")
		if err != nil {
			return nil, err
		}
		d, err := javaDuration(text)
		if err != nil {
			return nil, err
		}
		return c.resetByTime(partitions, time.Now().Add(-d).UnixMilli())
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
		more, err := c.resetByTime(rest, namedTimes["latest"])
		return append(rows, more...), err
	}
	ways := make([]string, len(resetWays))
	for i, way := range resetWays {
		ways[i] = "[" + way + "]"
	}
	return nil, c.set.parser.usage("Option '[reset-offsets]' requires one of the following scenarios: [%s]", strings.Join(ways, ", "))
}

// resetByTime goes to the first record at or after a time, or to its end where there is none.
func (c *groupsCommand) resetByTime(partitions []groupPartition, when int64) ([]resetRow, error) {
	found, err := c.offsetsAt(partitions, when, true)
	if err != nil {
		return nil, runtimeException(executionException(err))
	}
	var none []groupPartition
	for _, p := range partitions {
		if found[p] < 0 {
			none = append(none, p)
		}
	}
	ends, err := c.offsetsAt(none, namedTimes["latest"], true)
	if err != nil {
		return nil, runtimeException(executionException(err))
	}
	rows := make([]resetRow, len(partitions))
	for i, p := range partitions {
		rows[i] = resetRow{p, found[p]}
		if end, ok := ends[p]; ok {
			fmt.Fprintf(c.env.Stdout, "\nWarn: Partition %d from topic %s is empty. Falling back to latest known offset.\n", p.partition, p.topic)
			rows[i].offset = end
		}
	}
	return rows, nil
}

// withinLog cuts offsets to what the partitions hold, and says so.
func (c *groupsCommand) withinLog(rows []resetRow) ([]resetRow, error) {
	partitions := make([]groupPartition, len(rows))
	for i, r := range rows {
		partitions[i] = r.groupPartition
	}
	starts, err := c.offsetsAt(partitions, namedTimes["earliest"], true)
	if err != nil {
		return nil, runtimeException(executionException(err))
	}
	ends, err := c.offsetsAt(partitions, namedTimes["latest"], true)
	if err != nil {
		return nil, runtimeException(executionException(err))
	}
	for i, r := range rows {
		var to int64
		var side string
		switch {
		case r.offset > ends[r.groupPartition]:
			to, side = ends[r.groupPartition], "higher than latest"
		case r.offset < starts[r.groupPartition]:
			to, side = starts[r.groupPartition], "lower than earliest"
		default:
			continue
		}
		logLine(c.env.Stderr, "WARN", fmt.Sprintf("New offset (%d) is %s offset for topic partition %s. Value will be set to %d", r.offset, side, r.groupPartition, to),
			"org.apache.kafka.tools.OffsetsUtils", nil)
		rows[i].offset = to
	}
	return rows, nil
}

// resetFromFile reads a plan: TOPIC,PARTITION,OFFSET for one group, GROUP,TOPIC,PARTITION,OFFSET for several.
func (c *groupsCommand) resetFromFile(id string) ([]resetRow, error) {
	path, _, err := c.set.text("from-file")
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
	for first := true; ; first = false {
		fields, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, throw("java.lang.RuntimeException", err.Error())
		}
		if first {
			if complaint := notAnInt(fields, 1); complaint != nil {
				grouped = true
				// Kafka's tool reads the plan twice, and complains each time that it does not have the shorter form.
				fmt.Fprintf(c.env.Stderr, "%s\n%s\n", complaint, complaint)
			}
		}
		owner := id
		if grouped {
			owner, fields = fields[0], fields[1:]
		}
		if complaint := cmp.Or(notAnInt(fields, 1), notAnInt(fields, 2)); complaint != nil {
			return nil, runtimeException(complaint)
		}
		if owner != id {
			continue
		}
		found = true
		partition, _ := strconv.ParseInt(fields[1], 10, 32)
		offset, _ := strconv.ParseInt(fields[2], 10, 64)
		row := resetRow{groupPartition{fields[0], int32(partition)}, offset}
		if i := slices.IndexFunc(rows, func(r resetRow) bool { return r.groupPartition == row.groupPartition }); i >= 0 {
			rows[i] = row
		} else {
			rows = append(rows, row)
		}
	}
	if !found {
		printGroupError(c.env, "No reset plan for group "+id+" found")
		return nil, nil
	}
	return c.withinLog(rows)
}

// notAnInt complains of a field that is no number; the second is a partition, the third an offset.
func notAnInt(fields []string, i int) *javaError {
	typ, bits := "int", 32
	if i == 2 {
		typ, bits = "long", 64
	}
	const class = "com.fasterxml.jackson.databind.exc.InvalidFormatException"
	if i >= len(fields) {
		return throw(class, fmt.Sprintf("Cannot deserialize value of type `%s`: there is no column %d", typ, i+1))
	}
	if _, err := strconv.ParseInt(fields[i], 10, bits); err != nil {
		return throw(class, fmt.Sprintf("Cannot deserialize value of type `%s` from String \"%s\": not a valid `%s` value", typ, fields[i], typ))
	}
	return nil
}

// commit writes offsets for a group without members. Newer brokers want topics by id.
func (c *groupsCommand) commit(id string, rows []resetRow) error {
	var topics []string
	for _, r := range rows {
		if !slices.Contains(topics, r.topic) {
			topics = append(topics, r.topic)
		}
	}
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
	partitions, whole, err := c.topicPartitions()
	if err != nil {
		return err
	}
	const noPartition = -1
	result := map[groupPartition]*javaError{}
	if whole != nil {
		resp, err := c.metadata("describeTopics", whole)
		if err != nil {
			return err
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
	code, err := c.deleteOffsetsOf(id, partitions, result)
	if err != nil {
		return err
	}
	switch e := brokerError(code, nil); code {
	case 0:
		fmt.Fprintf(c.env.Stdout, "Request succeeded for deleting offsets from group %s.\n", id)
	case kerr.InvalidGroupID.Code, kerr.GroupIDNotFound.Code, kerr.GroupAuthorizationFailed.Code, kerr.NonEmptyGroup.Code:
		printGroupError(c.env, e.text())
	case kerr.GroupSubscribedToTopic.Code, kerr.TopicAuthorizationFailed.Code, kerr.UnknownTopicOrPartition.Code:
		printGroupError(c.env, "Encountered some partition-level error, see the follow-up details.")
	default:
		printGroupError(c.env, "Encountered some unknown error: "+kerr.TypedErrorForCode(code).Message)
	}
	width := minColumn
	all := make([]groupPartition, 0, len(result))
	for p := range result {
		all = append(all, p)
		width = max(width, len(p.topic))
	}
	slices.SortFunc(all, comparePartitions)
	line := func(topic, partition, status string) {
		fmt.Fprintf(c.env.Stdout, "\n%-*s %-10s %-15s", width, topic, partition, status)
	}
	line("TOPIC", "PARTITION", "STATUS")
	for _, p := range all {
		partition, status := strconv.Itoa(int(p.partition)), "Successful"
		if p.partition == noPartition {
			partition = missingColumn
		}
		if e := result[p]; e != nil {
			status = "Error: " + e.Error()
		}
		line(p.topic, partition, status)
	}
	fmt.Fprintln(c.env.Stdout)
	return nil
}

// deleteOffsetsOf sends the request and notes each partition's result. It returns the group's error code, or the first of a partition's.
func (a *admin) deleteOffsetsOf(id string, partitions []groupPartition, result map[groupPartition]*javaError) (int16, error) {
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
		return 0, err
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
	return code, nil
}

// javaDateTime reads a time such as 2026-01-31T12:00:00.000, in UTC unless it says otherwise, as milliseconds since 1970.
func javaDateTime(text string) (int64, error) {
	const parseException = "java.text.ParseException"
	_, clock, ok := strings.Cut(strings.TrimRight(text, "T"), "T")
	if !ok {
		return 0, throw(parseException, "Error parsing timestamp. It does not contain a 'T' according to ISO8601 format")
	}
	if !strings.ContainsAny(clock, "+-Z") {
		text += "Z"
	}
	for _, layout := range []string{"2006-01-02T15:04:05.000Z07:00", "2006-01-02T15:04:05.000Z0700", "2006-01-02T15:04:05.000Z07"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UnixMilli(), nil
		}
	}
	return 0, throw(parseException, fmt.Sprintf("Unparseable date: \"%s\"", text))
}

var durationPattern = regexp.MustCompile(`(?i)^([-+]?)P(?:([-+]?[0-9]+)D)?(T(?:([-+]?[0-9]+)H)?(?:([-+]?[0-9]+)M)?(?:([-+]?[0-9]+)(?:[.,]([0-9]{0,9}))?S)?)?$`)

// javaDuration is Duration.parse, for durations that a time.Duration can hold.
func javaDuration(text string) (time.Duration, error) {
	refused := throw("java.time.format.DateTimeParseException", "Text cannot be parsed to a Duration")
	m := durationPattern.FindStringSubmatch(text)
	if m == nil || strings.EqualFold(m[3], "T") || m[2] == "" && m[3] == "" {
		return 0, refused
	}
	seconds := 0.0
	for i, unit := range map[int]float64{2: 24 * 3600, 4: 3600, 5: 60, 6: 1} {
		if m[i] == "" {
			continue
		}
		n, err := strconv.ParseInt(m[i], 10, 64)
		if err != nil {
			return 0, refused
		}
		seconds += float64(n) * unit
	}
	if m[7] != "" {
		fraction, err := strconv.ParseFloat("0."+m[7], 64)
		if err != nil {
			return 0, refused
		}
		seconds += math.Copysign(fraction, map[bool]float64{true: -1, false: 1}[strings.HasPrefix(m[6], "-")])
	}
	if m[1] == "-" {
		seconds = -seconds
	}
	if math.Abs(seconds) > math.MaxInt64/1e9 {
		return 0, refused
	}
	return time.Duration(seconds * 1e9), nil
}
