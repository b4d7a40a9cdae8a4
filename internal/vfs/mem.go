package vfs

// A Mem is a file system in memory that misbehaves on demand. It is safe for concurrent use.
type Mem struct{ FS }

// NewMem returns an empty file system without limit.
func NewMem() *Mem { panic("unwritten") }

// AfterCrash returns the file system as the next start finds it after a power cut now: synced bytes and names stay, each
// unsynced one by lot of seed (kept, lost, or torn in the middle; what the size says and data does not is zeros or nonsense).
// Locks are gone. The old Mem refuses everything from now on with ErrCrashed.
func (m *Mem) AfterCrash(seed uint64) *Mem { panic("unwritten") }

// CrashAfter makes every operation after the next n mutating ones (write, truncate, sync, rename, create, remove, mkdir) fail with ErrCrashed;
// the n-th itself may take effect in part. n < 0: never.
func (m *Mem) CrashAfter(n int) { panic("unwritten") }

// FailNth makes the n-th (from 1) next operation for which match is true fail with err. op is "write", "sync", "read", "truncate", "rename", "create", "remove", "mkdir", "syncdir", "open".
func (m *Mem) FailNth(n int, err error, match func(op, name string) bool) { panic("unwritten") }

// SetCapacity bounds the bytes of all files; a write beyond it takes what fits and returns ENOSPC. Negative: no bound.
func (m *Mem) SetCapacity(bytes int64) { panic("unwritten") }

// ErrCrashed is what a crashed file system answers.
const ErrCrashed = constError("file system has crashed")
