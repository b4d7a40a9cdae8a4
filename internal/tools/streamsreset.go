package tools

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const streamsResetPurpose = `This tool helps to quickly reset an application in order to reprocess its data from scratch.
* This tool resets offsets of input topics to the earliest available offset (by default), or to a specific defined position* This tool deletes the internal topics that were created by Kafka Streams (topics starting with "<application.id>-").
The tool finds these internal topics automatically. If the topics flagged automatically for deletion by the dry-run are unsuitable, you can specify a subset with the "--internal-topics" option.
* This tool will not delete output topics (if you want to delete them, you need to do it yourself with the bin/kafka-topics.sh command).
* This tool will not clean up the local state on the stream application instances (the persisted stores used to cache aggregation results).
You need to call KafkaStreams#cleanUp() in your application or manually delete them from the directory specified by "state.dir" configuration (${java.io.tmpdir}/kafka-streams/<application.id> by default).
* When long session timeout has been configured, active members could take longer to get expired on the broker thus blocking the reset job to complete. Use the "--force" option could remove those left-over members immediately. Make sure to stop all stream applications when this option is specified to avoid unexpected disruptions.

*** Important! You will get wrong output if you don't clean up the local stores after running the reset tool!

*** Warning! This tool makes irreversible changes to your application. It is strongly recommended that you run this once with "--dry-run" to preview your changes before making them.

`

func streamsResetParser() *joptParser {
	return newJopt(
		joptOption{name: "application-id", arg: requiredArg, what: "id", required: true, help: "REQUIRED: The Kafka Streams application ID (application.id)."},
		joptOption{name: "bootstrap-server", arg: requiredArg, what: "server to connect to", def: "localhost:9092", help: "The server(s) to connect to. The broker list string in the form HOST1:PORT1,HOST2:PORT2."},
		joptOption{name: "input-topics", arg: requiredArg, what: "list", help: "Comma-separated list of user input topics. For these topics, the tool by default will reset the offset to the earliest available offset. Reset to other offset position by appending other reset offset option, ex: --input-topics foo --shift-by 5"},
		joptOption{name: "intermediate-topics", arg: requiredArg, what: "list", help: "[deprecated] Comma-separated list of intermediate user topics (topics that are input and output topics). For these topics, the tool will skip to the end."},
		joptOption{name: "internal-topics", arg: requiredArg, what: "list", help: "Comma-separated list of internal topics to delete. Must be a subset of the internal topics marked for deletion by the default behaviour (do a dry-run without this option to view these topics)."},
		joptOption{name: "to-offset", arg: requiredArg, typ: "Long", help: "Reset offsets to a specific offset."},
		joptOption{name: "to-datetime", arg: requiredArg, help: "Reset offsets to offset from datetime. Format: 'YYYY-MM-DDThh:mm:ss.sss'"},
		joptOption{name: "by-duration", arg: requiredArg, help: "Reset offsets to offset by duration from current timestamp. Format: 'PnDTnHnMnS'"},
		joptOption{name: "to-earliest", help: "Reset offsets to earliest offset."},
		joptOption{name: "to-latest", help: "Reset offsets to latest offset."},
		joptOption{name: "from-file", arg: requiredArg, help: "Reset offsets to values defined in CSV file."},
		joptOption{name: "shift-by", arg: requiredArg, typ: "Long", what: "number-of-offsets", help: "Reset offsets shifting current offset by 'n', where 'n' can be positive or negative"},
		joptOption{name: "command-config", arg: requiredArg, what: "file name", help: "Config properties file to be passed to admin clients and embedded consumer."},
		joptOption{name: "config-file", arg: requiredArg, what: "file name", help: "(DEPRECATED) Property file containing configs to be passed to admin clients and embedded consumer. This option will be removed in a future version. Use --command-config instead."},
		joptOption{name: "force", help: "Force the removal of members of the consumer group (intended to remove stopped members if a long session timeout was used). Make sure to shut down all stream applications when this option is specified to avoid unexpected rebalances."},
		joptOption{name: "dry-run", help: "Display the actions that would be performed without executing the reset commands."},
	)
}

// streamsWays are the options that say where input topics are reset to.
var streamsWays = []string{"to-offset", "to-datetime", "by-duration", "to-earliest", "to-latest", "from-file", "shift-by"}

