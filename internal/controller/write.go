package controller

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/storage"
)

// ErrClosed is what a wish gets from a controller that has been closed.
var ErrClosed = errors.New("the controller has been closed")

// A draft is what a decision stands on.
type draft struct {
	// img has every wish before this one. It may not be on disk yet: a decision must not tell anybody of it, write does when it may.
	img *metadata.Image
	// next is the offset that the first record will have.
	next metadata.Offset
}

// A wish waits for the writer to decide it.
type wish struct {
	decide func(draft) ([]kmeta.Record, error)
	done   chan error // of capacity 1
}

// groupMax bounds the wishes that share an fsync, and so how long the first of them waits.
const groupMax = 512

// write has decide decide, alone and after every wish before it, and makes its records true: written as one batch, fsynced,
// applied to this node's replicas, shown by Image, in this order; then it returns. No records: nothing is written, but what
// decide saw in its draft is true when write returns. decide runs on the writer's goroutine: it reads the draft, no disk,
// no clock, and must not call write. Its error is write's.
//
// Wishes that wait at the same time share the fsync and the application. When ctx ends before the wish's turn has come,
// nothing is written; afterwards write stays until it knows what became of it.
func (c *Controller) write(ctx context.Context, decide func(draft) ([]kmeta.Record, error)) error {
	w := &wish{decide: decide, done: make(chan error, 1)}
	select {
	case c.wishes <- w:
		return <-w.done
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closing:
		return ErrClosed
	}
}

// runWriter decides wishes until Close. It alone appends to the metadata log once Open has returned.
func (c *Controller) runWriter() {
	var group []*wish
	for {
		select {
		case <-c.closing:
			return
		case w := <-c.wishes:
			group = append(group[:0], w)
		}
	gather:
		for len(group) < groupMax {
			select {
			case w := <-c.wishes:
				group = append(group, w)
			default:
				break gather
			}
		}
		c.commit(group)
	}
}

// commit decides a group of wishes in their order, makes what they wrote durable together, and answers them.
func (c *Controller) commit(group []*wish) {
	before := c.shown.Load()
	img := before
	var (
		all     []kmeta.Record // what the group wrote, for one delta over all of it
		delta   *metadata.Delta
		batches int
		results = make([]error, len(group))
	)
	for i, w := range group {
		if c.failed != nil {
			results[i] = c.failed
			continue
		}
		recs, err := decideSafely(w.decide, draft{img, c.log.EndOffset()})
		if err == nil && len(recs) > 0 {
			var next *metadata.Image
			if next, delta, err = c.append(img, recs); err == nil {
				img = next
				all = append(all, recs...)
				batches++
			}
		}
		results[i] = err
	}
	if batches > 0 && c.failed == nil {
		if err := c.log.Flush(); err != nil {
			c.fail(err)
		}
	}
	if batches > 1 && c.failed == nil {
		// Replaying the group as one gives one delta, so that its topics' directories are made together.
		var err error
		if _, delta, err = metadata.NewReplayer(before).Replay(all, img.Offset(), c.epoch); err != nil {
			c.fail(fmt.Errorf("replay of %d records up to offset %d: %w", len(all), img.Offset(), err))
		}
	}
	if c.failed != nil {
		// What is in the log may or may not survive: nobody may be told that it does, nor decide upon it.
		for i, w := range group {
			w.done <- errors.Join(results[i], c.failed)
		}
		return
	}
	if batches > 0 {
		if c.stateDue {
			c.stateDue = c.writeQuorumState() != nil
		}
		c.show(img, delta)
	}
	for i, w := range group {
		w.done <- results[i]
	}
}

