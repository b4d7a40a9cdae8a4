package storage

import (
	"errors"
	"fmt"
	"os"
	"sort"
	"sync"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

// A cleanSpool keeps batches that were made anew in the first pass of a cleaning for the second, which then does not inflate theirs
// again. What is in it is a hint: a batch that is missing, or that is not what is expected, is made when its turn comes.
//
// Its file has no name: it is unlinked as soon as it is made, so that nothing is left of it however the process ends. Should the process
// end between the two, whoever opens the log removes it by its suffix, .deleted, as Kafka does. It is never fsynced.
//
// It is a heap of blocks, each the batches of one backUnit one after another, ascending. It takes at most spoolBytesMax, and no more
// than 1/spoolShare of the room that the volume has; a write that fails for want of room ends the writing.
type cleanSpool struct {
	f      vfs.File
	most   int64
	blocks []spoolBlock // ascending; set by whoever has the unit of that number, read in the second pass

	// mu guards the fields below. It is a leaf.
	mu   sync.Mutex
	size int64
	full bool
}

// A spoolBlock is where the batches of a unit are; size 0: nowhere.
type spoolBlock struct {
	first     Offset // of the unit's batches, spooled or not, the base offset of the first
	pos, size uint32
}

const (
	spoolSuffix   = ".spool"
	spoolBytesMax = 1 << 30 // below what a uint32 holds
	spoolShare    = 16
)

// newCleanSpool makes an empty spool for so many units of the log at a place. most, unless 0, bounds it further.
func newCleanSpool(at *place, base Offset, units int, most int64) (*cleanSpool, error) {
	usage, err := at.fs.Usage(*at.dir.Load())
	if err != nil {
		return nil, err
	}
	name := at.path(fileName(base, spoolSuffix) + deletedSuffix)
	f, err := at.fs.OpenFile(name, createFlags|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := at.fs.Remove(name); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if most == 0 {
		most = spoolBytesMax
	}
	return &cleanSpool{f: f, most: min(most, usage.Usable/spoolShare), blocks: make([]spoolBlock, units)}, nil
}

// close gives the spool's room back. nil is a spool, too, without anything in it.
func (s *cleanSpool) close() {
	if s != nil {
		_ = s.f.Close() // nothing in it is wanted
	}
}

// put writes the batches of unit n. Without room for them it forgets them, and all that follow.
func (s *cleanSpool) put(n int, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	s.mu.Lock()
	pos := s.size
	if s.full = s.full || pos+int64(len(b)) > s.most; !s.full {
		s.size += int64(len(b))
	}
	full := s.full
	s.mu.Unlock()
	if full {
		return nil
	}
	if _, err := s.f.WriteAt(b, pos); err != nil {
		if isDiskFull(err) {
			s.mu.Lock()
			s.full = true
			s.mu.Unlock()
			return nil
		}
		return fmt.Errorf("spooling of a cleaning: %w", err)
	}
	s.blocks[n].pos, s.blocks[n].size = uint32(pos), uint32(len(b))
	return nil
}

// A spoolReader reads a spool's batches, in ascending order without much ado.
type spoolReader struct {
	of    *cleanSpool // what rest is of
	n     int         // which block
	asked Offset      // for what it was asked last
	buf   []byte
	rest  []byte // of the block, what lies beyond that
}

// find returns what was made of the batch at base in s, with so many records; nil if that is not there. A view until the next call.
func (r *spoolReader) find(s *cleanSpool, base Offset, records int) record.Batch {
	if s == nil {
		return nil
	}
	n := sort.Search(len(s.blocks), func(i int) bool { return s.blocks[i].first > base }) - 1
	if n < 0 || s.blocks[n].size == 0 {
		return nil
	}
	if r.of != s || r.n != n || base <= r.asked {
		if !r.load(s, n) {
			return nil
		}
	}
	r.asked = base
	for len(r.rest) > 0 {
		e, err := record.FirstEntry(r.rest)
		if err != nil {
			r.rest = nil
			return nil
		}
		if e.BaseOffset() > base {
			return nil
		}
		r.rest = r.rest[len(e):]
		if e.BaseOffset() == base {
			if e.Check() != nil || e.Magic() != 2 || int(e.Batch().Count()) != records {
				return nil
			}
			return e.Batch()
		}
	}
	return nil
}

// load reads block n.
func (r *spoolReader) load(s *cleanSpool, n int) bool {
	r.of = nil
	block := &s.blocks[n]
	if cap(r.buf) < int(block.size) {
		r.buf = make([]byte, block.size)
	}
	r.rest = r.buf[:block.size]
	if readFull(s.f, r.rest, int64(block.pos)) != nil || len(r.rest) < record.MinEntry {
		r.rest = nil
		return false
	}
	r.of, r.n = s, n
	return true
}

// forget gives up what is of a spool that is closed, and a large buffer.
func (r *spoolReader) forget() {
	if r.of, r.rest = nil, nil; cap(r.buf) > cleanKeepMax {
		r.buf = nil
	}
}
