package tools

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// modelGlob is another way to say what a glob means: groups are multiplied out, and each of the alternatives is matched rune by rune.
// ok is false for one that is to be taken to the letter.
func modelGlob(glob, name string) (matches, ok bool) {
	var alternatives []string
	wild := false
	var walk func(done string, rest []rune) bool
	walk = func(done string, rest []rune) bool {
		for i := 0; i < len(rest); i++ {
			switch rest[i] {
			case '*', '?':
				wild = true
			case '\\':
				i++
			case '{':
				wild = true
				var choices []string
				choice := ""
				for j := i + 1; ; j++ {
					if j >= len(rest) || rest[j] == '{' {
						return false
					}
					if rest[j] == '\\' && j+1 < len(rest) {
						choice += string(rest[j : j+2])
						j++
						continue
					}
					if rest[j] == ',' || rest[j] == '}' {
						choices = append(choices, choice)
						choice = ""
						if rest[j] == '}' {
							for _, c := range choices {
								if !walk(done+string(rest[:i])+c, rest[j+1:]) {
									return false
								}
							}
							return true
						}
						continue
					}
					choice += string(rest[j])
				}
			}
		}
		alternatives = append(alternatives, done+string(rest))
		return true
	}
	if !walk("", []rune(glob)) {
		return false, false
	}
	// Wildcards within a group were not walked over.
	if !wild {
		return false, false
	}
	for _, a := range alternatives {
		matches = matches || modelMatch([]rune(a), []rune(name))
	}
	return matches, true
}

func modelMatch(glob, name []rune) bool {
	if len(glob) == 0 {
		return len(name) == 0
	}
	switch c := glob[0]; {
	case c == '*':
		return modelMatch(glob[1:], name) || len(name) > 0 && modelMatch(glob, name[1:])
	case len(name) == 0:
		return false
	case c == '?':
		return modelMatch(glob[1:], name[1:])
	case c == '\\' && len(glob) > 1:
		return glob[1] == name[0] && modelMatch(glob[2:], name[1:])
	default:
		return c == name[0] && modelMatch(glob[1:], name[1:])
	}
}

func TestGlobModel(t *testing.T) {
	letters := rapid.StringOfN(rapid.SampledFrom([]rune("ab.*?\\{},ü$(")), 0, 9, -1)
	names := rapid.StringOfN(rapid.SampledFrom([]rune("ab.*?\\{},ü$(")), 0, 6, -1)
	rapid.Check(t, func(t *rapid.T) {
		glob, name := letters.Draw(t, "glob"), names.Draw(t, "name")
		want, wild := modelGlob(glob, name)
		compiled := compileGlob(glob)
		if wild != (compiled != nil) {
			t.Fatalf("glob %q: to the letter: %t, want %t", glob, compiled == nil, !wild)
		}
		if wild && compiled.MatchString(name) != want {
			t.Fatalf("glob %q, name %q: matches: %t, want %t", glob, name, !want, want)
		}
	})
}

