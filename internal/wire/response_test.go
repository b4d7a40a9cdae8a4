package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/vfs"
)

// TestGathersAnswers checks that answers to requests that came together leave together, and before a wait. keeps I5
func TestGathersAnswers(t *testing.T) {
	release := make(chan struct{})
	apis := append([]API{
		{Key: 1, Min: 4, Max: 18, Quick: true, Handle: func(_ context.Context, req *Request) Response {
			req.Waits()
			<-release
			return Stream(req, &Body{Buf: []byte("waited")}, nil)
		}},
		{Key: 19, Min: 0, Max: 7, Handle: func(_ context.Context, req *Request) Response { // not quick
			<-release
			return Stream(req, &Body{Buf: []byte("slow")}, nil)
		}},
	}, echoAPIs...)
	_, address, _ := serve(t, apis, Limits{})
	for _, waits := range []kmsg.Request{at(kmsg.NewPtrFetchRequest(), 4), at(kmsg.NewPtrCreateTopicsRequest(), 2)} {
		nc := dial(t, address)
		msg := append(frame(metadata("a"), 5), frame(metadata("b"), -1)...)
		msg = append(append(msg, frame(waits, 2147483647)...), frame(metadata("c"), 5)...)
		nc.Write(msg)
		for _, want := range []uint32{5, 0xffffffff} {
			if id := binary.BigEndian.Uint32(readFrame(t, nc)); id != want {
				t.Errorf("answer to %d, want %d", id, want)
			}
		}
		nc.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if n, err := nc.Read(make([]byte, 1)); n > 0 || !isTimeout(err) {
			t.Errorf("something came before the request that waits was answered: %v", err)
		}
		nc.SetReadDeadline(time.Now().Add(2 * time.Minute))
		release <- struct{}{}
		for _, want := range []uint32{2147483647, 5} {
			if id := binary.BigEndian.Uint32(readFrame(t, nc)); id != want {
				t.Errorf("answer to %d, want %d", id, want)
			}
		}
	}
}

// countingConn counts writes.
type countingConn struct {
	net.Conn
	writes atomic.Int32
}

func (c *countingConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

func TestManyAnswersAreOneWrite(t *testing.T) {
	server := NewServer(echoAPIs, Limits{}, nil)
	near, far := net.Pipe()
	counted := &countingConn{Conn: near}
	c := newConn(server, Listener{Name: "X"}, counted, remoteIP(near))
	server.conns[c] = struct{}{}
	ended := make(chan struct{})
	go func() { c.serve(); close(ended) }()
	var msg []byte
	for i := range 20 {
		msg = append(msg, frame(metadata("t"), int32(i))...)
	}
	if len(msg) > classSize(0) {
		t.Fatal("the requests do not fit one buffer")
	}
	go func() {
		far.Write(msg[:4]) // a pipe hands over what a read takes
		far.Write(msg[4:])
	}()
	for i := range 20 {
		if id := int(binary.BigEndian.Uint32(readFrame(t, far))); id != i {
			t.Fatalf("answer to %d, want %d", id, i)
		}
	}
	far.Close()
	<-ended
	if n := counted.writes.Load(); n != 1 {
		t.Errorf("%d writes, want 1", n)
	}
}

// bodyOf is a body of bytes and regions, and what it should look like on the wire.
func bodyOf(t testing.TB, f vfs.File, regions ...int64) (*Body, []byte) {
	t.Helper()
	b := &Body{}
	var want []byte
	for i, n := range regions {
		piece := bytes.Repeat([]byte{byte('a' + i)}, 10*i+1)
		b.Buf = append(b.Buf, piece...)
		want = append(want, piece...)
		b.AddRegion(vfs.Region{File: f, Pos: int64(i) * 1000, Len: n})
		part := make([]byte, n)
		if _, err := f.ReadAt(part, int64(i)*1000); err != nil && n > 0 {
			t.Fatal(err)
		}
		want = append(want, part...)
	}
	b.Buf = append(b.Buf, "end"...)
	return b, append(want, "end"...)
}

// TestRegions sends regions that are copied and regions that are not, from files of the operating system and of memory.
func TestRegions(t *testing.T) {
	content := make([]byte, 5<<20)
	for i := range content {
		content[i] = byte(i * 31 >> 3)
	}
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, fsys := range []vfs.FS{vfs.OS(), vfs.NewMem()} {
		if _, ok := fsys.(*vfs.Mem); ok {
			if err := fsys.MkdirAll(filepath.Dir(name), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := vfs.WriteFile(fsys, name, content); err != nil {
				t.Fatal(err)
			}
		}
		f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var next atomic.Pointer[Body]
		var released atomic.Int32
		apis := []API{{Key: 1, Min: 4, Max: 18, Quick: true, Handle: func(_ context.Context, req *Request) Response {
			return Stream(req, next.Load(), func() { released.Add(1) })
		}}}
		_, address, _ := serve(t, apis, Limits{})
		nc := dial(t, address)
		for i, regions := range [][]int64{{}, {0}, {100}, {100, 200, 300}, {copyMax}, {copyMax + 1}, {100, 3 << 20, 50, 1 << 20, 20000}, {4 << 20, 30000, 30000, 30000, 30000, 30000, 30000}} {
			body, want := bodyOf(t, f, regions...)
			next.Store(body)
			nc.Write(frame(at(kmsg.NewPtrFetchRequest(), 12), int32(i)))
			b := readFrame(t, nc)
			if !bytes.Equal(b[5:], want) {
				t.Errorf("%T, regions %v: the body differs", fsys, regions)
			}
			waitFor(t, "the release", func() bool { return int(released.Load()) == i+1 })
		}
		// A file that has become shorter ends the connection: what was said of its length cannot be taken back.
		for _, n := range []int64{1000, 2 << 20} {
			body := &Body{}
			body.AddRegion(vfs.Region{File: f, Pos: int64(len(content)) - 10, Len: n})
			next.Store(body)
			was := released.Load()
			nc := dial(t, address)
			nc.Write(frame(at(kmsg.NewPtrFetchRequest(), 12), 1))
			if b, err := io.ReadAll(nc); isTimeout(err) || int64(len(b)) >= n {
				t.Errorf("%T: a region beyond the file gave %d bytes, %v", fsys, len(b), err)
			}
			waitFor(t, "the release", func() bool { return released.Load() == was+1 })
		}
	}
}
