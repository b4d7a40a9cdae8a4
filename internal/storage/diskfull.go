package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"sync"
	"sync/atomic"
	"time"
)

// A full disk is a mode of a data directory, which begins and ends by itself:
//
//	normal    free space is above the watermark, and the reserve is on the disk: a file of zeros that takes up room
//	full      it was below: clients' appends to the logs there are refused, all else goes on, for it takes little
//	          or gives room: fetches, group commits, markers, deletes, retention, compaction, checkpoints
//	pressed   it was below a quarter of that: the reserve is given up to what goes on
//
// It is normal again once there is room for watermark, a quarter more, and the reserve.
//
// A second, smaller reserve is given up by nobody but a start that finds neither room nor the first one: it needs a few pages for the
// metadata log and the checkpoints. Once the node runs the small reserve is made anew, on a full disk of half of what is left; it grows
// when the disk is full no more.

// DiskOptions say when a directory counts as full. The zero ones never do.
type DiskOptions struct {
	WatermarkBytes int64 // free space below which clients' appends are refused; at most a twentieth of the volume counts
	ReserveBytes   int64 // at most a hundredth of the volume counts
	CheckMs        int64 // how often the volumes are looked at
}

const (
	reserveFile = ".quire-reserve" // Kafka ignores plain files that it does not know
	// startReserveFile is the reserve of starts, and startReserveBytes its size; at most a hundredth of the volume counts.
	startReserveFile  = ".quire-reserve-start"
	startReserveBytes = 1 << 20
	// unfinishedSuffix is what a reserve's name ends with while it is written, reserveStep at a time.
	unfinishedSuffix = ".tmp"
	reserveStep      = 256 << 10
	// forecastSpan is over how long the rate is taken at which a disk fills.
	forecastSpan = 10 * time.Minute
	// forecastWarns is from when on the log warns.
	forecastWarns = 24 * time.Hour
)

// reserveFiles are in the order in which a start gives them up.
var reserveFiles = [...]string{reserveFile, startReserveFile}

// A diskWatch watches over the room of a data directory.
type diskWatch struct {
	full atomic.Bool // clients' appends are refused

	// mu guards the fields below. It is held over the writing of a reserve, so who asks for the state may wait that long; of the others
	// only the lock of growth is taken under it.
	mu       sync.Mutex
	reserved bool
	forStart int64        // bytes of the reserve of starts that are there, as far as this run knows
	stuck    bool         // the reserve could not be given up, and that was said
	samples  []diskSample // of the last forecastSpan, the oldest first
	fullIn   time.Duration
	filling  bool // fullIn is known
	warned   time.Time
}

type diskSample struct {
	at     time.Time
	usable int64
}

// watchDisks looks at the room of each directory.
func (m *Manager) watchDisks(context.Context) {
	for _, d := range m.dirs {
		if d.offline() == nil {
			m.sampleGrowth(d)
			m.watchDisk(d, true)
		}
	}
}

// watchDisk looks at one. The reserve is not made while a node starts: that should take no time.
func (m *Manager) watchDisk(d *dataDir, makeReserve bool) {
	o := m.o.Disk
	usage, err := m.o.FS.Usage(d.path)
	if err != nil || o.WatermarkBytes <= 0 {
		return
	}
	watermark, reserve := min(o.WatermarkBytes, usage.Total/20), min(o.ReserveBytes, usage.Total/100)
	w := &d.disk
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.full.Load()
	back := watermark + watermark/4
	if !w.reserved {
		back += reserve
	}
	switch {
	case !was && usage.Usable < watermark:
		w.full.Store(true)
		m.log.Error("a data directory is full: produce to its partitions is refused until there is room; all else goes on", "directory", d.path, "usable", usage.Usable, "watermark", watermark)
		m.o.Events(Event{Kind: "disk-full", Offset: -1, Cause: fmt.Sprintf("%s has %d bytes left, less than disk.watermark.bytes allows (%d)", d.path, usage.Usable, watermark)})
	case was && usage.Usable >= back:
		w.full.Store(false)
		w.samples = nil // what filled it has gone
		m.log.Info("a data directory has room again: produce is taken", "directory", d.path, "usable", usage.Usable)
		m.o.Events(Event{Kind: "disk-freed", Offset: -1, Cause: fmt.Sprintf("%s has %d bytes left", d.path, usage.Usable)})
	}
	switch {
	case w.full.Load() && usage.Usable < watermark/4 && w.reserved:
		if err := m.o.FS.Remove(path.Join(d.path, reserveFile)); err == nil || errors.Is(err, fs.ErrNotExist) {
			w.reserved, w.stuck = false, false
			m.log.Warn("the reserve of a full data directory is given up", "directory", d.path, "bytes", reserve)
		} else if !w.stuck {
			w.stuck = true // it is tried again, and said no more
			m.log.Error("the reserve of a full data directory could not be given up", "directory", d.path, "bytes", reserve, "error", err)
		}
	case makeReserve && !w.full.Load() && !w.reserved && reserve > 0 && usage.Usable > watermark+reserve:
		if w.reserved = m.writeReserve(d, reserveFile, reserve); w.reserved {
			w.samples = nil // the reserve is not what fills the disk
		}
	}
	if makeReserve && o.ReserveBytes > 0 {
		m.reserveForStart(d, min(startReserveBytes, usage.Total/100), usage.Usable)
	}
	if len(w.samples) == 0 {
		if now, err := m.o.FS.Usage(d.path); err == nil {
			usage = now // without what the reserves took
		}
	}
	m.forecast(d, usage.Usable-watermark)
}

