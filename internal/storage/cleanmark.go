package storage

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/quire-log/quire/internal/vfs"
)

// The clean mark says by being there that every log of its directory was flushed and closed, its indexes trimmed. It is
// the last thing that a stop writes and the first that a start removes. Its content is one JSON object without a newline,
//
//	{"version":0,"brokerEpoch":11}
//
// and of old releases "0" or nothing: then the broker epoch is unknown.
const (
	cleanMarkFile     = ".kafka_cleanshutdown"
	cleanMarkBytesMax = 4096
)

// readCleanMark tells whether dir has a clean mark, and which broker epoch it gives, -1 for none.
func readCleanMark(fsys vfs.FS, dir string) (brokerEpoch int64, clean bool, err error) {
	f, err := fsys.OpenFile(path.Join(dir, cleanMarkFile), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return -1, false, nil
	}
	if err != nil {
		return -1, false, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, cleanMarkBytesMax))
	if err != nil {
		return -1, false, err
	}
	return parseCleanMark(b), true, nil
}

func parseCleanMark(b []byte) (brokerEpoch int64) {
	var mark struct {
		Version     *int   `json:"version"`
		BrokerEpoch *int64 `json:"brokerEpoch"`
	}
	if json.Unmarshal(b, &mark) != nil || mark.Version == nil || *mark.Version != 0 || mark.BrokerEpoch == nil {
		return -1
	}
	return *mark.BrokerEpoch
}

// writeCleanMark is durable when it returns.
func writeCleanMark(fsys vfs.FS, dir string, brokerEpoch int64) error {
	return vfs.WriteFile(fsys, path.Join(dir, cleanMarkFile), fmt.Appendf(nil, `{"version":0,"brokerEpoch":%d}`, brokerEpoch))
}

// removeCleanMark is durable when it returns: a mark that came back after a crash would let the next start trust what nobody flushed.
func removeCleanMark(fsys vfs.FS, dir string) error {
	err := fsys.Remove(path.Join(dir, cleanMarkFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fsys.SyncDir(dir)
}
