package storage

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"slices"

	"github.com/quire-log/quire/internal/vfs"
)

// A .window file holds what a .snapshot file has no room for: of producers with several batches in their duplicate window, all
// of them, so that a clean stop forgets none. Kafka ignores the name. Its offset is the log's end at the stop. Big-endian:
//
//	0         2       6       10
//	+---------+-------+-------+---------+-----
//	| version |  crc  | count | entries |        version 1; crc is CRC-32C of everything after it
//	+---------+-------+-------+---------+-----
//
//	entry, 11 bytes and 24 for each of 2 to 5 batches, which are in the order of their offsets; entries rise by producer id:
//	0            8       10        11             +4           +12           +16         +24
//	+------------+-------+---------+--------------+------------+-------------+-----------+-----
//	| producerId | epoch | batches | lastSequence | lastOffset | offsetDelta | timestamp | ...
//	+------------+-------+---------+--------------+------------+-------------+-----------+-----
//
// It is a hint, and never fsynced. It counts after a clean stop alone, if it is of the log's end, and if each producer's last
// batch in it is the one that the snapshot or the log tells of: whoever wrote to the log since, Kafka too, moved one of them.
const (
	windowHeaderSize = 10
	windowEntrySize  = 11
	windowBatchSize  = 24
	windowVersion    = 1

	// windowProducersMax bounds the entries: those who wrote last have the most to resend.
	windowProducersMax = 10_000
	windowBytesMax     = windowHeaderSize + windowProducersMax*(windowEntrySize+duplicateWindow*windowBatchSize)
)

// A producerWindow is an entry of a .window file.
type producerWindow struct {
	id    int64
	epoch int16
	sent  []sentBatch
}

func appendWindow(dst []byte, all []producerWindow) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint16(dst, windowVersion)
	dst = binary.BigEndian.AppendUint32(dst, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(all)))
	for _, w := range all {
		dst = binary.BigEndian.AppendUint64(dst, uint64(w.id))
		dst = binary.BigEndian.AppendUint16(dst, uint16(w.epoch))
		dst = append(dst, byte(len(w.sent)))
		for _, s := range w.sent {
			dst = binary.BigEndian.AppendUint32(dst, uint32(s.lastSequence))
			dst = binary.BigEndian.AppendUint64(dst, uint64(s.lastOffset))
			dst = binary.BigEndian.AppendUint32(dst, uint32(s.delta))
			dst = binary.BigEndian.AppendUint64(dst, uint64(s.timestamp))
		}
	}
	binary.BigEndian.PutUint32(dst[start+2:], crc32.Checksum(dst[start+6:], castagnoli))
	return dst
}

// parseWindow reads a whole .window file. What is wrong with one is an *indexDamage.
func parseWindow(b []byte) ([]producerWindow, error) {
	if len(b) < windowHeaderSize {
		return nil, damagef("%d bytes are no window", len(b))
	}
	if v := int16(binary.BigEndian.Uint16(b)); v != windowVersion {
		return nil, damagef("window of version %d", v)
	}
	if got, want := crc32.Checksum(b[6:], castagnoli), binary.BigEndian.Uint32(b[2:]); got != want {
		return nil, damagef("crc %08x, want %08x", got, want)
	}
	n := binary.BigEndian.Uint32(b[6:])
	b = b[windowHeaderSize:]
	if int64(n) > int64(len(b)/(windowEntrySize+2*windowBatchSize)) {
		return nil, damagef("%d producers in %d bytes", n, len(b))
	}
	all := make([]producerWindow, n)
	for i := range all {
		if len(b) < windowEntrySize {
			return nil, damagef("producer %d of %d begins %d bytes before the end", i, n, len(b))
		}
		w := producerWindow{id: int64(binary.BigEndian.Uint64(b)), epoch: int16(binary.BigEndian.Uint16(b[8:]))}
		batches := int(b[10])
		b = b[windowEntrySize:]
		if batches < 2 || batches > duplicateWindow || len(b) < batches*windowBatchSize {
			return nil, damagef("%d batches of producer %d in %d bytes", batches, w.id, len(b))
		}
		if i > 0 && w.id <= all[i-1].id {
			return nil, damagef("producer %d follows %d", w.id, all[i-1].id)
		}
		w.sent = make([]sentBatch, batches, duplicateWindow)
		for j := range w.sent {
			s := sentBatch{
				lastSequence: int32(binary.BigEndian.Uint32(b)),
				lastOffset:   Offset(binary.BigEndian.Uint64(b[4:])),
				delta:        int32(binary.BigEndian.Uint32(b[12:])),
				timestamp:    int64(binary.BigEndian.Uint64(b[16:])),
			}
			if s.lastSequence < 0 || s.delta < 0 || s.firstOffset() < 0 || j > 0 && s.firstOffset() <= w.sent[j-1].lastOffset {
				return nil, damagef("batch %d of producer %d ends at offset %d, %d after its first", j, w.id, s.lastOffset, s.delta)
			}
			w.sent[j] = s
			b = b[windowBatchSize:]
		}
		all[i] = w
	}
	if len(b) > 0 {
		return nil, damagef("%d bytes follow the last producer", len(b))
	}
	return all, nil
}

