// Package tools is the command line: quire's own commands and every kafka-* tool, with Kafka's flags, output and exit codes.
// A tool speaks the Kafka protocol only (by franz-go), so it works against any broker; kafka-dump-log, kafka-metadata-shell and
// kafka-storage open files. A tool is a file named for it.
//
// What keeps true of a tool:
//
//	I1  it reads and writes only through its Env, and ends by returning its exit code
//	I2  what it prints, and on which of the two outputs, is Kafka's to the letter, but for stack traces: of an
//	    exception the first line stays
//	I3  it starts no work before its command line is accepted, and ends all it started
//
// Two parsers stand in for the libraries that Kafka's tools use: joptParser and argParser.
package tools

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// kafkaVersion is the version whose tools these are.
const kafkaVersion = "4.3.1"

// A Tool is a command: it returns its exit code and touches nothing but what it is handed.
type Tool func(env Env, args []string) int

// Env is what a tool runs in.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Interrupted delivers the signals that ask the tool to end, from the first call on. Nil: there are none.
	Interrupted func() <-chan os.Signal
	// Terminal says that a person sits at both ends, who is shown prompts.
	Terminal bool
}

// interrupted is Interrupted, or a channel that stays silent.
func (env Env) interrupted() <-chan os.Signal {
	if env.Interrupted == nil {
		return nil
	}
	return env.Interrupted()
}

// signalCode is what a process exits with that a signal ended.
func signalCode(sig os.Signal) int {
	if n, ok := sig.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return 1
}

// command is a row of the table of tools.
type command struct {
	name, summary string
	run           Tool
}

// commands is the table: quire's own, then Kafka's. Main, help and link read it.
func commands() []command {
	return []command{
		{"help", "list the commands", help},
		{"link", "make the names kafka-topics.sh, kafka-topics, ... in a folder", link},
		{"version", "print quire's version and Kafka's that it stands for", quireVersion},
		{"serve", "run a node", Serve},
		{"explain", "say why data is still there, or no longer", explain},
		{"verify", "read a data directory through and name the first bad byte", quireVerify},
		{"config", "check a server.properties, or show every setting with its source", quireConfig},
		{"doctor", "look for what will make trouble: limits, disk, clock, ports, addresses, sizes", quireDoctor},
		{"dev", "run a node for trying things out, which is gone when it ends", quireDev},
		{"completion", "print what makes bash, zsh or fish complete quire's commands", quireCompletion},
		{"classic", "read, write, check and import logs of Kafka 0.7", classicCommand},
		{"group", "move a group while its consumers run; show how far groups are behind, and what happened to them", quireGroup},
		{"kafka-acls", "say who may do what, and change it", kafkaAcls},
		{"kafka-broker-api-versions", "show which requests the brokers serve, in which versions", kafkaBrokerAPIVersions},
		{"kafka-client-metrics", "say which metrics clients are to push", kafkaClientMetrics},
		{"kafka-cluster", "show a cluster's id and its nodes, and take a broker off the list", kafkaCluster},
		{"kafka-configs", "show and change what is configured: topics, brokers, quotas, credentials, ...", kafkaConfigs},
		{"kafka-console-consumer", "print the records of a topic", kafkaConsoleConsumer},
		{"kafka-console-producer", "write lines of standard input to a topic", kafkaConsoleProducer},
		{"kafka-console-share-consumer", "print the records of a topic as a member of a share group", kafkaConsoleShareConsumer},
		{"kafka-consumer-groups", "list, describe, delete and move groups of consumers", kafkaConsumerGroups},
		{"kafka-consumer-perf-test", "read many records and measure it", kafkaConsumerPerfTest},
		{"kafka-delegation-tokens", "make, renew, end and show delegation tokens", kafkaDelegationTokens},
		{"kafka-delete-records", "delete records up to an offset", kafkaDeleteRecords},
		{"kafka-dump-log", "print what is in a log's files", kafkaDumpLog},
		{"kafka-e2e-latency", "measure how long a record takes from producer to consumer", kafkaE2ELatency},
		{"kafka-features", "show and change the feature levels of a cluster", kafkaFeatures},
		{"kafka-get-offsets", "show the offsets of partitions: first, last, by time", kafkaGetOffsets},
		{"kafka-groups", "list groups of every type", kafkaGroups},
		{"kafka-leader-election", "have leaders of partitions elected", kafkaLeaderElection},
		{"kafka-log-dirs", "show what is in the data directories of brokers", kafkaLogDirs},
		{"kafka-metadata-quorum", "show the quorum of the controllers, add a controller and take one off", kafkaMetadataQuorum},
		{"kafka-metadata-shell", "walk through what a snapshot of the metadata log says", kafkaMetadataShell},
		{"kafka-producer-perf-test", "write many records and measure it", kafkaProducerPerfTest},
		{"kafka-reassign-partitions", "move partitions between brokers and directories", kafkaReassignPartitions},
		{"kafka-replica-verification", "check that the replicas of partitions hold the same", kafkaReplicaVerification},
		{"kafka-server-start", "run a node", kafkaServerStart},
		{"kafka-server-stop", "stop the nodes of this machine cleanly", kafkaServerStop},
		{"kafka-share-consumer-perf-test", "read many records as members of a share group and measure it", kafkaSharePerfTest},
		{"kafka-share-groups", "list, describe, delete and move share groups", kafkaShareGroups},
		{"kafka-storage", "format the directories of a node, and look at them", kafkaStorage},
		{"kafka-streams-application-reset", "have a Kafka Streams application begin anew", kafkaStreamsApplicationReset},
		{"kafka-streams-groups", "list, describe, delete and move groups of Kafka Streams applications", kafkaStreamsGroups},
		{"kafka-topics", "create, list, describe, change and delete topics", kafkaTopics},
		{"kafka-transactions", "list transactions, look into them, and end those that hang", kafkaTransactions},
		{"kafka-verifiable-consumer", "read as a member of a group and tell what happens", kafkaVerifiableConsumer},
		{"kafka-verifiable-producer", "write numbers and tell of each what became of it", kafkaVerifiableProducer},
		{"kafka-verifiable-share-consumer", "read as a member of a share group and tell what happens", kafkaVerifiableShareConsumer},
	}
}

