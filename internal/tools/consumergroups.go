package tools

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const consumerGroupsPurpose = "This tool helps to list all consumer groups, describe a consumer group, delete consumer group info, or reset consumer group offsets."

const noExecuteWarning = "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will require either --dry-run or --execute to be specified. " +
	"You should add the --dry-run option explicitly if you are scripting this command and want to keep the current default behavior without prompting."

// missingColumn stands for a value that there is not.
const missingColumn = "-"

// groupActions are the options of which there must be exactly one.
var groupActions = []string{"list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex"}

// resetWaysChecked are resetWays in the order in which Kafka's tools look for two of them.
var resetWaysChecked = []string{"to-offset", "to-datetime", "by-duration", "to-earliest", "to-latest", "to-current", "shift-by", "from-file"}

// resetWays are the options that say where --reset-offsets moves a group to, sorted.
var resetWays = []string{"by-duration", "from-file", "shift-by", "to-current", "to-datetime", "to-earliest", "to-latest", "to-offset"}

const groupsDescribeExample = "\nExample: --bootstrap-server localhost:9092 --describe --group group1 --"

// resetOptions are the options of --reset-offsets: where to, and whether it is done. groups is what a tool calls those that it moves;
// some have no use for all of them.
func resetOptions(groups string, without ...string) []joptOption {
	return slices.DeleteFunc([]joptOption{
		{name: "to-offset", arg: requiredArg, typ: "Long", what: "offset", help: "Reset offsets to a specific offset."},
		{name: "from-file", arg: requiredArg, what: "path to CSV file", help: "Reset offsets to values defined in CSV file."},
		{name: "to-datetime", arg: requiredArg, what: "datetime", help: "Reset offsets to offset from datetime. Format: 'YYYY-MM-DDThh:mm:ss.sss'"},
		{name: "by-duration", arg: requiredArg, what: "duration", help: "Reset offsets to offset by duration from current timestamp. Format: 'PnDTnHnMnS'"},
		{name: "to-earliest", help: "Reset offsets to earliest offset."},
		{name: "to-latest", help: "Reset offsets to latest offset."},
		{name: "to-current", help: "Reset offsets to current offset."},
		{name: "shift-by", arg: requiredArg, typ: "Long", what: "number-of-offsets", help: "Reset offsets shifting current offset by 'n', where 'n' can be positive or negative."},
		{name: "dry-run", help: "Only show results without executing changes on " + groups + ". Supported operations: reset-offsets."},
		{name: "execute", help: "Execute operation. Supported operations: reset-offsets."},
		{name: "export", help: "Export operation execution to a CSV file. Supported operations: reset-offsets."},
	}, func(o joptOption) bool { return slices.Contains(without, o.name) })
}

