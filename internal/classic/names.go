package classic

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/quire-log/quire/internal/vfs"
)

const (
	fileSuffix = ".kafka"
	// fileDigits is the width of the names that are written: the design page's. Names of any width are read.
	fileDigits   = 11
	topicNameMax = 249
	lockName     = ".lock"
)

// fileName is the name of the file whose first entry has the offset base.
func fileName(base Offset) string { return fmt.Sprintf("%0*d%s", fileDigits, base, fileSuffix) }

// parseFileName reads a file's name. ok is false for what is no file of a log.
func parseFileName(name string) (base Offset, ok bool) {
	digits, found := strings.CutSuffix(name, fileSuffix)
	if !found || !allDigits(digits) {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return Offset(n), err == nil
}

func allDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// DirName is the name of a partition's directory, as the design page has it.
func DirName(tp TopicPartition) string { return tp.String() }

// ParseDirName reads the name of a partition's directory: TOPIC_PARTITION, or TOPIC-PARTITION as 0.7 wrote it. ok is false
// for what is neither.
func ParseDirName(name string) (tp TopicPartition, ok bool) {
	topic := strings.TrimRight(name, "0123456789")
	digits := name[len(topic):]
	if topic == "" || digits == "" {
		return TopicPartition{}, false
	}
	switch topic[len(topic)-1] {
	case '_', '-':
	default:
		return TopicPartition{}, false
	}
	topic = topic[:len(topic)-1]
	n, err := strconv.ParseInt(digits, 10, 32)
	// t_01 would be a second directory of t_1.
	if err != nil || strconv.FormatInt(n, 10) != digits || !legalTopic(topic) {
		return TopicPartition{}, false
	}
	return TopicPartition{topic, int32(n)}, true
}

// legalTopic keeps out names that would not stay within their directory. 0.7 took all others.
func legalTopic(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= topicNameMax && !strings.ContainsAny(name, "/\\\x00")
}

// A fileInfo is a log's file, as its directory shows it.
type fileInfo struct {
	name string
	base Offset
	size int64
}

func (f fileInfo) end() Offset { return f.base + Offset(f.size) }

// listFiles reads a partition's directory: its files by offset. Whatever else lies there is left alone.
func listFiles(fsys vfs.FS, dir string) ([]fileInfo, error) {
	list, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	files := make([]fileInfo, 0, len(list))
	for _, d := range list {
		base, ok := parseFileName(d.Name())
		if !ok || d.IsDir() {
			continue
		}
		info, err := sizeOf(fsys, dir, d)
		if err != nil {
			return nil, err
		}
		if info+int64(base) < 0 {
			return nil, &DirError{dir, fmt.Errorf("%s has %d bytes, which end beyond the last offset", d.Name(), info)}
		}
		files = append(files, fileInfo{d.Name(), base, info})
	}
	slices.SortFunc(files, func(a, b fileInfo) int {
		if a.base != b.base {
			return cmpOffset(a.base, b.base)
		}
		return strings.Compare(a.name, b.name)
	})
	for i := 1; i < len(files); i++ {
		if files[i].base == files[i-1].base {
			return nil, &DirError{dir, fmt.Errorf("%s and %s have the same offset: move away the one that is not wanted", files[i-1].name, files[i].name)}
		}
	}
	return files, nil
}

// sizeOf is the size of a file, through a symbolic link if it is one.
func sizeOf(fsys vfs.FS, dir string, d fs.DirEntry) (int64, error) {
	if d.Type()&fs.ModeSymlink != 0 {
		info, err := fsys.Stat(dir + "/" + d.Name())
		if err != nil {
			return 0, err
		}
		return info.Size(), nil
	}
	info, err := d.Info()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func cmpOffset(a, b Offset) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