// kafkaStreamsApplicationReset is kafka-streams-application-reset.
func kafkaStreamsApplicationReset(env Env, args []string) int {
	parser := streamsResetParser()
	set, err := parser.parse(args)
	if err != nil {
		return parser.usage("%s", err).(*usageError).print(env)
	}
	if err := set.helpOrVersion(env, args, streamsResetPurpose); err != nil {
		return uncaught(env, err)
	}
	code, err := streamsReset(env, set)
	if usage, ok := errors.AsType[*usageError](err); ok {
		return usage.print(env)
	}
	if err != nil {
		e := asJava(err)
		fmt.Fprintf(env.Stderr, "ERROR: %s\n%s\n", e, e.trace())
		return 1
	}
	return code
}

// streamsResetCommand is one call of the tool, with its client.
type streamsResetCommand struct {
	groupsCommand
	id     string // the application's, which is its group's
	topics []string
	dry    bool
}

func streamsReset(env Env, set *joptSet) (int, error) {
	if err := set.alternatives(streamsWays...); err != nil {
		return 1, err
	}
	if err := set.conflict("command-config", "config-file"); err != nil {
		return 1, err
	}
	file := "command-config"
	if set.has("config-file") {
		fmt.Fprintln(env.Stdout, "Option --config-file has been deprecated and will be removed in a future version. Use --command-config instead.")
		file = "config-file"
	}
	props, err := set.properties(file)
	if err != nil {
		return 1, err
	}
	if props["bootstrap.servers"], _, err = set.text("bootstrap-server"); err != nil {
		return 1, err
	}
	id, _, err := set.text("application-id")
	if err != nil {
		return 1, err
	}
	client, err := newAdmin(env, props, "adminclient-1")
	if err != nil {
		return 1, err
	}
	defer client.close()
	c := &streamsResetCommand{groupsCommand{client, env, set}, id, nil, set.has("dry-run")}
	if err := c.refuseMembers(); err != nil {
		return 1, err
	}
	if c.dry {
		fmt.Fprintln(env.Stdout, "----Dry run displays the actions which will be performed when running Streams Reset Tool----")
	}
	meta, err := client.metadata("listTopics", nil)
	if err != nil {
		return 1, executionException(err)
	}
	for _, t := range meta.Topics {
		c.topics = append(c.topics, *t.Topic)
	}
	javaMapOrder(c.topics, javaHash, javaMapCapacity)
	code, err := c.resetTopics()
	if err != nil {
		return 1, err
	}
	return code, c.deleteInternal()
}

// refuseMembers lets nobody reset an application that runs; with --force its members are put out.
func (c *streamsResetCommand) refuseMembers() error {
	g, err := c.groupOf(c.id)
	if err != nil {
		if e := asJava(err); e.class == kafkaErrors+"GroupIdNotFoundException" || e.class == illegalArgument {
			return nil
		}
		return executionException(err)
	}
	if len(g.members) == 0 {
		return nil
	}
	if !c.set.has("force") {
		var members []string
		for _, m := range g.members {
			members = append(members, m.id)
		}
		return throw("java.lang.IllegalStateException", fmt.Sprintf("Consumer group '%s' is still active and has following members: [%s]. Make sure to stop all running application instances before running the reset tool."+
			" You can use option '--force' to remove active members from the group.", c.id, strings.Join(members, ", ")))
	}
	fmt.Fprintf(c.env.Stdout, "Force deleting all active members in the group: %s\n", c.id)
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = c.id
	for _, m := range g.members {
		one := kmsg.NewLeaveGroupRequestMember()
		one.MemberID, one.InstanceID = m.id, m.instance
		req.Members = append(req.Members, one)
	}
	resp, err := call[*kmsg.LeaveGroupResponse](c.admin, "leaveGroup", req)
	if err != nil {
		return err
	}
	return brokerErrorOrNil(resp.ErrorCode, nil)
}

// listed are the topics that an option names.
func (c *streamsResetCommand) listed(option string) ([]string, error) {
	var all []string
	for _, text := range c.set.all(option) {
		for topic := range strings.SplitSeq(text, ",") {
			all = append(all, strings.TrimSpace(topic))
		}
	}
	return all, nil
}

// javaList is a list as Java prints it.
func javaList(words []string) string { return "[" + strings.Join(words, ", ") + "]" }

