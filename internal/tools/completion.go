package tools

import (
	"fmt"
	"slices"
	"strings"
)

const completionAbout = `Example:
  source <(quire completion bash)

Usage: quire completion bash|zsh|fish

Prints what makes a shell complete quire's commands, and the options and files of each, when it is read at the shell's start:
  bash  quire completion bash > ~/.local/share/bash-completion/completions/quire
  zsh   quire completion zsh > "${fpath[1]}/_quire"
  fish  quire completion fish > ~/.config/fish/completions/quire.fish
`

// completionScripts ask the program itself, so that they need not be made anew with each version.
var completionScripts = map[string]string{
	"bash": `# bash completion of quire
_quire() {
	local words
	words=$("${COMP_WORDS[0]}" completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
	COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
	[ ${#COMPREPLY[@]} -gt 0 ] || compopt -o default 2>/dev/null
}
complete -F _quire quire
`,
	"zsh": `#compdef quire
_quire() {
	local -a found
	found=(${(f)"$("${words[1]}" completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
	if (( $#found )); then compadd -a found; else _files; fi
}
if [ "$funcstack[1]" = _quire ]; then _quire "$@"; else compdef _quire quire; fi
`,
	"fish": `# fish completion of quire
function __quire_words
	set -l all (commandline -opc) (commandline -ct)
	$all[1] completion words -- $all[2..-1] 2>/dev/null
end
complete -c quire -a '(__quire_words)'
`,
}

// quireCompletion is `quire completion`.
func quireCompletion(env Env, args []string) int {
	if len(args) > 1 && args[0] == "words" && args[1] == "--" { // the scripts' own question
		for _, word := range completions(args[2:]) {
			fmt.Fprintln(env.Stdout, word)
		}
		return exitGood
	}
	c := newOwnCommand(env, "quire completion", completionAbout)
	words, ok, code := c.parse(args)
	if !ok {
		return code
	}
	if len(words) != 1 || completionScripts[words[0]] == "" {
		return c.misuse("bash, zsh or fish?")
	}
	fmt.Fprint(env.Stdout, completionScripts[words[0]])
	return exitGood
}

// completions are the words that may stand where the last of words does: commands, their words, or their options. Nil: a file, perhaps.
func completions(words []string) []string {
	if len(words) == 0 {
		return nil
	}
	last := words[len(words)-1]
	var all []string
	switch {
	case len(words) == 1:
		for _, c := range commands() {
			all = append(all, c.name)
		}
	case strings.HasPrefix(last, "-"):
		all = optionsOf(words[0], words[1])
	case len(words) == 2:
		all = slices.Clone(wordsOf[words[0]])
	}
	return slices.DeleteFunc(all, func(w string) bool { return !strings.HasPrefix(w, last) })
}

// wordsOf are the words that may follow a command's name.
var wordsOf = map[string][]string{
	"config":     {"check", "show"},
	"explain":    {"retention", "compaction", "config", "events"},
	"completion": {"bash", "fish", "zsh"},
	"group":      {"events", "lag", "reset"},
	"classic":    {"append", "dump", "import", "serve", "verify"},
}

// optionsOf reads a command's options from its own help, or from that of the word behind it, where each has its own.
func optionsOf(name, word string) []string {
	c, ok := lookup(name)
	if !ok || name == "completion" {
		return nil
	}
	if (name == "group" || name == "classic") && slices.Contains(wordsOf[name], word) {
		return optionsIn(c, word, "--help")
	}
	options := optionsIn(c, "--help")
	if len(options) == 0 { // kafka-e2e-latency takes a word alone for the old form of its command line
		options = optionsIn(c, "--topic=x", "--help")
	}
	return options
}

// optionsIn reads the options in what a command prints.
func optionsIn(c command, args ...string) (options []string) {
	var help strings.Builder
	c.run(Env{Stdin: strings.NewReader(""), Stdout: &help, Stderr: &help}, args)
	for line := range strings.Lines(help.String()) {
		for word := range strings.FieldsSeq(line) {
			word = strings.TrimRight(strings.TrimLeft(word, "[("), "],:).")
			if strings.HasPrefix(word, "--") && len(word) > 2 && !strings.ContainsAny(word, "'`\"=<|") && !strings.HasSuffix(word, "-") {
				options = append(options, word)
			}
			if !strings.HasPrefix(word, "-") && word != "*" {
				break // options stand at the begin of a line, what is said of them behind
			}
		}
	}
	slices.Sort(options)
	return slices.Compact(options)
}
