package tools

import (
	"fmt"
	"slices"
	"strings"
)

const completionAbout = `Example:
  source <(quire completion bash)

Usage: quire completion bash|zsh|fish

Prints what makes a shell complete quire's commands, and the options and files of each, when it is read at the shell's start, here for
quire and for the names that quire link makes:
  bash  echo 'source <(quire completion bash)' >> ~/.bashrc
  zsh   quire completion zsh > "${fpath[1]}/_quire"
  fish  quire completion fish > ~/.config/fish/conf.d/quire.fish
`

// completionScripts ask the program itself, so that they need not be made anew with each version. Called by the name of a tool, they
// ask the quire that stands in the path. NAMES is where the names of the tools go.
var completionScripts = map[string]string{
	"bash": `# bash completion of quire
_quire() {
	local quire=$1 line=("${COMP_WORDS[@]:1:COMP_CWORD}") words
	case ${1##*/} in kafka-*) quire=quire line=("${1##*/}" "${line[@]}");; esac
	words=$("$quire" completion words -- "${line[@]}" 2>/dev/null)
	COMPREPLY=($(compgen -W "$words" -- "$2"))
}
complete -o bashdefault -o default -F _quire quire NAMES
`,
	"zsh": `#compdef quire NAMES
_quire() {
	local quire=${(Q)words[1]}
	local -a found line
	line=("${(@Q)words[2,CURRENT]}")
	case ${quire:t} in kafka-*) line=("${quire:t}" "${line[@]}") quire=quire;; esac
	found=(${(f)"$("$quire" completion words -- "${line[@]}" 2>/dev/null)"})
	if (( $#found )); then compadd -a found; else _files; fi
}
if [ "$funcstack[1]" = _quire ]; then _quire "$@"; else compdef _quire quire NAMES; fi
`,
	"fish": `# fish completion of quire
function __quire_complete
	set -l quire (commandline -opc)[1]
	set -l line (commandline -opc)[2..-1] (commandline -ct)
	set -l name (string replace -r '.*/' '' -- $quire)
	if string match -q 'kafka-*' -- $name
		set line $name $line
		set quire quire
	end
	set -l found (command $quire completion words -- $line 2>/dev/null)
	if set -q found[1]
		printf '%s\n' $found
	else
		__fish_complete_path (commandline -ct)
	end
end
for name in quire NAMES
	complete -c $name -f -a '(__quire_complete)'
end
`,
}

// completionScript is what a shell reads; "" if it is none of those known.
func completionScript(shell string) string {
	var names []string
	for _, c := range commands() {
		if strings.HasPrefix(c.name, toolPrefix) {
			names = append(names, c.name, c.name+".sh")
		}
	}
	return strings.ReplaceAll(completionScripts[shell], "NAMES", strings.Join(names, " "))
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
	var script string
	if len(words) == 1 {
		script = completionScript(words[0])
	}
	if script == "" {
		return c.misuse("bash, zsh or fish?")
	}
	fmt.Fprint(env.Stdout, script)
	return exitGood
}

// completions are the words that may stand where the last of words does: commands, their words, or their options. Nil: a file, perhaps.
func completions(words []string) []string {
	if len(words) == 0 {
		return nil
	}
	name, last := strings.TrimSuffix(words[0], ".sh"), words[len(words)-1]
	between := words[1:max(1, len(words)-1)]
	sub := slices.IndexFunc(between, func(w string) bool { return slices.Contains(wordsOf(name), w) })
	var all []string
	switch {
	case len(words) == 1:
		for _, c := range commands() {
			all = append(all, c.name)
		}
	case strings.HasPrefix(last, "-"):
		word := ""
		if sub >= 0 {
			word = between[sub]
		}
		all = optionsOf(name, word)
	case sub < 0 && (len(between) == 0 || !strings.HasPrefix(between[len(between)-1], "-")): // behind an option its value stands
		all = wordsOf(name)
	}
	return slices.DeleteFunc(slices.Clone(all), func(w string) bool { return !strings.HasPrefix(w, last) })
}

// wordsOf are the words of which one follows a command's name.
func wordsOf(name string) []string {
	switch name {
	case "config":
		return []string{"check", "show"}
	case "explain":
		return []string{"retention", "compaction", "config", "events"}
	case "completion":
		return []string{"bash", "fish", "zsh"}
	case "group":
		return []string{"events", "lag", "reset"}
	case "classic":
		return []string{"append", "dump", "import", "serve", "verify"}
	}
	parsers := map[string]func() *argParser{
		"kafka-cluster": clusterParser, "kafka-features": featuresParser, "kafka-metadata-quorum": metadataQuorumParser,
		"kafka-storage": storageParser, "kafka-transactions": kafkaTransactionsParser,
	}
	parser, ok := parsers[name]
	if !ok {
		return nil
	}
	var words []string
	for _, c := range parser().commands {
		words = append(words, c.name)
	}
	return words
}

// optionsOf reads a command's options from its own help, and from that of the word behind it, where each has its own.
func optionsOf(name, word string) []string {
	c, ok := lookup(name)
	if !ok || name == "completion" {
		return nil
	}
	var options []string
	switch {
	case word != "" && strings.HasPrefix(name, toolPrefix):
		options = append(optionsIn(c, "--help"), optionsIn(c, word, "--help")...)
	case word != "" && (name == "group" || name == "classic"):
		options = optionsIn(c, word, "--help")
	default:
		options = optionsIn(c, "--help")
	}
	if len(options) == 0 { // kafka-e2e-latency takes a word alone for the old form of its command line
		options = optionsIn(c, "--topic=x", "--help")
	}
	slices.Sort(options)
	return slices.Compact(options)
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
	return options
}
