package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

// What the metadata log lost, every partition loses: those that it does not name become stray. So a start looks at it before anything is
// changed, and refuses what recovery would cut away though it had been written whole:
//
//	clean directory    any byte that is not of a whole batch
//	unclean directory  a batch that is not right, with whole ones after it, while partitions are there. Without whole ones it is the torn
//	                   end of the last append; without partitions it may be of a first start, which writes several batches
//	                   before it fsyncs them, and of which a power cut may keep any. The same can befall changes that share an
//	                   fsync later on: then the refusal is one too many, for nobody was told of them, but it loses nothing
//	partitions         and no metadata log, or an empty one without a snapshot

const (
	damageAdvice = "nothing was changed: put the file back from a backup, or, to go on knowingly without what was in it, move it away and keep its good bytes before that position"
	// afterDamageMax bounds how far whole batches are looked for behind damage.
	afterDamageMax = 64 << 20
)

// checkMetadataLog refuses a metadata log that must not be recovered by cutting, and changes nothing.
func (m *Manager) checkMetadataLog() error {
	d := m.metadataDir
	dir := path.Join(d.path, MetadataPartition.String())
	entries, err := m.o.FS.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &DirError{dir, err}
	}
	var bases []Offset
	snapshot := false // of more than the formatting
	for _, e := range entries {
		if base, suffix, ok := parseFileName(e.Name()); ok && suffix == logSuffix {
			bases = append(bases, base)
		}
		if strings.HasSuffix(e.Name(), ".checkpoint") && !strings.HasPrefix(e.Name(), fileName(0, "-")) {
			snapshot = true
		}
	}
	bytes := int64(0)
	expect := Offset(-1)
	for i, base := range bases {
		size, next, err := m.checkMetadataSegment(dir, base, expect, i == len(bases)-1)
		if err != nil {
			return &DirError{dir, err}
		}
		bytes, expect = bytes+size, next
	}
	if !m.o.MetadataRequired || bytes > 0 || len(bases) > 0 && snapshot {
		return nil
	}
	if there := m.firstPartition(); there != "" {
		return &DirError{dir, fmt.Errorf("the metadata log is missing or empty, but %s is there: without it every partition would be stray. Nothing was changed: put %s back from a backup, or set metadata.log.dir to where it is; to begin a new cluster, move the partitions' directories away",
			there, MetadataPartition)}
	}
	return nil
}

// firstPartition is the directory of some partition that is not the metadata's; "" if there is none.
func (m *Manager) firstPartition() string {
	for _, d := range m.dirs {
		for _, f := range d.found.live {
			if f.tp.Topic != metadataTopic {
				return path.Join(d.path, f.name)
			}
		}
	}
	return ""
}

// checkMetadataSegment reads a segment of the metadata log. expect is the offset that it should begin with, -1: any. next is where it ends.
func (m *Manager) checkMetadataSegment(dir string, base, expect Offset, last bool) (size int64, next Offset, err error) {
	name := fileName(base, logSuffix)
	f, err := m.o.FS.OpenFile(path.Join(dir, name), 0, 0)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	if size, err = f.Size(); err != nil {
		return 0, 0, err
	}
	next = base
	valid, fault, err := walkEntries(f, size, func(_ int64, e record.Entry) error {
		if e.BaseOffset() < next || e.BaseOffset()-next >= deltaLimit {
			return &record.FormatError{Reason: fmt.Sprintf("offset %d where %d belongs", e.BaseOffset(), next)}
		}
		if err := e.Check(); err != nil {
			return err
		}
		next = e.LastOffset() + 1
		return nil
	})
	if err != nil || fault == nil {
		return size, next, err
	}
	why := "the directory was stopped cleanly"
	if !m.metadataDir.clean {
		if m.firstPartition() == "" {
			return size, next, nil
		}
		switch whole, err := wholeBatchAfter(f, valid, size, next); {
		case err != nil:
			return 0, 0, err
		case whole >= 0:
			why = fmt.Sprintf("a whole batch follows at byte %d", whole)
		case !last:
			why = "other segments follow"
		default:
			return size, next, nil // a torn end, which recovery cuts
		}
	}
	corrupt := &CorruptError{MetadataPartition, name, valid, next - 1, fault}
	return 0, 0, fmt.Errorf("%w; this is taken for no torn append, for %s. %s", corrupt, why, damageAdvice)
}

// wholeBatchAfter looks behind damage at pos for a batch that is right, of offsets from least on: its position, -1 if there is none.
func wholeBatchAfter(f vfs.File, pos, size int64, least Offset) (int64, error) {
	rest := make([]byte, min(size-pos, afterDamageMax))
	if err := readFull(f, rest, pos); err != nil {
		return -1, err
	}
	for i := 1; i+record.MinEntry <= len(rest); i++ {
		if rest[i+16] != 2 { // magic
			continue
		}
		e, err := record.FirstEntry(rest[i:])
		if err == nil && e.Magic() == 2 && e.BaseOffset() >= least && e.BaseOffset()-least < deltaLimit && e.Check() == nil {
			return pos + int64(i), nil
		}
	}
	return -1, nil
}
