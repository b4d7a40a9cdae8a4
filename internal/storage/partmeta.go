package storage

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/quire-log/quire/internal/vfs"
)

// A partition.metadata is two lines, the last without its newline:
//
//	version: 0
//	topic_id: ZFkOhdZhQCqCaLughEDlbw
//
// partMetaBytesMax bounds what is read of one.
const partMetaBytesMax = 4096

// readPartitionMetadata reads the topic id in a partition.metadata. A missing file is an fs.ErrNotExist.
func readPartitionMetadata(fsys vfs.FS, name string) (TopicID, error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return TopicID{}, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, partMetaBytesMax))
	if err != nil {
		return TopicID{}, err
	}
	id, err := parsePartitionMetadata(string(b))
	if err != nil {
		return TopicID{}, fmt.Errorf("%s: %w", name, err)
	}
	return id, nil
}

func parsePartitionMetadata(text string) (TopicID, error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) != 2 {
		return TopicID{}, fmt.Errorf("%d lines, want 2", len(lines))
	}
	var values [2]string
	for i, key := range []string{"version", "topic_id"} {
		k, v, ok := strings.Cut(lines[i], ":")
		if !ok || k != key || v == "" || strings.TrimLeft(v, " \t") == v {
			return TopicID{}, fmt.Errorf("malformed line %.80q, want %s: …", lines[i], key)
		}
		values[i] = strings.TrimSpace(v)
	}
	if values[0] != "0" {
		return TopicID{}, fmt.Errorf("version is %.40q, want 0", values[0])
	}
	id, err := ParseTopicID(values[1])
	if err != nil {
		return TopicID{}, err
	}
	if id == (TopicID{}) {
		return TopicID{}, errors.New("the topic id is zero")
	}
	return id, nil
}

// writePartitionMetadata replaces a partition.metadata atomically; its name is durable once the directory is.
func writePartitionMetadata(fsys vfs.FS, name string, id TopicID) error {
	return vfs.ReplaceFile(fsys, name, fmt.Appendf(nil, "version: 0\ntopic_id: %s", id))
}
