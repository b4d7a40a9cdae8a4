package tools

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/quire-log/quire"
)

const devAbout = `Example:
  quire dev

Usage: quire dev [--port N]

Runs a node for trying things out, in a temporary directory that is gone when it ends (Ctrl-C). It prints its address and
commands to begin with.
`

// quireDev is `quire dev`.
func quireDev(env Env, args []string) int {
	c := newOwnCommand(env, "quire dev", devAbout)
	port := c.flags.Uint16("port", 0, "where clients find it on 127.0.0.1; 0: a free one")
	brokers := c.flags.Int("brokers", 1, "how many brokers; this version runs one")
	verbose := c.flags.BoolP("verbose", "v", false, "show what the node logs")
	words, ok, code := c.parse(args)
	switch {
	case !ok:
		return code
	case len(words) > 0:
		return c.misuse("%q is no flag; a node with a file of its own is run by quire serve", words[0])
	case *brokers != 1:
		return c.misuse("--brokers %d: this version of Quire is a cluster of one broker", *brokers)
	}
	signals := env.interrupted()
	dir, err := os.MkdirTemp("", "quire-dev-")
	if err != nil {
		return c.fail(err)
	}
	defer removeBusy(dir)
	log := slog.New(slog.DiscardHandler)
	if *verbose {
		log = slog.New(slog.NewTextHandler(env.Stderr, nil))
	}
	node, err := quire.Start(context.Background(), quire.Options{Log: log, Properties: map[string]string{
		"log.dirs":                         filepath.Join(dir, "data"),
		"listeners":                        "PLAINTEXT://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(int(*port))),
		"admin.listener":                   "127.0.0.1:0",
		"group.initial.rebalance.delay.ms": "0", // nobody tries things out with many members at once
	}})
	if err != nil {
		return c.fail(err)
	}
	fmt.Fprintf(env.Stdout, `A node serves Kafka clients at %[1]s. It and its data are gone when you end it with Ctrl-C.
Try, in another terminal:

  quire kafka-topics --bootstrap-server %[1]s --create --topic orders --partitions 3
  quire kafka-console-producer --bootstrap-server %[1]s --topic orders
  quire kafka-console-consumer --bootstrap-server %[1]s --topic orders --from-beginning
  quire explain retention orders --admin-url %[2]s

`, node.Addr(), node.AdminAddr())
	<-signals
	return stop(node, signals, log)
}

// removeBusy removes a directory that a node which was given up at a second signal may write into still, a few files at most.
func removeBusy(dir string) {
	for range 1000 {
		if err := os.RemoveAll(dir); !errors.Is(err, unix.ENOTEMPTY) {
			return
		}
	}
}
