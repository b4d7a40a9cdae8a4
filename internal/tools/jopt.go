package tools

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Most of Kafka's tools read their command line with jopt-simple, set to refuse abbreviations. What users see of it:
//
//   - --name value, --name=value, and both with one hyphen; -ab is -a -b when no option is called "ab"
//   - an option that must have an argument takes the next word, whatever it looks like
//   - an option that may have one takes the next word unless it begins with a hyphen; a negative number may
//   - words that belong to no option are ignored; -- ends the options
//   - a value's type is looked at when the tool asks for the value, so a bad number may be reported late
//
// A tool states its options as a list of joptOption, and the help table, the checks and the tool read that list.

// joptArg says whether an option has an argument.
type joptArg uint8

const (
	noArg joptArg = iota
	requiredArg
	optionalArg
)

// joptOption is one option of a tool.
type joptOption struct {
	name string
	help string
	arg  joptArg
	// typ is the argument's type as the help table shows it: String, Integer, Long, Double; String when empty.
	typ string
	// what describes the argument in the help table.
	what string
	def  string // the value when the option is absent, shown in the table
	// required makes the parser itself insist on the option. Tools that check later do not set it.
	required bool
	// help options let required ones be absent.
	forHelp bool
}

// The two options that every tool has.
var (
	helpOption    = joptOption{name: "help", help: "Print usage information.", forHelp: true}
	versionOption = joptOption{name: "version", help: "Display Kafka version.", forHelp: true}
)

// A joptError is a complaint about the command line; class is that of the Java exception, which some tools print.
type joptError struct{ class, message string }

func (e *joptError) Error() string { return e.message }

// java returns e as the exception that Kafka's tool would have thrown.
func (e *joptError) java() *javaError { return throw("joptsimple."+e.class, e.message) }

func unrecognized(name string) error {
	return &joptError{"UnrecognizedOptionException", name + " is not a recognized option"}
}

// joptParser is a tool's options.
type joptParser struct{ options []joptOption }

// newJopt returns a parser for the options given and the two that every tool has.
func newJopt(options ...joptOption) *joptParser {
	return &joptParser{append(options, helpOption, versionOption)}
}

func (p *joptParser) lookup(name string) *joptOption {
	for i := range p.options {
		if p.options[i].name == name {
			return &p.options[i]
		}
	}
	return nil
}

// joptSet is a parsed command line.
type joptSet struct {
	parser *joptParser
	values map[string][]string // by option: present even if empty when the option was given
	order  []string            // the options as they were met
}

// parse reads a command line. Its errors are *joptError.
func (p *joptParser) parse(args []string) (*joptSet, error) {
	set := &joptSet{parser: p, values: make(map[string][]string)}
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		if word == "--" {
			break
		}
		if !looksLikeOption(word) {
			continue
		}
		name, value, hasValue := strings.Cut(strings.TrimPrefix(word[1:], "-"), "=")
		o := p.lookup(name)
		switch {
		case o != nil:
			rest, err := set.add(o, value, hasValue, args)
			if err != nil {
				return nil, err
			}
			args = rest
		case strings.HasPrefix(word, "--"):
			return nil, unrecognized(name)
		default:
			rest, err := set.addCluster(word[1:], args)
			if err != nil {
				return nil, err
			}
			args = rest
		}
	}
	return set, p.checkRequired(set)
}

func looksLikeOption(word string) bool { return len(word) > 1 && word[0] == '-' }

// add notes one option and returns the words that it left.
func (s *joptSet) add(o *joptOption, value string, hasValue bool, args []string) ([]string, error) {
	given := s.values[o.name]
	if given == nil {
		given = []string{}
	}
	switch {
	case o.arg == noArg:
	case hasValue:
		given = append(given, value)
	case o.arg == requiredArg && len(args) == 0:
		return nil, &joptError{"OptionMissingRequiredArgumentException", "Option " + o.name + " requires an argument"}
	case o.arg == requiredArg, len(args) > 0 && (!looksLikeOption(args[0]) || o.typ != "") && o.accepts(args[0]):
		given, args = append(given, args[0]), args[1:]
	}
	s.values[o.name] = given
	s.order = append(s.order, o.name)
	return args, nil
}

// addCluster notes options of one letter each that share a hyphen. The first that has an argument takes the rest for it.
func (s *joptSet) addCluster(letters string, args []string) ([]string, error) {
	for i, letter := range letters {
		o := s.parser.lookup(string(letter))
		if o == nil {
			return nil, unrecognized(string(letter))
		}
		rest := letters[i+len(string(letter)):]
		if o.arg != noArg && rest != "" {
			return s.add(o, rest, true, args)
		}
		left, err := s.add(o, "", false, args)
		if err != nil {
			return nil, err
		}
		args = left
	}
	return args, nil
}

// accepts reports whether a word is of the option's type.
func (o *joptOption) accepts(word string) bool {
	var err error
	switch o.typ {
	case "Integer":
		_, err = strconv.ParseInt(word, 10, 32)
	case "Long":
		_, err = strconv.ParseInt(word, 10, 64)
	case "Double":
		_, err = strconv.ParseFloat(word, 64)
	}
	return err == nil
}

