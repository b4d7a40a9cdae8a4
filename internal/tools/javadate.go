package tools

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// javaDateFormat understands what java.text.SimpleDateFormat does of a pattern, for the letters that stand for parts of a
// date and a time: y M d H h k K m s S a E D Z X z; text in quotes stays.
func javaDateFormat(pattern string) (func(time.Time) string, error) {
	var parts []func(time.Time) string
	literal := func(text string) { parts = append(parts, func(time.Time) string { return text }) }
	letters := []rune(pattern)
	for i := 0; i < len(letters); {
		c := letters[i]
		switch {
		case c == '\'':
			end := i + 1
			var text strings.Builder
			for ; end < len(letters); end++ {
				if letters[end] != '\'' {
					text.WriteRune(letters[end])
				} else if end+1 < len(letters) && letters[end+1] == '\'' {
					text.WriteRune('\'')
					end++
				} else {
					break
				}
			}
			if end == len(letters) {
				return nil, throw(illegalArgument, "Unterminated quote")
			}
			if end == i+1 {
				text.WriteRune('\'')
			}
			literal(text.String())
			i = end + 1
		case c > unicode.MaxASCII || !unicode.IsLetter(c):
			literal(string(c))
			i++
		default:
			n := 1
			for i+n < len(letters) && letters[i+n] == c {
				n++
			}
			part := javaDatePart(c, n)
			if part == nil {
				return nil, throw(illegalArgument, fmt.Sprintf("Illegal pattern character '%c'", c))
			}
			parts = append(parts, part)
			i += n
		}
	}
	return func(t time.Time) string {
		var out strings.Builder
		for _, part := range parts {
			out.WriteString(part(t))
		}
		return out.String()
	}, nil
}

// javaDatePart is one letter of a pattern, repeated n times; nil if it stands for nothing.
func javaDatePart(c rune, n int) func(time.Time) string {
	number := func(of func(time.Time) int) func(time.Time) string {
		return func(t time.Time) string { return fmt.Sprintf("%0*d", n, of(t)) }
	}
	layout := func(text string) func(time.Time) string { return func(t time.Time) string { return t.Format(text) } }
	named := func(short, long string) func(time.Time) string {
		if n >= 4 {
			return layout(long)
		}
		return layout(short)
	}
	switch c {
	case 'y':
		if n == 2 {
			return number(func(t time.Time) int { return t.Year() % 100 })
		}
		return number(time.Time.Year)
	case 'M', 'L':
		if n >= 3 {
			return named("Jan", "January")
		}
		return number(func(t time.Time) int { return int(t.Month()) })
	case 'd':
		return number(time.Time.Day)
	case 'D':
		return number(time.Time.YearDay)
	case 'E':
		return named("Mon", "Monday")
	case 'a':
		return layout("PM")
	case 'H':
		return number(time.Time.Hour)
	case 'k':
		return number(func(t time.Time) int { return (t.Hour()+23)%24 + 1 })
	case 'K':
		return number(func(t time.Time) int { return t.Hour() % 12 })
	case 'h':
		return number(func(t time.Time) int { return (t.Hour()+11)%12 + 1 })
	case 'm':
		return number(time.Time.Minute)
	case 's':
		return number(time.Time.Second)
	case 'S':
		return number(func(t time.Time) int { return t.Nanosecond() / int(time.Millisecond) })
	case 'Z':
		return layout("-0700")
	case 'X':
		return layout([]string{"Z07", "Z0700", "Z07:00"}[min(n, 3)-1])
	case 'z':
		return layout("MST")
	}
	return nil
}
