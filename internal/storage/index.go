package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sort"
	"sync"

	"github.com/quire-log/quire/internal/vfs"
)

// An offset index entry is 8 bytes, big-endian; a time index entry 12:
//
//	0         4         8
//	+---------+---------+             delta  the last offset of a batch, less the segment's base offset
//	|  delta  |   pos   |             pos    where that batch begins in the .log file
//	+---------+---------+
//
//	0                   8        12
//	+-------------------+---------+   time   no record up to delta has a greater one (ms)
//	|       time        |  delta  |   delta  the last offset of the batch that has it, less the segment's base offset
//	+-------------------+---------+
//
// Both fields of both rise strictly from entry to entry. The file of an active segment is as long as segment.index.bytes
// allows, the rest being zeros (holes); that of a closed one ends with its last entry.
const (
	offsetEntrySize = 8
	timeEntrySize   = 12
	entrySizeMax    = timeEntrySize

	// indexPageSize is read for a lookup: of each page, only the first entry stays in memory.
	indexPageSize = 4096
)

func appendOffsetEntry(dst []byte, delta, pos int32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(dst, uint32(delta)), uint32(pos))
}

func appendTimeEntry(dst []byte, ms int64, delta int32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(dst, uint64(ms)), uint32(delta))
}

// An entry is one of either index; a is its first field, b its second.
type entry struct{ a, b int64 }

// A field of an entry to search by.
type field int

const (
	byA field = iota
	byB
)

// An indexFile keeps the entries of one .index or .timeindex file: the first of each page, and those at the end that no page
// on disk holds yet. A closed segment's is read once, when it is first wanted, and opened again for each lookup.
//
//	firsts  |p0|p1|p2|      one entry of each page of the first `paged` entries, whose pages are on disk
//	tail             |....| entries after these; `written` of all are on disk
type indexFile struct {
	at        *place
	name      string
	entrySize int
	max       int // entries that fit segment.index.bytes

	// mu guards the fields below, and is held over reads and writes of the file. Nothing is locked under it.
	mu      sync.Mutex
	file    vfs.File // open while the segment is active and entries were written
	touched bool     // the file on disk may be longer than its entries, or not synced
	firsts  []byte
	paged   int
	tail    []byte
	written int
	last    entry // the last entry; only when count() > 0
}

func newIndexFile(at *place, name string, entrySize int, bytesMax int32) *indexFile {
	return &indexFile{at: at, name: name, entrySize: entrySize, max: int(bytesMax) / entrySize}
}

func (x *indexFile) perPage() int { return indexPageSize / x.entrySize }
func (x *indexFile) count() int   { return x.paged + len(x.tail)/x.entrySize }

func (x *indexFile) decode(e []byte) entry {
	if x.entrySize == timeEntrySize {
		return entry{int64(binary.BigEndian.Uint64(e)), int64(int32(binary.BigEndian.Uint32(e[8:])))}
	}
	return entry{int64(int32(binary.BigEndian.Uint32(e))), int64(int32(binary.BigEndian.Uint32(e[4:])))}
}

// full tells whether only `reserve` more entries fit.
func (x *indexFile) full(reserve int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.count() >= x.max-reserve
}

// lastEntry returns the last entry, if there is one.
func (x *indexFile) lastEntry() (entry, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.last, x.count() > 0
}

// create makes the file of a new active segment, of its full length, or cuts one that is there to nothing and lengthens it.
func (x *indexFile) create() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	f, err := x.at.fs.OpenFile(x.at.path(x.name), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	x.touched = true
	return errors.Join(f.Truncate(int64(x.max*x.entrySize)), f.Close())
}

// add appends an entry to memory, and a page to the file when one is full. A page that cannot be written stays in memory
// and is tried again with the next: an index is a hint (I4), and no append fails for it.
func (x *indexFile) add(e []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.tail = append(x.tail, e...)
	x.last = x.decode(e)
	if len(x.tail) >= x.perPage()*x.entrySize {
		_ = x.write()
	}
}

