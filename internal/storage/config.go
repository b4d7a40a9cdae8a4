package storage

import "github.com/quire-log/quire/internal/record"

// A Config is what a topic's and the broker's settings come to for one log. A Log holds it behind an atomic pointer:
// SetConfig replaces it whole, and it acts at once.
type Config struct {
	SegmentBytes      int32
	SegmentMs         int64
	SegmentJitterMs   int64
	IndexBytesMax     int32 // segment.index.bytes
	IndexInterval     int32 // index.interval.bytes
	FlushMessages     int64
	FlushMs           int64
	Preallocate       bool
	MaxMessageBytes   int32
	Compact, Delete   bool // cleanup.policy
	RetentionMs       int64
	RetentionBytes    int64
	FileDeleteDelayMs int64

	MaxCompactionLagMs, MinCompactionLagMs, DeleteRetentionMs int64
	MinCleanableDirtyRatio                                    float64

	Recompress           bool // compression.type is not "producer"
	Codec                record.Codec
	CompressionLevel     int
	LogAppendTime        bool
	TimestampBeforeMaxMs int64
	TimestampAfterMaxMs  int64

	ProducerExpirationMs int64 // producer.id.expiration.ms, of the broker
}

// DefaultConfig is Kafka 4.3's defaults.
func DefaultConfig() Config { panic("unwritten") }
