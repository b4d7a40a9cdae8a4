package tools

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Some of Kafka's tools (storage, features, metadata-quorum, transactions, producer-perf-test, ...) read their command
// line with argparse4j, a cousin of Python's argparse. What users see of it:
//
//   - flags may be shortened as long as only one begins so: --num-rec 10
//   - --flag value, --flag=value, -fvalue, -fg; a word that begins with a hyphen is never a value, unless a negative number
//   - commands with options of their own, and groups of options that exclude each other
//   - an error is the usage, then "PROG: error: ..." wrapped at 75 columns and justified
//
// A tool states its arguments as an argParser and reads what was given from an argValues:
//
//	p := &argParser{prog: "kafka-storage", commands: []*argParser{{name: "info", arguments: []*argument{
//		{flags: []string{"--config", "-c"}, required: true, help: "The Kafka configuration file to use."}}}}}
//	values, err := p.parse(args)
//	if err != nil {
//		return printArgError(env, err, 0) // 0: what the tool exits with after -h
//	}

// argAction says what an argument does when it is met.
type argAction uint8

const (
	store     argAction = iota // keeps its value, the last one if repeated
	storeTrue                  // takes no value
	appendArg                  // keeps all the values of all its occurrences
	showHelp
	showVersion
)

// argument is one option, or one positional argument if its only flag has no hyphen.
type argument struct {
	flags   []string
	metavar string // how help shows the value; by default the long flag in capitals
	help    string
	action  argAction
	// many is how many values one occurrence takes: "" one, "?" one or none, "*" any, "+" one or more.
	many     string
	typ      string   // what the value must parse as: Integer, Long, Double, Float; "" takes all
	choices  []string // what the value must be one of
	required bool
	def      string    // the value when the option is absent; help shows it if the parser's showDefaults is set
	group    *argGroup // nil: none
}

// argGroup is a group of options. A group with a title or a description, and one that is not exclusive, has a part of its own in help.
type argGroup struct {
	title, description string
	exclusive          bool // at most one of its options may be given
	required           bool // one of them must be given
}

func (g *argGroup) ownHelp() bool { return !g.exclusive || g.title != "" || g.description != "" }

// argParser is a tool's command line, or that of one of its commands.
type argParser struct {
	prog         string
	description  string
	epilog       string
	version      string
	showDefaults bool
	noHelp       bool        // there is no -h; commands have their own
	arguments    []*argument // without -h
	commands     []*argParser

	// Of a command:
	name string // the word that selects it
	help string // what its parent's help says of it

	// How the list of commands is shown; by default as {a,b} among the positional arguments.
	commandsTitle, commandsDescription, commandsMetavar string

	parent *argParser
}

var helpArgument = &argument{flags: []string{"-h", "--help"}, help: "show this help message and exit", action: showHelp}

// argValues is a parsed command line. Arguments are known by their long flag without hyphens.
type argValues struct {
	command string // the command's name, "" without one
	values  map[string][]string
	given   map[*argument]bool
}

// has reports whether the argument was given.
func (v *argValues) has(name string) bool {
	for a := range v.given {
		if a.key() == name {
			return true
		}
	}
	return false
}

