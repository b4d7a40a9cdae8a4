package wire

import (
	"context"
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/vfs"
)

// A Response is what a handler answers with: made by Reply, ReplyThen, Stream, NoResponse, Close, Fail or Later.
type Response struct {
	kind    responseKind
	message kmsg.Response
	body    *Body
	release func()
	reason  error
	later   *later
}

type responseKind int8

const (
	kindNone responseKind = iota
	kindReply
	kindStream
	kindClose
	kindFail
	kindLater
)

// Reply answers with a message, encoded at its version. Its key decides the header's version; ApiVersions always has version 0.
func Reply(m kmsg.Response) Response { return Response{kind: kindReply, message: m} }

// ReplyThen is Reply, and release, if not nil, is called once, when the message is encoded or the connection is gone.
func ReplyThen(m kmsg.Response, release func()) Response {
	return Response{kind: kindReply, message: m, release: release}
}

// Stream answers with a body written by hand: bytes and regions of files. release, if not nil, is called once, when all is sent or the connection is gone.
func Stream(req *Request, b *Body, release func()) Response {
	return Response{kind: kindStream, body: b, release: release}
}

// NoResponse answers nothing (acks=0). Close ends the connection for the reason given.
func NoResponse() Response        { return Response{} }
func Close(reason error) Response { return Response{kind: kindClose, reason: reason} }

// Fail answers with a message, after the delay of a failed login, and ends the connection for the reason given.
func Fail(m kmsg.Response, reason error) Response {
	return Response{kind: kindFail, message: m, reason: reason}
}

// Later answers with what answer makes once done tells, or with done false when the handler's context has ended first; it is no Later
// again. It is for handlers that wait for what other clients do: thousands of connections may wait so, and they do where next to nothing
// is on the stack. The request must be kept.
func Later(done <-chan struct{}, answer func(done bool) Response) Response {
	return Response{kind: kindLater, later: &later{done, answer}}
}

// A later is what a Later waits for, and what comes then.
type later struct {
	done   <-chan struct{}
	answer func(done bool) Response
}

// After is what f makes of the response, of a Later once it is there.
func (r Response) After(f func(Response) Response) Response {
	if l := r.later; l != nil {
		return Later(l.done, func(done bool) Response { return f(l.answer(done)) })
	}
	return f(r)
}

// Await waits for the response of a Later, for tests of handlers.
func (r Response) Await(ctx context.Context) Response {
	if l := r.later; l != nil {
		return l.answer(l.await(ctx))
	}
	return r
}

func (l *later) await(ctx context.Context) bool {
	select {
	case <-l.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// Message is the message of a Reply, nil of other responses. Body is the body of a Stream. For tests of handlers.
func (r Response) Message() kmsg.Response { return r.message }
func (r Response) Body() *Body            { return r.body }

// Closes tells whether the response ends the connection, and why.
func (r Response) Closes() (reason error, closes bool) {
	return r.reason, r.kind == kindClose || r.kind == kindFail
}

// Done calls what was to be released, as sending it would, for tests of handlers.
func (r Response) Done() { r.done() }

// done calls release once.
func (r *Response) done() {
	if f := r.release; f != nil {
		r.release = nil
		f()
	}
}

// A Body gathers the pieces of a response in order. The zero Body is ready.
type Body struct {
	// Buf takes bytes by append; a Region lies at the place that Buf had reached when it was added.
	Buf     []byte
	regions []placed
	size    int64 // of the regions
}

// A placed region follows Buf[:at] and the regions before it.
type placed struct {
	at     int
	region vfs.Region
}

// AddRegion puts a region of a file next.
func (b *Body) AddRegion(r vfs.Region) {
	if r.Len <= 0 {
		return
	}
	b.regions = append(b.regions, placed{len(b.Buf), r})
	b.size += r.Len
}

// Len is the size of all pieces in bytes.
func (b *Body) Len() int64 { return int64(len(b.Buf)) + b.size }

// Reset makes b empty and keeps its memory.
func (b *Body) Reset() {
	clear(b.regions)
	b.Buf, b.regions, b.size = b.Buf[:0], b.regions[:0], 0
}

// apiVersionsKey is the one API whose responses always have header v0, so that a client of any age can read them.
const apiVersionsKey = 18

// A response's header, behind the length of the frame, is the correlation id, and in version 1 (flexible) a tag section, which is empty.
func appendResponseHeader(dst []byte, correlationID int32, key int16, flexible bool) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlationID))
	if flexible && key != apiVersionsKey {
		dst = append(dst, 0)
	}
	return dst
}

// appendUnsupportedApiVersions answers an ApiVersions request of a version that is not served: the body of version 0 with error 35 and
// the range of this one API, by which the client chooses again.
func appendUnsupportedApiVersions(dst []byte, a *API) []byte {
	dst = binary.BigEndian.AppendUint16(dst, 35)
	dst = binary.BigEndian.AppendUint32(dst, 1)
	dst = binary.BigEndian.AppendUint16(dst, apiVersionsKey)
	dst = binary.BigEndian.AppendUint16(dst, uint16(a.Min))
	return binary.BigEndian.AppendUint16(dst, uint16(a.Max))
}