func consumerGroupsParser() *joptParser {
	return newJopt(append(resetOptions("Consumer Groups"),
		joptOption{name: "bootstrap-server", arg: requiredArg, what: "server to connect to", help: "The server(s) to connect to. REQUIRED for all options except for --validate-regex."},
		joptOption{name: "group", arg: requiredArg, what: "consumer group", help: "The consumer group we wish to act on."},
		joptOption{name: "topic", arg: requiredArg, what: "topic", help: "The topic whose consumer group information should be deleted or topic whose should be included in the reset offset process. " +
			"In `reset-offsets` case, partitions can be specified using this format: `topic1:0,1,2`, where 0,1,2 are the partition to be included in the process. Reset-offsets also supports multiple topic inputs."},
		joptOption{name: "all-topics", help: "Consider all topics assigned to a group in the `reset-offsets` process."},
		joptOption{name: "list", help: "List all consumer groups."},
		joptOption{name: "describe", help: "Describe consumer group and list offset lag (number of messages not yet processed) related to given group."},
		joptOption{name: "all-groups", help: "Apply to all consumer groups."},
		joptOption{name: "delete", help: "Pass in groups to delete topic partition offsets and ownership information over the entire consumer group. For instance --group g1 --group g2"},
		joptOption{name: "timeout", arg: requiredArg, typ: "Long", what: "timeout (ms)", def: "30000", help: "The timeout that can be set for some use cases. For example, it can be used when describing the group " +
			"to specify the maximum amount of time in milliseconds to wait before the group stabilizes (when the group is just created, or is going through some changes)."},
		joptOption{name: "command-config", arg: requiredArg, what: "command config property file", help: "Property file containing configs to be passed to Admin Client and Consumer."},
		joptOption{name: "reset-offsets", help: "Reset offsets of consumer group. Supports one consumer group at the time, and instances should be inactive\n" +
			"Has 2 execution options: --dry-run (the default) to plan which offsets to reset, and --execute to update the offsets. Additionally, the --export option is used to export the results to a CSV format.\n" +
			"You must choose one of the following reset specifications: --to-datetime, --by-duration, --to-earliest, --to-latest, --shift-by, --from-file, --to-current, --to-offset.\n" +
			"To define the scope use --all-topics or --topic. One scope must be specified unless you use '--from-file'."},
		joptOption{name: "delete-offsets", help: "Delete offsets of consumer group. Supports one consumer group at the time, and multiple topics."},
		joptOption{name: "members", help: "Describe members of the group. This option may be used with '--describe' and '--bootstrap-server' options only." + groupsDescribeExample + "members"},
		joptOption{name: "verbose", help: "Provide additional information, if any, when describing the group. This option may be used with '--offsets'/'--members'/'--state' and '--bootstrap-server' options only." +
			groupsDescribeExample + "members --verbose"},
		joptOption{name: "offsets", help: "Describe the group and list all topic partitions in the group along with their offset lag. " +
			"This is the default sub-action of and may be used with '--describe' and '--bootstrap-server' options only." + groupsDescribeExample + "offsets"},
		joptOption{name: "state", arg: optionalArg, help: "When specified with '--describe', includes the state of the group." + groupsDescribeExample + "state\n" +
			"When specified with '--list', it displays the state of all groups. It can also be used to list groups with specific states.\n" +
			"Example: --bootstrap-server localhost:9092 --list --state stable,empty\nThis option may be used with '--describe', '--list' and '--bootstrap-server' options only."},
		joptOption{name: "type", arg: optionalArg, help: "When specified with '--list', it displays the types of all the groups. It can also be used to list groups with specific types.\n" +
			"Example: --bootstrap-server localhost:9092 --list --type classic,consumer\nThis option may be used with the '--list' option only."},
		joptOption{name: "validate-regex", arg: requiredArg, what: "regex", help: "Validate that the syntax of the provided regular expression is valid according to the RE2 format."},
	)...)
}

// groupsCommand is one call of kafka-consumer-groups or of one of its siblings, with its client.
type groupsCommand struct {
	*admin
	env Env
	set *joptSet
}

// kafkaConsumerGroups is kafka-consumer-groups. Once its command line is accepted, it ends with 0 whatever happens.
func kafkaConsumerGroups(env Env, args []string) int {
	set, err := parseConsumerGroups(env, args)
	if err != nil {
		return uncaught(env, err)
	}
	err = runConsumerGroups(env, set)
	if err == nil {
		return 0
	}
	if usage, ok := errors.AsType[*usageError](err); ok {
		return usage.print(env)
	}
	e := asJava(err)
	if e.class == illegalArgument || e.class == numberFormat {
		return (&usageError{e.text(), set.parser}).print(env)
	}
	printGroupError(env, "Executing consumer group command failed due to "+e.text())
	fmt.Fprintln(env.Stderr, e.trace())
	return 0
}

func printGroupError(env Env, message string) { fmt.Fprintf(env.Stdout, "\nError: %s\n", message) }

