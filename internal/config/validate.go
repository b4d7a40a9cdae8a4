package config

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// An InvalidError is a refusal in Kafka's words, such as
// "Invalid value 0 for configuration segment.ms: Value must be at least 1".
type InvalidError struct{ Key, Value, Message string }

func (e *InvalidError) Error() string { return e.Message }

// Validate checks one value by its row: *InvalidError.
func (o *Option) Validate(value string) error {
	_, err := o.parse(value)
	return err
}

// parse returns the value as DescribeConfigs shows it, once it is of the row's type and passes its check (I1).
func (o *Option) parse(value string) (string, error) {
	text := trim(value)
	refuse := func(message string) (string, error) {
		shown := value
		if o.Sensitive() {
			shown = "[hidden]"
		}
		return "", &InvalidError{Key: o.Key, Value: shown, Message: head(o.Key, shown) + message}
	}
	switch o.Type {
	case Boolean:
		text = strings.ToLower(text)
		if text != "true" && text != "false" {
			return refuse("Expected value to be either true or false")
		}
	case Short, Int, Long:
		bits := map[Type]int{Short: 16, Int: 32, Long: 64}[o.Type]
		n, err := strconv.ParseInt(text, 10, bits)
		if err != nil {
			return refuse("Not a number of type " + o.Type.String())
		}
		text = strconv.FormatInt(n, 10)
	case Double:
		n, err := parseDouble(text)
		if err != nil {
			return refuse("Not a number of type DOUBLE")
		}
		text = javaDouble(n)
	case List:
		items := splitList(text)
		if o.Whole != nil {
			if m := o.Whole(o.Key, items); m != "" {
				return "", &InvalidError{Key: o.Key, Value: value, Message: m}
			}
		}
		text = strings.Join(items, ",")
	case Class:
		// Of the classes that Kafka ships only the names of defaults are known here; there is no class path to look others up in.
		if text != o.Default || o.NoDefault {
			return refuse("Class " + text + " could not be found.")
		}
	}
	if o.Check != nil {
		if m := o.Check(text); m != "" {
			return refuse(m)
		}
	}
	return text, nil
}

// trim cuts what Java's String.trim cuts: everything up to the blank.
func trim(s string) string { return strings.TrimFunc(s, func(r rune) bool { return r <= ' ' }) }

// splitList cuts a list as Kafka does: blanks around commas go, empty items stay, the empty text has none.
func splitList(text string) []string {
	if text = trim(text); text == "" {
		return nil
	}
	items := strings.Split(text, ",")
	for i := range items {
		items[i] = strings.Trim(items[i], " \t\n\v\f\r") // what \s is in a Java pattern
	}
	return items
}

// doublePattern is what Java's Double.parseDouble takes of what this table needs: Go's hexadecimal, underscores and infinities are not among it.
var doublePattern = regexp.MustCompile(`^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[dDfF]?$`)

func parseDouble(text string) (float64, error) {
	if !doublePattern.MatchString(text) {
		return 0, strconv.ErrSyntax
	}
	n, err := strconv.ParseFloat(strings.TrimRight(text, "dDfF"), 64)
	if err != nil && math.IsInf(n, 0) {
		return 0, err
	}
	return n, nil
}

// javaDouble writes a number as Java's Double.toString: 0.5, 1.0E10, 1.7976931348623157E308.
func javaDouble(n float64) string {
	if a := math.Abs(n); n == 0 || a >= 1e-3 && a < 1e7 {
		s := strconv.FormatFloat(n, 'f', -1, 64)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
		return s
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(n, 'E', -1, 64), "E")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	e, _ := strconv.Atoi(exponent)
	return mantissa + "E" + strconv.Itoa(e)
}

// ValidateTopic checks a topic's overrides, each by its row and the rules over several; unknown names: "Unknown topic config name: x".
func ValidateTopic(overrides map[string]string) error { return ValidateTopicOn(overrides, Layers{}) }

