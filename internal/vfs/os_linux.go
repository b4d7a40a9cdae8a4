package vfs

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Lock takes an open-file-description lock: like the lock that Java takes it is of the fcntl family, so that each keeps
// the other out, but it belongs to the open file and not to the process, so that two nodes in one process exclude each
// other too, and closing an unrelated file of the same name gives nothing back.
func (osFS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	whole := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	for {
		err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &whole)
		if err != unix.EINTR {
			break
		}
	}
	if err == nil {
		return f, nil
	}
	if err == unix.EAGAIN || err == unix.EACCES {
		err = ErrLocked
	}
	_ = f.Close()
	return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
}

func (osFS) Usage(name string) (Usage, error) {
	var st unix.Statfs_t
	for {
		err := unix.Statfs(name, &st)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return Usage{}, &fs.PathError{Op: "statfs", Path: name, Err: err}
		}
	}
	unit := int64(st.Frsize)
	if unit == 0 {
		unit = int64(st.Bsize)
	}
	return Usage{Total: int64(st.Blocks) * unit, Usable: int64(st.Bavail) * unit}, nil
}

func startWriteback(f *osFile, pos, n int64) {
	c, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = c.Control(func(fd uintptr) { _ = unix.SyncFileRange(int(fd), pos, n, unix.SYNC_FILE_RANGE_WRITE) })
}

// sendfileChunk bounds one system call, so that deadlines and Close are looked at in between, however fast the peer reads.
const sendfileChunk = 1 << 20

// sendfile writes r to conn without passing its bytes through this process. ok is false when nothing was written
// because the two do not support it.
func sendfile(conn *net.TCPConn, f *osFile, r Region) (written int64, ok bool, err error) {
	dst, err := conn.SyscallConn()
	if err != nil {
		return 0, true, err
	}
	src, err := f.SyscallConn()
	if err != nil {
		return 0, true, err
	}
	// Control holds f's descriptor for the whole run: a Close elsewhere takes effect after it.
	ctlErr := src.Control(func(in uintptr) {
		for pos := r.Pos; written < r.Len && err == nil; {
			var n int
			var sysErr error
			// Write waits for room in the socket when the function says false, and ends with an error
			// at the write deadline or when conn is closed.
			err = dst.Write(func(out uintptr) bool {
				for {
					n, sysErr = unix.Sendfile(int(out), int(in), &pos, int(min(r.Len-written, sendfileChunk)))
					if sysErr == unix.EINTR {
						continue
					}
					return sysErr != unix.EAGAIN
				}
			})
			if n > 0 {
				written += int64(n)
			}
			switch {
			case err != nil:
			case sysErr != nil:
				err = sysErr
			case n == 0:
				err = io.ErrUnexpectedEOF
			}
		}
	})
	if ctlErr != nil { // the one cause is that f is closed, said by a package that no other can name
		return written, true, &fs.PathError{Op: "sendfile", Path: f.Name(), Err: fs.ErrClosed}
	}
	if written == 0 && (err == unix.EINVAL || err == unix.ENOSYS || errors.Is(err, unix.EOPNOTSUPP)) {
		return 0, false, nil
	}
	if errno, isErrno := err.(unix.Errno); isErrno {
		err = os.NewSyscallError("sendfile", errno)
	}
	return written, true, err
}
