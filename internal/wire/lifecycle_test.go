package wire

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestConnectionLimits(t *testing.T) {
	s, address, _ := serve(t, echoAPIs, Limits{ConnectionsMax: 2})
	a, b, c := dial(t, address), dial(t, address), dial(t, address)
	ask := func(nc net.Conn) {
		nc.Write(frame(metadata("t"), 1))
		readFrame(t, nc)
	}
	ask(a)
	ask(b)
	c.Write(frame(metadata("t"), 1))
	if n := s.Connections(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
	a.Close()
	readFrame(t, c) // in the place of a

	s, address, _ = serve(t, echoAPIs, Limits{ConnectionsPerIPMax: 1})
	ask(dial(t, address))
	wantClosed(t, dial(t, address), "one too many from an address")
	if n := s.Connections(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// failingListener fails some times before it accepts.
type failingListener struct {
	net.Listener
	failures atomic.Int32
}

func (l *failingListener) Accept() (net.Conn, error) {
	if l.failures.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Err: errors.New("too many open files")}
	}
	return l.Listener.Accept()
}

func TestAcceptBacksOff(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(echoAPIs, Limits{}, nil)
	failing := &failingListener{Listener: l}
	failing.failures.Store(3)
	served := make(chan error, 1)
	begin := time.Now()
	go func() { served <- s.Serve(Listener{Name: "X", Listener: failing}) }()
	nc := dial(t, l.Addr().String())
	nc.Write(frame(metadata("t"), 1))
	readFrame(t, nc)
	if took := time.Since(begin); took < 2*acceptBackoffMin {
		t.Errorf("served after %v: three failures should have cost more", took)
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := s.Serve(Listener{Name: "late", Listener: l}); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// TestShutdown has one idle connection, one whose handler waits, and one whose client takes nothing. keeps I6
func TestShutdown(t *testing.T) {
	big := make([]byte, 64<<20)
	waiting := make(chan struct{}, 2)
	apis := append([]API{
		{Key: 1, Min: 4, Max: 18, Handle: func(ctx context.Context, req *Request) Response {
			waiting <- struct{}{}
			<-ctx.Done()
			return Stream(req, &Body{Buf: []byte("late")}, nil)
		}},
		{Key: 2, Min: 0, Max: 7, Handle: func(ctx context.Context, req *Request) Response {
			waiting <- struct{}{}
			return Stream(req, &Body{Buf: big}, nil)
		}},
	}, echoAPIs...)
	s, address, _ := serve(t, apis, Limits{})
	idle, held, deaf := dial(t, address), dial(t, address), dial(t, address)
	idle.Write(frame(metadata("t"), 1))
	readFrame(t, idle)
	held.Write(append(frame(at(kmsg.NewPtrFetchRequest(), 4), 2), frame(metadata("never"), 3)...))
	<-waiting
	deaf.Write(frame(at(kmsg.NewPtrListOffsetsRequest(), 1), 4))
	<-waiting
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	down := make(chan error, 1)
	go func() { down <- s.Shutdown(ctx) }()
	wantClosed(t, idle, "the idle one")
	if b := readFrame(t, held); string(b[4:]) != "late" {
		t.Errorf("the one that waited was answered %q", b)
	}
	wantClosed(t, held, "the one that waited, after its answer")
	select {
	case err := <-down:
		t.Errorf("shutdown did not wait for the client that takes nothing: %v", err)
	default:
	}
	cancel()
	if err := <-down; !errors.Is(err, context.Canceled) {
		t.Errorf("shutdown with a client that takes nothing: %v", err)
	}
	if n := s.Connections(); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}

func TestSweeper(t *testing.T) {
	gone := make(chan struct{})
	big := make([]byte, 64<<20)
	apis := append([]API{
		{Key: 1, Min: 4, Max: 18, Handle: func(ctx context.Context, req *Request) Response {
			<-ctx.Done()
			close(gone)
			return NoResponse()
		}},
		{Key: 2, Min: 0, Max: 7, Handle: func(_ context.Context, req *Request) Response {
			return Stream(req, &Body{Buf: big}, nil)
		}},
	}, echoAPIs...)

	s, address, log := serve(t, apis, Limits{IdleMax: 50 * time.Millisecond})
	begin := time.Now()
	wantClosed(t, dial(t, address), "an idle connection")
	if took := time.Since(begin); took < 50*time.Millisecond {
		t.Errorf("closed after %v", took)
	}
	waitFor(t, "the end of a client that takes nothing", func() bool {
		if s.Connections() == 0 { // on a busy machine its request may come too late, and it goes as an idle one
			dial(t, address).Write(frame(at(kmsg.NewPtrListOffsetsRequest(), 1), 4))
		}
		return strings.Contains(log.String(), "takes no answer")
	})
	waitFor(t, "its goroutine", func() bool { return s.Connections() == 0 })

	s, address, _ = serve(t, apis, Limits{})
	nc := dial(t, address)
	nc.Write(frame(at(kmsg.NewPtrFetchRequest(), 4), 1))
	waitFor(t, "its handler", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.conns {
			return c.phase.Load() == handling
		}
		return false
	})
	nc.Close()
	select {
	case <-gone:
	case <-time.After(time.Minute):
		t.Error("the handler of a client that is gone still waits")
	}
}
