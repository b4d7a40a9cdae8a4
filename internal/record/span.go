package record

import "fmt"

// A Span says where a record's key and value lie in a buffer. It holds no pointer and takes 24 bytes, so that one goroutine can walk
// batches and hand thousands of records at a time to another.
type Span struct {
	Offset             Offset
	key, value         uint32 // where they begin
	keySize, valueSize int32  // below 0: null
}

// Key is the record's key as a view of buf, nil: null.
func (s *Span) Key(buf []byte) []byte { return view(buf, s.key, s.keySize) }

// Value is the record's value as a view of buf, nil: null.
func (s *Span) Value(buf []byte) []byte { return view(buf, s.value, s.valueSize) }

func view(buf []byte, at uint32, size int32) []byte {
	if size < 0 {
		return nil
	}
	end := uint64(at) + uint64(size)
	return buf[at:end:end]
}

// AppendSpans appends the records of b, which is not compressed and lies at a position of some buffer below 4 GiB less b's length. It
// finds what a Reader finds: when it fails, with a *FormatError, dst has the records before the one that is wrong.
func AppendSpans(dst []Span, b Batch, at int) ([]Span, error) {
	count, base := b.Count(), b.BaseOffset()
	if count < 0 {
		return dst, &FormatError{fmt.Sprintf("record count %d", count)}
	}
	payload := b.Payload()
	at += len(b) - len(payload)
	for n := range count {
		size, i := varint32(payload)
		if i == 0 || size < 0 || int(size) > len(payload)-i {
			rest := payload
			_, fault := cutRecord(&rest)
			return dst, &FormatError{fmt.Sprintf("record %d: %s", n, fault)}
		}
		end := i + int(size)
		var s Span
		if !s.cut(payload[i:end], at+i) {
			if fault := s.cutSlowly(payload[i:end], at+i); fault != "" {
				return dst, &FormatError{fmt.Sprintf("record %d: %s", n, fault)}
			}
		}
		s.Offset += base
		dst = append(dst, s)
		payload, at = payload[end:], at+end
	}
	if len(payload) > 0 {
		return dst, &FormatError{fmt.Sprintf("%d bytes after the last record", len(payload))}
	}
	return dst, nil
}

// cut takes a record apart that has no headers, and whose numbers take two bytes at most. pos is where rec lies. false: it is another
// one, or is malformed.
func (s *Span) cut(rec []byte, pos int) bool {
	i := 1
	for i < len(rec) && i <= maxVarint64 && rec[i] >= 0x80 {
		i++
	}
	if i >= len(rec) || i > maxVarint64 {
		return false
	}
	delta, i := shortVarint(rec, i+1)
	keySize, i := shortVarint(rec, i)
	s.key, s.keySize = uint32(pos+i), keySize
	i += int(max(keySize, 0))
	valueSize, i := shortVarint(rec, i)
	s.value, s.valueSize = uint32(pos+i), valueSize
	i += int(max(valueSize, 0))
	s.Offset = Offset(delta)
	return i == len(rec)-1 && rec[i] == 0
}

// shortVarint reads a number of one or two bytes at i. Of others it returns a place that no record has.
func shortVarint(b []byte, i int) (v int32, next int) {
	if uint(i)+1 >= uint(len(b)) { // a record ends with its count of headers, so there is always one byte more
		return 0, nowhere
	}
	u := uint32(b[i])
	i++
	if u >= 0x80 {
		c := uint32(b[i])
		if c >= 0x80 {
			return 0, nowhere
		}
		u = u&0x7f | c<<7
		i++
	}
	return int32(u>>1) ^ -int32(u&1), i
}

// nowhere stays below 0 when the sizes of a key and a value are added.
const nowhere = -1 << 30

// cutSlowly takes any record apart, as Reader does.
func (s *Span) cutSlowly(rec []byte, pos int) (fault string) {
	var r Reader
	if fault := r.parse(rec); fault != "" {
		return fault
	}
	f := fields{b: rec[1:]}
	f.long()
	s.Offset = Offset(f.int())
	s.key, s.keySize = f.span(pos + len(rec))
	s.value, s.valueSize = f.span(pos + len(rec))
	return ""
}

// span is bytes as a position and a size, of fields whose last byte lies before end.
func (f *fields) span(end int) (at uint32, size int32) {
	if v := f.bytes(); v != nil {
		return uint32(end - len(f.b) - len(v)), int32(len(v))
	}
	return 0, -1
}
