package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
	"syscall"
	"time"
)

// OS is the operating system's file system.
func OS() FS { return osFS{} }

type osFS struct{}

// An osFile is an *os.File that Region.WriteTo can recognise.
type osFile struct{ *os.File }

func (osFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	fd, err := openRetrying(name, flag, uint32(perm.Perm()))
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &osFile{os.NewFile(uintptr(fd), name)}, nil
}

// openRetrying is what os.OpenFile does, less the system calls by which that finds out that a regular file cannot be polled:
// a start opens some files for each of thousands of logs.
func openRetrying(name string, flag int, perm uint32) (int, error) {
	for {
		fd, err := syscall.Open(name, flag|syscall.O_CLOEXEC, perm)
		if err != syscall.EINTR {
			return fd, err
		}
	}
}

func (osFS) MkdirAll(name string, perm fs.FileMode) error { return os.MkdirAll(name, perm) }
func (osFS) ReadDir(name string) ([]fs.DirEntry, error)   { return os.ReadDir(name) }
func (osFS) Stat(name string) (fs.FileInfo, error)        { return os.Stat(name) }
func (osFS) Remove(name string) error                     { return os.Remove(name) }
func (osFS) RemoveAll(name string) error                  { return os.RemoveAll(name) }

func (osFS) Rename(oldname, newname string) error {
	err := os.Rename(oldname, newname)
	// package os reports renames with a type of its own, while FS promises one type for all.
	var link *os.LinkError
	if errors.As(err, &link) {
		return &fs.PathError{Op: "rename", Path: oldname, Err: fmt.Errorf("to %s: %w", newname, link.Err)}
	}
	return err
}

func (osFS) Chtimes(name string, mtime time.Time) error {
	return os.Chtimes(name, time.Time{}, mtime) // the zero time leaves the access time alone
}

func (osFS) SyncDir(name string) error {
	return spare.use(func() error {
		d, err := os.Open(name)
		if err != nil {
			return err
		}
		err = d.Sync()
		return errors.Join(err, d.Close())
	})
}

// spare is given up while a directory is opened for a moment though no descriptor is left: a rename that was done can then
// be made durable.
var spare spareDescriptor

type spareDescriptor struct {
	// mu guards the field below, and is held while the descriptor is lent.
	mu   sync.Mutex
	file *os.File // nil: none was had
}

// use calls do, and once more with a descriptor to spare if it found none.
func (s *spareDescriptor) use(do func() error) error {
	s.keep()
	err := do()
	if !errors.Is(err, syscall.EMFILE) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return err
	}
	_ = s.file.Close()
	err = do()
	s.file, _ = os.Open(os.DevNull)
	return err
}

func (s *spareDescriptor) keep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		s.file, _ = os.Open(os.DevNull)
	}
}

// StartWriteback has the system begin to write n bytes of f to the disk, where it can, so that a Sync later finds less to wait for. It is
// a hint: nothing is durable by it, and a disk that fails says so to Sync.
func StartWriteback(f File, pos, n int64) {
	if f, ok := f.(*osFile); ok {
		startWriteback(f, pos, n)
	}
}

func (f *osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f *osFile) ModTime() (time.Time, error) {
	info, err := f.Stat()
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

// WriteFile replaces name atomically: a temporary file beside it (name + ".tmp"), fsync, rename, fsync of the directory.
// After an error name has its former content or, when only the last step failed, perhaps the new one.
func WriteFile(fsys FS, name string, data []byte) error {
	if err := ReplaceFile(fsys, name, data); err != nil {
		return err
	}
	return fsys.SyncDir(path.Dir(name))
}

// ReplaceFile is WriteFile without its last step, for those who put more into the directory before they fsync it: until then
// a crash leaves the former content or the new one, as it likes.
func ReplaceFile(fsys FS, name string, data []byte) error {
	tmp := name + ".tmp"
	if err := writeSynced(fsys, tmp, data); err != nil {
		_ = fsys.Remove(tmp) // a leftover does no harm: the next WriteFile truncates it
		return err
	}
	if err := fsys.Rename(tmp, name); err != nil {
		_ = fsys.Remove(tmp)
		return err
	}
	return nil
}

func writeSynced(fsys FS, name string, data []byte) error {
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(data, 0); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// ReadFile returns the whole content of name.
func ReadFile(fsys FS, name string) ([]byte, error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	// The size is a hint: a sparse file may claim more than there is memory, and fails then where it is read.
	var b bytes.Buffer
	b.Grow(int(min(max(size, 0), 1<<20)) + bytes.MinRead)
	if _, err := b.ReadFrom(io.NewSectionReader(f, 0, 1<<62)); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
