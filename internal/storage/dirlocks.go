package storage

import (
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/quire-log/quire/internal/vfs"
)

// lockFile is the file whose lock says that a data directory is in use; Kafka's nodes heed it too.
const lockFile = ".lock"

// DirLocks are data directories that belong to this process alone: what it finds in them stays true until it changes it itself. So a
// directory is formatted under its lock, and OpenManager takes the locks over.
type DirLocks struct{ held map[string]io.Closer }

// LockDirs makes the directories that are missing, and locks all. One that another has is an error, and nothing stays locked. One that
// the operating system refuses to make or lock is left out: OpenManager, which tries again, finds the reason and takes it offline.
func LockDirs(fsys vfs.FS, dirs []string) (*DirLocks, error) {
	l := &DirLocks{map[string]io.Closer{}}
	for _, dir := range dirs {
		if l.held[dir] != nil {
			continue // listed twice, which OpenManager refuses
		}
		if _, err := fsys.Stat(dir); err != nil {
			if err := makeDir(fsys, dir); err != nil {
				continue
			}
		}
		lock, err := lockDir(fsys, dir)
		var taken *DirError
		switch {
		case errors.As(err, &taken):
			return nil, errors.Join(err, l.Close())
		case err == nil:
			l.held[dir] = lock
		}
	}
	return l, nil
}

// Close gives back the locks that no Manager took over.
func (l *DirLocks) Close() error {
	var errs []error
	for dir, lock := range l.held {
		errs = append(errs, lock.Close())
		delete(l.held, dir)
	}
	return errors.Join(errs...)
}

// take hands over the lock of a directory, and takes it first if there is none. l may be nil.
func (l *DirLocks) take(fsys vfs.FS, dir string) (io.Closer, error) {
	if l != nil && l.held[dir] != nil {
		lock := l.held[dir]
		delete(l.held, dir)
		return lock, nil
	}
	return lockDir(fsys, dir)
}

// lockDir locks a directory; a DirError tells that it is somebody else's.
func lockDir(fsys vfs.FS, dir string) (io.Closer, error) {
	lock, err := fsys.Lock(path.Join(dir, lockFile))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, &DirError{dir, fmt.Errorf("failed to acquire lock on file %s in %s. A Kafka instance in another process or thread is using this directory: stop it first, or give this node directories of its own (log.dirs): %w", lockFile, dir, err)}
	}
	return lock, err
}
