package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// A zstd frame announces the window that its reader must remember, up to 128 MiB where Java still follows, and a
// hostile one announces it for nothing. So a payload is inflated in the first of these ways that does:
//
//  1. at once, into a buffer of at most zstdWhole: nearly every batch, and no window is needed for it
//  2. as a stream with a window of at most zstdWindow, when its turn comes
//  3. with a wider window: at once while it stays below zstdWindow; what really comes to more gets its wide window,
//     one payload at a time
//
// The memory that all large payloads together can take is thus known: GOMAXPROCS windows of 8 MiB, one of 128 MiB.
const (
	zstdWhole      = 1<<20 + zstdBlock // the library copies more carefully, and slower, where less than a block is left
	zstdWindow     = wideBytes
	zstdWideWindow = 128 << 20
	zstdFirstRoom  = 64 << 10
	zstdBlock      = 128 << 10 // the most that a block inflates to
)

var (
	zstdInflaters = pool[*zstdInflater]{new: func() *zstdInflater { return &zstdInflater{atOnce: newZstdDecoder(zstdWideWindow)} }}
	zstdStreams   = pool[*zstd.Decoder]{new: func() *zstd.Decoder { return newZstdDecoder(zstdWindow) }}
)

// newZstdDecoder makes a decoder without goroutines, for frames with windows up to one size. Its DecodeAll stays within
// the capacity that it is given.
func newZstdDecoder(window uint64) *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(window), zstd.WithDecoderMaxMemory(window), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // only options are refused
	}
	return d
}

type zstdInflater struct {
	blocks
	src    bytes.Reader
	atOnce *zstd.Decoder
	stream *zstd.Decoder // nil: all is in block
}

func (z *zstdInflater) reset(src []byte) error {
	z.block = nil
	head, err := firstZstdHeader(src)
	if err != nil {
		return err
	}
	most, wide := zstdWhole, head.WindowSize > zstdWindow
	if wide {
		most = zstdWindow
	}
	for _, room := range [...]int{min(max(cap(z.buf), zstdFirstRoom), most), most} {
		out, err := z.atOnce.DecodeAll(src, z.room(room)[:0:room])
		if err == nil {
			z.block = out
			return nil
		}
		if !lacksRoom(err, room-len(out)) {
			return zstdError(err)
		}
	}
	if wide {
		z.take(zstdWideWindow)
		z.stream = newZstdDecoder(zstdWideWindow)
	} else {
		z.take(zstdWindow)
		z.stream = zstdStreams.get()
	}
	z.src.Reset(src)
	return zstdError(z.stream.Reset(&z.src))
}

// inflateZstd is Inflate of zstd.
func inflateZstd(dst, src []byte) ([]byte, error) {
	if _, err := firstZstdHeader(src); err != nil {
		return nil, err
	}
	z := zstdInflaters.get()
	defer zstdInflaters.put(z)
	room := cap(dst) - len(dst)
	out, err := z.atOnce.DecodeAll(src, dst)
	switch {
	case err == nil:
		return out[len(dst):], nil
	case lacksRoom(err, room-max(len(out)-len(dst), 0)):
		return nil, &TooLargeError{room}
	}
	return nil, zstdError(err)
}

// lacksRoom tells whether decoding failed for want of room, of which so much was left. The library does not always say so, but then
// less than a block of it was left.
func lacksRoom(err error, left int) bool {
	return errors.Is(err, zstd.ErrDecoderSizeExceeded) || left <= zstdBlock
}

func (z *zstdInflater) Read(p []byte) (int, error) {
	if z.stream != nil {
		n, err := z.stream.Read(p)
		return n, zstdError(err)
	}
	if len(z.block) == 0 {
		return 0, io.EOF
	}
	n := copy(p, z.block)
	z.block = z.block[n:]
	return n, nil
}

// whole is all that there is, if it was inflated at once.
func (z *zstdInflater) whole() ([]byte, bool) { return z.block, z.stream == nil }

