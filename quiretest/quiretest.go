// Package quiretest gives a test a node of its own, on a free port, gone at the test's end.
package quiretest

import (
	"testing"

	"github.com/quire-log/quire"
)

// An Option changes how Start sets up the node.
type Option func(*quire.Options)

// OnDisk keeps the node's files in dir instead of memory.
func OnDisk(dir string) Option { panic("unwritten") }

// With sets one property of server.properties.
func With(key, value string) Option { panic("unwritten") }

// Start starts a node and closes it when the test ends.
func Start(t testing.TB, opts ...Option) *quire.Node { panic("unwritten") }
