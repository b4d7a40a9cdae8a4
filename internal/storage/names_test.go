package storage

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseDirName(t *testing.T) {
	hex := "0123456789abcdef0123456789abcdef"
	for _, tt := range []struct {
		name string
		tp   TopicPartition // zero: foreign
		kind dirKind
	}{
		{"orders-3", TopicPartition{"orders", 3}, dirLive},
		{"x-1-2", TopicPartition{"x-1", 2}, dirLive},
		{"with.dots_and-dashes-7-0", TopicPartition{"with.dots_and-dashes-7", 0}, dirLive},
		{"__cluster_metadata-0", MetadataPartition, dirLive},
		{"a-2147483647", TopicPartition{"a", 2147483647}, dirLive},
		{"a-delete-0", TopicPartition{"a-delete", 0}, dirLive},
		{"a.b-c-0." + hex + "-delete", TopicPartition{"a.b-c", 0}, dirDeleted},
		{"a-0." + hex + "-future", TopicPartition{"a", 0}, dirFuture},
		{"a-0." + hex + "-stray", TopicPartition{"a", 0}, dirStray},
		{strings.Repeat("t", 249) + "-0", TopicPartition{strings.Repeat("t", 249), 0}, dirLive},
		{name: "lost+found"},
		{name: "backup"},
		{name: "old-data"},
		{name: "a-"},
		{name: "-0"},
		{name: ""},
		{name: "a-01"},
		{name: "a-+1"},
		{name: "a--1-"},
		{name: "a-2147483648"},
		{name: "a b-0"},
		{name: "..-0"},
		{name: "a-0-delete"},
		{name: "a-0.-delete"},
		{name: "a-x." + hex + "-delete"},
		{name: "-delete"},
		{name: strings.Repeat("t", 250) + "-0"},
	} {
		tp, kind, ok := parseDirName(tt.name)
		if want := tt.tp != (TopicPartition{}); ok != want || tp != tt.tp || kind != tt.kind {
			t.Errorf("%.60q: %v %q %v, want %v %q %v", tt.name, tp, kind, ok, tt.tp, tt.kind, want)
		}
	}
}

// Names that are made are read back, whole up to the length that -delete and -stray cut, and never longer than a file system takes.
func TestFormatDirName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		topic := rapid.StringMatching(`[a-zA-Z0-9_-]([a-zA-Z0-9._-]{0,20}|[a-zA-Z0-9._-]{190,248})`).Draw(t, "topic")
		want := TopicPartition{topic, rapid.Int32Range(0, 1<<31-1).Draw(t, "partition")}
		kind := rapid.SampledFrom([]dirKind{dirLive, dirDeleted, dirFuture, dirStray}).Draw(t, "kind")
		name := formatDirName(want, kind)
		tp, k, ok := parseDirName(name)
		if !ok || k != kind || tp.Partition != want.Partition {
			t.Fatalf("%q read as %v %q %v", name, tp, k, ok)
		}
		whole := tp.Topic == topic
		switch kind {
		case dirDeleted, dirStray:
			if len(name) > dirNameMax || !strings.HasPrefix(topic, tp.Topic) || !whole && len(name) != dirNameMax {
				t.Fatalf("%q (%d bytes) for topic %q", name, len(name), topic)
			}
		default:
			if !whole {
				t.Fatalf("%q for topic %q", name, topic)
			}
		}
		if kind != dirLive && formatDirName(want, kind) == name {
			t.Fatalf("%q twice", name)
		}
	})
}
