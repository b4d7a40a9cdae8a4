package classic

import (
	"errors"
	"fmt"
	"os"
	"path"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

// A GapError reports that a file does not begin where the one before it ends.
type GapError struct{ End, Next Offset }

func (e *GapError) Error() string {
	if e.Next < e.End {
		return fmt.Sprintf("the file begins at offset %d, within the one before it, which ends at %d", e.Next, e.End)
	}
	return fmt.Sprintf("offsets %d to %d are missing before this file", e.End, e.Next-1)
}

// An Item is an entry, or what is where one should be.
type Item struct {
	File   string // base name
	Pos    int64  // in File
	Offset Offset // in the log
	Size   int64  // of the entry; 0: nobody knows where it ends, and the file is not read on
	Magic  byte
	Attrs  byte
	CRC    uint32
	Err    error // why it is not valid; nil: it is
	Entry  Entry // the whole, until the next call of Next; nil: it is no entry, or larger than the Scanner's EntryMax
}

// Codec is how the payload is compressed.
func (i Item) Codec() (record.Codec, error) { return header{attrs: i.Attrs}.codec() }

// A Scanner walks the files of one partition from the first to the last, and changes nothing: it tells what is there, valid or
// not. An entry whose CRC is wrong is an Item, and the next follows it; where no length leads on, the next file does.
type Scanner struct {
	// EntryMax bounds the entries that Items hold whole.
	EntryMax int

	fs    vfs.FS
	dir   string
	files []fileInfo
	i     int // of the file that is read, in files
	file  vfs.File
	walk  *walker
	gap   bool // the gap before file i was told
	item  Item
	entry []byte
	read  int64 // bytes of the files before i
	err   error
}

// scanEntryMax is EntryMax unless the caller says otherwise.
const scanEntryMax = 256 << 20

// Scan begins with the files of a partition's directory, or a single file.
func Scan(fsys vfs.FS, name string) (*Scanner, error) {
	s := &Scanner{EntryMax: scanEntryMax, fs: fsys, dir: name}
	info, err := fsys.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		s.files, err = listFiles(fsys, name)
		return s, err
	}
	base, ok := parseFileName(path.Base(name))
	if !ok {
		return nil, &DirError{name, errors.New("a log's file is named for its first offset, such as " + fileName(0))}
	}
	s.dir, s.files = path.Dir(name), []fileInfo{{path.Base(name), base, info.Size()}}
	return s, nil
}

// Files is how many there are.
func (s *Scanner) Files() int { return len(s.files) }

// Bytes is the size of all files, and Done how much of that was walked.
func (s *Scanner) Bytes() (n int64) {
	for _, f := range s.files {
		n += f.size
	}
	return n
}

func (s *Scanner) Done() int64 {
	if s.walk == nil {
		return s.read
	}
	return s.read + s.walk.pos
}

// First is the offset of the first file, and End where the last ends.
func (s *Scanner) First() Offset {
	if len(s.files) == 0 {
		return 0
	}
	return s.files[0].base
}

func (s *Scanner) End() Offset {
	if len(s.files) == 0 {
		return 0
	}
	return s.files[len(s.files)-1].end()
}

// SkipTo leaves out the files that lie wholly before offset. It is called before the first Next.
func (s *Scanner) SkipTo(offset Offset) {
	for s.i < len(s.files)-1 && s.files[s.i+1].base <= offset {
		s.read += s.files[s.i].size
		s.i++
	}
	s.gap = true
}

// Next moves to the next Item. It is false at the end, and when the disk fails: see Err.
func (s *Scanner) Next() bool {
	for s.err == nil && s.i < len(s.files) {
		f := s.files[s.i]
		if !s.gap {
			s.gap = true
			if s.i > 0 && s.files[s.i-1].end() != f.base {
				s.item = Item{File: f.name, Offset: f.base, Err: &GapError{s.files[s.i-1].end(), f.base}}
				return true
			}
		}
		if s.walk == nil {
			file, err := s.fs.OpenFile(path.Join(s.dir, f.name), os.O_RDONLY, 0)
			if err != nil {
				return s.fail(err)
			}
			s.file, s.walk = file, newWalker(file, 0, f.size)
		}
		if s.walk.done() {
			if err := s.closeFile(); err != nil {
				return s.fail(err)
			}
			s.read += f.size
			s.i, s.gap = s.i+1, false
			continue
		}
		if err := s.look(f); err != nil {
			return s.fail(fmt.Errorf("%s: %w", f.name, err))
		}
		return true
	}
	return false
}

// look makes the item of what is at the walker's position, and moves on.
func (s *Scanner) look(f fileInfo) error {
	w := s.walk
	s.item = Item{File: f.name, Pos: w.pos, Offset: f.base + Offset(w.pos)}
	h, fault, err := w.header()
	if err != nil {
		return err
	}
	if fault != nil {
		s.item.Err = fault
		w.pos = w.size
		return nil
	}
	s.item.Size, s.item.Magic, s.item.Attrs, s.item.CRC = h.size, h.magic, h.attrs, h.crc
	if h.size > int64(s.EntryMax) {
		crc, err := w.crc(h)
		if err != nil {
			return err
		}
		if crc != h.crc {
			s.item.Err = &CRCError{h.crc, crc}
		}
	} else {
		if int64(cap(s.entry)) < h.size {
			s.entry = make([]byte, h.size)
		}
		b := s.entry[:h.size]
		if held, err := w.peek(w.pos, headerMin); err != nil {
			return err
		} else if n := copy(b, held); int64(n) < h.size {
			if err := readFull(w.f, b[n:], w.pos+int64(n)); err != nil {
				return err
			}
		}
		s.item.Entry = b
		s.item.Err = s.item.Entry.Check()
	}
	w.pos += h.size
	return nil
}

// Item is what Next moved to.
func (s *Scanner) Item() Item { return s.item }

// Err is why Next ended early; nil at the end of the last file.
func (s *Scanner) Err() error { return s.err }

func (s *Scanner) fail(err error) bool {
	s.err = err
	return false
}

func (s *Scanner) closeFile() error {
	if s.walk == nil {
		return nil
	}
	s.walk.close()
	err := s.file.Close()
	s.walk, s.file = nil, nil
	return err
}

// Close ends the walk.
func (s *Scanner) Close() error { return s.closeFile() }
