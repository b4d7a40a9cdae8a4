package classic

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// ServerOptions bound what clients may ask of a Server. Zero stands for the default.
type ServerOptions struct {
	RequestBytesMax int           // of a frame: 100 MiB
	ConnectionsMax  int           // one more is closed at once: 1024
	IdleTimeout     time.Duration // between two requests: 10 minutes
	Log             *slog.Logger  // nil: discard
}

const (
	// Whoever sends or takes bytes has transferGrace, and for each byte as long as transferRate allows.
	transferGrace = 30 * time.Second
	transferRate  = 32 << 10 // bytes a second

	// frameFirst is the room for a frame before any of it came: it grows with what comes, whatever the length says.
	frameFirst = 4 << 10
	// frameKept is the room that a connection keeps from one request to the next.
	frameKept = 64 << 10

	offsetsMax = 1 << 16 // that one offsets request is answered with

	// A listener that fails, for want of descriptors mostly, is tried again after this.
	acceptPause = 50 * time.Millisecond
)

// A Server answers the requests of 0.7 from a Manager's logs:
//
//	response = length:int32  error:int16  body           length counts error and body
//	produce, multi-produce: none
//	fetch        -> MessageSetSend
//	multi-fetch  -> MultiMessageSetSend
//	offsets      -> count:int32 { offset:int64 }, newest first
//
// Each connection is a goroutine, which answers its requests in their order. What is no request, and a produce that cannot be
// done, which the protocol has no answer for, ends its connection and no other.
type Server struct {
	m *Manager
	o ServerOptions

	connections sync.WaitGroup

	// mu guards the fields below. It is a leaf.
	mu     sync.Mutex
	open   map[io.Closer]struct{} // listeners and connections
	conns  int
	closed bool
}

// NewServer makes a server of m's logs. m is closed after the server.
func NewServer(m *Manager, o ServerOptions) *Server {
	if o.RequestBytesMax <= 0 {
		o.RequestBytesMax = 100 << 20
	}
	if o.ConnectionsMax <= 0 {
		o.ConnectionsMax = 1024
	}
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = 10 * time.Minute
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{m: m, o: o, open: map[io.Closer]struct{}{}}
}

// Serve accepts connections until Close, which makes it return nil.
func (s *Server) Serve(l net.Listener) error {
	if !s.add(l, false) {
		return l.Close()
	}
	defer s.remove(l, false)
	for {
		c, err := l.Accept()
		if err != nil {
			if s.isClosed() || errors.Is(err, net.ErrClosed) {
				return nil
			}
			s.o.Log.Error("connection was not accepted", "error", err)
			time.Sleep(acceptPause)
			continue
		}
		if !s.add(c, true) {
			s.o.Log.Warn("connection was refused: there are too many", "client", c.RemoteAddr().String(), "max", s.o.ConnectionsMax)
			_ = c.Close()
		}
	}
}

// add notes a listener or a connection, which it starts; false: none is wanted.
func (s *Server) add(c io.Closer, isConn bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || isConn && s.conns >= s.o.ConnectionsMax {
		return false
	}
	s.open[c] = struct{}{}
	if conn, ok := c.(net.Conn); ok && isConn {
		s.conns++
		s.connections.Go(func() {
			defer s.remove(conn, true)
			s.serve(conn)
		})
	}
	return true
}

func (s *Server) remove(c io.Closer, isConn bool) {
	_ = c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	if isConn {
		s.conns--
	}
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Close ends listeners and connections, and returns when their goroutines are gone.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for c := range s.open {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.connections.Wait()
}

// serve is the goroutine of a connection.
func (s *Server) serve(c net.Conn) {
	var buf []byte
	for {
		if cap(buf) > frameKept {
			buf = nil
		}
		frame, err := s.readFrame(c, buf[:0])
		if err == nil {
			err = s.answer(c, frame)
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && !s.isClosed() {
				s.o.Log.Warn("connection ends", "client", c.RemoteAddr().String(), "error", err)
			}
			return
		}
		buf = frame
	}
}

// transferTime is what n bytes may take.
func transferTime(n int64) time.Duration {
	return transferGrace + time.Duration(n/transferRate)*time.Second
}

// readFrame reads a request, without its length. io.EOF: the client is done.
func (s *Server) readFrame(c net.Conn, buf []byte) ([]byte, error) {
	var head [lengthSize]byte
	_ = c.SetReadDeadline(time.Now().Add(s.o.IdleTimeout))
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return nil, err
	}
	length := int32(binary.BigEndian.Uint32(head[:]))
	if length < 0 || int(length) > s.o.RequestBytesMax {
		return nil, fmt.Errorf("a request of %d bytes: at most %d", length, s.o.RequestBytesMax)
	}
	_ = c.SetReadDeadline(time.Now().Add(transferTime(int64(length))))
	for n := int(length); len(buf) < n; {
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, min(n, max(frameFirst, 2*cap(buf)))), buf...)
		}
		k, err := c.Read(buf[len(buf):min(n, cap(buf))])
		buf = buf[:len(buf)+k]
		if err != nil && len(buf) < n {
			return nil, fmt.Errorf("after %d of %d bytes of a request: %w", len(buf), n, noEOF(err))
		}
	}
	return buf, nil
}

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// answer does what a frame asks for. An error ends the connection.
func (s *Server) answer(c net.Conn, frame []byte) error {
	kind, parts, err := parseRequest(frame)
	if err != nil {
		return err
	}
	switch kind {
	case produceRequest, multiProduceRequest:
		return s.produce(parts)
	case fetchRequest:
		send := s.fetch(parts[0], SendBytesMax)
		defer send.Close()
		return write(c, send)
	case multiFetchRequest:
		return s.multiFetch(c, parts)
	}
	return write(c, answerBytes(s.offsets(parts[0])))
}