func parseConsumerGroups(env Env, args []string) (*joptSet, error) {
	set, err := consumerGroupsParser().parse(args)
	if err != nil {
		return nil, err
	}
	if err := groupOptionsAvailable(set); err != nil {
		return nil, err
	}
	if err := set.helpOrVersion(env, args, consumerGroupsPurpose); err != nil {
		return nil, err
	}
	if err := checkConsumerGroups(env, set); err != nil {
		return nil, err
	}
	if set.countOf(groupActions...) != 1 {
		return nil, set.parser.usage("Command must include exactly one action: --%s", strings.Join(groupActions, ", --"))
	}
	return set, nil
}

// groupOptionsAvailable refuses options that the parser knows beside certain actions only.
func groupOptionsAvailable(set *joptSet) error {
	var stray []string
	for _, row := range [][]string{{"members", "describe"}, {"offsets", "describe"}, {"state", "describe", "list"}, {"type", "list"}, {"verbose", "describe"}} {
		if set.has(row[0]) && !slices.ContainsFunc(row[1:], set.has) {
			stray = append(stray, row[0])
		}
	}
	if stray == nil || set.has("help") {
		return nil
	}
	return &joptError{"UnavailableOptionException", "Option(s) [" + strings.Join(stray, ", ") + "] are unavailable given other options on the command line"}
}

// checkGroupViews checks what --describe is to show of which groups; scopes are the options that name them, as the tool lists them.
func checkGroupViews(set *joptSet, scopes string) error {
	if !set.has("describe") {
		return nil
	}
	views := 0
	for _, view := range []string{"members", "offsets", "state"} {
		if set.has(view) {
			views++
		}
	}
	switch {
	case !set.has("group") && !set.has("all-groups"):
		return set.parser.usage("Option [describe] takes one of these options: %s", scopes)
	case views > 1:
		return set.parser.usage("Option [describe] takes at most one of these options: [members], [offsets], [state]")
	case len(set.all("state")) > 0:
		return set.parser.usage("Option [describe] does not take a value for [state]")
	}
	return nil
}

