package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/quire-log/quire/internal/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A logBook keeps what a server logs.
type logBook struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// serve starts a server on a loopback port; it is shut down with the test.
func serve(t testing.TB, apis []API, limits Limits) (s *Server, address string, log *logBook) {
	t.Helper()
	log = &logBook{}
	s = NewServer(apis, limits, slog.New(slog.NewTextHandler(log, nil)))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(Listener{Name: "PLAINTEXT", Listener: l}) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return s, l.Addr().String(), log
}

func dial(t testing.TB, address string) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	nc.SetDeadline(time.Now().Add(2 * time.Minute))
	t.Cleanup(func() { nc.Close() })
	return nc
}

// frame is a request as a client sends it.
func frame(req kmsg.Request, correlationID int32) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, req, correlationID)
}

func readFrame(t testing.TB, r io.Reader) []byte {
	t.Helper()
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		t.Fatalf("reading an answer: %v", err)
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(r, b); err != nil {
		t.Fatalf("reading an answer of %d bytes: %v", len(b), err)
	}
	return b
}

func wantClosed(t testing.TB, nc net.Conn, what string) {
	t.Helper()
	if b, err := io.ReadAll(nc); len(b) > 0 || isTimeout(err) {
		t.Errorf("%s: read %x, %v; want a closed connection", what, b, err)
	}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

func at[R interface{ SetVersion(int16) }](req R, version int16) R {
	req.SetVersion(version)
	return req
}

func metadata(topics ...string) *kmsg.MetadataRequest {
	req := at(kmsg.NewPtrMetadataRequest(), 12)
	for _, name := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &name
		req.Topics = append(req.Topics, t)
	}
	return req
}

// echo answers Metadata with the topics that it was asked for.
func echo(_ context.Context, req *Request) Response {
	var m kmsg.MetadataRequest
	if err := req.Decode(&m); err != nil {
		return Close(err)
	}
	resp := m.ResponseKind().(*kmsg.MetadataResponse)
	for _, t := range m.Topics {
		rt := kmsg.NewMetadataResponseTopic()
		name := strings.Clone(*t.Topic)
		rt.Topic = &name
		resp.Topics = append(resp.Topics, rt)
	}
	return Reply(resp)
}

var echoAPIs = []API{{Key: 3, Min: 0, Max: 13, Handle: echo, Quick: true}, {Key: 18, Min: 0, Max: 4, Handle: func(_ context.Context, req *Request) Response {
	var m kmsg.ApiVersionsRequest
	if err := req.Decode(&m); err != nil {
		return Close(err)
	}
	return Reply(m.ResponseKind())
}}}

func TestRequestsOnTheWire(t *testing.T) {
	_, address, _ := serve(t, echoAPIs, Limits{})
	for _, c := range []struct{ what, in, out string }{
		{"ApiVersions of the future", "0000000b 0012 0063 00000007 ffff 00", "00000010 00000007 0023 00000001 0012 0000 0004"},
		{"ApiVersions v0, header v1, response header v0", "0000000a 0012 0000 00000001 ffff", "0000000a 00000001 0000 00000000"},
		{"ApiVersions v3, header v2 with a tag, response header v0", "00000014 0012 0003 00000002 0001 61 01 05 01 00 0262 0263 00", "0000000c 00000002 0000 01 00000000 00"},
		{"Metadata v1, header v1, empty client id", "0000000e 0003 0001 7fffffff 0000 00000000", "00000010 7fffffff 00000000 ffffffff 00000000"},
		{"Metadata v12, null client id, response header v1", "0000000f 0003 000c ffffffff ffff 00 01 00 00 00",
			"00000011 ffffffff 00 00000000 01 00 ffffffff 01 00"},
	} {
		nc := dial(t, address)
		in, err := hex.DecodeString(strings.ReplaceAll(c.in, " ", ""))
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		nc.Write(in)
		got := readFrame(t, nc)
		want := strings.ReplaceAll(c.out, " ", "")
		if s := fmt.Sprintf("%08x%x", len(got), got); s != want {
			t.Errorf("%s:\n got %s\nwant %s", c.what, s, want)
		}
	}
}

