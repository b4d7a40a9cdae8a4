package segments

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/quire-log/quire/internal/vfs"
)

// A scarceFS opens files while its opener has fewer than max open.
type scarceFS struct {
	vfs.FS
	o   *opener
	max int64
}

func (s scarceFS) OpenFile(name string, _ int, _ fs.FileMode) (vfs.File, error) {
	if s.o.opened.Load() >= s.max {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EMFILE}
	}
	return s.o.OpenFile()
}

// A throughFS is an Opener.
type throughFS struct{ fs vfs.FS }

func (o throughFS) OpenFile() (vfs.File, error) { return o.fs.OpenFile("f", os.O_RDWR, 0) }

// Idle files make room for those that are needed; files that are held do not.
func TestIdleFilesMakeRoom(t *testing.T) {
	o := &opener{mem: vfs.NewMem()}
	const room = 5
	fsys := Sparing(scarceFS{o.mem, o, room})
	through := throughFS{fsys}
	files := make([]File, 3*room)
	for i := range files {
		if _, err := files[i].Acquire(through); err != nil {
			t.Fatalf("file %d: %v", i, err)
		}
		files[i].Release()
	}
	if f, err := fsys.OpenFile("other", os.O_RDWR, 0); err != nil {
		t.Errorf("a file that is no segment: %v", err)
	} else {
		f.Close()
	}
	for i := range room {
		if _, err := files[i].Acquire(through); err != nil {
			t.Fatalf("file %d: %v", i, err)
		}
	}
	if _, err := files[room].Acquire(through); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("while all are held: %v", err)
	}
	for i := range room {
		files[i].Release()
	}
	for i := range files {
		files[i].Retire()
	}
	if n := o.opened.Load(); n != 0 {
		t.Errorf("%d are left open", n)
	}
}

// Those who need room at once neither wait for each other nor lose a file.
func TestIdleFilesMakeRoomConcurrently(t *testing.T) {
	o := &opener{mem: vfs.NewMem()}
	through := throughFS{Sparing(scarceFS{o.mem, o, 8})}
	files := make([]File, 32)
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := range 4000 {
				f := &files[(i*7+g*5)%len(files)]
				file, err := f.Acquire(through)
				if err != nil {
					continue // the others hold all
				}
				if _, err := file.Size(); err != nil {
					t.Error(err)
				}
				f.Release()
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
