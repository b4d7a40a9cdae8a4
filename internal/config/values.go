package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Source says where a value came from; the numbers are DescribeConfigs'.
type Source int8

const (
	DynamicTopic         Source = 1
	DynamicBroker        Source = 2
	DynamicDefaultBroker Source = 3
	StaticBroker         Source = 4
	Default              Source = 5
	DynamicBrokerLogger  Source = 6
	DynamicClientMetrics Source = 7
	DynamicGroup         Source = 8
)

// String is Kafka's name of the source, as its tools print it.
func (s Source) String() string {
	names := [...]string{"UNKNOWN", "DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG", "DYNAMIC_DEFAULT_BROKER_CONFIG", "STATIC_BROKER_CONFIG",
		"DEFAULT_CONFIG", "DYNAMIC_BROKER_LOGGER_CONFIG", "DYNAMIC_CLIENT_METRICS_CONFIG", "DYNAMIC_GROUP_CONFIG"}
	if s < 0 || int(s) >= len(names) {
		return names[0]
	}
	return names[s]
}

// A Layers holds the values that apply to a broker, strongest first. Maps may be nil. Layers are read only; resolve on one snapshot.
type Layers struct {
	DynamicBroker  map[string]string // BROKER <id>
	DynamicDefault map[string]string // BROKER ""
	Static         map[string]string // server.properties and --override
}

// A Value is a resolved option.
type Value struct {
	Option   *Option
	Text     string
	Null     bool
	Source   Source
	Synonyms []Synonym // as DescribeConfigs lists them, strongest first
}

// A Synonym is one layer's value.
type Synonym struct {
	Key    string
	Text   string
	Null   bool
	Source Source
}

// BrokerValue and TopicValue resolve one option by precedence (per broker, cluster default, file, default). overrides are the topic's own.
// A stored value that its row refuses, such as another version may have left, is passed over.
func BrokerValue(o *Option, l Layers) Value {
	v := Value{Option: o, Text: o.Default, Null: o.NoDefault, Source: Default, Synonyms: brokerSynonyms(o, l)}
	for _, layer := range l.each() {
		raw, ok := layer.values[o.Key]
		if !ok {
			continue
		}
		if text, err := o.parse(raw); err == nil {
			v.Text, v.Null = text, false
			break
		}
	}
	if len(v.Synonyms) > 0 {
		v.Source = v.Synonyms[0].Source
	}
	return v.hideSecret()
}

func TopicValue(o *Option, overrides map[string]string, l Layers) Value {
	return inherited(o, overrides, DynamicTopic, l)
}

// GroupValue resolves a group's option: its own overrides, then the broker's.
func GroupValue(o *Option, overrides map[string]string, l Layers) Value {
	v := inherited(o, overrides, DynamicGroup, l)
	if len(o.Broker) == 0 { // Kafka names the default of a key without twin by the key itself, here and not for topics
		v.Synonyms = append(v.Synonyms, Synonym{Key: o.Key, Text: o.Default, Source: Default})
	}
	return v
}

// ClientMetricsValue resolves an option of a subscription.
func ClientMetricsValue(o *Option, values map[string]string) Value {
	return inherited(o, values, DynamicClientMetrics, Layers{})
}

// inherited resolves an option that a resource may override and a broker may supply.
func inherited(o *Option, overrides map[string]string, source Source, l Layers) Value {
	v := Value{Option: o, Text: o.Default, Null: o.NoDefault, Source: Default}
	if twin, n, ok := supplier(o, l); ok {
		if b := BrokerValue(twin, l); !b.Null {
			v.Text, v.Null = inUnit(b, n), false
		}
	}
	if len(o.Broker) > 0 {
		if first, ok := Lookup(Broker(), o.Broker[0]); ok {
			v.Synonyms = brokerSynonyms(first, l)
		}
	}
	if raw, ok := overrides[o.Key]; ok {
		v.Synonyms = append([]Synonym{{Key: o.Key, Text: raw, Source: source}}, v.Synonyms...)
		if text, err := o.parse(raw); err == nil {
			v.Text, v.Null = text, false
		}
	}
	if len(v.Synonyms) > 0 {
		v.Source = v.Synonyms[0].Source
	}
	return v.hideSecret()
}

