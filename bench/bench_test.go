// Package bench measures a node from outside: `quire serve` as a process of its own, with requests made beforehand
// (append, fetch) or through franz-go (the whole way). Beside each benchmark's own figures stands what the broker's process used:
// cpu-s/GiB, user and system time of all its threads for each GiB of records.
//
//	go test -run '^$' -bench . ./bench
package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// built is the folder with the broker's program; nothing is built when no benchmark runs.
var built string

// program builds the broker once.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "quire-bench-")
	if err != nil {
		return "", err
	}
	built = dir
	out, err := exec.Command("go", "build", "-o", filepath.Join(dir, "quire"), "../cmd/quire").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building quire: %w\n%s", err, out)
	}
	return filepath.Join(dir, "quire"), nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

// A node is a broker's process with one topic, t, of one partition.
type node struct {
	addr string
	pid  int
}

func start(tb testing.TB) node {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	broker, err := program()
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(broker, "serve", "--override", "log.dirs="+tb.TempDir(), "--override", "listeners=PLAINTEXT://"+addr,
		"--override", "admin.listener=", "--override", "log.retention.bytes=1000000000", "--override", "log.retention.check.interval.ms=500",
		"--override", "log.initial.task.delay.ms=500", "--override", "log.segment.bytes=268435456", "--override", "log.segment.delete.delay.ms=100")
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	})
	n := node{addr, cmd.Process.Pid}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			break
		}
		if time.Now().After(deadline) {
			tb.Fatal("the broker does not listen")
		}
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		tb.Fatal(err)
	}
	defer cl.Close()
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "t", 1, 1
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(context.Background(), cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// cpu is what the process has used, in seconds.
func (n node) cpu(tb testing.TB) float64 {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.pid))
	if err != nil {
		tb.Skip("no /proc here")
	}
	f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+2:]))
	user, _ := strconv.ParseFloat(f[11], 64)
	system, _ := strconv.ParseFloat(f[12], 64)
	return (user + system) / 100 // USER_HZ
}

// report adds the broker's share, for a benchmark that moved bytesEach in each of its iterations.
func (n node) report(b *testing.B, before float64, bytesEach int) {
	b.StopTimer()
	b.ReportMetric((n.cpu(b)-before)/(float64(b.N)*float64(bytesEach)/(1<<30)), "cpu-s/GiB")
}

// pack makes a batch of records of a size, about size bytes in all.
func pack(size, each int) []byte {
	value := make([]byte, each)
	for i := range value {
		value[i] = byte('a' + i*7%26)
	}
	var body []byte
	count := 0
	for ; len(body)+each < size; count++ {
		r := []byte{0}                                // attributes
		r = binary.AppendVarint(r, 0)                 // timestamp delta
		r = binary.AppendVarint(r, int64(count))      // offset delta
		r = binary.AppendVarint(r, -1)                // no key
		r = binary.AppendVarint(r, int64(len(value))) // value
		r = append(append(r, value...), 0)            // no headers
		body = append(binary.AppendVarint(body, int64(len(r))), r...)
	}
	batch := kmsg.RecordBatch{PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: int32(count - 1), FirstTimestamp: time.Now().UnixMilli(), MaxTimestamp: time.Now().UnixMilli(),
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(count), Records: body}
	batch.Length = int32(len(batch.AppendTo(nil)) - 12)
	batch.CRC = int32(crc32.Checksum(batch.AppendTo(nil)[21:], crc32.MakeTable(crc32.Castagnoli)))
	return batch.AppendTo(nil)
}

func produceFrame(batch []byte) []byte {
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = batch
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic, topic.Partitions = "t", append(topic.Partitions, p)
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis, req.Topics = 9, -1, 10000, append(req.Topics, topic)
	return kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)
}

// answer reads one answer through buf and throws it away.
func answer(tb testing.TB, conn net.Conn, buf []byte) int {
	tb.Helper()
	if _, err := io.ReadFull(conn, buf[:4]); err != nil {
		tb.Fatal(err)
	}
	size := int(binary.BigEndian.Uint32(buf))
	for left := size; left > 0; {
		n, err := conn.Read(buf[:min(left, len(buf))])
		if err != nil {
			tb.Fatal(err)
		}
		left -= n
	}
	return size
}

