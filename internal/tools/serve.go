package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/quire-log/quire"
	"github.com/quire-log/quire/internal/config"
)

const serveUsage = `Example:
  quire serve
  quire serve server.properties --override listeners=PLAINTEXT://127.0.0.1:19092

Usage: quire serve [server.properties] [--override key=value]...

Runs a node until SIGTERM or Ctrl-C, which stop it cleanly; a second one ends it at once.
Without a file it is a whole node on ./data at 127.0.0.1:9092. The file is Kafka's own server.properties.

`

// stopTimeout bounds what requests in progress may take to end when the node stops. What makes the stop a clean one has no bound.
const stopTimeout = 30 * time.Second

// Serve is `quire serve`. It returns 0 after a clean stop, 1 when the node cannot start or could not stop cleanly, 2 for a wrong
// command line, and 128 + n when a second signal n cut the stop short.
func Serve(env Env, args []string) int {
	properties, code := serveProperties(env, args)
	if properties == nil {
		return code
	}
	log := slog.New(slog.NewTextHandler(env.Stderr, nil))
	signals := env.interrupted()
	starting, cancel := context.WithCancel(context.Background())
	defer cancel()

	type started struct {
		node *quire.Node
		err  error
	}
	done := make(chan started, 1)
	go func() {
		n, err := quire.Start(starting, quire.Options{Properties: properties, Log: log})
		done <- started{n, err}
	}()
	var s started
	select {
	case s = <-done:
	case sig := <-signals:
		log.Info("stopping before the node was ready", "signal", sig.String())
		cancel()
		select {
		case s = <-done:
		case sig := <-signals:
			return signalCode(sig)
		}
	}
	if s.err != nil {
		if errors.Is(s.err, context.Canceled) {
			return 0
		}
		fmt.Fprintf(env.Stderr, "quire: %v\n", s.err)
		if _, invalid := errors.AsType[*config.InvalidError](s.err); invalid {
			fmt.Fprintln(env.Stderr, "quire config check FILE shows all that is wrong in a file.")
		}
		if errors.Is(s.err, unix.EADDRINUSE) {
			fmt.Fprintln(env.Stderr, "Something serves at that address already, perhaps a node: stop it, or give this one another (listeners, admin.listener), such as --override listeners=PLAINTEXT://127.0.0.1:19092")
		}
		return 1
	}
	if starting.Err() == nil {
		warnOfFewFiles(log)
		fmt.Fprintf(env.Stdout, "Kafka clients find this node at %s; its data is in %s.\n", s.node.Addr(), dataDirs(properties))
		if admin := s.node.AdminAddr(); admin != "" {
			fmt.Fprintf(env.Stdout, "Metrics are at http://%s/metrics.\n", admin)
		}
		fmt.Fprintln(env.Stdout, "Ctrl-C or SIGTERM stops it cleanly, a second one at once.")
		log.Info("stopping", "signal", (<-signals).String())
	}
	return stop(s.node, signals, log)
}

// warnOfFewFiles looks at the limit that the process has: Go has raised it to the hard one.
func warnOfFewFiles(log *slog.Logger) {
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil && files.Cur < filesFew {
		log.Warn("few files may be open at once: connections and reads beyond them wait or are refused; raise it by ulimit -n, or LimitNOFILE in the service's unit",
			"limit", files.Cur)
	}
}

// stop closes a node, or gives it up at the next signal.
func stop(n *quire.Node, signals <-chan os.Signal, log *slog.Logger) int {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- n.Close(ctx) }()
	select {
	case err := <-closed:
		if err != nil {
			log.Error("the node could not stop cleanly", "error", err)
			return 1
		}
		log.Info("stopped")
		return 0
	case sig := <-signals:
		log.Warn("stopping at once: the next start recovers what was not flushed", "signal", sig.String())
		return signalCode(sig)
	}
}

// serveProperties reads the command line: the file's properties and the overrides. nil: the command ends with the code.
func serveProperties(env Env, args []string) (map[string]string, int) {
	flags := pflag.NewFlagSet("quire serve", pflag.ContinueOnError)
	flags.SetOutput(env.Stderr)
	flags.Usage = func() {}
	overrides := flags.StringArray("override", nil, "set a property, whatever the file says (`key=value`; may be repeated)")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			fmt.Fprint(env.Stdout, serveUsage, flags.FlagUsages())
			return nil, 0
		}
		fmt.Fprintf(env.Stderr, "quire serve: %v\nquire serve --help tells more.\n", flagComplaint(flags, err))
		return nil, 2
	}
	if flags.NArg() > 1 {
		fmt.Fprintf(env.Stderr, "quire serve: one file of properties, not %d\n", flags.NArg())
		return nil, 2
	}
	properties := map[string]string{}
	if flags.NArg() == 1 {
		f, err := os.Open(flags.Arg(0))
		if err != nil {
			fmt.Fprintf(env.Stderr, "quire serve: %v\n", err)
			return nil, 1
		}
		properties, err = config.ReadProperties(f)
		f.Close()
		if err != nil {
			fmt.Fprintf(env.Stderr, "quire serve: %s: %v\n", flags.Arg(0), err)
			return nil, 1
		}
	}
	for _, o := range *overrides {
		key, value, ok := strings.Cut(o, "=")
		if !ok || key == "" {
			fmt.Fprintf(env.Stderr, "quire serve: --override %q is not of the form key=value\n", o)
			return nil, 2
		}
		properties[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return properties, 0
}

func dataDirs(properties map[string]string) string {
	return cmp.Or(properties["log.dirs"], properties["log.dir"], "./data")
}
