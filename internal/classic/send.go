package classic

import (
	"encoding/binary"
	"errors"
	"io"
	"math"

	"github.com/quire-log/quire/internal/vfs"
)

// An ErrorCode is how 0.7's protocol tells errors.
type ErrorCode int16

const (
	UnknownError     ErrorCode = -1
	NoError          ErrorCode = 0
	OffsetOutOfRange ErrorCode = 1
	InvalidMessage   ErrorCode = 2
	WrongPartition   ErrorCode = 3
	InvalidFetchSize ErrorCode = 4
)

// Code is the code that tells err.
func Code(err error) ErrorCode {
	var (
		outside *OutOfRangeError
		corrupt *CorruptError
		invalid *InvalidEntryError
		large   *MessageTooLargeError
	)
	switch {
	case err == nil:
		return NoError
	case errors.As(err, &outside):
		return OffsetOutOfRange
	case errors.As(err, &corrupt), errors.As(err, &invalid), errors.As(err, &large):
		return InvalidMessage
	}
	return UnknownError
}

const (
	codeSize       = 2
	sendHeaderSize = lengthSize + codeSize
	// SendBytesMax is what a MessageSetSend can have in messages.
	SendBytesMax = math.MaxInt32 - codeSize
)

// A MessageSetSend is the messages of a fetch on their way to a socket:
//
//	0         4       6
//	+---------+-------+----------- - -
//	| length  | error | messages        length  2 + what messages has
//	+---------+-------+----------- - -
//
// The last message may be cut off: its reader sees it by the length. Close it once.
type MessageSetSend struct {
	Err   ErrorCode
	place place
	n     int64 // bytes of messages
}

// Send finds the messages at offset, at most bytesMax; they are read when they are sent. At the log's end there are none. Unlike
// Read it does not go over a hole, for who receives the bytes takes them to be at offset.
func (l *Log) Send(offset Offset, bytesMax int32) (*MessageSetSend, error) {
	p, err := l.locate(offset, false)
	if err != nil {
		return nil, err
	}
	return &MessageSetSend{place: p, n: max(0, min(p.rest, int64(bytesMax), SendBytesMax))}, nil
}

// Refuse is a MessageSetSend of an error and nothing else.
func Refuse(code ErrorCode) *MessageSetSend { return &MessageSetSend{Err: code} }

// Size is how many bytes WriteTo writes.
func (s *MessageSetSend) Size() int64 { return sendHeaderSize + s.n }

// WriteTo writes the header, then the file's bytes: by sendfile when w is a *net.TCPConn.
func (s *MessageSetSend) WriteTo(w io.Writer) (int64, error) {
	written, err := w.Write(appendSendHeader(nil, s.n, s.Err))
	if err != nil || s.n == 0 {
		return int64(written), err
	}
	n, err := vfs.Region{File: s.place.file, Pos: s.place.pos, Len: s.n}.WriteTo(w)
	return int64(written) + n, err
}

// Close lets go of the file.
func (s *MessageSetSend) Close() { s.place.release() }

func appendSendHeader(dst []byte, n int64, code ErrorCode) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(codeSize+n))
	return binary.BigEndian.AppendUint16(dst, uint16(code))
}

// A MultiMessageSetSend is the answers of a multi-fetch:
//
//	0         4       6
//	+---------+-------+----------------+----------------+- - -
//	| length  | error | MessageSetSend | MessageSetSend |         length  2 + what all MessageSetSends have
//	+---------+-------+----------------+----------------+- - -
type MultiMessageSetSend struct {
	Err   ErrorCode
	Sends []*MessageSetSend
}

// Size is how many bytes WriteTo writes: with its length field at most 4 + math.MaxInt32, which is for the maker to see to.
func (m *MultiMessageSetSend) Size() int64 {
	n := int64(sendHeaderSize)
	for _, s := range m.Sends {
		n += s.Size()
	}
	return n
}

// WriteTo writes the header, then each MessageSetSend.
func (m *MultiMessageSetSend) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(appendSendHeader(nil, m.Size()-sendHeaderSize, m.Err))
	written := int64(n)
	for _, s := range m.Sends {
		if err != nil {
			break
		}
		var k int64
		k, err = s.WriteTo(w)
		written += k
	}
	return written, err
}

// Close closes all of them.
func (m *MultiMessageSetSend) Close() {
	for _, s := range m.Sends {
		s.Close()
	}
}
