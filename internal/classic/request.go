package classic

import (
	"encoding/binary"
	"fmt"
)

// The requests of 0.7:
//
//	request  = length:int32  type:int16  body
//	header   = topicLength:int16 topic partition:int32
//	produce  = header  setLength:int32 messageSet
//	fetch    = header  offset:int64 maxSize:int32
//	multifetch   = count:int16 { header offset:int64 maxSize:int32 }
//	multiproduce = count:int16 { header setLength:int32 messageSet }
//	offsets  = header  time:int64 maxNumber:int32
const (
	produceRequest      = 0
	fetchRequest        = 1
	multiFetchRequest   = 2
	multiProduceRequest = 3
	offsetsRequest      = 4
)

// A RequestError means that a frame is no request; its connection ends.
type RequestError struct {
	Pos    int // in the frame, behind its length
	Reason string
}

func (e *RequestError) Error() string {
	return fmt.Sprintf("byte %d of the request: %s", e.Pos, e.Reason)
}

// A request is one part of a frame: a produce, a fetch or an offsets request. Its slices are the frame's.
type request struct {
	tp     TopicPartition
	set    []byte // of a produce
	offset Offset // of a fetch
	time   int64  // of an offsets request
	max    int32  // bytes of a fetch, number of an offsets request
}

// requestMin is the least that a part of a multi-request has: an empty topic's header and a set's length.
const requestMin = 2 + 4 + 4

// decoder reads a frame.
type decoder struct {
	b   []byte
	pos int
	err error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = &RequestError{d.pos, fmt.Sprintf(format, args...)}
	}
}

func (d *decoder) take(n int, what string) []byte {
	if d.err != nil {
		return nil
	}
	if n < 0 || n > len(d.b)-d.pos {
		d.fail("%s has %d bytes, and %d are left", what, n, len(d.b)-d.pos)
		return nil
	}
	d.pos += n
	return d.b[d.pos-n : d.pos : d.pos]
}

func (d *decoder) int16(what string) int16 {
	if b := d.take(2, what); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (d *decoder) int32(what string) int32 {
	if b := d.take(4, what); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (d *decoder) int64(what string) int64 {
	if b := d.take(8, what); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (d *decoder) part(kind int16) (r request) {
	r.tp.Topic = string(d.take(int(d.int16("the topic's length")), "the topic"))
	r.tp.Partition = d.int32("the partition")
	switch kind {
	case produceRequest, multiProduceRequest:
		r.set = d.take(int(d.int32("the set's length")), "the message set")
	case fetchRequest, multiFetchRequest:
		r.offset = Offset(d.int64("the offset"))
		r.max = d.int32("the maximum size")
	case offsetsRequest:
		r.time = d.int64("the time")
		r.max = d.int32("the maximum number")
	}
	if d.err == nil && !legalTopic(r.tp.Topic) {
		d.fail("no topic may have the name %.40q", r.tp.Topic)
	}
	return r
}

// parseRequest reads a frame, which is what follows the length.
func parseRequest(frame []byte) (kind int16, parts []request, err error) {
	d := decoder{b: frame}
	n := 1
	switch kind = d.int16("the type"); kind {
	case produceRequest, fetchRequest, offsetsRequest:
	case multiFetchRequest, multiProduceRequest:
		n = int(d.int16("the count"))
		if n < 0 || n > (len(frame)-d.pos)/requestMin {
			d.fail("%d parts, and %d bytes are left", n, len(frame)-d.pos)
		}
	default:
		d.fail("unknown type %d", kind)
	}
	for i := 0; i < n && d.err == nil; i++ {
		parts = append(parts, d.part(kind))
	}
	if d.err == nil && d.pos < len(frame) {
		d.fail("%d bytes too many", len(frame)-d.pos)
	}
	return kind, parts, d.err
}
