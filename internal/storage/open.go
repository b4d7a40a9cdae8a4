package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sort"
	"strings"
)

func parentDir(dir string) string { return path.Dir(dir) }

// OpenLog opens or creates a log, recovering what must be. When it returns, everything that it created is fsynced, names too.
func OpenLog(o LogOptions) (*Log, error) {
	at := newPlace(o.FS, path.Clean(o.Dir))
	l := &Log{partition: o.Partition, name: o.Partition.String(), metadata: o.Metadata, events: o.Events, failed: o.Failed, compacts: o.Compacts, diskFull: o.DiskFull, at: at, epochs: newEpochCache(at), producers: newProducers(at)}
	l.syncParent = o.SyncParent
	if l.syncParent == nil {
		l.syncParent = func() error { return at.fs.SyncDir(parentDir(*at.dir.Load())) }
	}
	l.config.Store(&o.Config)
	l.segments.Store(nil)
	l.flushed.Store(nowMs())
	op := &opening{Log: l, clean: o.Clean && !o.Metadata, logStart: max(o.LogStart, 0), recoveryPoint: o.RecoveryPoint, wantID: o.TopicID, idRead: o.TopicIDRead}
	if o.Metadata {
		op.recoveryPoint = 0
	}
	l.mu.Lock()
	err := op.run()
	if err == nil && o.Doubted {
		err = op.rewrite()
	}
	if err != nil {
		l.shut()
	}
	l.mu.Unlock()
	if err != nil {
		l.background.Stop()
		return nil, fmt.Errorf("%s: opening %s: %w", o.Partition, o.Dir, err)
	}
	return l, nil
}

// An opening is a log while it opens. Its steps:
//
//	leftovers   what an interrupted deletion or compaction left is removed or completed
//	load        segments from the names in the directory
//	recover     those that may hold anything are read whole, and cut before the first bad batch
//	settle      log start, epochs, producers, and the active segment follow from what there is
type opening struct {
	*Log
	clean         bool
	logStart      Offset
	recoveryPoint Offset
	wantID        TopicID
	idRead        bool // wantID is what partition.metadata says

	list    listing
	created bool // files or the directory: their names are to be fsynced
	newDir  bool
	end     Offset
	endOK   bool // end is known: the last segment was recovered
}

// A listing is the names of a partition's directory.
type listing struct {
	segments  []listedSegment // ascending
	snapshots []Offset        // ascending
	windows   []Offset
	leftovers []string // .deleted, .cleaned, .swap
	orphans   []string // index files without their .log
	epochs    bool
	meta      bool
}

type listedSegment struct {
	base     Offset
	size     int64
	modified int64
	index    bool
	txnIndex bool
}

