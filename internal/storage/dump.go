package storage

import (
	"encoding/binary"
	"path"

	"github.com/quire-log/quire/internal/vfs"
)

// What follows reads the small files of a log that no Log holds: an operator's tool shows them as they are, damage and all.

// An OffsetEntry is an entry of an .index file.
type OffsetEntry struct {
	Offset Offset // the last of the batch
	Pos    int32  // where the batch begins
}

// A TimeEntry is an entry of a .timeindex file.
type TimeEntry struct {
	Timestamp int64 // ms
	Offset    Offset
}

// Sizes of index entries in bytes.
const (
	OffsetEntrySize = offsetEntrySize
	TimeEntrySize   = timeEntrySize
)

// ParseOffsetEntry reads the entry that b, of at least OffsetEntrySize bytes, begins with; base is its segment's base offset.
func ParseOffsetEntry(b []byte, base Offset) OffsetEntry {
	return OffsetEntry{base + Offset(int32(binary.BigEndian.Uint32(b))), int32(binary.BigEndian.Uint32(b[4:]))}
}

// ParseTimeEntry reads the entry that b, of at least TimeEntrySize bytes, begins with; base is its segment's base offset.
func ParseTimeEntry(b []byte, base Offset) TimeEntry {
	return TimeEntry{int64(binary.BigEndian.Uint64(b)), base + Offset(int32(binary.BigEndian.Uint32(b[8:])))}
}

// A TxnEntry is an entry of a .txnindex file: an aborted transaction.
type TxnEntry struct {
	Version                                   int16
	ProducerID                                int64
	FirstOffset, LastOffset, LastStableOffset Offset
}

// TxnEntrySize is that of a TxnEntry in bytes.
const TxnEntrySize = txnEntrySize

// ParseTxnEntry reads the entry that b, of at least TxnEntrySize bytes, begins with. Its version is not looked at.
func ParseTxnEntry(b []byte) TxnEntry {
	return TxnEntry{
		Version:          int16(binary.BigEndian.Uint16(b)),
		ProducerID:       int64(binary.BigEndian.Uint64(b[2:])),
		FirstOffset:      Offset(binary.BigEndian.Uint64(b[10:])),
		LastOffset:       Offset(binary.BigEndian.Uint64(b[18:])),
		LastStableOffset: Offset(binary.BigEndian.Uint64(b[26:])),
	}
}

// A SnapshotEntry is what a .snapshot file says of one producer.
type SnapshotEntry struct {
	ProducerID       int64
	Epoch            int16
	CoordinatorEpoch int32
	TxnFirstOffset   Offset // -1: no transaction is open
	LastTimestamp    int64
	// Of its last batch; LastOffset is -1 if none is known.
	FirstSequence, LastSequence int32
	LastOffset                  Offset
	OffsetDelta                 int32
}

// ParseProducerSnapshot reads a whole .snapshot file, in its own order.
func ParseProducerSnapshot(b []byte) ([]SnapshotEntry, error) {
	producers, err := parseSnapshot(b)
	if err != nil {
		return nil, err
	}
	entries := make([]SnapshotEntry, len(producers))
	for i, p := range producers {
		e := SnapshotEntry{ProducerID: p.id, Epoch: p.epoch, CoordinatorEpoch: p.coordinatorEpoch, TxnFirstOffset: p.txnStart,
			LastTimestamp: p.lastTimestamp, LastOffset: -1}
		if len(p.sent) > 0 {
			last := p.sent[len(p.sent)-1]
			e.FirstSequence, e.LastSequence, e.LastOffset, e.OffsetDelta = last.firstSequence(), last.lastSequence, last.lastOffset, last.delta
		}
		entries[i] = e
	}
	return entries, nil
}

// CheckTextFile reads one of a directory's text files, which its name tells: a checkpoint of epochs or offsets, or a partition.metadata.
// known is false for a file that is none of these. Errors name the file and what is wrong with it.
func CheckTextFile(fsys vfs.FS, name string) (known bool, err error) {
	switch path.Base(name) {
	case epochFileName:
		_, err = readEpochCheckpoint(fsys, name)
	case recoveryPointFile, logStartFile, highWatermarkFile, cleanerFile:
		_, err = readOffsetCheckpoint(fsys, name)
	case partitionMetaName:
		_, err = readPartitionMetadata(fsys, name)
	default:
		return false, nil
	}
	return true, err
}

// PartitionDirectory tells whether a directory's name is that of a partition, and whether one that was deleted and is going away.
func PartitionDirectory(name string) (partition, deleted bool) {
	_, kind, ok := parseDirName(name)
	return ok, kind == dirDeleted
}
