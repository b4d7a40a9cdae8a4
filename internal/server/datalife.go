package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// dataLife collects what becomes of data: room, and compaction.
type dataLife struct {
	node *Node
	dataLifeDescs
}

type dataLifeDescs struct {
	full, fullIn                               *prometheus.Desc
	future, futureRefused, growth              *prometheus.Desc
	uncleanable, cleaning, cleanedAge, shrunk  *prometheus.Desc
	cleanSeconds, cleanRead, cleanKept, cleanN *prometheus.Desc
}

func newDataLifeDescs() (d dataLifeDescs) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	d.full = desc("quire_dir_full", "1 while produce to a data directory is refused for want of room.", "dir")
	d.fullIn = desc("quire_dir_full_in_seconds", "When a data directory will be full at the rate of the last minutes; absent when it does not fill.", "dir")
	d.future = desc("quire_future_batches_total", "Batches that were taken though their newest record is dated more than a second ahead of this node's clock, by topic; absent when there was none.", "topic")
	d.futureRefused = desc("quire_future_batches_refused_total", "Batches that were refused for records dated further ahead than message.timestamp.after.max.ms, by topic; absent when there was none.", "topic")
	d.growth = desc("quire_topic_growth_bytes_per_second", "By how much the logs of a topic grew over the last minutes; of the fastest alone.", "topic")
	d.uncleanable = desc("quire_cleaner_uncleanable_partitions", "Partitions whose last cleaning failed; each is tried again.")
	d.cleaning = desc("quire_cleaner_running", "Partitions that are being cleaned.")
	d.cleanN = desc("quire_cleaner_cleaned_partitions", "Partitions that were cleaned since the start.")
	d.cleanedAge = desc("quire_cleaner_last_end_seconds", "Time since the last cleaning ended, of any partition.")
	d.cleanSeconds = desc("quire_cleaner_last_max_seconds", "Longest of the partitions' last cleanings.")
	d.cleanRead = desc("quire_cleaner_last_bytes_before", "Bytes before the partitions' last cleanings, together.")
	d.cleanKept = desc("quire_cleaner_last_bytes_after", "Bytes after the partitions' last cleanings, together.")
	d.shrunk = desc("quire_cleaner_last_full_maps", "Last cleanings for whose keys the map was too small, so that they take several rounds.")
	return d
}

// topicGrowthMax bounds the topics whose growth is shown.
const topicGrowthMax = 20

// Describe makes it an unchecked collector.
func (dataLife) Describe(chan<- *prometheus.Desc) {}

func (c dataLife) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- constMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, s := range c.node.logs.DiskStates() {
		full := 0.0
		if s.Full {
			full = 1
		}
		gauge(c.full, full, s.Path)
		if s.Filling {
			gauge(c.fullIn, s.FullIn.Seconds(), s.Path)
		}
	}
	c.collectFuture(ch)
	for _, t := range c.node.logs.FastestTopics(topicGrowthMax) {
		gauge(c.growth, t.BytesPerSecond, t.Topic)
	}
	var failed, running, cleaned, fullMaps, before, after int64
	var last time.Time
	var longest time.Duration
	for _, s := range c.node.logs.CleanerStatuses() {
		if s.Err != nil {
			failed++
		} else if !s.LastEnd.IsZero() {
			cleaned++
			before, after = before+s.Last.BytesBefore, after+s.Last.BytesAfter
			longest = max(longest, s.Took)
		}
		if s.Running {
			running++
		}
		if s.Last.MapFull {
			fullMaps++
		}
		if s.LastEnd.After(last) {
			last = s.LastEnd
		}
	}
	gauge(c.uncleanable, float64(failed))
	gauge(c.cleaning, float64(running))
	gauge(c.cleanN, float64(cleaned))
	gauge(c.shrunk, float64(fullMaps))
	gauge(c.cleanSeconds, longest.Seconds())
	gauge(c.cleanRead, float64(before))
	gauge(c.cleanKept, float64(after))
	if !last.IsZero() {
		gauge(c.cleanedAge, time.Since(last).Seconds())
	}
}

// collectFuture counts batches of clients whose clocks are ahead.
func (c dataLife) collectFuture(ch chan<- prometheus.Metric) {
	taken, refused := map[string]int64{}, map[string]int64{}
	for _, l := range c.node.logs.Logs() {
		t, r := l.FutureBatches()
		if t > 0 {
			taken[l.Partition().Topic] += t
		}
		if r > 0 {
			refused[l.Partition().Topic] += r
		}
	}
	for desc, counts := range map[*prometheus.Desc]map[string]int64{c.future: taken, c.futureRefused: refused} {
		for topic, n := range counts {
			ch <- constMetric(desc, prometheus.CounterValue, float64(n), topic)
		}
	}
}
