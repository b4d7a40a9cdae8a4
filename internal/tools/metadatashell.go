package tools

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

// kafka-metadata-shell shows what a snapshot of the metadata log, or a segment of it, says of the cluster: as a tree that one walks
// like a file system. Its parts:
//
//	metadatashell.go         the command line, and reading the file
//	metadatashelltree.go     the tree
//	metadatashellglob.go     paths with wildcards
//	metadatashellcommand.go  cat, cd, find, ls, ...
//	metadatashellprompt.go   the prompt, at which commands are typed
//	metadatashellline.go     a line's words, and what was typed before

func metadataShellParser() *argParser {
	return &argParser{
		prog:        "kafka-metadata-shell",
		description: "The Apache Kafka metadata shell",
		arguments: []*argument{
			{flags: []string{"--snapshot", "-s"}, required: true, help: "The metadata snapshot file to read."},
			{flags: []string{"command"}, many: "*", help: "The command to run."},
		},
	}
}

// kafkaMetadataShell is kafka-metadata-shell. Commands that fail have said so, on standard output: its exit code tells of the file alone.
func kafkaMetadataShell(env Env, args []string) int {
	values, err := metadataShellParser().parse(args)
	if err != nil {
		return printArgError(env, err, 1)
	}
	code, err := metadataShell(env, values.text("snapshot"), values.all("command"))
	switch e := err.(type) {
	case nil:
		return code
	case *javaError:
		fmt.Fprintf(env.Stderr, "Unexpected error: %s\n%s\n", e.text(), e)
	default: // nothing that Kafka has words for
		fmt.Fprintf(env.Stderr, "Unexpected error: %s\n", err)
	}
	return 1
}

func metadataShell(env Env, path string, command []string) (code int, err error) {
	lock, err := lockMetadata(path)
	if err != nil {
		return 1, err
	}
	if lock != nil {
		defer lock.Close()
	}
	f, size, err := openFile(javaPath(path))
	if err != nil {
		return 1, executionException(err)
	}
	defer f.Close()
	if len(command) == 0 {
		fmt.Fprintln(env.Stdout, "Loading...")
	}
	m, err := readMetadata(env, f, size)
	if err != nil {
		return 1, err
	}
	sh := &shell{root: m.root()}
	if len(command) == 0 {
		fmt.Fprintln(env.Stdout, "Starting...")
		return sh.converse(env)
	}
	out := bufio.NewWriter(env.Stdout)
	sh.out = out
	sh.run(command)
	_ = out.Flush() // a reader that went away is no news to it
	return 0, nil
}

// lockMetadata takes the lock of the data directory that the file is in, two above it, if that has one: while a node runs on the
// directory, nobody looks into it. Nil: there is no lock to take.
func lockMetadata(path string) (io.Closer, error) {
	dir := parentPath(parentPath(javaPath(path)))
	name := filepath.Join(dir, ".lock")
	if _, err := os.Stat(name); err != nil {
		return nil, nil
	}
	lock, err := vfs.OS().Lock(name)
	switch {
	case errors.Is(err, vfs.ErrLocked):
		return nil, throw("java.lang.RuntimeException", fmt.Sprintf("Unable to lock %s. Please ensure that no broker or controller process is using this directory before proceeding.", absolute(dir)))
	case errors.Is(err, fs.ErrPermission):
		return nil, throw("java.io.FileNotFoundException", name+" (Permission denied)")
	}
	return lock, err
}

// parentPath is what stands before the last slash of a path, or the path itself.
func parentPath(path string) string {
	switch i := strings.LastIndexByte(path, '/'); {
	case i > 0:
		return path[:i]
	case i == 0:
		return "/"
	}
	return path
}

// shellBatchMax bounds a batch in the file, as it is and inflated: nodes write none above 8 MiB.
const shellBatchMax = 64 << 20

const snapshotReaderLogger = "org.apache.kafka.metadata.util.SnapshotFileReader"

// A shownMetadata is the cluster as of the end of a file.
type shownMetadata struct {
	image *metadata.Image
	time  int64 // ms, of the last batch whose records are in the image
}

