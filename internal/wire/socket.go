package wire

import (
	"io"
	"syscall"
)

// briefMax bounds what is read or written by a system call that the scheduler is not told of. The sockets never make it wait, and so
// little is copied in a few microseconds. Telling costs more than it gains then: the kernel likes to run the client that a write has
// woken at once and on the same processor, the scheduler's monitor sees a long system call, hands the processor to another thread, and
// both are in each other's way. That was a seventh of what a small request takes that comes alone (docs/decisions/0005).
const briefMax = 16 << 10

// readSocket tries to read; false: nothing is there yet. A net.Conn would want the buffer before it waits, and keep it.
func (c *Conn) readSocket(fd uintptr) bool {
	b := c.in
	if b == nil {
		b = getBuffer(classSize(c.class))
	}
	n, err := readBrief(int(fd), b.b[c.w:])
	for err == syscall.EINTR {
		n, err = readBrief(int(fd), b.b[c.w:])
	}
	if n > 0 {
		c.in = b
		c.w += n
		c.high = max(c.high, c.w)
		return true
	}
	if c.in == nil {
		putBuffer(b)
	}
	if err == syscall.EAGAIN {
		return false
	}
	if c.readErr = err; err == nil {
		c.readErr = io.EOF
	}
	return true
}

// send sends all of p; more: what follows will be sent at once.
func (c *Conn) send(p []byte, more bool) error {
	c.unsent, c.more, c.sendErr = p, more, nil
	err := c.raw.Write(c.trySend)
	c.unsent = nil
	if err == nil {
		err = c.sendErr
	}
	return err
}

// sendSocket tries to send what is to be sent; false: there is no room yet.
func (c *Conn) sendSocket(fd uintptr) bool {
	for len(c.unsent) > 0 {
		var n int
		var err error
		if c.more {
			n, err = sendMore(int(fd), c.unsent)
		} else {
			n, err = writeBrief(int(fd), c.unsent)
		}
		switch {
		case n > 0:
			c.unsent = c.unsent[n:]
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			return false
		default:
			if c.sendErr = err; err == nil {
				c.sendErr = io.ErrUnexpectedEOF // no room is said by EAGAIN
			}
			return true
		}
	}
	return true
}
