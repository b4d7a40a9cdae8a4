package server

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/storage"
	"github.com/quire-log/quire/internal/vfs"
)

// format gives the data directories a meta.properties for a new cluster, when none has one. When some have, the others must, as in Kafka,
// unless no node has run yet: then a first start was interrupted, and goes on.
// nodeID < 0: not configured; the directories' own, else 1. It returns what the directories agree on.
func (n *Node) format(fsys vfs.FS, dirs []string, nodeID int32) (storage.Meta, error) {
	var meta storage.Meta
	var bare []string
	found := false
	for _, dir := range dirs {
		m, formatted, err := storage.Formatted(fsys, dir)
		switch {
		case err != nil:
			// A directory that cannot be read goes offline by itself, unless it is the only one: the manager decides.
			n.log.Warn("reading meta.properties", "dir", dir, "error", err)
		case !formatted:
			bare = append(bare, dir)
		case !found:
			meta, found = m, true
		}
	}
	switch {
	case found && nodeID < 0:
		nodeID = meta.NodeID
	case nodeID < 0:
		nodeID = 1
	}
	meta.NodeID = nodeID
	if !found {
		meta.ClusterID = kmeta.RandomUUID().String()
	}
	for _, dir := range bare {
		if err := empty(fsys, dir); err != nil {
			return meta, err
		}
	}
	if found && len(bare) > 0 && begun(fsys, dirs) {
		// It may be a disk that is not mounted: formatted, it would hide what it holds.
		return meta, &storage.DirError{Dir: bare[0], Err: fmt.Errorf("no `meta.properties` found in %s, though other data directories have one: mount what belongs there, or, if it is new, run `quire kafka-storage format --ignore-formatted --cluster-id %s --config FILE`", bare[0], meta.ClusterID)}
	}
	for _, dir := range bare {
		meta.DirectoryID = storage.TopicID(kmeta.RandomUUID())
		bootstrap := metadata.Snapshot{Records: metadata.BootstrapRecords()}
		data, err := bootstrap.AppendTo(nil, time.Now().UnixMilli())
		if err != nil {
			return meta, err
		}
		if err := storage.Format(fsys, dir, meta, data); errors.Is(err, fs.ErrExist) {
			return meta, fmt.Errorf("%s: formatting: %w, but it is no directory: a file, or a symbolic link to nothing, is in its place", dir, err)
		} else if err != nil {
			return meta, fmt.Errorf("%s: formatting: %w", dir, err)
		}
		n.log.Info("formatted a data directory", "dir", dir, "cluster", meta.ClusterID, "node", meta.NodeID)
	}
	return meta, nil
}

// begun tells whether a node has run on the directories: the metadata log has a segment.
func begun(fsys vfs.FS, dirs []string) bool {
	for _, dir := range dirs {
		entries, err := fsys.ReadDir(path.Join(dir, storage.MetadataPartition.String()))
		if err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.HasSuffix(e.Name(), ".log") }) {
			return true
		}
	}
	return false
}

// empty tells why a directory must not be formatted: something in it looks like a partition.
func empty(fsys vfs.FS, dir string) error {
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() && strings.Contains(e.Name(), "-") {
			return fmt.Errorf("%s: no meta.properties, but %s is there: put meta.properties back, or move what is there away", dir, path.Join(dir, e.Name()))
		}
	}
	return nil
}

// readBootstrap reads the records that a new metadata log begins with from bootstrap.checkpoint; without the file: nil, a new cluster's.
func (n *Node) readBootstrap(dir string) ([]kmeta.Record, error) {
	data, err := vfs.ReadFile(n.options.FS, path.Join(dir, "bootstrap.checkpoint"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s, err := metadata.ReadSnapshot(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path.Join(dir, "bootstrap.checkpoint"), err)
	}
	return s.Records, nil
}