// ValidateTopicOn is ValidateTopic where broker values supply what the topic leaves out.
func ValidateTopicOn(overrides map[string]string, l Layers) error {
	keys := slices.Sorted(maps.Keys(overrides))
	for _, key := range keys {
		if _, ok := Lookup(Topic(), key); !ok {
			return &InvalidError{Key: key, Value: overrides[key], Message: "Unknown topic config name: " + key}
		}
	}
	for _, key := range keys {
		o, _ := Lookup(Topic(), key)
		if err := o.Validate(overrides[key]); err != nil {
			return err
		}
	}
	value := func(key string) Value {
		o, _ := Lookup(Topic(), key)
		return TopicValue(o, overrides, l)
	}
	least, most := value("min.compaction.lag.ms"), value("max.compaction.lag.ms")
	if least.Int64() > most.Int64() {
		return &InvalidError{Key: least.Option.Key, Value: least.Text, Message: fmt.Sprintf(
			"conflict topic config setting %s (%s) > %s (%s)", least.Option.Key, least.Text, most.Option.Key, most.Text)}
	}
	if v := value("remote.storage.enable"); v.Bool() {
		return &InvalidError{Key: v.Option.Key, Value: v.Text,
			Message: "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."}
	}
	return nil
}

// ValidateGroup checks a group's overrides, each by its row and against the broker's twins of least and most.
func ValidateGroup(overrides map[string]string, l Layers) error {
	keys := slices.Sorted(maps.Keys(overrides))
	for _, key := range keys {
		if _, ok := Lookup(Group(), key); !ok {
			return &InvalidError{Key: key, Value: overrides[key], Message: "Unknown group config name: " + key}
		}
	}
	for _, key := range keys {
		o, _ := Lookup(Group(), key)
		if err := o.Validate(overrides[key]); err != nil {
			return err
		}
	}
	// Kafka checks all that the group comes to, not only what is set: a broker's own value that lies outside its own bounds refuses too.
	for i := range Group() {
		o := &Group()[i]
		if len(o.Broker) == 0 {
			continue
		}
		value := GroupValue(o, overrides, l)
		protocol, rest, _ := strings.Cut(o.Key, ".")
		for _, twin := range []struct {
			infix, words string
			wrong        func(v, bound int64) bool
		}{
			{".min.", "greater", func(v, bound int64) bool { return v < bound }},
			{".max.", "less", func(v, bound int64) bool { return v > bound }},
		} {
			key := "group." + protocol + twin.infix + rest
			if o.Key == "streams.num.standby.replicas" {
				key = "group.streams" + twin.infix + "standby.replicas"
			}
			b, ok := Lookup(Broker(), key)
			if !ok {
				continue
			}
			if twin.wrong(value.Int64(), BrokerValue(b, l).Int64()) {
				return &InvalidError{Key: o.Key, Value: value.Text, Message: fmt.Sprintf("%s must be %s than or equal to %s", o.Key, twin.words, key)}
			}
		}
	}
	for _, protocol := range []string{"consumer", "share", "streams"} {
		session, _ := Lookup(Group(), protocol+".session.timeout.ms")
		heartbeat, _ := Lookup(Group(), protocol+".heartbeat.interval.ms")
		s, h := GroupValue(session, overrides, l), GroupValue(heartbeat, overrides, l)
		if s.Int64() <= h.Int64() {
			return &InvalidError{Key: session.Key, Value: s.Text, Message: session.Key + " must be greater than " + heartbeat.Key}
		}
	}
	return nil
}

// matchKeys are what a client-metrics subscription may select clients by.
var matchKeys = []string{"client_instance_id", "client_id", "client_software_name", "client_software_version", "client_source_address", "client_source_port"}

// ValidateClientMetrics checks the values of a subscription.
func ValidateClientMetrics(values map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		value := values[key]
		refuse := func(message string) error { return &InvalidError{Key: key, Value: value, Message: message} }
		o, ok := Lookup(ClientMetrics(), key)
		if !ok {
			return refuse("Unknown client metrics configuration: " + key)
		}
		switch key {
		case "interval.ms":
			n, err := strconv.ParseInt(trim(value), 10, 32)
			if err != nil {
				return o.Validate(value)
			}
			if n < 100 || n > 3600000 {
				return refuse(fmt.Sprintf("Invalid value %s for interval.ms, interval must be between 100 and 3600000 (1 hour)", value))
			}
		case "match":
			for _, item := range splitList(value) {
				name, pattern, ok := strings.Cut(item, "=")
				name, pattern = trim(name), trim(pattern)
				if !ok || !slices.Contains(matchKeys, name) {
					return refuse("Illegal client matching pattern: " + item)
				}
				if _, err := regexp.Compile(pattern); err != nil {
					return refuse("Illegal client matching pattern: " + item)
				}
			}
		}
	}
	return nil
}

// Rule is what a refusal says is wrong, without the head that repeats key and value.
func Rule(e *InvalidError) string { return strings.TrimPrefix(e.Message, head(e.Key, e.Value)) }
