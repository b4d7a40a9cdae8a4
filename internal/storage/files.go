package storage

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/quire-log/quire/internal/vfs"
)

// Names in a partition's directory: an offset of 20 digits and a suffix.
const (
	logSuffix       = ".log"
	indexSuffix     = ".index"
	timeIndexSuffix = ".timeindex"
	txnIndexSuffix  = ".txnindex"
	snapshotSuffix  = ".snapshot"
	windowSuffix    = ".window" // ours alone

	deletedSuffix = ".deleted" // renamed, waits to be unlinked
	cleanedSuffix = ".cleaned" // half-written output of compaction
	swapSuffix    = ".swap"    // whole output of compaction, not yet in place

	epochFileName     = "leader-epoch-checkpoint"
	partitionMetaName = "partition.metadata"
)

// segmentSuffixes are the files that a segment may have.
var segmentSuffixes = [...]string{logSuffix, indexSuffix, timeIndexSuffix, txnIndexSuffix}

// fileName is the name of a file that belongs to an offset.
func fileName(offset Offset, suffix string) string { return fmt.Sprintf("%020d%s", offset, suffix) }

// parseFileName splits a name into its offset and what follows the digits. Names that begin otherwise are not ours.
func parseFileName(name string) (offset Offset, suffix string, ok bool) {
	dot := strings.IndexByte(name, '.')
	if dot != 20 {
		return 0, "", false
	}
	n, err := strconv.ParseInt(name[:dot], 10, 64)
	if err != nil || n < 0 {
		return 0, "", false
	}
	return Offset(n), name[dot:], true
}

// A place is where a log's files are: its directory may be renamed while readers hold on to segments.
type place struct {
	fs  vfs.FS
	dir atomic.Pointer[string]
}

func newPlace(fsys vfs.FS, dir string) *place {
	p := &place{fs: fsys}
	p.dir.Store(&dir)
	return p
}

func (p *place) path(name string) string { return *p.dir.Load() + "/" + name }