func checkConsumerGroups(env Env, set *joptSet) error {
	usage := set.parser.usage
	scoped := set.has("group") || set.has("all-groups")
	if !set.has("validate-regex") {
		if err := set.require("bootstrap-server"); err != nil {
			return err
		}
	}
	if err := checkGroupViews(set, "[group], [all-groups]"); err != nil {
		return err
	}
	if set.has("delete") {
		switch {
		case !scoped:
			return usage("Option [delete] takes one of these options: [group], [all-groups]")
		case set.has("topic"):
			return usage("The consumer does not support topic-specific offset deletion from a consumer group.")
		}
	}
	if set.has("delete-offsets") && (!set.has("group") || !set.has("topic")) {
		return usage("Option [delete-offsets] takes the following options: [group], [topic]")
	}
	if set.has("reset-offsets") {
		switch {
		case set.has("dry-run") && set.has("execute"):
			return usage("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
		case !set.has("dry-run") && !set.has("execute"):
			fmt.Fprintln(env.Stderr, noExecuteWarning)
		}
		if !scoped {
			return usage("Option [reset-offsets] takes one of these options: [group], [all-groups]")
		}
		if err := set.alternatives(resetWaysChecked...); err != nil {
			return err
		}
	}
	if err := set.conflict("group", "all-groups", "list"); err != nil {
		return err
	}
	return set.conflict("topic", "list", "describe")
}

func runConsumerGroups(env Env, set *joptSet) error {
	if set.has("validate-regex") {
		return validateRegex(env, set)
	}
	c, err := newGroupsCommand(env, set)
	if err != nil {
		return err
	}
	defer c.close()
	switch {
	case set.has("list"):
		return c.list()
	case set.has("describe"):
		return c.describe()
	case set.has("delete"):
		return c.delete()
	case set.has("reset-offsets"):
		return c.reset()
	}
	return c.deleteOffsets()
}

// newGroupsCommand makes a client of the options that the tools of groups have in common. Whoever called it closes it.
func newGroupsCommand(env Env, set *joptSet) (*groupsCommand, error) {
	if path, ok, err := set.text("command-config"); err == nil && ok {
		if _, err := loadProperties(path); err != nil {
			return nil, runtimeException(err)
		}
	}
	timeout, _, err := set.number("timeout")
	if err != nil {
		return nil, err
	}
	client, err := clientOf(env, set, "adminclient-1")
	if err != nil {
		return nil, err
	}
	client.apiTimeout = time.Duration(int32(timeout)) * time.Millisecond
	return &groupsCommand{client, env, set}, nil
}

// validateRegex judges an expression as the broker's RE2 does, which speaks as Go's.
func validateRegex(env Env, set *joptSet) error {
	pattern, _, err := set.text("validate-regex")
	if err != nil {
		return err
	}
	_, err = regexp.Compile(pattern)
	if complaint, ok := errors.AsType[*syntax.Error](err); ok {
		text := complaint.Code.String()
		if complaint.Code != syntax.ErrMissingParen && complaint.Code != syntax.ErrMissingBracket {
			text += ": `" + complaint.Expr + "`"
		}
		fmt.Fprintf(env.Stdout, "The regular expression `%s` is invalid: %s.\n", pattern, text)
		return nil
	}
	fmt.Fprintf(env.Stdout, "The regular expression `%s` is valid.\n", pattern)
	return nil
}

// The protocol's names for the types and states of groups that consumers make.
var (
	groupTypes     = []string{"Classic", "Consumer"}
	consumerStates = []string{"PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling"}
)

// allConsumerGroups lists the groups of consumers, of some types and states, all if none are given.
func (a *admin) allConsumerGroups(types, states []string) ([]kmsg.ListGroupsResponseGroup, error) {
	req := kmsg.NewPtrListGroupsRequest()
	if req.TypesFilter = types; types == nil {
		req.TypesFilter = groupTypes
	}
	req.StatesFilter = states
	groups, err := a.listGroups(req)
	if err != nil {
		return nil, throw("java.lang.RuntimeException", executionException(err).Error()).because(executionException(err))
	}
	return slices.DeleteFunc(groups, func(g kmsg.ListGroupsResponseGroup) bool { return g.ProtocolType != "" && g.ProtocolType != "consumer" }), nil
}

// listGroups asks all brokers for their groups.
func (a *admin) listGroups(req *kmsg.ListGroupsRequest) ([]kmsg.ListGroupsResponseGroup, error) {
	resp, err := call[*kmsg.ListGroupsResponse](a, "listGroups", req)
	if err != nil {
		if !a.dial.reached.Load() {
			err = throw(kafkaException, "Failed to find brokers to send ListGroups").because(noNodeUnless(err, "findAllBrokers"))
		}
		return nil, err
	}
	if e := brokerError(resp.ErrorCode, nil); e != nil {
		return nil, e
	}
	groups := resp.Groups
	for i := range groups {
		groups[i].GroupType = groupTypeName(groups[i].GroupType)
	}
	javaMapOrder(groups, func(g kmsg.ListGroupsResponseGroup) uint32 { return javaHash(g.Group) }, javaMapCapacity)
	return groups, nil
}

// groupTypeName is how Java's client spells a type, which brokers write small.
func groupTypeName(typ string) string {
	if i := slices.IndexFunc(typesOfGroups, func(t string) bool { return strings.EqualFold(t, typ) }); i >= 0 {
		return typesOfGroups[i]
	}
	return "Unknown"
}

// words reads the value of --state or --type, as the protocol spells its words. Nil: none.
func (c *groupsCommand) words(option, complaint string, valid []string) ([]string, error) {
	text, ok, err := c.set.text(option)
	list := strings.TrimRight(text, ",") // what String.split looks at
	if err != nil || !ok || list == "" {
		return nil, err
	}
	var words []string
	for word := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(valid, func(v string) bool { return strings.EqualFold(v, strings.TrimSpace(word)) })
		if i < 0 {
			return nil, throw(illegalArgument, fmt.Sprintf("Invalid %s list '%s'. Valid %s are: %s", complaint, text, option+"s", strings.Join(valid, ", ")))
		}
		words = append(words, valid[i])
	}
	return words, nil
}

