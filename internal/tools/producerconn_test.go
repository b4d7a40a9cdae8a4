package tools

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/record"
)

// sent keeps what was written to it; it takes most bytes in all, if most is not 0.
type sent struct {
	net.Conn
	wire         bytes.Buffer
	writes, most int
}

func (s *sent) Write(p []byte) (int, error) {
	s.writes++
	if s.most > 0 && len(p) > s.most {
		return s.most, errors.New("cut")
	}
	return s.wire.Write(p)
}

func (s *sent) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9092} }

// plainBatch is a batch of one record as franz-go writes it: plain, and numbered from 0 though nobody's.
func plainBatch(t *testing.T, producer int64, sequence int32, value string) []byte {
	t.Helper()
	b := record.NewBuilder()
	b.ProducerID, b.BaseSequence = producer, sequence
	if producer >= 0 {
		b.ProducerEpoch = 0
	}
	b.Add(record.Record{Timestamp: 1767225600000, Value: []byte(value)})
	batch, err := b.Batch(nil)
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

// produceFrame is a request of two topics and three partitions, one of which has lost its records.
func produceFrame(t *testing.T, version int16, producer int64, sequence int32, client string) ([]byte, *kmsg.ProduceRequest) {
	t.Helper()
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, -1, 1500
	req.TransactionID = kmsg.StringPtr("payments")
	for i, values := range [][]string{{"x", ""}, {strings.Repeat("long ", 5000)}} {
		topic := kmsg.NewProduceRequestTopic()
		if version >= 13 {
			topic.TopicID = [16]byte{1, byte(i)}
		} else {
			topic.Topic = []string{"orders", "bills"}[i]
		}
		for j, value := range values {
			part := kmsg.NewProduceRequestTopicPartition()
			part.Partition = int32(j)
			if value != "" {
				part.Records = plainBatch(t, producer, sequence, value)
			}
			topic.Partitions = append(topic.Partitions, part)
		}
		req.Topics = append(req.Topics, topic)
	}
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID(client)).AppendRequest(nil, req, 42), req
}

// What leaves is the same request, with every batch in the codec asked for, however small it is.
func TestProducerConnFinishes(t *testing.T) {
	for _, version := range []int16{3, 8, 9, 12, 13} {
		for codec := record.None; codec <= record.Zstd; codec++ {
			for _, q := range []struct {
				producer       int64
				sequence, want int32
			}{{-1, 0, -1}, {4000, 0, 0}, {4000, 7, 7}} {
				out := &sent{}
				c := &producerConn{Conn: out, codec: codec}
				frame, want := produceFrame(t, version, q.producer, q.sequence, "console-producer")
				before := bytes.Clone(frame)
				for range 2 { // the second time with used buffers
					out.wire.Reset()
					if n, err := c.Write(frame); n != len(frame) || err != nil {
						t.Fatalf("version %d, %s: wrote %d of %d, %v", version, codec, n, len(frame), err)
					}
				}
				if !bytes.Equal(frame, before) {
					t.Fatalf("version %d, %s: franz-go's bytes were changed", version, codec)
				}
				if out.writes != 2 {
					t.Errorf("version %d, %s: two requests in %d writes", version, codec, out.writes)
				}
				wire := out.wire.Bytes()
				header := requestHeaderMin + len("console-producer")
				if version >= 9 {
					header++
				}
				if !bytes.Equal(wire[4:header], frame[4:header]) || int(binary.BigEndian.Uint32(wire)) != len(wire)-4 {
					t.Fatalf("version %d, %s: header %x of %d bytes, was %x", version, codec, wire[:header], len(wire), frame[:header])
				}
				got := kmsg.NewPtrProduceRequest()
				got.Version = version
				if err := got.ReadFrom(wire[header:]); err != nil {
					t.Fatal(err)
				}
				for i, topic := range got.Topics {
					for j, part := range topic.Partitions {
						if part.Records == nil {
							continue
						}
						b, err := record.FirstBatch(part.Records)
						if err != nil || len(b) != len(part.Records) || !b.ChecksumValid() || b.Codec() != codec || b.BaseSequence() != q.want {
							t.Fatalf("version %d, %s: %v, batch %x", version, codec, err, part.Records)
						}
						plain := record.Batch(want.Topics[i].Partitions[j].Records)
						if payload, err := record.Decompress(nil, b.Payload(), codec, 1<<20); err != nil || !bytes.Equal(payload, plain.Payload()) {
							t.Fatalf("version %d, %s: %v, payload %x", version, codec, err, payload)
						}
						got.Topics[i].Partitions[j].Records = plain // the rest of the request is compared below
					}
				}
				if !reflect.DeepEqual(want, got) {
					t.Errorf("version %d, %s: %+v, want %+v", version, codec, got, want)
				}
			}
		}
	}
}

