package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"strings"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
)

var gzipInflaters = pool[*gzipInflater]{new: func() *gzipInflater { return &gzipInflater{} }}

type gzipInflater struct {
	src bytes.Reader
	r   gzip.Reader
}

func (g *gzipInflater) reset(src []byte) error {
	g.src.Reset(src)
	err := g.r.Reset(&g.src)
	if err == io.EOF { // there is no stream, not even an empty one
		err = io.ErrUnexpectedEOF
	}
	return gzipError(err)
}

func (g *gzipInflater) Read(p []byte) (int, error) {
	n, err := g.r.Read(p)
	return n, gzipError(err)
}

func (g *gzipInflater) close() {
	g.src.Reset(nil)
	gzipInflaters.put(g)
}

func gzipError(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &FormatError{fmt.Sprintf("gzip: %s", strings.TrimPrefix(err.Error(), "gzip: "))}
}

// gzipHeader is Java's: deflate, no flags, no time, no word on the level, system unknown. The library's own tells the level.
const gzipHeader = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

// Levels of gzip are 1 to 9, and -1 for zlib's default.
var gzipDeflaters [9 + 2]pool[*gzipDeflater]

func init() {
	for i := range gzipDeflaters {
		gzipDeflaters[i].new = func() *gzipDeflater {
			w, err := flate.NewWriter(nil, i-1)
			if err != nil {
				panic(err) // only an unknown level is an error
			}
			return &gzipDeflater{level: i - 1, w: w}
		}
	}
}

type gzipDeflater struct {
	level int
	out   sink
	w     *flate.Writer
	crc   uint32
	bytes uint32
}

func openGzipDeflater(level int, dst []byte) (deflater, error) {
	if level == DefaultLevel {
		level = -1
	}
	if level < -1 || level > 9 {
		return nil, fmt.Errorf("record: gzip level %d", level)
	}
	g := gzipDeflaters[level+1].get()
	g.out.b = append(dst, gzipHeader...)
	g.crc, g.bytes = 0, 0
	g.w.Reset(&g.out)
	return g, nil
}

func (g *gzipDeflater) Write(p []byte) (int, error) {
	g.crc = crc32.Update(g.crc, crc32.IEEETable, p)
	g.bytes += uint32(len(p))
	return g.w.Write(p)
}

func (g *gzipDeflater) size() int { return len(g.out.b) }

func (g *gzipDeflater) finish() ([]byte, error) {
	err := g.w.Close()
	out := binary.LittleEndian.AppendUint32(g.out.b, g.crc)
	out = binary.LittleEndian.AppendUint32(out, g.bytes)
	g.out.b = nil
	gzipDeflaters[g.level+1].put(g)
	return out, err
}
