package tools

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const leaderElectionPurpose = "This tool attempts to elect a new leader for a set of topic partitions. The type of elections supported are preferred replicas and unclean replicas."

// electionTypes are the protocol's, by number.
var electionTypes = []string{"PREFERRED", "UNCLEAN"}

func leaderElectionParser() *joptParser {
	return newJopt(
		joptOption{name: "bootstrap-server", arg: requiredArg, what: "host:port", help: "A hostname and port for the broker to connect to, in the form host:port. Multiple comma separated URLs can be given. REQUIRED."},
		joptOption{name: "admin.config", arg: requiredArg, what: "config file", help: "(DEPRECATED) Configuration properties files to pass to the admin client. This option will be removed in a future version. Use --command-config instead."},
		joptOption{name: "command-config", arg: requiredArg, what: "Config file", help: "Config properties file to pass to the admin client."},
		joptOption{name: "path-to-json-file", arg: requiredArg, what: "Path to JSON file", help: "The JSON file with the list  of partition for which leader elections should be performed. This is an example format. \n" +
			"{\"partitions\":\n\t[{\"topic\": \"foo\", \"partition\": 1},\n\t {\"topic\": \"foobar\", \"partition\": 2}]\n}\nNot allowed if --all-topic-partitions or --topic flags are specified."},
		joptOption{name: "topic", arg: requiredArg, what: "topic name", help: "Name of topic for which to perform an election. Not allowed if --path-to-json-file or --all-topic-partitions is specified."},
		joptOption{name: "partition", arg: requiredArg, typ: "Integer", what: "partition id", help: "Partition id for which to perform an election. REQUIRED if --topic is specified."},
		joptOption{name: "all-topic-partitions", help: "Perform election on all of the eligible topic partitions based on the type of election (see the --election-type flag). Not allowed if --topic or --path-to-json-file is specified."},
		joptOption{name: "election-type", arg: requiredArg, typ: "[" + strings.Join(electionTypes, ",") + "]", what: "election type", help: "Type of election to attempt. Possible values are \"preferred\" for preferred leader election or \"unclean\" for unclean leader election. " +
			"If preferred election is selection, the election is only performed if the current leader is not the preferred leader for the topic partition. " +
			"If unclean election is selected, the election is only performed if there are no leader for the topic partition. REQUIRED."},
	)
}

// kafkaLeaderElection is kafka-leader-election.
func kafkaLeaderElection(env Env, args []string) int { return endTool(env, leaderElection(env, args)) }

func leaderElection(env Env, args []string) error {
	set, err := leaderElectionParser().parse(args)
	if err != nil {
		return err
	}
	if err := set.helpOrVersion(env, args, leaderElectionPurpose); err != nil {
		return err
	}
	typ, err := checkLeaderElection(set)
	if err != nil {
		return err
	}
	wanted, err := electionScope(set)
	if err != nil {
		return err
	}
	option := "command-config"
	if set.has("admin.config") {
		fmt.Fprintln(env.Stdout, "Option --admin.config has been deprecated and will be removed in a future version. Use --command-config instead.")
		option = "admin.config"
	}
	props := clientConfig{}
	if path, ok, err := set.text(option); err != nil {
		return err
	} else if ok {
		if props, err = loadProperties(path); err != nil {
			return err
		}
	}
	if props["bootstrap.servers"], _, err = set.text("bootstrap-server"); err != nil {
		return err
	}
	if props["default.api.timeout.ms"] == "" {
		props["default.api.timeout.ms"] = "30000"
	}
	if props["request.timeout.ms"] == "" {
		props["request.timeout.ms"] = "15000"
	}
	client, err := newAdmin(env, props, "adminclient-1")
	if err != nil {
		return err
	}
	defer client.close()
	return client.elect(env, typ, wanted)
}

// checkLeaderElection returns the protocol's number of the election's type.
func checkLeaderElection(set *joptSet) (int8, error) {
	failed := func(format string, a ...any) error { return throw(adminCommandFailed, fmt.Sprintf(format, a...)) }
	var missing []string
	for _, name := range []string{"bootstrap-server", "election-type"} {
		if !set.has(name) {
			missing = append(missing, name)
		}
	}
	if missing != nil {
		return 0, failed("Missing required option(s): %s", strings.Join(missing, ", "))
	}
	if set.has("admin.config") && set.has("command-config") {
		return 0, set.parser.usage(`Option "[admin.config]" can't be used with option "[command-config]"`)
	}
	scopes := []string{"topic", "all-topic-partitions", "path-to-json-file"}
	given := 0
	for _, scope := range scopes {
		if set.has(scope) {
			given++
		}
	}
	if given != 1 {
		return 0, failed("One and only one of the following options is required: %s", strings.Join(scopes, ", "))
	}
	switch {
	case set.has("topic") && !set.has("partition"):
		return 0, failed("Missing required option(s): partition")
	case set.has("partition") && !set.has("topic"):
		return 0, failed("Option partition is only allowed if topic is used")
	}
	text, _, err := set.text("election-type")
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(electionTypes, func(t string) bool { return strings.EqualFold(t, text) })
	if i < 0 {
		return 0, &joptError{"OptionArgumentConversionException", fmt.Sprintf("Cannot parse argument '%s' of option election-type", text)}
	}
	return int8(i), nil
}

