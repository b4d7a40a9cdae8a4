package server

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/quire-log/quire/internal/config"
)

// The node's loggers, whose levels kafka-configs --broker-logger changes while it runs. There are few, one for each part of the node
// that has something to say, and they say nothing that Kafka's would: their names are Quire's own.

const (
	rootLogger       = "root"
	loggerServer     = "quire.server"
	loggerController = "quire.controller"
	loggerReplica    = "quire.replica"
	loggerStorage    = "quire.storage"
	loggerWire       = "quire.wire"
	loggerGroup      = "quire.group"
	loggerTxn        = "quire.txn"
)

// logLevels are Kafka's names for levels. slog knows four; TRACE and FATAL lie beyond them.
var logLevels = map[string]slog.Level{
	"TRACE": slog.LevelDebug - 4,
	"DEBUG": slog.LevelDebug,
	"INFO":  slog.LevelInfo,
	"WARN":  slog.LevelWarn,
	"ERROR": slog.LevelError,
	"FATAL": slog.LevelError + 4,
}

// loggers are made by newLoggers.
type loggers struct {
	// mu guards the two below, and that levels follow from them. A line that is logged takes no lock.
	mu   sync.Mutex
	root slog.Level
	own  map[string]slog.Level // those that do not follow root

	levels map[string]*slog.LevelVar // never changes; root's too
	silent bool                      // the handler takes nothing at all: levels change nothing
	inner  slog.Handler
}

// newLoggers wraps the logger that the node was given. The root's level begins where that one's does.
func newLoggers(base *slog.Logger) *loggers {
	l := &loggers{own: map[string]slog.Level{}, levels: map[string]*slog.LevelVar{}, inner: base.Handler(), silent: true}
	for _, name := range []string{"FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"} {
		if !base.Enabled(context.Background(), logLevels[name]) {
			break
		}
		l.root, l.silent = logLevels[name], false
	}
	for _, name := range []string{rootLogger, loggerServer, loggerController, loggerReplica, loggerStorage, loggerWire, loggerGroup, loggerTxn} {
		l.levels[name] = new(slog.LevelVar)
		l.levels[name].Set(l.root)
	}
	return l
}

// named returns one of the loggers.
func (l *loggers) named(name string) *slog.Logger {
	if l.silent {
		return slog.New(l.inner)
	}
	return slog.New(levelHandler{l.inner, l.levels[name]})
}

func (l *loggers) has(name string) bool { return l.levels[name] != nil }

func (l *loggers) set(name string, level slog.Level) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if name == rootLogger {
		l.root = level
	} else {
		l.own[name] = level
	}
	l.settle()
}

// unset has a logger follow root again.
func (l *loggers) unset(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.own, name)
	l.settle()
}

func (l *loggers) settle() {
	for name, v := range l.levels {
		level, own := l.own[name]
		if !own {
			level = l.root
		}
		v.Set(level)
	}
}

// describe lists the loggers by name, with the levels that hold.
func (l *loggers) describe() []config.Entry {
	var entries []config.Entry
	for name, v := range l.levels {
		entries = append(entries, config.Entry{Key: name, Text: levelName(v.Level()), Source: config.DynamicBrokerLogger})
	}
	slices.SortFunc(entries, func(a, b config.Entry) int {
		if a.Key < b.Key {
			return -1
		}
		return 1
	})
	return entries
}

func levelName(level slog.Level) string {
	for name, l := range logLevels {
		if l == level {
			return name
		}
	}
	return level.String()
}

// A levelHandler lets level alone decide: the handler beneath may have been made for a higher one.
type levelHandler struct {
	slog.Handler
	level *slog.LevelVar
}

func (h levelHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.level.Level()
}

func (h levelHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return levelHandler{h.Handler.WithAttrs(attrs), h.level}
}

func (h levelHandler) WithGroup(name string) slog.Handler {
	return levelHandler{h.Handler.WithGroup(name), h.level}
}
