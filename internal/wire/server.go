package wire

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/vfs"
)

// Limits bound what connections may do. Zero means Kafka's default.
type Limits struct {
	RequestBytesMax     int32         // socket.request.max.bytes
	IdleMax             time.Duration // connections.max.idle.ms
	ConnectionsMax      int           // max.connections
	ConnectionsPerIPMax int           // max.connections.per.ip
}

// A Listener is an accepting socket under a listener's name.
type Listener struct {
	Name     string // such as PLAINTEXT
	Listener net.Listener
}

// A Server serves the APIs of its table on listeners.
type Server struct{ unwritten struct{} }

// NewServer makes a server for a table of APIs. log gets one line per fault of a client, rate-limited.
func NewServer(apis []API, l Limits, log *slog.Logger) *Server { panic("unwritten") }

// Serve accepts on l until Shutdown; it may be called for several listeners.
func (s *Server) Serve(l Listener) error { panic("unwritten") }

// Shutdown closes listeners, cancels the contexts of waiting handlers, lets those that write finish until ctx ends, and returns when no connection is left.
func (s *Server) Shutdown(ctx context.Context) error { panic("unwritten") }

// An API is a row of the table: a request's key, the versions that it is served at, and who answers.
type API struct {
	Key      int16
	Min, Max int16
	Handle   Handler
}

// A Handler answers one request. ctx ends when the server shuts down or the connection is known to be dead.
// It runs on the connection's goroutine and may wait.
type Handler func(ctx context.Context, req *Request) Response

// A Request is one request, decoded as views of its frame: nothing of it may be kept after the handler returned.
type Request struct {
	Key, Version  int16
	CorrelationID int32
	ClientID      *string
	Body          []byte // after the header, undecoded
	Received      time.Time
	Conn          *Conn
}

// Decode reads the body into m at the request's version, as views (UnsafeReadFrom), fixes the two defaults that kmsg leaves wrong for a server
// (Metadata v0-3 AllowAutoTopicCreation, UpdateFeatures v0 UpgradeType), and refuses trailing bytes.
func (r *Request) Decode(m kmsg.Request) error { panic("unwritten") }

// A Conn is one client's connection, as handlers see it.
type Conn struct{ unwritten struct{} }

func (c *Conn) ID() uint64           { panic("unwritten") }
func (c *Conn) Listener() string     { panic("unwritten") }
func (c *Conn) RemoteAddr() net.Addr { panic("unwritten") }
func (c *Conn) LocalAddr() net.Addr  { panic("unwritten") } // the address that the client dialled

// ClientSoftware is what ApiVersions v3+ told, empty before. SetClientSoftware is for its handler.
func (c *Conn) ClientSoftware() (name, version string) { panic("unwritten") }
func (c *Conn) SetClientSoftware(name, version string) { panic("unwritten") }

// A Response is what a handler answers with: made by Reply, Stream, NoResponse or Close.
type Response struct{ unwritten struct{} }

// Reply answers with a message, encoded at its version. Its key decides the header's version; ApiVersions always has version 0.
func Reply(m kmsg.Response) Response { panic("unwritten") }

// Stream answers with a body written by hand: bytes and regions of files. release, if not nil, is called once, when all is sent or the connection is gone.
func Stream(req *Request, b *Body, release func()) Response { panic("unwritten") }

// NoResponse answers nothing (acks=0). Close ends the connection for the reason given.
func NoResponse() Response        { panic("unwritten") }
func Close(reason error) Response { panic("unwritten") }

// A Body gathers the pieces of a response in order. The zero Body is ready.
type Body struct {
	// Buf takes bytes by append; a Region lies at the place that Buf had reached when it was added.
	Buf       []byte
	unwritten struct{}
}

// AddRegion puts a region of a file next.
func (b *Body) AddRegion(r vfs.Region) { panic("unwritten") }
