package tools

import "fmt"

// readPerfOptions are the options that kafka-consumer-perf-test and kafka-share-consumer-perf-test have in common, in which each calls
// the consumer by its own name.
func readPerfOptions(capital, kind string) []joptOption {
	return []joptOption{
		{name: "socket-buffer-size", arg: requiredArg, typ: "Integer", what: "size", def: "2097152", help: "The size of the tcp RECV size."},
		{name: "consumer.config", arg: requiredArg, what: "config file", help: "(DEPRECATED) " + capital + " config properties file. This option will be removed in a future version. Use --command-config instead."},
		{name: "command-config", arg: requiredArg, what: "config file", help: "Config properties file."},
		{name: "command-property", arg: requiredArg, what: "prop1=val1", help: kind + " related configuration properties like client.id. These configs take precedence over those passed via --command-config or --consumer.config."},
		{name: "print-metrics", help: "Print out the metrics."},
		{name: "show-detailed-stats", help: "If set, stats are reported for each reporting interval as configured by reporting-interval."},
		{name: "timeout", arg: optionalArg, typ: "Long", what: "milliseconds", def: "10000", help: "The maximum allowed time in milliseconds between returned records."},
		{name: "messages", arg: requiredArg, typ: "Long", what: "count", help: "(DEPRECATED) The number of records to consume. This option will be removed in a future version. Use --num-records instead."},
		{name: "num-records", arg: requiredArg, typ: "Long", what: "count", help: "REQUIRED: The number of records to consume."},
		{name: "reporting-interval", arg: requiredArg, typ: "Long", what: "interval_ms", def: "5000", help: "Interval in milliseconds at which to print progress info."},
		{name: "date-format", arg: requiredArg, what: "date format", def: "yyyy-MM-dd HH:mm:ss:SSS", help: "The date format to use for formatting the time field. See java.text.SimpleDateFormat for options."},
		{name: "hide-header", help: "If set, skips printing the header for the stats."},
	}
}

// parseReadPerf reads their command lines; required is what must be there.
func parseReadPerf(env Env, args []string, parser *joptParser, purpose string, required func(*joptSet) error) (*joptSet, error) {
	set, err := parser.parse(args)
	if err != nil {
		return nil, parser.usage("%s", err.Error())
	}
	if err := set.helpOrVersion(env, args, purpose); err != nil {
		return nil, err
	}
	if err := required(set); err != nil {
		return nil, err
	}
	if set.has("messages") {
		fmt.Fprintln(env.Stdout, "Warning: --messages is deprecated. Use --num-records instead.")
	}
	if err := set.conflict("consumer.config", "command-config"); err != nil {
		return nil, err
	}
	if set.has("consumer.config") {
		fmt.Fprintln(env.Stdout, "Warning: --consumer.config is deprecated. Use --command-config instead.")
	}
	return set, nil
}
