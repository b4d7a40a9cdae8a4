package record

import (
	"fmt"
	"io"
	"runtime"
	"sync"
)

// A Codec is how a batch's records are compressed; the numbers are those on the wire.
type Codec int8

const (
	None Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

var codecNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// String is Kafka's name: none, gzip, snappy, lz4, zstd.
func (c Codec) String() string {
	if !c.known() {
		return fmt.Sprintf("unknown codec %d", int8(c))
	}
	return codecNames[c]
}

func (c Codec) known() bool { return c >= None && c <= Zstd }

// DefaultLevel stands for Kafka's default of each codec (gzip -1, lz4 9, zstd 3).
const DefaultLevel = -1 << 31

// A TooLargeError means that a payload inflates to more than was allowed.
type TooLargeError struct{ Limit int }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("records inflate to more than %d bytes", e.Limit)
}

// An inflater is a payload as a stream of what it inflates to. It is taken from a pool by openInflater and given back by
// close; neither it nor what it reads from is kept by anyone after that. Its memory is bounded by its codec, whatever the
// payload claims: gzip by a window of 32 KiB, lz4 by a block of 4 MiB, snappy by a block's true size (at most 22 times
// what was sent), zstd by the windows that zstd.go names. No goroutine works for it.
type inflater interface {
	io.Reader
	// reset begins on src. What is wrong with src may show here or in Read, as a *FormatError.
	reset(src []byte) error
	close()
}

// A deflater is the reverse: what is written to it is appended, compressed, to a slice.
type deflater interface {
	io.Writer
	// size is how long the slice is so far; what is still being gathered into a block is not in it.
	size() int
	// finish ends the stream, gives back the slice, and returns the deflater to its pool.
	finish() ([]byte, error)
}

// sink is where a deflater puts its output.
type sink struct{ b []byte }

func (s *sink) Write(p []byte) (int, error) {
	s.b = append(s.b, p...)
	return len(p), nil
}

// A pool keeps values of one type for the next user. Whoever puts one back has cleared what it must not keep alive.
type pool[T any] struct {
	p   sync.Pool
	new func() T
}

func (p *pool[T]) get() T {
	if v, ok := p.p.Get().(T); ok {
		return v
	}
	return p.new()
}

func (p *pool[T]) put(v T) { p.p.Put(v) }

// openInflater begins on src, which is compressed by c; None has no inflater.
func openInflater(c Codec, src []byte) (inflater, error) {
	var in inflater
	switch c {
	case Gzip:
		in = gzipInflaters.get()
	case Snappy:
		in = snappyInflaters.get()
	case LZ4:
		in = lz4Inflaters.get()
	case Zstd:
		in = zstdInflaters.get()
	default:
		return nil, &FormatError{fmt.Sprintf("%v", c)}
	}
	if err := in.reset(src); err != nil {
		in.close()
		return nil, err
	}
	return in, nil
}

// openDeflater begins to append to dst.
func openDeflater(c Codec, level int, dst []byte) (deflater, error) {
	switch c {
	case Gzip:
		return openGzipDeflater(level, dst)
	case Snappy:
		return openSnappyDeflater(dst), nil
	case LZ4:
		return openLZ4Deflater(level, dst), nil
	case Zstd:
		return openZstdDeflater(level, dst), nil
	}
	return nil, fmt.Errorf("record: compressing by %v", c)
}

// Compress appends src compressed to dst. level is the codec's own; DefaultLevel means Kafka's default.
func Compress(dst, src []byte, c Codec, level int) ([]byte, error) {
	if c == None {
		return append(dst, src...), nil
	}
	w, err := openDeflater(c, level, dst)
	if err != nil {
		return dst, err
	}
	if _, err := w.Write(src); err != nil {
		_, _ = w.finish()
		return dst, err
	}
	return w.finish()
}

// Decompress appends src inflated to dst, at most limit bytes: *TooLargeError beyond, *FormatError when src is malformed.
// Snappy may be xerial-framed or raw.
func Decompress(dst, src []byte, c Codec, limit int) ([]byte, error) {
	if c == None {
		if len(src) > limit {
			return dst, &TooLargeError{limit}
		}
		return append(dst, src...), nil
	}
	in, err := openInflater(c, src)
	if err != nil {
		return dst, err
	}
	defer in.close()
	return readAll(dst, in, limit)
}

// readAll appends what in gives to dst, which grows with what came and not with what was announced.
func readAll(dst []byte, in io.Reader, limit int) ([]byte, error) {
	start := len(dst)
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		// One byte more than the limit is asked for, to see the end.
		end := min(cap(dst), start+limit+1)
		n, err := in.Read(dst[len(dst):end])
		dst = dst[:len(dst)+n]
		switch {
		case len(dst)-start > limit:
			return dst[:start], &TooLargeError{limit}
		case err == io.EOF:
			return dst, nil
		case err != nil:
			return dst[:start], err
		}
	}
}

// Large inflations take turns, so that what all of them hold together is bounded however many clients send bombs.
// Inflating waits for nothing but the processor: whoever waits for a turn waits for work in progress. A turn of the
// first kind may be held while waiting for one of the second, never the other way round.
var (
	turns     = make(chan struct{}, runtime.GOMAXPROCS(0)) // more than keepMax, up to wideBytes
	wideTurns = make(chan struct{}, 1)                     // beyond
)

const (
	// keepMax is the largest buffer that goes back to a pool, and needs no turn. Larger ones are the collector's.
	keepMax = 2 << 20
	// wideBytes is the largest buffer of which there may be several.
	wideBytes = 8 << 20
)

// blocks is the part that codecs of whole blocks share: the block inflated last, handed out by Read.
type blocks struct {
	block      []byte // what Read still has to hand out: a view of buf, or of the payload where a block is stored as it is
	buf        []byte
	turn, wide bool // held
}

// take waits for the turn that n bytes need.
func (b *blocks) take(n int) {
	switch {
	case n <= keepMax || b.wide:
	case n > wideBytes:
		wideTurns <- struct{}{}
		b.wide = true
	case !b.turn:
		turns <- struct{}{}
		b.turn = true
	}
}

// room makes buf hold n bytes and returns them.
func (b *blocks) room(n int) []byte {
	if cap(b.buf) < n {
		b.take(n)
		b.buf = make([]byte, n)
	}
	return b.buf[:n]
}

// clear lets go of large buffers and of turns.
func (b *blocks) clear() {
	b.block = nil
	if cap(b.buf) > keepMax {
		b.buf = nil
	}
	if b.turn {
		b.turn = false
		<-turns
	}
	if b.wide {
		b.wide = false
		<-wideTurns
	}
}
