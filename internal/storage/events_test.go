package storage

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Every decision about data is an event with its cause, and can be asked for by its kind.
func TestEveryDecisionIsAnEvent(t *testing.T) {
	var ring EventRing
	w := cleaning(t, func(c *Config) { c.SegmentBytes, c.FileDeleteDelayMs = 1<<20, 0 })
	configs := w.o.ConfigFor
	w.o.ConfigFor = func(topic string) Config {
		c := configs(topic)
		if strings.HasPrefix(topic, "plain") {
			c.Delete, c.RetentionMs = true, 3600_000
		}
		return c
	}
	w.o.Events = ring.Add
	w.o.RetentionCheckMs = 1000
	w.bubble(func(t *testing.T) {
		w.watermarks()
		m := w.start()
		m.Start()
		plain, table := created(t, m, "plain"), created(t, m, "table")
		expect := func(kind, topic, cause string) {
			t.Helper()
			synctest.Wait()
			got := ring.Last(1, func(e *Event) bool { return e.Kind == kind && e.Partition.Topic == topic })
			if len(got) != 1 || !strings.Contains(got[0].Cause, cause) || got[0].At.After(time.Now()) {
				t.Errorf("%s of %s, because of %q: %+v", kind, topic, cause, got)
			}
		}
		fill(t, plain, 30)
		expect("roll", "plain", "")
		for range 25 {
			if _, err := plain.Append(anyBatch(t, 50_000), AppendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		expect("roll", "plain", "segment.bytes")
		if _, err := plain.DeleteRecords(30); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		expect("log-start", "plain", "")
		expect("delete-segment", "plain", "log start offset")
		if err := m.Truncate(plain.Partition(), plain.EndOffset()-2); err != nil {
			t.Fatal(err)
		}
		expect("truncate", "plain", "the log ended at 55")
		time.Sleep(2 * time.Hour)
		expect("delete-segment", "plain", "retention.ms")
		if err := m.TruncateFullyAndStartAt(plain.Partition(), 100); err != nil {
			t.Fatal(err)
		}
		expect("truncate", "plain", "to start at 100")
		fill(t, table, 60)
		time.Sleep(5 * time.Second)
		expect("compact", "table", "60 records")
		if err := m.DeleteLog(plain.Partition()); err != nil {
			t.Fatal(err)
		}
		expect("delete-log", "plain", "log.segment.delete.delay.ms")
		w.close(m, 1)
	})
}
