package tools

import (
	"regexp"
	"strings"
)

// A path goes from the root, or from where the shell stands; "." and ".." are taken out of it before anything is looked up, so that
// what stands before a ".." need not be there. Each of its parts may be a glob:
//
//	*        any run of characters
//	?        any one
//	{a,b}    one of these; groups do not nest
//	\c       c itself, if the glob has one of the others
//
// A part without *, ? and { is taken to the letter, backslashes included, and so is one whose group does not close.

// pathParts splits an absolute path.
func pathParts(path string) (parts []string) {
	for part := range strings.SplitSeq(path, "/") {
		switch part {
		case "", ".":
		case "..":
			if len(parts) > 0 {
				parts = parts[:len(parts)-1]
			}
		default:
			parts = append(parts, part)
		}
	}
	return parts
}

// compileGlob makes a regular expression of a glob. Nil: it is to be taken to the letter.
func compileGlob(glob string) *regexp.Regexp {
	var out strings.Builder
	out.WriteString(`\A(?:`)
	wild, group := false, false
	runes := []rune(glob)
	for i := 0; i < len(runes); i++ {
		switch c := runes[i]; {
		case c == '?':
			wild = true
			out.WriteByte('.')
		case c == '*':
			wild = true
			out.WriteString(".*")
		case c == '\\' && i+1 < len(runes):
			i++
			out.WriteString(regexp.QuoteMeta(string(runes[i])))
		case c == '{':
			if group {
				return nil
			}
			wild, group = true, true
			out.WriteString("(?:")
		case c == ',' && group:
			out.WriteByte('|')
		case c == '}' && group:
			group = false
			out.WriteByte(')')
		default:
			out.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	if !wild || group {
		return nil
	}
	out.WriteString(`)\z`)
	compiled, err := regexp.Compile(out.String())
	if err != nil { // a glob too large
		return nil
	}
	return compiled
}

// A foundNode is where a path led.
type foundNode struct {
	path []string
	node shellNode
}

// lastPart is the name of the place in its directory.
func (f *foundNode) lastPart() string {
	if len(f.path) == 0 {
		return "/"
	}
	return f.path[len(f.path)-1]
}

// lookup finds the places that a path leads to, in order; none if there is no such place.
func (sh *shell) lookup(path string) []foundNode {
	if !strings.HasPrefix(path, "/") {
		path = sh.workingDirectory() + "/" + path
	}
	found := []foundNode{{node: sh.root}}
	for _, part := range pathParts(path) {
		glob := compileGlob(part)
		var next []foundNode
		for _, f := range found {
			dir, ok := f.node.(*shellDirectory)
			if !ok {
				continue
			}
			names := []string{part}
			if glob != nil {
				names = dir.sortedNames()
			}
			for _, name := range names {
				if glob != nil && !glob.MatchString(name) {
					continue
				}
				if child := dir.child(name); child != nil {
					next = append(next, foundNode{append(f.path[:len(f.path):len(f.path)], name), child})
				}
			}
		}
		found = next
	}
	return found
}
