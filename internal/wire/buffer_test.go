package wire

import (
	"encoding/binary"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

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
