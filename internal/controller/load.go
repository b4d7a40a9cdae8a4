package controller

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/storage"
	"github.com/quire-log/quire/internal/vfs"
)

// inflateMax bounds a compressed batch of the metadata log. Kafka writes none.
const inflateMax = batchBytesMax

// load replays the newest snapshot that can be read and the log after it.
func (c *Controller) load() (*metadata.Image, error) {
	img := metadata.Empty()
	snapshots, err := c.listSnapshots()
	if err != nil {
		return nil, err
	}
	from := c.log.StartOffset()
	covered := from == 0
	for _, s := range slices.Backward(snapshots) {
		if s.end < from {
			break // what lies between it and the log is gone
		}
		data, err := vfs.ReadFile(c.options.FS, path.Join(c.options.Dir, s.name()))
		if err == nil {
			img, err = c.replaySnapshot(data, s)
		}
		if err != nil {
			c.logger.Error("a snapshot of the metadata cannot be read; an older one or the log itself must do", "file", s.name(), "error", err)
			img, c.quorum = metadata.Empty(), quorum{}
			continue
		}
		covered = true
		if s.end > c.log.EndOffset() {
			c.logger.Info("the metadata log ends before its newest snapshot, and begins anew there", "end", c.log.EndOffset(), "snapshot", s.name())
			if err := c.log.TruncateFullyAndStartAt(s.end); err != nil {
				return nil, err
			}
		}
		from = max(from, s.end)
		break
	}
	if !covered {
		return nil, fmt.Errorf("the log begins at offset %d, and no snapshot holds what was before", c.log.StartOffset())
	}
	return c.replayLog(img, from)
}

// listSnapshots returns the finished snapshots, oldest first, and removes what unfinished work left behind.
func (c *Controller) listSnapshots() ([]snapshotID, error) {
	entries, err := c.options.FS.ReadDir(c.options.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var found []snapshotID
	for _, e := range entries {
		name := e.Name()
		if strings.HasSuffix(name, ".checkpoint.part") || strings.HasSuffix(name, ".checkpoint.deleted") || strings.HasSuffix(name, ".checkpoint.tmp") {
			if err := c.options.FS.Remove(path.Join(c.options.Dir, name)); err != nil {
				c.logger.Warn("removing a leftover of the metadata log", "file", name, "error", err)
			}
			continue
		}
		if s, ok := parseSnapshotName(name); ok {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, snapshotID.compare)
	return found, nil
}

// replaySnapshot replays a whole snapshot file.
func (c *Controller) replaySnapshot(data []byte, id snapshotID) (*metadata.Image, error) {
	s, err := metadata.ReadSnapshot(data)
	if err != nil {
		return nil, err
	}
	img := metadata.Empty()
	if id.end > 0 { // else it is of a directory just formatted, and speaks of the quorum alone
		if img, _, err = metadata.NewReplayer(img).Replay(s.Records, id.end-1, id.epoch); err != nil {
			return nil, err
		}
	}
	c.quorum.version, c.quorum.voters = s.KRaftVersion, s.Voters
	return img, nil
}

// replayLog replays the log from an offset to its end, and closes a metadata transaction that a crash left open.
func (c *Controller) replayLog(img *metadata.Image, from metadata.Offset) (*metadata.Image, error) {
	replayer := metadata.NewReplayer(img)
	var buf bytes.Buffer
	for end := c.log.EndOffset(); from < end; {
		data, err := c.log.Read(from, storage.ReadOptions{MaxBytes: 1 << 20, Limit: end, MinOneBatch: true})
		if err != nil {
			return nil, err
		}
		buf.Reset()
		for _, region := range data.Regions {
			if _, err := region.WriteTo(&buf); err != nil {
				data.Release()
				return nil, err
			}
		}
		data.Release()
		before := from
		for rest := buf.Bytes(); len(rest) > 0; {
			b, err := record.FirstBatch(rest)
			if errors.Is(err, io.ErrUnexpectedEOF) && from > before {
				break // the read ended in the middle of it
			}
			if err != nil {
				return nil, fmt.Errorf("offset %d: %w", from, err)
			}
			rest = rest[len(b):]
			if b.LastOffset() < from {
				continue // the read began before the offset asked for
			}
			var recs []kmeta.Record
			if b.IsControl() {
				if err := c.replayControl(b); err != nil {
					return nil, fmt.Errorf("offset %d: %w", b.BaseOffset(), err)
				}
			} else if recs, err = readRecords(b); err != nil {
				return nil, fmt.Errorf("offset %d: %w", b.BaseOffset(), err)
			}
			for _, r := range recs {
				switch r.(type) {
				case *kmeta.BeginTransactionRecord:
					c.quorum.openTransaction = true
				case *kmeta.EndTransactionRecord, *kmeta.AbortTransactionRecord:
					c.quorum.openTransaction = false
				}
			}
			if len(recs) > 0 {
				c.quorum.hasRecords = true
			}
			c.epoch = max(c.epoch, b.LeaderEpoch())
			next, _, err := replayer.Replay(recs, b.LastOffset(), b.LeaderEpoch())
			if err != nil {
				return nil, fmt.Errorf("batch at offset %d: %w", b.BaseOffset(), err)
			}
			img, from = next, b.LastOffset()+1
			c.replayed += int64(len(b))
		}
		if from == before {
			return nil, fmt.Errorf("offset %d: no batch could be read", from)
		}
	}
	return img, nil
}

// readRecords reads the metadata records of a batch. They do not alias it.
func readRecords(b record.Batch) ([]kmeta.Record, error) {
	var r record.Reader
	if err := r.Reset(b, inflateMax); err != nil {
		return nil, err
	}
	var recs []kmeta.Record
	for r.Next() {
		rec, _, err := kmeta.ReadValue(bytes.Clone(r.Record().Value))
		if err != nil {
			return nil, fmt.Errorf("record %d: %w", len(recs), err)
		}
		recs = append(recs, rec)
	}
	return recs, r.Err()
}

// replayControl takes in what a control batch says of the quorum.
func (c *Controller) replayControl(b record.Batch) error {
	var r record.Reader
	if err := r.Reset(b, inflateMax); err != nil {
		return err
	}
	for r.Next() {
		typ, err := record.ParseControlKey(r.Record().Key)
		if err != nil {
			return err
		}
		if typ != record.ControlKRaftVersion && typ != record.ControlKRaftVoters {
			continue
		}
		v, _, err := kmeta.ReadControl(int16(typ), bytes.Clone(r.Record().Value))
		if err != nil {
			return err
		}
		switch v := v.(type) {
		case *kmeta.KRaftVersion:
			c.quorum.version = v
		case *kmeta.KRaftVoters:
			c.quorum.voters = v
		}
	}
	return r.Err()
}