// text returns the argument's value or default, and "" without.
func (v *argValues) text(name string) string {
	if all := v.values[name]; len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

// all returns every value that was given.
func (v *argValues) all(name string) []string { return v.values[name] }

// number returns the value of an argument of type Integer or Long; ok is false if it is absent.
func (v *argValues) number(name string) (n int64, ok bool) {
	n, err := strconv.ParseInt(v.text(name), 10, 64)
	return n, err == nil
}

// An argError is a complaint about a command line, or the wish for help.
type argError struct {
	parser  *argParser // whose usage to show
	message string
	// alike are the words that might have been meant.
	alike []string
	// shown is a text that was asked for instead of a complaint: help, version.
	shown string
}

func (e *argError) Error() string { return e.message }

// fail returns an error of this parser, for the checks that a tool does itself.
func (p *argParser) fail(format string, a ...any) error {
	return &argError{parser: p, message: fmt.Sprintf(format, a...)}
}

func (p *argParser) failAt(a *argument, format string, args ...any) error {
	return p.fail("argument %s: %s", a.title(), fmt.Sprintf(format, args...))
}

// printArgError prints an error of parse and returns the exit code, which for help is the tool's own.
func printArgError(env Env, err error, helpCode int) int {
	e, ok := err.(*argError)
	switch {
	case !ok:
		fmt.Fprintln(env.Stderr, err)
	case e.shown != "":
		fmt.Fprint(env.Stdout, e.shown)
		return helpCode
	default:
		fmt.Fprint(env.Stderr, e.parser.usage(), argWrap(e.parser.root().prog+": error: "+e.message+"\n", 0, ""))
		if len(e.alike) > 0 {
			fmt.Fprint(env.Stderr, "\nDid you mean:\n\t", strings.Join(e.alike, "\n\t"), "\n")
		}
	}
	return 1
}

func (p *argParser) root() *argParser {
	for p.parent != nil {
		p = p.parent
	}
	return p
}

func (a *argument) positional() bool { return a.flags[0][0] != '-' }

// key is the name of the argument without hyphens: that of its first long flag, else of its first.
func (a *argument) key() string {
	for _, f := range a.flags {
		if strings.HasPrefix(f, "--") {
			return f[2:]
		}
	}
	return strings.TrimLeft(a.flags[0], "-")
}

// title is how errors call the argument.
func (a *argument) title() string { return strings.Join(a.flags, "/") }

func (a *argument) takesValue() bool { return a.action == store || a.action == appendArg }

func (p *argParser) all() []*argument {
	if p.noHelp {
		return p.arguments
	}
	return append([]*argument{helpArgument}, p.arguments...)
}

// parse reads a command line. Its errors are *argError.
func (p *argParser) parse(args []string) (*argValues, error) {
	v := &argValues{values: make(map[string][]string), given: make(map[*argument]bool)}
	state := &argState{words: args, values: v}
	if err := p.parseInto(state); err != nil {
		return nil, err
	}
	if state.missing != nil {
		return nil, state.missing
	}
	return v, nil
}

func (p *argParser) parseInto(s *argState) error {
	defaults := make(map[*argument]bool, len(p.arguments)) // arguments that still hold their default
	for _, a := range p.arguments {
		defaults[a] = true
		if a.def != "" {
			s.values.values[a.key()] = []string{a.def}
		}
	}
	used := make(map[*argGroup]*argument)
	for len(s.words) > 0 {
		word := s.words[0]
		switch {
		case word == "--" && !s.separator:
			s.separator = true
			s.words = s.words[1:]
		case s.isFlag(word):
			if err := p.takeFlag(s, used, defaults); err != nil {
				return err
			}
		case len(s.positions) < p.maxPositions():
			s.positions = append(s.positions, word)
			s.words = s.words[1:]
		case len(p.commands) > 0 && !s.separator:
			if err := p.finish(s, used); err != nil {
				return err
			}
			return p.takeCommand(s)
		default:
			return p.fail("unrecognized arguments: '%s'", strings.Join(s.words, " "))
		}
	}
	if len(p.commands) > 0 {
		return p.fail("too few arguments")
	}
	return p.finish(s, used)
}

// finish ends this parser's own part of the command line.
func (p *argParser) finish(s *argState, used map[*argGroup]*argument) error {
	if err := p.takePositions(s); err != nil {
		return err
	}
	if s.missing == nil {
		s.missing = p.checkRequired(s, used)
	}
	return nil
}

// argState is where parsing stands.
type argState struct {
	words     []string
	values    *argValues
	positions []string // values of positional arguments so far
	separator bool     // -- was met
	// missing is the first complaint about something required. It waits for the end: what is wrong with the rest comes first.
	missing error
}

// isFlag reports whether a word is an option: numbers below zero are not.
func (s *argState) isFlag(word string) bool {
	if s.separator || word == "" || word[0] != '-' {
		return false
	}
	_, err := strconv.ParseUint(word[1:], 10, 64)
	return err != nil
}

// takeCommand hands the rest to the command that the next word names; it may be shortened.
func (p *argParser) takeCommand(s *argState) error {
	word := s.words[0]
	var found []*argParser
	for _, c := range p.commands {
		if c.name == word {
			found = []*argParser{c}
			break
		}
		if strings.HasPrefix(c.name, word) {
			found = append(found, c)
		}
	}
	switch len(found) {
	case 0:
		names := make([]string, len(p.commands))
		for i, c := range p.commands {
			names[i] = c.name
		}
		return &argError{parser: p, message: fmt.Sprintf("invalid choice: '%s' (choose from '%s')", word, strings.Join(names, "', '")),
			alike: alike(word, names, names)}
	case 1:
	default:
		names := make([]string, len(found))
		for i, c := range found {
			names[i] = c.name
		}
		slices.Sort(names)
		return p.fail("ambiguous command: %s could match %s", word, strings.Join(names, ", "))
	}
	c := found[0]
	c.parent = p
	s.words, s.positions = s.words[1:], nil
	s.values.command = c.name
	return c.parseInto(s)
}

// takeFlag reads one option and its values.
func (p *argParser) takeFlag(s *argState, used map[*argGroup]*argument, defaults map[*argument]bool) error {
	word := s.words[0]
	flag, embedded, hasEmbedded := strings.Cut(word, "=")
	a, err := p.resolve(flag)
	if err != nil {
		return err
	}
	if a == nil && !strings.HasPrefix(word, "--") {
		// Letters that share a hyphen, the last perhaps with its value.
		for i, letter := range word[1:] {
			one := p.lookup("-" + string(letter))
			if one == nil {
				return p.unrecognized(word)
			}
			if rest := word[1+i+len(string(letter)):]; one.takesValue() {
				a, embedded, hasEmbedded = one, rest, rest != ""
				break
			}
			if err := p.exclude(one, used); err != nil {
				return err
			}
			if err := p.run(one, s, nil, defaults); err != nil {
				return err
			}
		}
		if a == nil {
			s.words = s.words[1:]
			return nil
		}
	}
	if a == nil {
		return p.unrecognized(word)
	}
	s.words = s.words[1:]
	if err := p.exclude(a, used); err != nil {
		return err
	}
	if !a.takesValue() {
		if hasEmbedded {
			return p.failAt(a, "ignore implicit argument '%s'", embedded)
		}
		return p.run(a, s, nil, defaults)
	}
	var values []string
	least, most := a.bounds()
	if hasEmbedded {
		values = []string{embedded}
	} else {
		for len(values) < most && len(s.words) > 0 && s.words[0] != "--" && !s.isFlag(s.words[0]) {
			values, s.words = append(values, s.words[0]), s.words[1:]
		}
	}
	if len(values) < least {
		if a.many == "" {
			return p.failAt(a, "expected one argument")
		}
		return p.failAt(a, "expected at least %d argument(s)", least)
	}
	return p.run(a, s, values, defaults)
}

func (a *argument) bounds() (least, most int) {
	switch a.many {
	case "?":
		return 0, 1
	case "*":
		return 0, math.MaxInt
	case "+":
		return 1, math.MaxInt
	}
	return 1, 1
}

func (p *argParser) lookup(flag string) *argument {
	for _, a := range p.all() {
		if slices.Contains(a.flags, flag) {
			return a
		}
	}
	return nil
}

// resolve finds the argument of a flag that may be shortened; nil if there is none.
func (p *argParser) resolve(flag string) (*argument, error) {
	if a := p.lookup(flag); a != nil {
		return a, nil
	}
	var found []string
	for _, a := range p.all() {
		for _, f := range a.flags {
			if strings.HasPrefix(f, flag) {
				found = append(found, f)
			}
		}
	}
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return p.lookup(found[0]), nil
	}
	slices.Sort(found)
	return nil, p.fail("ambiguous option: %s could match %s", flag, strings.Join(found, ", "))
}

