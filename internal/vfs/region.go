package vfs

import "io"

// A Region is a run of bytes in a file, which need not pass through this process to reach a socket.
type Region struct {
	File File
	Pos  int64 // where it begins in File
	Len  int64 // bytes
}

// WriteTo writes the region to w: by sendfile when File is the operating system's and w a *net.TCPConn,
// else through a pooled buffer. A file that is shorter than the region gives io.ErrUnexpectedEOF.
func (r Region) WriteTo(w io.Writer) (int64, error) { panic("unwritten") }
