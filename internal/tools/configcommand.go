package tools

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quire-log/quire/internal/config"
	"github.com/quire-log/quire/internal/server"
)

const configAbout = `Example:
  quire config check server.properties

Usage: quire config check FILE
       quire config show [--effective] FILE

check looks for keys that nobody knows, with the nearest that is known, and for values that cannot be, with the rule that they
break. show prints what the file sets as a node reads it, and with --effective every setting, each with its source.
Exit code: 0 a node starts with this file, 1 it does not, 2 the command line is wrong.
`

// quireConfig is `quire config`.
func quireConfig(env Env, args []string) int {
	c := newOwnCommand(env, "quire config", configAbout)
	effective := c.flags.Bool("effective", false, "every setting, not those of the file alone")
	words, ok, code := c.parse(args)
	if !ok {
		return code
	}
	if len(words) == 0 || words[0] != "check" && words[0] != "show" {
		return c.misuse("it takes check or show")
	}
	if len(words) != 2 {
		return c.misuse("%s takes one file", words[0])
	}
	if words[0] == "check" && *effective {
		return c.misuse("--effective belongs to show")
	}
	file, err := readServerProperties(words[1])
	if err != nil {
		return c.fail(err)
	}
	if words[0] == "show" {
		file.show(env, *effective)
		return exitGood
	}
	if file.check(env) {
		return exitGood
	}
	return exitBad
}

// A propertiesFile is a server.properties and where its keys stand.
type propertiesFile struct {
	name   string
	values map[string]string
	lines  map[string]int // by key, the last one, counted from 1; keys written with escapes are missing
}

// readServerProperties reads a file of properties.
func readServerProperties(name string) (*propertiesFile, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p := &propertiesFile{name: name, lines: map[string]int{}}
	if p.values, err = config.ReadProperties(f); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if _, err := f.Seek(0, 0); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimLeft(lines.Text(), " \t\f")
		if end := strings.IndexAny(text, "=: \t"); end > 0 {
			text = text[:end]
		}
		if _, ok := p.values[text]; ok {
			p.lines[text] = n
		}
	}
	return p, nil
}

// at is where a key stands: FILE:LINE.
func (p *propertiesFile) at(key string) string {
	if n := p.lines[key]; n > 0 {
		return fmt.Sprintf("%s:%d", p.name, n)
	}
	return p.name
}

// check prints what is wrong with the file, and reports whether a node starts with it.
func (p *propertiesFile) check(env Env) bool {
	invalid := 0
	tell := func(err error) {
		invalid++
		if e, ok := errors.AsType[*config.InvalidError](err); ok {
			fmt.Fprintf(env.Stdout, "%s: error: %s=%s: %s\n", p.at(e.Key), e.Key, e.Value, config.Rule(e))
			return
		}
		fmt.Fprintf(env.Stdout, "%s: error: %v\n", p.name, err)
	}
	for _, key := range slices.Sorted(maps.Keys(p.values)) {
		if o, ok := config.BrokerOption(key); ok {
			if err := o.Validate(p.values[key]); err != nil {
				tell(err)
			}
		}
	}
	sound := maps.Clone(p.values) // without what was told
	maps.DeleteFunc(sound, func(key, value string) bool {
		o, ok := config.BrokerOption(key)
		return ok && o.Validate(value) != nil
	})
	warnings, err := config.CheckStatic(sound)
	for _, w := range warnings {
		key, _, _ := strings.Cut(w, ":")
		fmt.Fprintf(env.Stdout, "%s: warning: %s\n", p.at(key), w)
	}
	if err == nil {
		err = server.CheckLogins(sound)
	}
	if err != nil {
		tell(err)
	}
	if invalid > 0 {
		fmt.Fprintf(env.Stdout, "%s: no node starts with this file: %s\n", p.name, counted(int64(invalid), "error"))
		return false
	}
	fmt.Fprintf(env.Stdout, "%s: %s, a node starts with this file\n", p.name, counted(int64(len(p.values)), "setting"))
	return true
}

// show prints settings with their sources.
func (p *propertiesFile) show(env Env, all bool) {
	full := config.Complete(p.values)
	const column = 60
	for _, e := range config.DescribeBroker(config.Layers{Static: full}) {
		_, given := p.values[e.Key]
		source := p.source(e)
		if !all && !given {
			continue
		}
		text := e.Text
		if e.Null {
			text = ""
			if e.Sensitive && given {
				text = "[hidden]"
			}
		}
		if o, ok := config.BrokerOption(e.Key); ok && o.Inert {
			source += ", without effect in this version"
		} else if !ok {
			source += ", unknown"
		}
		fmt.Fprintf(env.Stdout, "%-*s %s\n", column, e.Key+"="+text, source)
	}
}

// source says where a value comes from.
func (p *propertiesFile) source(e config.Entry) string {
	base := filepath.Base(p.name)
	if value, given := p.values[e.Key]; given {
		if o, ok := config.BrokerOption(e.Key); ok && o.Validate(value) != nil {
			return base + " has a value that cannot be; this is the default"
		}
		return base
	}
	if twin := map[string]string{"broker.id": "node.id", "node.id": "broker.id"}[e.Key]; p.values[twin] != "" {
		return base + ", as " + twin
	}
	if e.Source == config.StaticBroker {
		for _, s := range e.Synonyms {
			if _, given := p.values[s.Key]; given && s.Key != e.Key {
				return base + ", as " + s.Key
			}
		}
		return "quire's own, which makes a whole node of one" // config.Complete
	}
	return "default"
}
