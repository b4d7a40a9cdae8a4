package tools

import (
	"fmt"
	"io"
	"time"
)

// A javaMetric is one of the metrics that Java's clients count and the tools here do too.
type javaMetric struct {
	name  string
	value float64
}

// printJavaMetrics prints metrics of a client as Java's tools do, which sort them by name.
func printJavaMetrics(w io.Writer, group, clientID string, metrics []javaMetric) {
	key := func(m javaMetric) string { return group + ":" + m.name + ":{client-id=" + clientID + "}" }
	width := 0
	for _, m := range metrics {
		width = max(width, len(key(m)))
	}
	fmt.Fprintf(w, "\n%-*s %s\n", width, "Metric Name", "Value")
	for _, m := range metrics {
		fmt.Fprintf(w, "%-*s : %.3f\n", width, key(m), m.value)
	}
}

// printReadMetrics prints the metrics of a consumer that began at start.
func printReadMetrics(w io.Writer, group, clientID string, start time.Time, records, bytes int64) {
	seconds := max(time.Since(start).Seconds(), 0.001)
	printJavaMetrics(w, group, clientID, []javaMetric{
		{"bytes-consumed-rate", float64(bytes) / seconds}, {"bytes-consumed-total", float64(bytes)},
		{"records-consumed-rate", float64(records) / seconds}, {"records-consumed-total", float64(records)},
	})
}