const toolPrefix = "kafka-"

// lookup finds a command by its name, which may end in .sh as Kafka's scripts do.
func lookup(name string) (command, bool) {
	all := commands()
	i := slices.IndexFunc(all, func(c command) bool { return c.name == strings.TrimSuffix(name, ".sh") })
	if i < 0 {
		return command{}, false
	}
	return all[i], true
}

// Main runs the tool that argv names: by the name of the binary (kafka-topics.sh, a symlink that `quire link` made) or by the first argument.
func Main(argv []string, stdin io.Reader, stdout, stderr io.Writer) int {
	env := Env{Stdin: stdin, Stdout: stdout, Stderr: stderr, Interrupted: interrupted, Terminal: isTerminal(stdin) && isTerminal(stdout)}
	if name := filepath.Base(argv[0]); strings.HasPrefix(name, toolPrefix) {
		if c, ok := lookup(name); ok {
			return runTool(c, env, argv[1:])
		}
		fmt.Fprintf(stderr, "%s is not one of quire's tools; quire help lists them\n", name)
		return 1
	}
	if len(argv) < 2 {
		return help(env, nil)
	}
	name := argv[1]
	switch name {
	case "-h", "-help", "--help":
		name = "help"
	case "--version":
		name = "version"
	}
	c, ok := lookup(name)
	if !ok {
		fmt.Fprintf(stderr, "quire: no command %q\n", name)
		if near := nearest(name); near != "" {
			fmt.Fprintf(stderr, "Did you mean %s?\n", near)
		}
		fmt.Fprintln(stderr, "quire help lists the commands.")
		return 2
	}
	return runTool(c, env, argv[2:])
}

