package tools

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	adminCommandFailed = "org.apache.kafka.tools.AdminCommandFailedException"
	adminOperation     = "org.apache.kafka.tools.AdminOperationException"
)

const reassignPurpose = "This tool helps to move topic partitions between replicas."

const reassignThrottleHelp = " This option can be included with --execute when a reassignment is started, and it can be altered by resubmitting the current reassignment along with the --additional flag. " +
	"The throttle rate should be at least 1 KB/s."

func reassignParser() *joptParser {
	return newJopt(
		joptOption{name: "verify", help: "Verify if the reassignment completed as specified by the --reassignment-json-file option. If there is a throttle engaged for the replicas specified, and the rebalance has completed, the throttle will be removed"},
		joptOption{name: "generate", help: "Generate a candidate partition reassignment configuration. Note that this only generates a candidate assignment, it does not execute it."},
		joptOption{name: "execute", help: "Kick off the reassignment as specified by the --reassignment-json-file option."},
		joptOption{name: "cancel", help: "Cancel an active reassignment."},
		joptOption{name: "list", help: "List all active partition reassignments."},
		joptOption{name: "bootstrap-server", arg: optionalArg, what: "Server(s) to use for bootstrapping", help: "the server(s) to use for bootstrapping."},
		joptOption{name: "bootstrap-controller", arg: optionalArg, what: "bootstrap controller to connect to", help: "The controller to use for reassignment. By default, the tool will get the quorum controller. This option supports the actions --cancel and --list."},
		joptOption{name: "command-config", arg: requiredArg, what: "Admin client property file", help: "Property file containing configs to be passed to Admin Client."},
		joptOption{name: "reassignment-json-file", arg: requiredArg, what: "manual assignment json file path", help: "The JSON file with the partition reassignment configurationThe format to use is - \n" +
			"{\"partitions\":\n\t[{\"topic\": \"foo\",\n\t  \"partition\": 1,\n\t  \"replicas\": [1,2,3],\n\t  \"log_dirs\": [\"dir1\",\"dir2\",\"dir3\"] }],\n\"version\":1\n}\n" +
			"Note that \"log_dirs\" is optional. When it is specified, its length must equal the length of the replicas list. The value in this list can be either \"any\" or the absolution path of the log directory on the broker. " +
			"If absolute log directory path is specified, the replica will be moved to the specified log directory on the broker."},
		joptOption{name: "topics-to-move-json-file", arg: requiredArg, what: "topics to reassign json file path", help: "Generate a reassignment configuration to move the partitions of the specified topics to the list of brokers specified by the --broker-list option. The format to use is - \n" +
			"{\"topics\":\n\t[{\"topic\": \"foo\"},{\"topic\": \"foo1\"}],\n\"version\":1\n}"},
		joptOption{name: "broker-list", arg: requiredArg, what: "brokerlist", help: "The list of brokers to which the partitions need to be reassigned in the form \"0,1,2\". This is required if --topics-to-move-json-file is used to generate reassignment configuration"},
		joptOption{name: "disable-rack-aware", help: "Disable rack aware replica assignment"},
		joptOption{name: "throttle", arg: requiredArg, typ: "Long", what: "throttle", def: "-1", help: "The movement of partitions between brokers will be throttled to this value (bytes/sec)." + reassignThrottleHelp},
		joptOption{name: "replica-alter-log-dirs-throttle", arg: requiredArg, typ: "Long", what: "replicaAlterLogDirsThrottle", def: "-1", help: "The movement of replicas between log directories on the same broker will be throttled to this value (bytes/sec)." + reassignThrottleHelp},
		joptOption{name: "timeout", arg: requiredArg, typ: "Long", what: "timeout", def: "10000", help: "The maximum time in ms to wait for log directory replica assignment to begin."},
		joptOption{name: "additional", help: "Execute this reassignment in addition to any other ongoing ones. This option can also be used to change the throttle of an ongoing reassignment."},
		joptOption{name: "preserve-throttles", help: "Do not modify broker or topic throttles."},
		joptOption{name: "disallow-replication-factor-change", help: "Denies the ability to change a partition's replication factor as part of this reassignment through adding validation against it."},
	)
}

