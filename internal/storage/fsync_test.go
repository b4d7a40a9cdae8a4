package storage

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
)

// What a partition costs in fsyncs: two of its own to make it, with the directory's shared; none to stop, start, lead and stop it
// again when nobody wrote.
func TestFsyncsOfIdleLog(t *testing.T) {
	w := newWorld(t, "/data")
	var syncs atomic.Int32
	w.fs.FailNth(1<<30, errors.New("never"), func(op, name string) bool {
		if strings.Contains(op, "sync") && strings.Contains(name, "a-0") {
			syncs.Add(1)
		}
		return false
	})
	check := func(what string, want int32) {
		t.Helper()
		if got := syncs.Swap(0); got != want {
			t.Errorf("%s: %d fsyncs, want %d", what, got, want)
		}
	}
	m := w.start()
	l := w.create(m, "a", 0)
	check("create", 2)
	lead := func(e Epoch) {
		if err := l.AssignEpoch(e); err != nil {
			t.Fatal(err)
		}
	}
	lead(0)
	w.close(m, 1)
	for e := range Epoch(3) {
		m = w.start()
		l = m.Log(TopicPartition{"a", 0})
		lead(e + 1)
		w.close(m, 1)
	}
	check("stop and start", 0)
	m = w.start()
	l = m.Log(TopicPartition{"a", 0})
	lead(7)
	if _, err := l.Append(anyBatch(t, 3), AppendOptions{LeaderEpoch: 7}); err != nil {
		t.Fatal(err)
	}
	w.close(m, 1)
	if got := get(t, w.fs, "/data/a-0/"+epochFileName); got != "0\n1\n7 0\n" {
		t.Errorf("epochs after a clean stop: %q", got)
	}
}