// runTool runs a tool with a closed pipe on its output as an error instead of the end, as Java has it. Of Kafka's tools most pass over an
// output that takes nothing; of quire's own commands that answer, one that could not say all has not done its work.
func runTool(c command, env Env, args []string) int {
	signal.Ignore(syscall.SIGPIPE)
	if strings.HasPrefix(c.name, toolPrefix) || c.name == "serve" || c.name == "dev" {
		return c.run(env, args)
	}
	out := &witness{Writer: env.Stdout}
	env.Stdout = out
	code := c.run(env, args)
	if err := out.failure(); code == exitGood && err != nil && !errors.Is(err, syscall.EPIPE) {
		fmt.Fprintf(env.Stderr, "quire %s: the output is not complete: %v\n", c.name, err)
		return exitBad
	}
	return code
}

// A witness remembers the first write that failed.
type witness struct {
	io.Writer

	mu  sync.Mutex
	err error
}

func (w *witness) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil {
		w.mu.Lock()
		w.err = cmp.Or(w.err, err)
		w.mu.Unlock()
	}
	return n, err
}

func (w *witness) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func interrupted() <-chan os.Signal {
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	return ch
}

// isTerminal reports whether a stream is a character device other than the null device.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// nearest returns the command most like a name that is none.
func nearest(name string) string {
	var names []string
	for _, c := range commands() {
		names = append(names, c.name)
	}
	near := alike(name, names, names)
	if len(near) == 0 {
		return ""
	}
	return near[0]
}

// help lists the commands; with a command's name it is that command's --help.
func help(env Env, args []string) int {
	if len(args) > 0 && args[0] != "help" {
		if c, ok := lookup(args[0]); ok {
			return c.run(env, append(slices.Clone(args[1:]), "--help"))
		}
	}
	fmt.Fprint(env.Stdout, "Quire is a Kafka broker and Kafka's command-line tools in one program.\n\n  quire COMMAND [ARGUMENT...]\n\nCommands:\n")
	all := commands()
	width := 0
	for _, c := range all {
		width = max(width, len(c.name))
	}
	for _, c := range all {
		fmt.Fprintf(env.Stdout, "  %-*s  %s\n", width, c.name, c.summary)
	}
	fmt.Fprint(env.Stdout, "\nThe kafka-* commands are called like Kafka's scripts; COMMAND --help shows their options.\n")
	return 0
}

const linkAbout = `Example:
  quire link ~/quire-bin && export PATH=~/quire-bin:$PATH

Usage: quire link DIR

Makes links to this program by the names of Kafka's scripts, with and without .sh, in a directory of theirs.
`

// link makes a symbolic link to this program for each of Kafka's tools, with and without .sh. Links that are there are
// made anew; what is not a link is left alone and reported.
func link(env Env, args []string) int {
	if len(args) != 1 || looksLikeOption(args[0]) {
		asked := len(args) == 1 && (args[0] == "--help" || args[0] == "-h")
		if asked {
			fmt.Fprint(env.Stdout, linkAbout)
			return exitGood
		}
		fmt.Fprint(env.Stderr, "quire link: which directory?\n\n", linkAbout)
		return exitMisuse
	}
	self, err := os.Executable()
	if err == nil {
		err = linkTools(args[0], self)
	}
	if err != nil {
		fmt.Fprintln(env.Stderr, "quire link:", err)
		return 1
	}
	return 0
}

func linkTools(dir, target string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, c := range commands() {
		if !strings.HasPrefix(c.name, toolPrefix) {
			continue
		}
		for _, name := range []string{c.name, c.name + ".sh"} {
			if err := linkTool(filepath.Join(dir, name), target); err != nil {
				return err
			}
		}
	}
	return nil
}

func linkTool(path, target string) error {
	switch info, err := os.Lstat(path); {
	case os.IsNotExist(err):
	case err != nil:
		return err
	case info.Mode()&os.ModeSymlink == 0:
		return fmt.Errorf("%s is there and not a link", path)
	default:
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return os.Symlink(target, path)
}