func dial(tb testing.TB, n node) net.Conn {
	tb.Helper()
	conn, err := net.Dial("tcp", n.addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	return conn
}

// BenchmarkAppend: ready-made produce requests, acks=all, four under way on one connection.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{16 << 10, 128 << 10, 960 << 10} {
		b.Run(fmt.Sprintf("batch=%dKiB", size>>10), func(b *testing.B) {
			n := start(b)
			conn, frame, buf := dial(b, n), produceFrame(pack(size, 1000)), make([]byte, 64<<10)
			b.SetBytes(int64(len(frame)))
			before := n.cpu(b)
			b.ResetTimer()
			for i := range b.N {
				if _, err := conn.Write(frame); err != nil {
					b.Fatal(err)
				}
				if i >= 3 {
					answer(b, conn, buf)
				}
			}
			for range min(b.N, 3) {
				answer(b, conn, buf)
			}
			n.report(b, before, len(frame))
		})
	}
}

// BenchmarkFetch: a log in the page cache, one fetch after another on one connection, records thrown away.
func BenchmarkFetch(b *testing.B) {
	for _, size := range []int{64 << 10, 1 << 20, 8 << 20} {
		b.Run(fmt.Sprintf("max=%dKiB", size>>10), func(b *testing.B) {
			n := start(b)
			conn, frame, buf := dial(b, n), produceFrame(pack(960<<10, 1000)), make([]byte, 1<<20)
			for range 12 {
				if _, err := conn.Write(frame); err != nil {
					b.Fatal(err)
				}
				answer(b, conn, buf)
			}
			p := kmsg.NewFetchRequestTopicPartition()
			p.PartitionMaxBytes = int32(size)
			topic := kmsg.NewFetchRequestTopic()
			topic.Topic, topic.Partitions = "t", append(topic.Partitions, p)
			req := kmsg.NewPtrFetchRequest()
			req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch, req.Topics = 11, 500, 1, int32(size), -1, append(req.Topics, topic)
			ask := kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)
			b.SetBytes(int64(size))
			before := n.cpu(b)
			b.ResetTimer()
			for range b.N {
				if _, err := conn.Write(ask); err != nil {
					b.Fatal(err)
				}
				if got := answer(b, conn, buf); got < size*9/10 {
					b.Fatalf("%d bytes came, of %d", got, size)
				}
			}
			n.report(b, before, size)
		})
	}
}

// BenchmarkNode: franz-go writes records with acks=all, and reads as many. An iteration is a record.
func BenchmarkNode(b *testing.B) {
	for _, size := range []int{100, 1024} {
		b.Run(fmt.Sprintf("produce/record=%dB", size), func(b *testing.B) {
			n := start(b)
			before := n.cpu(b)
			b.SetBytes(int64(size))
			b.ResetTimer()
			write(b, n, b.N, size)
			n.report(b, before, size)
		})
		b.Run(fmt.Sprintf("consume/record=%dB", size), func(b *testing.B) {
			n := start(b)
			write(b, n, b.N, size)
			cl, err := kgo.NewClient(kgo.SeedBrokers(n.addr), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().AtStart()}}))
			if err != nil {
				b.Fatal(err)
			}
			defer cl.Close()
			before := n.cpu(b)
			b.SetBytes(int64(size))
			b.ResetTimer()
			for got := 0; got < b.N; {
				fetches := cl.PollFetches(b.Context())
				if err := fetches.Err(); err != nil {
					b.Fatal(err)
				}
				got += fetches.NumRecords()
			}
			n.report(b, before, size)
		})
	}
}

// write produces count records of a size and waits for their answers.
func write(b *testing.B, n node, count, size int) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.addr), kgo.DefaultProduceTopic("t"), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(100_000))
	if err != nil {
		b.Fatal(err)
	}
	defer cl.Close()
	value := make([]byte, size)
	failed := make(chan error, 1)
	for range count {
		cl.Produce(b.Context(), &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	if err := cl.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	select {
	case err := <-failed:
		b.Fatal(err)
	default:
	}
}
