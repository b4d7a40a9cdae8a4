package tools

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
)

const clientMetricsPurpose = "This tool helps to manipulate and describe client metrics configurations."

// clientMetricsKeys are the options that are values of a resource, and their keys.
var clientMetricsKeys = []struct{ option, key string }{{"interval", "interval.ms"}, {"metrics", "metrics"}, {"match", "match"}}

func clientMetricsParser() *joptParser {
	return newJopt(
		joptOption{name: "bootstrap-server", arg: requiredArg, what: "server to connect to", help: "REQUIRED: The Kafka server to connect to."},
		joptOption{name: "command-config", arg: requiredArg, what: "command config property file", help: "Property file containing configs to be passed to Admin Client."},
		joptOption{name: "alter", help: "Alter the configuration for the client metrics resource."},
		joptOption{name: "delete", help: "Delete the configuration for the client metrics resource."},
		joptOption{name: "describe", help: "List configurations for the client metrics resource."},
		joptOption{name: "list", help: "List the client metrics resources."},
		joptOption{name: "name", arg: requiredArg, what: "name", help: "Name of client metrics configuration resource."},
		joptOption{name: "generate-name", help: "Generate a UUID to use as the name."},
		joptOption{name: "interval", arg: requiredArg, what: "push interval", help: "The metrics push interval in milliseconds.\nLeave empty to reset the interval."},
		joptOption{name: "match", arg: requiredArg, what: "k1=v1,k2=v2", help: "Matching selector 'k1=v1,k2=v2'. The following is a list of valid selector names: \n" +
			"\tclient_id\n\tclient_instance_id\n\tclient_software_name\n\tclient_software_version\n\tclient_source_address\n\tclient_source_port\n"},
		joptOption{name: "metrics", arg: requiredArg, what: "m1,m2", help: "Telemetry metric name prefixes 'm1,m2'."},
	)
}

// kafkaClientMetrics is kafka-client-metrics.
func kafkaClientMetrics(env Env, args []string) int {
	set, err := parseClientMetrics(env, args)
	if err != nil {
		return endTool(env, err)
	}
	client, err := clientOf(env, set, "adminclient-1")
	if err != nil {
		return endTool(env, err)
	}
	defer client.close()
	if err := client.clientMetrics(env, set); err != nil {
		if _, ok := errors.AsType[*usageError](err); ok {
			return endTool(env, err)
		}
		e := asJava(err)
		fmt.Fprintf(env.Stdout, "Error while executing client metrics command : %s\n", e.text())
		logLine(env.Stderr, "ERROR", e.trace()+"\n", "org.apache.kafka.tools.ClientMetricsCommand", nil)
		return 1
	}
	return 0
}

func parseClientMetrics(env Env, args []string) (*joptSet, error) {
	parser := clientMetricsParser()
	set, err := parser.parse(args)
	if err != nil {
		return nil, parser.usage("%s", err.Error())
	}
	if err := set.helpOrVersion(env, args, clientMetricsPurpose); err != nil {
		return nil, err
	}
	actions := 0
	for _, action := range []string{"alter", "delete", "describe", "list"} {
		if set.has(action) {
			actions++
		}
	}
	if actions != 1 {
		return nil, parser.usage("Command must include exactly one action: --alter, --delete, --describe or --list.")
	}
	if !set.has("bootstrap-server") {
		return nil, throw(illegalArgument, "--bootstrap-server must be specified.")
	}
	for _, row := range [][]string{
		{"list", "name", "generate-name", "interval", "match", "metrics"},
		{"describe", "generate-name", "interval", "match", "metrics"},
		{"delete", "generate-name", "interval", "match", "metrics"},
	} {
		if err := set.conflict(row[0], row[1:]...); err != nil {
			return nil, err
		}
	}
	if set.has("alter") && set.has("name") == set.has("generate-name") {
		return nil, throw(illegalArgument, "One of --name or --generate-name must be specified with --alter.")
	}
	if set.has("delete") && !set.has("name") {
		return nil, throw(illegalArgument, "A client metrics resource name must be specified with --delete.")
	}
	if text, ok, err := set.text("interval"); err != nil {
		return nil, err
	} else if ok && text != "" {
		if _, err := strconv.ParseInt(text, 10, 32); err != nil {
			return nil, throw(illegalArgument, "Invalid interval value. Enter an integer, or leave empty to reset.")
		}
	}
	return set, nil
}