// electionScope are the partitions to act on; nil is all.
func electionScope(set *joptSet) ([]groupPartition, error) {
	switch {
	case set.has("topic"):
		topic, _, err := set.text("topic")
		if err != nil {
			return nil, err
		}
		partition, _, err := set.number("partition")
		return []groupPartition{{topic, int32(partition)}}, err
	case set.has("path-to-json-file"):
		path, _, err := set.text("path-to-json-file")
		if err != nil {
			return nil, err
		}
		text, err := readFileAsString(path)
		if err != nil {
			return nil, runtimeException(err)
		}
		return parseElections(text)
	}
	return nil, nil
}

func parseElections(text string) ([]groupPartition, error) {
	js, err := readJackson(text)
	if err != nil {
		return nil, throw(adminOperation, "Replica election data is empty")
	}
	if _, err := js.object(); err != nil {
		return nil, runtimeException(err)
	}
	list, err := js.field("partitions")
	if err != nil {
		return nil, throw(adminOperation, `Replica election data is missing "partitions" field`)
	}
	entries, err := list.array(jacksonArray)
	if err != nil {
		return nil, runtimeException(err)
	}
	wanted := []groupPartition{}
	for _, e := range entries {
		p, err := electionPartition(e)
		if err != nil {
			return nil, runtimeException(err)
		}
		wanted = append(wanted, p)
	}
	if twice := repeated(wanted); len(twice) > 0 {
		return nil, throw(adminOperation, "Replica election data contains duplicate partitions: ["+partitionNames(twice, ", ")+"]")
	}
	return wanted, nil
}

func electionPartition(e jacksonValue) (at groupPartition, err error) {
	field, err := e.field("topic")
	if err != nil {
		return at, err
	}
	if at.topic, err = field.str(); err != nil {
		return at, err
	}
	if field, err = e.field("partition"); err != nil {
		return at, err
	}
	at.partition, err = field.int32()
	return at, err
}

// elect has leaders elected, and tells of each partition what came of it. Of all partitions only those are told of for
// which something was done.
func (a *admin) elect(env Env, typ int8, wanted []groupPartition) error {
	req := kmsg.NewPtrElectLeadersRequest()
	req.ElectionType, req.TimeoutMillis = typ, a.timeoutMillis()
	if wanted != nil {
		req.Topics = []kmsg.ElectLeadersRequestTopic{}
	}
	for _, p := range wanted {
		i := slices.IndexFunc(req.Topics, func(t kmsg.ElectLeadersRequestTopic) bool { return t.Topic == p.topic })
		if i < 0 {
			i = len(req.Topics)
			t := kmsg.NewElectLeadersRequestTopic()
			t.Topic = p.topic
			req.Topics = append(req.Topics, t)
		}
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, p.partition)
	}
	resp, err := call[*kmsg.ElectLeadersResponse](a, "electLeaders", req)
	if err == nil {
		err = brokerErrorOrNil(resp.ErrorCode, nil)
	}
	if err != nil {
		return electionFailed(env, asJava(err))
	}
	var done, needless []groupPartition
	failed := map[groupPartition]*javaError{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			at := groupPartition{t.Topic, p.Partition}
			switch e := brokerError(p.ErrorCode, p.ErrorMessage); {
			case e == nil:
				done = append(done, at)
			case p.ErrorCode == kerr.ElectionNotNeeded.Code:
				needless = append(needless, at)
			default:
				failed[at] = e
			}
		}
	}
	if len(done) > 0 {
		javaMapOrder(done, groupPartition.javaHash, javaMapCapacity)
		fmt.Fprintf(env.Stdout, "Successfully completed leader election (%s) for partitions %s\n", electionTypes[typ], partitionNames(done, ", "))
	}
	if len(needless) > 0 {
		javaMapOrder(needless, groupPartition.javaHash, javaMapCapacity)
		fmt.Fprintf(env.Stdout, "Valid replica already elected for partitions %s\n", partitionNames(needless, ", "))
	}
	if len(failed) == 0 {
		return nil
	}
	all := sortedPartitions(failed)
	javaMapOrder(all, groupPartition.javaHash, javaMapCapacity)
	for _, at := range all {
		fmt.Fprintf(env.Stdout, "Error completing leader election (%s) for partition: %s: %s\n", electionTypes[typ], at, failed[at])
	}
	return throw(adminCommandFailed, fmt.Sprintf("%d replica(s) could not be elected", len(failed)))
}

// electionFailed tells of an election that did not take place.
func electionFailed(env Env, e *javaError) error {
	switch e.class {
	case kafkaErrors + "TimeoutException":
		const message = "Timeout waiting for election results"
		fmt.Fprintln(env.Stdout, message)
		return throw(adminCommandFailed, message).because(e)
	case kafkaErrors + "ClusterAuthorizationException":
		const message = "Not authorized to perform leader election"
		fmt.Fprintln(env.Stdout, message)
		return throw(adminCommandFailed, message).because(e)
	}
	fmt.Fprintln(env.Stdout, "Error while making request")
	return e
}
