package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/storage"
	"github.com/quire-log/quire/internal/vfs"
)

const verifyAbout = `Example:
  quire verify data

Usage: quire verify DIR...

Reads every batch, index and checkpoint in data directories (log.dirs), or in the directory of one partition, and changes
nothing. Of each damaged file it names the first bad byte and why it is bad. No node may use the directory meanwhile.
Exit code: 0 all is good, 1 something is damaged, 2 the directory could not be looked at.
`

// quireVerify is `quire verify`.
func quireVerify(env Env, args []string) int {
	c := newOwnCommand(env, "quire verify", verifyAbout)
	dirs, ok, code := c.parse(args)
	switch {
	case !ok:
		return code
	case len(dirs) == 0:
		return c.misuse("which directory?")
	}
	v := &verifier{out: env.Stdout, bar: newProgress(env.Stderr)}
	for _, dir := range dirs {
		if err := v.plan(dir); err != nil {
			fmt.Fprintf(env.Stderr, "quire verify: %v\n", err)
			v.close()
			return exitMisuse
		}
	}
	defer v.close()
	for _, job := range v.jobs {
		job()
	}
	v.bar.clear()
	fmt.Fprintf(env.Stdout, "%s, %s, %s, %s in %s: ", counted(v.partitions, "partition"), counted(v.segments, "segment"), counted(v.batches, "batch"),
		counted(v.records, "record"), sizeText(v.bar.done))
	if v.damaged > 0 {
		fmt.Fprintf(env.Stdout, "%s damaged\n", counted(v.damaged, "file"))
		return exitBad
	}
	fmt.Fprintln(env.Stdout, "all good")
	return exitGood
}

// counted is a number of things: 1 batch, 2 batches.
func counted(n int64, thing string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(thing, "ch"):
		thing += "es"
	default:
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// A verifier reads data directories. It plans first, so that it knows how much there is to read.
type verifier struct {
	out   io.Writer
	bar   *progress
	jobs  []func() // in order
	locks []io.Closer

	partitions, segments, batches, records, damaged int64

	reader record.Reader
	buf    []byte // the batch at hand
}

func (v *verifier) close() {
	for _, l := range v.locks {
		l.Close()
	}
}

// bad tells of a file's first bad byte, or of the whole file (pos < 0).
func (v *verifier) bad(file string, pos int64, why string) {
	v.bar.clear()
	v.damaged++
	if pos >= 0 {
		fmt.Fprintf(v.out, "%s: byte %d: %s\n", file, pos, why)
	} else {
		fmt.Fprintf(v.out, "%s: %s\n", file, why)
	}
}

// plan locks a directory and lists what is to be read in it. Its errors mean that it cannot be looked at.
func (v *verifier) plan(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(entries, func(e os.DirEntry) bool { return filepath.Ext(e.Name()) == ".log" }) {
		if err := v.lock(filepath.Dir(filepath.Clean(dir))); err != nil {
			return err
		}
		return v.planPartition(dir)
	}
	if _, formatted, err := storage.Formatted(vfs.OS(), dir); err == nil && !formatted &&
		!slices.ContainsFunc(entries, func(e os.DirEntry) bool {
			partition, _ := storage.PartitionDirectory(e.Name())
			return e.IsDir() && partition
		}) {
		return fmt.Errorf("%s is neither a data directory (it has no meta.properties and no partitions) nor that of a partition", dir)
	}
	if err := v.lock(dir); err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		partition, deleted := storage.PartitionDirectory(e.Name())
		switch {
		case e.IsDir() && partition && !deleted:
			if err := v.planPartition(name); err != nil {
				return err
			}
		case e.IsDir():
		case e.Name() == "meta.properties":
			v.jobs = append(v.jobs, func() {
				if _, _, err := storage.Formatted(vfs.OS(), dir); err != nil {
					v.bad(name, -1, err.Error())
				}
			})
		default:
			v.planFile(name, e)
		}
	}
	return nil
}

