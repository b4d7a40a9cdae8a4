package tools

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/quire-log/quire/internal/classic"
	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

const classicUsage = `Usage: quire classic COMMAND ...

Logs of Kafka 0.7, and of the design page of 0.8, in which an offset is a byte position.

  dump DIR     print the entries
  verify DIR   look at every entry, and name the first bad byte (exit code 1)
  import DIR   produce every message into a topic of today
  append DIR   append the lines of standard input
  serve DIR    answer the requests of Kafka 0.7 on a TCP port

DIR is a partition's directory, such as my_topic_0, or one that holds such directories; dump and verify take a file, too.
quire classic COMMAND --help shows a command's options.
`

// classicCommand is `quire classic`. Exit codes: 0, 1 when something is wrong with the log or could not be done, 2 for a wrong command line.
func classicCommand(env Env, args []string) int {
	if len(args) == 0 {
		fmt.Fprint(env.Stderr, classicUsage)
		return 2
	}
	run := map[string]Tool{"dump": classicDump, "verify": classicVerify, "import": classicImport, "append": classicAppend, "serve": classicServe}[args[0]]
	switch {
	case run != nil:
		return run(env, args[1:])
	case args[0] == "help" || args[0] == "-h" || args[0] == "--help":
		fmt.Fprint(env.Stdout, classicUsage)
		return 0
	}
	fmt.Fprintf(env.Stderr, "quire classic: no command %q\n%s", args[0], classicUsage)
	return 2
}

// classicFlags are the options of one of the commands.
type classicFlags struct {
	*pflag.FlagSet
	name string
	env  Env
}

func newClassicFlags(env Env, name, arguments, about string) classicFlags {
	f := classicFlags{pflag.NewFlagSet(name, pflag.ContinueOnError), "quire classic " + name, env}
	f.SetOutput(env.Stderr)
	f.Usage = func() {
		fmt.Fprintf(env.Stderr, "Usage: %s %s\n\n%s\n\n%s", f.name, arguments, about, f.FlagUsages())
	}
	return f
}

// dir parses the command line, whose one argument it returns; ok is false when the command ends with code.
func (f classicFlags) dir(args []string) (dir string, code int, ok bool) {
	err := f.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return "", 0, false
	case err == nil && f.NArg() != 1:
		err = fmt.Errorf("one directory, not %d", f.NArg())
	}
	if err != nil {
		return "", f.wrong(err), false
	}
	return f.Arg(0), 0, true
}

func (f classicFlags) wrong(err error) int {
	fmt.Fprintf(f.env.Stderr, "%s: %v\n", f.name, err)
	return 2
}

func (f classicFlags) failed(err error) int {
	message := err.Error()
	if java, ok := errors.AsType[*javaError](err); ok {
		message = java.message
	}
	fmt.Fprintf(f.env.Stderr, "%s: %s\n", f.name, message)
	return 1
}

// A classicLog is a partition to be read: its directory, or one file of it.
type classicLog struct {
	name string // for a reader, in the design page's form where it has one
	path string
	tp   classic.TopicPartition // zero: the name says nothing
}

// classicLogs finds what a command's argument means.
func classicLogs(name string) ([]classicLog, error) {
	files, err := classic.Scan(vfs.OS(), name)
	if err != nil {
		return nil, err
	}
	full, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	tp, named := classic.ParseDirName(filepath.Base(full))
	if files.Files() > 0 || named {
		l := classicLog{name: filepath.Base(full), path: name}
		if named {
			l.name, l.tp = tp.String(), tp
		}
		return []classicLog{l}, nil
	}
	dirs, err := classic.ListPartitions(vfs.OS(), name)
	if err != nil {
		return nil, err
	}
	if len(dirs) == 0 {
		return nil, fmt.Errorf("%s: neither a file of a log (such as 00000000000.kafka) nor a partition's directory (such as my_topic_0) is here", name)
	}
	logs := make([]classicLog, len(dirs))
	for i, d := range dirs {
		logs[i] = classicLog{d.Partition.String(), d.Dir, d.Partition}
	}
	return logs, nil
}

// classicInflateMax bounds what one entry may inflate to.
const classicInflateMax = 256 << 20

// payloadForms are how dump shows a payload.
var payloadForms = []string{"auto", "text", "hex", "none"}

func classicDump(env Env, args []string) int {
	f := newClassicFlags(env, "dump", "DIR [--payload FORM] [--deep]", "Prints every entry: offset, size, magic, codec, crc, whether it is valid, payload.")
	form := f.String("payload", "auto", "`FORM` of payloads: text, hex, auto (text if all of it can be read) or none")
	deep := f.Bool("deep", true, "show the messages inside compressed payloads")
	dir, code, ok := f.dir(args)
	if !ok {
		return code
	}
	show, ok := map[string]func([]byte) string{"auto": autoPayload, "text": textPayload, "hex": hexPayload, "none": func([]byte) string { return "" }}[*form]
	if !ok {
		return f.wrong(fmt.Errorf("--payload %q: one of %s", *form, strings.Join(payloadForms, ", ")))
	}
	logs, err := classicLogs(dir)
	if err != nil {
		return f.failed(err)
	}
	out := bufio.NewWriterSize(env.Stdout, dumpChunk)
	for _, l := range logs {
		if err = dumpClassic(out, l, show, *deep); err != nil {
			break
		}
	}
	if e := out.Flush(); err == nil && e != nil {
		return 1 // a reader that went away
	}
	if err != nil {
		return f.failed(err)
	}
	return 0
}

