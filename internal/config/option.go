package config

import (
	"slices"
	"strings"
	"sync"
)

// A Type is the type of a value; the numbers are DescribeConfigs'.
type Type int8

const (
	Unknown  Type = 0 // of a key that no table has
	Boolean  Type = 1
	String   Type = 2
	Int      Type = 3
	Short    Type = 4
	Long     Type = 5
	Double   Type = 6
	List     Type = 7
	Class    Type = 8
	Password Type = 9
)

// String is Kafka's name of the type, as its messages have it.
func (t Type) String() string {
	names := [...]string{"UNKNOWN", "BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD"}
	if t < 0 || int(t) >= len(names) {
		return names[0]
	}
	return names[t]
}

// A Mode says when a broker's option may change.
type Mode int8

const (
	ReadOnly    Mode = iota // in the file, at start
	PerBroker               // at run time, for one broker
	ClusterWide             // at run time, for all or one
	PerListener             // at run time, with the prefix listener.name.L.
)

// String is how the reference page calls the mode.
func (m Mode) String() string {
	return [...]string{"read-only", "per-broker", "cluster-wide", "per-listener"}[m]
}

// An Option is a row of a table.
type Option struct {
	Key       string
	Type      Type
	Default   string // as DescribeConfigs shows it
	NoDefault bool   // null
	Check     Check  // nil: any value of the type
	Whole     Whole  // of a list, as a whole; nil: any list
	Doc       string
	Mode      Mode
	Internal  bool     // described only where it is set
	Inert     bool     // accepted for Kafka's sake, without effect here
	Own       bool     // Quire's, unknown to Kafka; described only where it is set, lest a Kafka tool trips over it
	Broker    []string // of a topic's or group's option: broker keys that supply its value, first set wins, with units (log.retention.ms, .minutes, .hours)
}

// A Check returns Kafka's complaint about a value of the right type, without its head ("Value must be at least 1"), or "".
type Check func(value string) string

// A Whole returns Kafka's complaint about a list, with its head, or "".
type Whole func(key string, items []string) string

// Sensitive tells whether the value is a secret, which is never shown.
func (o *Option) Sensitive() bool { return o.Type == Password }

// Hidden tells whether DescribeConfigs leaves the option out where nobody set it.
func (o *Option) Hidden() bool { return o.Internal || o.Own }

// Documentation is Doc, and that the option has no effect if that is so.
func (o *Option) Documentation() string {
	if o.Inert {
		return o.Doc + " " + inertNote
	}
	return o.Doc
}

const inertNote = "Accepted for Kafka's sake; this version of Quire does not act on it."

// Topic, Broker, Group and ClientMetrics are the tables, sorted by key. They are shared: read only.
func Topic() []Option         { return topicTable() }
func Broker() []Option        { return brokerTable() }
func Group() []Option         { return groupTable() }
func ClientMetrics() []Option { return clientMetricsTable() }

var (
	topicTable         = table(topicOptions)
	groupTable         = table(groupOptions)
	clientMetricsTable = table(clientMetricsOptions)
	brokerTable        = table(brokerNode, brokerLog, brokerReplication, brokerQuorum, brokerGroups, brokerQuotas, brokerTiered, brokerSecurity)
)

// table joins parts into one sorted table, once it is asked for: most runs of a tool never do.
func table(parts ...[]Option) func() []Option {
	return sync.OnceValue(func() []Option {
		all := slices.Concat(parts...)
		slices.SortFunc(all, func(a, b Option) int { return strings.Compare(a.Key, b.Key) })
		return all
	})
}

// Lookup finds a row.
func Lookup(table []Option, key string) (*Option, bool) {
	n, ok := slices.BinarySearchFunc(table, key, func(o Option, key string) int { return strings.Compare(o.Key, key) })
	if !ok {
		return nil, false
	}
	return &table[n], true
}

// BrokerOption finds the row of a broker's key, which may have a listener's prefix (listener.name.internal.ssl.key.password).
func BrokerOption(key string) (*Option, bool) {
	if base, prefixed := Base(key); prefixed {
		return Lookup(Broker(), base)
	}
	return Lookup(Broker(), key)
}

// mechanismKeys may also carry the SASL mechanism that they are for, after the listener's prefix.
var mechanismKeys = []string{
	"sasl.jaas.config", "sasl.login.callback.handler.class", "sasl.login.class",
	"sasl.server.callback.handler.class", "connections.max.reauth.ms",
}

// Base is a key without its listener's prefix and mechanism: listener.name.internal.plain.sasl.jaas.config is sasl.jaas.config.
func Base(key string) (base string, prefixed bool) {
	rest, ok := strings.CutPrefix(key, "listener.name.")
	if !ok {
		return key, false
	}
	_, base, ok = strings.Cut(rest, ".")
	if !ok {
		return key, false
	}
	for _, m := range mechanismKeys {
		if strings.HasSuffix(base, m) {
			return m, true
		}
	}
	return base, true
}
