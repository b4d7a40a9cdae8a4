package storage

import "sync"

const (
	// scanChunk is read at once where headers alone are looked at.
	scanChunk = 64 << 10
	// recoveryChunk is read at once where every byte is.
	recoveryChunk = 1 << 20
	// pooledMax bounds the buffers that are kept; a larger batch's is left to the collector.
	pooledMax = 4 << 20
)

var smallBuffers, largeBuffers sync.Pool

// getBuffer returns a buffer of at least n bytes, of its full length.
func getBuffer(n int) *[]byte {
	pool := &smallBuffers
	if n > scanChunk {
		pool = &largeBuffers
	}
	if b, ok := pool.Get().(*[]byte); ok {
		if len(*b) >= n {
			return b
		}
		pool.Put(b)
	}
	size := scanChunk
	if n > scanChunk {
		size = max(n, recoveryChunk)
	}
	b := make([]byte, size)
	return &b
}

// putBuffer gives a buffer back.
func putBuffer(b *[]byte) {
	switch {
	case len(*b) > pooledMax:
	case len(*b) > scanChunk:
		largeBuffers.Put(b)
	default:
		smallBuffers.Put(b)
	}
}