// write brings all entries to the file, and gives whole pages out of memory. mu is held.
func (x *indexFile) write() error {
	total := x.count()
	if x.written < total {
		if x.file == nil {
			f, err := x.at.fs.OpenFile(x.at.path(x.name), os.O_RDWR|os.O_CREATE, 0o644)
			if err != nil {
				return err
			}
			x.file = f
		}
		x.touched = true
		if _, err := x.file.WriteAt(x.tail[(x.written-x.paged)*x.entrySize:], int64(x.written*x.entrySize)); err != nil {
			return err
		}
		x.written = total
	}
	page := x.perPage() * x.entrySize
	for len(x.tail) >= page {
		x.firsts = append(x.firsts, x.tail[:x.entrySize]...)
		x.paged += x.perPage()
		x.tail = append(x.tail[:0], x.tail[page:]...)
	}
	return nil
}

// finish brings every entry to the file, cuts the file after the last, and closes it; with sync, durably. Lookups go on.
// An empty file is not worth an fsync: should its cut be lost, the zeros are noticed as damage.
func (x *indexFile) finish(sync bool) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.touched {
		return nil
	}
	if err := x.write(); err != nil {
		return err
	}
	if x.file == nil {
		f, err := x.at.fs.OpenFile(x.at.path(x.name), os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		x.file = f
	}
	err := x.file.Truncate(int64(x.count() * x.entrySize))
	if sync && err == nil && x.count() > 0 {
		if err = x.file.Sync(); err == nil {
			x.touched = false
		}
	}
	err = errors.Join(err, x.file.Close())
	x.file = nil
	return err
}

// sync makes the finished file durable.
func (x *indexFile) sync() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.touched || x.count() == 0 {
		return nil
	}
	f, err := x.at.fs.OpenFile(x.at.path(x.name), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = errors.Join(f.Sync(), f.Close())
	if err == nil {
		x.touched = false
	}
	return err
}

// reset forgets every entry and gives the file its full length.
func (x *indexFile) reset(bytesMax int32) error {
	x.mu.Lock()
	if x.file != nil {
		_ = x.file.Close()
		x.file = nil
	}
	x.firsts, x.paged, x.tail, x.written, x.last = nil, 0, nil, 0, entry{}
	x.max = int(bytesMax) / x.entrySize
	x.mu.Unlock()
	return x.create()
}

// drop closes the file and forgets all, as for a failed or deleted log.
func (x *indexFile) drop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.file != nil {
		_ = x.file.Close()
		x.file = nil
	}
}

// An indexDamage says why an index's file is not to be believed.
type indexDamage struct {
	reason string
	// emptyFile is set where the only suspicion is that the index of that name has no entries. It may have none rightly.
	emptyFile string
}

func (e *indexDamage) Error() string { return e.reason }

func damagef(format string, args ...any) error {
	return &indexDamage{reason: fmt.Sprintf(format, args...)}
}

// load reads the file and checks every entry: both fields rise, none is negative, and a and b stay below their limits.
// The zeros of a file that was never cut are damage, too. Damage is what isDamage says; other errors are the disk's.
func (x *indexFile) load(limitA, limitB int64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	f, err := x.at.fs.OpenFile(x.at.path(x.name), os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	if size%int64(x.entrySize) != 0 {
		return damagef("%d bytes are no whole number of entries", size)
	}
	x.firsts, x.paged, x.tail, x.written = nil, 0, nil, 0
	buf := getBuffer(scanChunk)
	defer putBuffer(buf)
	chunk := (*buf)[:len(*buf)/(x.perPage()*x.entrySize)*(x.perPage()*x.entrySize)] // whole pages
	prev := entry{-1, -1}
	n := 0
	for pos := int64(0); pos < size; {
		got := chunk[:min(int64(len(chunk)), size-pos)]
		if err := readFull(f, got, pos); err != nil {
			return err
		}
		for at := 0; at < len(got); at += x.entrySize {
			e := x.decode(got[at:])
			if e.a <= prev.a || e.b <= prev.b || e.a >= limitA || e.b >= limitB {
				return damagef("entry %d is (%d, %d) after (%d, %d)", n, e.a, e.b, prev.a, prev.b)
			}
			if n%x.perPage() == 0 {
				x.firsts = append(x.firsts, got[at:at+x.entrySize]...)
			}
			prev = e
			n++
		}
		pos += int64(len(got))
	}
	x.paged, x.written, x.last = n, n, prev
	return nil
}

// growable prepares a loaded index for more entries: its last page comes back to memory.
func (x *indexFile) growable() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.cut(x.count())
}

