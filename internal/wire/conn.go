package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quire-log/quire/internal/vfs"
)

const (
	// provenMax bounds the buffer that a connection gets at once because it has sent as large a frame before.
	provenMax = 4 << 20
	// growAtOnce is what a frame gets before anything of it has come.
	growAtOnce = 4 * 4096
	// gatherMax bounds the answers that are gathered before they are sent.
	gatherMax = 64 << 10
	// copyMax is the size up to which a region is copied among the gathered bytes: below, a copy costs less than sendfile
	// with a system call of its own.
	copyMax = 32 << 10
	// regionStep is how much of a region is sent before the sweeper sees that the client takes it.
	regionStep = 1 << 20
	// calmMax is how often a buffer may be larger than was needed before the connection takes smaller ones.
	calmMax = 16
	// turnMax is how many requests a connection handles before others have their turn.
	turnMax = 16
	// restMin is how long a client says nothing if it rests, and briskMin how many requests without a rest make it one that will not.
	restMin  = 100 * time.Millisecond
	briskMin = 8
)

// Phases of a connection, for the sweeper.
const (
	reading int32 = iota
	handling
	writing
)

// A Conn is one client's connection, as handlers see it.
type Conn struct {
	id       uint64
	server   *Server
	listener string
	nc       net.Conn
	ip       netip.Addr
	raw      syscall.RawConn // nil: not a socket
	ctx      context.Context // ends when the client is gone, or with the server
	cancel   context.CancelFunc
	software atomic.Pointer[[2]string]

	phase atomic.Int32
	since atomic.Int64 // server's clock when phase began or bytes moved last, ns

	// The rest belongs to the connection's goroutine.
	request Request
	turn    int                   // requests handled since others had theirs
	brisk   int8                  // requests since the client rested, up to briskMin
	later   *later                // if not nil, what the answer to request waits for
	tryRead func(fd uintptr) bool // c.readSocket, made once
	readErr error
	trySend func(fd uintptr) bool // c.sendSocket
	unsent  []byte                // what it is to send
	more    bool                  // at once more will follow
	sendErr error
	first   [4]byte // where a connection that is no socket waits for its next request

	in    *buffer // nil: nothing is read
	r, w  int     // in.b[r:w] has come and is not handled
	class int8    // of the next buffer
	calm  int     // how often in was larger than it needed to be
	high  int     // the most that was in it

	proven int // the largest frame that came whole, up to provenMax

	session *session // nil: the listener asks nobody to log in

	outBuf *buffer // where out began
	out    []byte  // gathered answers
}

func newConn(s *Server, l Listener, nc net.Conn, ip netip.Addr) *Conn {
	c := &Conn{id: s.ids.Add(1), server: s, listener: l.Name, nc: nc, ip: ip}
	if l.Login != nil {
		c.session = &session{login: l.Login}
	}
	if sc, ok := nc.(*net.TCPConn); ok {
		c.raw, _ = sc.SyscallConn()
	}
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	c.tryRead, c.trySend = c.readSocket, c.sendSocket
	c.enter(reading)
	return c
}

func (c *Conn) ID() uint64           { return c.id }
func (c *Conn) Listener() string     { return c.listener }
func (c *Conn) RemoteAddr() net.Addr { return c.nc.RemoteAddr() }
func (c *Conn) LocalAddr() net.Addr  { return c.nc.LocalAddr() } // the address that the client dialled

// ClientSoftware is what ApiVersions v3+ told, empty before. SetClientSoftware is for its handler.
func (c *Conn) ClientSoftware() (name, version string) {
	if p := c.software.Load(); p != nil {
		return p[0], p[1]
	}
	return "", ""
}

// softwareMax bounds how much of either is kept: it lives as long as the connection, and nothing bounds what a client calls itself.
const softwareMax = 128

func (c *Conn) SetClientSoftware(name, version string) {
	// Copies, since they may be views of the request.
	c.software.Store(&[2]string{strings.Clone(name[:min(len(name), softwareMax)]), strings.Clone(version[:min(len(version), softwareMax)])})
}

func (c *Conn) enter(phase int32) {
	c.since.Store(int64(c.server.clock()))
	c.phase.Store(phase)
}

var (
	errDrained = errors.New("the server closes")
	errFlushed = errors.New("cannot send") // the cause is wrapped
)