func TestGlobs(t *testing.T) {
	const letter = "to the letter"
	for _, test := range []struct{ glob, name, want string }{
		{"*", "", "yes"},
		{"a*", "ab", "yes"},
		{"a?", "a", "no"},
		{"?", "ü", "yes"},
		{"{a,b}c", "bc", "yes"},
		{"{a,b}c", "abc", "no"},
		{"{,a}b", "b", "yes"},
		{"{a*,b}c", "axxc", "yes"},
		{"orders.*", "ordersXeu", "no"},
		{`\**`, "*x", "yes"},
		{`\**`, "xx", "no"},
		{`{\},x}`, "}", "yes"},
		{`*\`, `x\`, "yes"},
		{"a,b", "a,b", letter},
		{"}", "}", letter},
		{`lo\cal`, "local", letter},
		{"{a", "{a", letter},
		{"{a,{b}}", "b", letter},
	} {
		got := "no"
		switch compiled := compileGlob(test.glob); {
		case compiled == nil:
			got = letter
		case compiled.MatchString(test.name):
			got = "yes"
		}
		if got != test.want {
			t.Errorf("glob %q, name %q: %s, want %s", test.glob, test.name, got, test.want)
		}
	}
}

func TestPathParts(t *testing.T) {
	for path, want := range map[string]string{
		"/": "", "//a//b/": "a b", "/a/./b": "a b", "/a/../b": "b", "/..": "", "/../../a": "a", "/nothing/../a/...": "a ...",
	} {
		if got := strings.Join(pathParts(path), " "); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

func TestShellWords(t *testing.T) {
	for line, want := range map[string][]string{
		"":                {""},
		"ls":              {"ls"},
		"ls ":             {"ls", ""},
		"  ls\t a  b":     {"ls", "a", "b"},
		`ls "a b" 'c d'`:  {"ls", "a b", "c d"},
		`ls a"b c"`:       {"ls", `a"b c"`},
		`ls "a"b`:         {"ls", "ab"},
		`ls "it's"`:       {"ls", "it's"},
		`ls a\ b \"`:      {"ls", "a b", `"`},
		`ls "a\"b" '\c'`:  {"ls", `a"b`, "c"},
		`ls "" a`:         {"ls", "a"},
		`cat "local/vers`: {"cat", "local/vers"},
		`ls a\`:           {"ls", "a"},
	} {
		if diff := cmp.Diff(want, shellWords(line)); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", line, diff)
		}
	}
}

func TestShellHistory(t *testing.T) {
	var h shellHistory
	for _, line := range []string{"!!", "^a^b", "!1", "!x"} {
		if got := h.expand(line); got != line {
			t.Errorf("nothing was typed before %q, which became %q", line, got)
		}
	}
	for range shellHistoryMax {
		h.add("pwd")
		h.add("ls  local ")
		h.add(" cd /")
		h.add("")
	}
	for line, want := range map[string]string{
		"!!": "ls  local", "!-2": "pwd", "!p": "pwd", "!501": "pwd", "!502 x": "ls  localx", "!500": "!500", "!0": "!0", "!1001": "!1001",
		"ls !$": "ls local", "ls !#": "ls ls ", "!?loc? x": "ls  local x", "!?loc": "ls  local", "^ls^tree": "tree  local", "^ls^tree^ x": "tree  localx",
		`\!!`: `\!!`, "'!!'": "'!!'", `"!!"`: `"ls  local"`, "ls !": "ls !", "! x": "! x", "!99999999999999999999": "!99999999999999999999", "^^x": "^^x",
	} {
		if got := h.expand(line); got != want {
			t.Errorf("%q became %q, want %q", line, got, want)
		}
	}
	if first, lines := h.last(1 << 30); first != 500 || len(lines) != shellHistoryMax || lines[0] != "pwd" {
		t.Errorf("%d lines from %d on, the first is %q", len(lines), first, lines[0])
	}
	if first, lines := h.last(-1); first != 1000 || len(lines) > 0 {
		t.Errorf("none: %q from %d on", lines, first)
	}
}

func TestShellFitting(t *testing.T) {
	sh := &shell{root: directoryOf(map[string]shellNode{
		"image": directoryOf(map[string]shellNode{"a": shellFile("1"), "ab": directoryOf(nil)}),
		"local": shellFile("x"),
	})}
	for line, want := range map[string]string{
		"": "cat cd exit find help history ls man pwd tree", "c": "cat cd", "x": "", "man h": "help history", "man help ": "",
		"ls ": "image/ local", "cat /im": "/image/", "ls image/a": "image/a image/ab/", "ls ./../im": "./../image/", "tree local/": "", "cd {image}/a": "{image}/a {image}/ab/",
		"pwd ": "", "history ": "", "frob ": "", "cat image local i": "image/",
	} {
		if got := strings.Join(sh.fitting(shellWords(line)), " "); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
