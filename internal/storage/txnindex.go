package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/quire-log/quire/internal/vfs"
)

// A .txnindex file lists the transactions whose abort markers were appended while its segment was active. It is there only
// if there were any. An entry is 34 bytes, big-endian, and entries rise by lastOffset:
//
//	0         2            10            18           26                 34
//	+---------+------------+-------------+------------+------------------+
//	| version | producerId | firstOffset | lastOffset | lastStableOffset |   version 0
//	+---------+------------+-------------+------------+------------------+
//
// firstOffset may lie in an earlier segment; lastOffset is the marker's; lastStableOffset is what was stable right after it.
const txnEntrySize = 34

// An abortedTxn is an entry of a .txnindex.
type abortedTxn struct {
	producerID                          int64
	firstOffset, lastOffset, lastStable Offset
}

func appendTxnEntry(dst []byte, a abortedTxn) []byte {
	dst = binary.BigEndian.AppendUint16(dst, 0)
	dst = binary.BigEndian.AppendUint64(dst, uint64(a.producerID))
	dst = binary.BigEndian.AppendUint64(dst, uint64(a.firstOffset))
	dst = binary.BigEndian.AppendUint64(dst, uint64(a.lastOffset))
	return binary.BigEndian.AppendUint64(dst, uint64(a.lastStable))
}

// parseTxnIndex reads a whole .txnindex of the segment at base.
func parseTxnIndex(b []byte, base Offset) ([]abortedTxn, error) {
	if len(b)%txnEntrySize != 0 {
		return nil, damagef("%d bytes are no whole number of entries", len(b))
	}
	entries := make([]abortedTxn, 0, len(b)/txnEntrySize)
	last := base - 1
	for ; len(b) > 0; b = b[txnEntrySize:] {
		if v := int16(binary.BigEndian.Uint16(b)); v != 0 {
			return nil, damagef("entry %d has version %d", len(entries), v)
		}
		a := abortedTxn{
			producerID:  int64(binary.BigEndian.Uint64(b[2:])),
			firstOffset: Offset(binary.BigEndian.Uint64(b[10:])),
			lastOffset:  Offset(binary.BigEndian.Uint64(b[18:])),
			lastStable:  Offset(binary.BigEndian.Uint64(b[26:])),
		}
		if a.lastOffset <= last || a.firstOffset < 0 || a.firstOffset > a.lastOffset {
			return nil, damagef("entry %d is [%d, %d] after %d", len(entries), a.firstOffset, a.lastOffset, last)
		}
		last = a.lastOffset
		entries = append(entries, a)
	}
	return entries, nil
}

// readTxnIndex reads a segment's .txnindex; a segment without one has no entries.
func readTxnIndex(at *place, base Offset) ([]abortedTxn, error) {
	b, err := vfs.ReadFile(at.fs, at.path(fileName(base, txnIndexSuffix)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	entries, err := parseTxnIndex(b, base)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", fileName(base, txnIndexSuffix), err)
	}
	return entries, nil
}

// writeTxnEntry puts entry number n (from 0) into a segment's .txnindex, making the file if it is the first.
func writeTxnEntry(at *place, base Offset, n int, a abortedTxn) error {
	f, err := at.fs.OpenFile(at.path(fileName(base, txnIndexSuffix)), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(appendTxnEntry(make([]byte, 0, txnEntrySize), a), int64(n)*txnEntrySize)
	return errors.Join(err, f.Close())
}

// rewriteTxnIndex makes a segment's .txnindex hold exactly these entries, and removes the file when there are none.
func rewriteTxnIndex(at *place, base Offset, entries []abortedTxn) error {
	name := at.path(fileName(base, txnIndexSuffix))
	if len(entries) == 0 {
		if err := at.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	f, err := at.fs.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	b := make([]byte, 0, len(entries)*txnEntrySize)
	for _, a := range entries {
		b = appendTxnEntry(b, a)
	}
	if _, err = f.WriteAt(b, 0); err == nil {
		err = f.Truncate(int64(len(b)))
	}
	return errors.Join(err, f.Close())
}
