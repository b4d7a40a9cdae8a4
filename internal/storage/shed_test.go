package storage

import (
	"testing"
	"time"
)

// The oldest segments of a disk go first, whosever they are, as many as the budget demands and no more; logs that do not delete give none.
func TestShedOldest(t *testing.T) {
	w := cleaning(t, nil)
	w.o.ConfigFor = func(topic string) Config {
		c := DefaultConfig()
		c.RetentionMs, c.TimestampAfterMaxMs, c.FileDeleteDelayMs = -1, 1<<60, 0
		c.Delete, c.Compact = topic != "kept", topic == "kept"
		return c
	}
	w.o.Cleaner = CleanerConfig{}
	w.bubble(func(t *testing.T) {
		w.watermarks()
		m := w.start()
		a, b, kept := created(t, m, "a"), created(t, m, "b"), created(t, m, "kept")
		for _, l := range []*Log{kept, a, b, a, b, a} {
			fill(t, l, 20)
			time.Sleep(time.Minute)
		}
		m.fakeWatermarks()
		m.shed(t.Context())
		if n := len(a.Segments()) + len(b.Segments()); n != 7 {
			t.Fatalf("%d segments without a budget", n)
		}
		one := a.Segments()[0].Bytes
		over := a.Size() + b.Size() + kept.Size() - 3*one
		chosen := m.chooseToShed(m.heldIn(nil, nil), 3*one)
		w.fs.SetCapacity(over * 2)
		m.SetDiskPercent(50)
		if n := chosen[m.logs[TopicPartition{"a", 0}]]; n != 2 {
			t.Errorf("%d of a chosen, want its first two", n)
		}
		m.shed(t.Context())
		if a.StartOffset() != 40 || b.StartOffset() != 20 || kept.StartOffset() != 0 {
			t.Errorf("log starts %d, %d, %d; want 40, 20, 0", a.StartOffset(), b.StartOffset(), kept.StartOffset())
		}
		m.shed(t.Context())
		if a.StartOffset() != 40 || b.StartOffset() != 20 {
			t.Error("within the budget, more went")
		}
		m.SetDiskPercent(0.001)
		m.shed(t.Context())
		if n := len(a.Segments()) + len(b.Segments()); n != 2 || kept.StartOffset() != 0 {
			t.Errorf("%d segments; want the active ones alone", n)
		}
		m.Abort()
	})
}

// fakeWatermarks hears all, as the loops do now and then.
func (m *Manager) fakeWatermarks() {
	for _, h := range m.heldIn(nil, nil) {
		m.hearWatermark(h)
	}
}
