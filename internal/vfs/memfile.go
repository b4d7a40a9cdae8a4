package vfs

import (
	"io"
	"io/fs"
	"slices"
	"syscall"
	"time"
)

// A memFile is an open file of a Mem. Its node is guarded by the Mem's mu.
type memFile struct {
	m             *Mem
	name          string
	node          *node
	reads, writes bool
	closed        bool
}

func (f *memFile) Name() string { return f.name }

// enter begins an operation on f; the caller holds mu.
func (f *memFile) enter(op string, writes bool) (last bool, err error) {
	switch {
	case f.closed:
		return false, pathError(op, f.name, fs.ErrClosed)
	case writes && !f.writes:
		if op == "truncate" { // the kernel's word for it
			return false, pathError(op, f.name, syscall.EINVAL)
		}
		return false, pathError(op, f.name, syscall.EBADF)
	}
	return f.m.enter(op, f.name, writes || op == "sync")
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if _, err := f.enter("read", false); err != nil {
		return 0, err
	}
	switch {
	case !f.reads:
		return 0, pathError("read", f.name, syscall.EBADF)
	case off < 0:
		return 0, pathError("read", f.name, syscall.EINVAL)
	}
	n := f.node.seen.readAt(p, off)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if off < 0 {
		return 0, pathError("write", f.name, syscall.EINVAL)
	}
	last, err := f.enter("write", true)
	if err != nil || len(p) == 0 {
		return 0, err
	}
	n, grown := f.node.seen.writeAt(p, off, f.m.capacity-f.m.used)
	f.m.used += grown
	if n > 0 {
		f.node.writes = append(f.node.writes, fileOp{off, slices.Clone(p[:n])})
		f.node.mtime = time.Now()
	}
	switch {
	case last:
		return 0, pathError("write", f.name, ErrCrashed)
	case n < len(p):
		return n, pathError("write", f.name, syscall.ENOSPC)
	}
	return n, nil
}

func (f *memFile) Truncate(size int64) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	switch {
	case f.closed:
		return pathError("truncate", f.name, fs.ErrClosed)
	case size < 0 || !f.writes: // the kernel's word for both
		return pathError("truncate", f.name, syscall.EINVAL)
	}
	return f.m.truncate(f.node, f.name, size)
}

func (m *Mem) truncate(n *node, name string, size int64) error {
	last, err := m.enter("truncate", name, true)
	if err != nil {
		return err
	}
	m.used -= n.seen.truncate(size)
	n.writes = append(n.writes, fileOp{off: size})
	n.mtime = time.Now()
	return crashedIf(last, "truncate", name)
}

func (f *memFile) Sync() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.closed {
		return pathError("sync", f.name, fs.ErrClosed)
	}
	last, err := f.m.enter("sync", f.name, true)
	switch {
	case err != nil:
		if !f.m.crashed {
			f.node.writes = nil // see FailNth
		}
		return err
	case last: // what came through is for AfterCrash to say
		return pathError("sync", f.name, ErrCrashed)
	}
	for _, op := range f.node.writes {
		f.node.onDisk.apply(op)
	}
	f.node.writes = nil
	return nil
}

func (f *memFile) Size() (int64, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.usable("stat"); err != nil {
		return 0, err
	}
	return f.node.seen.size, nil
}

func (f *memFile) ModTime() (time.Time, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.usable("stat"); err != nil {
		return time.Time{}, err
	}
	return f.node.mtime, nil
}

func (f *memFile) usable(op string) error {
	switch {
	case f.closed:
		return pathError(op, f.name, fs.ErrClosed)
	case f.m.crashed:
		return pathError(op, f.name, ErrCrashed)
	}
	return nil
}

// Close works on a crashed file system too, since there is nobody left to be told.
func (f *memFile) Close() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.closed {
		return pathError("close", f.name, fs.ErrClosed)
	}
	f.closed = true
	f.node.opened--
	f.m.unlinked(f.node)
	return nil
}

// pageSize is the unit in which a pages keeps its bytes.
const pageSize = 4096

// A pages is the content of a file: what was never written is zero and takes no memory. The zero pages is an empty file.
type pages struct {
	size int64
	// page holds, by number, as much of each page as was written: the rest of it is zero.
	page map[int64][]byte
}

func (c *pages) readAt(p []byte, off int64) int {
	if off >= c.size {
		return 0
	}
	p = p[:min(int64(len(p)), c.size-off)]
	for done := 0; done < len(p); {
		at := off + int64(done)
		in := int(at % pageSize)
		dst := p[done:min(len(p), done+pageSize-in)]
		var n int
		if page := c.page[at/pageSize]; in < len(page) {
			n = copy(dst, page[in:])
		}
		clear(dst[n:])
		done += len(dst)
	}
	return len(p)
}

// writeAt writes as much of p as fits when room more bytes may be taken; grown is how many it took.
func (c *pages) writeAt(p []byte, off, room int64) (n int, grown int64) {
	if c.page == nil {
		c.page = make(map[int64][]byte)
	}
	for n < len(p) {
		at := off + int64(n)
		in := int(at % pageSize)
		src := p[n:min(len(p), n+pageSize-in)]
		page := c.page[at/pageSize]
		need := in + len(src)
		if most := int64(len(page)) + max(0, room-grown); int64(need) > most {
			need = int(most) // the disk is full in this page
		}
		if need <= in {
			break
		}
		full := need < in+len(src)
		src = src[:need-in]
		if need > len(page) {
			grown += int64(need - len(page))
			page = append(page, make([]byte, need-len(page))...)
			c.page[at/pageSize] = page
		}
		n += copy(page[in:], src)
		if full {
			break
		}
	}
	if n > 0 {
		c.size = max(c.size, off+int64(n))
	}
	return n, grown
}

// truncate sets the size and returns how many bytes it gave back.
func (c *pages) truncate(size int64) (freed int64) {
	if size < c.size {
		for i, page := range c.page {
			keep := min(int64(len(page)), max(0, size-i*pageSize))
			freed += int64(len(page)) - keep
			if keep == 0 {
				delete(c.page, i)
			} else {
				c.page[i] = page[:keep:keep]
			}
		}
	}
	c.size = size
	return freed
}

func (c *pages) apply(op fileOp) {
	if op.data == nil {
		c.truncate(op.off)
	} else {
		c.writeAt(op.data, op.off, 1<<62)
	}
}

func (c *pages) clone() pages {
	d := pages{size: c.size, page: make(map[int64][]byte, len(c.page))}
	for i, page := range c.page {
		d.page[i] = slices.Clone(page)
	}
	return d
}

// bytes is how much of a disk's room the content takes.
func (c *pages) bytes() (n int64) {
	for _, page := range c.page {
		n += int64(len(page))
	}
	return n
}
