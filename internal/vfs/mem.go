package vfs

import (
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ErrCrashed is what a crashed file system answers.
const ErrCrashed = constError("file system has crashed")

// A Mem is a file system in memory that misbehaves on demand. It is safe for concurrent use.
//
// Names and bytes exist twice: as a program sees them, and as they lie on the disk. What was done to the first and not yet to
// the second is kept as a list of operations, one for names and one for each file; SyncDir and Sync carry theirs over, and
// AfterCrash draws lots for the rest. As a strict reader of POSIX would have it, Sync of a file says nothing of its name.
type Mem struct {
	mu       sync.Mutex // guards all below, and all nodes; match functions run under it
	root     *node
	nameOps  []*nameOp // not yet on disk, in order; those that are done meanwhile get weeded out now and then
	nameLive int       // how many of nameOps are not done
	used     int64     // bytes of all files that are linked or open
	capacity int64     // bound of used
	crashIn  int       // mutating operations until the crash, negative: none is due
	crashed  bool
	rules    []*failRule
}

// A node is a file or a directory.
type node struct {
	dir   bool
	perm  fs.FileMode
	mtime time.Time

	// of a directory
	entries map[string]*node // as seen
	durable map[string]*node // as on disk
	ops     []*nameOp        // those of Mem.nameOps that touch this directory

	// of a file
	seen   pages
	onDisk pages
	writes []fileOp // what seen has and onDisk lacks, in order
	links  int      // 1, or 0 once its name is gone
	opened int      // handles
	locked bool
}

// A nameOp changes names as one: a create or mkdir sets one, a remove clears one, a rename does both.
type nameOp struct {
	clearDir, setDir   *node // nil: no such half
	clearName, setName string
	node               *node // what is cleared there and set here
	done               bool  // it is on disk
}

// A fileOp is a write, or with nil data a truncation to off.
type fileOp struct {
	off  int64
	data []byte
}

type failRule struct {
	left  int // operations until the one that fails; -1: each fails
	err   error
	match func(op, name string) bool
}

// NewMem returns an empty file system without limit.
func NewMem() *Mem {
	return &Mem{root: newDir(0o755), capacity: math.MaxInt64, crashIn: -1}
}

func newDir(perm fs.FileMode) *node {
	return &node{dir: true, perm: perm, links: 1, mtime: time.Now(), entries: map[string]*node{}, durable: map[string]*node{}}
}

// CrashAfter makes every operation after the next n mutating ones (write, truncate, sync, rename, create, remove, mkdir) fail with ErrCrashed.
// The n-th is the one during which the power goes: it fails too, and what it did is known to AfterCrash alone. n < 0: never.
// RemoveAll and MkdirAll count once for each name they take or make.
func (m *Mem) CrashAfter(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.crashIn = n
	if n == 0 {
		m.crashed = true
	}
}

// FailNth makes the n-th (from 1) next operation for which match is true fail with err. op is "write", "sync", "read", "truncate", "rename", "create", "remove", "mkdir", "syncdir", "open".
// It fails without effect, except that the bytes which a failed sync was to save never reach the disk, whatever a later
// sync returns: that is what Linux does. match must not call the Mem.
func (m *Mem) FailNth(n int, err error, match func(op, name string) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rules = append(m.rules, &failRule{left: n, err: err, match: match})
}

// FailEvery is FailNth for each operation for which match is true, until match says otherwise.
func (m *Mem) FailEvery(err error, match func(op, name string) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rules = append(m.rules, &failRule{left: -1, err: err, match: match})
}

// SetCapacity bounds the bytes of all files; a write beyond it takes what fits and returns ENOSPC. Negative: no bound.
// Bytes that were only ever truncated to need no room.
func (m *Mem) SetCapacity(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if bytes < 0 {
		bytes = math.MaxInt64
	}
	m.capacity = bytes
}

// enter begins an operation. last tells that the power goes during it: it takes effect and returns ErrCrashed.
func (m *Mem) enter(op, name string, mutates bool) (last bool, err error) {
	if m.crashed {
		return false, pathError(op, name, ErrCrashed)
	}
	for i, r := range m.rules {
		if r.match(op, name) {
			if r.left < 0 {
				return false, pathError(op, name, r.err)
			}
			if r.left--; r.left == 0 {
				m.rules = slices.Delete(m.rules, i, i+1)
				return false, pathError(op, name, r.err)
			}
		}
	}
	if mutates && m.crashIn > 0 {
		m.crashIn--
		if m.crashIn == 0 {
			m.crashed = true
			return true, nil
		}
	}
	return false, nil
}

func crashedIf(last bool, op, name string) error {
	if last {
		return pathError(op, name, ErrCrashed)
	}
	return nil
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// split cuts a path into its names; the root has none.
func split(name string) []string {
	name = strings.TrimPrefix(path.Clean(name), "/")
	if name == "" || name == "." {
		return nil
	}
	return strings.Split(name, "/")
}

func (m *Mem) walk(names []string) (*node, error) {
	n := m.root
	for _, s := range names {
		if !n.dir {
			return nil, syscall.ENOTDIR
		}
		if n = n.entries[s]; n == nil {
			return nil, syscall.ENOENT
		}
	}
	return n, nil
}

// parent finds the directory that name is in; the last of its names may be missing (n is nil then).
func (m *Mem) parent(name string) (dir *node, base string, n *node, err error) {
	names := split(name)
	if len(names) == 0 {
		return nil, "", nil, syscall.EINVAL
	}
	base = names[len(names)-1]
	if len(base) > 255 {
		return nil, "", nil, syscall.ENAMETOOLONG
	}
	dir, err = m.walk(names[:len(names)-1])
	if err != nil {
		return nil, "", nil, err
	}
	if !dir.dir {
		return nil, "", nil, syscall.ENOTDIR
	}
	return dir, base, dir.entries[base], nil
}

// apply does op to the names as seen and queues it for the disk.
func (m *Mem) apply(op *nameOp) {
	now := time.Now()
	if op.clearDir != nil {
		delete(op.clearDir.entries, op.clearName)
		op.clearDir.mtime = now
		op.clearDir.ops = append(op.clearDir.ops, op)
	}
	if op.setDir != nil {
		op.setDir.entries[op.setName] = op.node
		op.setDir.mtime = now
		if op.setDir != op.clearDir {
			op.setDir.ops = append(op.setDir.ops, op)
		}
	}
	if m.nameLive*2 < len(m.nameOps)-64 {
		m.nameOps = slices.DeleteFunc(m.nameOps, func(o *nameOp) bool { return o.done })
	}
	m.nameOps = append(m.nameOps, op)
	m.nameLive++
}

// unlinked gives the bytes of a file back once nothing refers to it.
func (m *Mem) unlinked(n *node) {
	if !n.dir && n.links == 0 && n.opened == 0 {
		m.used -= n.seen.truncate(0)
	}
}

func (m *Mem) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.open(name, flag, perm)
	if err != nil {
		return nil, err
	}
	n.opened++
	access := flag & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR)
	return &memFile{m: m, name: name, node: n, reads: access != os.O_WRONLY, writes: access != os.O_RDONLY}, nil
}

