package tools

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quire-log/quire/internal/record"
)

const (
	dumpLogPurpose = "This tool helps to parse a log file and dump its contents to the console, useful for debugging a seemingly corrupt log segment."
	stringDecoder  = "org.apache.kafka.tools.api.StringDecoder"
	decoderHelp    = "This class should implement org.apache.kafka.tools.api.Decoder trait. Custom jar should be available in kafka/libs directory."
)

func dumpLogParser() *joptParser {
	return newJopt(
		joptOption{name: "print-data-log", help: "If set, printing the messages content when dumping data logs. Automatically set if any decoder option is specified."},
		joptOption{name: "verify-index-only", help: "If set, just verify the index log without printing its content."},
		joptOption{name: "index-sanity-check", help: "If set, just checks the index sanity without printing its content. This is the same check that is executed on broker startup to determine if an index needs rebuilding or not."},
		joptOption{name: "files", arg: requiredArg, what: "file1, file2, ...", help: "REQUIRED: The comma separated list of data and index log files to be dumped."},
		joptOption{name: "max-message-size", arg: requiredArg, typ: "Integer", what: "size", def: "5242880", help: "Size of largest message."},
		joptOption{name: "max-bytes", arg: requiredArg, typ: "Integer", what: "size", def: "2147483647", help: "Limit the amount of total batches read in bytes avoiding reading the whole .log file(s)."},
		joptOption{name: "deep-iteration", help: "If set, uses deep instead of shallow iteration. Automatically set if print-data-log is enabled."},
		joptOption{name: "value-decoder-class", arg: optionalArg, def: stringDecoder, help: "If set, used to deserialize the messages. " + decoderHelp},
		joptOption{name: "key-decoder-class", arg: optionalArg, def: stringDecoder, help: "If set, used to deserialize the keys. " + decoderHelp},
		joptOption{name: "offsets-decoder", help: "If set, log data will be parsed as offset data from the __consumer_offsets topic."},
		joptOption{name: "transaction-log-decoder", help: "If set, log data will be parsed as transaction metadata from the __transaction_state topic."},
		joptOption{name: "cluster-metadata-decoder", help: "If set, log data will be parsed as cluster metadata records."},
		joptOption{name: "remote-log-metadata-decoder", help: "If set, log data will be parsed as TopicBasedRemoteLogMetadataManager (RLMM) metadata records." +
			" Instead, the value-decoder-class option can be used if a custom RLMM implementation is configured."},
		joptOption{name: "share-group-state-decoder", help: "If set, log data will be parsed as share group state data from the __share_group_state topic."},
		joptOption{name: "skip-record-metadata", help: "Skip metadata when printing records. This flag also skips control records."},
	)
}

// kafkaDumpLog is kafka-dump-log. It opens files, and needs no broker.
func kafkaDumpLog(env Env, args []string) int {
	parser := dumpLogParser()
	set, err := parser.parse(args)
	if err == nil {
		err = set.helpOrVersion(env, args, dumpLogPurpose)
	}
	if err == nil {
		err = set.require("files")
	}
	d := dump{out: bufio.NewWriterSize(env.Stdout, dumpChunk), err: env.Stderr}
	if err == nil {
		err = d.run(set)
	}
	// A reader that went away is no news to it.
	if e := d.out.Flush(); err == nil && e != nil {
		return 1
	}
	return uncaught(env, err)
}

// uncaught ends a tool as Java's main does: an exception that nobody caught is told on stderr. It returns the exit code.
func uncaught(env Env, err error) int {
	if err == nil {
		return 0
	}
	if code, ended := endOfParsing(env, err); ended {
		return code
	}
	fmt.Fprintf(env.Stderr, "Exception in thread \"main\" %s\n", asJava(err).trace())
	return 1
}

// dump is one call of kafka-dump-log.
type dump struct {
	out *bufio.Writer
	err io.Writer

	deep, contents, skipMetadata, verifyOnly, sanityOnly bool
	maxBytes, maxMessage                                 int64

	mismatches, times, disorder, absent, gaps complaints
	records                                   record.Reader
	buf                                       []byte // the batch at hand
}

// complaints are pairs of numbers that do not fit, by file, told at the end.
type complaints struct {
	paths []string
	pairs map[string][][2]int64
}

func (c *complaints) add(path string, a, b int64) {
	if c.pairs == nil {
		c.pairs = make(map[string][][2]int64)
	}
	if c.pairs[path] == nil {
		c.paths = append(c.paths, path)
	}
	c.pairs[path] = append(c.pairs[path], [2]int64{a, b})
}

func (d *dump) tell(c *complaints, head, line string) {
	for _, path := range c.paths {
		fmt.Fprintf(d.err, head+"%s\n", path)
		for _, pair := range c.pairs[path] {
			fmt.Fprintf(d.err, line+"\n", pair[0], pair[1])
		}
	}
}

