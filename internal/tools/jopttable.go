package tools

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	joptWidth  = 80 // of the whole table
	joptGap    = 2  // blanks between the two columns
	joptIndent = 2  // of the lines that continue a cell
)

// table draws the options, sorted by name, in two columns. A column is as wide as its widest line, but the first has at
// most half of the width. Every cell is filled up with blanks, to the last column's end too.
func (p *joptParser) table() string {
	rows := make([][2]string, 0, len(p.options)+2)
	head := "Option"
	if slices.ContainsFunc(p.options, func(o joptOption) bool { return o.required }) {
		head = "Option (* = required)"
	}
	rows = append(rows, [2]string{head, "Description"}, [2]string{strings.Repeat("-", len(head)), strings.Repeat("-", len("Description"))})
	sorted := slices.Clone(p.options)
	slices.SortFunc(sorted, func(a, b joptOption) int { return cmp.Compare(a.name, b.name) })
	for i := range sorted {
		rows = append(rows, [2]string{sorted[i].leader(), sorted[i].description()})
	}

	left := min((joptWidth-joptGap)/2, widest(rows, 0))
	right := min(joptWidth-left-joptGap, widest(rows, 1))
	var lines [][2]string
	for _, row := range rows {
		a, b := joptWrap(row[0], left), joptWrap(row[1], right)
		for i := range max(len(a), len(b)) {
			var line [2]string
			if i < len(a) {
				line[0] = a[i]
			}
			if i < len(b) {
				line[1] = b[i]
			}
			lines = append(lines, line)
		}
	}
	// Wrapping may have left both columns narrower than they might be.
	left = min((joptWidth-joptGap)/2, widest(lines, 0))
	right = min(joptWidth-left-joptGap, widest(lines, 1))
	var out strings.Builder
	for _, line := range lines {
		pad(&out, line[0], left+joptGap)
		pad(&out, line[1], right)
		out.WriteByte('\n')
	}
	return out.String()
}

// leader is an option's first column, such as "* --topic <String: topic>".
func (o *joptOption) leader() string {
	text := "--" + o.name
	if o.required {
		text = "* " + text
	}
	typ := cmp.Or(o.typ, "String")
	if o.what != "" {
		typ += ": " + o.what
	}
	switch o.arg {
	case requiredArg:
		text += " <" + typ + ">"
	case optionalArg:
		text += " [" + typ + "]"
	}
	return text
}

func (o *joptOption) description() string {
	if o.def == "" {
		return o.help
	}
	return strings.TrimSpace(o.help + " (default: " + o.def + ")")
}

// joptWrap cuts a cell into lines of at most width. Lines that the text itself ends keep their own leading blanks.
func joptWrap(text string, width int) []string {
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		piece := ""
		for _, word := range breakLine(line) {
			if utf8.RuneCountInString(piece)+utf8.RuneCountInString(word) > width {
				lines = append(lines, strings.TrimRight(piece, " \t"))
				piece = strings.Repeat(" ", joptIndent)
			}
			piece += word
		}
		if piece != "" {
			lines = append(lines, piece)
		}
	}
	return lines
}

func widest(rows [][2]string, column int) int {
	width := 0
	for _, row := range rows {
		width = max(width, utf8.RuneCountInString(row[column]))
	}
	return width
}

func pad(out *strings.Builder, text string, width int) {
	out.WriteString(text)
	for range width - utf8.RuneCountInString(text) {
		out.WriteByte(' ')
	}
}