// resetTopics moves the application's group. The code is 1 if a topic is not there.
func (c *streamsResetCommand) resetTopics() (code int, err error) {
	out := c.env.Stdout
	input, err := c.listed("input-topics")
	if err != nil {
		return 1, err
	}
	between, err := c.listed("intermediate-topics")
	if err != nil {
		return 1, err
	}
	if len(input)+len(between) == 0 {
		fmt.Fprintln(out, "No input or intermediate topics specified. Skipping seek.")
		return 0, nil
	}
	there := func(kind string, topics []string) (found, missing []string) {
		if len(topics) > 0 {
			fmt.Fprintf(out, "Reset-offsets for %s topics %s\n", kind, javaList(topics))
		}
		for _, t := range topics {
			if slices.Contains(c.topics, t) {
				found = append(found, t)
			} else {
				missing = append(missing, t)
			}
		}
		return found, missing
	}
	foundInput, missingInput := there("input", input)
	foundBetween, missingBetween := there("intermediate", between)
	for _, m := range []struct {
		kind   string
		topics []string
	}{{"input", missingInput}, {"intermediate", missingBetween}} {
		if len(m.topics) == 0 {
			continue
		}
		code = 1
		fmt.Fprintf(out, "Following %s topics are not found, skipping them\n", m.kind)
		for _, t := range m.topics {
			fmt.Fprintf(out, "Topic: %s\n", t)
		}
	}
	if len(foundInput)+len(foundBetween) == 0 {
		return code, nil
	}
	var rows []resetRow
	if len(foundBetween) > 0 {
		fmt.Fprintf(out, "Following intermediate topics offsets will be reset to end (for consumer group %s)\n", c.id)
		for _, t := range foundBetween {
			fmt.Fprintf(out, "Topic: %s\n", t)
		}
		partitions, err := c.partitionsIn(foundBetween)
		if err == nil {
			rows, err = c.walk().at(partitions, namedTimes["latest"])
		}
		if err != nil {
			return 1, err
		}
	}
	if len(foundInput) > 0 {
		fmt.Fprintf(out, "Following input topics offsets will be reset to (for consumer group %s)\n", c.id)
		partitions, err := c.partitionsIn(foundInput)
		if err != nil {
			return 1, err
		}
		moved, err := c.inputRows(partitions)
		if err != nil {
			return 1, err
		}
		for _, r := range moved {
			fmt.Fprintf(out, "Topic: %s Partition: %d Offset: %d\n", r.topic, r.partition, r.offset)
		}
		rows = append(rows, moved...)
	}
	if !c.dry {
		if err := c.commit(c.id, rows); err != nil {
			fmt.Fprintln(c.env.Stderr, "ERROR: Resetting offsets failed.")
			return 1, err
		}
	}
	fmt.Fprintln(out, "Done.")
	return code, nil
}

func (c *streamsResetCommand) partitionsIn(topics []string) ([]groupPartition, error) {
	meta, err := c.metadata("describeTopics", topics)
	if err != nil {
		return nil, err
	}
	var all []groupPartition
	for _, t := range meta.Topics {
		if e := brokerError(t.ErrorCode, nil); e != nil {
			return nil, e
		}
		for _, p := range t.Partitions {
			all = append(all, groupPartition{*t.Topic, p.Partition})
		}
	}
	slices.SortFunc(all, comparePartitions)
	return all, nil
}

// walk is how this tool resets.
func (c *streamsResetCommand) walk() *resetWalk {
	return &resetWalk{
		admin: c.admin,
		empty: func(p groupPartition) {
			fmt.Fprintf(c.env.Stdout, "Partition %d from topic %s is empty, without a committed record. Falling back to latest known offset.\n", p.partition, p.topic)
		},
		moved: func(r resetRow, side string, to int64) {
			fmt.Fprintf(c.env.Stdout, "New offset (%d) is %s offset. Value will be set to %d\n", r.offset, side, to)
		},
		failed: func(err error) error { return executionException(err) },
	}
}

