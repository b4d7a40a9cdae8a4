package server

import (
	"context"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/wire"
)

// metrics are a node's own: several nodes in one process do not share them.
type metrics struct {
	node     *Node
	registry *prometheus.Registry

	requests *prometheus.CounterVec
	closed   *prometheus.CounterVec
	bytesIn  *prometheus.CounterVec
	bytesOut *prometheus.CounterVec
	seconds  *prometheus.HistogramVec

	desc struct {
		connections, partitions, topics, metadataOffset *prometheus.Desc
		dirTotal, dirUsable, dirOnline                  *prometheus.Desc
		logStart, logEnd, highWatermark, logBytes       *prometheus.Desc
	}
}

// partitionSeriesMax bounds the partitions that are shown one by one: each has four series, and a scrape shall not take longer
// than its worth. The first ones by name are shown; quire_partitions tells how many there are.
const partitionSeriesMax = 1000

func newMetrics(n *Node) *metrics {
	m := &metrics{node: n, registry: prometheus.NewRegistry()}
	counter := func(name, help string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"api"})
		m.registry.MustRegister(c)
		return c
	}
	m.requests = counter("quire_requests_total", "Requests handled, by API.")
	m.closed = counter("quire_requests_refused_total", "Requests that ended their connection, by API.")
	m.bytesIn = counter("quire_request_bytes_total", "Bytes of request bodies, by API.")
	m.bytesOut = counter("quire_streamed_bytes_total", "Bytes of responses that are written by hand or sent from files, by API.")
	m.seconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "quire_request_seconds", Help: "Time that a request's handler took, waiting included, by API.",
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
	}, []string{"api"})
	m.registry.MustRegister(m.seconds, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	m.desc.connections = desc("quire_connections", "Connections of clients.")
	m.desc.topics = desc("quire_topics", "Topics of the cluster.")
	m.desc.partitions = desc("quire_partitions", "Partitions that this node has a replica of.")
	m.desc.metadataOffset = desc("quire_metadata_offset", "Last offset of the metadata log that is applied.")
	m.desc.dirTotal = desc("quire_dir_total_bytes", "Size of the volume that holds a data directory.", "dir")
	m.desc.dirUsable = desc("quire_dir_usable_bytes", "Bytes that may still be used on the volume that holds a data directory.", "dir")
	m.desc.dirOnline = desc("quire_dir_online", "1 if a data directory is in use, 0 if it has failed.", "dir")
	m.desc.logStart = desc("quire_log_start_offset", "First offset of a partition's log.", "topic", "partition")
	m.desc.logEnd = desc("quire_log_end_offset", "Offset that the next record of a partition gets.", "topic", "partition")
	m.desc.highWatermark = desc("quire_high_watermark", "First offset of a partition that consumers do not see yet.", "topic", "partition")
	m.desc.logBytes = desc("quire_log_bytes", "Bytes of a partition's segments.", "topic", "partition")
	m.registry.MustRegister(m, dataLife{n, newDataLifeDescs()}, newLagMetrics(n))
	return m
}

// Describe makes the collector an unchecked one: its series depend on what partitions there are.
func (m *metrics) Describe(chan<- *prometheus.Desc) {}

// constMetric is a metric of now. Labels are names that clients chose, of any bytes.
func constMetric(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) prometheus.Metric {
	for i, l := range labels {
		labels[i] = label(l)
	}
	return prometheus.MustNewConstMetric(d, kind, v, labels...)
}

// label is a name as Prometheus takes it: what is not UTF-8 is quoted with escapes, and so is what would look like it, so that no two
// names become one.
func label(name string) string {
	if utf8.ValidString(name) && !strings.HasPrefix(name, `"`) {
		return name
	}
	return strconv.QuoteToASCII(name)
}

// Collect reads what the node knows anyway.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	n := m.node
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- constMetric(d, prometheus.GaugeValue, v, labels...)
	}
	img := n.controller.Image()
	partitions := n.replicas.Partitions()
	gauge(m.desc.connections, float64(n.wire.Connections()))
	gauge(m.desc.topics, float64(img.TopicCount()))
	gauge(m.desc.partitions, float64(len(partitions)))
	gauge(m.desc.metadataOffset, float64(img.Offset()))
	for _, d := range n.logs.Dirs() {
		online := 1.0
		if d.Err != nil {
			online = 0
		}
		gauge(m.desc.dirOnline, online, d.Path)
		gauge(m.desc.dirTotal, float64(d.Usage.Total), d.Path)
		gauge(m.desc.dirUsable, float64(d.Usage.Usable), d.Path)
	}
	shown := 0
	for t := range img.Topics() {
		for i := range t.Partitions {
			p := n.replicas.Partition(t.Name, int32(i))
			if p == nil || p.Log() == nil {
				continue
			}
			if shown++; shown > partitionSeriesMax {
				return
			}
			part := strconv.Itoa(i)
			gauge(m.desc.logStart, float64(p.Log().StartOffset()), t.Name, part)
			gauge(m.desc.logEnd, float64(p.Log().EndOffset()), t.Name, part)
			gauge(m.desc.highWatermark, float64(p.HighWatermark()), t.Name, part)
			gauge(m.desc.logBytes, float64(p.Log().Size()), t.Name, part)
		}
	}
}

// measure wraps a handler. The series are looked up once, not per request.
func (m *metrics) measure(key kmsg.Key, handle wire.Handler) wire.Handler {
	name := key.Name()
	requests, closed := m.requests.WithLabelValues(name), m.closed.WithLabelValues(name)
	in, out, seconds := m.bytesIn.WithLabelValues(name), m.bytesOut.WithLabelValues(name), m.seconds.WithLabelValues(name)
	return func(ctx context.Context, req *wire.Request) wire.Response {
		in.Add(float64(len(req.Body)))
		return handle(ctx, req).After(func(resp wire.Response) wire.Response {
			requests.Inc()
			if b := resp.Body(); b != nil {
				out.Add(float64(b.Len()))
			}
			if _, closes := resp.Closes(); closes {
				closed.Inc()
			}
			seconds.Observe(time.Since(req.Received).Seconds())
			return resp
		})
	}
}