// serve is the connection's goroutine. Before a client rests, or waits for a Later, a new one takes the connection over: a goroutine keeps
// a stack as large as ever it needed, waiting needs the smallest, and there are thousands of clients that do nothing but say every few
// seconds that they live. keeps I1, since the one ends where the other begins
func (c *Conn) serve() {
	if c.run() {
		c.server.goroutines.Go(c.serve)
	}
}

// run reads, handles and answers until one of the three fails, or, which it returns true of, until the client is likely to rest or is to
// wait for a Later.
func (c *Conn) run() (rests bool) {
	defer c.end(&rests)
	done := c.later != nil && c.later.await(c.ctx)
	for {
		err := c.next(done)
		if err != nil {
			c.tell(err)
			return false
		}
		if c.later != nil {
			return true
		}
		if c.server.draining.Load() {
			c.flush()
			return false
		}
		// Requests that wait in the buffer need no system call that would let others run: hundreds of such connections, each with the
		// scheduler's 10 ms to itself, would keep everybody else waiting for seconds.
		if c.turn++; c.turn == turnMax {
			c.turn = 0
			runtime.Gosched()
		}
		if c.brisk < briskMin && c.raw != nil && c.r == c.w {
			if err := c.flush(); err != nil {
				c.tell(err)
				return false
			}
			c.letGo()
			return true
		}
	}
}

// next answers one request, or comes to a Later. If it came to one before, that is over: done, or not.
func (c *Conn) next(done bool) error {
	if l := c.later; l != nil {
		c.later = nil
		return c.respond(l.answer(done))
	}
	frame, err := c.nextFrame()
	if err != nil {
		return err
	}
	return c.answer(frame)
}

// end leaves nothing of the connection behind, unless it merely rests. keeps I3, I6
func (c *Conn) end(rests *bool) {
	if p := recover(); p != nil {
		c.server.faults.panicked(c, p, debug.Stack())
	} else if *rests {
		return
	}
	c.cancel()
	c.nc.Close()
	putBuffer(c.in)
	putBuffer(c.outBuf)
	c.in, c.outBuf, c.out = nil, nil, nil
	c.server.forget(c)
}

// A frameError is a frame that no Kafka client sends.
type frameError struct {
	size int32
	hint string // what it looks like, if anything
}

func (e *frameError) Error() string {
	if e.hint != "" {
		return fmt.Sprintf("not a Kafka request: it looks like %s", e.hint)
	}
	return fmt.Sprintf("a request of %d bytes", e.size)
}

