package storage

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"os"
	"slices"

	"github.com/quire-log/quire/internal/vfs"
)

// A .snapshot file holds what a log knew of its producers below the offset in the file's name. Big-endian:
//
//	0         2       6       10
//	+---------+-------+-------+---------+-----
//	| version |  crc  | count | entries |        version 1; crc is CRC-32C of everything after it
//	+---------+-------+-------+---------+-----
//
//	entry, 46 bytes; ours rise by producer id, in Kafka's order means nothing:
//	0            8       10             14           22            26          34                 38              46
//	+------------+-------+--------------+------------+-------------+-----------+------------------+---------------+
//	| producerId | epoch | lastSequence | lastOffset | offsetDelta | timestamp | coordinatorEpoch | txnFirstOffset|
//	+------------+-------+--------------+------------+-------------+-----------+------------------+---------------+
//
// Of a producer's batches it keeps the last alone; -1 stands for none of anything.
const (
	snapshotHeaderSize = 10
	snapshotEntrySize  = 46
	snapshotVersion    = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendSnapshot(dst []byte, producers map[int64]*producer) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint16(dst, snapshotVersion)
	dst = binary.BigEndian.AppendUint32(dst, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(producers)))
	for _, id := range slices.Sorted(maps.Keys(producers)) {
		p := producers[id]
		last := sentBatch{lastSequence: -1, lastOffset: -1}
		if n := len(p.sent); n > 0 {
			last = p.sent[n-1]
		}
		dst = binary.BigEndian.AppendUint64(dst, uint64(p.id))
		dst = binary.BigEndian.AppendUint16(dst, uint16(p.epoch))
		dst = binary.BigEndian.AppendUint32(dst, uint32(last.lastSequence))
		dst = binary.BigEndian.AppendUint64(dst, uint64(last.lastOffset))
		dst = binary.BigEndian.AppendUint32(dst, uint32(last.delta))
		dst = binary.BigEndian.AppendUint64(dst, uint64(p.lastTimestamp))
		dst = binary.BigEndian.AppendUint32(dst, uint32(p.coordinatorEpoch))
		dst = binary.BigEndian.AppendUint64(dst, uint64(p.txnStart))
	}
	binary.BigEndian.PutUint32(dst[start+2:], crc32.Checksum(dst[start+6:], castagnoli))
	return dst
}

// parseSnapshot reads a whole .snapshot file. What is wrong with one is an *indexDamage.
func parseSnapshot(b []byte) ([]*producer, error) {
	if len(b) < snapshotHeaderSize {
		return nil, damagef("%d bytes are no snapshot", len(b))
	}
	if v := int16(binary.BigEndian.Uint16(b)); v != snapshotVersion {
		return nil, damagef("snapshot of version %d", v)
	}
	if got, want := crc32.Checksum(b[6:], castagnoli), binary.BigEndian.Uint32(b[2:]); got != want {
		return nil, damagef("crc %08x, want %08x", got, want)
	}
	n := int(int32(binary.BigEndian.Uint32(b[6:])))
	b = b[snapshotHeaderSize:]
	if n < 0 || n > len(b)/snapshotEntrySize {
		return nil, damagef("%d producers in %d bytes", n, len(b))
	}
	producers := make([]*producer, n)
	for i := range producers {
		p := newProducer(int64(binary.BigEndian.Uint64(b)))
		p.epoch = int16(binary.BigEndian.Uint16(b[8:]))
		last := sentBatch{
			lastSequence: int32(binary.BigEndian.Uint32(b[10:])),
			lastOffset:   Offset(binary.BigEndian.Uint64(b[14:])),
			delta:        int32(binary.BigEndian.Uint32(b[22:])),
			timestamp:    int64(binary.BigEndian.Uint64(b[26:])),
		}
		if last.lastOffset >= 0 {
			p.sent = append(p.sent, last)
		}
		p.lastTimestamp = last.timestamp
		p.coordinatorEpoch = int32(binary.BigEndian.Uint32(b[34:]))
		p.txnStart = Offset(binary.BigEndian.Uint64(b[38:]))
		producers[i] = p
		b = b[snapshotEntrySize:]
	}
	return producers, nil
}

// writeSnapshot writes a .snapshot file; with sync, durably. It is no atomic replacement: a torn one fails its checksum, and
// the one before it is used.
func writeSnapshot(at *place, offset Offset, content []byte, sync bool) error {
	f, err := at.fs.OpenFile(at.path(fileName(offset, snapshotSuffix)), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(content, 0)
	if err == nil && sync {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// syncFile makes a file's bytes durable.
func syncFile(fsys vfs.FS, name string) error {
	f, err := fsys.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