// decideSafely keeps a fault of one decision from ending the node.
func decideSafely(decide func(draft) ([]kmeta.Record, error), d draft) (recs []kmeta.Record, err error) {
	defer func() {
		if p := recover(); p != nil {
			recs, err = nil, fmt.Errorf("a decision of the controller panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return decide(d)
}

// show has the node's replicas follow img, then lets clients see it.
func (c *Controller) show(img *metadata.Image, delta *metadata.Delta) {
	if c.options.Apply != nil && delta != nil {
		if err := c.options.Apply(img, delta); err != nil {
			// The log has the last word on what the cluster is: a replica that cannot follow answers for itself.
			c.logger.Error("applying metadata", "offset", img.Offset(), "error", err)
		}
	}
	c.shown.Store(img)
	if c.log.Size()-c.sizeAtSnapshot.Load() > c.snapshotBytes {
		select {
		case c.snapshotDue <- struct{}{}:
		default:
		}
	}
}

// fail ends all writing: after a failed write or fsync nobody knows what the log holds until it is opened again.
func (c *Controller) fail(err error) {
	c.failed = fmt.Errorf("metadata log: %w", err)
	c.failure.Store(&failure{c.failed})
	c.logger.Error("the metadata log failed: nothing can be changed until this node is restarted", "error", err)
}

const (
	batchRecordsMax = 10000 // Kafka's controllers write no more in a batch
	batchBytesMax   = 8 << 20
)

// append replays recs on img and, if they can be replayed, appends them: as one batch, or when they are too many as a metadata
// transaction of several, so that a crash leaves all of them or none (I2).
func (c *Controller) append(img *metadata.Image, recs []kmeta.Record) (*metadata.Image, *metadata.Delta, error) {
	batches, err := c.cut(img, recs)
	if err != nil {
		return nil, nil, err
	}
	count := 0
	for _, b := range batches {
		count += len(b)
	}
	last := c.log.EndOffset() + metadata.Offset(count) - 1
	next, delta, err := metadata.NewReplayer(img).Replay(recs, last, c.epoch)
	if err != nil {
		return nil, nil, fmt.Errorf("records that cannot be replayed: %w", err)
	}
	level := max(img.MetadataVersion(), next.MetadataVersion())
	for i, b := range batches {
		if err := c.appendBatch(b, level); err != nil {
			var full *storage.DiskFullError
			if i > 0 || !errors.As(err, &full) {
				c.fail(err)
			}
			return nil, nil, err
		}
	}
	return next, delta, nil
}

// recordOverhead bounds what a record has beside its value: four varints and three bytes.
const recordOverhead = 32

// cut puts recs into batches that are small enough; more than one stand between the records of a metadata transaction, which levels
// before 3.6-IV1 lack: there a crash may leave the first batches alone. What clients wish for is not bounded by what a batch may hold, so
// a record that no batch could hold is refused here, before any is written: a failed append would end all writing.
func (c *Controller) cut(img *metadata.Image, recs []kmeta.Record) ([][]kmeta.Record, error) {
	var batches [][]kmeta.Record
	var value []byte
	first, size := 0, record.HeaderSize
	for i, r := range recs {
		value = kmeta.AppendValue(value[:0], r, kmeta.VersionAt(r, img.MetadataVersion()))
		n := len(value) + recordOverhead
		if record.HeaderSize+n > batchBytesMax {
			return nil, refuse(kerr.RecordListTooLarge, fmt.Sprintf("The metadata record of the change has %d bytes, more than a batch may have (%d).", len(value), batchBytesMax))
		}
		if size+n > batchBytesMax || i-first == batchRecordsMax {
			batches = append(batches, recs[first:i])
			first, size = i, record.HeaderSize
		}
		size += n
	}
	batches = append(batches, recs[first:])
	if len(batches) > 1 && img.MetadataVersion() >= levelTransactions {
		name := "Large change"
		batches = slices.Insert(batches, 0, []kmeta.Record{&kmeta.BeginTransactionRecord{Name: &name}})
		batches = append(batches, []kmeta.Record{&kmeta.EndTransactionRecord{}})
	}
	return batches, nil
}

// appendBatch appends one batch of metadata records at the versions of a level of metadata.version.
func (c *Controller) appendBatch(recs []kmeta.Record, level int16) error {
	now := time.Now().UnixMilli()
	b := record.NewBuilder()
	b.LeaderEpoch = c.epoch
	var value []byte
	for _, r := range recs {
		value = kmeta.AppendValue(value[:0], r, kmeta.VersionAt(r, level))
		b.Add(record.Record{Timestamp: now, Value: value})
	}
	return c.appendBuilt(b)
}

func (c *Controller) appendBuilt(b *record.Builder) error {
	batch, err := b.Batch(c.scratch[:0])
	if err != nil {
		return err
	}
	c.scratch = batch
	_, err = c.log.Append(record.Batch(batch), storage.AppendOptions{LeaderEpoch: c.epoch, Origin: storage.FromCoordinator})
	return err
}
