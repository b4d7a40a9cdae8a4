package server

import (
	"context"
	"encoding/binary"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/storage"
)

// A groupLag is how far a group is behind on one partition. It is of one moment: the log's end and what is committed are looked
// up together, after each other in this order, so that it is never negative.
type groupLag struct {
	group, topic string
	partition    int32
	committed    int64
	records      int64         // offsets between what is committed and what a consumer may see
	age          time.Duration // of the first record that is not consumed; 0 when nothing is behind
}

// groupLags lists what groups have committed on partitions that this node leads, up to most of them; complete: there are no more.
func (n *Node) groupLags(most int) (lags []groupLag, complete bool) {
	img := n.controller.Image()
	now := time.Now()
	for _, s := range n.groups.all() {
		offsets, code := consult(context.Background(), n.groups, s.partition, func(m *groupMachine, now time.Time, reply func([]kmsg.OffsetFetchResponseGroup)) effect {
			var all []kmsg.OffsetFetchResponseGroup
			left := most - len(lags) + 1 // one more tells that they are too many
			for _, g := range m.ListGroups(now, &kmsg.ListGroupsRequest{}) {
				if left <= 0 {
					break
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
					if r == nil || r.CheckLeader(-1) != nil || img.Topic(t.Topic) == nil {
						continue
					}
					if len(lags) == most {
						return lags, false
					}
					lag := groupLag{group: g.Group, topic: t.Topic, partition: p.Partition, committed: p.Offset}
					// What was deleted cannot be read any more: it is no lag.
					at := max(storage.Offset(p.Offset), r.Log().StartOffset())
					if end := r.LastStableOffset(); end > at {
						lag.records, lag.age = int64(end-at), recordAge(r.Log(), at, end, now)
					}
					lags = append(lags, lag)
				}
			}
		}
	}
	return lags, true
}

// recordAge is the age of the first record from an offset on, by the header of its batch: one read of the disk at most. Of the
// records of one batch it is the oldest's.
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
	if b.IsLogAppendTime() || binary.BigEndian.Uint16(header[21:])&record.AttrDeleteHorizon != 0 {
		ms = b.MaxTimestamp()
	}
	return max(now.Sub(time.UnixMilli(ms)), 0)
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
		records:   desc("quire_group_lag_records", "Offsets from what a group has committed, or the log's start, to what consumers may see.", of...),
		age:       desc("quire_group_lag_seconds", "Age of the first record that a group has not consumed; 0 if there is none.", of...),
		complete:  desc("quire_group_lag_complete", "1 if all partitions that groups have committed on are shown, 0 if they are too many."),
	}
}

// Describe makes the collector an unchecked one: its series depend on what groups there are.
func (m *lagMetrics) Describe(chan<- *prometheus.Desc) {}

func (m *lagMetrics) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	lags, complete := m.node.groupLags(groupSeriesMax)
	for _, l := range lags {
		partition := strconv.Itoa(int(l.partition))
		gauge(m.committed, float64(l.committed), l.group, l.topic, partition)
		gauge(m.records, float64(l.records), l.group, l.topic, partition)
		gauge(m.age, l.age.Seconds(), l.group, l.topic, partition)
	}
	whole := 0.0
	if complete {
		whole = 1
	}
	gauge(m.complete, whole)
}
