package tools

import (
	"fmt"
	"time"

	"github.com/quire-log/quire/internal/config"
)

const doctorAbout = `Example:
  quire doctor server.properties
  quire doctor --bootstrap-server localhost:9092 --client-config producer.properties

Usage: quire doctor [FILE] [--bootstrap-server HOST:PORT]

Looks for what will make trouble: limits of the system, disks that are slow to sync, the clock, ports that are taken, addresses
that clients are told and cannot reach, directories, and limits on the size of messages that do not fit each other. FILE is a
node's server.properties, whether or not the node runs; --bootstrap-server asks a running broker, Quire's or Kafka's. With
neither it looks at this machine and at a node without a file.
Exit code: 0 nothing stands in the way, 1 there is a problem, 2 the command line is wrong.
`

// A doctor prints what it finds, one line each, problems with what to do about them.
type doctor struct {
	env                Env
	timeout            time.Duration // of each dial and question
	problems, warnings int64
}

// quireDoctor is `quire doctor`.
func quireDoctor(env Env, args []string) int {
	c := newOwnCommand(env, "quire doctor", doctorAbout)
	bootstrap := c.flags.String("bootstrap-server", "", "a running broker to ask, as `HOST:PORT`")
	command := c.flags.String("command-config", "", "client properties to ask it with, such as its login")
	client := c.flags.StringArray("client-config", nil, "`FILE` with the properties of a producer or consumer to hold against the broker's; may be repeated")
	timeout := c.flags.Duration("timeout", 5*time.Second, "for each address that is dialled")
	words, ok, code := c.parse(args)
	switch {
	case !ok:
		return code
	case len(words) > 1:
		return c.misuse("one file of properties, not %d", len(words))
	case *timeout <= 0:
		return c.misuse("--timeout is to be above 0")
	}
	var clients []clientSizes
	for _, name := range *client {
		props, err := loadProperties(name)
		if err != nil {
			return c.fail(err)
		}
		sizes, err := props.sizes(name)
		if err != nil {
			return c.fail(err)
		}
		clients = append(clients, sizes)
	}
	login := clientConfig{}
	if *command != "" {
		var err error
		if login, err = loadProperties(*command); err != nil {
			return c.fail(err)
		}
	}
	d := &doctor{env: env, timeout: *timeout}
	d.machine()
	if *bootstrap == "" || len(words) == 1 {
		file := &propertiesFile{name: "no file", values: map[string]string{}}
		if len(words) == 1 {
			var err error
			if file, err = readServerProperties(words[0]); err != nil {
				return c.fail(err)
			}
		}
		d.node(file, clients)
	}
	if *bootstrap != "" {
		login["bootstrap.servers"] = *bootstrap
		d.cluster(login, clients)
	}
	return d.end()
}

func (d *doctor) say(state, subject, format string, a ...any) {
	fmt.Fprintf(d.env.Stdout, "%-8s %-10s %s\n", state, subject, fmt.Sprintf(format, a...))
}

func (d *doctor) ok(subject, format string, a ...any) { d.say("ok", subject, format, a...) }

// warn tells of what may make trouble, and what to do about it.
func (d *doctor) warn(subject, advice, format string, a ...any) {
	d.warnings++
	d.say("warning", subject, format, a...)
	d.advise(advice)
}

// problem tells of what does make trouble, and what to do about it.
func (d *doctor) problem(subject, advice, format string, a ...any) {
	d.problems++
	d.say("PROBLEM", subject, format, a...)
	d.advise(advice)
}

func (d *doctor) advise(advice string) {
	if advice != "" {
		fmt.Fprintf(d.env.Stdout, "%-19s -> %s\n", "", advice)
	}
}

func (d *doctor) end() int {
	switch {
	case d.problems > 0:
		fmt.Fprintf(d.env.Stdout, "%s, %s\n", counted(d.problems, "problem"), counted(d.warnings, "warning"))
		return exitBad
	case d.warnings > 0:
		fmt.Fprintf(d.env.Stdout, "no problem, %s\n", counted(d.warnings, "warning"))
	default:
		fmt.Fprintln(d.env.Stdout, "no problem")
	}
	return exitGood
}

// node looks at a node by its server.properties.
func (d *doctor) node(file *propertiesFile, clients []clientSizes) {
	warnings, err := config.CheckStatic(file.values)
	for _, w := range warnings {
		d.warn("config", "", "%s: %s", file.name, w)
	}
	if err != nil {
		d.problem("config", "quire config check "+file.name+" names all of them", "%s: %v", file.name, err)
		return // no node starts with it, so there is nothing more to say of one
	}
	static := config.Complete(file.values)
	layers := config.Layers{Static: static}
	d.ok("config", "%s: %s", file.name, counted(int64(len(file.values)), "setting"))
	running := d.directories(layers)
	d.ports(static, running)
	d.sizes(brokerSizesOf(layers), nil, clients)
}
