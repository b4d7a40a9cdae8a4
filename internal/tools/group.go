package tools

const groupAbout = `Example:
  quire group reset --group billing --topic orders --to-datetime 2026-01-31T12:00:00.000

Usage: quire group COMMAND

Commands:
  reset   move a group to other offsets while its consumers run
  lag     show how far groups are behind, in records and in seconds
  events  show what happened to groups, and why

quire group COMMAND --help tells more.
`

// quireGroup is `quire group`: what Kafka's tools cannot do for groups.
func quireGroup(env Env, args []string) int {
	c := newOwnCommand(env, "quire group", groupAbout)
	run := map[string]Tool{"reset": groupReset, "lag": groupLag, "events": groupEvents}
	switch {
	case len(args) == 0:
		return c.misuse("which command?")
	case run[args[0]] != nil:
		return run[args[0]](env, args[1:])
	}
	words, ok, code := c.parse(args)
	if !ok {
		return code
	}
	if len(words) == 0 {
		return c.misuse("which command?")
	}
	return c.misuse("no command %q", words[0])
}
