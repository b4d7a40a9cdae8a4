package config

import "io"

// A Source says where a value came from; the numbers are DescribeConfigs'.
type Source int8

const (
	DynamicTopic         Source = 1
	DynamicBrokerLogger  Source = 2
	DynamicBroker        Source = 3
	DynamicDefaultBroker Source = 4
	StaticBroker         Source = 5
	Default              Source = 6
	DynamicClientMetrics Source = 7
	DynamicGroup         Source = 8
)

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

// BrokerValue and TopicValue resolve one option by precedence (facts configs.md §1-3). overrides are the topic's own.
func BrokerValue(o *Option, l Layers) Value                             { panic("unwritten") }
func TopicValue(o *Option, overrides map[string]string, l Layers) Value { panic("unwritten") }

// Int64, Float, Bool and Items read a resolved value; they panic on a type that is not theirs, which is a fault of the caller.
func (v Value) Int64() int64    { panic("unwritten") }
func (v Value) Float() float64  { panic("unwritten") }
func (v Value) Bool() bool      { panic("unwritten") }
func (v Value) Items() []string { panic("unwritten") }

// ReadProperties reads a server.properties in Java's syntax (ISO 8859-1, escapes, no expansion). Keys come in the order of the file, the last wins.
func ReadProperties(r io.Reader) (map[string]string, error) { panic("unwritten") }

// CheckStatic checks a broker's static values: unknown keys as warnings that name the nearest known one, impossible values and Kafka's cross checks
// (configs.md §2.10) as an error naming key, value and rule.
func CheckStatic(static map[string]string) (warnings []string, err error) { panic("unwritten") }
