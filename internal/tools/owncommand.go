package tools

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quire-log/quire/internal/config"
)

// What quire's own commands exit with; Kafka's tools have their own codes.
const (
	exitGood   = 0
	exitBad    = 1 // the answer is no, or there is none
	exitMisuse = 2 // the command line makes no sense
)

// An ownCommand is the command line of one of quire's own commands. Its help begins with an example.
type ownCommand struct {
	env   Env
	name  string // such as "quire verify"
	about string // the help, down to the flags
	flags *pflag.FlagSet
}

func newOwnCommand(env Env, name, about string) *ownCommand {
	flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	return &ownCommand{env, name, about, flags}
}

// parse reads the flags and, if it went well, returns the other words. Otherwise the command ends with the code.
func (c *ownCommand) parse(args []string) (words []string, ok bool, code int) {
	err := c.flags.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		c.usage(c.env.Stdout)
		return nil, false, exitGood
	case err != nil:
		return nil, false, c.misuse("%v", flagComplaint(c.flags, err))
	}
	return c.flags.Args(), true, exitGood
}

// flagComplaint adds to a complaint about an unknown flag the one that may have been meant.
func flagComplaint(flags *pflag.FlagSet, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return err
	}
	var names []string
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := nearestOf(names, unknown.GetSpecifiedName()); near != "" {
		return fmt.Errorf("%w; did you mean --%s?", err, near)
	}
	return err
}

// nearestOf is the name most like a word, or "" when none is like enough that the guess would help.
func nearestOf(names []string, word string) string {
	table := make([]config.Option, len(names))
	for i, name := range names {
		table[i].Key = name
	}
	return config.Nearest(table, word)
}

func (c *ownCommand) usage(w io.Writer) {
	fmt.Fprint(w, strings.TrimLeft(c.about, "\n"))
	if flags := c.flags.FlagUsages(); flags != "" {
		fmt.Fprint(w, "\nFlags:\n", flags)
	}
}

// misuse complains about the command line, shows the help, and returns the exit code.
func (c *ownCommand) misuse(format string, a ...any) int {
	fmt.Fprintf(c.env.Stderr, c.name+": "+format+"\n\n", a...)
	c.usage(c.env.Stderr)
	return exitMisuse
}

// fail tells why there is no answer, and returns the exit code.
func (c *ownCommand) fail(err error) int {
	fmt.Fprintf(c.env.Stderr, "%s: %s\n", c.name, plainText(err))
	return exitBad
}

// exceptionClasses begin the texts of Kafka's tools.
var exceptionClasses = regexp.MustCompile(`^(?:(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error): )+`)

// plainText is an error's text without classes of exceptions: quire's own commands tell nobody of Java.
func plainText(err error) string { return exceptionClasses.ReplaceAllString(err.Error(), "") }
