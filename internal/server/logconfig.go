package server

import (
	"maps"
	"slices"
	"sync/atomic"

	"github.com/quire-log/quire/internal/config"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/storage"
)

// logConfigs turns settings into what a log needs to know. What topics without overrides get is kept, since most have none, and
// computed anew when the broker's dynamic values have changed.
type logConfigs struct {
	node *Node
	base atomic.Pointer[baseConfig]
}

// A baseConfig is what a topic without overrides gets under certain dynamic values.
type baseConfig struct {
	layers config.Layers
	draft  configDraft
}

// A configDraft is a storage.Config in the making: what depends on several settings is settled at the end.
type configDraft struct {
	storage.Config
	compression      string
	gzip, lz4, zstd  int
	internalSegments int32 // internal.segment.bytes, 0: not set
}

// configSetters say what each topic option does to a log.
var configSetters = map[string]func(*configDraft, config.Value){
	"segment.bytes":                   func(d *configDraft, v config.Value) { d.SegmentBytes = int32(v.Int64()) },
	"segment.ms":                      func(d *configDraft, v config.Value) { d.SegmentMs = v.Int64() },
	"segment.jitter.ms":               func(d *configDraft, v config.Value) { d.SegmentJitterMs = v.Int64() },
	"segment.index.bytes":             func(d *configDraft, v config.Value) { d.IndexBytesMax = int32(v.Int64()) },
	"index.interval.bytes":            func(d *configDraft, v config.Value) { d.IndexInterval = int32(v.Int64()) },
	"flush.messages":                  func(d *configDraft, v config.Value) { d.FlushMessages = v.Int64() },
	"flush.ms":                        func(d *configDraft, v config.Value) { d.FlushMs = v.Int64() },
	"preallocate":                     func(d *configDraft, v config.Value) { d.Preallocate = v.Bool() },
	"max.message.bytes":               func(d *configDraft, v config.Value) { d.MaxMessageBytes = int32(v.Int64()) },
	"retention.ms":                    func(d *configDraft, v config.Value) { d.RetentionMs = v.Int64() },
	"retention.bytes":                 func(d *configDraft, v config.Value) { d.RetentionBytes = v.Int64() },
	"file.delete.delay.ms":            func(d *configDraft, v config.Value) { d.FileDeleteDelayMs = v.Int64() },
	"max.compaction.lag.ms":           func(d *configDraft, v config.Value) { d.MaxCompactionLagMs = v.Int64() },
	"min.compaction.lag.ms":           func(d *configDraft, v config.Value) { d.MinCompactionLagMs = v.Int64() },
	"delete.retention.ms":             func(d *configDraft, v config.Value) { d.DeleteRetentionMs = v.Int64() },
	"min.cleanable.dirty.ratio":       func(d *configDraft, v config.Value) { d.MinCleanableDirtyRatio = v.Float() },
	"message.timestamp.before.max.ms": func(d *configDraft, v config.Value) { d.TimestampBeforeMaxMs = v.Int64() },
	"message.timestamp.after.max.ms":  func(d *configDraft, v config.Value) { d.TimestampAfterMaxMs = v.Int64() },
	"message.timestamp.type":          func(d *configDraft, v config.Value) { d.LogAppendTime = v.Text == "LogAppendTime" },
	"compression.type":                func(d *configDraft, v config.Value) { d.compression = v.Text },
	"compression.gzip.level":          func(d *configDraft, v config.Value) { d.gzip = int(v.Int64()) },
	"compression.lz4.level":           func(d *configDraft, v config.Value) { d.lz4 = int(v.Int64()) },
	"compression.zstd.level":          func(d *configDraft, v config.Value) { d.zstd = int(v.Int64()) },
	"cleanup.policy": func(d *configDraft, v config.Value) {
		d.Compact, d.Delete = slices.Contains(v.Items(), "compact"), slices.Contains(v.Items(), "delete")
	},
	"internal.segment.bytes": func(d *configDraft, v config.Value) {
		if !v.Null {
			d.internalSegments = int32(v.Int64())
		}
	},
}

func (d configDraft) finish() storage.Config {
	c := d.Config
	if d.internalSegments > 0 {
		c.SegmentBytes = d.internalSegments
	}
	c.Recompress, c.CompressionLevel = true, record.DefaultLevel
	switch d.compression {
	case "gzip":
		c.Codec, c.CompressionLevel = record.Gzip, d.gzip
		if d.gzip == -1 { // as the codec has it
			c.CompressionLevel = record.DefaultLevel
		}
	case "snappy":
		c.Codec = record.Snappy
	case "lz4":
		c.Codec, c.CompressionLevel = record.LZ4, d.lz4
	case "zstd":
		c.Codec, c.CompressionLevel = record.Zstd, d.zstd
	case "uncompressed":
		c.Codec = record.None
	default:
		c.Recompress = false
	}
	return c
}

// of returns the settings of a topic's logs under an image.
func (l *logConfigs) of(img *metadata.Image, topic string) storage.Config {
	layers := l.node.controller.Layers(img, l.node.id)
	base := l.base.Load()
	if base == nil || !maps.Equal(base.layers.DynamicBroker, layers.DynamicBroker) || !maps.Equal(base.layers.DynamicDefault, layers.DynamicDefault) {
		base = &baseConfig{layers: layers, draft: configDraft{Config: storage.DefaultConfig()}}
		for key := range configSetters {
			base.draft.set(key, nil, layers)
		}
		if o, ok := config.Lookup(config.Broker(), "producer.id.expiration.ms"); ok {
			base.draft.ProducerExpirationMs = config.BrokerValue(o, layers).Int64()
		}
		l.base.Store(base)
	}
	draft := base.draft
	overrides := img.Configs(metadata.TopicResource, topic)
	for key := range overrides {
		draft.set(key, overrides, layers)
	}
	return draft.finish()
}

// set resolves one option and takes it in.
func (d *configDraft) set(key string, overrides map[string]string, layers config.Layers) {
	o, known := config.Lookup(config.Topic(), key)
	if set := configSetters[key]; known && set != nil {
		set(d, config.TopicValue(o, overrides, layers))
	}
}

// minISR is a topic's min.insync.replicas. It is a matter of the cluster: no single broker has a say.
func (n *Node) minISR(img *metadata.Image, topic string) int {
	o, ok := config.Lookup(config.Topic(), "min.insync.replicas")
	if !ok {
		return 1
	}
	layers := config.Layers{DynamicDefault: img.Configs(metadata.BrokerResource, ""), Static: n.static}
	return int(config.TopicValue(o, img.Configs(metadata.TopicResource, topic), layers).Int64())
}
