package tools

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// kafkaServerStart is kafka-server-start: quire serve with the command line of Kafka's script and class.
func kafkaServerStart(env Env, args []string) int {
	if len(args) == 0 {
		fmt.Fprintln(env.Stdout, "USAGE: kafka-server-start.sh [-daemon] server.properties [--override property=value]*")
		return 1
	}
	if args[0] == "-daemon" {
		return startDaemon(env, args[1:])
	}
	parser := &joptParser{options: []joptOption{ // Kafka's own has no --help
		{name: "override", arg: requiredArg, help: "Optional property that should override values set in server.properties file (e.g. Key=value)"},
		{name: "version", help: "Print version information and exit."},
	}}
	fatal := func(err error) int {
		logLine(env.Stderr, "ERROR", "Exiting Kafka due to fatal exception", "kafka.Kafka$", asJava(err))
		return 1
	}
	for _, word := range args {
		if word == "--help" || word == "-help" || word == "-h" {
			return (&usageError{"USAGE: kafka-server-start.sh [-daemon] server.properties [--override property=value]*", parser}).print(env)
		}
	}
	if args[0] == "--version" {
		fmt.Fprintln(env.Stdout, kafkaVersion)
		return 0
	}
	serve := []string{args[0]}
	if _, err := loadProperties(args[0]); err != nil {
		return fatal(err)
	}
	set, err := parser.parse(args[1:])
	if err != nil {
		return fatal(err)
	}
	if set.has("version") {
		fmt.Fprintln(env.Stdout, kafkaVersion)
		return 0
	}
	if stray := strayWords(parser, args[1:]); stray != nil {
		return (&usageError{"Found non argument parameters: " + strings.Join(stray, ","), parser}).print(env)
	}
	for _, o := range set.all("override") {
		key, _, ok := strings.Cut(o, "=")
		if !ok || strings.TrimSpace(key) == "" {
			return fatal(throw(illegalArgument, "Invalid override "+o+": expected property=value"))
		}
		serve = append(serve, "--override", o)
	}
	return Serve(env, serve)
}

// strayWords are the words that belong to no option.
func strayWords(p *joptParser, args []string) []string {
	var stray []string
	for i := 0; i < len(args); i++ {
		switch {
		case !looksLikeOption(args[i]):
			stray = append(stray, args[i])
		case !strings.Contains(args[i], "="):
			if o := p.lookup(strings.TrimLeft(args[i], "-")); o != nil && o.arg == requiredArg {
				i++
			}
		}
	}
	return stray
}

// startDaemon runs the same command line once more, apart from this terminal, with its output in $LOG_DIR/kafkaServer.out.
func startDaemon(env Env, args []string) int {
	fail := func(err error) int {
		fmt.Fprintln(env.Stderr, "kafka-server-start:", err)
		return 1
	}
	if len(args) == 0 {
		return kafkaServerStart(env, nil)
	}
	self, err := os.Executable()
	if err != nil {
		return fail(err)
	}
	dir := os.Getenv("LOG_DIR")
	if dir == "" {
		dir = "logs"
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fail(err)
	}
	out, err := os.OpenFile(filepath.Join(dir, "kafkaServer.out"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return fail(err)
	}
	defer out.Close()
	daemon := exec.Command(self, append([]string{"kafka-server-start"}, args...)...)
	daemon.Stdout, daemon.Stderr = out, out
	daemon.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := daemon.Start(); err != nil {
		return fail(err)
	}
	if err := daemon.Process.Release(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fail(err)
	}
	return 0
}
