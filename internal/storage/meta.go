package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"time"
	"unicode/utf16"

	"github.com/magiconair/properties"

	"github.com/quire-log/quire/internal/vfs"
)

// A meta.properties tells a data directory's owner, in the form of java.util.Properties: ISO 8859-1, written with an empty
// comment and the date before the entries, whose order means nothing.
//
//	#
//	#Sun Nov 29 23:38:36 UTC 2026
//	node.id=1
//	directory.id=q3m50kqSMHwUPbClsFOycw
//	version=1
//	cluster.id=Z29sZGVuLWNsdXN0ZXItMQ
//
// Version 0 (or none), of ZooKeeper's days, says broker.id for node.id, and may lack the cluster's and the directory's id.
const (
	metaFile         = "meta.properties"
	metaBytesMax     = 64 << 10
	bootstrapFile    = "bootstrap.checkpoint"
	metaDateLayout   = "Mon Jan 02 15:04:05 MST 2006"
	keyVersion       = "version"
	keyClusterID     = "cluster.id"
	keyNodeID        = "node.id"
	keyBrokerID      = "broker.id"
	keyDirectoryID   = "directory.id"
	formatHint       = "have you run `kafka-storage.sh` to format the directory?"
	movedDataAdvice  = "if you moved your data, make sure that the configured node id matches; for a new node, remove all data from its directories"
	wrongClusterHint = "the directory belongs to another cluster: mount the right one, or remove its data to join this cluster"
)

// A Meta is the content of meta.properties.
type Meta struct {
	ClusterID   string // "" in version 0: none was given
	NodeID      int32  // -1 in version 0: none was given
	DirectoryID TopicID
}

// A DirError says what is wrong with a data directory, and what to do.
type DirError struct {
	Dir string
	Err error
}

func (e *DirError) Error() string { return fmt.Sprintf("%s: %v", e.Dir, e.Err) }
func (e *DirError) Unwrap() error { return e.Err }

// Formatted tells whether dir has a meta.properties, and reads it. A directory that does not exist is not formatted.
func Formatted(fsys vfs.FS, dir string) (Meta, bool, error) {
	f, err := fsys.OpenFile(path.Join(dir, metaFile), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return Meta{}, false, nil
	}
	if err != nil {
		return Meta{}, false, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, metaBytesMax+1))
	if err != nil {
		return Meta{}, false, err
	}
	meta, err := parseMeta(b)
	if err != nil {
		return Meta{}, true, &DirError{dir, fmt.Errorf("%s: %w", metaFile, err)}
	}
	return meta, true, nil
}

func parseMeta(b []byte) (Meta, error) {
	if len(b) > metaBytesMax {
		return Meta{}, fmt.Errorf("more than %d bytes", metaBytesMax)
	}
	loader := properties.Loader{Encoding: properties.ISO_8859_1, DisableExpansion: true}
	props, err := loader.LoadBytes(b)
	if err != nil {
		return Meta{}, err
	}
	meta := Meta{NodeID: -1}
	nodeKey, needed := keyNodeID, true
	switch version := props.GetString(keyVersion, "0"); version {
	case "1":
	case "0":
		nodeKey, needed = keyBrokerID, false
	default:
		return Meta{}, fmt.Errorf("unknown version %.40q", version)
	}
	get := func(key string) (string, bool, error) {
		v, ok := props.Get(key)
		if !ok && needed {
			return "", false, fmt.Errorf("%s is missing", key)
		}
		return v, ok, nil
	}
	if meta.ClusterID, _, err = get(keyClusterID); err != nil {
		return Meta{}, err
	}
	node, ok, err := get(nodeKey)
	if err != nil {
		return Meta{}, err
	}
	if ok {
		n, err := strconv.ParseInt(node, 10, 32)
		if err != nil || n < 0 && needed || n < -1 {
			return Meta{}, fmt.Errorf("%s is %.40q, want a number from 0 to 2147483647", nodeKey, node)
		}
		meta.NodeID = int32(n)
	}
	if id, ok := props.Get(keyDirectoryID); ok {
		if meta.DirectoryID, err = ParseTopicID(id); err != nil {
			return Meta{}, fmt.Errorf("%s: %w", keyDirectoryID, err)
		}
		if meta.DirectoryID.reserved() {
			return Meta{}, fmt.Errorf("%s %v is a reserved id: remove the line, and the next start draws another", keyDirectoryID, meta.DirectoryID)
		}
	}
	return meta, nil
}

func appendMeta(b []byte, meta Meta, now time.Time) []byte {
	b = append(b, "#\n#"...)
	b = now.AppendFormat(b, metaDateLayout)
	b = append(b, '\n')
	for _, kv := range [...]struct{ key, value string }{
		{keyNodeID, strconv.Itoa(int(meta.NodeID))},
		{keyDirectoryID, meta.DirectoryID.String()},
		{keyVersion, "1"},
		{keyClusterID, meta.ClusterID},
	} {
		b = append(b, kv.key...)
		b = append(b, '=')
		b = appendPropertyValue(b, kv.value)
		b = append(b, '\n')
	}
	return b
}