func TestClosesOn(t *testing.T) {
	_, address, log := serve(t, echoAPIs, Limits{RequestBytesMax: 1000})
	for _, c := range []struct{ what, in string }{
		{"2 GiB", "7fffffff"},
		{"a negative length", "80000000"},
		{"length -1", "ffffffff"},
		{"one over the limit", "000003e9"},
		{"an empty frame", "00000000"},
		{"half a header", "00000006 0012 0000 0000"},
		{"an unknown key", "0000000a 270f 0000 00000001 ffff"},
		{"key -1", "0000000a ffff 0000 00000001 ffff"},
		{"a version above", "0000000f 0003 000e 00000001 ffff 00 01 00 00 00"},
		{"a version below", "0000000e 0003 ffff 00000001 ffff 00000000"},
		{"ApiVersions of the future without tags", "0000000a 0012 0063 00000007 ffff"},
		{"a client id beyond the frame", "0000000a 0012 0000 00000001 0005"},
		{"trailing bytes", "0000000b 0012 0000 00000001 ffff 00"},
		{"a truncated body", "0000000c 0003 0001 00000001 ffff 0000"},
		{"an array that cannot be", "0000000e 0003 0001 00000001 ffff 7fffffff"},
		{"tags that cannot be", "0000000c 0012 0003 00000001 ffff ff7f"},
	} {
		nc := dial(t, address)
		in, err := hex.DecodeString(strings.ReplaceAll(c.in, " ", ""))
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		nc.Write(in)
		wantClosed(t, nc, c.what)
	}
	if s := log.String(); !strings.Contains(s, "bytes are left over") && !strings.Contains(s, "lines left out") && strings.Count(s, "\n") < faultsPerSecond {
		t.Errorf("the log says little:\n%s", s)
	}
}

func TestOtherProtocols(t *testing.T) {
	for hello, hint := range map[string]string{
		"GET / HTTP/1.1\r\n\r\n": "HTTP", "POST /topics HTTP/1.1\r\n": "HTTP", "PRI * HTTP/2.0\r\n": "HTTP/2", "SSH-2.0-x\r\n": "SSH",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc": "TLS",
	} {
		_, address, log := serve(t, echoAPIs, Limits{})
		nc := dial(t, address)
		io.WriteString(nc, hello)
		wantClosed(t, nc, hello)
		if s := log.String(); strings.Count(s, "\n") != 1 || !strings.Contains(s, "looks like "+hint) {
			t.Errorf("%q: the log says %q", hello, s)
		}
	}
}

func TestFaultsAreCounted(t *testing.T) {
	log := &logBook{}
	f := faultLog{log: slog.New(slog.NewTextHandler(log, nil))}
	for range 5 * faultsPerSecond {
		f.report("fault")
	}
	if n := strings.Count(log.String(), "\n"); n != faultsPerSecond {
		t.Errorf("%d lines, want %d", n, faultsPerSecond)
	}
	f.second = f.second.Add(-time.Second)
	f.report("fault")
	if want := fmt.Sprintf(`"lines left out before"=%d`, 4*faultsPerSecond); !strings.Contains(log.String(), want) {
		t.Errorf("no %s in\n%s", want, log)
	}
}

// TestSplitFrames sends the same requests in pieces of every kind.
func TestSplitFrames(t *testing.T) {
	_, address, _ := serve(t, echoAPIs, Limits{})
	long := strings.Repeat("x", 30000)
	var all []byte
	var names []string
	for i := range 60 {
		name := fmt.Sprint("t", i)
		if i%7 == 3 {
			name = long[:i*500]
		}
		names = append(names, name)
		all = append(all, frame(metadata(name), int32(i))...)
	}
	for _, piece := range []int{1, 3, 4, 5, 1000, 4096, 65536, len(all)} {
		nc := dial(t, address)
		go func() {
			for rest := all; len(rest) > 0; {
				n := min(piece, len(rest))
				nc.Write(rest[:n])
				rest = rest[n:]
			}
		}()
		for i, name := range names {
			b := readFrame(t, nc)
			if id := int(binary.BigEndian.Uint32(b)); id != i {
				t.Fatalf("pieces of %d: answer %d has correlation id %d", piece, i, id)
			}
			resp := at(kmsg.NewPtrMetadataResponse(), 12)
			if err := resp.ReadFrom(b[5:]); err != nil || len(resp.Topics) != 1 || *resp.Topics[0].Topic != name {
				t.Fatalf("pieces of %d: answer %d is wrong: %v", piece, i, err)
			}
		}
		if piece == 1 {
			all = all[:0] // once is enough for the slowest; the rest goes by a shorter list
			names = names[:9]
			for i, name := range names {
				all = append(all, frame(metadata(name), int32(i))...)
			}
		}
	}
}

