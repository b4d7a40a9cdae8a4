package tools

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	argWidth      = 75 // of a line
	argHelpColumn = 25 // where the text beside an argument begins
	argUsageMax   = 30 // a head of usage longer than this stands on a line of its own
)

// usage draws the "usage: ..." lines.
func (p *argParser) usage() string {
	head := "usage: " + p.root().prog
	var out strings.Builder
	out.WriteString(head)
	width := utf8.RuneCountInString(head)
	indent := strings.Repeat(" ", width)
	if width > argUsageMax {
		indent = strings.Repeat(" ", len("usage:"))
		width = 2 * len(indent) // argparse4j counts the indent twice
		out.WriteString("\n" + indent)
	}
	for i, part := range p.usageParts() {
		if i > 0 && width+1+utf8.RuneCountInString(part) > argWidth {
			out.WriteString("\n" + indent)
			width = len(indent)
		}
		out.WriteString(" " + part)
		width += 1 + utf8.RuneCountInString(part)
	}
	out.WriteByte('\n')
	return out.String()
}

func (p *argParser) usageParts() []string {
	parts := p.parentParts()
	if p.parent != nil {
		parts = append(parts, p.name)
	}
	for _, a := range p.all() {
		if !a.positional() && (a.group == nil || !a.group.exclusive) {
			parts = append(parts, a.syntax(!a.required))
		}
	}
	for _, g := range p.exclusiveGroups() {
		parts = append(parts, p.groupParts(g)...)
	}
	for _, a := range p.positionals() {
		parts = append(parts, a.valueSyntax())
	}
	if len(p.commands) > 0 {
		parts = append(parts, p.commandsSyntax(), "...")
	}
	return parts
}

// parentParts is what the parsers above must have been given before this one is reached.
func (p *argParser) parentParts() []string {
	up := p.parent
	if up == nil {
		return nil
	}
	parts := up.parentParts()
	if up.parent != nil {
		parts = append(parts, up.name)
	}
	for _, a := range up.arguments {
		if !a.positional() && a.required && (a.group == nil || !a.group.exclusive) {
			parts = append(parts, a.syntax(false))
		}
	}
	for _, g := range up.exclusiveGroups() {
		if g.required {
			parts = append(parts, up.groupParts(g)...)
		}
	}
	for _, a := range up.positionals() {
		parts = append(parts, a.valueSyntax())
	}
	return parts
}

func (p *argParser) exclusiveGroups() []*argGroup {
	var groups []*argGroup
	for _, a := range p.arguments {
		if a.group != nil && a.group.exclusive && !slices.Contains(groups, a.group) {
			groups = append(groups, a.group)
		}
	}
	return groups
}

// groupParts is an exclusive group's part of the usage: "[--a", "|", "--b]".
func (p *argParser) groupParts(g *argGroup) []string {
	left, right := "[", "]"
	if g.required {
		left, right = "(", ")"
	}
	var parts []string
	for _, a := range p.arguments {
		if a.group != g {
			continue
		}
		if parts == nil {
			parts = append(parts, left+a.syntax(false))
			continue
		}
		parts = append(parts, "|", a.syntax(false))
	}
	if len(parts) == 1 && g.required {
		return []string{parts[0][1:]}
	}
	parts[len(parts)-1] += right
	return parts
}

func (a *argument) syntax(optional bool) string {
	text := a.flags[0]
	if value := a.valueSyntax(); value != "" {
		text += " " + value
	}
	if optional {
		return "[" + text + "]"
	}
	return text
}

func (a *argument) valueName() string {
	switch {
	case a.metavar != "":
		return a.metavar
	case a.choices != nil:
		return "{" + strings.Join(a.choices, ",") + "}"
	}
	name := strings.ReplaceAll(a.key(), "-", "_")
	if a.positional() {
		return name
	}
	return strings.ToUpper(name)
}

func (a *argument) valueSyntax() string {
	if !a.takesValue() {
		return ""
	}
	name := a.valueName()
	switch a.many {
	case "?":
		return "[" + name + "]"
	case "*":
		return "[" + name + " [" + name + " ...]]"
	case "+":
		return name + " [" + name + " ...]"
	}
	return name
}

func (p *argParser) commandsSyntax() string {
	if p.commandsMetavar != "" {
		return p.commandsMetavar
	}
	names := make([]string, len(p.commands))
	for i, c := range p.commands {
		names[i] = c.name
	}
	return "{" + strings.Join(names, ",") + "}"
}

