package config

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/configuration.md anew")

// The reference page is written from the tables, and this test holds them together.
func TestReferencePage(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "configuration.md")
	want := reference()
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the tables say; run: go test ./internal/config -run ReferencePage -update", path)
	}
}

func reference() []byte {
	var b bytes.Buffer
	b.WriteString(`# Configuration

Written from the tables in ` + "`internal/config`" + ` by ` + "`go test ./internal/config -run ReferencePage -update`" + `; do not edit by hand.

A value comes from the first of these that has it: the topic (or group) itself, the broker's own dynamic value, the cluster's dynamic default,
` + "`server.properties`" + ` and ` + "`--override`" + `, the default. A dynamic value acts as soon as its change is answered; what this version reads at start alone (` + "`" + strings.Join(atStart, "`, `") + "`" + `)
is refused at run time, though Kafka would change it.

Marks: **∅** accepted for Kafka's sake, without effect in this version of Quire · **Q** Quire's own, unknown to Kafka ·
**i** internal to Kafka: accepted, but described only where it is set.
`)
	section := func(title, intro string, rows []Option, last string, cell func(*Option) string) {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| Key | Type | Default | %s | | What it does |\n|---|---|---|---|---|---|\n", title, intro, last)
		for i := range rows {
			o := &rows[i]
			var marks []string
			for _, m := range []struct {
				set  bool
				mark string
			}{{o.Inert, "∅"}, {o.Own, "Q"}, {o.Internal, "i"}} {
				if m.set {
					marks = append(marks, m.mark)
				}
			}
			value := "`" + o.Default + "`"
			switch {
			case o.NoDefault:
				value = "–"
			case o.Default == "":
				value = "empty"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", o.Key, strings.ToLower(o.Type.String()), value, cell(o), strings.Join(marks, " "), o.Doc)
		}
	}
	twins := func(o *Option) string {
		if len(o.Broker) == 0 {
			return "–"
		}
		return "`" + strings.Join(o.Broker, "`, `") + "`"
	}
	section("Topics", "Set with CreateTopics or a change of the topic's configs. Where a topic has no value of its own, the broker's keys named here supply it.", Topic(), "From the broker", twins)
	section("Brokers", "Read-only keys stand in `server.properties` and need a restart. The others may change at run time: per broker, for the whole cluster (or one broker), or per listener, with the prefix `listener.name.NAME.`.", Broker(), "Changes", func(o *Option) string { return o.Mode.String() })
	section("Groups", "Set on a group, of the consumer, share or streams protocol.", Group(), "From the broker", twins)
	section("Client metrics", "Set on a subscription.", ClientMetrics(), "From the broker", twins)
	return b.Bytes()
}

func TestRowsAreSound(t *testing.T) {
	for name, rows := range map[string][]Option{"topic": Topic(), "broker": Broker(), "group": Group(), "client-metrics": ClientMetrics()} {
		for i := range rows {
			o := &rows[i]
			if i > 0 && rows[i-1].Key >= o.Key {
				t.Errorf("%s: %s after %s", name, o.Key, rows[i-1].Key)
			}
			if o.Doc == "" || !strings.HasSuffix(o.Doc, ".") {
				t.Errorf("%s %s: documentation %q", name, o.Key, o.Doc)
			}
			if !o.NoDefault && o.Key != "log.cleaner.threads" {
				if got, err := o.parse(o.Default); err != nil || got != o.Default {
					t.Errorf("%s %s: default %q comes out as %q: %v", name, o.Key, o.Default, got, err)
				}
			}
			if found, ok := Lookup(rows, o.Key); !ok || found != o {
				t.Errorf("%s %s: Lookup does not find it", name, o.Key)
			}
			if name != "topic" && name != "group" {
				continue
			}
			for _, key := range o.Broker {
				twin, ok := Lookup(Broker(), key)
				if !ok {
					t.Errorf("%s %s: no broker option %s", name, o.Key, key)
				} else if twin.Type != o.Type && !(o.Type == Long && twin.Type == Int) {
					t.Errorf("%s %s is %s, %s is %s", name, o.Key, o.Type, key, twin.Type)
				}
			}
		}
	}
}
