package tools

import (
	"cmp"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
)

const versionAbout = `Example:
  quire version

Usage: quire version [--json]

Prints quire's version and Kafka's that it stands for.
`

// quireVersion is `quire version`.
func quireVersion(env Env, args []string) int {
	c := newOwnCommand(env, "quire version", versionAbout)
	asJSON := c.flags.Bool("json", false, "print it as a JSON object, with what it was built from and by")
	words, ok, code := c.parse(args)
	switch {
	case !ok:
		return code
	case len(words) > 0:
		return c.misuse("it takes no %q", words[0])
	}
	build := struct {
		Version  string `json:"version"`
		Kafka    string `json:"kafka"`
		Revision string `json:"revision,omitempty"`
		Time     string `json:"time,omitempty"`     // of the revision
		Modified bool   `json:"modified,omitempty"` // built from more than the revision
		Go       string `json:"go"`
		Platform string `json:"platform"`
	}{Version: "(devel)", Kafka: kafkaVersion, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		build.Version = cmp.Or(info.Main.Version, build.Version)
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				build.Revision = s.Value
			case "vcs.time":
				build.Time = s.Value
			case "vcs.modified":
				build.Modified = s.Value == "true"
			}
		}
	}
	if *asJSON {
		out := json.NewEncoder(env.Stdout)
		out.SetIndent("", "  ")
		if err := out.Encode(build); err != nil {
			return c.fail(err)
		}
		return exitGood
	}
	fmt.Fprintf(env.Stdout, "quire %s, Kafka %s\n", build.Version, kafkaVersion)
	return exitGood
}