func (m *Mem) open(name string, flag int, perm fs.FileMode) (*node, error) {
	if _, err := m.enter("open", name, false); err != nil {
		return nil, err
	}
	dir, base, n, err := m.parent(name)
	switch {
	case err != nil:
		return nil, pathError("open", name, err)
	case n == nil && flag&os.O_CREATE == 0:
		return nil, pathError("open", name, syscall.ENOENT)
	case n == nil:
		last, err := m.enter("create", name, true)
		if err != nil {
			return nil, err
		}
		n = &node{perm: perm, links: 1, mtime: time.Now()}
		m.apply(&nameOp{setDir: dir, setName: base, node: n})
		return n, crashedIf(last, "create", name)
	case flag&os.O_CREATE != 0 && flag&os.O_EXCL != 0:
		return nil, pathError("open", name, syscall.EEXIST)
	case n.dir:
		return nil, pathError("open", name, syscall.EISDIR)
	case flag&os.O_TRUNC != 0 && n.seen.size > 0:
		return n, m.truncate(n, name, 0)
	}
	return n, nil
}

func (m *Mem) MkdirAll(name string, perm fs.FileMode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.crashed {
		return pathError("mkdir", name, ErrCrashed)
	}
	dir := m.root
	for _, s := range split(name) {
		if len(s) > 255 {
			return pathError("mkdir", name, syscall.ENAMETOOLONG)
		}
		next := dir.entries[s]
		if next == nil {
			last, err := m.enter("mkdir", name, true)
			if err != nil {
				return err
			}
			next = newDir(perm)
			m.apply(&nameOp{setDir: dir, setName: s, node: next})
			if last {
				return pathError("mkdir", name, ErrCrashed)
			}
		}
		if !next.dir {
			return pathError("mkdir", name, syscall.ENOTDIR)
		}
		dir = next
	}
	return nil
}