func (z *zstdInflater) close() {
	if z.stream != nil {
		_ = z.stream.Reset(nil)
		if z.wide {
			z.stream.Close()
		} else {
			zstdStreams.put(z.stream)
		}
		z.stream = nil
	}
	z.src.Reset(nil)
	z.clear()
	zstdInflaters.put(z)
}

// firstZstdHeader reads the header of the first frame that is not to be skipped.
func firstZstdHeader(src []byte) (zstd.Header, error) {
	for {
		var h zstd.Header
		if err := h.Decode(src); err != nil {
			return h, zstdError(err)
		}
		if !h.Skippable {
			return h, nil
		}
		skip := int64(h.HeaderSize) + int64(h.SkippableSize)
		if skip > int64(len(src)) {
			return h, &FormatError{"zstd: a skippable frame runs past the end"}
		}
		src = src[skip:]
	}
}

func zstdError(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &FormatError{fmt.Sprintf("zstd: %v", err)}
}

// Kafka's levels go from -131072 to 22; the library has four, which these stand for (zstd.EncoderLevelFromZstd).
var zstdDeflaters [zstd.SpeedBestCompression + 1]pool[*zstdDeflater]

// zstdDefaultLevel is Kafka's.
const zstdDefaultLevel = 3

// IsDefaultZstd tells whether a level of zstd stands for the same as Kafka's default.
func IsDefaultZstd(level int) bool {
	return level == DefaultLevel || zstd.EncoderLevelFromZstd(level) == zstd.EncoderLevelFromZstd(zstdDefaultLevel)
}

// zstdWriteWindow is what Kafka's default level uses; a reader needs as much memory.
const zstdWriteWindow = 2 << 20

func init() {
	for i := range zstdDeflaters {
		level := zstd.EncoderLevel(i)
		zstdDeflaters[i].new = func() *zstdDeflater {
			w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(1),
				zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(zstdWriteWindow), zstd.WithEncoderCRC(false),
				zstd.WithSingleSegment(false), zstd.WithZeroFrames(true))
			if err != nil {
				panic(err) // only options are refused
			}
			return &zstdDeflater{level: level, w: w}
		}
	}
}

type zstdDeflater struct {
	level zstd.EncoderLevel
	out   sink
	start int // where in out the frame begins
	w     *zstd.Encoder
}

func openZstdDeflater(level int, dst []byte) deflater {
	if level == DefaultLevel {
		level = zstdDefaultLevel
	}
	z := zstdDeflaters[zstd.EncoderLevelFromZstd(level)].get()
	z.out.b, z.start = dst, len(dst)
	z.w.Reset(&z.out)
	return z
}

func (z *zstdDeflater) Write(p []byte) (int, error) { return z.w.Write(p) }

func (z *zstdDeflater) size() int { return len(z.out.b) }

func (z *zstdDeflater) finish() ([]byte, error) {
	err := z.w.Close()
	out := z.out.b
	z.out.b = nil
	if err == nil {
		out = dropZstdContentSize(out, z.start)
	}
	zstdDeflaters[z.level].put(z)
	return out, err
}

// dropZstdContentSize makes the frame at start look like Kafka's, which is streamed and knows no size beforehand; the
// library knows it for a frame of one block. Its header is
//
//	0       4            5          6                 the descriptor's bits 6-7 tell how long the size is: 0, 2, 4, 8
//	+-------+------------+----------+--------------+  bit 5: no window; 2: a checksum follows; 0-1: a dictionary.
//	| magic | descriptor |  window  | content size |  None of these three is set in what we write.
//	+-------+------------+----------+--------------+
func dropZstdContentSize(b []byte, start int) []byte {
	const descriptor, size = 4, 6
	f := b[start:]
	if len(f) < size || binary.LittleEndian.Uint32(f) != 0xfd2fb528 || f[descriptor]&0x3f != 0 {
		return b
	}
	log := f[descriptor] >> 6
	if log == 0 {
		return b
	}
	f[descriptor] = 0
	return append(b[:start+size], f[size+1<<log:]...)
}
