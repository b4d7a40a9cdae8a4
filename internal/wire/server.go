package wire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Limits bound what connections may do. Zero means Kafka's default; SetConnectionsMax can also set a bound of zero, which lets nobody in.
type Limits struct {
	RequestBytesMax     int32         // socket.request.max.bytes
	IdleMax             time.Duration // connections.max.idle.ms; of a client that takes nothing, too
	ConnectionsMax      int           // max.connections: no more are accepted until one ends
	ConnectionsPerIPMax int           // max.connections.per.ip: one more is closed at once
}

func (l *Limits) setDefaults() {
	if l.RequestBytesMax <= 0 {
		l.RequestBytesMax = 104857600
	}
	if l.IdleMax <= 0 {
		l.IdleMax = 600 * time.Second
	}
	if l.ConnectionsMax <= 0 {
		l.ConnectionsMax = math.MaxInt32
	}
	if l.ConnectionsPerIPMax <= 0 {
		l.ConnectionsPerIPMax = math.MaxInt32
	}
}

// A Listener is an accepting socket under a listener's name.
type Listener struct {
	Name     string // such as PLAINTEXT
	Listener net.Listener
	Login    *Login // nil: everybody is served
}

// An API is a row of the table: a request's key, the versions that it is served at, and who answers.
type API struct {
	Key      int16
	Min, Max int16
	Handle   Handler
	// Quick: the handler calls Request.Waits before it waits, so that answers gathered before it need not leave before it runs.
	Quick bool
}

// A Handler answers one request. ctx ends when the server shuts down or the connection is known to be dead.
// It runs on the connection's goroutine and may wait.
type Handler func(ctx context.Context, req *Request) Response

// A Server serves the APIs of its table on listeners.
type Server struct {
	limits       Limits // the two of connections are guarded by mu, the rest never changes
	apis         map[int16]*API
	flexibleFrom map[int16]int16 // the first version of a key with the compact types
	faults       faultLog
	start        time.Time
	ids          atomic.Uint64
	draining     atomic.Bool

	ctx    context.Context // ends with Shutdown: the parent of every connection's
	cancel context.CancelFunc

	// goroutines are those of connections and the sweeper.
	goroutines sync.WaitGroup

	// mu guards the fields below; nothing is taken under it.
	mu        sync.Mutex
	changed   sync.Cond // a connection ended, or the server closes
	listeners map[net.Listener]struct{}
	conns     map[*Conn]struct{}
	perIP     map[netip.Addr]int
	sweeping  bool
	closed    bool
}

// NewServer makes a server for a table of APIs. log gets one line per fault of a client, rate-limited.
func NewServer(apis []API, l Limits, log *slog.Logger) *Server {
	l.setDefaults()
	s := &Server{
		limits: l, apis: map[int16]*API{}, flexibleFrom: map[int16]int16{}, start: time.Now(),
		listeners: map[net.Listener]struct{}{}, conns: map[*Conn]struct{}{}, perIP: map[netip.Addr]int{},
	}
	s.changed.L = &s.mu
	s.faults.log = log
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for _, a := range apis {
		s.apis[a.Key] = &a
		s.flexibleFrom[a.Key] = firstFlexible(a.Key)
	}
	return s
}

// firstFlexible finds the first version of an API's requests that has compact types and header v2.
func firstFlexible(key int16) int16 {
	req := kmsg.RequestForKey(key)
	if req == nil {
		return math.MaxInt16
	}
	for v := int16(0); v <= req.MaxVersion(); v++ {
		req.SetVersion(v)
		if req.IsFlexible() {
			return v
		}
	}
	return math.MaxInt16
}

func (s *Server) headerFlexibleFrom(key int16) (int16, bool) {
	v, ok := s.flexibleFrom[key]
	return v, ok
}

const (
	acceptBackoffMin = 5 * time.Millisecond
	acceptBackoffMax = time.Second
)

// Serve accepts on l until Shutdown, which closes it; it may be called for several listeners. It returns nil after Shutdown.
func (s *Server) Serve(l Listener) error {
	if !s.addListener(l.Listener) {
		return l.Listener.Close()
	}
	backoff := acceptBackoffMin
	for s.awaitSlot() {
		nc, err := l.Listener.Accept()
		switch {
		case err == nil:
			backoff = acceptBackoffMin
			s.admit(l, nc)
		case s.draining.Load():
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("listener %s: %w", l.Name, err)
		default:
			// Out of descriptors, or a connection that was gone before it was taken: others go on, and this may pass.
			s.faults.report("cannot accept a connection", "listener", l.Name, "error", err, "again in", backoff)
			select {
			case <-time.After(backoff):
			case <-s.ctx.Done():
				return nil
			}
			backoff = min(2*backoff, acceptBackoffMax)
		}
	}
	return nil
}

func (s *Server) addListener(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.listeners[l] = struct{}{}
	if !s.sweeping {
		s.sweeping = true
		s.goroutines.Go(s.sweep)
	}
	return true
}

// awaitSlot returns true once there may be one more connection, false when the server closes.
func (s *Server) awaitSlot() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.conns) >= s.limits.ConnectionsMax && !s.closed {
		s.changed.Wait()
	}
	return !s.closed
}

func remoteIP(nc net.Conn) netip.Addr {
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// admit begins a connection, or closes it when its address has too many.
func (s *Server) admit(l Listener, nc net.Conn) {
	ip := remoteIP(nc)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.perIP[ip] >= s.limits.ConnectionsPerIPMax {
		nc.Close()
		if !s.closed {
			s.faults.report("refused a connection: its address has too many", "address", ip, "max.connections.per.ip", s.limits.ConnectionsPerIPMax)
		}
		return
	}
	c := newConn(s, l, nc, ip)
	s.conns[c] = struct{}{}
	s.perIP[ip]++
	s.goroutines.Go(c.serve)
}

// forget is called by a connection as its last act.
func (s *Server) forget(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if s.perIP[c.ip]--; s.perIP[c.ip] == 0 {
		delete(s.perIP, c.ip)
	}
	s.changed.Broadcast()
}

// Connections is how many there are now.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Shutdown closes listeners, cancels the contexts of waiting handlers, lets those that write finish until ctx ends, and returns when no connection is left.
// Requests that were read but not begun are not answered. The error is ctx's if it ended first.
func (s *Server) Shutdown(ctx context.Context) error {
	s.draining.Store(true)
	s.mu.Lock()
	s.closed = true
	for l := range s.listeners {
		l.Close()
	}
	// A read that waits ends by its deadline, and so does any later one; writes go on.
	for c := range s.conns {
		c.nc.SetReadDeadline(time.Unix(1, 0))
	}
	s.changed.Broadcast()
	s.mu.Unlock()
	s.cancel()

	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.conns {
			c.nc.Close()
		}
	})
	s.goroutines.Wait()
	if stop() {
		return nil
	}
	return ctx.Err()
}

// clock is the time since the server was made; connections stamp themselves with it.
func (s *Server) clock() time.Duration { return time.Since(s.start) }