func (m *Mem) ReadDir(name string) ([]fs.DirEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.enter("read", name, false); err != nil {
		return nil, err
	}
	dir, err := m.walk(split(name))
	if err == nil && !dir.dir {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, pathError("open", name, err)
	}
	list := make([]fs.DirEntry, 0, len(dir.entries))
	for _, s := range slices.Sorted(maps.Keys(dir.entries)) {
		list = append(list, fs.FileInfoToDirEntry(dir.entries[s].info(s)))
	}
	return list, nil
}

func (m *Mem) Stat(name string) (fs.FileInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.crashed {
		return nil, pathError("stat", name, ErrCrashed)
	}
	n, err := m.walk(split(name))
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return n.info(path.Base(name)), nil
}

func (m *Mem) Rename(oldname, newname string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, err := m.enter("rename", oldname, true)
	if err != nil {
		return err
	}
	from, oldbase, n, err := m.parent(oldname)
	if err == nil && n == nil {
		err = syscall.ENOENT
	}
	if err != nil {
		return pathError("rename", oldname, err)
	}
	to, newbase, replaced, err := m.parent(newname)
	switch {
	case err != nil:
		return pathError("rename", oldname, err)
	case replaced != nil && replaced.dir: // as package os has it
		return pathError("rename", oldname, syscall.EEXIST)
	case replaced != nil && n.dir:
		return pathError("rename", oldname, syscall.ENOTDIR)
	case n.dir && strings.HasPrefix(path.Clean(newname)+"/", path.Clean(oldname)+"/"):
		return pathError("rename", oldname, syscall.EINVAL)
	case replaced == n:
		return crashedIf(last, "rename", oldname)
	}
	m.apply(&nameOp{clearDir: from, clearName: oldbase, setDir: to, setName: newbase, node: n})
	if replaced != nil {
		replaced.links = 0
		m.unlinked(replaced)
	}
	return crashedIf(last, "rename", oldname)
}

func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.crashed {
		return pathError("remove", name, ErrCrashed)
	}
	dir, base, n, err := m.parent(name)
	switch {
	case err != nil:
		return pathError("remove", name, err)
	case n == nil:
		return pathError("remove", name, syscall.ENOENT)
	case n.dir && len(n.entries) > 0:
		return pathError("remove", name, syscall.ENOTEMPTY)
	}
	return m.remove(dir, base, n, name)
}

func (m *Mem) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.crashed {
		return pathError("remove", name, ErrCrashed)
	}
	dir, base, n, err := m.parent(name)
	if err == syscall.ENOENT || err == nil && n == nil {
		return nil
	}
	if err != nil {
		return pathError("remove", name, err)
	}
	return m.removeAll(dir, base, n, name)
}

