//go:build !linux

package wire

import "syscall"

func readBrief(fd int, p []byte) (int, error)  { return syscall.Read(fd, p) }
func writeBrief(fd int, p []byte) (int, error) { return syscall.Write(fd, p) }
