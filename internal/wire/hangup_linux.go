package wire

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// hungUp tells whether the other side has closed a socket, also when requests that it sent before are still unread.
func hungUp(raw syscall.RawConn) (gone bool) {
	raw.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(p, 0)
		gone = err == nil && n > 0 && p[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
	})
	return gone
}
