package metadata

import (
	"errors"
	"fmt"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/record"
)

// A Snapshot is what a .checkpoint file says: bootstrap.checkpoint, or one of the metadata log. The file is record batches whose
// offsets count from 0 and whose leader epoch is the snapshot's:
//
//	+----------------------------------+---------------------------+------------------+
//	| control batch                    | batches of records, each  | control batch    |
//	| SnapshotHeader [KRaftVersion     | of snapshotBatchRecords   | SnapshotFooter   |
//	| KRaftVoters]                     | at most                   |                  |
//	+----------------------------------+---------------------------+------------------+
//
// Without the footer it is not whole.
type Snapshot struct {
	Epoch Epoch
	// LastContainedTimestamp is the time in ms of the last batch of the log that the snapshot contains; 0 in bootstrap.checkpoint.
	LastContainedTimestamp int64
	// KRaftVersion and Voters are those of a dynamic quorum; nil of a static one.
	KRaftVersion *kmeta.KRaftVersion
	Voters       *kmeta.KRaftVoters
	Records      []kmeta.Record
}

const (
	snapshotBatchRecords = 1024    // as many as Kafka writes in one
	snapshotBatchBytes   = 8 << 20 // the largest batch that a metadata log has
)

// MetadataVersion is the level that the snapshot's records finalize, 0 if none.
func (s *Snapshot) MetadataVersion() int16 {
	for _, r := range s.Records {
		if f, ok := r.(*kmeta.FeatureLevelRecord); ok && f.Name == MetadataVersion {
			return f.FeatureLevel
		}
	}
	return 0
}

// AppendTo appends the file's bytes to dst. Records are written at the versions of the snapshot's own metadata.version, in batches of
// the time now, in ms.
func (s *Snapshot) AppendTo(dst []byte, now int64) ([]byte, error) {
	w := snapshotWriter{dst: dst, builder: record.NewBuilder(), now: now}
	w.builder.LeaderEpoch = s.Epoch
	w.control(&kmeta.SnapshotHeader{LastContainedLogTimestamp: s.LastContainedTimestamp})
	if s.KRaftVersion != nil {
		w.control(s.KRaftVersion)
	}
	if s.Voters != nil {
		w.control(s.Voters)
	}
	w.finish(record.AttrControl)
	level := s.MetadataVersion()
	for _, r := range s.Records {
		w.value = kmeta.AppendValue(w.value[:0], r, kmeta.VersionAt(r, level))
		if w.builder.Len() == snapshotBatchRecords || w.builder.Size()+len(w.value) > snapshotBatchBytes/2 {
			w.finish(0)
		}
		w.builder.Add(record.Record{Timestamp: now, Value: w.value})
	}
	w.finish(0)
	w.control(&kmeta.SnapshotFooter{})
	w.finish(record.AttrControl)
	return w.dst, w.err
}

type snapshotWriter struct {
	dst     []byte
	builder *record.Builder
	value   []byte // scratch
	now     int64
	err     error
}

func (w *snapshotWriter) control(c kmeta.ControlRecord) {
	w.value = kmeta.AppendControl(w.value[:0], c, -1)
	w.builder.Add(record.Record{
		Timestamp: w.now,
		Key:       record.AppendControlKey(nil, record.ControlType(c.ControlType())),
		Value:     w.value,
	})
}

// finish ends a batch, if there is anything in it.
func (w *snapshotWriter) finish(attributes int16) {
	n := w.builder.Len()
	if n == 0 || w.err != nil {
		return
	}
	w.builder.Attributes = attributes
	w.dst, w.err = w.builder.Batch(w.dst)
	w.builder.BaseOffset += Offset(n)
}

// A SnapshotError says where in a snapshot's bytes something is wrong.
type SnapshotError struct {
	Pos    int64  // of the batch
	Offset Offset // within the snapshot: of the batch's first record
	Err    error
}

func (e *SnapshotError) Error() string {
	return fmt.Sprintf("snapshot: byte %d, offset %d: %v", e.Pos, e.Offset, e.Err)
}

func (e *SnapshotError) Unwrap() error { return e.Err }

