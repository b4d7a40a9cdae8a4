// Package quire runs a node of Quire, the Kafka log in one Go binary, in the caller's process.
package quire

import (
	"context"
	"log/slog"
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
type Node struct{ unwritten struct{} }

// Start returns a node that serves, or why it cannot. ctx bounds the start alone.
func Start(ctx context.Context, o Options) (*Node, error) { panic("unwritten") }

// Addr is the address that clients bootstrap from, such as 127.0.0.1:9092.
func (n *Node) Addr() string { panic("unwritten") }

// Close stops the node cleanly: everything is on disk when it returns.
func (n *Node) Close(ctx context.Context) error { panic("unwritten") }
