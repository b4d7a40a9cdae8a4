// Package vfs is the seam between Quire and the operating system's files. Everything that Quire keeps
// on disk goes through an FS, so that a test can hand it a file system that crashes, tears writes,
// fills up and fails on demand.
//
//	I1  bytes that File.Sync returned for without error survive a crash
//	I2  a name that was created, renamed or removed survives a crash once SyncDir of its directory returned
//	I3  nothing else survives for certain: unsynced bytes and names may be there, wholly, in part or not at all
//	I4  a Region reads the file it was made from, even after the name is gone
//
// Two file systems exist: OS (the operating system's) and Mem (its twin in memory). Paths are slash-separated
// and handed to the operating system as they are; Mem knows only absolute or only relative ones, as they come.
package vfs

import (
	"io"
	"io/fs"
	"time"
)

// An FS is a file system. Errors are *fs.PathError or wrap one; errors.Is works with fs.ErrNotExist, fs.ErrExist
// and, for a full disk, syscall.ENOSPC.
type FS interface {
	// OpenFile opens name with the flags of package os (O_RDONLY, O_RDWR, O_CREATE, O_EXCL, O_TRUNC).
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	MkdirAll(name string, perm fs.FileMode) error
	// ReadDir lists a directory, sorted by name.
	ReadDir(name string) ([]fs.DirEntry, error)
	Stat(name string) (fs.FileInfo, error)
	// Rename replaces newname if it exists. Durable only after SyncDir of the directories involved.
	Rename(oldname, newname string) error
	Remove(name string) error
	RemoveAll(name string) error
	Chtimes(name string, mtime time.Time) error
	// SyncDir makes the entries of a directory durable.
	SyncDir(name string) error
	// Lock takes an exclusive lock on the file name, which is created if need be, without waiting:
	// ErrLocked if another process (of Kafka's, too) or another open file of this one has it.
	// Closing the result gives the lock back and leaves the file behind.
	Lock(name string) (io.Closer, error)
	// Usage tells the size of the volume that holds name and how much of it this process may still use, in bytes.
	Usage(name string) (Usage, error)
}

// Usage is what a volume has and has left, in bytes.
type Usage struct{ Total, Usable int64 }

// A File is an open file. Reads and writes name their position, so one File serves many goroutines.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Name() string
	Size() (int64, error)
	// Truncate sets the size; bytes that it adds are zero and need no space until they are written.
	Truncate(size int64) error
	// Sync makes all bytes and the size durable. After an error nothing is known of unsynced bytes (fsyncgate):
	// callers must not write on.
	Sync() error
	ModTime() (time.Time, error)
}

// ErrLocked means that a lock is held elsewhere.
const ErrLocked = constError("file is locked by another process")

type constError string

func (e constError) Error() string { return string(e) }
