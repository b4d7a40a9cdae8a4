package record

import (
	"errors"
	"fmt"
	"io"
)

// windowBytes is how much of a compressed batch is looked at at a time while it is validated. Records that fit are read
// where they stand; those that do not are passed over piece by piece.
const windowBytes = 64 << 10

// A window moves over a batch's records as they are inflated. Of an uncompressed batch it is the whole at once, and so of one that its
// inflater has at once.
type window struct {
	in    inflater // nil: of an uncompressed batch
	all   bool     // everything is in view
	view  []byte   // what is in sight and not yet taken
	buf   []byte   // view lies in it unless all is in view
	total int      // bytes inflated so far
	limit int      // of total
	err   error    // why no more comes: io.EOF, *FormatError, *TooLargeError
}

// open begins on b's records.
func (w *window) open(b Batch, limit int) error {
	w.in, w.all, w.view, w.total, w.limit, w.err = nil, true, b.Payload(), 0, limit, io.EOF
	if b.Codec() == None {
		return nil
	}
	w.all, w.view, w.err = false, nil, nil
	if w.in, w.err = openInflater(b.Codec(), b.Payload()); w.err != nil {
		return w.err
	}
	if z, ok := w.in.(*zstdInflater); ok {
		if all, ok := z.whole(); ok {
			w.all, w.view, w.err = true, all, io.EOF
			if len(all) > limit {
				w.view, w.err = all[:limit], &TooLargeError{limit}
			}
			return nil
		}
	}
	if w.buf == nil {
		w.buf = make([]byte, windowBytes)
	}
	return nil
}

func (w *window) close() {
	if w.in != nil {
		w.in.close()
	}
	w.in, w.view, w.err = nil, nil, nil
}

// want brings at least n bytes into view, n being at most windowBytes; false when no more than fewer are left.
func (w *window) want(n int) bool {
	if len(w.view) >= n {
		return true
	}
	if w.err != nil {
		return false
	}
	w.view = w.buf[:copy(w.buf, w.view)]
	for len(w.view) < n && w.err == nil {
		room := w.buf[len(w.view):min(len(w.buf), len(w.view)+w.limit-w.total+1)]
		var got int
		got, w.err = w.in.Read(room)
		w.total += got
		w.view = w.buf[:len(w.view)+got]
		if w.total > w.limit {
			w.err = &TooLargeError{w.limit}
		}
	}
	return len(w.view) >= n
}

// failed is why fewer bytes came than were wanted, unless that was the end.
func (w *window) failed() error {
	if errors.Is(w.err, io.EOF) {
		return nil
	}
	return w.err
}

// atEnd is whether nothing is left.
func (w *window) atEnd() bool { return !w.want(1) && w.failed() == nil }

// skip passes over n bytes, handing them to tee if there is one; false when fewer are left.
func (w *window) skip(n int, tee io.Writer) (bool, error) {
	for n > 0 {
		if !w.want(1) {
			return false, nil
		}
		piece := w.view[:min(n, len(w.view))]
		if tee != nil {
			if _, err := tee.Write(piece); err != nil {
				return false, err
			}
		}
		w.view = w.view[len(piece):]
		n -= len(piece)
	}
	return true, nil
}

// A sketch is what validation needs to know of a record.
type sketch struct {
	timestampDelta int64
	offsetDelta    int32
	keySize        int32 // below 0: null
	valueSize      int32
	head           int // bytes of length, attributes and both deltas, which come first
	size           int // of all
}

// Faults of a record's structure, in Kafka's words.
const (
	faultEnd       = "Incorrect declared batch size, premature EOF reached"
	faultRemaining = "Incorrect declared batch size, records still remaining in file"
	faultStructure = "Found invalid record structure"
)

func faultSize(size, remaining int) string {
	return fmt.Sprintf("Invalid record size: expected %d bytes in record payload, but instead the buffer has only %d remaining bytes.", size, remaining)
}

func faultHeaders(n int32) string {
	return fmt.Sprintf("Found invalid number of record headers %d", n)
}

func faultHeaderKey(n int32) string {
	return fmt.Sprintf("Invalid negative header key size %d", n)
}

func faultRead(size, read int) string {
	return fmt.Sprintf("Invalid record size: expected to read %d bytes in record payload, but instead read %d", size, read)
}

