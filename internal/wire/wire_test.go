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
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
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

func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
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