// appendPropertyValue escapes what a reader of properties would take for something else.
func appendPropertyValue(b []byte, value string) []byte {
	for i, r := range value {
		switch {
		case r == ' ' && i == 0, r == '\\', r == '=', r == ':', r == '#', r == '!':
			b = append(b, '\\', byte(r))
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\f':
			b = append(b, `\f`...)
		case r < ' ' || r > '~':
			for _, unit := range utf16.AppendRune(nil, r) {
				b = fmt.Appendf(b, `\u%04X`, unit)
			}
		default:
			b = append(b, byte(r))
		}
	}
	return b
}

func writeMeta(fsys vfs.FS, dir string, meta Meta) error {
	return vfs.WriteFile(fsys, path.Join(dir, metaFile), appendMeta(nil, meta, time.Now()))
}

// Format makes dir, if need be, and writes its bootstrap.checkpoint (whose bytes are given; none: none) and its meta.properties, fsynced, the
// directory and its parents too. meta.properties is last, since it makes a directory a formatted one. A zero DirectoryID
// gets a random one. A directory that is formatted already is an fs.ErrExist.
func Format(fsys vfs.FS, dir string, meta Meta, bootstrap []byte) error {
	switch _, done, err := Formatted(fsys, dir); {
	case done:
		return &DirError{dir, fmt.Errorf("is formatted already: %w", errors.Join(fs.ErrExist, err))}
	case err != nil:
		return &DirError{dir, err}
	case meta.ClusterID == "":
		return &DirError{dir, errors.New("cannot be formatted without a cluster id")}
	case meta.NodeID < 0:
		return &DirError{dir, fmt.Errorf("cannot be formatted for node id %d", meta.NodeID)}
	}
	if meta.DirectoryID == (TopicID{}) {
		meta.DirectoryID = RandomID()
	}
	if err := makeDir(fsys, dir); err != nil {
		return &DirError{dir, err}
	}
	if len(bootstrap) > 0 {
		if err := vfs.WriteFile(fsys, path.Join(dir, bootstrapFile), bootstrap); err != nil {
			return &DirError{dir, err}
		}
	}
	if err := writeMeta(fsys, dir, meta); err != nil {
		return &DirError{dir, err}
	}
	return nil
}

// makeDir makes dir and what is missing above it, durably; the parent is synced in any case, since who made dir may not have done it.
func makeDir(fsys vfs.FS, dir string) error {
	top := path.Dir(dir)
	for top != path.Dir(top) {
		if _, err := fsys.Stat(top); err == nil {
			break
		}
		top = path.Dir(top)
	}
	if err := fsys.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for d := path.Dir(dir); ; d = path.Dir(d) {
		if err := fsys.SyncDir(d); err != nil {
			return err
		}
		if d == top || d == path.Dir(d) {
			return nil
		}
	}
}

// checkMetas holds the directories' metas, by path, against each other and what is configured.
func checkMetas(dirs []*dataDir, nodeID int32, clusterID string) (Meta, error) {
	var first *dataDir
	seen := make(map[TopicID]string)
	for _, d := range dirs {
		if d.offline() != nil {
			continue
		}
		if d.meta.NodeID >= 0 && d.meta.NodeID != nodeID {
			return Meta{}, &DirError{d.path, fmt.Errorf("stored node id %d doesn't match previous node id %d in %s: %s", d.meta.NodeID, nodeID, path.Join(d.path, metaFile), movedDataAdvice)}
		}
		if d.meta.ClusterID != "" {
			if clusterID == "" {
				clusterID = d.meta.ClusterID
			}
			if d.meta.ClusterID != clusterID {
				return Meta{}, &DirError{d.path, fmt.Errorf("invalid cluster.id in: %s. Expected %s, but read %s: %s", path.Join(d.path, metaFile), clusterID, d.meta.ClusterID, wrongClusterHint)}
			}
		}
		if id := d.meta.DirectoryID; id != (TopicID{}) {
			if other, twice := seen[id]; twice {
				return Meta{}, &DirError{d.path, fmt.Errorf("duplicate directory ID %v, found in %s too: if one is a copy, remove the line directory.id from its %s", id, other, metaFile)}
			}
			seen[id] = d.path
		}
		if first == nil {
			first = d
		}
	}
	if clusterID == "" {
		return Meta{}, &DirError{first.path, fmt.Errorf("%s gives no cluster.id, and none is configured: add the line cluster.id=…", metaFile)}
	}
	return Meta{ClusterID: clusterID, NodeID: nodeID}, nil
}
