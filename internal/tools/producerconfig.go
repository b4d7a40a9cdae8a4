package tools

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/quire-log/quire/internal/record"
)

// producerConfig is what the tools act on of a Java producer's properties.
type producerConfig struct {
	acks           kgo.Acks
	idempotent     bool
	codec          record.Codec
	linger         time.Duration
	batchSize      int64 // when the partitioner moves on; batches may grow to maxRequest
	bufferMemory   int64
	maxRequest     int64
	maxBlock       time.Duration
	requestTimeout time.Duration
	delivery       time.Duration
	metadataMaxAge time.Duration
	retryBackoff   time.Duration
	retries        int64
	inFlight       int64
	conn           []kgo.Opt
	dial           *dialWatch
	connect        dialFunc
}

// javaTransactionTimeout is transaction.timeout.ms of Java's producer.
const javaTransactionTimeout = time.Minute

const (
	idempotentNeedsAcks    = "Must set acks to all in order to use the idempotent producer. Otherwise we cannot guarantee idempotence."
	idempotentNeedsRetries = "Must set retries to non-zero when using the idempotent producer."
	idempotentInFlightMax  = 5
	// Below this, franz-go would refuse to make batches at all. A record's size is checked before.
	batchBytesLeast = 1 << 20
)

// producer checks the properties as Java's producer does.
func (c clientConfig) producer(stderr io.Writer, clientID string) (*producerConfig, error) {
	p := &producerConfig{}
	acks, err := c.oneOf("acks", "all", "all", "-1", "0", "1")
	if err != nil {
		return nil, err
	}
	switch acks {
	case "0":
		p.acks = kgo.NoAck()
	case "1":
		p.acks = kgo.LeaderAck()
	default:
		acks, p.acks = "all", kgo.AllISRAcks()
	}
	codec, err := c.oneOf("compression.type", "none", "none", "gzip", "snappy", "lz4", "zstd")
	if err != nil {
		return nil, err
	}
	p.codec = map[string]record.Codec{"none": record.None, "gzip": record.Gzip, "snappy": record.Snappy, "lz4": record.LZ4, "zstd": record.Zstd}[codec]
	for _, n := range []struct {
		key        string
		bits       int
		def, least int64
		to         *int64
	}{
		{"batch.size", 32, 16384, 0, &p.batchSize},
		{"buffer.memory", 64, 32 << 20, 0, &p.bufferMemory},
		{"max.request.size", 32, 1 << 20, 0, &p.maxRequest},
		{"retries", 32, math.MaxInt32, 0, &p.retries},
		{"max.in.flight.requests.per.connection", 32, 5, 1, &p.inFlight},
	} {
		if *n.to, err = c.atLeast(n.key, n.bits, n.def, n.least); err != nil {
			return nil, err
		}
	}
	for _, d := range []struct {
		key  string
		bits int
		def  int64
		to   *time.Duration
	}{
		{"linger.ms", 64, 5, &p.linger},
		{"max.block.ms", 64, 60000, &p.maxBlock},
		{"request.timeout.ms", 32, 30000, &p.requestTimeout},
		{"delivery.timeout.ms", 32, 120000, &p.delivery},
		{"metadata.max.age.ms", 64, 300000, &p.metadataMaxAge},
		{"retry.backoff.ms", 64, 100, &p.retryBackoff},
	} {
		if *d.to, err = c.millis(d.key, d.bits, d.def); err != nil {
			return nil, err
		}
	}
	if p.delivery < p.linger+p.requestTimeout {
		if has(c, "delivery.timeout.ms") {
			return nil, throw(configException, "delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms")
		}
		p.delivery = p.linger + p.requestTimeout
	}
	// Idempotence is the default, and gives way to what excludes it unless it was asked for.
	if p.idempotent, err = c.boolean("enable.idempotence", true); err != nil {
		return nil, err
	}
	if p.idempotent {
		complaint := ""
		switch {
		case p.retries == 0:
			complaint = idempotentNeedsRetries
		case acks != "all":
			complaint = idempotentNeedsAcks
		case p.inFlight > idempotentInFlightMax:
			complaint = fmt.Sprintf("Must set max.in.flight.requests.per.connection to at most %d to use the idempotent producer.", idempotentInFlightMax)
		}
		if complaint != "" && has(c, "enable.idempotence") {
			return nil, throw(configException, complaint)
		}
		p.idempotent = complaint == ""
	}
	if c["transactional.id"] != "" {
		return nil, throw("java.lang.UnsupportedOperationException", "transactional.id: this tool does not write transactions")
	}
	if p.conn, p.dial, err = c.connection(stderr, "Producer", clientID); err == nil {
		p.connect, err = c.dialer()
	}
	if err != nil {
		return nil, throw(kafkaException, "Failed to construct kafka producer").because(err)
	}
	return p, nil
}

// client makes the producer; more options override its own. Every record is already known to be small enough.
func (p *producerConfig) client(more ...kgo.Opt) (*kgo.Client, error) {
	batchMax := int32(max(p.maxRequest, batchBytesLeast))
	opts := append(p.conn,
		kgo.AllowAutoTopicCreation(),
		kgo.RequiredAcks(p.acks),
		kgo.ProducerBatchCompression(kgo.NoCompression()), // producerConn compresses
		kgo.ProducerLinger(min(p.linger, time.Minute)),    // franz-go takes no more; it is flushed at the end anyway
		kgo.ProducerBatchMaxBytes(batchMax),
		kgo.BrokerMaxWriteBytes(max(batchMax, 100<<20)),
		kgo.MaxBufferedBytes(int(cmp.Or(p.bufferMemory, 1))),
		kgo.MaxBufferedRecords(1<<20),
		kgo.RecordPartitioner(kgo.UniformBytesPartitioner(int(max(p.batchSize, 1)), true, true, nil)),
		kgo.RecordRetries(int(min(p.retries, math.MaxInt32))),
		kgo.RecordDeliveryTimeout(max(p.delivery, time.Second)),
		kgo.ProduceRequestTimeout(max(p.requestTimeout, 100*time.Millisecond)),
		kgo.MetadataMaxAge(max(p.metadataMaxAge, time.Second)),
		kgo.MetadataMinAge(min(max(p.retryBackoff, 10*time.Millisecond), time.Second)),
	)
	if !p.idempotent {
		opts = append(opts, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(int(p.inFlight)))
	}
	if p.codec != record.None || !p.idempotent {
		opts = append(opts, kgo.Dialer(dialProducer(p.connect, p.codec)))
	}
	cl, err := kgo.NewClient(append(opts, more...)...)
	if err != nil {
		return nil, throw(kafkaException, "Failed to construct kafka producer").because(err)
	}
	return cl, nil
}
