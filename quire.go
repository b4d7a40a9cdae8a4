// Package quire runs a node of Quire, the Kafka log in one Go binary, in the caller's process.
package quire

import (
	"context"
	"log/slog"

	"github.com/quire-log/quire/internal/server"
	"github.com/quire-log/quire/internal/vfs"
)

// Options of a node. The zero Options make a whole node on ./data, served at 127.0.0.1:9092.
type Options struct {
	// Properties are those of Kafka's server.properties, such as "log.dirs" and "listeners".
	Properties map[string]string
	// InMemory keeps all files in memory: nothing survives Close. For tests.
	InMemory bool
	// Log takes what the node has to say; nil: nothing is said.
	Log *slog.Logger
}

// A Node is a running node.
type Node struct{ node *server.Node }

// Start returns a node that serves, or why it cannot. ctx bounds the start alone.
func Start(ctx context.Context, o Options) (*Node, error) {
	so := server.Options{Properties: o.Properties, Log: o.Log}
	if o.InMemory {
		so.FS = vfs.NewMem()
	}
	n, err := server.Start(ctx, so)
	if err != nil {
		return nil, err
	}
	return &Node{n}, nil
}

// Addr is the address that clients bootstrap from, such as 127.0.0.1:9092.
func (n *Node) Addr() string { return n.node.Addr() }

// AdminAddr is where /metrics, /livez and /readyz are served by HTTP, "" if nowhere.
func (n *Node) AdminAddr() string { return n.node.AdminAddr() }

// Close stops the node cleanly: everything is on disk when it returns. Requests that still run when ctx ends lose their connection.
func (n *Node) Close(ctx context.Context) error { return n.node.Close(ctx) }

// Abort stops the node at once, as the loss of its process would: nothing more is written, and the next start recovers. For tests of that.
func (n *Node) Abort() { n.node.Abort() }
