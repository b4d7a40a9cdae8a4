package tools

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// printPretty prints a table as kafka-metadata-quorum and kafka-transactions have it: each cell is filled up to the widest of
// its column and followed by a tab, the last too.
func printPretty(w io.Writer, head []string, rows [][]string) {
	all := append([][]string{head}, rows...)
	widths := make([]int, len(head))
	for _, row := range all {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range all {
		var line strings.Builder
		for i, cell := range row {
			pad(&line, cell, widths[i])
			line.WriteByte('\t')
		}
		fmt.Fprintln(w, line.String())
	}
}

// endTerse reports how a tool ended that has one line for what it foresaw, and a stack trace for the rest.
func endTerse(env Env, err error) int {
	if err == nil {
		return 0
	}
	if e, ok := err.(*terseFailure); ok {
		fmt.Fprintln(env.Stderr, e.message)
		return 1
	}
	return endTool(env, err)
}

// itemsOf are the parts of a list with commas, without blanks and empty ones.
func itemsOf(text string) []string {
	var items []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return slices.Clip(items)
}
