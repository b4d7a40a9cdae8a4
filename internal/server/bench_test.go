package server

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/wire"
)

// These go through a node's sockets with requests made beforehand, so that the client costs little.

// requestFrame is a request as bytes to send again and again.
func requestFrame(req kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench")).AppendRequest(nil, req, 1)
}

// readAnswer reads one answer and throws it away, through buf.
func readAnswer(nc net.Conn, buf []byte) (int64, error) {
	if _, err := io.ReadFull(nc, buf[:4]); err != nil {
		return 0, err
	}
	size := int64(binary.BigEndian.Uint32(buf))
	for left := size; left > 0; {
		n, err := nc.Read(buf[:min(left, int64(len(buf)))])
		if err != nil {
			return 0, err
		}
		left -= int64(n)
	}
	return size, nil
}

func BenchmarkNodeProduce(b *testing.B) {
	for _, size := range []int{4 << 10, 16 << 10, 128 << 10, 1 << 20} {
		for _, depth := range []int{1, 5} {
			b.Run(fmt.Sprintf("bytes=%d/depth=%d", size, depth), func(b *testing.B) {
				n := dataNode(b, b.TempDir(), "log.retention.bytes", "2000000000")
				c := dialNode(b, n)
				id := c.topic("t", 1, "max.message.bytes", "2000000")
				c.nc.SetDeadline(time.Time{})
				value := string(make([]byte, 1000))
				var values []string
				for range size / 1024 {
					values = append(values, value)
				}
				msg := requestFrame(produceRequest(9, "t", id, -1, pack(b, nil, values...)))
				buf := make([]byte, 64<<10)
				b.SetBytes(int64(len(msg)))
				b.ReportAllocs()
				for range depth - 1 {
					c.nc.Write(msg)
				}
				for b.Loop() {
					c.nc.Write(msg)
					if _, err := readAnswer(c.nc, buf); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkNodeFetch(b *testing.B) {
	n := dataNode(b, b.TempDir())
	c := dialNode(b, n)
	id := c.topic("t", 1, "max.message.bytes", "2000000")
	c.nc.SetDeadline(time.Time{})
	value := string(make([]byte, 1000))
	var values []string
	for range 64 {
		values = append(values, value)
	}
	for range 512 {
		c.put("t", pack(b, nil, values...))
	}
	for _, size := range []int32{1 << 10, 32 << 10, 256 << 10, 1 << 20, 8 << 20} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			t := fetchTopic("t", id, 0)
			t.Partitions[0].PartitionMaxBytes = size
			msg := requestFrame(fetchOf(12, t))
			buf := make([]byte, 1<<20)
			b.ReportAllocs()
			for b.Loop() {
				c.nc.Write(msg)
				got, err := readAnswer(c.nc, buf)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(got)
			}
		})
	}
}

// TestProduceAllocatesNothing keeps what a request allocates from growing with its records or its bytes.
func TestProduceAllocatesNothing(t *testing.T) {
	n := dataNode(t, t.TempDir())
	c := dialNode(t, n)
	id := c.topic("t", 1, "max.message.bytes", "2000000")
	perRequest := func(values ...string) (allocs, bytes float64) {
		body := produceRequest(13, "", id, -1, pack(t, nil, values...)).AppendTo(nil)
		req := wire.NewRequest(0, 13, nil, body)
		again := append([]byte(nil), body...)
		handle := func() {
			copy(body, again) // the log has written its offsets into the batch
			resp := n.handleProduce(t.Context(), req)
			if reason, closes := resp.Closes(); closes {
				t.Fatal(reason)
			}
			if b := resp.Body().Buf; binary.BigEndian.Uint16(b[1+16+1+4:]) != 0 {
				t.Fatalf("refused: %x", b)
			}
			resp.Done()
		}
		for range 10 {
			handle()
		}
		const runs = 50
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		allocs = testing.AllocsPerRun(runs, handle)
		runtime.ReadMemStats(&after)
		return allocs, float64(after.TotalAlloc-before.TotalAlloc) / (runs + 1)
	}
	var values []string
	for range 900 {
		values = append(values, string(make([]byte, 1000)))
	}
	for try := 0; ; try++ { // what else happens in the process allocates too, and a collection empties pools, but not every time
		few, fewBytes := perRequest("a")
		many, manyBytes := perRequest(values...)
		t.Logf("one record: %.0f allocations, %.0f bytes; 900 records of 1,000 bytes: %.0f, %.0f", few, fewBytes, many, manyBytes)
		if many <= few+2 && manyBytes <= fewBytes+10_000 && few <= 5 {
			return
		}
		if try == 9 {
			t.Fatalf("900 records cost %.0f allocations and %.0f bytes, one record %.0f and %.0f", many, manyBytes, few, fewBytes)
		}
	}
}
