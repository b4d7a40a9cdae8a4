package record

import "io"

// bounded is a batch that is being encoded anew: room for its header, then its records compressed, until they are more
// than it may hold; from then on it swallows what is written, so that the records are still looked at to the end.
type bounded struct {
	max   int
	full  bool
	codec Codec
	plain []byte // with codec None
	w     deflater
}

func (o *bounded) open(c Codec, level int, buf []byte, limit int) (err error) {
	o.drop()
	o.max, o.full, o.codec = limit, false, c
	o.plain = append(buf[:0], make([]byte, HeaderSize)...)
	if c != None {
		o.w, err = openDeflater(c, level, o.plain)
	}
	return err
}

func (o *bounded) Write(p []byte) (int, error) {
	switch {
	case o.full:
	case o.w == nil:
		o.plain = append(o.plain, p...)
		o.full = len(o.plain) > o.max
	default:
		if _, err := o.w.Write(p); err != nil {
			return 0, err
		}
		o.full = o.w.size() > o.max
	}
	return len(p), nil
}

// finish returns the header's room and the records.
func (o *bounded) finish() ([]byte, error) {
	if o.w == nil {
		return o.plain, nil
	}
	out, err := o.w.finish()
	o.w = nil
	return out, err
}

// drop gives up what was encoded, if it was not finished.
func (o *bounded) drop() {
	if o.w != nil {
		_, _ = o.w.finish()
	}
	o.w, o.plain = nil, nil
}

var _ io.Writer = (*bounded)(nil)