// lock keeps nodes out of a directory that one has used before.
func (v *verifier) lock(dir string) error {
	name := filepath.Join(dir, ".lock")
	if _, err := os.Stat(name); err != nil {
		return nil // no node was ever here, and a file of its own would be a change
	}
	l, err := vfs.OS().Lock(name)
	switch {
	case errors.Is(err, vfs.ErrLocked):
		return fmt.Errorf("%s is in use by a node, which changes it while it is read: stop the node first", dir)
	case err == nil:
		v.locks = append(v.locks, l)
	}
	return nil // a directory that may not be written to is read without the lock
}

// planFile lists a file that is neither log nor index.
func (v *verifier) planFile(name string, e os.DirEntry) {
	info, err := e.Info()
	if err != nil {
		return
	}
	switch {
	case filepath.Ext(name) == ".checkpoint":
		v.bar.total += info.Size()
		v.jobs = append(v.jobs, func() { v.snapshotOfMetadata(name) })
	case filepath.Ext(name) == ".snapshot":
		v.bar.total += info.Size()
		v.jobs = append(v.jobs, func() { v.producers(name) })
	case e.Name() == "quorum-state":
		v.jobs = append(v.jobs, func() { v.quorumState(name) })
	default:
		v.jobs = append(v.jobs, func() {
			if known, err := storage.CheckTextFile(vfs.OS(), name); known && err != nil {
				v.bad(name, -1, textComplaint(err, name))
			}
		})
	}
}

// textComplaint is an error about a file without the file's name, which stands before it.
func textComplaint(err error, name string) string { return strings.TrimPrefix(err.Error(), name+": ") }

// planPartition lists the segments of a partition, in order, and its other files.
func (v *verifier) planPartition(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	p := &verifiedPartition{v: v, dir: dir, end: -1}
	v.partitions++
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		switch filepath.Ext(name) {
		case ".log":
			info, err := e.Info()
			if err != nil {
				return err
			}
			v.bar.total += info.Size()
			p.logs = append(p.logs, name)
			v.jobs = append(v.jobs, func() { p.segment(name) })
		case ".index", ".timeindex", ".txnindex":
			if log := strings.TrimSuffix(name, filepath.Ext(name)) + ".log"; !exists(log) {
				v.jobs = append(v.jobs, func() { v.bad(name, -1, "its segment's "+filepath.Base(log)+" is missing") })
			}
		default:
			if !e.IsDir() {
				v.planFile(name, e)
			}
		}
	}
	return nil
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// producers reads a .snapshot of producers.
func (v *verifier) producers(name string) {
	f, size, err := openFile(name)
	if err != nil {
		v.bad(name, -1, err.Error())
		return
	}
	defer f.Close()
	v.bar.add(size, name)
	if size > dumpSnapshotMax {
		v.bad(name, dumpSnapshotMax, "longer than any snapshot of producers")
		return
	}
	b, err := io.ReadAll(io.LimitReader(f, size))
	if err == nil {
		_, err = storage.ParseProducerSnapshot(b)
	}
	if err != nil {
		v.bad(name, 0, err.Error())
	}
}

// snapshotOfMetadata reads a .checkpoint: a snapshot of the metadata log, or what a directory was formatted with.
func (v *verifier) snapshotOfMetadata(name string) {
	f, size, err := openFile(name)
	if err != nil {
		v.bad(name, -1, err.Error())
		return
	}
	defer f.Close()
	w := &verifiedLog{v: v, f: f, name: name, size: size, end: 0}
	w.walk(func(*dumpedBatch) {})
}

// quorumStateMax bounds what is read of a quorum-state, a line of JSON.
const quorumStateMax = 1 << 20

func (v *verifier) quorumState(name string) {
	f, _, err := openFile(name)
	if err != nil {
		v.bad(name, -1, err.Error())
		return
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, quorumStateMax))
	if err != nil {
		v.bad(name, -1, err.Error())
		return
	}
	var state map[string]any
	var syntax *json.SyntaxError
	switch err := json.Unmarshal(b, &state); {
	case errors.As(err, &syntax):
		v.bad(name, syntax.Offset, err.Error())
	case err != nil:
		v.bad(name, 0, err.Error())
	}
}
