package segments

import (
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/quire-log/quire/internal/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What was loaded stays as it was (I1).
func TestList(t *testing.T) {
	var l List[int]
	if l.Load() != nil {
		t.Error("a new list is not empty")
	}
	var loaded [][]int
	for i := range 5 {
		l.Append(i)
		loaded = append(loaded, l.Load())
	}
	if gone := l.DropFirst(2); !slices.Equal(gone, []int{0, 1}) || !slices.Equal(l.Load(), []int{2, 3, 4}) {
		t.Errorf("dropped %v, left %v", gone, l.Load())
	}
	l.Append(9)
	l.Store([]int{7})
	l.Append(8)
	for i, segs := range loaded {
		if len(segs) != i+1 || segs[i] != i {
			t.Errorf("the list of then is %v", segs)
		}
	}
	if !slices.Equal(l.Load(), []int{7, 8}) {
		t.Errorf("now %v", l.Load())
	}
}

// An opener counts the descriptors of a file in memory.
type opener struct {
	mem           *vfs.Mem
	opens, opened atomic.Int64
}

type countedFile struct {
	vfs.File
	o *opener
}

func (c countedFile) Close() error {
	c.o.opened.Add(-1)
	return c.File.Close()
}

func (o *opener) OpenFile() (vfs.File, error) {
	f, err := o.mem.OpenFile("f", os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	o.opens.Add(1)
	o.opened.Add(1)
	return countedFile{f, o}, nil
}

// A file is opened once for all its holders, stays open a while, and is closed by the last after it is gone (I2).
func TestFile(t *testing.T) {
	o := &opener{mem: vfs.NewMem()}
	var f File
	for range 3 {
		if _, err := f.Acquire(o); err != nil {
			t.Fatal(err)
		}
	}
	f.Release()
	f.Release()
	f.Release()
	if _, err := f.Acquire(o); err != nil || o.opens.Load() != 1 {
		t.Errorf("opened %d times, %v", o.opens.Load(), err)
	}
	f.Retire()
	if o.opened.Load() != 1 || !f.Gone() {
		t.Error("closed under its holder")
	}
	f.Release()
	if _, err := f.Acquire(o); !errors.Is(err, ErrGone) || o.opened.Load() != 0 {
		t.Errorf("after its end: %v, %d open", err, o.opened.Load())
	}
}

// Idle files are closed, the longest idle first, when there are too many.
func TestIdleFiles(t *testing.T) {
	o := &opener{mem: vfs.NewMem()}
	files := make([]File, idleFilesMax+10)
	for i := range files {
		if _, err := files[i].Acquire(o); err != nil {
			t.Fatal(err)
		}
		files[i].Release()
	}
	if n := o.opened.Load(); n != idleFilesMax {
		t.Errorf("%d are open, want %d", n, idleFilesMax)
	}
	if _, err := files[10].Acquire(o); err != nil || o.opens.Load() != int64(len(files)) {
		t.Errorf("a file that was kept is opened again: %v", err)
	}
	files[10].Release()
	if _, err := files[0].Acquire(o); err != nil || o.opens.Load() != int64(len(files))+1 {
		t.Errorf("the longest idle is still open: %v", err)
	}
	files[0].Release()
	for i := range files {
		files[i].Retire()
	}
	if n := o.opened.Load(); n != 0 {
		t.Errorf("%d are left open", n)
	}
}

func TestFileConcurrently(t *testing.T) {
	o := &opener{mem: vfs.NewMem()}
	files := make([]File, 3)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range 2000 {
				f := &files[i%3]
				if _, err := f.Acquire(o); errors.Is(err, ErrGone) {
					continue
				} else if err != nil {
					t.Error(err)
					return
				}
				if _, err := f.Held().Size(); err != nil {
					t.Error(err)
				}
				f.Release()
				if i == 1000 {
					files[1].Retire()
				}
			}
		})
	}
	group.Wait()
	for i := range files {
		files[i].Retire()
	}
	if n := o.opened.Load(); n != 0 {
		t.Errorf("%d are left open", n)
	}
}

// Whoever comes while a sync runs waits for one that begins after (I3), together with the others.
func TestSyncGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g SyncGroup
		var syncs atomic.Int64
		release := make(chan struct{})
		boom := errors.New("boom")
		do := func(all bool) error {
			return g.Do(all, func(all bool) error {
				n := syncs.Add(1)
				<-release
				if n == 2 {
					if !all {
						t.Error("one of the round wanted all")
					}
					return boom
				}
				return nil
			})
		}
		results := make(chan error, 6)
		go func() { results <- do(true) }()
		synctest.Wait()
		for i := range 5 {
			go func() { results <- do(i == 2) }()
		}
		synctest.Wait()
		if syncs.Load() != 1 {
			t.Errorf("%d syncs at once", syncs.Load())
		}
		release <- struct{}{}
		if err := <-results; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		release <- struct{}{}
		for range 5 {
			if err := <-results; err != boom {
				t.Errorf("of the second round: %v", err)
			}
		}
		if syncs.Load() != 2 {
			t.Errorf("%d syncs", syncs.Load())
		}
	})
}

// Stop waits for all, and nothing starts after it (I4).
func TestBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Background
		runs := 0
		work := 3
		f := func(quit <-chan struct{}) {
			runs++
			for !b.Ended("f", func() bool { return work == 0 }) {
				work--
			}
		}
		b.Start("f", f)
		synctest.Wait()
		b.Start("f", f)
		synctest.Wait()
		if runs != 2 || work != 0 {
			t.Errorf("%d runs, %d left", runs, work)
		}
		ended := false
		b.Start("g", func(quit <-chan struct{}) { <-quit; ended = true })
		b.Start("g", func(<-chan struct{}) { t.Error("a second of its name") })
		b.Stop()
		if !ended {
			t.Error("Stop did not wait")
		}
		b.Start("h", func(<-chan struct{}) { t.Error("started after Stop") })
		b.Stop()
	})
}
