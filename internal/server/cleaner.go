package server

import (
	"github.com/quire-log/quire/internal/config"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/storage"
)

// followStorage has what all logs share act on the broker's dynamic values.
func (n *Node) followStorage(img *metadata.Image) {
	l := n.layers(img)
	n.logs.SetCleaner(cleanerConfig(l))
	n.logs.SetDiskPercent(l.Of("retention.disk.percent").Float())
	n.logs.SetDeleteDelay(l.Of("log.segment.delete.delay.ms").Int64())
}

// cleanerConfig is what the broker's settings say of compaction.
func cleanerConfig(l config.Layers) storage.CleanerConfig {
	if !l.Of("log.cleaner.enable").Bool() {
		return storage.CleanerConfig{}
	}
	return storage.CleanerConfig{
		Threads:        int(l.Of("log.cleaner.threads").Int64()),
		DedupeBytes:    l.Of("log.cleaner.dedupe.buffer.size").Int64(),
		LoadFactor:     l.Of("log.cleaner.io.buffer.load.factor").Float(),
		BytesPerSecond: l.Of("log.cleaner.io.max.bytes.per.second").Float(),
		BackoffMs:      l.Of("log.cleaner.backoff.ms").Int64(),
	}
}
