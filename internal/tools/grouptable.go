package tools

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// minColumn is the least width of most columns.
const minColumn = 15

// A groupColumn is a column of a table about groups.
type groupColumn struct {
	title  string
	width  int  // what its cells are filled up to; 0: they are not
	fixed  bool // a longer cell sticks out; otherwise the column grows with it
	hidden bool
}

// printGroupTable prints a table as most tools of groups do: after an empty line.
func printGroupTable(w io.Writer, columns []groupColumn, rows [][]string) {
	fmt.Fprintln(w)
	printTightTable(w, columns, rows)
}

// printTightTable prints a table with its columns a blank apart. A row has a cell for each column, hidden or not.
func printTightTable(w io.Writer, columns []groupColumn, rows [][]string) {
	line := func(cell func(i int) string) {
		var text strings.Builder
		first := true
		for i, c := range columns {
			if c.hidden {
				continue
			}
			if !first {
				text.WriteByte(' ')
			}
			first = false
			pad(&text, cell(i), c.width)
		}
		fmt.Fprintln(w, text.String())
	}
	for i := range columns {
		if c := &columns[i]; !c.fixed && c.width > 0 {
			for _, row := range rows {
				c.width = max(c.width, utf8.RuneCountInString(row[i]))
			}
		}
	}
	line(func(i int) string { return columns[i].title })
	for _, row := range rows {
		line(func(i int) string { return row[i] })
	}
}