func (p *argParser) unrecognized(word string) error {
	var flags, bodies []string
	for _, a := range p.all() {
		for _, f := range a.flags {
			if body := strings.TrimLeft(f, "-"); len(body) > 1 && !a.positional() {
				flags, bodies = append(flags, f), append(bodies, body)
			}
		}
	}
	e := &argError{parser: p, message: fmt.Sprintf("unrecognized arguments: '%s'", word)}
	if body := strings.TrimLeft(word, "-"); len(body) > 1 {
		e.alike = alike(body, bodies, flags)
	}
	return e
}

// exclude refuses a second option of an exclusive group.
func (p *argParser) exclude(a *argument, used map[*argGroup]*argument) error {
	if a.group == nil || !a.group.exclusive {
		return nil
	}
	if other := used[a.group]; other != nil && other != a {
		return p.failAt(a, "not allowed with argument %s", other.title())
	}
	used[a.group] = a
	return nil
}

// run does what the argument is for.
func (p *argParser) run(a *argument, s *argState, values []string, defaults map[*argument]bool) error {
	for _, value := range values {
		if err := p.check(a, value); err != nil {
			return err
		}
	}
	key := a.key()
	switch a.action {
	case showHelp:
		return &argError{parser: p, shown: p.fullHelp()}
	case showVersion:
		return &argError{parser: p, shown: p.root().version + "\n"}
	case storeTrue:
		values = []string{"true"}
	case appendArg:
		if !defaults[a] {
			values = append(s.values.values[key], values...)
		}
	}
	delete(defaults, a)
	s.values.values[key], s.values.given[a] = values, true
	return nil
}

