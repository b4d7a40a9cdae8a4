package classic

import (
	"encoding/binary"
	"os"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/quire-log/quire/internal/segments"
	"github.com/quire-log/quire/internal/vfs"
)

// A segment is a file of a log.
type segment struct {
	fs   vfs.FS
	dir  string
	name string
	base Offset
	size atomic.Int64 // bytes that reads may see
	desc segments.File
	at   starts
}

func (s *segment) path() string { return s.dir + "/" + s.name }

func (s *segment) end() Offset { return s.base + Offset(s.size.Load()) }

// OpenFile is segments.Opener.
func (s *segment) OpenFile() (vfs.File, error) { return s.fs.OpenFile(s.path(), os.O_RDWR, 0) }

func (s *segment) acquire() (vfs.File, error) { return s.desc.Acquire(s) }

func (s *segment) release() { s.desc.Release() }

// find returns the segment that offset lies in, or the one after the hole that it lies in: len(segs) when all are before it.
// The newest is taken for the log's end, too.
func find(segs []*segment, offset Offset) int {
	i := sort.Search(len(segs), func(i int) bool { return segs[i].base > offset }) - 1
	switch {
	case i < 0:
		return 0
	case i < len(segs)-1 && offset >= segs[i].end():
		return i + 1
	}
	return i
}

// startEvery is how far apart, in bytes, the known beginnings of entries are: half a MiB of memory for each GiB that was walked.
const startEvery = 16 << 10

// starts knows where in a segment entries begin. An offset from outside is only good if one does, and nothing in the bytes
// themselves tells an entry from a payload that looks like one. Appends and recovery note what they see; of a file that an
// earlier run left, the part that is read is walked once, from header to header.
type starts struct {
	// mu guards the fields below. It is a leaf.
	mu     sync.Mutex
	at     []int64 // ascending, at least startEvery apart
	walked int64   // an entry begins here, or the segment ends; below, at knows
}

// note adds that entries begin at pos, where the last one noted ended, and at next.
func (s *starts) note(pos, next int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pos == s.walked {
		s.add(next)
	}
}

// noteRun is note for a run of entries that was written at pos.
func (s *starts) noteRun(pos int64, run []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pos != s.walked {
		return
	}
	for at := 0; at < len(run); {
		at += lengthSize + int(binary.BigEndian.Uint32(run[at:]))
		s.add(pos + int64(at))
	}
}

// add is note with mu held.
func (s *starts) add(next int64) {
	last := int64(0)
	if n := len(s.at); n > 0 {
		last = s.at[n-1]
	}
	if next-last >= startEvery {
		s.at = append(s.at, next)
	}
	s.walked = next
}

// before returns the last known beginning at or before pos. beyond: pos is beyond all that was walked.
func (s *starts) before(pos int64) (at int64, beyond bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pos >= s.walked {
		return s.walked, true
	}
	i := sort.Search(len(s.at), func(i int) bool { return s.at[i] > pos })
	if i == 0 {
		return 0, false
	}
	return s.at[i-1], false
}

// begins tells whether an entry begins at pos, of a file of size bytes that f is open on.
func (s *segment) begins(f vfs.File, pos, size int64) (bool, error) {
	from, beyond := s.at.before(pos)
	if from == pos {
		return true, nil
	}
	w := newWalker(f, from, size)
	defer w.close()
	w.until = pos
	for w.pos < pos {
		h, fault, err := w.header()
		if err != nil {
			return false, err
		}
		if fault != nil {
			// Nothing leads over damage. What lies behind it is found by its CRC.
			w.pos, w.until = pos, size
			_, fault, err = w.check()
			return fault == nil, err
		}
		if beyond {
			s.at.note(w.pos, w.pos+h.size)
		}
		w.pos += h.size
	}
	return w.pos == pos, nil
}
