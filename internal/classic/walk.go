package classic

import (
	"hash/crc32"
	"io"
	"sync"
)

// walkBufferSize is what a walk reads at once.
const walkBufferSize = 64 << 10

var walkBuffers = sync.Pool{New: func() any { return new([walkBufferSize]byte) }}

// A walker goes from entry to entry through a file, in a buffer of fixed size however large the entries say they are. What is
// wrong with the bytes is a fault, what the disk says is an error.
type walker struct {
	f    io.ReaderAt
	pos  int64 // of the entry that next looks at
	size int64 // bytes of the file that count
	// until is where the walk is to end, if anyone knows: what lies behind it is read for headers only.
	until int64
	buf   *[walkBufferSize]byte
	at    int64 // what of the file buf holds
	n     int
}

func newWalker(f io.ReaderAt, pos, size int64) *walker {
	return &walker{f: f, pos: pos, size: size, until: size, buf: walkBuffers.Get().(*[walkBufferSize]byte)}
}

func (w *walker) close() { walkBuffers.Put(w.buf) }

// done tells that no byte is left.
func (w *walker) done() bool { return w.pos >= w.size }

// header reads the header of the entry at pos, and stays there.
func (w *walker) header() (h header, fault, err error) {
	b, err := w.peek(w.pos, headerMax)
	if err != nil {
		return h, nil, err
	}
	h, fault = parseHeader(b, w.size-w.pos)
	return h, fault, nil
}

// crc computes the CRC of the payload of the entry at pos, whose header is h.
func (w *walker) crc(h header) (crc uint32, err error) {
	for pos, end := w.pos+h.bytes, w.pos+h.size; pos < end; {
		b, err := w.peek(pos, 1)
		if err != nil {
			return 0, err
		}
		b = b[:min(int64(len(b)), end-pos)]
		crc = crc32.Update(crc, crc32.IEEETable, b)
		pos += int64(len(b))
	}
	return crc, nil
}

// check is header and crc: a fault, too, when the two do not fit.
func (w *walker) check() (h header, fault, err error) {
	h, fault, err = w.header()
	if fault != nil || err != nil {
		return h, fault, err
	}
	crc, err := w.crc(h)
	if err == nil && crc != h.crc {
		fault = &CRCError{h.crc, crc}
	}
	return h, fault, err
}

// peek returns what the buffer has from pos on: at least n bytes, unless the file has fewer.
func (w *walker) peek(pos int64, n int) ([]byte, error) {
	n = int(min(int64(n), w.size-pos))
	if pos < w.at || pos+int64(n) > w.at+int64(w.n) {
		want := min(w.size-pos, max(w.until-pos, int64(n)), walkBufferSize)
		got, err := w.f.ReadAt(w.buf[:want], pos)
		if int64(got) < want {
			w.n = 0
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		w.at, w.n = pos, got
	}
	return w.buf[pos-w.at : w.n], nil
}

// readFull fills b from pos on.
func readFull(f io.ReaderAt, b []byte, pos int64) error {
	n, err := f.ReadAt(b, pos)
	switch {
	case n == len(b):
		return nil
	case err == io.EOF:
		return io.ErrUnexpectedEOF
	}
	return err
}