// TestLargeFrames checks that frames of sizes around the classes of buffers come whole, alternating with small ones.
func TestLargeFrames(t *testing.T) {
	sum := func(_ context.Context, req *Request) Response {
		b := &Body{}
		b.Buf = binary.BigEndian.AppendUint64(b.Buf, uint64(len(req.Body)))
		var s uint64
		for i, c := range req.Body {
			s += uint64(c) * uint64(i+1)
		}
		b.Buf = binary.BigEndian.AppendUint64(b.Buf, s)
		return Stream(req, b, nil)
	}
	_, address, _ := serve(t, []API{{Key: 0, Min: 3, Max: 13, Handle: sum, Quick: true}}, Limits{})
	nc := dial(t, address)
	for i, size := range []int{10, 5000, 8188, 8192, 70000, 100, 1 << 20, 1<<20 + 4096, 20, 6 << 20, 6 << 20, 30, 1 << 20, 9000} {
		body := make([]byte, size)
		for j := range body {
			body[j] = byte(j*7 + i)
		}
		head := []byte{0, 0, 0, 3, 0, 0, 0, byte(i), 0xff, 0xff}
		msg := binary.BigEndian.AppendUint32(nil, uint32(len(head)+size))
		msg = append(append(msg, head...), body...)
		go nc.Write(msg)
		b := readFrame(t, nc)
		var s uint64
		for j, c := range body {
			s += uint64(c) * uint64(j+1)
		}
		if n := binary.BigEndian.Uint64(b[4:]); n != uint64(size) || binary.BigEndian.Uint64(b[12:]) != s {
			t.Fatalf("frame %d of %d bytes came as %d, or changed", i, size, n)
		}
	}
}

// TestClaimsCostNothing has many connections claim 50 MB and send ten bytes. keeps I2
func TestClaimsCostNothing(t *testing.T) {
	s, address, _ := serve(t, echoAPIs, Limits{})
	for range 50 {
		nc := dial(t, address)
		nc.Write(append(binary.BigEndian.AppendUint32(nil, 50_000_000), make([]byte, 10)...))
	}
	waitFor(t, "connections with a buffer", func() bool { return s.Connections() == 50 })
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.nc.SetReadDeadline(time.Now()) // ends the goroutine's use of the fields
	}
}

func TestGrowthIsBounded(t *testing.T) {
	server := NewServer(echoAPIs, Limits{}, nil)
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	c := newConn(server, Listener{Name: "X"}, near, remoteIP(near))
	const claimed = 64 << 20
	c.in = getBuffer(classSize(0))
	binary.BigEndian.PutUint32(c.in.b, claimed)
	for c.w = 4; c.w < claimed/2; c.w = len(c.in.b) {
		c.makeRoom(4 + claimed)
		if limit := 2*max(4*c.w, growAtOnce) + classSlack; len(c.in.b) > limit {
			t.Fatalf("after %d bytes the buffer has %d, want at most %d", c.w, len(c.in.b), limit)
		}
	}
	c.proven, c.w = provenMax, 100
	c.in = getBuffer(200)
	c.makeRoom(4 + claimed)
	if len(c.in.b) < provenMax || len(c.in.b) > 2*provenMax+classSlack {
		t.Errorf("a connection that has sent large frames gets %d bytes", len(c.in.b))
	}
}

