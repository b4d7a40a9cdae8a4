//go:build darwin || freebsd

package vfs

import (
	"io"
	"io/fs"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// held names the lock files of this process: fcntl locks without open-file descriptions belong to the process, so that
// the kernel would grant a second one to itself, and any Close of the file would drop the first.
var held struct {
	mu    sync.Mutex
	names map[string]bool
}

type heldLock struct {
	*os.File
	once sync.Once
}

func (osFS) Lock(name string) (io.Closer, error) {
	held.mu.Lock()
	defer held.mu.Unlock()
	if held.names[name] {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: ErrLocked}
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	whole := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &whole); err != nil {
		if err == unix.EAGAIN || err == unix.EACCES {
			err = ErrLocked
		}
		_ = f.Close()
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	if held.names == nil {
		held.names = make(map[string]bool)
	}
	held.names[name] = true
	return &heldLock{File: f}, nil
}

func (l *heldLock) Close() error {
	l.once.Do(func() {
		held.mu.Lock()
		delete(held.names, l.Name())
		held.mu.Unlock()
	})
	return l.File.Close()
}

func (osFS) Usage(name string) (Usage, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(name, &st); err != nil {
		return Usage{}, &fs.PathError{Op: "statfs", Path: name, Err: err}
	}
	unit := int64(st.Bsize)
	return Usage{Total: int64(st.Blocks) * unit, Usable: int64(st.Bavail) * unit}, nil
}

// sendfile is Linux's alone here: elsewhere regions take the copying path.
func startWriteback(*osFile, int64, int64) {}

func sendfile(*net.TCPConn, *osFile, Region) (int64, bool, error) { return 0, false, nil }