// clientMetrics does what was asked. Its errors are not wrapped.
func (a *admin) clientMetrics(env Env, set *joptSet) error {
	name, named, err := set.text("name")
	if err != nil {
		return err
	}
	switch {
	case set.has("alter"):
		if set.has("generate-name") {
			name = kmeta.RandomUUID().String()
		}
		var changes configChanges
		for _, k := range clientMetricsKeys {
			if !set.has(k.option) {
				continue
			}
			text, _, err := set.text(k.option)
			if err != nil {
				return err
			}
			if text == "" {
				changes.add(kmsg.ConfigResourceTypeClientMetrics, name, k.key, nil)
			} else {
				changes.add(kmsg.ConfigResourceTypeClientMetrics, name, k.key, &text)
			}
		}
		if err := causeOf(a.change(changes)); err != nil {
			return err
		}
		fmt.Fprintf(env.Stdout, "Altered client metrics config for %s.\n", name)
	case set.has("delete"):
		entries, err := a.clientMetricsOf(name)
		if err != nil {
			return err
		}
		var changes configChanges
		for _, e := range entries {
			changes.add(kmsg.ConfigResourceTypeClientMetrics, name, e.Name, nil)
		}
		if err := causeOf(a.change(changes)); err != nil {
			return err
		}
		fmt.Fprintf(env.Stdout, "Deleted client metrics config for %s.\n", name)
	case set.has("describe"):
		return a.describeClientMetrics(env, name, named)
	default:
		names, err := a.configured(kmsg.ConfigResourceTypeClientMetrics)
		if err != nil {
			return err
		}
		fmt.Fprintln(env.Stdout, strings.Join(names, "\n"))
	}
	return nil
}

// causeOf takes an ExecutionException's wrapping off.
func causeOf(err error) error {
	if e, ok := errors.AsType[*javaError](err); ok && e.cause != nil {
		return e.cause
	}
	return err
}

// clientMetricsOf are the values that a resource has of its own.
func (a *admin) clientMetricsOf(name string) ([]kmsg.DescribeConfigsResponseResourceConfig, error) {
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeClientMetrics, name
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources = append(req.Resources, r)
	resp, err := call[*kmsg.DescribeConfigsResponse](a, "describeConfigs", req)
	if err != nil {
		return nil, err
	}
	var entries []kmsg.DescribeConfigsResponseResourceConfig
	for _, r := range resp.Resources {
		if e := brokerError(r.ErrorCode, r.ErrorMessage); e != nil {
			return nil, e
		}
		for _, c := range r.Configs {
			if c.Source == kmsg.ConfigSourceClientMetricsConfig {
				entries = append(entries, c)
			}
		}
	}
	slices.SortFunc(entries, func(a, b kmsg.DescribeConfigsResponseResourceConfig) int { return cmp.Compare(a.Name, b.Name) })
	return entries, nil
}

func (a *admin) describeClientMetrics(env Env, name string, named bool) error {
	names, err := a.configured(kmsg.ConfigResourceTypeClientMetrics)
	if err != nil {
		return err
	}
	if named {
		if !slices.Contains(names, name) {
			fmt.Fprintf(env.Stdout, "The client metric resource %s doesn't exist and doesn't have dynamic config.\n", name)
			return nil
		}
		names = []string{name}
	}
	for _, name := range names {
		entries, err := a.clientMetricsOf(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(env.Stdout, "Client metrics configs for %s are:\n", name)
		for _, e := range entries {
			value := "null"
			if e.Value != nil {
				value = *e.Value
			}
			fmt.Fprintf(env.Stdout, "  %s=%s\n", e.Name, value)
		}
	}
	return nil
}