// reserveForStart makes the reserve of starts, of want bytes. On a full disk it has what an earlier run left of it, or half of what is
// left; it grows once there is room. w.mu is held.
func (m *Manager) reserveForStart(d *dataDir, want, usable int64) {
	w := &d.disk
	if w.forStart >= want || w.full.Load() && w.forStart > 0 {
		return
	}
	if w.full.Load() {
		var there int64
		if info, err := m.o.FS.Stat(path.Join(d.path, startReserveFile)); err == nil {
			there = info.Size()
		}
		want = min(want, max(there, usable/2))
	}
	if want > 0 && m.writeReserve(d, startReserveFile, want) {
		w.forStart = want
		w.samples = nil // see the other reserve
	}
}

// writeReserve makes a reserve's file of that size; false: there was no room after all. The file is written under another name and takes
// its own when it is whole: so one that is there can be counted on, and one that cannot grow stays as it was.
func (m *Manager) writeReserve(d *dataDir, file string, bytes int64) bool {
	name := path.Join(d.path, file)
	if info, err := m.o.FS.Stat(name); err == nil && info.Size() >= bytes {
		return info.Size() == bytes || m.cutReserve(name, bytes)
	}
	f, err := m.o.FS.OpenFile(name+unfinishedSuffix, createFlags|os.O_TRUNC, 0o644)
	if err != nil {
		return false
	}
	zeros := make([]byte, min(reserveStep, bytes))
	for size := int64(0); err == nil && size < bytes; size += int64(len(zeros)) {
		_, err = f.WriteAt(zeros[:min(int64(len(zeros)), bytes-size)], size)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = m.o.FS.Rename(name+unfinishedSuffix, name)
	}
	if err != nil {
		_ = m.o.FS.Remove(name + unfinishedSuffix) // else a start does
		return false
	}
	return true
}

// cutReserve makes a reserve smaller, which needs no room.
func (m *Manager) cutReserve(name string, bytes int64) bool {
	f, err := m.o.FS.OpenFile(name, os.O_RDWR, 0o644)
	if err != nil {
		return false
	}
	return errors.Join(f.Truncate(bytes), f.Close()) == nil
}

// freeForStart gives up a reserve where a start would find no room to write a checkpoint in.
func (d *dataDir) freeForStart(o DiskOptions) {
	if o.WatermarkBytes <= 0 {
		return
	}
	for _, file := range reserveFiles {
		name := path.Join(d.path, file+unfinishedSuffix) // of a run that was killed over it
		if err := d.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			d.log.Warn("a reserve that was never finished could not be removed", "file", name, "error", err)
		}
	}
	usage, err := d.fs.Usage(d.path)
	if err != nil || usage.Usable >= min(o.WatermarkBytes, usage.Total/20)/4 {
		return
	}
	for _, file := range reserveFiles {
		name := path.Join(d.path, file)
		err := d.fs.Remove(name)
		if err == nil {
			d.log.Warn("the disk is full: a reserve is given up so that the start has room", "file", name)
			return
		}
		if !errors.Is(err, fs.ErrNotExist) {
			d.log.Warn("a reserve could not be given up", "file", name, "error", err)
		}
	}
}

// forecast tells from the last samples when a directory will be full. room is what is left above the watermark. w.mu is held.
func (m *Manager) forecast(d *dataDir, room int64) {
	w, now := &d.disk, time.Now()
	for len(w.samples) > 1 && now.Sub(w.samples[0].at) > forecastSpan {
		w.samples = w.samples[1:]
	}
	w.samples = append(w.samples, diskSample{now, room})
	first := w.samples[0]
	w.fullIn, w.filling = fullIn(now.Sub(first.at), first.usable-room, room)
	if w.filling && w.fullIn < forecastWarns && room > 0 && now.Sub(w.warned) >= time.Hour {
		w.warned = now
		m.log.Warn("a data directory fills up", "directory", d.path, "full_in", w.fullIn.Round(time.Minute), "bytes_left", room, "filled_by", d.growth.says(float64(room)/w.fullIn.Seconds()))
	}
}

// fullIn is when room is used up, if as much goes on being used as in the last span; false: it is not being used, or nothing is known.
func fullIn(span time.Duration, used, room int64) (time.Duration, bool) {
	if span < time.Minute || used <= 0 {
		return 0, false
	}
	seconds := float64(max(room, 0)) / (float64(used) / span.Seconds())
	if seconds > (365 * 24 * time.Hour).Seconds() {
		return 0, false
	}
	return time.Duration(seconds * float64(time.Second)), true
}

// A DiskState is whether a data directory is full, or when it will be.
type DiskState struct {
	Path    string
	Full    bool
	FullIn  time.Duration // at the rate of the last minutes
	Filling bool          // FullIn is known
}

// DiskStates describes the data directories, in the order of log.dirs.
func (m *Manager) DiskStates() []DiskState {
	states := make([]DiskState, 0, len(m.o.Dirs))
	for _, d := range m.dirs[:len(m.o.Dirs)] {
		w := &d.disk
		w.mu.Lock()
		states = append(states, DiskState{d.path, w.full.Load(), w.fullIn, w.filling})
		w.mu.Unlock()
	}
	return states
}

// errDiskWatermark is why a client's append was refused before the disk was really full.
var errDiskWatermark = errors.New("the data directory has less free space than disk.watermark.bytes: produce is refused until there is more")
