package segments

import (
	"errors"
	"sync"

	"github.com/quire-log/quire/internal/vfs"
)

// ErrGone is what a File says that was retired since the list of segments was read: read the list again.
var ErrGone = errors.New("the segment is gone")

// An Opener opens a segment's file, under whatever name it has now.
type Opener interface {
	OpenFile() (vfs.File, error)
}

// A File is the descriptor of a segment's file: open while somebody holds it, and a while longer (see idleFilesMax). The
// zero File is not open.
type File struct {
	// mu guards the fields below. idle.mu may be taken under it.
	mu   sync.Mutex
	file vfs.File // nil: not open
	refs int32    // holders of file
	gone bool     // retired: file is not opened again, and closed by its last holder
	idle idleNode
}

// Acquire opens the file by o if need be, and keeps it open until Release.
func (f *File) Acquire(o Opener) (vfs.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		if f.gone {
			return nil, ErrGone
		}
		file, err := o.OpenFile()
		if err != nil {
			return nil, err
		}
		f.file = file
	}
	if f.refs == 0 {
		idle.remove(f)
	}
	f.refs++
	return f.file, nil
}

// Adopt is Acquire for a file that the caller has just created.
func (f *File) Adopt(file vfs.File) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.file, f.refs = file, 1
}

// Release gives back what Acquire gave.
func (f *File) Release() {
	f.mu.Lock()
	var evicted *File
	if f.refs--; f.refs == 0 {
		if f.gone {
			_ = f.file.Close()
			f.file = nil
		} else {
			evicted = idle.add(f)
		}
	}
	f.mu.Unlock()
	if evicted != nil {
		evicted.closeIdle()
	}
}

// Retire makes the last holder close the file, now or later.
func (f *File) Retire() {
	f.mu.Lock()
	f.gone = true
	f.mu.Unlock()
	f.closeIdle()
}

// Held is the file that the caller holds.
func (f *File) Held() vfs.File {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.file
}

// Gone tells whether Retire was called.
func (f *File) Gone() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gone
}

func (f *File) closeIdle() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refs == 0 && f.file != nil {
		idle.remove(f)
		_ = f.file.Close()
		f.file = nil
	}
}

// idleFilesMax bounds the descriptors that are kept open, in the whole process, for segments that nobody reads now.
const idleFilesMax = 512

// idle lists the files that are open and held by nobody, the longest idle first. Descriptors are the process's, so there is
// one list for all logs.
var idle = idleList{max: idleFilesMax}

type idleNode struct {
	prev, next *File
	listed     bool
}

type idleList struct {
	max int

	// mu guards the fields below and every File's idle node. It is a leaf.
	mu          sync.Mutex
	first, last *File
	n           int
}

// add puts f at the end, and returns the file to close when there are too many.
func (l *idleList) add(f *File) (evicted *File) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.idle = idleNode{prev: l.last, listed: true}
	if l.last != nil {
		l.last.idle.next = f
	} else {
		l.first = f
	}
	l.last = f
	if l.n++; l.n <= l.max {
		return nil
	}
	evicted = l.first
	l.unlink(evicted)
	return evicted
}

// takeFirst takes from the list the longest idle of those that nobody has his hands on, and returns it with its mu held; nil: there is
// none. It only tries the locks, so that whoever holds one of them may call it.
func (l *idleList) takeFirst() *File {
	l.mu.Lock()
	defer l.mu.Unlock()
	for f := l.first; f != nil; f = f.idle.next {
		if f.mu.TryLock() {
			l.unlink(f)
			return f
		}
	}
	return nil
}

func (l *idleList) remove(f *File) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unlink(f)
}

func (l *idleList) unlink(f *File) {
	if !f.idle.listed {
		return
	}
	if f.idle.prev != nil {
		f.idle.prev.idle.next = f.idle.next
	} else {
		l.first = f.idle.next
	}
	if f.idle.next != nil {
		f.idle.next.idle.prev = f.idle.prev
	} else {
		l.last = f.idle.prev
	}
	f.idle = idleNode{}
	l.n--
}
