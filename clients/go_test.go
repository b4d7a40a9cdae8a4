// Package clients has Go's clients, unmodified, write and read each other's records on a node of Quire, with every codec.
// Clients of other languages are in the folders beside this file.
package clients

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/IBM/sarama"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/compress"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/quiretest"
)

// A record is what every client can say.
type record struct {
	Key, Value []byte // nil: null
	Headers    []header
}

type header struct {
	Name  string
	Value []byte
}

// records reads the records that clients of every language write.
func records(t *testing.T) []record {
	t.Helper()
	text, err := os.ReadFile("records.json")
	if err != nil {
		t.Fatal(err)
	}
	var in []struct {
		Key     []byte
		Value   json.RawMessage
		Headers [][2]json.RawMessage
	}
	if err := json.Unmarshal(text, &in); err != nil {
		t.Fatal(err)
	}
	var out []record
	for _, r := range in {
		one := record{Key: r.Key}
		var long struct {
			Repeat []byte
			Times  int
		}
		if json.Unmarshal(r.Value, &long) == nil && long.Times > 0 {
			one.Value = bytes.Repeat(long.Repeat, long.Times)
		} else if err := json.Unmarshal(r.Value, &one.Value); err != nil {
			t.Fatal(err)
		}
		for _, h := range r.Headers {
			var name string
			var value []byte
			if err := errors.Join(json.Unmarshal(h[0], &name), json.Unmarshal(h[1], &value)); err != nil {
				t.Fatal(err)
			}
			one.Headers = append(one.Headers, header{name, value})
		}
		out = append(out, one)
	}
	return out
}

// A client writes to partition 0 of a topic with a codec by its name, and reads n records from its beginning.
type client interface {
	write(ctx context.Context, topic, codec string, rs []record) error
	read(ctx context.Context, topic string, n int) ([]record, error)
}

func TestGoClients(t *testing.T) {
	node := quiretest.Start(t)
	addr := node.Addr()
	clients := map[string]client{"franz-go": franz{addr}, "sarama": saramas{addr}, "kafka-go": segmentio{addr}}
	want := records(t)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	admin := newFranz(t, addr)
	for writer, w := range clients {
		for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
			topic := writer + "-" + codec
			createTopic(t, admin, topic)
			if err := w.write(ctx, topic, codec, want); err != nil {
				t.Errorf("%s writes %s: %v", writer, codec, err)
				continue
			}
			for reader, r := range clients {
				t.Run(reader+" reads "+topic, func(t *testing.T) {
					got, err := r.read(ctx, topic, len(want))
					if err != nil {
						t.Fatal(err)
					}
					for i := range want {
						w := want[i]
						if reader == "kafka-go" {
							w = emptyIsNull(w)
						}
						if g, w := show(got[i]), show(w); g != w {
							t.Errorf("record %d is %.200s, want %.200s", i, g, w)
						}
					}
				})
			}
		}
	}
}

// show tells null from empty.
func show(r record) string {
	text := func(b []byte) string {
		if b == nil {
			return "null"
		}
		return strconv.Quote(string(b))
	}
	s := text(r.Key) + " " + text(r.Value)
	for _, h := range r.Headers {
		s += " " + h.Name + "=" + text(h.Value)
	}
	return s
}

// emptyIsNull is what kafka-go makes of a record that it reads.
func emptyIsNull(r record) record {
	null := func(b []byte) []byte {
		if len(b) == 0 {
			return nil
		}
		return b
	}
	n := record{Key: null(r.Key), Value: null(r.Value)}
	for _, h := range r.Headers {
		n.Headers = append(n.Headers, header{h.Name, null(h.Value)})
	}
	return n
}

