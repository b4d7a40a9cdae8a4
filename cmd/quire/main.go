// Command quire is a Kafka broker and all of Kafka's command-line tools.
package main

import (
	"os"

	"github.com/quire-log/quire/internal/tools"
)

func main() { os.Exit(tools.Main(os.Args, os.Stdin, os.Stdout, os.Stderr)) }