// next makes s the sketch of the next record and leaves that in view where it fits, with whole true; else its head alone is
// in view, and walkLong must pass over it. A fault is about this record; err says that no more can be read.
func (w *window) next(s *sketch) (whole bool, fault string, err error) {
	const most = maxVarint32 + 1 + maxVarint64 + maxVarint32 // of the head
	if len(w.view) < most {
		w.want(most)
	}
	size, n := varint32(w.view)
	if n == 0 {
		if err := w.failed(); err != nil {
			return false, "", err
		}
		if len(w.view) < maxVarint32 {
			return false, faultEnd, nil
		}
		return false, faultStructure, nil
	}
	if size < 1 {
		return false, faultStructure, nil
	}
	s.size = n + int(size)
	if len(w.view) < s.size && (w.all || s.size <= windowBytes) && !w.want(s.size) {
		if err := w.failed(); err != nil {
			return false, "", err
		}
		return false, faultSize(int(size), len(w.view)-n), nil
	}
	whole = len(w.view) >= s.size
	body := w.view[n:min(s.size, len(w.view))]
	if len(body) == 0 { // a long one was announced
		return false, faultEnd, w.failed()
	}
	at := 1
	var k int
	if s.timestampDelta, k = varint64(body[at:]); k == 0 {
		return whole, faultStructure, nil
	}
	at += k
	if s.offsetDelta, k = varint32(body[at:]); k == 0 {
		return whole, faultStructure, nil
	}
	at += k
	s.head = n + at
	if whole {
		fault = s.fill(body, at)
	}
	return whole, fault, nil
}

// fill reads the rest of a record that is wholly in view, from at on.
func (s *sketch) fill(body []byte, at int) (fault string) {
	var k int
	if s.keySize, k = varint32(body[at:]); k == 0 {
		return faultStructure
	}
	at += k + int(max(0, s.keySize))
	if at >= len(body) {
		return faultStructure
	}
	if s.valueSize, k = varint32(body[at:]); k == 0 {
		return faultStructure
	}
	at += k + int(max(0, s.valueSize))
	if at >= len(body) {
		return faultStructure
	}
	if body[at] == 0 && at+1 == len(body) { // no headers
		return ""
	}
	count, k := varint32(body[at:])
	if k == 0 {
		return faultStructure
	}
	return fillHeaders(body, at+k, count)
}

func fillHeaders(body []byte, at int, count int32) (fault string) {
	if count < 0 {
		return faultHeaders(count)
	}
	if int(count) > len(body)-at {
		return faultHeaders(count) + fmt.Sprintf(". %d is larger than the remaining size of the buffer", count)
	}
	for range count {
		for i := range 2 {
			size, k := varint32(body[at:])
			if k == 0 {
				return faultStructure
			}
			at += k
			if size < 0 && i == 0 {
				return faultHeaderKey(size)
			}
			if size > 0 {
				if int(size) > len(body)-at {
					return faultStructure
				}
				at += int(size)
			}
		}
	}
	if at != len(body) {
		return faultRead(len(body), at)
	}
	return ""
}

// walkLong passes over a record that is larger than the window, of which the head is already taken: it reads what
// fill would, and hands every byte to tee.
func (w *window) walkLong(s *sketch, tee io.Writer) (fault string, err error) {
	left := s.size - s.head
	number := func() (v int32, err error) {
		w.want(min(maxVarint32, left))
		v, n := varint32(w.view[:min(left, len(w.view))])
		if n == 0 {
			fault = faultStructure
			return 0, w.failed()
		}
		left -= n
		_, err = w.skip(n, tee)
		return v, err
	}
	field := func() (size int32, err error) {
		size, err = number()
		if fault != "" || err != nil || size <= 0 {
			return size, err
		}
		if int(size) > left {
			fault = faultStructure
			return size, nil
		}
		left -= int(size)
		ok, err := w.skip(int(size), tee)
		if !ok && err == nil {
			fault, err = faultEnd, w.failed()
		}
		return size, err
	}
	if s.keySize, err = field(); fault != "" || err != nil {
		return fault, err
	}
	if s.valueSize, err = field(); fault != "" || err != nil {
		return fault, err
	}
	count, err := number()
	switch {
	case fault != "" || err != nil:
		return fault, err
	case count < 0:
		return faultHeaders(count), nil
	case int(count) > left:
		return faultHeaders(count) + fmt.Sprintf(". %d is larger than the remaining size of the buffer", count), nil
	}
	for range count {
		key, err := field()
		if fault != "" || err != nil {
			return fault, err
		}
		if key < 0 {
			return faultHeaderKey(key), nil
		}
		if _, err := field(); fault != "" || err != nil {
			return fault, err
		}
	}
	if left != 0 {
		return faultRead(s.size, s.size-left), nil
	}
	return "", nil
}