func newFranz(t *testing.T, addr string) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func createTopic(t *testing.T, cl *kgo.Client, topic string) {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	one := kmsg.NewCreateTopicsRequestTopic()
	one.Topic, one.NumPartitions, one.ReplicationFactor = topic, 1, 1
	req.Topics = append(req.Topics, one)
	resp, err := req.RequestWith(t.Context(), cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestEmptyBatchIsRefused sends what no client does: a batch without records, and none at all.
func TestEmptyBatchIsRefused(t *testing.T) {
	node := quiretest.Start(t)
	cl := newFranz(t, node.Addr())
	createTopic(t, cl, "empty")
	// Count 0, last offset delta -1, no producer; the checksum is right.
	batch := kmsg.RecordBatch{PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: -1, FirstTimestamp: 1, MaxTimestamp: 1, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1}
	raw := batch.AppendTo(nil)
	batch.Length = int32(len(raw) - 12)
	batch.CRC = int32(crc32c(batch.AppendTo(nil)[21:]))
	for name, bytes := range map[string][]byte{"no records": batch.AppendTo(nil), "nothing": {}} {
		req := kmsg.NewPtrProduceRequest()
		req.Acks, req.TimeoutMillis = 1, 1000
		p := kmsg.NewProduceRequestTopicPartition()
		p.Records = bytes
		top := kmsg.NewProduceRequestTopic()
		top.Topic, top.Partitions = "empty", append(top.Partitions, p)
		req.Topics = append(req.Topics, top)
		req.SetVersion(9)
		resp, err := atVersion(t.Context(), node.Addr(), req)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if code := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; code != kerr.InvalidRecord.Code {
			t.Errorf("%s: code %d, want %d", name, code, kerr.InvalidRecord.Code)
		}
	}
}

type franz struct{ addr string }

func (f franz) write(ctx context.Context, topic, codec string, rs []record) error {
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	cl, err := kgo.NewClient(kgo.SeedBrokers(f.addr), kgo.ProducerBatchCompression(codecs[codec]), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer cl.Close()
	var out []*kgo.Record
	for _, r := range rs {
		k := &kgo.Record{Topic: topic, Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			k.Headers = append(k.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
		}
		out = append(out, k)
	}
	return cl.ProduceSync(ctx, out...).FirstErr()
}

func (f franz) read(ctx context.Context, topic string, n int) (got []record, err error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(f.addr), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	for len(got) < n {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			one := record{Key: r.Key, Value: r.Value}
			for _, h := range r.Headers {
				one.Headers = append(one.Headers, header{h.Key, h.Value})
			}
			got = append(got, one)
		})
	}
	return got, nil
}

type saramas struct{ addr string }

func (s saramas) config() *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.MaxVersion
	c.Consumer.Return.Errors = true
	c.Producer.Return.Successes = true
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Idempotent = true
	c.Net.MaxOpenRequests = 1
	c.Producer.Partitioner = sarama.NewManualPartitioner
	return c
}

func (s saramas) write(_ context.Context, topic, codec string, rs []record) error {
	c := s.config()
	if err := c.Producer.Compression.UnmarshalText([]byte(codec)); err != nil {
		return err
	}
	p, err := sarama.NewSyncProducer([]string{s.addr}, c)
	if err != nil {
		return err
	}
	defer p.Close()
	var out []*sarama.ProducerMessage
	for _, r := range rs {
		m := &sarama.ProducerMessage{Topic: topic}
		if r.Key != nil {
			m.Key = sarama.ByteEncoder(r.Key)
		}
		if r.Value != nil {
			m.Value = sarama.ByteEncoder(r.Value)
		}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, sarama.RecordHeader{Key: []byte(h.Name), Value: h.Value})
		}
		out = append(out, m)
	}
	return p.SendMessages(out)
}

func (s saramas) read(ctx context.Context, topic string, n int) (got []record, err error) {
	consumer, err := sarama.NewConsumer([]string{s.addr}, s.config())
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	pc, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	defer pc.Close()
	for len(got) < n {
		select {
		case m := <-pc.Messages():
			one := record{Key: m.Key, Value: m.Value}
			for _, h := range m.Headers {
				one.Headers = append(one.Headers, header{string(h.Key), h.Value})
			}
			got = append(got, one)
		case err := <-pc.Errors():
			return nil, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return got, nil
}

type segmentio struct{ addr string }

func (s segmentio) write(ctx context.Context, topic, codec string, rs []record) error {
	transport := &kafkago.Transport{} // the default one goes on believing that a topic made just now does not exist
	defer transport.CloseIdleConnections()
	w := &kafkago.Writer{Addr: kafkago.TCP(s.addr), Topic: topic, RequiredAcks: kafkago.RequireAll, BatchTimeout: time.Millisecond, Transport: transport}
	w.Compression = map[string]kafkago.Compression{"gzip": compress.Gzip, "snappy": compress.Snappy, "lz4": compress.Lz4, "zstd": compress.Zstd}[codec]
	defer w.Close()
	var out []kafkago.Message
	for _, r := range rs {
		m := kafkago.Message{Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, kafkago.Header{Key: h.Name, Value: h.Value})
		}
		out = append(out, m)
	}
	return w.WriteMessages(ctx, out...)
}

func (s segmentio) read(ctx context.Context, topic string, n int) (got []record, err error) {
	r := kafkago.NewReader(kafkago.ReaderConfig{Brokers: []string{s.addr}, Topic: topic, MaxWait: 100 * time.Millisecond})
	defer r.Close()
	for len(got) < n {
		m, err := r.ReadMessage(ctx)
		if err != nil {
			return nil, err
		}
		one := record{Key: m.Key, Value: m.Value}
		for _, h := range m.Headers {
			one.Headers = append(one.Headers, header{h.Key, h.Value})
		}
		got = append(got, one)
	}
	return got, nil
}

// atVersion sends one request at the version that it is set to, as no client would choose it.
func atVersion(ctx context.Context, addr string, req kmsg.Request) (kmsg.Response, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		conn.SetDeadline(deadline)
	}
	if _, err := conn.Write(kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)); err != nil {
		return nil, err
	}
	frame, err := readFrame(conn)
	if err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	head := 4
	if resp.IsFlexible() {
		head = 5
	}
	if len(frame) < head {
		return nil, fmt.Errorf("an answer of %d bytes", len(frame))
	}
	return resp, resp.ReadFrom(frame[head:])
}

func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(r, frame)
	return frame, err
}

func crc32c(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }
