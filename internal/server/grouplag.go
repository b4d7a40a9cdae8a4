package server

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/storage"
)

// A groupLag is how far a group is behind on one partition: what is committed, in one moment for all groups of a coordinator, and where
// the partition begins and ends, in one later moment. The order matters. Who commits has read: at that moment its offset was not beyond
// what the partition showed, and what it shows only grows, so the later moment has it too, and no lag is negative. In the other order
// a consumer could read and commit in between, and would be ahead of the end. (A client may commit any number it likes, beyond the end
// too: that is no lag.)
type groupLag struct {
	Group      string  `json:"group"`
	Topic      string  `json:"topic"`
	Partition  int32   `json:"partition"`
	Committed  int64   `json:"committed"`
	LogStart   int64   `json:"logStartOffset"`
	LastStable int64   `json:"lastStableOffset"`
	LogEnd     int64   `json:"logEndOffset"`
	Records    int64   `json:"records"` // that a consumer may see and has not committed
	Exact      bool    `json:"exact"`   // false: offsets are counted, of which compaction may have emptied some
	Seconds    float64 `json:"seconds"` // age of the first of these records; 0 when there is none
}

// lagBytesMax bounds what one look at all groups may read of compacted partitions whose records have not been counted before. The next
// look gets further, since counts are remembered.
const lagBytesMax = 64 << 20

// groupLags lists what groups have committed on partitions that this node leads, up to most of them; complete: there are no more. only
// names one group, unless it is empty.
func (n *Node) groupLags(most int, only string) (lags []groupLag, complete bool) {
	lags = []groupLag{}
	img := n.controller.Image()
	shards := n.groups.all()
	if only != "" {
		p, _ := n.groupOf(only)
		shards = slices.DeleteFunc(shards, func(s *shard[*groupMachine]) bool { return s.partition != p })
	}
	budget := int64(lagBytesMax)
	for _, s := range shards {
		offsets, code := consult(context.Background(), n.groups, s.partition, func(m *groupMachine, now time.Time, reply func([]kmsg.OffsetFetchResponseGroup)) effect {
			var all []kmsg.OffsetFetchResponseGroup
			left := most - len(lags) + 1 // one more tells that they are too many
			for _, g := range m.ListGroups(now, &kmsg.ListGroupsRequest{}) {
				if left <= 0 {
					break
				}
				if only != "" && g.Group != only {
					continue
				}
				o := m.OffsetFetch(now, &kmsg.OffsetFetchRequestGroup{Group: g.Group, MemberEpoch: -1}, 8, false)
				for _, t := range o.Topics {
					left -= len(t.Partitions)
				}
				all = append(all, o)
			}
			reply(all)
			return effect{}
		})
		if code != nil {
			continue
		}
		for _, g := range offsets {
			for _, t := range g.Topics {
				for _, p := range t.Partitions {
					r := n.replicas.Partition(t.Topic, p.Partition)
					if r == nil || r.TopicID() != t.TopicID || img.Topic(t.Topic) == nil { // TopicID: a later topic of the name begins anew
						continue
					}
					log := r.Log()
					b, err := r.Bounds()
					if log == nil || err != nil {
						continue
					}
					if len(lags) == most {
						return lags, false
					}
					lags = append(lags, lagOf(log, b, groupLag{Group: g.Group, Topic: t.Topic, Partition: p.Partition, Committed: p.Offset}, &budget))
				}
			}
		}
	}
	return lags, true
}

// lagOf fills in what the partition says. What was deleted cannot be read any more: it is no lag.
func lagOf(log *storage.Log, b storage.Bounds, l groupLag, budget *int64) groupLag {
	end := b.Stable
	l.LastStable, l.LogEnd, l.LogStart, l.Exact = int64(end), int64(b.HighWatermark), int64(b.Start), true
	at := max(storage.Offset(l.Committed), storage.Offset(l.LogStart))
	if at >= end {
		return l
	}
	l.Records = int64(end - at)
	if n, exact, looked, err := log.CountRecords(at, end, *budget); err == nil {
		l.Records, l.Exact = n, exact
		*budget -= looked
	} else {
		l.Exact = false
	}
	if l.Records > 0 {
		l.Seconds = recordAge(log, at, end, time.Now()).Seconds()
	}
	return l
}