func (op *opening) run() error {
	if err := op.read(); err != nil {
		return err
	}
	if err := op.leftovers(); err != nil {
		return err
	}
	if err := op.identify(); err != nil {
		return err
	}
	for {
		err := op.load()
		if errors.Is(err, errSplit) {
			for _, s := range op.segments.Load() {
				s.retire()
			}
			op.Log.producers, op.created = newProducers(op.at), true
			err = op.read()
			if err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		break
	}
	if err := op.settle(); err != nil {
		return err
	}
	if op.created {
		if err := op.at.fs.SyncDir(op.Dir()); err != nil {
			return err
		}
	}
	op.active.named = op.created || op.clean // a clean stop left durable names
	if op.newDir {
		return op.syncParent()
	}
	return nil
}

// read lists the directory, which is made if it is missing.
func (op *opening) read() error {
	entries, err := op.at.fs.ReadDir(op.Dir())
	if errors.Is(err, fs.ErrNotExist) {
		op.newDir, op.created = true, true
		return op.at.fs.MkdirAll(op.Dir(), 0o755)
	}
	if err != nil {
		return err
	}
	op.list = listing{}
	type rest struct {
		base Offset
		name string
	}
	var indexes []rest
	logs := make([]fs.DirEntry, 0, len(entries)/3)
	for _, e := range entries {
		name := e.Name()
		switch {
		case name == epochFileName:
			op.list.epochs = true
			continue
		case name == partitionMetaName:
			op.list.meta = true
			continue
		case strings.HasSuffix(name, cleanedSuffix) || strings.HasSuffix(name, swapSuffix) ||
			strings.HasSuffix(name, deletedSuffix) && !strings.HasSuffix(name, ".checkpoint"+deletedSuffix):
			op.list.leftovers = append(op.list.leftovers, name)
			continue
		}
		base, suffix, ok := parseFileName(name)
		if !ok || e.IsDir() {
			continue
		}
		switch suffix {
		case logSuffix:
			op.list.segments = append(op.list.segments, listedSegment{base: base})
			logs = append(logs, e)
		case snapshotSuffix:
			op.list.snapshots = append(op.list.snapshots, base)
		case windowSuffix:
			op.list.windows = append(op.list.windows, base)
		case indexSuffix, timeIndexSuffix, txnIndexSuffix:
			indexes = append(indexes, rest{base, name})
		}
	}
	segs := op.list.segments
	for _, x := range indexes {
		i := sort.Search(len(segs), func(i int) bool { return segs[i].base >= x.base })
		switch {
		case i == len(segs) || segs[i].base != x.base:
			op.list.orphans = append(op.list.orphans, x.name)
		case strings.HasSuffix(x.name, txnIndexSuffix):
			segs[i].txnIndex = true
		case strings.HasSuffix(x.name, indexSuffix) && !strings.HasSuffix(x.name, timeIndexSuffix):
			segs[i].index = true
		}
	}
	for i, e := range logs {
		info, err := e.Info()
		if err != nil {
			return err
		}
		segs[i].size, segs[i].modified = info.Size(), info.ModTime().UnixMilli()
		if segs[i].size > segmentBytesLimit && i < len(logs)-1 {
			return fmt.Errorf("%s has %d bytes, more than any segment", e.Name(), info.Size())
		}
	}
	return nil
}

// leftovers completes or undoes what was interrupted. A .deleted file goes. Output of compaction that is not whole (.cleaned)
// goes, and with it whole output that lies beyond it. What remains (.swap) takes the place of every segment that it covers.
func (op *opening) leftovers() error {
	fsys := op.at.fs
	remove := func(name, why string) error {
		if strings.Contains(name, logSuffix) {
			op.event("recover", -1, "%s removed: %s", name, why)
		}
		if err := fsys.Remove(op.at.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if len(op.list.leftovers) > 0 {
		minCleaned := Offset(-1)
		for _, name := range op.list.leftovers {
			if base, _, ok := parseFileName(name); ok && strings.HasSuffix(name, cleanedSuffix) && (minCleaned < 0 || base < minCleaned) {
				minCleaned = base
			}
		}
		var swaps []string
		// First, and durably, what a crash after the removal of the .cleaned files would take for whole.
		dropped := false
		for _, name := range op.list.leftovers {
			base, _, ok := parseFileName(name)
			if strings.HasSuffix(name, swapSuffix) && minCleaned >= 0 && ok && base >= minCleaned {
				if err := remove(name, fmt.Sprintf("compaction had not finished what begins at %d", minCleaned)); err != nil {
					return err
				}
				dropped = true
			}
		}
		if dropped {
			if err := fsys.SyncDir(op.Dir()); err != nil {
				return err
			}
		}
		for _, name := range op.list.leftovers {
			base, _, ok := parseFileName(name)
			switch {
			case strings.HasSuffix(name, deletedSuffix):
				if err := remove(name, "its deletion was decided before the stop"); err != nil {
					return err
				}
			case strings.HasSuffix(name, cleanedSuffix):
				if err := remove(name, "compaction had not finished it"); err != nil {
					return err
				}
			case minCleaned >= 0 && ok && base >= minCleaned: // removed above
			case ok:
				swaps = append(swaps, name)
			}
		}
		if err := op.completeSwaps(swaps); err != nil {
			return err
		}
		op.created = true
		if err := op.read(); err != nil {
			return err
		}
	}
	for _, name := range op.list.orphans {
		if err := remove(name, "there is no .log file to it"); err != nil {
			return err
		}
		op.event("recover", -1, "%s removed: there is no .log file to it", name)
	}
	return nil
}

// completeSwaps puts whole output of compaction in the place of what it was made from, in steps each of which is durable before the next
// begins, as those of Log.swap, which says why.
func (op *opening) completeSwaps(swaps []string) error {
	from, to := Offset(-1), Offset(-1)
	for _, name := range swaps {
		base, suffix, _ := parseFileName(name)
		if suffix != logSuffix+swapSuffix {
			continue
		}
		f, err := op.at.fs.OpenFile(op.at.path(name), 0, 0)
		if err != nil {
			return err
		}
		size, err := f.Size()
		if err != nil {
			_ = f.Close()
			return err
		}
		next := base
		scan := scanHeaders(f, 0, size, scanChunk)
		for scan.advance() {
			next = scan.last + 1
		}
		scan.close()
		if err := errors.Join(scan.err, f.Close()); err != nil {
			return err
		}
		if from < 0 || base < from {
			from = base
		}
		to = max(to, next)
		op.event("recover", base, "%s takes the place of segments in [%d, %d): compaction had finished it", name, base, next)
	}
	if len(swaps) == 0 {
		return nil
	}
	entries, err := op.at.fs.ReadDir(op.Dir())
	if err != nil {
		return err
	}
	if from >= 0 {
		to = max(to, from+1) // of an output without records, what has its name
	}
	there := make(map[string]bool, len(entries))
	for _, e := range entries {
		there[e.Name()] = true
	}
	for _, txnIndexes := range []bool{true, false} {
		for _, e := range entries {
			base, suffix, ok := parseFileName(e.Name())
			if !ok || base < from || base >= to || strings.HasSuffix(e.Name(), swapSuffix) || e.IsDir() ||
				(suffix == txnIndexSuffix) != txnIndexes || ofOutput(there, base, suffix) {
				continue
			}
			if err := op.at.fs.Remove(op.at.path(e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		// Were a removal undone by a crash after a rename was not, there would be two that cover the same offsets.
		if err := op.at.fs.SyncDir(op.Dir()); err != nil {
			return err
		}
	}
	slices.Sort(swaps)
	last := Offset(-1)
	for _, name := range swaps {
		base, _, _ := parseFileName(name)
		if last >= 0 && base != last {
			if err := op.at.fs.SyncDir(op.Dir()); err != nil {
				return err
			}
		}
		last = base
		if err := op.at.fs.Rename(op.at.path(name), op.at.path(strings.TrimSuffix(name, swapSuffix))); err != nil {
			return err
		}
	}
	return nil
}

// ofOutput tells whether a file with its final name belongs to the output of compaction at base, whose .log is still a .swap.
func ofOutput(there map[string]bool, base Offset, suffix string) bool {
	switch suffix {
	case indexSuffix, timeIndexSuffix, txnIndexSuffix:
	default:
		return false
	}
	log := fileName(base, logSuffix)
	return there[log+swapSuffix] && !there[log] && !there[fileName(base, suffix)+swapSuffix]
}

// identify compares the topic id with the directory's, or writes it down, before any data is.
func (op *opening) identify() error {
	name := op.at.path(partitionMetaName)
	if op.idRead && op.list.meta && op.wantID != (TopicID{}) {
		op.topicID = op.wantID
		return nil
	}
	if op.list.meta {
		id, err := readPartitionMetadata(op.at.fs, name)
		switch {
		case err == nil && op.wantID != (TopicID{}) && id != op.wantID:
			return &TopicIDError{op.partition, id, op.wantID}
		case err == nil:
			op.topicID = id
			return nil
		case op.wantID == (TopicID{}):
			op.event("recover", -1, "the topic id is not known: %v", err)
			return nil
		}
		op.event("recover", -1, "%s written anew, with id %s: %v", partitionMetaName, op.wantID, err)
	}
	if op.topicID = op.wantID; op.topicID == (TopicID{}) {
		return nil
	}
	op.created = true
	return writePartitionMetadata(op.at.fs, name, op.topicID)
}

// load makes the segments, and recovers those that need it.
func (op *opening) load() error {
	segs := make([]*segment, len(op.list.segments))
	for i, s := range op.list.segments {
		segs[i] = newSegment(op.at, s.base, s.size)
		segs[i].modified = s.modified
	}
	op.segments.Store(segs)
	op.producers.snapshots, op.producers.windows = op.list.snapshots, op.list.windows

	epochsLost, err := op.loadEpochs()
	if err != nil {
		return err
	}
	from := len(segs) // the first to be recovered for lack of a clean stop
	if !op.clean {
		from = max(sort.Search(len(segs), func(i int) bool { return segs[i].base > op.recoveryPoint })-1, 0)
	}
	for i := 0; i < len(segs); i++ {
		s, why := segs[i], ""
		if op.list.segments[i].txnIndex {
			txns, err := readTxnIndex(op.at, s.base)
			if isDamage(err) {
				why = err.Error()
			} else if err != nil {
				return err
			}
			s.setAborted(txns)
			op.anyAborted.Store(true)
		}
		switch {
		case i >= from && op.metadata:
			why = "the metadata log is always read whole"
		case i >= from:
			why = fmt.Sprintf("not stopped cleanly; recovery point %d", op.recoveryPoint)
		case !op.list.segments[i].index:
			why = s.name(indexSuffix) + " is missing"
		case why == "":
			continue
		}
		cut, err := op.recoverSegment(segs, i, why)
		if err != nil {
			return err
		}
		if cut && i >= from && i+1 < len(segs) {
			op.event("recover", segs[i+1].base, "%d segments from %s on removed: they follow bytes that were cut", len(segs)-i-1, segs[i+1].name(logSuffix))
			for _, gone := range segs[i+1:] {
				if err := op.removeFiles(gone); err != nil {
					return err
				}
			}
			segs = segs[: i+1 : i+1]
			op.segments.Store(segs)
			op.endOK = true
		}
	}
	if epochsLost && len(segs) > 0 {
		return op.epochsFromBatches()
	}
	return nil
}

// removeFiles unlinks a segment that Open decided against. Nobody reads yet, so nothing waits.
func (op *opening) removeFiles(s *segment) error {
	s.retire()
	for _, suffix := range segmentSuffixes {
		if err := op.at.fs.Remove(op.at.path(s.name(suffix))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	base := s.base
	return op.producers.removeSnapshots(func(o Offset) bool { return o == base })
}

// loadEpochs reads leader-epoch-checkpoint. lost: it is missing, empty or makes no sense, and the batches must tell.
func (op *opening) loadEpochs() (lost bool, err error) {
	err = op.epochs.load()
	var malformed *CheckpointError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		_, err := ensureFile(op.at.fs, op.at.path(epochFileName))
		if err != nil && !isDiskFull(err) {
			return false, err
		}
		op.epochs.unknown = err != nil
		op.created = true
		return true, nil
	case errors.As(err, &malformed):
		op.event("recover", -1, "leader epochs are read from the batches: %v", err)
		return true, nil
	}
	return len(op.epochs.list()) == 0, err
}

// epochsFromBatches fills an epoch cache that was lost.
func (op *opening) epochsFromBatches() error {
	for _, s := range op.segments.Load() {
		if s.size.Load() == 0 {
			continue
		}
		f, err := s.acquire()
		if err != nil {
			return err
		}
		scan := scanHeaders(f, 0, s.size.Load(), scanChunk)
		for scan.advance() {
			if e := scan.header.LeaderEpoch(); e > op.epochs.latest() {
				op.epochs.assign(e, scan.first)
			}
		}
		scan.close()
		s.release()
		if scan.err != nil {
			return scan.err
		}
	}
	return nil
}

// settle derives everything else from the segments.
func (op *opening) settle() error {
	segs := op.segments.Load()
	cfg := op.config.Load()
	if len(segs) > 0 {
		if err := op.activate(segs[len(segs)-1]); err != nil {
			return err
		}
	}
	if len(segs) > 0 && op.end < op.logStart {
		op.event("recover", op.logStart, "all segments removed: the log ends at %d, and its start was %d", op.end, op.logStart)
		op.active.seg.release()
		op.active = activeSegment{}
		for _, s := range segs {
			if err := op.removeFiles(s); err != nil {
				return err
			}
		}
		segs = nil
	}
	if len(segs) == 0 {
		s, err := op.createSegment(op.logStart, cfg)
		if err != nil {
			return err
		}
		op.becomeActive(s)
		segs = []*segment{s.seg}
		op.segments.Store(segs)
		op.end, op.created = op.logStart, true
	}
	start := max(op.logStart, segs[0].base)
	op.epochs.cutEnd(op.end)
	op.epochs.cutStart(start)
	if err := op.epochs.saveIfRoom(op.end); err != nil {
		return err
	}
	op.Log.end.Store(int64(op.end))
	op.start.Store(int64(start))
	rp := min(op.recoveryPoint, op.end)
	if op.clean {
		rp = op.end
	}
	op.synced = rp
	op.Log.recoveryPoint.Store(int64(max(rp, start)))
	if err := op.settleProducers(segs, start); err != nil {
		return err
	}
	return op.settleWindow()
}

// settleProducers removes snapshots that belong to nothing, and brings the producers' state to the log's end.
func (op *opening) settleProducers(segs []*segment, start Offset) error {
	ps := op.producers
	isBase := func(o Offset) bool {
		i := sort.Search(len(segs), func(i int) bool { return segs[i].base >= o })
		return i < len(segs) && segs[i].base == o
	}
	stray := Offset(-1) // the newest one that is no segment's is kept, if it lies beyond the last segment's base
	for _, o := range ps.snapshots {
		if !isBase(o) && o > segs[len(segs)-1].base {
			stray = o
		}
	}
	if err := ps.removeSnapshots(func(o Offset) bool { return o != stray && !isBase(o) }); err != nil {
		return err
	}
	if op.clean && len(ps.snapshots) == 0 {
		// From a time before there were snapshots, or a log without records: nothing is known, and nothing is read to know it.
		ps.clear(0)
		for _, o := range []Offset{segs[max(len(segs)-2, 0)].base, segs[len(segs)-1].base, op.end} {
			ps.end = o
			if err := ps.snapshot(false); err != nil {
				return err
			}
		}
		return nil
	}
	if err := ps.removeSnapshots(func(o Offset) bool { return o > op.end || o <= start }); err != nil {
		return err
	}
	if err := op.producersTo(segs, op.end, start); err != nil {
		return err
	}
	ps.snapped = max(ps.snapped, start)
	return ps.snapshot(false)
}
