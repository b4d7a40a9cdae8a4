package config

// clientMetricsOptions: the options of a client-metrics subscription.
var clientMetricsOptions = []Option{
	{Key: "interval.ms", Type: Int, Default: "300000", Check: between(100, 3600000), Inert: true,
		Doc: "How often matching clients push their metrics."},
	{Key: "match", Type: List, Inert: true,
		Doc: "Which clients, as conditions like client_id=REGEX, separated by commas; all must hold, none means every client."},
	{Key: "metrics", Type: List, Inert: true,
		Doc: "Prefixes of the metrics that clients push; * means all."},
}