// A readRecord is a record of the metadata log and where it stands.
type readRecord struct {
	offset record.Offset
	value  kmeta.Record
}

// metadataFile reads a snapshot or a segment of the metadata log.
type metadataFile struct {
	env     Env
	shown   shownMetadata
	records record.Reader
	buf     []byte
	// gathered are the records that are to show together: those of a batch, or of a metadata transaction so far.
	gathered      []readRecord
	inTransaction bool
	// A snapshot has a header and a footer, a segment neither.
	header, footer bool
}

// readMetadata reads the file through. What it says is shown only if it is all there: Kafka's shell waits for ever for what a damaged
// file lacks. The end of a segment alone may be torn, since a node may be about to write there.
func readMetadata(env Env, f *os.File, size int64) (*shownMetadata, error) {
	name := f.Name()
	m := &metadataFile{env: env, shown: shownMetadata{image: metadata.Empty()}}
	w := batchWalk{f: f, name: name, end: size}
	for {
		at := w.pos
		b, err := w.next()
		if err == nil && b == nil {
			break
		}
		if err == nil {
			err = m.batch(&w, b)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: corrupt at byte %d, %s: %s", name, at, m.reached(), plainError(err))
		}
	}
	switch {
	case m.header && !m.footer:
		return nil, fmt.Errorf("%s: the snapshot is not whole: it ends at byte %d, %s, without a footer", name, size, m.reached())
	case w.pos == 0:
		return nil, fmt.Errorf("%s: no snapshot and no segment of a metadata log: there is no whole batch in its %d bytes", name, size)
	case m.shown.image.Offset() < 0:
		return nil, fmt.Errorf("%s: there are no metadata records in it", name)
	}
	return &m.shown, nil
}

// reached says how far the records are known to be good.
func (m *metadataFile) reached() string {
	if offset := m.shown.image.Offset(); offset >= 0 {
		return fmt.Sprintf("after offset %d", offset)
	}
	return "before any record"
}

// plainError is an error without the class that Java would name.
func plainError(err error) string {
	if e, ok := errors.AsType[*javaError](err); ok {
		return e.text()
	}
	return err.Error()
}

// batch reads one batch, whose records become part of the image.
func (m *metadataFile) batch(w *batchWalk, b *dumpedBatch) error {
	switch {
	case b.Batch == nil:
		return fmt.Errorf("a message set of magic %d", b.magic)
	case b.size > shellBatchMax:
		return fmt.Errorf("a batch of %d bytes", b.size)
	}
	if int64(cap(m.buf)) < b.size {
		m.buf = make([]byte, b.size)
	}
	if _, err := w.f.ReadAt(m.buf[:b.size], b.pos); err != nil {
		return err
	}
	batch, err := record.FirstBatch(m.buf[:b.size])
	if err != nil {
		return err
	}
	if !batch.ChecksumValid() {
		return errors.New("the checksum is wrong")
	}
	if err := m.records.Reset(batch, shellBatchMax); err != nil {
		return err
	}
	for m.records.Next() {
		r := m.records.Record()
		if batch.IsControl() {
			m.control(r)
			continue
		}
		v, _, err := kmeta.ReadValue(r.Value)
		if err != nil {
			return fmt.Errorf("unable to read metadata record at offset %d: %w", r.Offset, err)
		}
		m.take(readRecord{r.Offset, v}, batch)
	}
	if err := m.records.Err(); err != nil || batch.IsControl() {
		return err
	}
	if !m.inTransaction {
		m.show(batch.LastOffset(), batch)
	}
	return nil
}

// control tells of a control record that it says nothing of the cluster. A new leader alone is no news.
func (m *metadataFile) control(r *record.Record) {
	typ, err := record.ParseControlKey(r.Key)
	if err != nil {
		logLine(m.env.Stderr, "ERROR", fmt.Sprintf("unable to read control record at offset %d", r.Offset), snapshotReaderLogger, asJava(err))
		return
	}
	m.header = m.header || typ == record.ControlSnapshotHeader
	m.footer = m.footer || typ == record.ControlSnapshotFooter
	if typ == record.ControlLeaderChange {
		return
	}
	name := "UNKNOWN"
	if typ >= 0 && int(typ) < len(controlNames) {
		name = controlNames[typ]
	}
	logLine(m.env.Stderr, "ERROR", fmt.Sprintf("Ignoring control record with type %s at offset %d", name, r.Offset), snapshotReaderLogger, nil)
}

