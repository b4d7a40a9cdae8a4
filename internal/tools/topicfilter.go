package tools

import (
	"regexp"
	"strings"
)

// isInternal reports whether a topic is one that Kafka keeps for itself.
func isInternal(topic string) bool {
	return topic == "__consumer_offsets" || topic == "__transaction_state" || topic == "__share_group_state"
}

// topicFilter matches whole topic names with a regular expression in Java's syntax; commas separate alternatives.
type topicFilter struct{ re *regexp.Regexp }

func newTopicFilter(raw string) (*topicFilter, error) {
	pattern := strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(raw), ",", "|"), " ", "")
	pattern = strings.Trim(pattern, `"'`)
	re, err := compileJava(pattern)
	if err != nil {
		return nil, throw("java.lang.RuntimeException", pattern+" is an invalid regex.")
	}
	return &topicFilter{re}, nil
}

func (f *topicFilter) allows(topic string) bool { return f.re.MatchString(topic) }

// compileJava compiles a regular expression of Java's to match a whole text. RE2 has neither look-around, back references nor
// possessive quantifiers, and says so; what both have means the same, but for Java's \Z and \h.
func compileJava(pattern string) (*regexp.Regexp, error) {
	// Compiled alone first: "a)(b" must not become valid between the brackets.
	if _, err := regexp.Compile(pattern); err != nil {
		return nil, err
	}
	return regexp.Compile(`^(?:` + pattern + `)$`)
}
