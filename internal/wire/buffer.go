package wire

import (
	"math/bits"
	"sync"
)

// A buffer is a piece of pooled memory of one of the classes. Class n holds 4096<<n bytes and slack, so that a batch
// of a round size fits together with the header of its request.
type buffer struct {
	b     []byte
	class int8
}

const (
	classMin   = 12 // 4 KiB
	classCount = 16 // up to 128 MiB
	classSlack = 4096
)

var buffers [classCount]sync.Pool

// classFor is the least class that holds n bytes.
func classFor(n int) int8 {
	n = max(n-classSlack, 1)
	c := bits.Len(uint(n-1)) - classMin
	return int8(min(max(c, 0), classCount-1))
}

func classSize(class int8) int { return 1<<(classMin+class) + classSlack }

// getBuffer takes a buffer that holds at least n bytes. Beyond the largest class it is not pooled.
func getBuffer(n int) *buffer {
	class := classFor(n)
	if n > classSize(class) {
		return &buffer{make([]byte, n), -1}
	}
	if b, _ := buffers[class].Get().(*buffer); b != nil {
		return b
	}
	return &buffer{make([]byte, classSize(class)), class}
}

func putBuffer(b *buffer) {
	if b != nil && b.class >= 0 {
		buffers[b.class].Put(b)
	}
}