func (m *Mem) removeAll(dir *node, base string, n *node, name string) error {
	for _, s := range slices.Sorted(maps.Keys(n.entries)) {
		if err := m.removeAll(n, s, n.entries[s], name+"/"+s); err != nil {
			return err
		}
	}
	return m.remove(dir, base, n, name)
}

func (m *Mem) remove(dir *node, base string, n *node, name string) error {
	last, err := m.enter("remove", name, true)
	if err != nil {
		return err
	}
	m.apply(&nameOp{clearDir: dir, clearName: base, node: n})
	n.links = 0
	m.unlinked(n)
	return crashedIf(last, "remove", name)
}

func (m *Mem) Chtimes(name string, mtime time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.crashed {
		return pathError("chtimes", name, ErrCrashed)
	}
	n, err := m.walk(split(name))
	if err != nil {
		return pathError("chtimes", name, err)
	}
	if !mtime.IsZero() {
		n.mtime = mtime
	}
	return nil
}

func (m *Mem) SyncDir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, err := m.enter("syncdir", name, true)
	if err != nil {
		return err
	}
	dir, err := m.walk(split(name))
	if err == nil && !dir.dir {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return pathError("syncdir", name, err)
	}
	if last {
		return pathError("syncdir", name, ErrCrashed)
	}
	for _, op := range dir.ops {
		if op.clearDir != nil && op.setDir != nil && op.clearDir != op.setDir {
			// What moved the node into this other directory cannot come after what moves it out.
			for _, earlier := range m.nameOps {
				if earlier == op {
					break
				}
				if earlier.node == op.node {
					m.persist(earlier)
				}
			}
		}
		m.persist(op)
	}
	dir.ops = nil
	return nil
}

func (m *Mem) persist(op *nameOp) {
	if !op.done {
		op.done = true
		m.nameLive--
		op.settle(func(dir *node) map[string]*node { return dir.durable })
	}
}

// settle carries op over to the names on disk. The earlier operations on its node may not be there (yet, or ever), hence a name is
// cleared only if it is the node's.
func (op *nameOp) settle(disk func(dir *node) map[string]*node) {
	if op.clearDir != nil {
		if names := disk(op.clearDir); names[op.clearName] == op.node {
			delete(names, op.clearName)
		}
	}
	if op.setDir != nil {
		disk(op.setDir)[op.setName] = op.node
	}
}

func (m *Mem) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.open(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if n.locked {
		return nil, pathError("lock", name, ErrLocked)
	}
	n.locked = true
	return &memLock{m: m, node: n}, nil
}

type memLock struct {
	m    *Mem
	node *node // nil once closed
}

func (l *memLock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if l.node == nil {
		return fs.ErrClosed
	}
	l.node.locked = false
	l.node = nil
	return nil
}

// memTotal is the size of a Mem without bound, as Usage has it.
const memTotal = 1 << 40

func (m *Mem) Usage(name string) (Usage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.crashed {
		return Usage{}, pathError("statfs", name, ErrCrashed)
	}
	if _, err := m.walk(split(name)); err != nil {
		return Usage{}, pathError("statfs", name, err)
	}
	total := min(m.capacity, memTotal)
	return Usage{Total: total, Usable: max(0, total-m.used)}, nil
}

// A memInfo is a node's description at one moment.
type memInfo struct {
	name  string
	size  int64
	mode  fs.FileMode
	mtime time.Time
}

func (n *node) info(name string) fs.FileInfo {
	mode := n.perm
	if n.dir {
		mode |= fs.ModeDir
	}
	return memInfo{name, n.seen.size, mode, n.mtime}
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) Mode() fs.FileMode  { return i.mode }
func (i memInfo) ModTime() time.Time { return i.mtime }
func (i memInfo) IsDir() bool        { return i.mode.IsDir() }
func (i memInfo) Sys() any           { return nil }
