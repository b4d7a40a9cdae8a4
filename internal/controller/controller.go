package controller

import (
	"context"
	"fmt"
	"log/slog"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quire-log/quire/internal/config"
	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/storage"
	"github.com/quire-log/quire/internal/vfs"
)

// Options of a controller of one node that is both broker and controller.
type Options struct {
	NodeID    int32
	ClusterID string
	FS        vfs.FS
	Log       *storage.Log // __cluster_metadata-0
	Dir       string       // its directory, for checkpoints and quorum-state
	// Bootstrap are the records of bootstrap.checkpoint, which begin an empty log; nil: those of a new 4.3 cluster.
	Bootstrap []kmeta.Record
	Static    map[string]string // of the broker: defaults for new topics
	Logger    *slog.Logger
	// Apply is called with each image before it is shown (replica.Manager.Apply). It is not called for what Open replays.
	Apply func(*metadata.Image, *metadata.Delta) error
}

// A Controller writes the metadata log. Methods may be called from any goroutine; wishes are decided one after the other.
type Controller struct {
	options Options
	logger  *slog.Logger
	log     *storage.Log
	epoch   metadata.Epoch
	quorum  quorum // what the log's control records say of it; set by Open

	shown   atomic.Pointer[metadata.Image]
	failure atomic.Pointer[failure] // what failed says, for others than the writer

	wishes chan *wish

	// These belong to Open, and after it to the writer's goroutine.
	stateDue bool  // there was no room for quorum-state
	failed   error // why nothing can be written any more
	scratch  []byte
	replayed int64 // bytes of the log that no snapshot covered when it was opened

	snapshotBytes  int64 // metadata.log.max.record.bytes.between.snapshots
	snapshotDue    chan struct{}
	sizeAtSnapshot atomic.Int64 // the log's size when the newest snapshot was written

	closing    chan struct{}
	closeOnce  sync.Once
	background sync.WaitGroup // the writer and the keeper of snapshots
}

// Open replays snapshot and log, begins a new leader epoch (LEADER_CHANGE), writes bootstrap records if the log is empty, and writes quorum-state.
// What it wrote is on disk when it returns.
func Open(o Options) (*Controller, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Controller{
		options:       o,
		logger:        o.Logger,
		log:           o.Log,
		wishes:        make(chan *wish),
		closing:       make(chan struct{}),
		snapshotDue:   make(chan struct{}, 1),
		snapshotBytes: staticValue(o, "metadata.log.max.record.bytes.between.snapshots").Int64(),
	}
	img, err := c.load()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path.Base(o.Dir), err)
	}
	if err := c.begin(img); err != nil {
		return nil, fmt.Errorf("%s: %w", path.Base(o.Dir), err)
	}
	c.background.Go(c.runWriter)
	c.background.Go(c.runSnapshots)
	return c, nil
}

// staticValue resolves an option that cannot change at run time.
func staticValue(o Options, key string) config.Value {
	option, ok := config.Lookup(config.Broker(), key)
	if !ok {
		panic("no broker option " + key)
	}
	return config.BrokerValue(option, config.Layers{Static: o.Static})
}

// static resolves an option that cannot change at run time.
func (c *Controller) static(key string) config.Value { return staticValue(c.options, key) }

// Image is what clients may see, now.
func (c *Controller) Image() *metadata.Image { return c.shown.Load() }

// A failure is why nothing can be written any more.
type failure struct{ err error }

// Failed is nil, or why nothing can be changed until the node is restarted.
func (c *Controller) Failed() error {
	if f := c.failure.Load(); f != nil {
		return f.err
	}
	return nil
}

// LeaderEpoch and HighWatermark of the metadata log, for DescribeQuorum.
func (c *Controller) LeaderEpoch() metadata.Epoch    { return c.epoch }
func (c *Controller) HighWatermark() metadata.Offset { return c.Image().Offset() + 1 }

// A Caller is who wishes: for messages and policies.
type Caller struct{ ClientID, Host string }

// Layers are the values that apply to a broker under img.
func (c *Controller) Layers(img *metadata.Image, brokerID int32) config.Layers {
	return config.Layers{
		DynamicBroker:  img.Configs(metadata.BrokerResource, fmt.Sprint(brokerID)),
		DynamicDefault: img.Configs(metadata.BrokerResource, ""),
		Static:         c.options.Static,
	}
}

// AllocateProducerIDs reserves a block of 1000 ids for a broker: durable when it returns.
func (c *Controller) AllocateProducerIDs(ctx context.Context, brokerID int32, brokerEpoch int64) (first int64, n int32, err error) {
	const block = 1000
	err = c.write(ctx, func(d draft) ([]kmeta.Record, error) {
		if b := d.img.Broker(brokerID); b == nil || b.Epoch != brokerEpoch {
			return nil, fmt.Errorf("producer ids: broker %d is not registered with epoch %d", brokerID, brokerEpoch)
		}
		first = max(d.img.NextProducerID(), 0)
		return []kmeta.Record{&kmeta.ProducerIDsRecord{BrokerID: brokerID, BrokerEpoch: brokerEpoch, NextProducerID: first + block}}, nil
	})
	return first, block, err
}

// Close ends the background work, after the wishes that are being decided. It does not close the log.
func (c *Controller) Close() error {
	c.closeOnce.Do(func() { close(c.closing) })
	c.background.Wait()
	return nil
}

// runSnapshots writes a snapshot when much was written since the last one, or hourly when anything was.
func (c *Controller) runSnapshots() {
	interval := time.Duration(c.static("metadata.log.max.snapshot.interval.ms").Int64()) * time.Millisecond
	var tick <-chan time.Time
	if interval > 0 {
		t := time.NewTicker(interval)
		defer t.Stop()
		tick = t.C
	}
	var newest metadata.Offset = -1
	for {
		select {
		case <-c.closing:
			return
		case <-c.snapshotDue:
		case <-tick:
		}
		img := c.Image()
		if img.Offset() == newest {
			continue
		}
		if err := c.snapshot(img); err != nil {
			c.logger.Error("writing a snapshot of the metadata", "offset", img.Offset(), "error", err)
			continue
		}
		newest = img.Offset()
	}
}
