package config

// A Type is the type of a value; the numbers are DescribeConfigs'.
type Type int8

const (
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

// A Mode says when a broker's option may change.
type Mode int8

const (
	ReadOnly    Mode = iota // in the file, at start
	PerBroker               // at run time, for one broker
	ClusterWide             // at run time, for all or one
	PerListener             // at run time, with the prefix listener.name.L.
)

// An Option is a row of a table.
type Option struct {
	Key       string
	Type      Type
	Default   string // as DescribeConfigs shows it
	NoDefault bool   // null
	Check     Check  // nil: any value of the type
	Doc       string
	Mode      Mode
	Internal  bool     // accepted, never described
	Inert     bool     // accepted for Kafka's sake, without effect here
	Own       bool     // Quire's, unknown to Kafka
	Broker    []string // of a topic's option: broker keys that supply its value, first set wins, with units (log.retention.ms, .minutes, .hours)
}

// A Check returns Kafka's complaint about a value of the right type, without its head ("Value must be at least 1"), or "".
type Check func(value string) string

// Topic, Broker, Group and ClientMetrics are the tables, sorted by key.
func Topic() []Option         { panic("unwritten") }
func Broker() []Option        { panic("unwritten") }
func Group() []Option         { panic("unwritten") }
func ClientMetrics() []Option { panic("unwritten") }

// Lookup finds a row. Nearest returns the known key most like an unknown one.
func Lookup(table []Option, key string) (*Option, bool) { panic("unwritten") }
func Nearest(table []Option, key string) string         { panic("unwritten") }

// An InvalidError is a refusal in Kafka's words, such as
// "Invalid value 0 for configuration segment.ms: Value must be at least 1".
type InvalidError struct{ Key, Value, Message string }

func (e *InvalidError) Error() string { return e.Message }

// Validate checks one value by its row: *InvalidError.
func (o *Option) Validate(value string) error { panic("unwritten") }

// ValidateTopic checks a topic's overrides, each by its row and the rules over several; unknown names: "Unknown topic config name: x".
func ValidateTopic(overrides map[string]string) error { panic("unwritten") }