func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// TestIdleHoldsNothing looks at a connection that has been served and waits. keeps I4
func TestIdleHoldsNothing(t *testing.T) {
	server := NewServer(echoAPIs, Limits{}, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client := dial(t, l.Addr().String())
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c := newConn(server, Listener{Name: "X"}, nc, remoteIP(nc))
	server.conns[c] = struct{}{}
	var idle atomic.Bool
	read := c.tryRead
	c.tryRead = func(fd uintptr) bool {
		done := read(fd)
		idle.Store(!done && c.in == nil && c.outBuf == nil)
		return done
	}
	ended := make(chan struct{})
	go func() { c.serve(); close(ended) }()
	for i := range 3 {
		client.Write(frame(metadata("t"), int32(i)))
		readFrame(t, client)
		waitFor(t, "an idle connection without buffers", idle.Load)
	}
	client.Close()
	<-ended
}

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

func TestPanicsCostTheirConnection(t *testing.T) {
	apis := append([]API{{Key: 19, Min: 0, Max: 7, Handle: func(context.Context, *Request) Response { panic("oh") }}}, echoAPIs...)
	_, address, log := serve(t, apis, Limits{})
	other := dial(t, address)
	nc := dial(t, address)
	nc.Write(frame(at(kmsg.NewPtrCreateTopicsRequest(), 2), 1))
	wantClosed(t, nc, "a handler that panics")
	if s := log.String(); !strings.Contains(s, "panic=oh") || !strings.Contains(s, "wire_test.go") {
		t.Errorf("the log says %q", s)
	}
	other.Write(frame(metadata("t"), 1))
	readFrame(t, other)
}

func TestCloseAndNoResponse(t *testing.T) {
	var next atomic.Pointer[Response]
	answer := func(r Response) { next.Store(&r) }
	answer(NoResponse())
	apis := append([]API{{Key: 0, Min: 3, Max: 13, Quick: true, Handle: func(context.Context, *Request) Response { return *next.Load() }}}, echoAPIs...)
	_, address, log := serve(t, apis, Limits{})
	nc := dial(t, address)
	produce := at(kmsg.NewPtrProduceRequest(), 3)
	nc.Write(append(frame(produce, 1), frame(metadata("t"), 2)...))
	if id := binary.BigEndian.Uint32(readFrame(t, nc)); id != 2 {
		t.Errorf("the first answer is to %d", id)
	}
	answer(Close(errors.New("for a reason")))
	nc.Write(append(frame(produce, 3), frame(metadata("t"), 4)...))
	wantClosed(t, nc, "Close")
	if !strings.Contains(log.String(), "for a reason") {
		t.Errorf("the log says %q", log)
	}
}

func TestDecodeDefaults(t *testing.T) {
	for v := int16(0); v <= 13; v++ {
		req := at(metadata(), v)
		var got kmsg.MetadataRequest
		r := Request{Key: 3, Version: v, Body: req.AppendTo(nil)}
		if err := r.Decode(&got); err != nil {
			t.Fatal(err)
		}
		if want := v < 4; got.AllowAutoTopicCreation != want {
			t.Errorf("Metadata v%d: AllowAutoTopicCreation is %v", v, got.AllowAutoTopicCreation)
		}
	}
	u := at(kmsg.NewPtrUpdateFeaturesRequest(), 0)
	u.FeatureUpdates = append(u.FeatureUpdates, kmsg.NewUpdateFeaturesRequestFeatureUpdate())
	u.FeatureUpdates[0].UpgradeType = 0
	var got kmsg.UpdateFeaturesRequest
	r := Request{Key: u.Key(), Version: 0, Body: u.AppendTo(nil)}
	if err := r.Decode(&got); err != nil || got.FeatureUpdates[0].UpgradeType != 1 {
		t.Errorf("UpdateFeatures v0: %v, %+v", err, got)
	}
}

// TestDecodeRefuses cuts and lengthens a request of every API.
func TestDecodeRefuses(t *testing.T) {
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		req := kmsg.RequestForKey(key)
		if req == nil {
			continue
		}
		for v := int16(0); v <= req.MaxVersion(); v++ {
			req.SetVersion(v)
			if d, ok := req.(interface{ Default() }); ok {
				d.Default()
			}
			whole := req.AppendTo(nil)
			decode := func(b []byte) error {
				return (&Request{Key: key, Version: v, Body: b}).Decode(kmsg.RequestForKey(key))
			}
			if err := decode(whole); err != nil {
				t.Errorf("key %d v%d: %v", key, v, err)
			}
			if err := decode(append(whole, 0)); !errors.Is(err, errTrailing) {
				t.Errorf("key %d v%d with a byte more: %v", key, v, err)
			}
			if len(whole) > 0 {
				if err := decode(whole[:len(whole)-1]); !errors.Is(err, errShort) {
					t.Errorf("key %d v%d with a byte less: %v", key, v, err)
				}
			}
		}
	}
}

