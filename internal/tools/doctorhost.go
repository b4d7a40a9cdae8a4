package tools

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quire-log/quire/internal/config"
	"github.com/quire-log/quire/internal/storage"
	"github.com/quire-log/quire/internal/vfs"
)

const (
	// filesFew is below what a node of some hundred partitions and clients needs, filesEnough what Kafka's documentation asks for.
	filesFew, filesEnough = 4096, 100_000
	// A sync that takes longer holds up every request that waits for the disk.
	syncSlow = 50 * time.Millisecond
	// syncProbes are how many writes are synced to find the usual time.
	syncProbes = 15
	// spaceFew is the least room on a disk that raises no warning.
	spaceFew = 1 << 30
)

// built is a time that has passed wherever this program runs.
var built = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// machine looks at what every node on this machine shares.
func (d *doctor) machine() {
	var files unix.Rlimit
	switch err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); {
	case err != nil:
		d.warn("files", "", "how many files may be open is not known: %v", err)
	case uint64(files.Cur) < filesFew:
		d.problem("files", "ulimit -n 100000, or LimitNOFILE=100000 in the service's unit", "only %d files may be open at once (RLIMIT_NOFILE; the hard limit is %d)", files.Cur, files.Max)
	case uint64(files.Cur) < filesEnough:
		d.warn("files", "ulimit -n 100000, or LimitNOFILE=100000 in the service's unit: each segment in use and each client takes one", "%d files may be open at once (RLIMIT_NOFILE; the hard limit is %d)", files.Cur, files.Max)
	default:
		d.ok("files", "%d may be open at once (RLIMIT_NOFILE)", files.Cur)
	}
	now := time.Now()
	kept, known := clockKept()
	switch {
	case now.Before(built):
		d.problem("clock", "set the clock, and let NTP keep it", "it is said to be %s: records would be kept and deleted by a wrong time", now.UTC().Format(time.RFC3339))
	case known && !kept:
		d.warn("clock", "run chrony or systemd-timesyncd: retention and timestamps go by the clock", "%s, and no time server keeps it right", now.UTC().Format(time.RFC3339))
	case known:
		d.ok("clock", "%s, kept right by a time server", now.UTC().Format(time.RFC3339))
	default:
		d.ok("clock", "%s", now.UTC().Format(time.RFC3339))
	}
}

// logDirs are the data directories of a node.
func logDirsOf(l config.Layers) []string {
	dirs := l.Of("log.dirs").Items()
	if len(dirs) == 0 {
		dirs = l.Of("log.dir").Items()
	}
	if meta := l.Of("metadata.log.dir"); !meta.Null && !slices.Contains(dirs, meta.Text) {
		dirs = append(dirs, meta.Text)
	}
	return dirs
}

// directories looks at the data directories, and reports whether a node uses them now.
func (d *doctor) directories(l config.Layers) (running bool) {
	var cluster, first string
	for _, dir := range logDirsOf(l) {
		fsys := vfs.OS()
		existing := dir
		for {
			if _, err := os.Stat(existing); err == nil || existing == "/" || existing == "." {
				break
			}
			existing = filepath.Dir(existing)
		}
		info, err := os.Stat(existing)
		if err == nil && !info.IsDir() {
			err = &fs.PathError{Op: "open", Path: existing, Err: errors.New("not a directory")}
		}
		if err != nil {
			d.problem("directory", "log.dirs names the directories", "%s: %v", dir, err)
			continue
		}
		meta, formatted, err := storage.Formatted(fsys, dir)
		switch {
		case err != nil:
			d.problem("directory", "restore meta.properties, or give the node another directory", "%s: %s", dir, textComplaint(err, dir))
			continue
		case formatted && cluster != "" && meta.ClusterID != cluster:
			d.problem("directory", "they are of two nodes: give each node its own", "%s is of cluster %s, %s of %s", dir, meta.ClusterID, first, cluster)
		case formatted && !l.Of("node.id").Null && fmt.Sprint(meta.NodeID) != l.Of("node.id").Text:
			d.problem("directory", fmt.Sprintf("set node.id=%d, or give the node another directory", meta.NodeID), "%s is of node %d, and node.id=%s", dir, meta.NodeID, l.Of("node.id").Text)
		case formatted:
			cluster, first = meta.ClusterID, dir
		}
		used := d.inUse(dir)
		running = running || used
		state := "new: it is formatted at the first start"
		if formatted {
			state = fmt.Sprintf("of node %d, cluster %s", meta.NodeID, meta.ClusterID)
		}
		if used {
			state += ", in use by a running node"
		}
		if usage, err := fsys.Usage(existing); err == nil {
			state += fmt.Sprintf(", %s free of %s", sizeText(usage.Usable), sizeText(usage.Total))
			if usage.Usable < spaceFew {
				d.warn("directory", "make room, or bound topics by retention.bytes", "%s has %s left", dir, sizeText(usage.Usable))
			}
		}
		d.ok("directory", "%s: %s", dir, state)
		d.syncTime(existing)
	}
	return running
}

// inUse tells whether a node holds a directory's lock.
func (d *doctor) inUse(dir string) bool {
	name := filepath.Join(dir, ".lock")
	if _, err := os.Stat(name); err != nil {
		return false
	}
	lock, err := vfs.OS().Lock(name)
	if err == nil {
		lock.Close()
	}
	return errors.Is(err, vfs.ErrLocked)
}

// syncTime measures how long the disk takes to make a small write durable, in a file that it removes.
func (d *doctor) syncTime(dir string) {
	f, err := os.CreateTemp(dir, ".quire-doctor-*")
	if err != nil {
		d.problem("disk", "whoever runs the node has to own the directory", "nothing can be written in %s: %v", dir, err)
		return
	}
	defer os.Remove(f.Name())
	defer f.Close()
	var took []time.Duration
	block := make([]byte, 4096)
	for range syncProbes {
		began := time.Now()
		if _, err = f.Write(block); err == nil {
			err = f.Sync()
		}
		if err != nil {
			d.problem("disk", "look at the system's log for errors of this disk", "%s: %v", dir, err)
			return
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	usual, worst := took[len(took)/2], took[len(took)-1]
	if usual > syncSlow {
		d.warn("disk", "use a faster disk, or leave flush.messages and flush.ms as they are: then requests do not wait for it", "%s: a sync of 4 KiB takes %s, at worst %s", dir, roundTime(usual), roundTime(worst))
		return
	}
	d.ok("disk", "%s: a sync of 4 KiB takes %s, at worst %s", dir, roundTime(usual), roundTime(worst))
}

// roundTime leaves three digits or so.
func roundTime(t time.Duration) time.Duration {
	switch {
	case t > time.Second:
		return t.Round(10 * time.Millisecond)
	case t > time.Millisecond:
		return t.Round(10 * time.Microsecond)
	}
	return t.Round(time.Microsecond)
}