// reassignActions are the options of which there must be exactly one; what each must have beside it, and what it may.
var reassignActions = []struct {
	name              string
	needed, permitted []string
}{
	{"generate", []string{"topics-to-move-json-file", "broker-list"}, []string{"bootstrap-server", "command-config", "disable-rack-aware"}},
	{"execute", []string{"reassignment-json-file"}, []string{"additional", "bootstrap-server", "command-config", "throttle", "replica-alter-log-dirs-throttle", "timeout", "disallow-replication-factor-change"}},
	{"verify", []string{"reassignment-json-file"}, []string{"bootstrap-server", "command-config", "preserve-throttles"}},
	{"cancel", []string{"reassignment-json-file"}, []string{"bootstrap-server", "bootstrap-controller", "command-config", "preserve-throttles", "timeout"}},
	{"list", nil, []string{"bootstrap-server", "bootstrap-controller", "command-config"}},
}

// reassignment is one call of kafka-reassign-partitions, with its client.
type reassignment struct {
	*admin
	env Env
	set *joptSet
}

// kafkaReassignPartitions is kafka-reassign-partitions.
func kafkaReassignPartitions(env Env, args []string) int {
	set, action, err := parseReassign(env, args)
	if err != nil {
		return uncaught(env, err)
	}
	err = reassign(env, set, action)
	if err == nil {
		return 0
	}
	if terse, ok := errors.AsType[*terseFailure](err); ok {
		fmt.Fprintln(env.Stdout, terse.message)
		return 1
	}
	e := asJava(err)
	fmt.Fprintf(env.Stdout, "Error: %s\n%s\n\n", e.text(), e.trace())
	return 1
}

// parseReassign returns the options and the action among them.
func parseReassign(env Env, args []string) (*joptSet, string, error) {
	set, err := reassignParser().parse(args)
	if err != nil {
		return nil, "", err
	}
	if err := set.helpOrVersion(env, args, reassignPurpose); err != nil {
		return nil, "", err
	}
	found, names := -1, make([]string, len(reassignActions))
	for i, a := range reassignActions {
		names[i] = "--" + a.name
		if set.has(a.name) {
			if found >= 0 {
				found = len(reassignActions)
				break
			}
			found = i
		}
	}
	if found < 0 || found == len(reassignActions) {
		for i, a := range reassignActions {
			names[i] = "--" + a.name
		}
		return nil, "", set.parser.usage("Command must include exactly one action: %s", strings.Join(names, ", "))
	}
	action := reassignActions[found]
	switch servers, controllers := set.has("bootstrap-server"), set.has("bootstrap-controller"); {
	case servers && controllers:
		return nil, "", set.parser.usage("Please don't specify both --bootstrap-server and --bootstrap-controller")
	case !servers && !controllers:
		return nil, "", set.parser.usage("Please specify either --bootstrap-server or --bootstrap-controller")
	}
	if err := set.require(action.needed...); err != nil {
		return nil, "", err
	}
	for _, option := range set.order {
		if option != action.name && !slices.Contains(action.needed, option) && !slices.Contains(action.permitted, option) {
			return nil, "", set.parser.usage(`Option "[%s]" can't be used with action "[%s]"`, option, action.name)
		}
	}
	return set, action.name, nil
}

func reassign(env Env, set *joptSet, action string) error {
	client, err := clientOfEither(env, set, "reassign-partitions-tool")
	if err != nil {
		return err
	}
	defer client.close()
	r := &reassignment{client, env, set}
	if action == "list" {
		return r.list()
	}
	option := "reassignment-json-file"
	if action == "generate" {
		option = "topics-to-move-json-file"
	}
	path, _, err := set.text(option)
	if err != nil {
		return err
	}
	text, err := readFileAsString(path)
	if err != nil {
		return err
	}
	switch action {
	case "verify":
		return r.verify(text)
	case "generate":
		return r.generate(text)
	case "execute":
		return r.execute(text)
	}
	return r.cancel(text)
}

