package vfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// AfterCrash returns the file system as the next start finds it after a power cut now: synced bytes and names stay, each
// unsynced one by lot of seed (kept, lost, or torn in the middle; what the size says and data does not is zeros or nonsense).
// Locks, failures and an announced crash are gone, the capacity stays. The old Mem refuses everything from now on with ErrCrashed; it may
// be asked again, with another seed, for another outcome of the same crash.
func (m *Mem) AfterCrash(seed uint64) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.crashed = true
	c := crash{rng: rand.New(rand.NewPCG(seed, 0x7175697265)), names: map[*node]map[string]*node{}, at: map[*node]place{}}
	after := NewMem()
	after.capacity = m.capacity

	temper := c.temper()
	cut := c.rng.IntN(len(m.nameOps) + 1)
	for i, op := range m.nameOps {
		switch {
		case op.done:
		case c.keeps(temper, i < cut):
			c.unname(op.node)
			op.settle(c.disk)
			if op.setDir != nil {
				c.at[op.node] = place{op.setDir, op.setName}
			}
		case op.clearDir != nil && c.disk(op.clearDir)[op.clearName] == op.node:
			c.at[op.node] = place{op.clearDir, op.clearName}
		}
	}
	after.root = c.dir(m.root)
	after.used = c.used
	return after
}

// A crash is one outcome of a power cut.
type crash struct {
	rng *rand.Rand
	// names is what became of the directories' entries on disk, as far as anything did.
	names map[*node]map[string]*node
	// at is where a node is, as far as an operation on its name told: when an earlier rename of the node was lost
	// and a later one kept, the file must not end up under both names.
	at   map[*node]place
	used int64
}

type place struct {
	dir  *node
	name string
}

// A temper says how the lots of one file, or of all names, fall. The two extremes come often, since they find most mistakes.
type temper int

const (
	allLost temper = iota
	allKept
	eachByLot
	firstKept // up to some operation, which is torn: what an ordered disk does
)

func (c *crash) temper() temper { return temper(c.rng.IntN(4)) }

// keeps draws for an operation on names; early is whether it lies before the cut of an ordered disk.
func (c *crash) keeps(t temper, early bool) bool {
	switch t {
	case allLost:
		return false
	case allKept:
		return true
	case firstKept:
		return early
	}
	return c.rng.IntN(2) == 0
}

func (c *crash) disk(dir *node) map[string]*node {
	names, ok := c.names[dir]
	if !ok {
		names = maps.Clone(dir.durable)
		c.names[dir] = names
	}
	return names
}

func (c *crash) unname(n *node) {
	if p, ok := c.at[n]; ok {
		if names := c.disk(p.dir); names[p.name] == n {
			delete(names, p.name)
		}
		delete(c.at, n)
	}
}

// dir builds what is left of directory d.
func (c *crash) dir(d *node) *node {
	left := newDir(d.perm)
	left.mtime = d.mtime
	names := c.disk(d)
	for _, name := range slices.Sorted(maps.Keys(names)) { // sorted: the lots must fall alike each time
		n := names[name]
		var survivor *node
		if n.dir {
			survivor = c.dir(n)
		} else {
			survivor = c.file(n)
		}
		left.entries[name], left.durable[name] = survivor, survivor
	}
	return left
}

// file builds what is left of file n.
func (c *crash) file(n *node) *node {
	disk := n.onDisk.clone()
	switch t := c.temper(); {
	case len(n.writes) == 0 || t == allLost:
	case t == allKept:
		for _, op := range n.writes {
			disk.apply(op)
		}
	case t == firstKept:
		cut := c.rng.IntN(len(n.writes))
		for _, op := range n.writes[:cut] {
			disk.apply(op)
		}
		c.tear(&disk, n.writes[cut])
	default:
		for _, op := range n.writes {
			switch c.rng.IntN(4) {
			case 0, 1:
				disk.apply(op)
			case 2:
				c.tear(&disk, op)
			default:
				c.grow(&disk, op)
			}
		}
	}
	left := &node{perm: n.perm, mtime: n.mtime, links: 1, seen: disk, onDisk: disk.clone()}
	c.used += disk.bytes()
	return left
}

// tear writes a part of op: mostly its head, sometimes its tail alone.
func (c *crash) tear(disk *pages, op fileOp) {
	if op.data == nil {
		if c.rng.IntN(2) == 0 {
			disk.apply(op)
		}
		return
	}
	cut := c.rng.IntN(len(op.data) + 1)
	if c.rng.IntN(4) == 0 {
		if op.off+int64(cut) > disk.size {
			c.grow(disk, fileOp{op.off, op.data[:cut]})
		}
		disk.apply(fileOp{op.off + int64(cut), op.data[cut:]})
		return
	}
	if cut > 0 {
		disk.apply(fileOp{op.off, op.data[:cut]})
	}
	c.grow(disk, op)
}

// grow loses op's bytes, or what of them is not there yet, but perhaps not the size that it gave the file: a hole of zeros, or
// of whatever the disk held there.
func (c *crash) grow(disk *pages, op fileOp) {
	from, to := max(disk.size, op.off), op.off+int64(len(op.data))
	if from >= to || op.data == nil {
		return
	}
	switch c.rng.IntN(3) {
	case 0:
		disk.truncate(to)
	case 1:
		nonsense := make([]byte, to-from)
		for i := range nonsense {
			nonsense[i] = byte(c.rng.Uint32())
		}
		disk.apply(fileOp{from, nonsense})
	}
}