// nextFrame returns the next request without its length, which stays valid until the next call. Before it reads, it sends what is gathered.
func (c *Conn) nextFrame() ([]byte, error) {
	for {
		need := 4
		if have := c.w - c.r; have >= 4 {
			size := int32(binary.BigEndian.Uint32(c.in.b[c.r:]))
			if size < 0 || size > c.frameMax() {
				return nil, &frameError{size, looksLike(c.in.b[c.r : c.r+4])}
			}
			need = 4 + int(size)
			if have >= need {
				frame := c.in.b[c.r+4 : c.r+need : c.r+need]
				c.r += need
				c.proven = min(max(c.proven, need), provenMax)
				return frame, nil
			}
		}
		if err := c.flush(); err != nil {
			return nil, err
		}
		if c.server.draining.Load() {
			return nil, errDrained
		}
		c.makeRoom(need)
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
}

// makeRoom sees to it that more of a request of need bytes can be read behind what has come, or lets go of an empty buffer. keeps I2, I4
func (c *Conn) makeRoom(need int) {
	if c.in == nil {
		return
	}
	have := c.w - c.r
	if have == 0 {
		c.letGo()
		return
	}
	if c.r+need <= len(c.in.b) {
		return
	}
	grown := min(need, max(4*have, growAtOnce, c.proven))
	if grown <= len(c.in.b) {
		copy(c.in.b, c.in.b[c.r:c.w])
	} else {
		b := getBuffer(grown)
		copy(b.b, c.in.b[c.r:c.w])
		putBuffer(c.in)
		c.in, c.high = b, 0
		c.class = max(c.class, classFor(min(grown, provenMax)))
		c.calm = 0
	}
	c.r, c.w = 0, have
}

// letGo gives an empty buffer back.
func (c *Conn) letGo() {
	if c.in == nil {
		return
	}
	c.settle()
	putBuffer(c.in)
	c.in, c.r, c.w, c.high = nil, 0, 0, 0
}

// settle chooses the class of the next buffer by what was in this one. A client that sends many requests at once gets a buffer that holds several.
func (c *Conn) settle() {
	const severalMax = 4 // 64 KiB
	switch {
	case c.high == len(c.in.b) && c.class < severalMax:
		c.class, c.calm = c.class+1, 0
	case c.class > 0 && c.high <= classSize(c.class-1):
		if c.calm++; c.calm >= calmMax {
			c.class, c.calm = c.class-1, 0
		}
	default:
		c.calm = 0
	}
}

// fill reads what has come, and waits for something to come; while it waits for the first byte of a request it holds no buffer.
func (c *Conn) fill() error {
	c.enter(reading)
	if c.raw != nil {
		c.readErr = nil
		if err := c.raw.Read(c.tryRead); err != nil {
			return err
		}
		return c.readErr
	}
	if c.in == nil {
		n, err := c.nc.Read(c.first[:])
		if n > 0 {
			c.in = getBuffer(classSize(c.class))
			c.w = copy(c.in.b, c.first[:n])
			return nil
		}
		return err
	}
	n, err := c.nc.Read(c.in.b[c.w:])
	c.w += n
	c.high = max(c.high, c.w)
	if n > 0 {
		return nil
	}
	return err
}

// answer handles one request, and gathers or sends its answer.
func (c *Conn) answer(frame []byte) error {
	if c.session != nil && c.session.raw {
		return c.answerToken(frame)
	}
	req := &c.request
	req.Conn = c
	if err := req.parseHeader(frame, c.server.headerFlexibleFrom); err != nil {
		return fmt.Errorf("bad request: %w", err)
	}
	if c.session != nil {
		if err := c.session.admit(req.Key, time.Now()); err != nil { // keeps I7
			return err
		}
	}
	api := c.server.apis[req.Key]
	if req.Version < api.Min || req.Version > api.Max {
		if req.Key != apiVersionsKey {
			return fmt.Errorf("unsupported version %d of API key %d", req.Version, req.Key)
		}
		at := c.begin()
		c.out = appendResponseHeader(c.out, req.CorrelationID, req.Key, req.flexible)
		c.out = appendUnsupportedApiVersions(c.out, api)
		c.finish(at, 0)
		return nil
	}
	if !api.Quick && len(c.out) > 0 { // keeps I5
		if err := c.flush(); err != nil {
			return err
		}
	}
	req.Received = time.Now()
	now := req.Received.Sub(c.server.start)
	if rest := now - time.Duration(c.since.Swap(int64(now))); rest >= restMin {
		c.brisk = 0
	} else if c.brisk < briskMin {
		c.brisk++
	}
	c.phase.Store(handling)
	resp := api.Handle(c.ctx, req)
	if resp.kind == kindLater {
		c.flushBeforeWait() // keeps I5
		c.later = resp.later
		return nil
	}
	return c.respond(resp)
}

// respond gathers or sends the answer to the request.
func (c *Conn) respond(resp Response) error {
	req := &c.request
	defer resp.done()
	switch resp.kind {
	case kindReply, kindFail:
		if resp.kind == kindFail {
			c.delayFailure()
		}
		at := c.begin()
		c.out = appendResponseHeader(c.out, req.CorrelationID, resp.message.Key(), resp.message.IsFlexible())
		c.out = resp.message.AppendTo(c.out)
		c.finish(at, 0)
		if resp.kind == kindFail {
			if err := c.flush(); err != nil {
				return err
			}
			return &closeError{resp.reason}
		}
	case kindStream:
		if err := c.appendBody(req, resp.body); err != nil {
			return err
		}
	case kindClose:
		return &closeError{resp.reason}
	}
	if len(c.out) >= gatherMax {
		return c.flush()
	}
	return nil
}

type closeError struct{ reason error }

func (e *closeError) Error() string { return e.reason.Error() }
func (e *closeError) Unwrap() error { return e.reason }

// begin makes room for the length of a response, finish writes it; more bytes follow by other ways.
func (c *Conn) begin() (at int) {
	if c.outBuf == nil {
		c.outBuf = getBuffer(classSize(0))
		c.out = c.outBuf.b[:0]
	}
	at = len(c.out)
	c.out = append(c.out, 0, 0, 0, 0)
	return at
}

func (c *Conn) finish(at int, more int64) {
	binary.BigEndian.PutUint32(c.out[at:], uint32(int64(len(c.out)-at-4)+more))
}

// appendBody gathers a body's bytes and small regions; before a large region it sends what is gathered, then the region without copying it.
func (c *Conn) appendBody(req *Request, b *Body) error {
	at := c.begin()
	c.out = appendResponseHeader(c.out, req.CorrelationID, req.Key, req.flexible)
	c.finish(at, b.Len())
	done := 0
	for _, p := range b.regions {
		if err := c.appendBytes(b.Buf[done:p.at]); err != nil {
			return err
		}
		done = p.at
		var err error
		if p.region.Len <= copyMax {
			err = c.appendRegion(p.region)
		} else {
			err = c.sendRegion(p.region)
		}
		if err != nil {
			return err
		}
	}
	return c.appendBytes(b.Buf[done:])
}

// appendBytes gathers p, or sends it when it is large.
func (c *Conn) appendBytes(p []byte) error {
	if len(p) < gatherMax {
		room, err := c.room(len(p))
		copy(room, p)
		return err
	}
	if err := c.flush(); err != nil {
		return err
	}
	return c.write(p)
}

// room makes n more bytes of out, whose content is for the caller to fill; what is gathered already is sent when it would be too much.
func (c *Conn) room(n int) ([]byte, error) {
	if len(c.out)+n > 2*gatherMax {
		if err := c.flush(); err != nil {
			return nil, err
		}
	}
	if c.outBuf == nil || cap(c.out)-len(c.out) < n {
		// A pooled buffer of the size needed, in place of what append would make.
		b := getBuffer(len(c.out) + n)
		out := append(b.b[:0], c.out...)
		putBuffer(c.outBuf)
		c.outBuf, c.out = b, out
	}
	at := len(c.out)
	c.out = c.out[:at+n]
	return c.out[at:], nil
}

func (c *Conn) appendRegion(r vfs.Region) error {
	room, err := c.room(int(r.Len))
	if err != nil {
		return err
	}
	if n, err := r.File.ReadAt(room, r.Pos); n < int(r.Len) {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("reading %s at %d: %w", r.File.Name(), r.Pos, err)
	}
	return nil
}

func (c *Conn) sendRegion(r vfs.Region) error {
	if err := c.flushBefore(); err != nil {
		return err
	}
	for r.Len > 0 {
		c.enter(writing)
		step := r
		step.Len = min(step.Len, regionStep)
		if _, err := step.WriteTo(c.nc); err != nil {
			return fmt.Errorf("%w: %s at %d: %w", errFlushed, r.File.Name(), r.Pos, err)
		}
		r.Pos, r.Len = r.Pos+step.Len, r.Len-step.Len
	}
	return nil
}

// flush sends what is gathered and lets go of its buffer.
func (c *Conn) flush() error {
	if c.outBuf == nil {
		return nil
	}
	var err error
	if len(c.out) > 0 {
		err = c.write(c.out)
	}
	putBuffer(c.outBuf) // what append made beyond it is garbage
	c.outBuf, c.out = nil, nil
	return err
}

// flushBefore is flush when a region follows.
func (c *Conn) flushBefore() error {
	if c.raw != nil && len(c.out) > 0 {
		c.enter(writing)
		if err := c.send(c.out, true); err != nil {
			return fmt.Errorf("%w: %w", errFlushed, err)
		}
		c.out = c.out[:0]
	}
	return c.flush()
}

func (c *Conn) write(p []byte) error {
	c.enter(writing)
	var err error
	if c.raw != nil && len(p) <= briefMax {
		err = c.send(p, false)
	} else {
		_, err = c.nc.Write(p)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errFlushed, err)
	}
	return nil
}

// flushBeforeWait sends what is gathered. A failure shows at the next write, or as the end of c.ctx.
func (c *Conn) flushBeforeWait() {
	if len(c.out) == 0 {
		return
	}
	if c.flush() != nil {
		c.cancel()
	}
	c.enter(handling)
}

// tell logs why the connection ends, unless its client or this server simply ended it.
func (c *Conn) tell(err error) {
	var closed *closeError
	switch {
	case errors.Is(err, errDrained), c.server.draining.Load(), c.ctx.Err() != nil: // the server closes, or the client is gone
	case errors.As(err, &closed):
		name, version := c.ClientSoftware()
		c.server.faults.report("closed a connection", "client", c.nc.RemoteAddr(), "client.id", c.request.clientID,
			"software", strings.TrimSpace(name+" "+version), "reason", closed.reason)
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.ErrClosedPipe):
	default:
		c.server.faults.report("closed a connection", "client", c.nc.RemoteAddr(), "reason", err)
	}
}
