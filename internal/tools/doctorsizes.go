package tools

import (
	"fmt"
	"math"
	"strconv"

	"github.com/quire-log/quire/internal/config"
	"github.com/quire-log/quire/internal/record"
)

// brokerSizes are the limits of one broker, in bytes, on what passes by in one piece.
type brokerSizes struct {
	name                                                       string // as messages have it
	messageMax, replicaFetch, fetchMax, requestMax, segmentMax int64
}

// topicSizes are those of a topic, where they are its own.
type topicSizes struct {
	name                   string
	messageMax, segmentMax int64
}

// clientSizes are those of a producer or consumer.
type clientSizes struct {
	name                                  string
	requestMax, bufferMax                 int64 // of a producer
	fetchMax, partitionFetchMax, batchMax int64
}

func brokerSizesOf(l config.Layers) brokerSizes {
	return brokerSizes{"the broker", l.Of("message.max.bytes").Int64(), l.Of("replica.fetch.max.bytes").Int64(), l.Of("fetch.max.bytes").Int64(),
		l.Of("socket.request.max.bytes").Int64(), l.Of("log.segment.bytes").Int64()}
}

// sizes reads a client's limits.
func (c clientConfig) sizes(name string) (clientSizes, error) {
	s := clientSizes{name: name}
	for _, n := range []struct {
		key  string
		bits int
		def  int64
		to   *int64
	}{
		{"max.request.size", 32, 1 << 20, &s.requestMax}, {"buffer.memory", 64, 32 << 20, &s.bufferMax}, {"fetch.max.bytes", 32, 50 << 20, &s.fetchMax},
		{"max.partition.fetch.bytes", 32, 1 << 20, &s.partitionFetchMax}, {"batch.size", 32, 16384, &s.batchMax},
	} {
		var err error
		if *n.to, err = c.atLeast(n.key, n.bits, n.def, 0); err != nil {
			return s, fmt.Errorf("%s: %s", name, asJava(err).text())
		}
	}
	return s, nil
}

// requestSlack is what a produce request has around its batch, generously.
const requestSlack = 1024

// sizes holds the limits on the size of messages against each other.
func (d *doctor) sizes(b brokerSizes, topics []topicSizes, clients []clientSizes) {
	before := d.problems + d.warnings
	limit := func(whose string, messageMax, segmentMax int64) {
		if messageMax > b.requestMax-requestSlack {
			d.problem("sizes", fmt.Sprintf("raise socket.request.max.bytes above %d", messageMax),
				"%s takes messages of %d bytes, but %s ends connections whose requests exceed socket.request.max.bytes=%d", whose, messageMax, b.name, b.requestMax)
		}
		if messageMax > b.replicaFetch+record.LogOverhead { // Kafka's defaults differ by that much
			d.warn("sizes", fmt.Sprintf("raise replica.fetch.max.bytes to %d", messageMax),
				"%s takes messages of %d bytes, more than followers fetch at once (replica.fetch.max.bytes=%d): each such message is fetched alone", whose, messageMax, b.replicaFetch)
		}
		if messageMax > segmentMax {
			d.problem("sizes", fmt.Sprintf("raise the size of segments above %d", messageMax), "%s takes messages of %d bytes, but a segment holds %d: larger ones are refused", whose, messageMax, segmentMax)
		}
		if messageMax > b.fetchMax {
			d.warn("sizes", fmt.Sprintf("raise the broker's fetch.max.bytes to %d", messageMax),
				"%s takes messages of %d bytes, more than a fetch is answered with (fetch.max.bytes=%d): each such message is fetched alone", whose, messageMax, b.fetchMax)
		}
	}
	limit("message.max.bytes: "+b.name, b.messageMax, b.segmentMax)
	least, leastOf := b.messageMax, "message.max.bytes"
	for _, t := range topics {
		limit("max.message.bytes: topic "+t.name, t.messageMax, t.segmentMax)
		if t.messageMax < least {
			least, leastOf = t.messageMax, "max.message.bytes of topic "+t.name
		}
	}
	for _, c := range clients {
		// A record alone in its batch is a little larger than what max.request.size counts.
		if c.requestMax > b.messageMax {
			d.problem("sizes", fmt.Sprintf("lower max.request.size to %d, or raise message.max.bytes (a topic's max.message.bytes)", b.messageMax),
				"%s sends messages of up to max.request.size=%d bytes, and %s refuses those above message.max.bytes=%d", c.name, c.requestMax, b.name, b.messageMax)
		} else if c.requestMax > least {
			d.warn("sizes", "what is written to it has to be smaller", "%s sends messages of up to max.request.size=%d bytes; %s=%d", c.name, c.requestMax, leastOf, least)
		}
		if c.batchMax > b.messageMax {
			d.warn("sizes", fmt.Sprintf("lower batch.size to %d", b.messageMax), "%s fills batches of batch.size=%d bytes, above message.max.bytes=%d: they are refused, split and sent again", c.name, c.batchMax, b.messageMax)
		}
		if c.requestMax > c.bufferMax {
			d.problem("sizes", fmt.Sprintf("raise buffer.memory to %d", c.requestMax), "%s: max.request.size=%d does not fit buffer.memory=%d", c.name, c.requestMax, c.bufferMax)
		}
		if few := min(c.fetchMax, c.partitionFetchMax); few < b.messageMax {
			d.ok("sizes", "%s fetches %d bytes of a partition at once; a larger message comes alone", c.name, few)
		}
	}
	if d.problems+d.warnings == before {
		d.ok("sizes", "messages of up to %s pass on all sides", sizeText(b.messageMax))
	}
}

// sizeSetting reads a size that a broker has told; unknown is without limit.
func sizeSetting(values map[string]string, key string) int64 {
	n, err := strconv.ParseInt(values[key], 10, 64)
	if err != nil {
		return math.MaxInt64
	}
	return n
}
