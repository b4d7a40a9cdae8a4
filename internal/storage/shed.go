package storage

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// retention.disk.percent: when the logs of a data directory come to more than that share of its volume, the oldest closed segments of
// all of them go, whosever they are, until they do not. Only logs whose cleanup.policy has delete give any, and never one that not
// all replicas have.

// SetDiskPercent changes the share of its volume that the logs of a directory may take; 0: no limit.
func (m *Manager) SetDiskPercent(percent float64) { m.diskPercent.Store(math.Float64bits(percent)) }

// A sheddable is a segment that may go.
type sheddable struct {
	h     *heldLog
	bytes int64
	time  int64 // its largest, in ms
}

// shed brings each directory within its budget. Without one, or within it, no disk is read.
func (m *Manager) shed(ctx context.Context) {
	percent := math.Float64frombits(m.diskPercent.Load())
	if percent <= 0 {
		return
	}
	for _, d := range m.dirs {
		if d.offline() != nil || ctx.Err() != nil {
			continue
		}
		usage, err := m.o.FS.Usage(d.path)
		if err != nil {
			continue // Dirs says so
		}
		held := m.heldIn(d, nil)
		over := -int64(float64(usage.Total) / 100 * percent)
		for _, h := range held {
			over += h.log.Size()
		}
		if over <= 0 {
			continue
		}
		for h, n := range m.chooseToShed(held, over) {
			hw, _ := watermark(h)
			if _, err := h.log.deleteOldSegments(hw, n); err != nil {
				m.log.Error("old segments were not deleted", "partition", h.tp.String(), "error", err)
			}
		}
	}
}

// chooseToShed picks the oldest segments that together have so many bytes, or all that may go: a number of each log's first ones.
func (m *Manager) chooseToShed(held []*heldLog, bytes int64) map[*heldLog]int {
	var all []sheddable
	for _, h := range held {
		hw, ok := watermark(h)
		if !ok || h.log.Err() != nil || !h.log.Config().Delete || m.cleaner.busy(h.tp) {
			continue
		}
		segs := h.log.list()
		newest := int64(math.MinInt64)
		for i, s := range segs[:len(segs)-1] {
			if segs[i+1].base > hw {
				break
			}
			ms, err := h.log.retentionTime(s)
			if err != nil {
				break
			}
			// A segment goes after those before it, whatever its time.
			newest = max(newest, ms)
			all = append(all, sheddable{h, s.size.Load(), newest})
		}
	}
	slices.SortStableFunc(all, func(a, b sheddable) int { return cmp.Compare(a.time, b.time) })
	chosen := map[*heldLog]int{}
	for _, s := range all {
		if bytes <= 0 {
			break
		}
		chosen[s.h]++
		bytes -= s.bytes
	}
	return chosen
}
