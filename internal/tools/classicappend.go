package tools

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/quire-log/quire/internal/classic"
	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

// logFlags are the options that say how a log is written.
func (f classicFlags) logFlags() func() classic.Config {
	c := classic.DefaultConfig()
	f.Int64Var(&c.SegmentBytes, "segment-bytes", c.SegmentBytes, "a file that has as many `BYTES` is followed by the next")
	f.IntVar(&c.MessageBytesMax, "max-message-bytes", c.MessageBytesMax, "the largest payload, in `BYTES`")
	f.Int64Var(&c.FlushMessages, "flush-messages", c.FlushMessages, "flush after `N` messages (0: for no number)")
	f.DurationVar(&c.FlushInterval, "flush-interval", c.FlushInterval, "flush what is as old (0: at no age)")
	return func() classic.Config { return c }
}

const (
	// Lines are gathered into an append until there are so many, or their bytes are, or no more is at hand.
	appendLinesMax = 1000
	appendBytesMax = 1 << 20
)

var classicCodecs = map[string]record.Codec{"none": record.None, "gzip": record.Gzip, "snappy": record.Snappy}

func classicAppend(env Env, args []string) int {
	f := newClassicFlags(env, "append", "DIR [OPTION]...", "Appends each line of standard input to the log of a partition, whose directory is made if it is missing.")
	codecName := f.String("codec", "none", "pack lines that come together into compressed messages: none, gzip or snappy")
	magic := f.Int("magic", 0, "form of entries that are not compressed: 0 or 1")
	config := f.logFlags()
	dir, code, ok := f.dir(args)
	if !ok {
		return code
	}
	codec, ok := classicCodecs[*codecName]
	if !ok {
		return f.wrong(fmt.Errorf("--codec %q: one of none, gzip, snappy", *codecName))
	}
	if *magic != 0 && *magic != 1 {
		return f.wrong(fmt.Errorf("--magic %d: 0 or 1", *magic))
	}
	full, err := filepath.Abs(dir)
	if err != nil {
		return f.failed(err)
	}
	tp, ok := classic.ParseDirName(filepath.Base(full))
	if !ok {
		return f.wrong(fmt.Errorf("%s: a partition's directory is named TOPIC_NUMBER, such as my_topic_0", dir))
	}
	l, err := classic.Open(classic.Options{FS: vfs.OS(), Dir: dir, Partition: tp, Config: config(), Cut: func(c classic.Cut) {
		fmt.Fprintf(env.Stderr, "%s: %v\n", f.name, c)
	}})
	if err != nil {
		return f.failed(err)
	}
	a := lineAppender{log: l, codec: codec, magic: byte(*magic), first: l.EndOffset(), max: config().MessageBytesMax}
	err = errors.Join(a.run(env.Stdin), l.Close())
	fmt.Fprintf(env.Stdout, "%s: %d messages, offsets %d to %d\n", tp, a.appended, a.first, l.EndOffset())
	if err != nil {
		return f.failed(err)
	}
	return 0
}

// A lineAppender appends lines.
type lineAppender struct {
	log      *classic.Log
	codec    record.Codec
	magic    byte
	max      int // bytes of a line
	first    classic.Offset
	appended int64

	lines [][]byte // gathered
	bytes int
}

func (a *lineAppender) run(in io.Reader) error {
	r := bufio.NewReaderSize(in, 64<<10)
	for n := int64(1); ; n++ {
		line, err := a.line(r)
		if err == nil || len(line) > 0 {
			a.lines, a.bytes = append(a.lines, line), a.bytes+len(line)
		}
		if err != nil && err != io.EOF {
			return errors.Join(a.flush(), fmt.Errorf("line %d: %w", n, err))
		}
		if err == io.EOF || len(a.lines) >= appendLinesMax || a.bytes >= appendBytesMax || r.Buffered() == 0 {
			if flushErr := a.flush(); flushErr != nil {
				return fmt.Errorf("up to line %d: %w", n, flushErr)
			}
		}
		if err == io.EOF {
			return nil
		}
	}
}

// line reads a line without its end. The last may lack one.
func (a *lineAppender) line(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if err == nil {
			line = line[:len(line)-1]
		}
		if len(line) > a.max {
			return nil, fmt.Errorf("it has more than %d bytes", a.max)
		}
		if err != bufio.ErrBufferFull {
			return line, err
		}
	}
}

func (a *lineAppender) flush() error {
	if len(a.lines) == 0 {
		return nil
	}
	var messages []classic.Message
	if a.codec != record.None {
		m, err := classic.Pack(a.codec, a.lines...)
		if err != nil {
			return err
		}
		messages = append(messages, m)
	} else {
		for _, line := range a.lines {
			messages = append(messages, classic.Message{Magic: a.magic, Payload: line})
		}
	}
	if _, err := a.log.Append(messages...); err != nil {
		return err
	}
	a.appended += int64(len(a.lines))
	a.lines, a.bytes = nil, 0
	return nil
}
