package wire

import (
	"syscall"
	"unsafe"
)

// readBrief is syscall.Read, which the scheduler is told of only when it is for more than briefMax.
func readBrief(fd int, p []byte) (int, error) {
	if len(p) > briefMax {
		return syscall.Read(fd, p)
	}
	return brief(syscall.SYS_READ, fd, p)
}

// writeBrief is syscall.Write, likewise.
func writeBrief(fd int, p []byte) (int, error) {
	if len(p) > briefMax {
		return syscall.Write(fd, p)
	}
	return brief(syscall.SYS_WRITE, fd, p)
}

func brief(trap uintptr, fd int, p []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(trap, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