func (p *joptParser) checkRequired(s *joptSet) error {
	var missing []string
	for i := range p.options {
		switch o := &p.options[i]; {
		case o.forHelp && s.has(o.name):
			return nil
		case o.required && !s.has(o.name):
			missing = append(missing, o.name)
		}
	}
	if missing == nil {
		return nil
	}
	return &joptError{"MissingRequiredOptionsException", "Missing required option(s) [" + strings.Join(missing, ", ") + "]"}
}

// has reports whether the option was given.
func (s *joptSet) has(name string) bool { return s.values[name] != nil }

// all returns the values of an option that may be repeated.
func (s *joptSet) all(name string) []string { return s.values[name] }

// text returns an option's only value, or its default; ok is false if there is neither.
func (s *joptSet) text(name string) (value string, ok bool, err error) {
	switch given := s.values[name]; len(given) {
	case 0:
		def := s.parser.lookup(name).def
		return def, def != "", nil
	case 1:
		if !s.parser.lookup(name).accepts(given[0]) {
			return "", false, cannotParse(given[0], name)
		}
		return given[0], true, nil
	default:
		return "", false, &joptError{"MultipleArgumentsForOptionException", "Found multiple arguments for option " + name + ", but you asked for only one"}
	}
}

func cannotParse(value, option string) error {
	return &joptError{"OptionArgumentConversionException", fmt.Sprintf("Cannot parse argument '%s' of option %s", value, option)}
}

// number is text for an option of type Integer or Long.
func (s *joptSet) number(name string) (value int64, ok bool, err error) {
	text, ok, err := s.text(name)
	if !ok || err != nil {
		return 0, false, err
	}
	value, err = strconv.ParseInt(text, 10, 64)
	return value, err == nil, err
}

// properties reads the file that an option names. Without the option there are none.
func (s *joptSet) properties(option string) (clientConfig, error) {
	path, ok, err := s.text(option)
	if err != nil || !ok {
		return clientConfig{}, err
	}
	return loadProperties(path)
}

// A usageError ends a tool with a message and the table of options, exit code 1.
type usageError struct {
	message string
	parser  *joptParser
}

func (e *usageError) Error() string { return e.message }

func (p *joptParser) usage(format string, a ...any) error {
	return &usageError{fmt.Sprintf(format, a...), p}
}

// An exitError ends a tool at once and prints nothing more.
type exitError struct{ code int }

func (e *exitError) Error() string { return fmt.Sprintf("exit %d", e.code) }

// endOfParsing ends a tool whose command line was wrong, or asked for help or the version; ended is false for any other error.
func endOfParsing(env Env, err error) (code int, ended bool) {
	if usage, ok := errors.AsType[*usageError](err); ok {
		return usage.print(env), true
	}
	if exit, ok := errors.AsType[*exitError](err); ok {
		return exit.code, true
	}
	return 0, false
}

// helpOrVersion answers --help, --version and an empty command line, which wants help too.
func (s *joptSet) helpOrVersion(env Env, args []string, purpose string) error {
	if len(args) == 0 || s.has("help") {
		return s.parser.usage("%s", purpose)
	}
	if s.has("version") {
		fmt.Fprintln(env.Stdout, kafkaVersion)
		return &exitError{0}
	}
	return nil
}

// countOf is how many of some options are there.
func (s *joptSet) countOf(names ...string) (n int) {
	for _, name := range names {
		if s.has(name) {
			n++
		}
	}
	return n
}

// require insists on options.
func (s *joptSet) require(names ...string) error {
	for _, name := range names {
		if !s.has(name) {
			return s.parser.usage(`Missing required argument "[%s]"`, name)
		}
	}
	return nil
}

// conflict refuses an option beside any of others.
func (s *joptSet) conflict(used string, others ...string) error {
	if !s.has(used) {
		return nil
	}
	for _, other := range others {
		if s.has(other) {
			return s.parser.usage(`Option "[%s]" can't be used with option "[%s]"`, used, other)
		}
	}
	return nil
}

// alternatives refuses two of some options together.
func (s *joptSet) alternatives(names ...string) error {
	for _, name := range names {
		if err := s.conflict(name, slices.DeleteFunc(slices.Clone(names), func(other string) bool { return other == name })...); err != nil {
			return err
		}
	}
	return nil
}

// oneOf insists on exactly one of some options.
func (s *joptSet) oneOf(names ...string) error {
	given := 0
	for _, name := range names {
		if s.has(name) {
			given++
		}
	}
	if given == 1 {
		return nil
	}
	names = slices.Clone(names)
	for i := range names {
		names[i] = "[" + names[i] + "]"
	}
	return s.parser.usage("Exactly one of the following arguments is required: %s", strings.Join(names, ", "))
}

// printUsage prints what a usageError says. It returns the exit code.
func (e *usageError) print(env Env) int {
	fmt.Fprintln(env.Stderr, e.message)
	fmt.Fprint(env.Stderr, e.parser.table())
	return 1
}
