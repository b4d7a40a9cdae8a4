package tools

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/quire-log/quire/internal/classic"
	"github.com/quire-log/quire/internal/vfs"
)

func classicServe(env Env, args []string) int {
	f := newClassicFlags(env, "serve", "DIR [OPTION]...", "Answers the requests of Kafka 0.7 (produce, fetch, multi-fetch, multi-produce, offsets) from the logs in a directory,\nuntil SIGTERM or Ctrl-C.")
	listen := f.String("listen", "127.0.0.1:9092", "`ADDRESS` to listen on")
	partitions := f.Int32("partitions", 1, "`N` partitions of topics that have no more on disk")
	keepBytes := f.Int64("retention-bytes", 0, "delete old files as long as so many `BYTES` of each partition are left (0: for no size)")
	keepTime := f.Duration("retention", 0, "delete files that nobody wrote to for so long (0: at no age)")
	interval := f.Duration("cleanup-interval", 10*time.Minute, "how often old files are looked for")
	config := f.logFlags()
	dir, code, ok := f.dir(args)
	if !ok {
		return code
	}
	var policies []classic.Policy
	if *keepBytes > 0 {
		policies = append(policies, classic.KeepBytes(*keepBytes))
	}
	if *keepTime > 0 {
		policies = append(policies, classic.OlderThan(*keepTime))
	}
	var deletes classic.Policy
	if len(policies) > 0 {
		deletes = classic.Any(policies...)
	}
	signals := env.interrupted()
	log := slog.New(slog.NewTextHandler(env.Stderr, nil))
	m, err := classic.OpenManager(classic.ManagerOptions{
		FS: vfs.OS(), Dir: dir, Config: config(), Delete: deletes, CleanInterval: *interval, Partitions: *partitions, Log: log,
	})
	if err != nil {
		return f.failed(err)
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return f.failed(errors.Join(err, m.Close()))
	}
	server := classic.NewServer(m, classic.ServerOptions{Log: log})
	fmt.Fprintf(env.Stdout, "Clients of Kafka 0.7 find %d logs at %s; Ctrl-C or SIGTERM stops.\n", len(m.Logs()), l.Addr())
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err = <-served:
	case sig := <-signals:
		log.Info("stopping", "signal", sig.String())
	}
	server.Close()
	if err := errors.Join(err, m.Close()); err != nil {
		return f.failed(err)
	}
	return 0
}
