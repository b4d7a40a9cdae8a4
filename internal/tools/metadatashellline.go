package tools

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// shellWords splits a typed line. Blanks part words; a backslash takes away the meaning of what follows it; a word in quotes keeps its
// blanks and loses the quotes, those of another kind stay. A quote within a word keeps blanks too, and stays itself. Words that
// are empty are none, but for the last, which is empty when the line ends with a blank: it is the one to be completed.
func shellWords(line string) []string {
	var words []string
	var word strings.Builder
	quote, wordQuoted, escaped := rune(0), false, false
	for _, c := range line {
		switch {
		case escaped:
			escaped = false
			word.WriteRune(c)
		case c == '\\':
			escaped = true
		case quote == 0 && (c == '"' || c == '\''):
			quote, wordQuoted = c, word.Len() == 0
			if !wordQuoted {
				word.WriteRune(c)
			}
		case c == quote:
			if !wordQuoted {
				word.WriteRune(c)
			}
			quote = 0
		case quote == 0 && unicode.IsSpace(c):
			if word.Len() > 0 {
				words = append(words, word.String())
				word.Reset()
			}
		default:
			word.WriteRune(c)
		}
	}
	return append(words, word.String())
}

// shellHistoryMax is how many lines are remembered.
const shellHistoryMax = 500

// A shellHistory is the lines that were typed, the oldest first. Each has a number that it keeps.
type shellHistory struct {
	lines []string
	first int // the number of lines[0]
}

// add remembers a line, unless it begins with a blank or is the last one again.
func (h *shellHistory) add(line string) {
	if line == "" || line[0] == ' ' {
		return
	}
	line = strings.TrimSpace(line)
	if n := len(h.lines); line == "" || n > 0 && h.lines[n-1] == line {
		return
	}
	h.lines = append(h.lines, line)
	if len(h.lines) > shellHistoryMax {
		h.lines = slices.Delete(h.lines, 0, 1)
		h.first++
	}
}

// last are the last n lines, and the number of the first of them.
func (h *shellHistory) last(n int64) (first int, lines []string) {
	from := len(h.lines) - int(max(0, min(n, int64(len(h.lines)))))
	return h.first + from, h.lines[from:]
}

// line is the one that was typed so many lines before; ok is false if it is not remembered.
func (h *shellHistory) line(before int) (string, bool) {
	if before < 1 || before > len(h.lines) {
		return "", false
	}
	return h.lines[len(h.lines)-before], true
}

// newest is the last line that passes.
func (h *shellHistory) newest(passes func(line string) bool) (string, bool) {
	for _, line := range slices.Backward(h.lines) {
		if passes(line) {
			return line, true
		}
	}
	return "", false
}

// expand puts lines that were typed before in the place of what stands for them:
//
//	!!       the last line               !-2      the one before it
//	!5       the fifth                   !$       the last line's last word
//	!ls      the last that begins so     !?ver?   the last with that in it
//	!#       the line so far             ^a^b     the last line with b for a
//
// Not behind a backslash nor in single quotes. A line that asks for what is not there stays as it is.
func (h *shellHistory) expand(line string) string {
	if strings.HasPrefix(line, "^") {
		return h.substitute(line)
	}
	var out strings.Builder
	quoted := false
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == '\'':
			quoted = !quoted
		case quoted:
		case c == '\\' && i+1 < len(line):
			out.WriteByte(c)
			i++
			c = line[i]
		case c == '!' && i+1 < len(line):
			if next := line[i+1]; next == ' ' || next == '\t' {
				break
			}
			text, used, ok := h.event(line[i+1:], out.String())
			if !ok {
				return line
			}
			out.WriteString(text)
			i += used
			continue
		}
		out.WriteByte(c)
	}
	return out.String()
}

// event is what stands for the text behind an exclamation mark, and how much of that it took.
func (h *shellHistory) event(text, soFar string) (found string, used int, ok bool) {
	switch c := text[0]; {
	case c == '!':
		found, ok = h.line(1)
		return found, 1, ok
	case c == '#':
		return soFar, 1, true
	case c == '$':
		found, ok = h.line(1)
		return found[strings.LastIndexByte(found, ' ')+1:], 1, ok
	case c == '?':
		wanted, _, closed := strings.Cut(text[1:], "?")
		used = 1 + len(wanted)
		if closed {
			used++
		}
		found, ok = h.newest(func(line string) bool { return strings.Contains(line, wanted) })
		return found, used, ok
	case c == '-' || '0' <= c && c <= '9':
		used = 1
		for used < len(text) && '0' <= text[used] && text[used] <= '9' {
			used++
		}
		n, err := strconv.Atoi(text[:used])
		if err != nil {
			return "", 0, false
		}
		before := -n
		if n >= 0 {
			before = h.first + len(h.lines) - (n - 1)
		}
		// One more character goes with the number.
		found, ok = h.line(before)
		return found, min(used+1, len(text)), ok
	}
	found, ok = h.newest(func(line string) bool { return strings.HasPrefix(line, text) })
	return found, len(text), ok
}

// substitute is the last line with a text in the place of another.
func (h *shellHistory) substitute(line string) string {
	from, rest, ok := strings.Cut(line[1:], "^")
	last, there := h.line(1)
	if !ok || !there || from == "" {
		return line
	}
	to, rest, _ := strings.Cut(rest, "^")
	if rest != "" { // the character behind is lost
		rest = rest[1:]
	}
	return strings.ReplaceAll(last, from, to) + rest
}
