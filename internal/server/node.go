package server

import (
	"context"
	"log/slog"
	"net"

	"github.com/quire-log/quire/internal/controller"
	"github.com/quire-log/quire/internal/replica"
	"github.com/quire-log/quire/internal/storage"
	"github.com/quire-log/quire/internal/vfs"
	"github.com/quire-log/quire/internal/wire"
)

// Options of a node. Properties are those of server.properties; what they leave out makes a whole node on ./data at 127.0.0.1:9092.
type Options struct {
	Properties map[string]string
	FS         vfs.FS // nil: the operating system's
	Log        *slog.Logger
	// Listen replaces net.Listen, for tests.
	Listen func(network, address string) (net.Listener, error)
}

// A Node is a running broker. Its handlers are methods in files by family: produce.go, fetch.go, listoffsets.go, producerid.go, metadata.go, topics.go, configs.go, …
type Node struct {
	id         int32
	clusterID  string
	log        *slog.Logger
	options    Options
	logs       *storage.Manager
	replicas   *replica.Manager
	controller *controller.Controller
	wire       *wire.Server
}

// Start returns a node that serves.
func Start(ctx context.Context, o Options) (*Node, error) { panic("unwritten") }

// Addr is the address of the first listener that clients use, with its port as it came to be.
func (n *Node) Addr() string { panic("unwritten") }

// Close stops cleanly: listeners, requests, leadership, logs, checkpoints, clean mark. Abort stops at once, writing nothing.
func (n *Node) Close(ctx context.Context) error { panic("unwritten") }
func (n *Node) Abort()                          { panic("unwritten") }
