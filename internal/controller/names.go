package controller

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// metadataTopic is no topic that a client may make: its log is this controller's.
const metadataTopic = "__cluster_metadata"

const topicNameMax = 249 // so that a directory's name, with partition and suffix, fits in 255 bytes

// CheckTopicName is nil, or Kafka's complaint about a topic's name (INVALID_TOPIC_EXCEPTION).
func CheckTopicName(name string) error {
	complain := func(format string, args ...any) error {
		return refuse(kerr.InvalidTopicException, "Topic name is invalid: "+fmt.Sprintf(format, args...))
	}
	switch {
	case name == "":
		return complain("the empty string is not allowed")
	case name == "." || name == "..":
		return complain("'%s' is not allowed", name)
	case len(name) > topicNameMax && len([]rune(name)) > topicNameMax:
		return complain("the length of '%s' is longer than the max allowed length %d", name, topicNameMax)
	case strings.ContainsFunc(name, func(r rune) bool { return !legal(r) }):
		return complain("'%s' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'", name)
	}
	return nil
}

func legal(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
}

// collisionKey is the same for names that Kafka's metrics could not tell apart: '.' and '_' count as one. "": name has neither.
func collisionKey(name string) string {
	if !strings.ContainsAny(name, "._") {
		return ""
	}
	return strings.ReplaceAll(name, ".", "_")
}