// check looks at a value's type and choices.
func (p *argParser) check(a *argument, value string) error {
	var err error
	switch a.typ {
	case "Integer":
		_, err = javaInt(value, 32)
	case "Long":
		_, err = javaInt(value, 64)
	case "Double", "Float":
		if _, e := strconv.ParseFloat(value, 64); e != nil {
			err = throw(numberFormat, fmt.Sprintf("For input string: \"%s\"", value))
		}
	}
	if err != nil {
		return p.failAt(a, "could not convert '%s' to %s (%s)", value, a.typ, asJava(err).text())
	}
	if a.choices != nil && !slices.Contains(a.choices, value) {
		return p.failAt(a, "invalid choice: '%s' (choose from %s)", value, "{"+strings.Join(a.choices, ",")+"}")
	}
	return nil
}

func (p *argParser) positionals() []*argument {
	var found []*argument
	for _, a := range p.arguments {
		if a.positional() {
			found = append(found, a)
		}
	}
	return found
}

func (p *argParser) maxPositions() int {
	total := 0
	for _, a := range p.positionals() {
		if _, most := a.bounds(); most == math.MaxInt {
			return most
		}
		total++
	}
	return total
}

// takePositions deals out the words that belong to no flag: each argument takes as many as those after it can spare.
func (p *argParser) takePositions(s *argState) error {
	args, words := p.positionals(), s.positions
	need := 0
	for _, a := range args {
		least, _ := a.bounds()
		need += least
	}
	if need > len(words) {
		return p.fail("too few arguments")
	}
	for _, a := range args {
		least, most := a.bounds()
		need -= least
		n := min(most, len(words)-need)
		if n == 0 {
			continue
		}
		if err := p.run(a, s, words[:n], map[*argument]bool{a: true}); err != nil {
			return err
		}
		words = words[n:]
	}
	return nil
}

// checkRequired names the last argument that is missing, as argparse4j does, or a group of which none was given.
func (p *argParser) checkRequired(s *argState, used map[*argGroup]*argument) error {
	var missing error
	var groups []*argGroup
	for _, a := range p.arguments {
		if a.required && !a.positional() && !s.values.given[a] {
			missing = p.fail("argument %s is required", a.title())
		}
		if a.group != nil && !slices.Contains(groups, a.group) {
			groups = append(groups, a.group)
		}
	}
	if missing != nil {
		return missing
	}
	for _, g := range groups {
		if !g.exclusive || !g.required || used[g] != nil {
			continue
		}
		var titles []string
		for _, a := range p.arguments {
			if a.group == g {
				titles = append(titles, a.title())
			}
		}
		missing = p.fail("one of the arguments %s is required", strings.Join(titles, " "))
	}
	return missing
}
