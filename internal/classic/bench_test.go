package classic

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/quire-log/quire/internal/vfs"
)

const (
	benchMessages = 1000 // of an append
	benchPayload  = 1000
	// benchFile is where a benchmark begins anew, so that it measures the page cache's speed and not the disk's.
	benchFile = 256 << 20
)

// BenchmarkAppend takes turns with plain writes of as many bytes and CRCs of them, so that a busy machine slows both down. It
// is to take at most 1.2 times as long.
func BenchmarkAppend(b *testing.B) {
	l, err := Open(Options{FS: vfs.OS(), Dir: b.TempDir() + "/t_0", Partition: testPartition, Config: Config{SegmentBytes: 2 * benchFile, MessageBytesMax: 1 << 20}})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	f, err := os.Create(b.TempDir() + "/f")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	messages := make([]Message, benchMessages)
	for i := range messages {
		messages[i].Payload = bytes.Repeat([]byte{byte(i)}, benchPayload)
	}
	run := make([]byte, benchMessages*(benchPayload+headerMin))
	b.SetBytes(int64(len(run)))
	var appends, writes time.Duration
	for b.Loop() {
		pos := int64(l.EndOffset())
		if pos >= benchFile {
			if err := errors.Join(rewind(l), f.Truncate(0)); err != nil {
				b.Fatal(err)
			}
			pos = 0
		}
		start := time.Now()
		if _, err := l.Append(messages...); err != nil {
			b.Fatal(err)
		}
		appended := time.Now()
		for _, m := range messages {
			sink += crc32.ChecksumIEEE(m.Payload)
		}
		if _, err := f.WriteAt(run, pos); err != nil {
			b.Fatal(err)
		}
		appends, writes = appends+appended.Sub(start), writes+time.Since(appended)
	}
	b.ReportMetric(float64(appends)/float64(writes), "x-plain-write")
}

var sink uint32

// rewind makes a log empty again.
func rewind(l *Log) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.segments.Load()[0]
	s.size.Store(0)
	s.at = starts{}
	l.end.Store(0)
	return l.active.Truncate(0)
}

const socketBytes = 64 << 20

// tcpPair is a connection whose other end throws away what it gets.
func tcpPair(b *testing.B) *net.TCPConn {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1<<20)
		for {
			if _, err := c.Read(buf); err != nil {
				return
			}
		}
	}()
	b.Cleanup(func() { _, _ = s.Close(), c.Close(); <-done })
	return s.(*net.TCPConn)
}

// benchLog has socketBytes in one file, opened anew so that nothing is known of its entries but by recovery.
func benchLog(b *testing.B, payload int) *Log {
	o := Options{FS: vfs.OS(), Dir: b.TempDir() + "/t_0", Partition: testPartition, Config: Config{SegmentBytes: 1 << 30, MessageBytesMax: 1 << 20}}
	l, err := Open(o)
	if err != nil {
		b.Fatal(err)
	}
	var messages []Message
	for range 1 << 20 / payload {
		messages = append(messages, Message{Payload: make([]byte, payload)})
	}
	for l.EndOffset() < socketBytes {
		if _, err := l.Append(messages...); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	if l, err = Open(o); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	return l
}

// BenchmarkSend sends a file to a socket in fetches of 1 MiB, each of them found by its offset, in turns with sendfile of the
// whole file alone. It is to be at least 90 % as fast.
func BenchmarkSend(b *testing.B) {
	for _, payload := range []int{100, 1000, 100_000} {
		b.Run(fmt.Sprintf("payload=%d", payload), func(b *testing.B) {
			l := benchLog(b, payload)
			f, err := os.Open(l.dir + "/" + fileName(0))
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			conn := tcpPair(b)
			size := int64(payload + headerMin)
			step := max(1, 1<<20/size) * size // whole entries, so that the next fetch begins at one
			b.SetBytes(2 * int64(l.EndOffset()))
			var sends, plain time.Duration
			for b.Loop() {
				start := time.Now()
				for at := int64(0); at < int64(l.EndOffset()); at += step {
					send, err := l.Send(Offset(at), int32(step))
					if err != nil {
						b.Fatal(err)
					}
					if _, err := send.WriteTo(conn); err != nil {
						b.Fatal(err)
					}
					send.Close()
				}
				sent := time.Now()
				if _, err := f.Seek(0, io.SeekStart); err != nil {
					b.Fatal(err)
				}
				if _, err := conn.ReadFrom(f); err != nil { // which is sendfile
					b.Fatal(err)
				}
				sends, plain = sends+sent.Sub(start), plain+time.Since(sent)
			}
			b.ReportMetric(100*float64(plain)/float64(sends), "%-of-sendfile")
		})
	}
}

// manySegments makes a log of n files by hand.
func manySegments(b *testing.B, n int) Options {
	dir := b.TempDir() + "/t_0"
	if err := os.Mkdir(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	run := appendEntry(nil, Message{Payload: make([]byte, 91)})
	for i := range n {
		if err := os.WriteFile(dir+"/"+fileName(Offset(100*i)), run, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	return Options{FS: vfs.OS(), Dir: dir, Partition: testPartition, Config: testConfig()}
}

// Among 10,000 segments an offset is found in less than 1 µs.
func BenchmarkFind(b *testing.B) {
	l, err := Open(manySegments(b, 10_000))
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	offset := Offset(0)
	for b.Loop() {
		segs := l.segments.Load()
		if s := segs[find(segs, offset)]; offset-s.base != 0 {
			b.Fatal(s.base)
		}
		offset = (offset + 123_400) % 1_000_000
	}
}

// A log of 10,000 segments opens in less than 100 ms.
func BenchmarkOpen(b *testing.B) {
	o := manySegments(b, 10_000)
	for b.Loop() {
		l, err := Open(o)
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRead reads a log from its beginning to its end, with CRCs.
func BenchmarkRead(b *testing.B) {
	l := benchLog(b, 1000)
	b.SetBytes(int64(l.EndOffset()))
	for b.Loop() {
		r := l.NewReader(0, Fail, ReadOptions{Bytes: 1 << 20})
		for {
			set, err := r.Next()
			if err != nil {
				b.Fatal(err)
			}
			if len(set.Bytes()) == 0 {
				break
			}
		}
	}
}
