package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sort"
	"sync/atomic"
	"syscall"

	"github.com/quire-log/quire/internal/vfs"
)

// An epochCache knows the reigns of a log. One goroutine at a time changes it (the log's mu), any number reads.
//
// It is written behind: a line need not be durable before the recovery point passes its offset (I8). Until then the batches
// at and after that offset tell the same, each by its own epoch, and a recovery reads them; if there are none, the reign left
// nothing that anybody could ask for, and Open drops its line anyhow. So to begin a reign costs no fsync, and a log that
// nobody writes to none at all, however often its leader changes. See docs/decisions/0002.
type epochCache struct {
	at      *place
	entries atomic.Pointer[[]epochEntry] // immutable
	file    []epochEntry                 // what the file says, durably
	unknown bool                         // what the file says is not known, or makes no sense
}

func newEpochCache(at *place) *epochCache {
	c := &epochCache{at: at}
	c.entries.Store(&[]epochEntry{})
	return c
}

// load reads the file. Errors are as readEpochCheckpoint's; entries that do not rise are an error, too.
func (c *epochCache) load() error {
	name := c.at.path(epochFileName)
	l, err := readEpochCheckpoint(c.at.fs, name)
	if err != nil {
		c.unknown = true
		return err
	}
	for i, e := range l {
		if e.Epoch < 0 || e.StartOffset < 0 || i > 0 && (e.Epoch <= l[i-1].Epoch || e.StartOffset <= l[i-1].StartOffset) {
			c.unknown = true
			return &CheckpointError{File: name, Line: i + 3, Err: fmt.Errorf("epoch %d at %d does not rise", e.Epoch, e.StartOffset)}
		}
	}
	c.entries.Store(&l)
	c.file = l
	return nil
}

func (c *epochCache) list() []epochEntry { return *c.entries.Load() }

func (c *epochCache) latest() Epoch {
	if l := c.list(); len(l) > 0 {
		return l[len(l)-1].Epoch
	}
	return -1
}

// assigned returns what the list is once e begins at start, and whether that differs from what it was: entries of later
// epochs or offsets are contradicted, and go.
func assigned(l []epochEntry, e Epoch, start Offset) ([]epochEntry, bool) {
	if n := len(l); n > 0 && l[n-1].Epoch == e && start >= l[n-1].StartOffset {
		return l, false
	}
	n := len(l)
	for n > 0 && (l[n-1].Epoch >= e || l[n-1].StartOffset >= start) {
		n--
	}
	return append(l[:n:n], epochEntry{e, start}), true
}

// assign begins a reign at start, or finds out while recovering that it began there.
func (c *epochCache) assign(e Epoch, start Offset) {
	if l, changed := assigned(c.list(), e, start); changed {
		c.entries.Store(&l)
	}
}

// below returns the lines of l that begin before offset.
func below(l []epochEntry, offset Offset) []epochEntry {
	n := len(l)
	for n > 0 && l[n-1].StartOffset >= offset {
		n--
	}
	return l[:n:n]
}

// cutEnd forgets the reigns that begin at or beyond end.
func (c *epochCache) cutEnd(end Offset) {
	l := below(c.list(), end)
	c.entries.Store(&l)
}

// cutStart makes the log begin at start: the reign that covers it begins there, those before are gone.
func (c *epochCache) cutStart(start Offset) {
	l := c.list()
	n := sort.Search(len(l), func(i int) bool { return l[i].StartOffset > start })
	if n == 0 || n == 1 && l[0].StartOffset == start {
		return
	}
	kept := append([]epochEntry{{l[n-1].Epoch, start}}, l[n:]...)
	c.entries.Store(&kept)
}

// clear forgets all.
func (c *epochCache) clear() { c.entries.Store(&[]epochEntry{}) }

// save makes the file right, and durable, as far as lines that begin below offset are concerned: nothing is written if it is.
// After an error, of a full disk above all, the next save tries again.
func (c *epochCache) save(offset Offset) error {
	l := c.list()
	if !c.unknown && slices.Equal(below(l, offset), below(c.file, offset)) {
		return nil
	}
	if err := writeEpochCheckpoint(c.at.fs, c.at.path(epochFileName), l); err != nil {
		c.unknown = true
		return err
	}
	c.file, c.unknown = l, false
	return nil
}

// saveIfRoom is save for cuts, which Open would make again from the log itself: a full disk doesn't keep them from happening.
func (c *epochCache) saveIfRoom(offset Offset) error {
	if err := c.save(offset); err != nil && !isDiskFull(err) {
		return err
	}
	return nil
}

// unsavedFrom is where the first line begins that the file may lack, at most offset.
func (c *epochCache) unsavedFrom(offset Offset) Offset {
	for i, e := range c.list() {
		if c.unknown || i >= len(c.file) || c.file[i] != e {
			return min(e.StartOffset, offset)
		}
	}
	return offset
}

// epochAt is the epoch that offset was written in, -1 if not known.
func (c *epochCache) epochAt(offset Offset) Epoch {
	l := c.list()
	n := sort.Search(len(l), func(i int) bool { return l[i].StartOffset > offset })
	if n == 0 {
		return -1
	}
	return l[n-1].Epoch
}

// endOf answers OffsetForLeaderEpoch; logEnd is where the latest reign ends for now.
func (c *epochCache) endOf(e Epoch, logEnd Offset) (Epoch, Offset) {
	l := c.list()
	if e < 0 || len(l) == 0 {
		return -1, -1
	}
	n := sort.Search(len(l), func(i int) bool { return l[i].Epoch > e }) // the first later reign
	switch {
	case n == len(l) && l[n-1].Epoch == e:
		return e, logEnd
	case n == len(l):
		return -1, -1
	case n == 0:
		return e, l[0].StartOffset
	}
	return l[n-1].Epoch, l[n].StartOffset
}

// isDiskFull tells whether there was no room for bytes, or no permission for more of them, or no descriptor: waiting may help.
func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) || noDescriptor(err)
}

// noDescriptor tells whether the process or the system had no file descriptor left. Only opening a file says so, and nothing
// has happened to the file then: not even an fsync, which after any other failure must not be tried again.
func noDescriptor(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// ensureFile creates an empty file if name is missing, and tells whether it did.
func ensureFile(fsys vfs.FS, name string) (bool, error) {
	if _, err := fsys.Stat(name); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	f, err := fsys.OpenFile(name, createFlags, 0o644)
	if err != nil {
		return false, err
	}
	return true, f.Close()
}
