package storage

import (
	"math"

	"github.com/quire-log/quire/internal/record"
)

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
func DefaultConfig() Config {
	const hour = 3600 * 1000
	return Config{
		SegmentBytes:      1 << 30,
		SegmentMs:         7 * 24 * hour,
		IndexBytesMax:     10 << 20,
		IndexInterval:     4096,
		FlushMessages:     math.MaxInt64,
		FlushMs:           math.MaxInt64,
		MaxMessageBytes:   1<<20 + record.LogOverhead,
		Delete:            true,
		RetentionMs:       7 * 24 * hour,
		RetentionBytes:    -1,
		FileDeleteDelayMs: 60 * 1000,

		MaxCompactionLagMs:     math.MaxInt64,
		DeleteRetentionMs:      24 * hour,
		MinCleanableDirtyRatio: 0.5,

		CompressionLevel:     record.DefaultLevel,
		TimestampBeforeMaxMs: math.MaxInt64,
		TimestampAfterMaxMs:  hour,

		ProducerExpirationMs: 24 * hour,
	}
}

// inflateMax bounds what one batch may inflate to, where records themselves are looked at.
const inflateMax = 256 << 20

// rules are what the log demands of clients' batches now.
func (c *Config) rules(now int64, partition string) record.Rules {
	return record.Rules{
		Partition: partition, Now: now, LogAppendTime: c.LogAppendTime,
		TimestampBeforeMaxMs: c.TimestampBeforeMaxMs, TimestampAfterMaxMs: c.TimestampAfterMaxMs,
		Compacted: c.Compact, Codec: c.Codec, Recompress: c.Recompress, Level: c.CompressionLevel,
		MaxBytes: int(c.MaxMessageBytes),
	}
}