// cut keeps the first n entries. mu is held.
func (x *indexFile) cut(n int) error {
	pages := n / x.perPage()
	if from := pages * x.perPage(); from >= x.paged {
		x.tail = x.tail[:(n-x.paged)*x.entrySize]
	} else {
		tail := make([]byte, (n-from)*x.entrySize)
		if len(tail) > 0 {
			if err := x.readAt(tail, int64(from*x.entrySize)); err != nil {
				return err
			}
		}
		x.tail, x.paged, x.firsts = tail, from, x.firsts[:pages*x.entrySize]
	}
	if n < x.written {
		x.written, x.touched = n, true
	}
	switch {
	case len(x.tail) > 0:
		x.last = x.decode(x.tail[len(x.tail)-x.entrySize:])
	case n > 0:
		var e [entrySizeMax]byte
		if err := x.readAt(e[:x.entrySize], int64((n-1)*x.entrySize)); err != nil {
			return err
		}
		x.last = x.decode(e[:])
	default:
		x.last = entry{}
	}
	return nil
}

// cutFrom drops every entry whose field f is at or beyond v.
func (x *indexFile) cutFrom(f field, v int64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	n, _, _, err := x.split(f, v-1)
	if err != nil {
		return err
	}
	return x.cut(n)
}

// floor returns the last entry whose field f is not above v, and the one after it; n entries are not above v.
// The file is read for at most one page.
func (x *indexFile) floor(f field, v int64) (n int, last, next entry, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.split(f, v)
}

// split is floor with mu held.
func (x *indexFile) split(f field, v int64) (n int, last, next entry, err error) {
	above := func(b []byte, i int) bool {
		e := x.decode(b[i*x.entrySize:])
		if f == byA {
			return e.a > v
		}
		return e.b > v
	}
	pick := func(b []byte, i int) entry { return x.decode(b[i*x.entrySize:]) }
	inTail := len(x.tail) / x.entrySize
	if inTail > 0 && (x.paged == 0 || !above(x.tail, 0)) {
		i := sort.Search(inTail, func(i int) bool { return above(x.tail, i) })
		if i > 0 {
			last = pick(x.tail, i-1)
		}
		if i < inTail {
			next = pick(x.tail, i)
		}
		return x.paged + i, last, next, nil
	}
	pages := len(x.firsts) / x.entrySize
	p := sort.Search(pages, func(i int) bool { return above(x.firsts, i) })
	if p == 0 {
		if pages > 0 {
			next = pick(x.firsts, 0)
		}
		return 0, last, next, nil
	}
	p--
	from := p * x.perPage()
	inPage := min(x.perPage(), x.paged-from)
	buf := getBuffer(indexPageSize)
	defer putBuffer(buf)
	page := (*buf)[:inPage*x.entrySize]
	if err := x.readAt(page, int64(from*x.entrySize)); err != nil {
		return 0, last, next, err
	}
	i := sort.Search(inPage, func(i int) bool { return above(page, i) })
	if i == 0 { // the file has changed under us
		return 0, last, next, damagef("page %d no longer begins with the entry it began with", p)
	}
	last = pick(page, i-1)
	switch {
	case i < inPage:
		next = pick(page, i)
	case p+1 < pages:
		next = pick(x.firsts, p+1)
	case inTail > 0:
		next = pick(x.tail, 0)
	}
	return from + i, last, next, nil
}

// readAt reads from the file, opening it for the moment unless it is open. mu is held.
func (x *indexFile) readAt(b []byte, pos int64) error {
	if x.file != nil {
		return readFull(x.file, b, pos)
	}
	f, err := x.at.fs.OpenFile(x.at.path(x.name), os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return readFull(f, b, pos)
}

// readFull fills b from pos; io.ErrUnexpectedEOF when the file ends before that.
func readFull(f io.ReaderAt, b []byte, pos int64) error {
	n, err := f.ReadAt(b, pos)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// isDamage tells whether err means that an index must be built anew, rather than that the disk failed.
func isDamage(err error) bool {
	var d *indexDamage
	return errors.As(err, &d) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.ErrUnexpectedEOF)
}
