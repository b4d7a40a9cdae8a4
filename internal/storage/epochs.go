package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"sort"
	"sync/atomic"
	"syscall"

	"github.com/quire-log/quire/internal/vfs"
)

// An epochCache knows the reigns of a log. One goroutine at a time changes it (the log's mu), any number reads.
type epochCache struct {
	at      *place
	entries atomic.Pointer[[]epochEntry] // immutable
	unsaved bool                         // the file says something else: a full disk did not take it
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
		return err
	}
	for i, e := range l {
		if e.Epoch < 0 || e.StartOffset < 0 || i > 0 && (e.Epoch <= l[i-1].Epoch || e.StartOffset <= l[i-1].StartOffset) {
			return &CheckpointError{File: name, Line: i + 3, Err: fmt.Errorf("epoch %d at %d does not rise", e.Epoch, e.StartOffset)}
		}
	}
	c.entries.Store(&l)
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

// assign begins a reign, durably: the file is written before the cache says so.
func (c *epochCache) assign(e Epoch, start Offset) error {
	l, changed := assigned(c.list(), e, start)
	if !changed && !c.unsaved {
		return nil
	}
	if err := c.write(l); err != nil {
		return err
	}
	c.entries.Store(&l)
	return nil
}

// remember is assign while recovering: saved later, all at once.
func (c *epochCache) remember(e Epoch, start Offset) {
	if l, changed := assigned(c.list(), e, start); changed {
		c.entries.Store(&l)
		c.unsaved = true
	}
}

// cutEnd forgets the reigns that begin at or beyond end.
func (c *epochCache) cutEnd(end Offset) error {
	l := c.list()
	n := len(l)
	for n > 0 && l[n-1].StartOffset >= end {
		n--
	}
	return c.replace(l[:n:n], n != len(l))
}

// cutStart makes the log begin at start: the reign that covers it begins there, those before are gone.
func (c *epochCache) cutStart(start Offset) error {
	l := c.list()
	n := sort.Search(len(l), func(i int) bool { return l[i].StartOffset > start })
	if n == 0 || n == 1 && l[0].StartOffset == start {
		return nil
	}
	kept := append([]epochEntry{{l[n-1].Epoch, start}}, l[n:]...)
	return c.replace(kept, true)
}

// clear forgets all.
func (c *epochCache) clear() error { return c.replace([]epochEntry{}, len(c.list()) > 0) }

// replace is for cuts, which Open would make again from the log itself: a full disk doesn't keep them from happening.
func (c *epochCache) replace(l []epochEntry, changed bool) error {
	if !changed {
		return nil
	}
	c.entries.Store(&l)
	c.unsaved = true
	return c.save()
}

// save writes the file if it says something else. A full disk is no error: the next change or flush tries again.
func (c *epochCache) save() error {
	if !c.unsaved {
		return nil
	}
	if err := c.write(c.list()); err != nil && !isDiskFull(err) {
		return err
	}
	return nil
}

func (c *epochCache) write(l []epochEntry) error {
	if err := writeEpochCheckpoint(c.at.fs, c.at.path(epochFileName), l); err != nil {
		return err
	}
	c.unsaved = false
	return nil
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

// isDiskFull tells whether there was no room for bytes, or no permission for more of them: waiting may help.
func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
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