// An answer is what a connection writes.
type answer interface {
	io.WriterTo
	Size() int64
}

func write(c net.Conn, a answer) error {
	_ = c.SetWriteDeadline(time.Now().Add(transferTime(a.Size())))
	_, err := a.WriteTo(c)
	return err
}

// answerBytes is an answer that is at hand.
type answerBytes []byte

func (a answerBytes) Size() int64 { return int64(len(a)) }

func (a answerBytes) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(a)
	return int64(n), err
}

// log returns the log that a request is about, nil if the partition is good and has nothing yet.
func (s *Server) log(tp TopicPartition) (*Log, ErrorCode) {
	if tp.Partition < 0 || tp.Partition >= s.m.Partitions(tp.Topic) {
		return nil, WrongPartition
	}
	return s.m.Log(tp), NoError
}

// fetch finds at most bytesMax of what r asks for.
func (s *Server) fetch(r request, bytesMax int64) *MessageSetSend {
	if r.max <= 0 {
		return Refuse(InvalidFetchSize)
	}
	l, code := s.log(r.tp)
	if code != NoError {
		return Refuse(code)
	}
	if l == nil {
		// 0.7 answers so at whatever offset.
		return Refuse(NoError)
	}
	send, err := l.Send(r.offset, int32(min(int64(r.max), bytesMax)))
	if err != nil {
		code := Code(err)
		if code == UnknownError {
			s.o.Log.Error("fetch failed", "partition", r.tp.String(), "offset", int64(r.offset), "error", err)
		}
		return Refuse(code)
	}
	return send
}

func (s *Server) multiFetch(c net.Conn, parts []request) error {
	var m MultiMessageSetSend
	defer m.Close()
	// The whole has a length of 32 bits: who asks for more gets less of the last ones.
	left := int64(math.MaxInt32 - codeSize - len(parts)*sendHeaderSize)
	for _, r := range parts {
		send := s.fetch(r, left)
		left -= send.n
		m.Sends = append(m.Sends, send)
	}
	return write(c, &m)
}

// produce appends all parts, or none if one cannot be.
func (s *Server) produce(parts []request) error {
	logs := make([]*Log, len(parts))
	for i, r := range parts {
		if r.tp.Partition == -1 {
			r.tp.Partition = rand.Int32N(s.m.Partitions(r.tp.Topic))
		}
		// Looked at before the log is made, for nonsense makes no topic.
		if _, err := checkRun(r.tp, s.m.o.Config.MessageBytesMax, r.set); err != nil {
			return err
		}
		var err error
		if logs[i], err = s.m.Create(r.tp); err != nil {
			return err
		}
	}
	for i, l := range logs {
		if _, err := l.AppendEntries(parts[i].set); err != nil {
			return err
		}
	}
	return nil
}

// offsets answers an offsets request.
func (s *Server) offsets(r request) []byte {
	l, code := s.log(r.tp)
	var offsets []Offset
	switch {
	case code != NoError:
	case l != nil:
		var err error
		if offsets, err = l.OffsetsBefore(r.time, int(min(r.max, offsetsMax))); err != nil {
			code = Code(err)
			s.o.Log.Error("offsets were not found", "partition", r.tp.String(), "error", err)
		}
	case r.max > 0 && (r.time == LatestTime || r.time == EarliestTime):
		offsets = []Offset{0} // of a log that has nothing yet
	}
	if code != NoError {
		return appendSendHeader(nil, 0, code)
	}
	b := appendSendHeader(nil, int64(4+8*len(offsets)), NoError)
	b = binary.BigEndian.AppendUint32(b, uint32(len(offsets)))
	for _, o := range offsets {
		b = binary.BigEndian.AppendUint64(b, uint64(o))
	}
	return b
}
