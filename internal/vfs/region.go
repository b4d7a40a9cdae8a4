package vfs

import (
	"io"
	"net"
	"sync"
)

// A Region is a run of bytes in a file, which need not pass through this process to reach a socket.
type Region struct {
	File File
	Pos  int64 // where it begins in File
	Len  int64 // bytes
}

// copyBufferSize is what the copying path reads at once: four TLS records.
const copyBufferSize = 64 << 10

var copyBuffers = sync.Pool{New: func() any { return new([copyBufferSize]byte) }}

// WriteTo writes the region to w: by sendfile when File is the operating system's and w a *net.TCPConn,
// else through a pooled buffer. A file that is shorter than the region gives io.ErrUnexpectedEOF.
func (r Region) WriteTo(w io.Writer) (int64, error) {
	if r.Len <= 0 {
		return 0, nil
	}
	if f, ok := r.File.(*osFile); ok {
		if conn, ok := w.(*net.TCPConn); ok {
			if n, ok, err := sendfile(conn, f, r); ok {
				return n, err
			}
		}
	}
	buf := copyBuffers.Get().(*[copyBufferSize]byte)
	defer copyBuffers.Put(buf)
	var written int64
	for written < r.Len {
		p := buf[:min(r.Len-written, copyBufferSize)]
		n, err := r.File.ReadAt(p, r.Pos+written)
		if n > 0 {
			k, werr := w.Write(p[:n])
			written += int64(k)
			if werr != nil {
				return written, werr
			}
			if k < n {
				return written, io.ErrShortWrite
			}
		}
		switch {
		case n == len(p): // the error, if any, is EOF right after the last byte
		case err == io.EOF || err == nil:
			return written, io.ErrUnexpectedEOF
		default:
			return written, err
		}
	}
	return written, nil
}