// windowList is what the .window file should say now.
func (ps *producers) windowList() []producerWindow {
	var all []producerWindow
	for _, p := range ps.byID {
		if len(p.sent) > 1 {
			all = append(all, producerWindow{p.id, p.epoch, p.sent})
		}
	}
	if len(all) > windowProducersMax {
		last := func(w producerWindow) Offset { return w.sent[len(w.sent)-1].lastOffset }
		slices.SortFunc(all, func(a, b producerWindow) int { return cmp.Compare(last(b), last(a)) })
		all = all[:windowProducersMax]
	}
	slices.SortFunc(all, func(a, b producerWindow) int { return cmp.Compare(a.id, b.id) })
	return all
}

// saveWindow writes the .window file of the log's end, unless there is one, or nothing to say; others go. A full disk is no
// error: the file is a hint.
func (ps *producers) saveWindow() error {
	if ps.windowed == ps.end {
		return nil
	}
	if err := ps.removeWindows(func(Offset) bool { return true }); err != nil {
		return err
	}
	all := ps.windowList()
	if len(all) == 0 {
		return nil
	}
	name := ps.at.path(fileName(ps.end, windowSuffix))
	f, err := ps.at.fs.OpenFile(name, createFlags|os.O_TRUNC, 0o644)
	if err == nil {
		_, err = f.WriteAt(appendWindow(nil, all), 0)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		_ = ps.at.fs.Remove(name)
		if isDiskFull(err) {
			return nil
		}
		return err
	}
	ps.windows, ps.windowed = append(ps.windows, ps.end), ps.end
	return nil
}

// removeWindows unlinks the .window files whose offset which picks.
func (ps *producers) removeWindows(which func(Offset) bool) error {
	var errs error
	ps.windows = slices.DeleteFunc(ps.windows, func(o Offset) bool {
		if !which(o) {
			return false
		}
		if err := ps.at.fs.Remove(ps.at.path(fileName(o, windowSuffix))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = errors.Join(errs, err)
		}
		return true
	})
	return errs
}

// loadWindow has producers know again the batches that the .window file of the log's end tells of. note says why it does not count.
func (ps *producers) loadWindow() (note string, err error) {
	name := fileName(ps.end, windowSuffix)
	info, err := ps.at.fs.Stat(ps.at.path(name))
	if err != nil {
		return "", err
	}
	if info.Size() > windowBytesMax {
		return fmt.Sprintf("%s has %d bytes", name, info.Size()), nil
	}
	b, err := vfs.ReadFile(ps.at.fs, ps.at.path(name))
	if err != nil {
		return "", err
	}
	all, err := parseWindow(b)
	if err != nil {
		return fmt.Sprintf("%s: %v", name, err), nil
	}
	for _, w := range all { // nothing is taken over unless everything fits
		p := ps.byID[w.id]
		if p == nil {
			continue // expired since
		}
		if last := w.sent[len(w.sent)-1]; p.epoch != w.epoch || len(p.sent) == 0 || p.sent[len(p.sent)-1] != last {
			return fmt.Sprintf("%s is of another log: the last batch of producer %d was not the one at offset %d", name, w.id, last.lastOffset), nil
		}
	}
	for _, w := range all {
		if p := ps.byID[w.id]; p != nil && len(p.sent) < len(w.sent) {
			p.sent = w.sent
		}
	}
	ps.windowed = ps.end
	return "", nil
}

// settleWindow uses the .window file if it counts, and removes others.
func (op *opening) settleWindow() error {
	ps := op.producers
	if len(ps.windows) == 0 {
		return nil
	}
	if op.clean && slices.Contains(ps.windows, ps.end) {
		note, err := ps.loadWindow()
		if err != nil {
			return err
		}
		if note != "" {
			op.event("recover", ps.end, "of each producer the last batch alone is known: %s", note)
		}
	}
	return ps.removeWindows(func(o Offset) bool { return o != ps.windowed })
}