var controlNames = [...]string{
	record.ControlAbort: "ABORT", record.ControlCommit: "COMMIT", record.ControlLeaderChange: "LEADER_CHANGE",
	record.ControlSnapshotHeader: "SNAPSHOT_HEADER", record.ControlSnapshotFooter: "SNAPSHOT_FOOTER",
	record.ControlKRaftVersion: "KRAFT_VERSION", record.ControlKRaftVoters: "KRAFT_VOTERS",
}

// take gathers a record. Transactions are followed here, since a Replayer ends at the first record that makes no sense.
func (m *metadataFile) take(r readRecord, batch record.Batch) {
	switch r.value.(type) {
	case *kmeta.BeginTransactionRecord:
		if !m.inTransaction && len(m.gathered) > 0 { // what came before it in the batch shows in any case
			m.show(r.offset-1, batch)
		}
		m.inTransaction, m.gathered = true, nil
	case *kmeta.EndTransactionRecord, *kmeta.AbortTransactionRecord:
		if !m.inTransaction {
			m.fault(r.offset, errors.New("no metadata transaction is open"))
			return
		}
		m.inTransaction = false
		if _, aborted := r.value.(*kmeta.AbortTransactionRecord); aborted {
			m.gathered = nil
		}
	default:
		m.gathered = append(m.gathered, r)
	}
}

// show makes what was gathered part of the image. Records that make no sense are told of and left out: a segment that is not the
// log's first speaks of brokers and topics that came before it.
func (m *metadataFile) show(last record.Offset, batch record.Batch) {
	records := make([]kmeta.Record, len(m.gathered))
	for i, r := range m.gathered {
		records[i] = r.value
	}
	image, err := replayOn(m.shown.image, records, last, batch.LeaderEpoch())
	if err != nil {
		image = m.shown.image
		for i, r := range m.gathered {
			next, err := replayOn(image, records[i:i+1], last, batch.LeaderEpoch())
			if err != nil {
				m.fault(r.offset, err)
				continue
			}
			image = next
		}
	}
	m.gathered = m.gathered[:0]
	m.shown = shownMetadata{image, batch.MaxTimestamp()}
}

// fault tells of a record that makes no sense.
func (m *metadataFile) fault(offset record.Offset, err error) {
	if e, ok := errors.AsType[*metadata.ReplayError](err); ok {
		err = e.Err // without where it stands
	}
	logLine(m.env.Stderr, "ERROR", fmt.Sprintf("Encountered shell fault: Error loading metadata log record from offset %d", offset),
		"org.apache.kafka.server.fault.LoggingFaultHandler", throw("java.lang.IllegalStateException", err.Error()))
}

// replayOn is an image after records that show together.
func replayOn(image *metadata.Image, records []kmeta.Record, last record.Offset, epoch record.Epoch) (*metadata.Image, error) {
	if err := checkPartitions(image, records); err != nil {
		return nil, err
	}
	next, _, err := metadata.NewReplayer(image).Replay(records, last, epoch)
	return next, err
}

// checkPartitions looks whether every partition has those of lower numbers beside it, or before it in the records. Otherwise a record
// that names partition one million would take the memory of as many.
func checkPartitions(image *metadata.Image, records []kmeta.Record) error {
	said := make(map[kmeta.UUID]int)
	for _, r := range records {
		if p, ok := r.(*kmeta.PartitionRecord); ok {
			said[p.TopicID]++
		}
	}
	for _, r := range records {
		p, ok := r.(*kmeta.PartitionRecord)
		if !ok {
			continue
		}
		there := said[p.TopicID]
		if t := image.TopicByID(p.TopicID); t != nil {
			there += len(t.Partitions)
		}
		if int(p.PartitionID) >= there {
			return fmt.Errorf("topic id %v has no partition before partition %d", p.TopicID, p.PartitionID)
		}
	}
	return nil
}