func TestClientSoftwareIsCopied(t *testing.T) {
	server := NewServer(echoAPIs, Limits{}, nil)
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	c := newConn(server, Listener{Name: "X"}, near, remoteIP(near))
	view := []byte("librdkafka")
	c.SetClientSoftware(viewString(view), "2")
	copy(view, "XXXXXXXXXX")
	if name, version := c.ClientSoftware(); name != "librdkafka" || version != "2" {
		t.Errorf("client software is %s %s", name, version)
	}
	c.SetClientSoftware(strings.Repeat("n", 1<<20), strings.Repeat("2", 1<<20))
	if name, version := c.ClientSoftware(); len(name) > softwareMax || len(version) > softwareMax {
		t.Errorf("%d bytes are kept for as long as the connection lives", len(name)+len(version))
	}
}

// FuzzFrames feeds a connection with anything: it must end, and hold no more than the bounds allow.
func FuzzFrames(f *testing.F) {
	f.Add(frame(metadata("t"), 1))
	f.Add(append(frame(metadata("a", "b"), 1), frame(at(kmsg.NewPtrApiVersionsRequest(), 3), 2)...))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{0, 0, 0, 11, 0, 18, 0, 99, 0, 0, 0, 7, 0xff, 0xff, 0})
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, in []byte) {
		server := NewServer(echoAPIs, Limits{RequestBytesMax: 1 << 20}, nil)
		near, far := net.Pipe()
		c := newConn(server, Listener{Name: "X"}, near, remoteIP(near))
		server.conns[c] = struct{}{}
		ended := make(chan struct{})
		go func() { c.serve(); close(ended) }()
		go func() {
			far.Write(in)
			far.SetReadDeadline(time.Now()) // ends the copy below
			far.Close()
		}()
		io.Copy(io.Discard, far)
		<-ended
	})
}

// FuzzHeader checks that what a header's parser accepts is what kmsg writes.
func FuzzHeader(f *testing.F) {
	f.Add(frame(metadata("t"), 1)[4:])
	f.Add([]byte{0, 18, 0, 99, 0, 0, 0, 7, 0xff, 0xff, 0})
	f.Add([]byte{0, 18, 0, 3, 0, 0, 0, 2, 0, 1, 0x61, 1, 5, 1, 0, 2, 0x62, 2, 0x63, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Request
		err := r.parseHeader(b, func(key int16) (int16, bool) { return 3, key < 100 })
		if err != nil {
			return
		}
		if len(r.Body) > len(b)-10 {
			t.Errorf("a body of %d bytes in a frame of %d", len(r.Body), len(b))
		}
		if r.ClientID == nil && !bytes.Equal(b[8:10], []byte{0xff, 0xff}) && int16(binary.BigEndian.Uint16(b[8:])) >= 0 {
			t.Error("a client id is lost")
		}
	})
}

// BenchmarkEcho is the cost of a small request and its answer, alone and 16 at a time.
func BenchmarkEcho(b *testing.B) {
	apis := []API{{Key: 3, Min: 0, Max: 13, Quick: true, Handle: func(_ context.Context, req *Request) Response {
		return Stream(req, &small, nil)
	}}}
	for _, depth := range []int{1, 16} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			_, address, _ := serve(b, apis, Limits{})
			nc := dial(b, address)
			nc.SetDeadline(time.Time{})
			var msg []byte
			for range depth {
				msg = append(msg, frame(metadata(), 1)...)
			}
			answer := make([]byte, depth*(4+5+len(small.Buf)))
			b.ReportAllocs()
			for b.Loop() {
				nc.Write(msg)
				if _, err := io.ReadFull(nc, answer); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*depth), "ns/request")
		})
	}
}

var small = Body{Buf: make([]byte, 50)}