var (
	errNoHeader = errors.New("no snapshot header")
	errNoFooter = errors.New("no snapshot footer: the file was not written to its end")
	errAfter    = errors.New("a batch after the snapshot footer")
)

// ReadSnapshot reads a whole file. The error is a *SnapshotError.
func ReadSnapshot(src []byte) (*Snapshot, error) {
	r := snapshotReader{}
	for pos := 0; pos < len(src); {
		b, err := record.FirstBatch(src[pos:])
		if err == nil {
			err = r.batch(b)
		}
		if err != nil {
			return nil, &SnapshotError{int64(pos), r.next, err}
		}
		pos += len(b)
	}
	if !r.footer {
		return nil, &SnapshotError{int64(len(src)), r.next, errNoFooter}
	}
	return &r.snapshot, nil
}

type snapshotReader struct {
	snapshot       Snapshot
	records        record.Reader
	next           Offset
	header, footer bool
}

func (r *snapshotReader) batch(b record.Batch) error {
	switch {
	case !b.ChecksumValid():
		return errors.New("the checksum is wrong")
	case r.footer:
		return errAfter
	case b.BaseOffset() != r.next:
		return fmt.Errorf("a batch at offset %d", b.BaseOffset())
	case !r.header && !b.IsControl():
		return errNoHeader
	}
	if err := r.records.Reset(b, snapshotBatchBytes); err != nil {
		return err
	}
	for r.records.Next() {
		var err error
		if b.IsControl() {
			err = r.control(r.records.Record(), b.LeaderEpoch())
		} else {
			err = r.value(r.records.Record())
		}
		if err != nil {
			return fmt.Errorf("record at offset %d: %w", r.records.Record().Offset, err)
		}
	}
	r.next = b.LastOffset() + 1
	return r.records.Err()
}

func (r *snapshotReader) value(rec *record.Record) error {
	v, _, err := kmeta.ReadValue(rec.Value)
	if err != nil {
		return err
	}
	r.snapshot.Records = append(r.snapshot.Records, v)
	return nil
}

func (r *snapshotReader) control(rec *record.Record, epoch Epoch) error {
	typ, err := record.ParseControlKey(rec.Key)
	if err != nil {
		return err
	}
	c, _, err := kmeta.ReadControl(int16(typ), rec.Value)
	if err != nil {
		return err
	}
	header, ok := c.(*kmeta.SnapshotHeader)
	if !ok && !r.header {
		return errNoHeader
	}
	switch c := c.(type) {
	case *kmeta.SnapshotHeader:
		r.header = true
		r.snapshot.Epoch, r.snapshot.LastContainedTimestamp = epoch, header.LastContainedLogTimestamp
	case *kmeta.SnapshotFooter:
		r.footer = true
	case *kmeta.KRaftVersion:
		r.snapshot.KRaftVersion = c
	case *kmeta.KRaftVoters:
		r.snapshot.Voters = c
	default:
		return fmt.Errorf("%s has no place in a snapshot", c.TypeName())
	}
	return nil
}

// BootstrapRecords are the records of a new 4.3 cluster's bootstrap.checkpoint.
func BootstrapRecords() []kmeta.Record { return BootstrapRecordsAt(LatestMetadataVersion, nil) }

// BootstrapRecordsAt are those of a cluster that begins at a metadata.version: its features, metadata.version first, the others by name,
// each at its default unless levels says otherwise. A level of 0 is left out, and so is kraft.version, which is no metadata record.
func BootstrapRecordsAt(metadataVersion int16, levels map[string]int16) []kmeta.Record {
	out := []kmeta.Record{&kmeta.FeatureLevelRecord{Name: MetadataVersion, FeatureLevel: metadataVersion}}
	for _, f := range featuresByName() {
		level, said := levels[f.Name]
		if !said {
			level = f.Default(metadataVersion)
		}
		if f.Name != MetadataVersion && f.Name != KRaftVersion && level > 0 {
			out = append(out, &kmeta.FeatureLevelRecord{Name: f.Name, FeatureLevel: level})
		}
	}
	return out
}
