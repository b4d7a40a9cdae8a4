package controller

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/vfs"
)

// A snapshotID names a snapshot: the state of the metadata up to an offset, exclusive, written in an epoch.
type snapshotID struct {
	end   metadata.Offset
	epoch metadata.Epoch
}

const snapshotSuffix = ".checkpoint"

func (s snapshotID) name() string {
	return fmt.Sprintf("%020d-%010d%s", s.end, s.epoch, snapshotSuffix)
}

func (s snapshotID) compare(o snapshotID) int {
	return cmp.Or(cmp.Compare(s.end, o.end), cmp.Compare(s.epoch, o.epoch))
}

func parseSnapshotName(name string) (snapshotID, bool) {
	stem, ok := strings.CutSuffix(name, snapshotSuffix)
	if !ok || len(stem) != 31 || stem[20] != '-' {
		return snapshotID{}, false
	}
	end, err1 := strconv.ParseUint(stem[:20], 10, 63)
	epoch, err2 := strconv.ParseUint(stem[21:], 10, 31)
	return snapshotID{metadata.Offset(end), metadata.Epoch(epoch)}, err1 == nil && err2 == nil
}

// snapshot writes img as a .checkpoint file, durably, and lets go of what retention no longer keeps of the log before it.
func (c *Controller) snapshot(img *metadata.Image) error {
	id := snapshotID{img.Offset() + 1, img.Epoch()}
	now := time.Now().UnixMilli()
	snapshot := metadata.Snapshot{
		Epoch:                  img.Epoch(),
		LastContainedTimestamp: now,
		KRaftVersion:           c.quorum.version,
		Voters:                 c.quorum.voters,
		Records:                img.Records(),
	}
	data, err := snapshot.AppendTo(nil, now)
	if err != nil {
		return err
	}
	if err := vfs.WriteFile(c.options.FS, path.Join(c.options.Dir, id.name()), data); err != nil {
		return err
	}
	c.logger.Info("wrote a snapshot of the metadata", "file", id.name(), "bytes", len(data))
	err = c.retain()
	c.sizeAtSnapshot.Store(c.log.Size()) // after it, since what retention took counts no more
	return err
}

// retain deletes the oldest snapshot, and the log before the next one, while log and snapshots together exceed
// metadata.max.retention.bytes or the oldest is past metadata.max.retention.ms. The newest snapshot always stays.
func (c *Controller) retain() error {
	bytesMax := c.static("metadata.max.retention.bytes").Int64()
	msMax := c.static("metadata.max.retention.ms").Int64()
	snapshots, err := c.listSnapshots()
	if err != nil {
		return err
	}
	snapshots = slices.DeleteFunc(snapshots, func(s snapshotID) bool { return s.end == 0 })
	for len(snapshots) > 1 {
		oldest := path.Join(c.options.Dir, snapshots[0].name())
		total := c.log.Size()
		for _, s := range snapshots {
			info, err := c.options.FS.Stat(path.Join(c.options.Dir, s.name()))
			if err != nil {
				return err
			}
			total += info.Size()
		}
		info, err := c.options.FS.Stat(oldest)
		if err != nil {
			return err
		}
		tooBig := bytesMax >= 0 && total > bytesMax
		tooOld := msMax >= 0 && time.Since(info.ModTime()) > time.Duration(msMax)*time.Millisecond
		if !tooBig && !tooOld {
			return nil
		}
		// The log's start moves first: until the next snapshot is the one that counts, the oldest is needed.
		if _, err := c.log.DeleteRecords(snapshots[1].end); err != nil {
			return err
		}
		_, err = c.log.DeleteOldSegments(snapshots[1].end)
		if err := errors.Join(err, c.options.FS.Remove(oldest), c.options.FS.SyncDir(c.options.Dir)); err != nil {
			return err
		}
		snapshots = snapshots[1:]
	}
	return nil
}
