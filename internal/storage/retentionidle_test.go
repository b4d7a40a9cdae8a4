package storage

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A pass of retention that finds nothing to do asks the disk for nothing, whatever the rules.
func TestIdleRetentionReadsNothing(t *testing.T) {
	for _, policy := range []string{"time", "size", "both", "none"} {
		t.Run(policy, func(t *testing.T) {
			w := newWorld(t, "/data")
			w.o.ConfigFor = func(string) Config {
				c := DefaultConfig()
				c.RetentionMs, c.RetentionBytes = -1, -1
				if policy == "time" || policy == "both" {
					c.RetentionMs = 3600_000
				}
				if policy == "size" || policy == "both" {
					c.RetentionBytes = 1 << 30
				}
				return c
			}
			var busy atomic.Int64
			w.fs.FailEvery(errors.New("never"), func(string, string) bool {
				busy.Add(1)
				return false
			})
			w.bubble(func(t *testing.T) {
				var m *Manager
				w.watermarks(&m)
				w.o.DiskPercent = 0
				m = w.start()
				for _, topic := range []string{"a", "b", "c"} {
					l := created(t, m, topic)
					fill(t, l, 20)
					fill(t, l, 20)
				}
				w.close(m, 1)
				m = w.start() // nothing is known of the segments but what opening had to find out
				m.applyRetention(t.Context())
				synctest.Wait()
				before := busy.Load()
				for range 3 {
					time.Sleep(5 * time.Minute)
					m.applyRetention(t.Context())
				}
				synctest.Wait()
				if n := busy.Load() - before; n > 0 {
					t.Errorf("%d operations on files", n)
				}
				w.close(m, 1)
			})
		})
	}
}
