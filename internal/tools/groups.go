package tools

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const groupsPurpose = "This tool helps to list groups of all types."

func groupsParser() *joptParser {
	return newJopt(
		joptOption{name: "bootstrap-server", arg: requiredArg, what: "server to connect to", required: true, help: "REQUIRED: The Kafka server to connect to."},
		joptOption{name: "command-config", arg: requiredArg, what: "command config property file", help: "Property file containing configs to be passed to Admin Client."},
		joptOption{name: "list", help: "List the groups."},
		joptOption{name: "group-type", arg: requiredArg, what: "type", help: "Filter the groups based on group type. Valid types are: 'classic', 'consumer', 'share' and 'streams'."},
		joptOption{name: "protocol", arg: requiredArg, what: "protocol", help: "Filter the groups based on protocol type."},
		joptOption{name: "consumer", help: "Filter the groups to show all kinds of consumer groups, including classic and simple consumer groups. " +
			"This matches group type 'consumer', and group type 'classic' where the protocol type is 'consumer' or empty."},
		joptOption{name: "share", help: "Filter the groups to show share groups."},
		joptOption{name: "streams", help: "Filter the groups to show streams groups."},
	)
}

// typesOfGroups are all of them, in the protocol's words.
var typesOfGroups = []string{"Classic", "Consumer", "Share", "Streams"}

// kafkaGroups is kafka-groups.
func kafkaGroups(env Env, args []string) int {
	set, err := parseGroups(env, args)
	if err == nil {
		err = listGroupsOf(env, set)
	}
	if err == nil {
		return 0
	}
	if code, ended := endOfParsing(env, err); ended {
		return code
	}
	if refused, ok := errors.AsType[*groupsRefusal](err); ok {
		e := asJava(refused.err)
		fmt.Fprintf(env.Stdout, "Error while executing groups command : %s\n", e.text())
		logLine(env.Stderr, "ERROR", e.trace()+"\n", "org.apache.kafka.tools.GroupsCommand", nil)
		return 1
	}
	return complainTwice(env, err)
}

// complainTwice tells an error's message, then the exception: what many tools do with what went wrong before their work.
func complainTwice(env Env, err error) int {
	e := asJava(err)
	fmt.Fprintf(env.Stderr, "%s\n%s\n\n", e.text(), e.trace())
	return 1
}

// A groupsRefusal is a broker's.
type groupsRefusal struct{ err error }

func (e *groupsRefusal) Error() string { return e.err.Error() }

func parseGroups(env Env, args []string) (*joptSet, error) {
	parser := groupsParser()
	set, err := parser.parse(args)
	if err != nil {
		return nil, parser.usage("%s", err.Error())
	}
	if err := set.helpOrVersion(env, args, groupsPurpose); err != nil {
		return nil, err
	}
	if !set.has("list") {
		return nil, parser.usage("Command must include exactly one action: --list.")
	}
	for _, row := range [][]string{
		{"consumer", "group-type", "protocol", "share", "streams"},
		{"share", "consumer", "group-type", "protocol", "streams"},
		{"streams", "consumer", "group-type", "protocol", "share"},
	} {
		if err := set.conflict(row[0], row[1:]...); err != nil {
			return nil, err
		}
	}
	typ, ok, err := set.text("group-type")
	if err != nil {
		return nil, err
	}
	if ok && !slices.ContainsFunc(typesOfGroups, func(t string) bool { return strings.EqualFold(t, typ) }) {
		return nil, throw(illegalArgument, "--group-type must be a valid group type.")
	}
	return set, nil
}

func listGroupsOf(env Env, set *joptSet) error {
	typ, _, err := set.text("group-type")
	if err != nil {
		return err
	}
	protocol, byProtocol, err := set.text("protocol")
	if err != nil {
		return err
	}
	client, err := clientOf(env, set, "adminclient-1")
	if err != nil {
		return err
	}
	defer client.close()
	groups, err := client.listGroups(kmsg.NewPtrListGroupsRequest())
	if err != nil {
		return &groupsRefusal{err}
	}
	var shown []kmsg.ListGroupsResponseGroup
	width := 20
	for _, g := range groups {
		is := func(typ string) bool { return strings.EqualFold(g.GroupType, typ) }
		switch {
		case set.has("consumer") && !is("Consumer") && !(is("Classic") && (g.ProtocolType == "consumer" || g.ProtocolType == "")),
			set.has("share") && !is("Share"), set.has("streams") && !is("Streams"),
			typ != "" && !is(typ), byProtocol && g.ProtocolType != protocol:
			continue
		}
		shown = append(shown, g)
		width = max(width, len(g.Group))
	}
	fmt.Fprintf(env.Stdout, "%-*s %-20s %-20s\n", width, "GROUP", "TYPE", "PROTOCOL")
	for _, g := range shown {
		// The blank before the end of the line is Kafka's.
		fmt.Fprintf(env.Stdout, "%-*s %-20s %-20s \n", width, g.Group, g.GroupType, g.ProtocolType)
	}
	return nil
}

// clientOf makes a client of --bootstrap-server and --command-config.
func clientOf(env Env, set *joptSet, clientID string) (*admin, error) {
	props, err := set.properties("command-config")
	if err != nil {
		return nil, err
	}
	servers, _, err := set.text("bootstrap-server")
	if err != nil {
		return nil, err
	}
	props["bootstrap.servers"] = servers
	return newAdmin(env, props, clientID)
}
