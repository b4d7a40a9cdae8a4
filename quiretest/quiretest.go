// Package quiretest gives a test a node of its own, on a free port, gone at the test's end.
package quiretest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/quire-log/quire"
)

// An Option changes how Start sets up the node.
type Option func(*quire.Options)

// OnDisk keeps the node's files in dir instead of memory.
func OnDisk(dir string) Option {
	return func(o *quire.Options) {
		o.InMemory = false
		o.Properties["log.dirs"] = dir
	}
}

// With sets one property of server.properties.
func With(key, value string) Option {
	return func(o *quire.Options) { o.Properties[key] = value }
}

// stopTimeout bounds what a node's requests may take to end when the test is over.
const stopTimeout = 10 * time.Second

// Start starts a node and closes it when the test ends. What it logs is shown with a failing test.
func Start(t testing.TB, opts ...Option) *quire.Node {
	t.Helper()
	o := quire.Options{
		InMemory: true,
		Properties: map[string]string{
			"listeners":      "PLAINTEXT://127.0.0.1:0",
			"admin.listener": "",
			"log.dirs":       "data",
		},
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	for _, opt := range opts {
		opt(&o)
	}
	n, err := quire.Start(t.Context(), o)
	if err != nil {
		t.Fatalf("starting a node: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		if err := n.Close(ctx); err != nil {
			t.Errorf("closing the node: %v", err)
		}
	})
	return n
}
