//go:build !linux

package wire

import "syscall"

// sendMore writes to a socket; that more follows cannot be said here.
func sendMore(fd int, p []byte) (int, error) { return syscall.Write(fd, p) }
