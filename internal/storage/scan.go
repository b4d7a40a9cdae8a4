package storage

import (
	"io"

	"github.com/quire-log/quire/internal/record"
)

// A headerScan walks the entries of a .log file by their headers alone.
//
//	for s.advance() { use(s.batch, s.header) }
//	if s.err != nil { the disk failed }
//
// It ends at the end of the file, or before the first entry that is not whole or makes no sense: then fault says why.
type headerScan struct {
	f   io.ReaderAt
	at  int64 // where the next entry begins
	end int64 // bytes of the file to look at

	found
	header record.Entry // the first HeaderSize bytes of the entry, or fewer; valid until the next one
	fault  error
	err    error

	buf   *[]byte
	from  int64 // where buf's content begins in the file
	n     int   // bytes of content
	chunk int   // bytes to read at once
}

const (
	// locateChunk is read to find a batch from an index entry: about what lies between two entries.
	locateChunk = 8 << 10
)

func scanHeaders(f io.ReaderAt, from, end int64, chunk int) headerScan {
	return headerScan{f: f, at: from, end: end, chunk: chunk, buf: getBuffer(chunk)}
}

// close gives the buffer back.
func (s *headerScan) close() {
	if s.buf != nil {
		putBuffer(s.buf)
		s.buf = nil
	}
}

func (s *headerScan) advance() bool {
	if s.err != nil || s.fault != nil {
		return false
	}
	left := s.end - s.at
	if left <= 0 {
		return false
	}
	if left < record.MinEntry {
		s.fault = io.ErrUnexpectedEOF
		return false
	}
	need := min(left, record.HeaderSize)
	if s.at < s.from || s.at+need > s.from+int64(s.n) {
		s.from, s.n = s.at, int(min(left, int64(s.chunk)))
		if err := readFull(s.f, (*s.buf)[:s.n], s.from); err != nil {
			s.n, s.err = 0, err
			return false
		}
	}
	in := s.at - s.from
	h, size, err := entryHeader((*s.buf)[in:in+need], left)
	if err != nil {
		s.fault = err
		return false
	}
	s.header = h
	s.found = found{pos: s.at, size: size, first: h.BaseOffset(), last: h.LastOffset()}
	s.at += size
	return true
}

// entryHeader looks at the first bytes of an entry, of which the file has left; the result answers for offsets and times.
// io.ErrUnexpectedEOF: the entry is longer than the file.
func entryHeader(b []byte, left int64) (record.Entry, int64, error) {
	size, err := record.EntrySize(b)
	if err != nil {
		return nil, 0, err
	}
	if len(b) < record.MinEntry || size > left {
		return nil, 0, io.ErrUnexpectedEOF
	}
	h := record.Entry(b)
	least := int64(record.HeaderSize)
	switch h.Magic() {
	case 0, 1:
		least = legacyHeaderSize
	case 2:
	default:
		return nil, 0, &record.FormatError{Reason: "unknown magic"}
	}
	if size < least || int64(len(b)) < least {
		return nil, 0, &record.FormatError{Reason: "an entry shorter than its header"}
	}
	if h.LastOffset() < h.BaseOffset() || h.BaseOffset() < 0 {
		return nil, 0, &record.FormatError{Reason: "offsets that fall or are negative"}
	}
	return h, size, nil
}

// legacyHeaderSize is the least size of an entry of magic 0, and reaches past the timestamp of magic 1.
const legacyHeaderSize = record.LogOverhead + 14

// readEntry reads a whole entry into a pooled buffer, which the caller gives back.
func readEntry(f io.ReaderAt, b found) (record.Entry, *[]byte, error) {
	buf := getBuffer(int(b.size))
	e := (*buf)[:b.size]
	if err := readFull(f, e, b.pos); err != nil {
		putBuffer(buf)
		return nil, nil, err
	}
	return record.Entry(e), buf, nil
}
