package storage

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

// A start without descriptors keeps the log, its checkpoint entries and its records: it is opened when it is next asked for.
func TestStartWithoutDescriptors(t *testing.T) {
	for _, clean := range []bool{true, false} {
		w := newWorld(t, "/data")
		m := w.start()
		l := created(t, m, "orders")
		for range 3 {
			if _, err := l.Append(anyBatch(t, 100), AppendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		end, id, tp := l.EndOffset(), l.TopicID(), l.partition
		if clean {
			if err := m.Close(1); err != nil {
				t.Fatal(err)
			}
		} else {
			m.Abort()
		}
		none := true
		for range 64 { // every time that closing idle files of other tests makes it try again
			w.fs.FailNth(1, syscall.EMFILE, func(op, name string) bool {
				return none && op == "open" && strings.HasSuffix(name, logSuffix) && strings.Contains(name, tp.String())
			})
		}
		m = w.start()
		none = false
		if m.Log(tp) != nil {
			t.Fatal("opened without a descriptor")
		}
		if _, err := m.CreateLog(tp, TopicID{9}); err == nil {
			t.Error("the log of another topic was taken")
		}
		l, err := m.CreateLog(tp, id)
		if err != nil || l.EndOffset() != end {
			t.Fatalf("clean %v: %v, want the end %d", clean, err, end)
		}
		if failed := m.Dirs()[0].Failed; len(failed) > 0 {
			t.Errorf("still failed: %v", failed)
		}
		if err := m.Close(1); err != nil {
			t.Error(err)
		}
		if _, marked, err := readCleanMark(w.fs, "/data"); err != nil || !marked {
			t.Errorf("clean mark: %v, %v", marked, err)
		}
	}
}

// A checkpoint that no descriptor is left for is written later; the directory is as good as before, and takes appends.
func TestCheckpointWithoutDescriptors(t *testing.T) {
	w := newWorld(t, "/data")
	m := w.start()
	l := created(t, m, "orders")
	none := true
	for range 64 {
		w.fs.FailNth(1, syscall.EMFILE, func(op, _ string) bool { return none && op == "open" })
	}
	if err := m.writeCheckpoints(m.dirs[0]); !noDescriptor(err) {
		t.Fatalf("checkpoints: %v", err)
	}
	if err := m.Dirs()[0].Err; err != nil {
		t.Errorf("the directory is offline: %v", err)
	}
	if _, err := l.Append(anyBatch(t, 100), AppendOptions{}); err != nil {
		t.Errorf("append: %v", err)
	}
	none = false
	if err := errors.Join(m.writeCheckpoints(m.dirs[0]), m.Close(1)); err != nil {
		t.Error(err)
	}
}
