package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// keeps I3: an option acts if some source above this package, or a rule of this one, names its key. The mark in its row must say the same.
func TestInertIsTrue(t *testing.T) {
	named := map[string]bool{}
	key := regexp.MustCompile(`"([a-z0-9]+(?:\.[a-z0-9]+)*)"`)
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		switch {
		case d.IsDir() && slices.Contains([]string{"docs", "bench", "clients", ".git", "internal/config", "internal/tools", "internal/kmeta"}, filepath.ToSlash(rel)):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range key.FindAllStringSubmatch(string(text), -1) {
			named[m[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// These act by a rule of this package: the first must say both, the second is the old name of node.id, the third says what listeners speak.
	for _, key := range []string{"process.roles", "broker.id", "listener.security.protocol.map"} {
		named[key] = true
	}
	// What a topic's option inherits acts as the topic's option does.
	for i := range Topic() {
		o := &Topic()[i]
		for _, b := range o.Broker {
			named[b] = named[b] || named[o.Key]
		}
	}
	named["match"], named["metrics"] = false, false // everyday words: here they are no keys
	for _, rows := range [][]Option{Topic(), Broker(), Group(), ClientMetrics()} {
		for i := range rows {
			o := &rows[i]
			if named[o.Key] == o.Inert {
				t.Errorf("%s: inert=%v, but named in a source above: %v", o.Key, o.Inert, named[o.Key])
			}
		}
	}
}
