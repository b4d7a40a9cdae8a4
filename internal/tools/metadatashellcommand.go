package tools

import (
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"
)

// A shell is where a user of kafka-metadata-shell stands.
type shell struct {
	out  io.Writer
	root *shellDirectory
	at   []string // the working directory
	// Of a conversation:
	interactive bool
	width       int // of the terminal in columns, 0 if there is none
	history     shellHistory
	ended       bool // exit was typed
}

func (sh *shell) workingDirectory() string { return "/" + strings.Join(sh.at, "/") }

// A shellCommand is a row of the table of commands.
type shellCommand struct {
	name, description string
	arguments         []*argument
	promptOnly        bool // it makes sense at the prompt alone
	run               func(sh *shell, v *argValues)
}

func shellCommands() []shellCommand {
	paths := func(name, many, help string) []*argument {
		return []*argument{{flags: []string{name}, many: many, help: help}}
	}
	return []shellCommand{
		{name: "cat", description: "Show the contents of metadata files.", run: (*shell).cat,
			arguments: paths("targets", "+", "The metadata files to display.")},
		{name: "cd", description: "Set the current working directory.", run: (*shell).cd, promptOnly: true,
			arguments: paths("target", "?", "The directory to change to.")},
		{name: "exit", description: "Exit the metadata shell.", promptOnly: true,
			run: func(sh *shell, _ *argValues) { sh.ended = true }},
		{name: "find", description: "Search for nodes in the directory hierarchy.", run: (*shell).find,
			arguments: paths("paths", "*", "The paths to start at.")},
		{name: "help", description: "Display this help message.", run: (*shell).help, promptOnly: true},
		{name: "history", description: "Print command history.", run: (*shell).showHistory, promptOnly: true,
			arguments: []*argument{{flags: []string{"numEntriesToShow"}, many: "?", typ: "Integer", help: "The number of entries to show."}}},
		{name: "ls", description: "List metadata nodes.", run: (*shell).ls,
			arguments: paths("targets", "*", "The metadata node paths to list.")},
		{name: "man", description: "Show the help text for a specific command.", run: (*shell).man, promptOnly: true,
			arguments: paths("cmd", "", "The command to get help text for.")},
		{name: "pwd", description: "Print the current working directory.", promptOnly: true,
			run: func(sh *shell, _ *argValues) { fmt.Fprintln(sh.out, sh.workingDirectory()) }},
		{name: "tree", description: "Show the contents of metadata nodes in a tree structure.", run: (*shell).tree,
			arguments: paths("targets", "+", "The metadata nodes to display.")},
	}
}

// shellParser is the command line of the shell's commands, with those of the prompt or without.
func shellParser(prompt bool) *argParser {
	p := &argParser{noHelp: true}
	for _, c := range shellCommands() {
		if prompt || !c.promptOnly {
			p.commands = append(p.commands, &argParser{name: c.name, help: c.description, arguments: c.arguments})
		}
	}
	return p
}

// run runs a command. What is wrong with it is told on standard output, as all else.
func (sh *shell) run(words []string) {
	for len(words) > 0 && words[len(words)-1] == "" {
		words = words[:len(words)-1]
	}
	if len(words) == 0 {
		return
	}
	v, err := shellParser(sh.interactive).parse(words)
	if e, ok := err.(*argError); ok {
		if e.shown != "" {
			fmt.Fprint(sh.out, e.shown)
			return
		}
		fmt.Fprintln(sh.out, e.message)
		return
	}
	if v.command != words[0] {
		fmt.Fprintf(sh.out, "invalid choice: '%s': did you mean '%s'?\n", words[0], v.command)
		return
	}
	for _, c := range shellCommands() {
		if c.name == v.command {
			c.run(sh, v)
		}
	}
}

// pathsOr are the paths that were given, or where the shell stands.
func pathsOr(v *argValues, name string) (paths []string) {
	for _, path := range v.all(name) {
		if path != "" {
			paths = append(paths, path)
		}
	}
	if paths == nil {
		return []string{"."}
	}
	return paths
}

func (sh *shell) cat(v *argValues) {
	for _, target := range v.all("targets") {
		found := sh.lookup(target)
		for _, f := range found {
			if f.node.isDirectory() {
				fmt.Fprintf(sh.out, "cat: %s: Is a directory\n", target)
				continue
			}
			printNode(sh.out, f.node, 0)
		}
		if found == nil {
			fmt.Fprintf(sh.out, "cat: %s: No such file or directory.\n", target)
		}
	}
}

func (sh *shell) tree(v *argValues) {
	for _, target := range v.all("targets") {
		found := sh.lookup(target)
		for _, f := range found {
			printNode(sh.out, f.node, 0)
		}
		if found == nil {
			fmt.Fprintf(sh.out, "tree: %s: No such file or directory.\n", target)
		}
	}
}

