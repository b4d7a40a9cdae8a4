package storage

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/quire-log/quire/internal/vfs"
)

// A checkpoint file is text, its lines ended by a newline, its words parted by a blank:
//
//	0                the version
//	2                how many entries follow
//	orders 0 1500    an entry: topic, partition, offset; in leader-epoch-checkpoint epoch, start offset
//	orders 1 1498
//
// A file of 0 bytes, or of the version alone, has no entries. Topic names hold no blanks. The order of entries is nobody's concern
// in the offset files and ascending in the epochs'; ours are sorted, so that the same content is the same bytes.
const (
	recoveryPointFile   = "recovery-point-offset-checkpoint" // what is fsynced
	logStartFile        = "log-start-offset-checkpoint"      // only where the log starts inside its first segment
	highWatermarkFile   = "replication-offset-checkpoint"
	cleanerFile         = "cleaner-offset-checkpoint" // where compaction goes on
	checkpointVersion   = "0"
	checkpointLineBytes = 1024 // more than a line can need: a name is at most 249 bytes
)

// A CheckpointError reports a checkpoint file that cannot have been written whole by a broker.
type CheckpointError struct {
	File string // its path
	Line int    // from 1
	Err  error
}

func (e *CheckpointError) Error() string {
	return fmt.Sprintf("%s: line %d: %v", e.File, e.Line, e.Err)
}
func (e *CheckpointError) Unwrap() error { return e.Err }

// An epochEntry says at which offset a leader epoch began.
type epochEntry struct {
	Epoch       Epoch
	StartOffset Offset
}

// readEpochCheckpoint reads a leader-epoch-checkpoint. Whether epochs and offsets rise is for the caller to judge. Errors are a
// *CheckpointError, or the file system's, fs.ErrNotExist among them.
func readEpochCheckpoint(fsys vfs.FS, name string) ([]epochEntry, error) {
	var entries []epochEntry
	err := readCheckpoint(fsys, name, 2, func(words []string) error {
		epoch, err := strconv.ParseInt(words[0], 10, 32)
		if err != nil {
			return err
		}
		start, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil {
			return err
		}
		entries = append(entries, epochEntry{Epoch(epoch), Offset(start)})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}

// writeEpochCheckpoint replaces a leader-epoch-checkpoint atomically and durably.
func writeEpochCheckpoint(fsys vfs.FS, name string, entries []epochEntry) error {
	b := appendCheckpointHead(nil, len(entries))
	for _, e := range entries {
		b = strconv.AppendInt(b, int64(e.Epoch), 10)
		b = append(b, ' ')
		b = strconv.AppendInt(b, int64(e.StartOffset), 10)
		b = append(b, '\n')
	}
	return vfs.WriteFile(fsys, name, b)
}

// readOffsetCheckpoint reads one of the data directory's checkpoints. Errors are as readEpochCheckpoint's.
func readOffsetCheckpoint(fsys vfs.FS, name string) (map[TopicPartition]Offset, error) {
	offsets := make(map[TopicPartition]Offset)
	err := readCheckpoint(fsys, name, 3, func(words []string) error {
		partition, err := strconv.ParseInt(words[1], 10, 32)
		if err != nil {
			return err
		}
		offset, err := strconv.ParseInt(words[2], 10, 64)
		if err != nil {
			return err
		}
		offsets[TopicPartition{words[0], int32(partition)}] = Offset(offset)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return offsets, nil
}

// appendOffsetCheckpoint appends the bytes of a checkpoint of the data directory.
func appendOffsetCheckpoint(b []byte, offsets map[TopicPartition]Offset) []byte {
	sorted := make([]TopicPartition, 0, len(offsets))
	for tp := range offsets {
		sorted = append(sorted, tp)
	}
	slices.SortFunc(sorted, compareTopicPartitions)
	b = appendCheckpointHead(b, len(sorted))
	for _, tp := range sorted {
		b = append(b, tp.Topic...)
		b = append(b, ' ')
		b = strconv.AppendInt(b, int64(tp.Partition), 10)
		b = append(b, ' ')
		b = strconv.AppendInt(b, int64(offsets[tp]), 10)
		b = append(b, '\n')
	}
	return b
}

func compareTopicPartitions(a, b TopicPartition) int {
	if c := strings.Compare(a.Topic, b.Topic); c != 0 {
		return c
	}
	return int(a.Partition) - int(b.Partition)
}

func appendCheckpointHead(b []byte, entries int) []byte {
	b = append(b, checkpointVersion+"\n"...)
	b = strconv.AppendInt(b, int64(entries), 10)
	return append(b, '\n')
}

// readCheckpoint hands the words of each entry to each, which must not keep the slice. The count that the file claims is compared, not trusted.
func readCheckpoint(fsys vfs.FS, name string, words int, each func(words []string) error) error {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	line, err := parseCheckpoint(io.NewSectionReader(f, 0, 1<<62), words, each)
	var failed *readError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &failed):
		return fmt.Errorf("%s: %w", name, failed.err)
	}
	return &CheckpointError{File: name, Line: line, Err: err}
}

// A readError is the file system's, not the content's.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }

// parseCheckpoint returns the line that an error belongs to.
func parseCheckpoint(r io.Reader, words int, each func(words []string) error) (line int, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, checkpointLineBytes), checkpointLineBytes)
	next := func() bool {
		if lines.Scan() {
			line++
			return true
		}
		return false
	}
	claimed, seen := int64(0), int64(0)
	if next() {
		if lines.Text() != checkpointVersion {
			return line, fmt.Errorf("version is %.40q, want %q", lines.Text(), checkpointVersion)
		}
		if next() {
			if claimed, err = strconv.ParseInt(lines.Text(), 10, 32); err != nil || claimed < 0 {
				return line, fmt.Errorf("number of entries is %.40q", lines.Text())
			}
		}
	}
	for next() {
		w := strings.Fields(lines.Text())
		if len(w) != words {
			return line, fmt.Errorf("malformed entry %.300q", lines.Text())
		}
		if err := each(w); err != nil {
			return line, fmt.Errorf("malformed entry %.300q: %w", lines.Text(), err)
		}
		seen++
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return line + 1, fmt.Errorf("line is longer than %d bytes", checkpointLineBytes)
	case err != nil:
		return line, &readError{err}
	case seen != claimed:
		return line, fmt.Errorf("%d entries announced, %d found", claimed, seen)
	}
	return line, nil
}
