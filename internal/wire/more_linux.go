package wire

import "golang.org/x/sys/unix"

// sendMore writes to a socket what more will follow at once, so that the kernel need not send it as a packet of its own.
func sendMore(fd int, p []byte) (int, error) {
	return unix.SendmsgN(fd, p, nil, nil, unix.MSG_MORE|unix.MSG_NOSIGNAL)
}
