package storage

import (
	"github.com/quire-log/quire/internal/record"
)

// A cleanSample is what a look at some batches of the dirty part says of how to clean it. The looks are spread over it: the first batch
// of a segment each. So the same log is cleaned in the same way, whoever is fast and whoever is slow.
type cleanSample struct {
	compressed bool // more of them are than are not
	// zstdLevel is at which zstd batches are made anew; 0 is Kafka's default. It is that of zstdFast where what that makes of the samples
	// is hardly larger; it takes three quarters of the time.
	zstdLevel int
}

const (
	sampleBatches = 8
	// sampleBytes of the inflated records of a batch are compressed to see what becomes of them.
	sampleBytes    = 32 << 10
	sampleBatchMax = 1 << 20 // larger ones are passed over

	zstdFast = 1
	// zstdFastTolerance is how much larger, in percent, the output of zstdFast may be.
	zstdFastTolerance = 2
)

// sample looks at segments.
func (c *cleanRound) sample(segs []*segment) (s cleanSample) {
	var zstd [][]byte // inflated
	step := max(1, (len(segs)+sampleBatches-1)/sampleBatches)
	looked, compressed := 0, 0
	for i := 0; i < len(segs); i += step {
		e := segs[i].firstEntry()
		if e == nil {
			continue
		}
		looked++
		if e.Codec() == record.None {
			continue
		}
		compressed++
		if e.Codec() != record.Zstd || e.Magic() != 2 {
			continue
		}
		if plain, err := record.Decompress(nil, e.Batch().Payload(), record.Zstd, sampleBatchMax); err == nil {
			zstd = append(zstd, plain[:min(len(plain), sampleBytes)])
		}
	}
	s.compressed = compressed*2 > looked
	if c.cfg.Recompress && c.cfg.Codec == record.Zstd && !record.IsDefaultZstd(c.cfg.CompressionLevel) {
		s.zstdLevel = c.cfg.CompressionLevel // the topic's own
		return s
	}
	fast, usual := 0, 0
	for _, plain := range zstd {
		for level, sum := range map[int]*int{zstdFast: &fast, record.DefaultLevel: &usual} {
			b, err := record.Compress(nil, plain, record.Zstd, level)
			if err != nil {
				return s
			}
			*sum += len(b)
		}
	}
	if len(zstd) > 0 && fast*100 <= usual*(100+zstdFastTolerance) {
		s.zstdLevel = zstdFast
	}
	return s
}

// level is at which a batch is compressed anew, for Skim.
func (s *cleanSample) level(b record.Batch) int {
	if b.Codec() == record.Zstd {
		return s.zstdLevel
	}
	return 0
}

// firstEntry reads the first entry of a segment, unless it is large or cannot be read.
func (s *segment) firstEntry() record.Entry {
	f, err := s.acquire()
	if err != nil {
		return nil
	}
	defer s.release()
	b := make([]byte, record.MinEntry)
	if readFull(f, b, 0) != nil {
		return nil
	}
	size, err := record.EntrySize(b)
	if err != nil || size > sampleBatchMax || size > s.size.Load() {
		return nil
	}
	b = make([]byte, size)
	if readFull(f, b, 0) != nil {
		return nil
	}
	e, err := record.FirstEntry(b)
	if err != nil || e.Check() != nil {
		return nil
	}
	return e
}