func (d *dump) run(set *joptSet) error {
	d.verifyOnly, d.sanityOnly, d.skipMetadata = set.has("verify-index-only"), set.has("index-sanity-check"), set.has("skip-record-metadata")
	for _, name := range []string{"print-data-log", "offsets-decoder", "transaction-log-decoder", "cluster-metadata-decoder",
		"remote-log-metadata-decoder", "share-group-state-decoder", "value-decoder-class", "key-decoder-class"} {
		d.contents = d.contents || set.has(name)
	}
	d.deep = d.contents || set.has("deep-iteration")
	files, _, err := set.text("files")
	if err != nil {
		return err
	}
	for file := range strings.SplitSeq(files, ",") {
		if err := d.file(set, file); err != nil {
			return err
		}
	}
	if err := d.out.Flush(); err != nil {
		return nil // nobody reads on
	}
	for _, pairs := range d.mismatches.pairs {
		slices.Reverse(pairs) // Kafka tells of these, and of these alone, the last first
	}
	d.tell(&d.mismatches, "Mismatches in :", "  Index offset: %d, log offset: %d")
	d.tell(&d.times, "Found timestamp mismatch in :", "  Index timestamp: %d, log timestamp: %d")
	d.tell(&d.disorder, "Found out of order timestamp in :", "  Index timestamp: %d, Previously indexed timestamp: %d")
	d.tell(&d.absent, "The following indexed offsets are not found in :", "Indexed offset: %d, found log offset: %d")
	d.tell(&d.gaps, "Non-consecutive offsets in ", "  %d is followed by %d")
	return nil
}

// file dumps one file; its suffix says what it is.
func (d *dump) file(set *joptSet, name string) error {
	name = javaPath(name)
	fmt.Fprintf(d.out, "Dumping %s\n", name)
	base := filepath.Base(name)
	suffix := ""
	if dot := strings.LastIndexByte(base, '.'); dot >= 0 {
		suffix = base[dot:]
	}
	var err error
	switch suffix {
	case ".log", ".checkpoint":
		var decode decoder
		if decode, err = d.decoder(set); err != nil {
			return err
		}
		if d.maxBytes, _, err = set.number("max-bytes"); err != nil {
			return err
		}
		return d.log(name, decode)
	case ".index":
		if d.maxMessage, _, err = set.number("max-message-size"); err != nil {
			return err
		}
		return d.index(name)
	case ".timeindex":
		return d.timeIndex(name)
	case ".snapshot":
		return d.snapshot(name)
	case ".txnindex":
		return d.txnIndex(name)
	}
	if err := d.out.Flush(); err != nil {
		return nil
	}
	fmt.Fprintf(d.err, "Ignoring unknown file %s\n", name)
	return nil
}

// javaPath is a path as Java's File prints it: no slash twice, none at the end. Unlike path.Clean it keeps dots.
func javaPath(name string) string {
	for strings.Contains(name, "//") {
		name = strings.ReplaceAll(name, "//", "/")
	}
	if len(name) > 1 {
		name = strings.TrimSuffix(name, "/")
	}
	return name
}

// absolute is Java's absolute path.
func absolute(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	dir, err := os.Getwd()
	if err != nil {
		return name
	}
	return javaPath(dir + "/" + name)
}

// baseOffset reads the number that a file's name begins with.
func baseOffset(name string) (record.Offset, error) {
	digits, _, _ := strings.Cut(filepath.Base(name), ".")
	n, err := javaInt(digits, 64)
	return record.Offset(n), err
}

// openFile opens a file for reading. Its errors are Java's.
func openFile(name string) (*os.File, int64, error) {
	f, err := os.Open(name)
	switch {
	case os.IsNotExist(err):
		return nil, 0, throw("java.nio.file.NoSuchFileException", name)
	case os.IsPermission(err):
		return nil, 0, throw("java.nio.file.AccessDeniedException", name)
	case err != nil:
		return nil, 0, throw("java.nio.file.FileSystemException", err.Error())
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, throw("java.nio.file.FileSystemException", err.Error())
	}
	if info.IsDir() {
		f.Close()
		return nil, 0, throw("java.nio.file.FileSystemException", name+": Is a directory")
	}
	return f, info.Size(), nil
}

// checkpointTitle is the second line for a snapshot of the metadata log: its name is offset-epoch.checkpoint.
func checkpointTitle(name string) (string, error) {
	base := filepath.Base(name)
	if base == "bootstrap.checkpoint" {
		return "KRaft bootstrap snapshot", nil
	}
	const offsetEnd, epochEnd = 20, 31 // with the hyphen before the epoch
	for _, cut := range [][2]int{{0, offsetEnd}, {offsetEnd + 1, epochEnd}} {
		if len(base) < cut[1] {
			return "", throw("java.lang.StringIndexOutOfBoundsException", fmt.Sprintf("begin %d, end %d, length %d", cut[0], cut[1], len(base)))
		}
	}
	offset, err := javaInt(base[:offsetEnd], 64)
	if err != nil {
		return "", err
	}
	epoch, err := javaInt(base[offsetEnd+1:epochEnd], 32)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Snapshot end offset: %d, epoch: %d", offset, epoch), nil
}

// wholeFile says that --max-bytes limits nothing.
func (d *dump) wholeFile() bool { return d.maxBytes == math.MaxInt32 }