// inputRows applies the way that the options name; without one it is the earliest offset.
func (c *streamsResetCommand) inputRows(partitions []groupPartition) ([]resetRow, error) {
	rows := make([]resetRow, len(partitions))
	for i, p := range partitions {
		rows[i].groupPartition = p
	}
	switch {
	case c.set.has("to-offset"):
		n, _, err := c.set.number("to-offset")
		if err != nil {
			return nil, err
		}
		for i := range rows {
			rows[i].offset = n
		}
		return c.walk().within(rows)
	case c.set.has("shift-by"):
		n, _, err := c.set.number("shift-by")
		if err != nil {
			return nil, err
		}
		if rows, err = c.walk().at(partitions, namedTimes["latest"]); err != nil { // where a consumer begins that has committed nothing
			return nil, err
		}
		commits, err := c.committedBy(c.id)
		if err != nil {
			return nil, executionException(err)
		}
		for i := range rows {
			if at := slices.IndexFunc(commits, func(at committed) bool { return at.groupPartition == rows[i].groupPartition }); at >= 0 {
				rows[i].offset = commits[at].offset
			}
			rows[i].offset += n
		}
		return c.walk().within(rows)
	case c.set.has("from-file"):
		path, _, err := c.set.text("from-file")
		if err != nil {
			return nil, err
		}
		plan, err := readStreamsPlan(path)
		if err != nil {
			return nil, err
		}
		rows = slices.DeleteFunc(rows, func(r resetRow) bool { _, ok := plan[r.groupPartition]; return !ok })
		for i := range rows {
			rows[i].offset = plan[rows[i].groupPartition]
		}
		return c.walk().within(rows)
	}
	when, ok, err := timeOfWay(c.set)
	if err != nil {
		return nil, err
	}
	if !ok {
		when = namedTimes["earliest"]
	}
	return c.walk().at(partitions, when)
}

// readStreamsPlan reads lines of TOPIC,PARTITION,OFFSET.
func readStreamsPlan(path string) (map[groupPartition]int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, throw("java.nio.file.NoSuchFileException", path)
	}
	plan := map[groupPartition]int64{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		words := strings.Split(line, ",")
		if len(words) != 3 {
			return nil, throw(illegalArgument, "Invalid line in "+path+", expected topic,partition,offset: "+line)
		}
		partition, err := strconv.ParseInt(strings.TrimSpace(words[1]), 10, 32)
		if err != nil {
			return nil, throw(numberFormat, fmt.Sprintf("For input string: \"%s\"", words[1]))
		}
		offset, err := javaInt(strings.TrimSpace(words[2]), 64)
		if err != nil {
			return nil, err
		}
		plan[groupPartition{strings.TrimSpace(words[0]), int32(partition)}] = offset
	}
	return plan, nil
}

// internalTopic are the ends of names of topics that Kafka Streams makes for itself.
var internalTopic = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`-changelog$|-repartition$|-subscription-registration-topic$|-subscription-response-topic$|.-KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic$`)
})

// isInternalTopic is whether a topic, by its name, is one that an application made for itself.
func isInternalTopic(application, topic string) bool {
	return strings.HasPrefix(topic, application+"-") && internalTopic().MatchString(topic)
}

// deleteInternal deletes the application's own topics, or those of them that the user names.
func (c *streamsResetCommand) deleteInternal() error {
	inferred := slices.DeleteFunc(slices.Clone(c.topics), func(t string) bool { return !isInternalTopic(c.id, t) })
	topics, kind := inferred, "inferred"
	if c.set.has("internal-topics") {
		var err error
		if topics, err = c.listed("internal-topics"); err != nil {
			return err
		}
		kind = "specified"
		for _, t := range topics {
			if !slices.Contains(inferred, t) {
				return throw(illegalArgument, "Invalid topic specified in the --internal-topics option. Ensure that the topics specified are all internal topics. "+
					"Do a dry run without the --internal-topics option to see the list of all internal topics that can be deleted.")
			}
		}
	}
	fmt.Fprintf(c.env.Stdout, "Deleting %s internal topics %s\n", kind, javaList(topics))
	if !c.dry && len(topics) > 0 {
		failed, err := c.deleteTopics(topics)
		if err != nil {
			return err
		}
		for _, t := range failed {
			fmt.Fprintf(c.env.Stderr, "ERROR: deleting topic %s\n%s\n", t.topic, t.err.trace())
		}
		if len(failed) > 0 {
			return throw("java.lang.RuntimeException", "Encountered an error deleting one or more topics")
		}
	}
	fmt.Fprintln(c.env.Stdout, "Done.")
	return nil
}
