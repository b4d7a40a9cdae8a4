package storage

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// Which topics fill a disk is known by how large their logs were a while ago.

const (
	growthEvery = time.Minute // between two looks at all logs of a directory
	// growthShown is how many topics a warning names.
	growthShown = 3
)

// A growth remembers how large the topics of a data directory were over the last forecastSpan.
type growth struct {
	mu      sync.Mutex // a leaf; guards samples
	samples []topicSizes
}

// topicSizes are the bytes of each topic's logs in a directory at a time.
type topicSizes struct {
	at    time.Time
	bytes map[string]int64
}

// TopicGrowth is by how much the logs of a topic grow, retention and compaction counted in; negative: they shrink.
type TopicGrowth struct {
	Topic          string
	BytesPerSecond float64
}

// sampleGrowth notes how large the topics of a directory are, now and then. One goroutine calls it.
func (m *Manager) sampleGrowth(d *dataDir) {
	g, now := &d.growth, time.Now()
	g.mu.Lock()
	n := len(g.samples)
	due := n == 0 || now.Sub(g.samples[n-1].at) >= growthEvery
	g.mu.Unlock()
	if !due {
		return
	}
	s := topicSizes{now, map[string]int64{}}
	for _, h := range m.heldIn(d, nil) {
		s.bytes[h.tp.Topic] += h.log.Size()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.samples) > 1 && now.Sub(g.samples[1].at) >= forecastSpan {
		g.samples = g.samples[1:]
	}
	g.samples = append(g.samples, s)
}

// rates add the growth of each topic to rates. A topic that was not there at the beginning began with nothing; one that is gone is left out.
func (g *growth) rates(rates map[string]float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.samples) < 2 {
		return
	}
	first, last := g.samples[0], g.samples[len(g.samples)-1]
	span := last.at.Sub(first.at).Seconds()
	for topic, bytes := range last.bytes {
		rates[topic] += float64(bytes-first.bytes[topic]) / span
	}
}

// fastest sorts topics by their growth, the fastest first, and keeps n that grow.
func fastest(rates map[string]float64, n int) []TopicGrowth {
	var all []TopicGrowth
	for topic, rate := range rates {
		if rate > 0 {
			all = append(all, TopicGrowth{topic, rate})
		}
	}
	slices.SortFunc(all, func(a, b TopicGrowth) int {
		return cmp.Or(cmp.Compare(b.BytesPerSecond, a.BytesPerSecond), cmp.Compare(a.Topic, b.Topic))
	})
	return all[:min(n, len(all))]
}

// FastestTopics are the n topics whose logs here grew most over the last minutes, the fastest first; none until two minutes have passed.
func (m *Manager) FastestTopics(n int) []TopicGrowth {
	rates := map[string]float64{}
	for _, d := range m.dirs[:len(m.o.Dirs)] {
		d.growth.rates(rates)
	}
	return fastest(rates, n)
}

// says names what fills a disk by so many bytes a second: the topics that grow most, and what is in no log here when that is more than
// all of them are.
func (g *growth) says(filling float64) string {
	rates := map[string]float64{}
	g.rates(rates)
	logs := 0.0
	var said []string
	for _, t := range fastest(rates, growthShown) {
		said = append(said, fmt.Sprintf("%s %s an hour", t.Topic, roundBytes(t.BytesPerSecond*3600)))
	}
	for _, rate := range rates {
		logs += max(rate, 0)
	}
	switch {
	case said == nil:
		return "not these topics"
	case logs < filling/2:
		return fmt.Sprintf("what is not in these topics %s an hour, %s", roundBytes((filling-logs)*3600), strings.Join(said, ", "))
	}
	return strings.Join(said, ", ")
}

// roundBytes is a number of bytes as a person says it.
func roundBytes(n float64) string {
	for _, unit := range []string{"B", "KiB", "MiB", "GiB"} {
		if math.Abs(n) < 1024 {
			return fmt.Sprintf("%.3g %s", n, unit)
		}
		n /= 1024
	}
	return fmt.Sprintf("%.4g TiB", n)
}