// fullHelp is what -h prints.
func (p *argParser) fullHelp() string {
	var out strings.Builder
	out.WriteString(p.usage())
	paragraph := func(text string) {
		if text != "" {
			out.WriteString("\n" + argWrap(text, 0, "") + "\n")
		}
	}
	list := func(args []*argument) {
		for _, a := range args {
			p.writeArgument(&out, a)
		}
	}
	paragraph(p.description)
	var options, positions []*argument
	var groups []*argGroup
	for _, a := range p.all() {
		switch {
		case a.group != nil && a.group.ownHelp():
			if !slices.Contains(groups, a.group) {
				groups = append(groups, a.group)
			}
		case a.positional():
			positions = append(positions, a)
		default:
			options = append(options, a)
		}
	}
	amongPositions := len(p.commands) > 0 && p.commandsTitle == "" && p.commandsDescription == ""
	if positions != nil || amongPositions {
		out.WriteString("\npositional arguments:\n")
		list(positions)
		if amongPositions {
			p.writeCommands(&out)
		}
	}
	if options != nil {
		out.WriteString("\noptional arguments:\n")
		list(options)
	}
	if len(p.commands) > 0 && !amongPositions {
		title := p.commandsTitle
		if title == "" {
			title = "sub-commands"
		}
		fmt.Fprintf(&out, "\n%s:\n", title)
		if p.commandsDescription != "" {
			fmt.Fprintf(&out, "  %s\n\n", argWrap(p.commandsDescription, 2, "  "))
		}
		p.writeCommands(&out)
	}
	for _, g := range groups {
		out.WriteByte('\n')
		if g.title != "" {
			fmt.Fprintf(&out, "%s:\n", g.title)
		}
		if g.description != "" {
			fmt.Fprintf(&out, "  %s\n\n", argWrap(g.description, 2, "  "))
		}
		for _, a := range p.arguments {
			if a.group == g {
				p.writeArgument(&out, a)
			}
		}
	}
	paragraph(p.epilog)
	return out.String()
}

func (p *argParser) writeArgument(out *strings.Builder, a *argument) {
	title := a.valueName()
	if !a.positional() {
		names := slices.Clone(a.flags)
		for i := range names {
			if value := a.valueSyntax(); value != "" {
				names[i] += " " + value
			}
		}
		title = strings.Join(names, ", ")
	}
	help := a.help
	if def := a.shownDefault(); p.root().showDefaults && def != "" {
		help = strings.TrimSpace(help + " (default: " + def + ")")
	}
	writeTitled(out, title, help)
}

// shownDefault is the default in help: a flag without value is false when absent.
func (a *argument) shownDefault() string {
	if a.action == storeTrue {
		return "false"
	}
	return a.def
}

func (p *argParser) writeCommands(out *strings.Builder) {
	writeTitled(out, p.commandsSyntax(), "")
	for _, c := range p.commands {
		writeTitled(out, "  "+c.name, c.help)
	}
}

// writeTitled writes a title, and its text beside it, or below if the title is long.
func writeTitled(out *strings.Builder, title, help string) {
	out.WriteString("  " + title)
	if help != "" {
		gap := argHelpColumn
		if n := utf8.RuneCountInString(title); n <= argHelpColumn-4 {
			gap -= n + 2
		} else {
			out.WriteByte('\n')
		}
		out.WriteString(strings.Repeat(" ", gap) + argWrap(help, argHelpColumn, strings.Repeat(" ", argHelpColumn)))
	}
	out.WriteByte('\n')
}

// argWrap wraps text whose first line begins at a column, and justifies every line that it ends itself. Lines that the
// text ends stay as they are.
func argWrap(text string, column int, indent string) string {
	var out strings.Builder
	line, width := "", column
	for _, piece := range breakLine(text) {
		n := utf8.RuneCountInString(piece)
		if width+n > argWidth {
			out.WriteString(justify(line, argWidth-width) + "\n" + indent)
			line, width = "", len(indent)
		}
		line += piece
		width += n
		if strings.HasSuffix(piece, "\n") {
			out.WriteString(line + indent)
			line, width = "", len(indent)
		}
	}
	return out.String() + line
}

// justify widens a line without its blanks at both ends by the columns that are missing, which go between its words in
// equal shares. What cannot be shared goes to the gaps in the middle.
func justify(line string, missing int) string {
	trimmed := strings.Trim(line, " ")
	missing += len(line) - len(trimmed)
	words := strings.FieldsFunc(trimmed, func(c rune) bool { return c == ' ' })
	gaps := len(words) - 1
	if gaps < 1 {
		return trimmed
	}
	share, rest := missing/gaps, missing%gaps
	from := (gaps - rest + 1) / 2
	var out strings.Builder
	gap := -1
	for i, c := range trimmed {
		if c == ' ' && trimmed[i-1] != ' ' {
			gap++
			extra := share
			if from <= gap && gap < from+rest {
				extra++
			}
			out.WriteString(strings.Repeat(" ", extra))
		}
		out.WriteRune(c)
	}
	return out.String()
}

// alike returns the candidates whose body is most like a word, if any is like enough. A body that begins with the word
// is as like as can be.
func alike(word string, bodies, candidates []string) []string {
	best, found := likeEnough, []string(nil)
	for i, body := range bodies {
		d := 0
		if !strings.HasPrefix(body, word) {
			d = editDistance(word, body)
		}
		switch {
		case d < best:
			best, found = d, []string{candidates[i]}
		case d == best && best < likeEnough:
			found = append(found, candidates[i])
		}
	}
	slices.Sort(found)
	return found
}

const likeEnough = 7 // a distance of this or more is no likeness

// editDistance is how far a word is from what was typed: a letter left out costs 1, another letter 2, a letter too many
// 4, two letters swapped nothing.
func editDistance(typed, word string) int {
	const swapped, leftOut, other, tooMany = 0, 1, 2, 4
	a, b := []rune(typed), []rune(word)
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range a {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range b {
			d := last[j]
			if a[i] != b[j] {
				d += other
				if i > 0 && j > 0 && a[i-1] == b[j] && a[i] == b[j-1] {
					d = min(d, before[j-1]+swapped)
				}
			}
			row[j+1] = min(d, last[j+1]+tooMany, row[j]+leftOut)
		}
		before, last = last, row
	}
	return last[len(b)]
}