// A request, and what becomes of it: a client without an id writes one record without acknowledgement.
//
//	length   key  vers correlat id   txn  acks timeout  topics   "t"    parts    index    size
func TestProducerConnBytes(t *testing.T) {
	const head = "0000 0008 0000002a ffff ffff 0000 000005dc 00000001 000174 00000001 00000000 00000045"
	const sum, records = "0000 00000000 0000019b76daa800 0000019b76daa800 ffffffffffffffff ffff", "00000001 0e000000010278 00"
	plain := "0000006a" + head + "0000000000000000 00000039 ffffffff 02 00000000" + sum + "00000000" + records
	frame := unhexFrame(t, plain)
	out := &sent{}
	if n, err := (&producerConn{Conn: out, codec: record.None}).Write(frame); n != len(frame) || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	got := record.Batch(out.wire.Bytes()[len(frame)-69:])
	if !got.ChecksumValid() {
		t.Errorf("checksum of %x", got)
	}
	want := unhexFrame(t, "0000006a"+head+"0000000000000000 00000039 ffffffff 02"+hex.EncodeToString(got[17:21])+sum+"ffffffff"+records)
	if !bytes.Equal(out.wire.Bytes(), want) {
		t.Errorf("sent %x\nwant %x", out.wire.Bytes(), want)
	}
}

func unhexFrame(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Other requests, and the bare tokens of an old SASL handshake, pass as they are.
func TestProducerConnPasses(t *testing.T) {
	format := kmsg.NewRequestFormatter(kmsg.FormatterClientID("c"))
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.Version = 4
	for _, frame := range [][]byte{
		format.AppendRequest(nil, versions, 1),
		format.AppendRequest(nil, kmsg.NewPtrMetadataRequest(), 2),
		[]byte("\x00\x00\x00\x0e\x00alice\x00alice-s"),
		{0, 0, 0, 0},
		{},
	} {
		out := &sent{}
		c := &producerConn{Conn: out, codec: record.Zstd}
		if n, err := c.Write(frame); n != len(frame) || err != nil || !bytes.Equal(out.wire.Bytes(), frame) {
			t.Errorf("%x: wrote %d, %v, %x", frame, n, err, out.wire.Bytes())
		}
	}
}

// What is no request of franz-go's does not leave, and says why.
func TestProducerConnRefuses(t *testing.T) {
	whole, req := produceFrame(t, 9, -1, 0, "c")
	compressed := *req
	gzipped, err := record.AppendCompressed(nil, plainBatch(t, -1, 0, "x"), record.Gzip, record.DefaultLevel)
	if err != nil {
		t.Fatal(err)
	}
	part := kmsg.NewProduceRequestTopicPartition()
	part.Partition, part.Records = 5, gzipped
	compressed.Topics = []kmsg.ProduceRequestTopic{{Topic: "orders", Partitions: []kmsg.ProduceRequestTopicPartition{part}}}
	twice := compressed
	part.Records = append(plainBatch(t, -1, 0, "x"), 0, 0)
	twice.Topics = []kmsg.ProduceRequestTopic{{Topic: "orders", Partitions: []kmsg.ProduceRequestTopicPartition{part}}}
	format := kmsg.NewRequestFormatter()
	for _, q := range []struct {
		name  string
		frame []byte
		want  string
	}{
		{"cut", whole[:len(whole)-40], "produce request to 127.0.0.1:9092: "},
		{"client id beyond the end", append(bytes.Clone(whole[:requestClientIDAt]), 0x7f, 0xff), "produce request to 127.0.0.1:9092: a header of 32782 bytes in 14"},
		{"compressed", format.AppendRequest(nil, &compressed, 1), "produce request to 127.0.0.1:9092: partition 5: record: a batch that is compressed already, by gzip"},
		{"more than a batch", format.AppendRequest(nil, &twice, 1), "produce request to 127.0.0.1:9092: partition 5: 2 bytes after a batch of 69"},
	} {
		out := &sent{}
		n, err := (&producerConn{Conn: out, codec: record.LZ4}).Write(q.frame)
		if n != 0 || out.writes != 0 || err == nil || !strings.HasPrefix(err.Error(), q.want) {
			t.Errorf("%s: wrote %d in %d writes, %v", q.name, n, out.writes, err)
		}
	}
}

// A connection that breaks in the middle of a request reports no more bytes than it was given.
func TestProducerConnBreaks(t *testing.T) {
	frame, _ := produceFrame(t, 9, -1, 0, "c")
	for _, most := range []int{1, 100} {
		n, err := (&producerConn{Conn: &sent{most: most}, codec: record.Gzip}).Write(frame)
		if n != most || err == nil {
			t.Errorf("wrote %d, %v; want %d and an error", n, err, most)
		}
	}
}