// clientOfEither makes a client of --bootstrap-server or --bootstrap-controller, and of --command-config.
func clientOfEither(env Env, set *joptSet, clientID string) (*admin, error) {
	props, err := set.properties("command-config")
	if err != nil {
		return nil, err
	}
	servers, _, err := set.text("bootstrap-server")
	if err != nil {
		return nil, err
	}
	controllers, _, err := set.text("bootstrap-controller")
	if err != nil {
		return nil, err
	}
	if servers == "" && controllers == "" { // the option without its value
		return nil, throw("java.lang.NullPointerException", "")
	}
	if props["client.id"] == "" {
		props["client.id"] = clientID
	}
	return newAdminOf(env, props, servers, controllers)
}

// A moving is what a cluster says of a partition that is being moved.
type moving struct{ replicas, adding, removing []int32 }

// movings asks for the reassignments that are under way, of all partitions or of some.
func (a *admin) movings(only []groupPartition) (map[groupPartition]moving, error) {
	req := kmsg.NewPtrListPartitionReassignmentsRequest()
	req.TimeoutMillis = a.timeoutMillis()
	for _, p := range only {
		i := slices.IndexFunc(req.Topics, func(t kmsg.ListPartitionReassignmentsRequestTopic) bool { return t.Topic == p.topic })
		if i < 0 {
			i = len(req.Topics)
			t := kmsg.NewListPartitionReassignmentsRequestTopic()
			t.Topic = p.topic
			req.Topics = append(req.Topics, t)
		}
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, p.partition)
	}
	resp, err := call[*kmsg.ListPartitionReassignmentsResponse](a, "listPartitionReassignments", req)
	if err != nil {
		return nil, executionException(err)
	}
	if e := brokerError(resp.ErrorCode, resp.ErrorMessage); e != nil {
		return nil, executionException(e)
	}
	all := map[groupPartition]moving{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			all[groupPartition{t.Topic, p.Partition}] = moving{p.Replicas, p.AddingReplicas, p.RemovingReplicas}
		}
	}
	return all, nil
}

// sortedPartitions are the keys of a map, in order.
func sortedPartitions[V any](of map[groupPartition]V) []groupPartition {
	all := make([]groupPartition, 0, len(of))
	for p := range of {
		all = append(all, p)
	}
	slices.SortFunc(all, comparePartitions)
	return all
}

func partitionNames(partitions []groupPartition, separator string) string {
	names := make([]string, len(partitions))
	for i, p := range partitions {
		names[i] = p.String()
	}
	return strings.Join(names, separator)
}

// plural is the ending of a word that is counted.
func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

func (r *reassignment) list() error {
	all, err := r.movings(nil)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		fmt.Fprintln(r.env.Stdout, "No partition reassignments found.")
		return nil
	}
	fmt.Fprintln(r.env.Stdout, "Current partition reassignments:")
	for _, p := range sortedPartitions(all) {
		m := all[p]
		fmt.Fprintf(r.env.Stdout, "%s: replicas: %s.", p, joinIDs(m.replicas, ","))
		if len(m.adding) > 0 {
			fmt.Fprintf(r.env.Stdout, " adding: %s.", joinIDs(m.adding, ","))
		}
		if len(m.removing) > 0 {
			fmt.Fprintf(r.env.Stdout, " removing: %s.", joinIDs(m.removing, ","))
		}
		fmt.Fprintln(r.env.Stdout)
	}
	return nil
}

// verify tells how far the moves of a plan are. When none is under way, the throttles are taken off.
func (r *reassignment) verify(text string) error {
	plan, err := parseReassignment(text)
	if err != nil {
		return err
	}
	current, err := r.movings(nil)
	if err != nil {
		return err
	}
	var topics []string
	for _, p := range plan.partitions {
		if _, moves := current[p.at]; !moves && !slices.Contains(topics, p.at.topic) {
			topics = append(topics, p.at.topic)
		}
	}
	described, _, _, err := r.describeReplicas(topics)
	if err != nil {
		return err
	}
	fmt.Fprintln(r.env.Stdout, "Status of partition reassignment:")
	last := map[groupPartition][]int32{}
	for _, p := range plan.partitions {
		last[p.at] = p.replicas
	}
	for _, at := range sortedPartitions(last) {
		_, moves := current[at]
		switch now := described[at]; {
		case moves:
			fmt.Fprintf(r.env.Stdout, "Reassignment of partition %s is still in progress.\n", at)
		case slices.Equal(now, last[at]):
			fmt.Fprintf(r.env.Stdout, "Reassignment of partition %s is completed.\n", at)
		default:
			fmt.Fprintf(r.env.Stdout, "There is no active reassignment of partition %s, but replica set is %s rather than %s.\n", at, joinIDs(now, ","), joinIDs(last[at], ","))
		}
	}
	moves, err := r.dirMoves(plan.dirs)
	if err != nil {
		return err
	}
	var lines []string
	dirsDone := true
	for _, at := range sortedReplicas(plan.dirs) {
		m := moves[at]
		lines = append(lines, m.text(at, plan.dirs[at]))
		dirsDone = dirsDone && m.future == ""
	}
	fmt.Fprintln(r.env.Stdout, strings.Join(lines, "\n"))
	if len(current) == 0 && dirsDone && !r.set.has("preserve-throttles") {
		return r.clearThrottles(plan)
	}
	return nil
}

// execute starts a plan.
func (r *reassignment) execute(text string) error {
	plan, err := parseReassignment(text)
	if err == nil {
		err = plan.check()
	}
	if err != nil {
		return err
	}
	throttle, _, err := r.set.number("throttle")
	if err != nil {
		return err
	}
	dirThrottle, _, err := r.set.number("replica-alter-log-dirs-throttle")
	if err != nil {
		return err
	}
	current, err := r.movings(nil)
	if err != nil {
		return err
	}
	if len(current) > 0 && !r.set.has("additional") {
		return terse("Cannot execute because there is an existing partition assignment.  Use --additional to override this and create a new partition assignment in addition to the existing one. " +
			"The --additional flag can also be used to change the throttle by resubmitting the current reassignment.")
	}
	if err := r.checkBrokers(plan); err != nil {
		return err
	}
	before, dirs, err := r.placement(plan.topics(), plan.byPartition())
	if err != nil {
		return err
	}
	fmt.Fprintf(r.env.Stdout, "Current partition replica assignment\n\n%s\n\nSave this to use as the --reassignment-json-file option during rollback\n", reassignmentJSON(before, dirs))
	if throttle >= 0 || dirThrottle >= 0 {
		fmt.Fprintln(r.env.Stdout, "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed.")
	}
	if throttle >= 0 {
		if err := r.throttleMoves(proposedMoves(current, plan.byPartition(), before), throttle); err != nil {
			return err
		}
	}
	if dirThrottle >= 0 {
		if err := r.throttleDirs(plan, dirThrottle); err != nil {
			return err
		}
	}
	targets := plan.byPartition()
	failed, err := r.alterAssignments(targets, !r.set.has("disallow-replication-factor-change"))
	if err != nil {
		return err
	}
	if len(failed) > 0 {
		return terse("Error reassigning partition(s):\n%s", failedText(failed))
	}
	fmt.Fprintf(r.env.Stdout, "Successfully started partition reassignment%s for %s\n", plural(len(targets)), partitionNames(sortedPartitions(targets), ","))
	return r.moveDirs(plan.dirs)
}

// cancel stops what is under way of a plan.
func (r *reassignment) cancel(text string) error {
	plan, err := parseReassignment(text)
	if err != nil {
		return err
	}
	current, err := r.movings(sortedPartitions(plan.byPartition()))
	if err != nil {
		return err
	}
	targets := map[groupPartition][]int32{}
	for at, m := range current {
		if len(m.adding) > 0 || len(m.removing) > 0 {
			targets[at] = nil
		}
	}
	if len(targets) == 0 {
		fmt.Fprintln(r.env.Stdout, "None of the specified partition reassignments are active.")
	} else {
		failed, err := r.alterAssignments(targets, true)
		if err != nil {
			return err
		}
		if len(failed) > 0 {
			return terse("Error cancelling partition reassignment%s for:\n%s", plural(len(failed)), failedText(failed))
		}
		fmt.Fprintf(r.env.Stdout, "Successfully cancelled partition reassignment%s for: %s\n", plural(len(targets)), partitionNames(sortedPartitions(targets), ","))
	}
	moves, err := r.dirMoves(plan.dirs)
	if err != nil {
		return err
	}
	back := map[partitionReplica]string{}
	for at, m := range moves {
		if m.future != "" {
			back[at] = m.current
		}
	}
	if len(back) == 0 {
		fmt.Fprint(r.env.Stdout, "None of the specified partition moves are active.")
	} else if err := r.moveDirs(back); err != nil {
		return err
	}
	if r.set.has("preserve-throttles") {
		return nil
	}
	return r.clearThrottles(plan)
}

// alterAssignments asks for replicas, nil to cancel. It returns what was refused, by partition.
func (r *reassignment) alterAssignments(targets map[groupPartition][]int32, factorMayChange bool) (map[groupPartition]*javaError, error) {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.TimeoutMillis, req.AllowReplicationFactorChange = r.timeoutMillis(), factorMayChange
	for _, at := range sortedPartitions(targets) {
		if len(req.Topics) == 0 || req.Topics[len(req.Topics)-1].Topic != at.topic {
			t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
			t.Topic = at.topic
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		p.Partition, p.Replicas = at.partition, targets[at]
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	failed := map[groupPartition]*javaError{}
	resp, err := call[*kmsg.AlterPartitionAssignmentsResponse](r.admin, "alterPartitionReassignments", req)
	var whole *javaError
	switch {
	case err != nil:
		whole = asJava(err)
	default:
		whole = brokerError(resp.ErrorCode, resp.ErrorMessage)
	}
	if whole != nil {
		for at := range targets {
			failed[at] = whole
		}
		return failed, nil
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if e := brokerError(p.ErrorCode, p.ErrorMessage); e != nil {
				failed[groupPartition{t.Topic, p.Partition}] = e
			}
		}
	}
	return failed, nil
}

func failedText(failed map[groupPartition]*javaError) string {
	var lines []string
	for _, at := range sortedPartitions(failed) {
		lines = append(lines, at.String()+": "+failed[at].text())
	}
	return strings.Join(lines, "\n")
}

// moveDirs asks brokers to move replicas between their directories, again and again until each has begun or the time is over:
// a replica that is just being made is not there yet.
func (r *reassignment) moveDirs(moves map[partitionReplica]string) error {
	if len(moves) == 0 {
		return nil
	}
	timeout, _, err := r.set.number("timeout")
	if err != nil {
		return err
	}
	const again = 100 * time.Millisecond
	for deadline := time.Now().Add(time.Duration(min(timeout, maxMillis)) * time.Millisecond); ; time.Sleep(again) {
		begun, err := r.alterDirs(moves)
		if err != nil {
			return err
		}
		for _, at := range begun {
			fmt.Fprintf(r.env.Stdout, "Successfully started moving log directory to %s for replica %s-%d with broker %d \n", moves[at], at.topic, at.partition, at.broker)
			delete(moves, at)
		}
		if len(moves) == 0 {
			return nil
		}
		if !time.Now().Before(deadline) {
			var names []string
			for _, at := range sortedReplicas(moves) {
				names = append(names, at.String())
			}
			return terse("Timed out before log directory move%s could be started for: %s", plural(len(moves)), strings.Join(names, ","))
		}
	}
}