// ageBatchMax bounds the batch that is looked into for the age of a record. Of the records of a larger one it is the oldest's.
const ageBatchMax = 1 << 20

// recordAge is the age of the first record from an offset on: by the header of its batch, or by the record itself if the batch begins
// before the offset.
func recordAge(log *storage.Log, at, end storage.Offset, now time.Time) time.Duration {
	d, err := log.Read(at, storage.ReadOptions{MaxBytes: record.HeaderSize, Limit: end, MinOneBatch: true})
	if err != nil {
		return 0
	}
	defer d.Release()
	var header [record.HeaderSize]byte
	if d.Size < record.HeaderSize {
		return 0
	}
	r := d.Regions[0]
	if _, err := r.File.ReadAt(header[:], r.Pos); err != nil || header[16] != 2 {
		return 0
	}
	b := record.Batch(header[:])
	ms := b.BaseTimestamp()
	if b.IsLogAppendTime() || b.HasDeleteHorizon() {
		ms = b.MaxTimestamp()
	}
	if size := int64(b.Length()) + record.LogOverhead; b.BaseOffset() < at && !b.IsLogAppendTime() && size <= min(ageBatchMax, r.Len) {
		whole := make([]byte, size)
		var reader record.Reader
		if _, err := r.File.ReadAt(whole, r.Pos); err == nil && reader.ResetEntry(record.Entry(whole), ageBatchMax) == nil {
			for reader.Next() {
				if x := reader.Record(); x.Offset >= at {
					ms = x.Timestamp
					break
				}
			}
		}
	}
	return max(now.Sub(time.UnixMilli(ms)), 0)
}

// lagsShownMax bounds the partitions of one answer of /groups/lag.
const lagsShownMax = 100_000

// showLags answers GET /groups/lag[?group=G] on the admin listener.
func (n *Node) showLags(w http.ResponseWriter, r *http.Request) {
	lags, complete := n.groupLags(lagsShownMax, r.FormValue("group"))
	writeJSON(w, struct {
		Complete   bool       `json:"complete"`
		Partitions []groupLag `json:"partitions"`
	}{complete, lags})
}

// groupSeriesMax bounds the partitions that the metrics show one by one for groups: each has three series.
const groupSeriesMax = 1000

// lagMetrics show how far groups are behind.
type lagMetrics struct {
	node                    *Node
	committed, records, age *prometheus.Desc
	complete                *prometheus.Desc
}

func newLagMetrics(n *Node) *lagMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	of := []string{"group", "topic", "partition"}
	return &lagMetrics{
		node:      n,
		committed: desc("quire_group_committed_offset", "Offset that a group has committed.", of...),
		records:   desc("quire_group_lag_records", "Records from what a group has committed, or the log's start, to what consumers may see.", of...),
		age:       desc("quire_group_lag_seconds", "Age of the first record that a group has not consumed; 0 if there is none.", of...),
		complete:  desc("quire_group_lag_complete", "1 if all partitions that groups have committed on are shown, 0 if they are too many."),
	}
}

// Describe makes the collector an unchecked one: its series depend on what groups there are.
func (m *lagMetrics) Describe(chan<- *prometheus.Desc) {}

func (m *lagMetrics) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- constMetric(d, prometheus.GaugeValue, v, labels...)
	}
	lags, complete := m.node.groupLags(groupSeriesMax, "")
	for _, l := range lags {
		partition := strconv.Itoa(int(l.Partition))
		gauge(m.committed, float64(l.Committed), l.Group, l.Topic, partition)
		gauge(m.records, float64(l.Records), l.Group, l.Topic, partition)
		gauge(m.age, l.Seconds, l.Group, l.Topic, partition)
	}
	whole := 0.0
	if complete {
		whole = 1
	}
	gauge(m.complete, whole)
}
