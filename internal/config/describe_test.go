package config

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fact is a row of facts/describe-configs.tsv: what Kafka 4.3.1 said of one entry.
type fact struct {
	entity, name, value, typ, source, readOnly, sensitive, synonyms string
	class, onBroker, onDefault                                      string
}

func facts(t *testing.T) []fact {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "..", "shared", "facts", "describe-configs.tsv"))
	if err != nil {
		t.Skip("the shared folder with Kafka's own answers is not here")
	}
	defer f.Close()
	var all []fact
	lines := bufio.NewScanner(f)
	lines.Scan()
	for lines.Scan() {
		c := strings.Split(lines.Text()+strings.Repeat("\t", 12), "\t")
		all = append(all, fact{c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[9], c[10], c[11]})
	}
	if err := lines.Err(); err != nil || len(all) < 500 {
		t.Fatalf("%d rows: %v", len(all), err)
	}
	return all
}

// measured are the layers of the broker that the facts were taken from.
func measured() Layers {
	static := map[string]string{
		"process.roles":                                    "broker,controller",
		"node.id":                                          "1",
		"controller.quorum.voters":                         "1@127.0.0.1:9093",
		"listeners":                                        "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
		"advertised.listeners":                             "PLAINTEXT://127.0.0.1:9092",
		"controller.listener.names":                        "CONTROLLER",
		"inter.broker.listener.name":                       "PLAINTEXT",
		"listener.security.protocol.map":                   "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
		"log.dirs":                                         "DIR/1/data",
		"offsets.topic.replication.factor":                 "1",
		"transaction.state.log.replication.factor":         "1",
		"transaction.state.log.min.isr":                    "1",
		"share.coordinator.state.topic.replication.factor": "1",
		"share.coordinator.state.topic.min.isr":            "1",
	}
	return Layers{Static: Complete(static), DynamicDefault: map[string]string{"min.insync.replicas": "1"}}
}

func TestDescribeAsKafka(t *testing.T) {
	l := measured()
	ours := map[string]map[string]Entry{}
	for entity, entries := range map[string][]Entry{
		"broker": DescribeBroker(l), "broker-default": DescribeBrokerDefault(l.DynamicDefault), "topic": DescribeTopic(nil, l),
		"group": DescribeGroup(nil, l), "client-metrics": DescribeClientMetrics(nil),
	} {
		ours[entity] = map[string]Entry{}
		for _, e := range entries {
			ours[entity][e.Key] = e
		}
	}
	theirs := map[string]map[string]bool{}
	for _, f := range facts(t) {
		if ours[f.entity] == nil {
			continue // loggers are the server's
		}
		if theirs[f.entity] == nil {
			theirs[f.entity] = map[string]bool{}
		}
		theirs[f.entity][f.name] = true
		e, ok := ours[f.entity][f.name]
		if !ok {
			t.Errorf("%s %s is missing", f.entity, f.name)
			continue
		}
		want := fmt.Sprintf("%s %s %s readOnly=%s sensitive=%s {%s}", f.value, f.typ, f.source, f.readOnly, f.sensitive, f.synonyms)
		got := fmt.Sprintf("%s %s %s readOnly=%v sensitive=%v {%s}", text(e.Text, e.Null), e.Type, e.Source, e.ReadOnly, e.Sensitive, synonyms(e.Synonyms))
		if got != want {
			t.Errorf("%s %s\n got %s\nwant %s", f.entity, f.name, got, want)
		}
	}
	for entity, entries := range ours {
		for key := range entries {
			if !theirs[entity][key] {
				t.Errorf("%s %s is not Kafka's", entity, key)
			}
		}
	}
}

func text(s string, null bool) string {
	if null {
		return "null"
	}
	return s
}

func synonyms(all []Synonym) string {
	var parts []string
	for _, s := range all {
		parts = append(parts, fmt.Sprintf("%s:%s=%s", s.Source, s.Key, text(s.Text, s.Null)))
	}
	return strings.Join(parts, ", ")
}

// What an IncrementalAlterConfigs of each broker key's own value is told: column set_on_broker and set_on_default.
func TestCheckDynamicAsKafka(t *testing.T) {
	l := measured()
	for _, f := range facts(t) {
		if f.entity != "broker" {
			continue
		}
		value := f.value
		if value == "null" {
			value = "1"
			if strings.HasPrefix(f.name, "ssl.engine") {
				value = "x"
			}
		}
		for _, c := range []struct {
			own  bool
			want string
		}{{true, f.onBroker}, {false, f.onDefault}} {
			if strings.Contains(c.want, "ELR is enabled") {
				continue // the controller's rule
			}
			stored := map[string]string{f.name: value}
			if !c.own {
				stored["min.insync.replicas"] = "1"
				if f.name == "min.insync.replicas" {
					continue
				}
			}
			got := "accepted"
			if err := CheckDynamic(stored, c.own, l); err != nil {
				got = "InvalidRequestException: " + err.Error()
			}
			if want := strings.ReplaceAll(c.want, "[KEY]", "["+f.name+"]"); got != want {
				t.Errorf("%s=%s own=%v\n got %s\nwant %s", f.name, value, c.own, got, want)
			}
		}
	}
}
