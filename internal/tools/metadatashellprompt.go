package tools

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"
)

const shellPrompt = ">> "

// converse reads commands until exit or the end of input, and runs them. At a terminal the line can be edited and completed.
func (sh *shell) converse(env Env) (code int, err error) {
	sh.interactive = true
	in, ok := env.Stdin.(*os.File)
	if !env.Terminal || !ok {
		return 0, sh.converseByLines(env)
	}
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return 0, sh.converseByLines(env) // a device that is no terminal after all
	}
	restore := func() { _ = term.Restore(int(in.Fd()), before) }
	defer restore()
	// A read from a terminal cannot be ended, so whoever waits for a line is left behind when a signal ends the process.
	done := make(chan error, 1)
	go func() { done <- sh.converseAtTerminal(env, in) }()
	select {
	case err := <-done:
		return 0, err
	case sig := <-env.interrupted():
		return signalCode(sig), nil
	}
}

// converseByLines takes commands from a pipe or a file.
func (sh *shell) converseByLines(env Env) error {
	out := bufio.NewWriter(env.Stdout)
	sh.out = out
	fmt.Fprintln(out, "[ Kafka Metadata Shell ]")
	for lines := newLineScanner(env.Stdin); !sh.ended; {
		out.WriteString(shellPrompt)
		if out.Flush() != nil {
			return nil // nobody reads on
		}
		line, err := lines.next()
		if err != nil {
			return nil // the end
		}
		sh.typed(line)
	}
	_ = out.Flush() // a reader that went away is no news to it
	return nil
}

// typed runs a line as it was typed.
func (sh *shell) typed(line string) {
	line = sh.history.expand(line)
	sh.history.add(line)
	sh.run(shellWords(line))
}

// shellKeys passes on what is typed, with a Control-C made what empties the line and ends it. Since nothing is passed on together with
// what follows a Control-C, stopped belongs to the line that is returned next.
type shellKeys struct {
	in      io.Reader
	buf     [256]byte
	pending []byte // in buf
	stopped bool   // the line ends with a Control-C
}

const (
	keyControlC = 3
	// emptyLine goes to the line's end, deletes to its begin and returns.
	emptyLine = "\x05\x15\r"
)

func (k *shellKeys) Read(p []byte) (int, error) {
	if len(k.pending) == 0 {
		n, err := k.in.Read(k.buf[:])
		if k.pending = k.buf[:n]; n == 0 {
			return 0, err
		}
	}
	if k.pending[0] == keyControlC && len(p) >= len(emptyLine) {
		k.pending, k.stopped = k.pending[1:], true
		return copy(p, emptyLine), nil
	}
	n := len(k.pending)
	if i := bytes.IndexByte(k.pending[1:], keyControlC); i >= 0 {
		n = 1 + i
	}
	n = copy(p, k.pending[:n])
	k.pending = k.pending[n:]
	return n, nil
}

// converseAtTerminal takes commands from somebody who types them.
func (sh *shell) converseAtTerminal(env Env, in *os.File) error {
	keys := &shellKeys{in: in}
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{keys, env.Stdout}, shellPrompt)
	t.AutoCompleteCallback = func(line string, pos int, key rune) (string, int, bool) {
		if key != '\t' {
			return "", 0, false
		}
		return sh.completeLine(t, line, pos)
	}
	sh.out = t
	fmt.Fprintln(t, "[ Kafka Metadata Shell ]")
	for !sh.ended {
		if width, height, err := term.GetSize(int(in.Fd())); err == nil && width > 0 {
			sh.width = width
			_ = t.SetSize(width, height)
		}
		line, err := t.ReadLine()
		switch {
		case keys.stopped:
			keys.stopped = false
			fmt.Fprintln(t, "^C")
		case err == term.ErrPasteIndicator, err == nil:
			sh.typed(line)
		case err == io.EOF:
			fmt.Fprintln(t)
			return nil
		default:
			return err
		}
	}
	return nil
}

// completeLine completes the word before the cursor: as far as all that fit agree, and if that is no further, it lists them.
func (sh *shell) completeLine(out io.Writer, line string, pos int) (string, int, bool) {
	words := shellWords(line[:pos])
	word := words[len(words)-1]
	fits := sh.fitting(words)
	if len(fits) == 0 || !strings.HasSuffix(line[:pos], word) { // nothing, or a word that was quoted
		return line, pos, true
	}
	common := fits[0]
	for _, f := range fits[1:] {
		for !strings.HasPrefix(f, common) {
			common = common[:len(common)-1]
		}
	}
	switch {
	case len(fits) == 1 && !strings.HasSuffix(common, "/"):
		common += " "
	case common == word && len(fits) > 1:
		printColumns(out, "", sh.width, fits)
	}
	before := line[:pos-len(word)] + common
	return before + line[pos:], len(before), true
}

// fitting are the words that the last one may become, in order: a command, or a path.
func (sh *shell) fitting(words []string) (fits []string) {
	last := words[len(words)-1]
	if len(words) == 1 || words[0] == "man" {
		for _, c := range shellCommands() {
			if len(words) <= 2 && strings.HasPrefix(c.name, last) {
				fits = append(fits, c.name)
			}
		}
		return fits
	}
	if !slices.ContainsFunc(shellCommands(), func(c shellCommand) bool {
		return c.name == words[0] && len(c.arguments) > 0 && c.arguments[0].typ == ""
	}) {
		return nil
	}
	slash := strings.LastIndexByte(last, '/') + 1
	at := last[:slash]
	if at == "" {
		at = "."
	}
	for _, f := range sh.lookup(at) {
		dir, ok := f.node.(*shellDirectory)
		if !ok {
			continue
		}
		for _, name := range dir.sortedNames() {
			child := dir.child(name)
			if child == nil || !strings.HasPrefix(name, last[slash:]) {
				continue
			}
			if child.isDirectory() {
				name += "/"
			}
			fits = append(fits, last[:slash]+name)
		}
	}
	return fits
}
