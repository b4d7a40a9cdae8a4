package tools

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/record"
)

// A producerConn is a connection that sends batches as Java's producer makes them. franz-go gives up a codec that does not make a batch
// smaller, and numbers the records of a batch without a producer id from 0; Java compresses whatever it was told to compress, and such
// a batch has no sequence. So franz-go is left to decide what goes where and when, and writes plain batches; they are finished here,
// on their way out. Nothing else that passes is touched.
//
// The road not taken is a producer of our own: all of leaders, retries, sequences and transactions, for two fields of a batch.
//
// franz-go writes a request in one Write, and writes from one goroutine at a time; reads may run beside.
type producerConn struct {
	net.Conn
	codec record.Codec
	buf   []byte // the request, anew
	batch []byte // the batches in it
}

// dialTimeout is franz-go's own.
const dialTimeout = 10 * time.Second

// dialProducer returns how a producer that compresses by codec connects, by dial.
func dialProducer(dial dialFunc, codec record.Codec) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err // not a producerConn around nil
		}
		return &producerConn{Conn: conn, codec: codec}, nil
	}
}

// A request begins with its header. From version 9 of Produce on, tagged fields, of which franz-go has none, end it:
//
//	0        4     6         8               12                 14
//	+--------+-----+---------+---------------+------------------+-----------+-----------+------
//	| length | key | version | correlationId | client id's size | client id | [no tags] | body
//	+--------+-----+---------+---------------+------------------+-----------+-----------+------
//
// length counts the bytes after itself; a client id of size -1 is none.
const (
	requestKeyAt      = 4
	requestVersionAt  = 6
	requestClientIDAt = 12
	requestHeaderMin  = 14
)

// Write sends one request, and reports the bytes of p that it stands for: those that leave may be more or less.
func (c *producerConn) Write(p []byte) (int, error) {
	if len(p) < requestHeaderMin || kmsg.Key(binary.BigEndian.Uint16(p[requestKeyAt:])) != kmsg.Produce {
		return c.Conn.Write(p)
	}
	if err := c.finish(p); err != nil {
		return 0, fmt.Errorf("produce request to %s: %w", c.RemoteAddr(), err)
	}
	if n, err := c.Conn.Write(c.buf); err != nil {
		return min(n, len(p)), err
	}
	return len(p), nil
}

// finish makes c.buf the Produce request p with its batches finished.
func (c *producerConn) finish(p []byte) error {
	req := kmsg.NewPtrProduceRequest()
	req.Version = int16(binary.BigEndian.Uint16(p[requestVersionAt:]))
	body := requestHeaderMin + max(0, int(int16(binary.BigEndian.Uint16(p[requestClientIDAt:]))))
	if req.IsFlexible() {
		body++
	}
	if body > len(p) {
		return fmt.Errorf("a header of %d bytes in %d", body, len(p))
	}
	if err := req.ReadFrom(p[body:]); err != nil {
		return err
	}
	c.batch = c.batch[:0]
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			part := &req.Topics[i].Partitions[j]
			if part.Records == nil {
				continue // franz-go gave its records up meanwhile
			}
			start := len(c.batch)
			var err error
			if c.batch, err = appendFinished(c.batch, part.Records, c.codec); err != nil {
				return fmt.Errorf("partition %d: %w", part.Partition, err)
			}
			part.Records = c.batch[start:] // stays, though c.batch may move: what it moved from is not written again
		}
	}
	c.buf = req.AppendTo(append(c.buf[:0], p[:body]...))
	binary.BigEndian.PutUint32(c.buf, uint32(len(c.buf)-4))
	return nil
}

// appendFinished appends a batch of franz-go's as Java would have made it.
func appendFinished(dst, records []byte, codec record.Codec) ([]byte, error) {
	batch, err := record.FirstBatch(records)
	if err != nil {
		return dst, err
	}
	if len(batch) != len(records) {
		return dst, fmt.Errorf("%d bytes after a batch of %d", len(records)-len(batch), len(batch))
	}
	return record.AppendCompressed(dst, batch, codec, record.DefaultLevel)
}