// printNode prints what is in a file, and in a directory and below.
func printNode(out io.Writer, node shellNode, depth int) {
	indent := strings.Repeat("  ", depth)
	dir, ok := node.(*shellDirectory)
	if !ok {
		fmt.Fprintf(out, "%s%s\n", indent, node)
		return
	}
	for _, name := range dir.sortedNames() {
		if child := dir.child(name); child != nil {
			fmt.Fprintf(out, "%s%s:\n", indent, name)
			printNode(out, child, depth+1)
		}
	}
}

// cd goes where the path leads; if it leads to several places, to the last of them.
func (sh *shell) cd(v *argValues) {
	target := v.text("target")
	if !v.has("target") {
		target = "/"
	}
	found := sh.lookup(target)
	for _, f := range found {
		if !f.node.isDirectory() {
			fmt.Fprintf(sh.out, "cd: %s: not a directory.\n", target)
			continue
		}
		sh.at = f.path
	}
	if found == nil {
		fmt.Fprintf(sh.out, "cd: %s: no such directory.\n", target)
	}
}

func (sh *shell) find(v *argValues) {
	for _, path := range pathsOr(v, "paths") {
		found := sh.lookup(path)
		for _, f := range found {
			sh.findBelow(path, f.node) // what a glob found goes by the glob
		}
		if found == nil {
			fmt.Fprintf(sh.out, "find: %s: no such file or directory.\n", path)
		}
	}
}

func (sh *shell) findBelow(path string, node shellNode) {
	fmt.Fprintln(sh.out, path)
	dir, ok := node.(*shellDirectory)
	if !ok {
		return
	}
	if path != "/" {
		path += "/"
	}
	for _, name := range dir.sortedNames() {
		if child := dir.child(name); child != nil {
			sh.findBelow(path+name, child)
		}
	}
}

func (sh *shell) help(*argValues) {
	fmt.Fprint(sh.out, "Welcome to the Apache Kafka metadata shell.\n\n", shellParser(true).fullHelp())
}

func (sh *shell) man(v *argValues) {
	name := v.text("cmd")
	for _, c := range shellCommands() {
		if c.name == name {
			p := &argParser{prog: c.name, noHelp: true, arguments: c.arguments}
			fmt.Fprintf(sh.out, "%s: %s\n\n%s", c.name, c.description, p.fullHelp())
			return
		}
	}
	fmt.Fprintf(sh.out, "man: unknown command %s. Type help to get a list of commands.\n", name)
}

func (sh *shell) showHistory(v *argValues) {
	n := int64(math.MaxInt32)
	if given, ok := v.number("numEntriesToShow"); ok {
		n = given
	}
	first, lines := sh.history.last(n)
	for i, line := range lines {
		fmt.Fprintf(sh.out, "% 5d  %s\n", first+i, line)
	}
}

// A listed directory is one that ls shows.
type listed struct {
	name     string
	children []string
}

func (sh *shell) ls(v *argValues) {
	var files []string
	var directories []listed
	for _, target := range pathsOr(v, "targets") {
		found := sh.lookup(target)
		for _, f := range found {
			if dir, ok := f.node.(*shellDirectory); ok {
				directories = append(directories, listed{f.lastPart(), dir.sortedNames()})
				continue
			}
			files = append(files, f.lastPart())
		}
		if found == nil {
			fmt.Fprintf(sh.out, "ls: %s: no such file or directory.\n", target)
		}
	}
	printColumns(sh.out, "", sh.width, files)
	titled, first := len(files) > 0 || len(directories) > 1, len(files) == 0
	for _, d := range directories {
		title := ""
		if titled {
			title = d.name + ":\n"
			if !first {
				title = "\n" + title
			}
			first = false
		}
		printColumns(sh.out, title, sh.width, d.children)
	}
}

// printColumns prints names below each other, in as many columns as a line of that width has room for. Of no names not even the title is printed.
func printColumns(out io.Writer, title string, width int, names []string) {
	if len(names) == 0 {
		return
	}
	fmt.Fprint(out, title)
	widths := columnWidths(width, names)
	rows := (len(names) + len(widths) - 1) / len(widths)
	for row := range rows {
		var line strings.Builder
		for column, w := range widths {
			n := row + column*rows
			if n >= len(names) {
				continue
			}
			line.WriteString(names[n])
			if column < len(widths)-1 {
				line.WriteString(strings.Repeat(" ", max(0, w-utf8.RuneCountInString(names[n]))))
			}
		}
		fmt.Fprintln(out, line.String())
	}
}

// columnWidths are the widths of the most columns that fit, each two wider than its longest name.
func columnWidths(width int, names []string) []int {
	for columns := min(width/4, len(names)); columns > 1; columns-- {
		rows := (len(names) + columns - 1) / columns
		widths, total := make([]int, columns), 0
		for i, name := range names {
			widths[i/rows] = max(widths[i/rows], utf8.RuneCountInString(name)+2)
		}
		for _, w := range widths {
			total += w
		}
		if widths[columns-1] != 0 && total <= width {
			return widths
		}
	}
	return []int{0}
}