func textPayload(p []byte) string { return " payload: " + string(p) }
func hexPayload(p []byte) string  { return fmt.Sprintf(" payload-hex: %x", p) }

// autoPayload shows as text what a terminal shows as it is.
func autoPayload(p []byte) string {
	if utf8.Valid(p) && strings.IndexFunc(string(p), func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return textPayload(p)
	}
	return hexPayload(p)
}

func dumpClassic(out *bufio.Writer, l classicLog, show func([]byte) string, deep bool) error {
	s, err := classic.Scan(vfs.OS(), l.path)
	if err != nil {
		return err
	}
	defer s.Close()
	file := ""
	for s.Next() {
		i := s.Item()
		if i.File != file {
			file = i.File
			fmt.Fprintf(out, "Dumping %s: %s\n", l.name, file)
		}
		if i.Size == 0 {
			if _, err := fmt.Fprintf(out, "offset: %d valid: false (%v)\n", i.Offset, i.Err); err != nil {
				return nil // nobody reads on
			}
			continue
		}
		codec := "unknown"
		c, codecErr := i.Codec()
		if codecErr == nil {
			codec = c.String()
		}
		fmt.Fprintf(out, "offset: %d size: %d magic: %d codec: %s crc: %08x valid: %t", i.Offset, i.Size, i.Magic, codec, i.CRC, i.Err == nil)
		if i.Err != nil {
			fmt.Fprintf(out, " (%v)", i.Err)
		}
		inside := deep && i.Err == nil && codecErr == nil && c != record.None && i.Entry != nil
		switch {
		case i.Entry == nil:
			fmt.Fprint(out, " payload: (too large to be shown)")
		case !inside:
			out.WriteString(show(i.Entry.Payload()))
		}
		if err := out.WriteByte('\n'); err != nil {
			return nil
		}
		if !inside {
			continue
		}
		n := 0
		err := i.Entry.Messages(classicInflateMax, func(p []byte) error {
			_, err := fmt.Fprintf(out, "| message: %d size: %d%s\n", n, len(p), show(p))
			n++
			return err
		})
		if err != nil {
			fmt.Fprintf(out, "| message: %d valid: false (%v)\n", n, err)
		}
	}
	return s.Err()
}

func classicVerify(env Env, args []string) int {
	f := newClassicFlags(env, "verify", "DIR", "Looks at every entry, and at the messages inside compressed ones. Of each partition that is not whole it names the\n"+
		"first bad byte: where the first entry begins that is not valid or, where one byte is known to be wrong, that byte.")
	dir, code, ok := f.dir(args)
	if !ok {
		return code
	}
	logs, err := classicLogs(dir)
	if err != nil {
		return f.failed(err)
	}
	for _, l := range logs {
		good, err := verifyClassic(env.Stdout, l)
		if err != nil {
			return f.failed(err)
		}
		if !good {
			code = 1
		}
	}
	return code
}

// verifyClassic tells what is first wrong with a log, or that nothing is.
func verifyClassic(out io.Writer, l classicLog) (good bool, err error) {
	s, err := classic.Scan(vfs.OS(), l.path)
	if err != nil {
		return false, err
	}
	defer s.Close()
	var entries, messages int64
	for s.Next() {
		i := s.Item()
		fault := i.Err
		if fault == nil && i.Entry != nil {
			fault = i.Entry.Messages(classicInflateMax, func([]byte) error { messages++; return nil })
		}
		if fault != nil {
			pos := badByte(i, fault)
			fmt.Fprintf(out, "%s: %s: bad byte %d, offset %d, in the entry at byte %d: %v\n", l.name, i.File, pos, int64(i.Offset)+pos-i.Pos, i.Pos, fault)
			return false, nil
		}
		entries++
	}
	if err := s.Err(); err != nil {
		return false, err
	}
	fmt.Fprintf(out, "%s: good: %d entries, %d messages, offsets %d to %d in %d files\n", l.name, entries, messages, s.First(), s.End(), s.Files())
	return true, nil
}

// badByte is the position of the first bad byte of an entry.
func badByte(i classic.Item, fault error) int64 {
	var (
		magic *classic.MagicError
		codec *classic.CodecError
		inner *classic.InnerError
	)
	switch {
	case errors.As(fault, &inner): // which byte of the compressed payload, nobody can say
	case errors.As(fault, &magic):
		return i.Pos + 4
	case errors.As(fault, &codec):
		return i.Pos + 5
	}
	return i.Pos
}
