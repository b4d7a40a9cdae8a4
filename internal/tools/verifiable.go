package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

// The verifiable tools tell what they do as events, one JSON object a line, for a test to read.

// An eventWriter writes events. Callbacks and the tool itself meet there.
type eventWriter struct {
	env Env
	mu  sync.Mutex // guards the output: a line is written whole
}

// A field is a name and a value of an event.
type field struct {
	name  string
	value any
}

// write writes an event; its fields keep their order.
func (w *eventWriter) write(name string, fields ...field) {
	line := appendFields(nil, append([]field{{"timestamp", time.Now().UnixMilli()}, {"name", name}}, fields...))
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = w.env.Stdout.Write(append(line, '\n'))
}

// object is a JSON object whose fields keep their order.
type object []field

// MarshalJSON is for encoding/json.
func (o object) MarshalJSON() ([]byte, error) { return appendFields(nil, o), nil }

func appendFields(dst []byte, fields []field) []byte {
	dst = append(dst, '{')
	for i, f := range fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), f.name...), `":`...)
		if text, ok := f.value.(json.RawMessage); ok {
			dst = append(dst, text...)
			continue
		}
		var text bytes.Buffer
		out := json.NewEncoder(&text)
		out.SetEscapeHTML(false)
		if err := out.Encode(f.value); err != nil {
			text.Reset()
			text.WriteString("null")
		}
		dst = append(dst, bytes.TrimSuffix(text.Bytes(), []byte("\n"))...)
	}
	return append(dst, '}')
}

// nullable is a text, or null.
func nullable(b []byte) any {
	if b == nil {
		return nil
	}
	return javaText(b)
}

// untilInterrupted returns a context that a signal ends. end waits for the watcher and returns the signal, nil without one.
func untilInterrupted(env Env) (ctx context.Context, end func() os.Signal) {
	ctx, cancel := context.WithCancel(context.Background())
	got := make(chan os.Signal, 1)
	watched := make(chan struct{})
	signals := env.interrupted()
	go func() {
		defer close(watched)
		select {
		case sig := <-signals:
			got <- sig
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() os.Signal {
		cancel()
		<-watched
		select {
		case sig := <-got:
			return sig
		default:
			return nil
		}
	}
}

// verifiableConnection is the group of arguments that all of them end with.
func verifiableConnection(help string) *argument {
	return &argument{flags: []string{"--bootstrap-server"}, required: true, metavar: "HOST1:PORT1[,HOST2:PORT2[...]]", help: help,
		group: &argGroup{title: "Connection Group", description: "Group of arguments for connection to brokers"}}
}

const (
	brokerListHelp   = "The server(s) to connect to. Comma-separated list of Kafka brokers in the form HOST1:PORT1,HOST2:PORT2,..."
	clientConfigHelp = "Config properties file (config options shared with command line parameters will be overridden)."
)

// verifiableConfig reads the file of properties that the new option or the old one names.
func verifiableConfig(env Env, parser *argParser, v *argValues, old string) (clientConfig, error) {
	path := v.text("command-config")
	if old != "" && v.has(old) {
		if path != "" {
			return nil, parser.fail("Options --%s and --command-config are mutually exclusive.", old)
		}
		_, _ = env.Stdout.Write([]byte("Option --" + old + " has been deprecated and will be removed in a future version. Use --command-config instead.\n"))
		path = v.text(old)
	}
	if path == "" {
		return clientConfig{}, nil
	}
	props, err := loadProperties(path)
	if err != nil {
		return nil, parser.fail("%s", asJava(err).text())
	}
	return props, nil
}

// runVerifiable reads the command line of a verifiable tool and runs it with the properties of its file, which the option old may name
// too. Without arguments it prints the help and ends well.
func runVerifiable(env Env, args []string, parser *argParser, old string, run func(values *argValues, props clientConfig) (int, error)) int {
	if len(args) == 0 {
		fmt.Fprint(env.Stdout, parser.fullHelp())
		return 0
	}
	values, err := parser.parse(args)
	if err != nil {
		return printArgError(env, err, 1)
	}
	props, err := verifiableConfig(env, parser, values, old)
	if err != nil {
		return printArgError(env, err, 1)
	}
	code, err := run(values, props)
	if err != nil {
		return uncaught(env, err)
	}
	return code
}
