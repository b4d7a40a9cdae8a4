package segments

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/quire-log/quire/internal/vfs"
)

// idleGiveUp is how many idle files are closed at once for want of a descriptor: who opens one file often opens its neighbours next.
const idleGiveUp = 16

// Sparing is fsys, but that whoever finds no file descriptor left has idle Files closed, which are open for convenience alone, and
// tries again.
func Sparing(fsys vfs.FS) vfs.FS {
	if s, ok := fsys.(sparing); ok {
		return s
	}
	return sparing{fsys}
}

type sparing struct{ vfs.FS }

func (s sparing) OpenFile(name string, flag int, perm fs.FileMode) (f vfs.File, err error) {
	err = withDescriptor(func() error {
		f, err = s.FS.OpenFile(name, flag, perm)
		return err
	})
	return f, err
}

func (s sparing) ReadDir(name string) (entries []fs.DirEntry, err error) {
	err = withDescriptor(func() error {
		entries, err = s.FS.ReadDir(name)
		return err
	})
	return entries, err
}

// SyncDir is for renames and removals that are done already: their durability must not fail for a descriptor.
func (s sparing) SyncDir(name string) error {
	return withDescriptor(func() error { return s.FS.SyncDir(name) })
}

// withDescriptor calls do again as long as it finds no descriptor and an idle one can be had.
func withDescriptor(do func() error) error {
	for {
		err := do()
		if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) || closeIdle(idleGiveUp) == 0 {
			return err
		}
	}
}

// closeIdle closes up to n of the files that are open and held by nobody, the longest idle first, and tells how many there were.
func closeIdle(n int) (closed int) {
	for closed < n {
		f := idle.takeFirst()
		if f == nil {
			break
		}
		if f.file != nil { // always, of a listed file
			_ = f.file.Close()
			f.file = nil
		}
		f.mu.Unlock()
		closed++
	}
	return closed
}
