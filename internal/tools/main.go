// Package tools is the command line: quire's own commands and every kafka-* tool, with Kafka's flags, output and exit codes.
// A tool speaks the Kafka protocol only (by franz-go), so it works against any broker; kafka-dump-log and kafka-storage
// open files. A tool is a file named for it.
package tools

import "io"

// A Tool is a command: it returns its exit code and touches nothing but what it is handed.
type Tool func(env Env, args []string) int

// Env is what a tool runs in.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Main runs the tool that argv names: by the name of the binary (kafka-topics.sh, a symlink that `quire link` made) or by the first argument.
func Main(argv []string, stdin io.Reader, stdout, stderr io.Writer) int { panic("unwritten") }