func (c *groupsCommand) list() error {
	withType, withState := c.set.has("type"), c.set.has("state")
	types, err := c.words("type", "types", groupTypes)
	if err != nil {
		return err
	}
	states, err := c.words("state", "state", consumerStates)
	if err != nil {
		return err
	}
	groups, err := c.allConsumerGroups(types, states)
	if err != nil {
		return err
	}
	if !withType && !withState {
		for _, g := range groups {
			fmt.Fprintln(c.env.Stdout, g.Group)
		}
		return nil
	}
	width := 15
	for _, g := range groups {
		width = max(width, len(g.Group))
	}
	row := func(group, typ, state string) {
		fmt.Fprintf(c.env.Stdout, "%-*s", width+10, group)
		if withType {
			fmt.Fprintf(c.env.Stdout, " %-20s", typ)
		}
		if withState {
			fmt.Fprintf(c.env.Stdout, " %-20s", state)
		}
		fmt.Fprintln(c.env.Stdout)
	}
	row("GROUP", "TYPE", "STATE")
	for _, g := range groups {
		row(g.Group, g.GroupType, g.GroupState)
	}
	return nil
}

// groupIDs are the groups to act on, each once.
func (c *groupsCommand) groupIDs() ([]string, error) {
	var ids []string
	if c.set.has("all-groups") {
		groups, err := c.allConsumerGroups(nil, nil)
		for _, g := range groups {
			ids = append(ids, g.Group)
		}
		return ids, err
	}
	for _, id := range c.set.all("group") {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func (c *groupsCommand) delete() error {
	ids, err := c.groupIDs()
	if err != nil {
		return err
	}
	javaMapOrder(ids, javaHash, javaMapCapacity)
	failed := map[string]*javaError{}
	deleted, err := c.deleteGroups("deleteConsumerGroups", ids, failed)
	if err == nil {
		c.tellDeleted("consumer", "", ids, deleted, failed)
	}
	return err
}

// deleteGroups deletes groups, but for those of which it is known already that it fails, and notes what fails. It returns those that
// were deleted.
func (a *admin) deleteGroups(name string, ids []string, failed map[string]*javaError) ([]string, error) {
	spared := func(id string) bool { return failed[id] != nil }
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = slices.DeleteFunc(slices.Clone(ids), spared)
	if len(req.Groups) == 0 {
		return nil, nil
	}
	resp, err := call[*kmsg.DeleteGroupsResponse](a, name, req)
	if err != nil {
		return nil, runtimeException(err)
	}
	for _, g := range resp.Groups {
		if e := brokerError(g.ErrorCode, g.ErrorMessage); e != nil {
			failed[g.Group] = e
		}
	}
	return slices.DeleteFunc(slices.Clone(ids), spared), nil
}

// tellDeleted says of each group what became of it. kind is how the tool calls its groups, end how it ends a sentence.
func (c *groupsCommand) tellDeleted(kind, end string, ids, deleted []string, failed map[string]*javaError) {
	out := c.env.Stdout
	if len(failed) == 0 {
		fmt.Fprintf(out, "Deletion of requested %s groups ('%s') was successful.\n", kind, strings.Join(deleted, "', '"))
		return
	}
	printGroupError(c.env, "Deletion of some "+kind+" groups failed:")
	for _, id := range ids {
		if e := failed[id]; e != nil {
			fmt.Fprintf(out, "* Group '%s' could not be deleted due to: %s\n", id, e)
		}
	}
	if len(deleted) > 0 {
		fmt.Fprintf(out, "\nThese %s groups were deleted successfully: '%s'%s\n", kind, strings.Join(deleted, "', '"), end)
	}
}