// supplier is the first broker key of o that has a value, and what a unit of it comes to in milliseconds.
func supplier(o *Option, l Layers) (twin *Option, unit int64, ok bool) {
	for _, key := range o.Broker {
		twin, ok := Lookup(Broker(), key)
		if !ok || BrokerValue(twin, l).Null {
			continue
		}
		switch {
		case strings.HasSuffix(key, ".hours"):
			return twin, 3600_000, true
		case strings.HasSuffix(key, ".minutes"):
			return twin, 60_000, true
		}
		return twin, 1, true
	}
	return nil, 0, false
}

func inUnit(v Value, unit int64) string {
	if unit == 1 {
		return v.Text
	}
	n := v.Int64()
	if n < 0 { // no limit, in any unit
		return "-1"
	}
	return strconv.FormatInt(n*unit, 10)
}

type layer struct {
	values map[string]string
	source Source
}

func (l Layers) each() [3]layer {
	return [3]layer{{l.DynamicBroker, DynamicBroker}, {l.DynamicDefault, DynamicDefaultBroker}, {l.Static, StaticBroker}}
}

// families are the broker keys that say the same in several units.
var families = [][]string{
	{"log.roll.ms", "log.roll.hours"},
	{"log.roll.jitter.ms", "log.roll.jitter.hours"},
	{"log.flush.interval.ms", "log.flush.scheduler.interval.ms"},
	{"log.retention.ms", "log.retention.minutes", "log.retention.hours"},
}

// brokerSynonyms lists the layers' values of o and its family, and leaves out what comes before the first one of o itself. That is Kafka's rule:
// log.retention.ms shows log.retention.hours only behind a value of its own.
func brokerSynonyms(o *Option, l Layers) []Synonym {
	keys := []string{o.Key}
	for _, f := range families {
		if o.Key == f[0] || o.Key != "log.flush.scheduler.interval.ms" && slices.Contains(f, o.Key) {
			keys = f
		}
	}
	var all []Synonym
	for _, layer := range l.each() {
		for _, key := range keys {
			if text, ok := layer.values[key]; ok {
				all = append(all, secretless(o, Synonym{Key: key, Text: text, Source: layer.source}))
			}
		}
	}
	for _, key := range keys {
		if d, ok := Lookup(Broker(), key); ok && !d.NoDefault {
			all = append(all, secretless(o, Synonym{Key: key, Text: d.Default, Source: Default}))
		}
	}
	for n, s := range all {
		if s.Key == o.Key {
			return all[n:]
		}
	}
	return nil
}

func secretless(o *Option, s Synonym) Synonym {
	if o.Sensitive() {
		s.Text, s.Null = "", true
	}
	return s
}

// hideSecret makes a secret null: no caller of this package shows one by mistake. Who needs it reads the layers.
func (v Value) hideSecret() Value {
	if v.Option.Sensitive() {
		v.Text, v.Null = "", true
	}
	return v
}

// Int64, Float, Bool and Items read a resolved value; they panic on a type that is not theirs, which is a fault of the caller.
func (v Value) Int64() int64 {
	v.must(Short, Int, Long)
	n, err := strconv.ParseInt(v.Text, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("config: %s is null", v.Option.Key))
	}
	return n
}

func (v Value) Float() float64 {
	v.must(Double)
	n, _ := parseDouble(v.Text)
	return n
}

func (v Value) Bool() bool {
	v.must(Boolean)
	return v.Text == "true"
}

// Items of a list; nil for an empty or null one.
func (v Value) Items() []string {
	v.must(List)
	return splitList(v.Text)
}

func (v Value) must(types ...Type) {
	for _, t := range types {
		if v.Option.Type == t {
			return
		}
	}
	panic(fmt.Sprintf("config: %s is of type %s", v.Option.Key, v.Option.Type))
}

// Of resolves a broker's option by key, which must be in the table.
func (l Layers) Of(key string) Value {
	o, ok := Lookup(Broker(), key)
	if !ok {
		panic("config: no broker option " + key)
	}
	return BrokerValue(o, l)
}
