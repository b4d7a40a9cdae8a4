package config

import (
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The checks that rows name. What they return are Kafka's words (I2).

func atLeast(low float64) Check {
	return func(value string) string {
		if number(value) < low {
			return "Value must be at least " + bound(low)
		}
		return ""
	}
}

func between(low, high float64) Check {
	return func(value string) string {
		switch n := number(value); {
		case n < low:
			return "Value must be at least " + bound(low)
		case n > high:
			return "Value must be no more than " + bound(high)
		}
		return ""
	}
}

// number reads a value whose type was checked. Bounds are small, so that a float64 is exact where it matters.
func number(value string) float64 {
	n, _ := parseDouble(value)
	return n
}

func bound(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

func anyOf(choices ...string) Check {
	return func(value string) string {
		if !slices.Contains(choices, value) {
			return "String must be one of: " + strings.Join(choices, ", ")
		}
		return ""
	}
}

func anyFold(choices ...string) Check {
	return func(value string) string {
		if !slices.ContainsFunc(choices, func(c string) bool { return strings.EqualFold(c, value) }) {
			return "String must be one of (case insensitive): " + strings.Join(choices, ", ")
		}
		return ""
	}
}

// nonNull is for the few strings that Kafka declares so: any text passes, the empty one too.
func nonNull(string) string { return "" }

func gzipLevel(value string) string {
	if n := number(value); n != -1 && (n < 1 || n > 9) {
		return "Value must be between 1 and 9 or equal to -1"
	}
	return ""
}

func hostPortOrNothing(value string) string {
	if value == "" {
		return ""
	}
	_, port, err := net.SplitHostPort(value)
	if err != nil {
		return "Value must be HOST:PORT or empty"
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return "Port must be between 0 and 65535"
	}
	return ""
}

var overridePattern = regexp.MustCompile(`^\s*\[?[^\s,\[\]]+\]?:\d+\s*$`)

func perIPOverrides(value string) string {
	if value == "" {
		return ""
	}
	for part := range strings.SplitSeq(value, ",") {
		if !overridePattern.MatchString(part) {
			return "Value must be a list of host:n, separated by commas"
		}
	}
	return ""
}

var offsetResetPattern = regexp.MustCompile(`^(?i:earliest|latest|by_duration:P(\d+D)?(T(\d+H)?(\d+M)?(\d+(\.\d{1,9})?S)?)?)$`)

func offsetReset(value string) string {
	if v := strings.ToUpper(value); !offsetResetPattern.MatchString(value) || strings.HasSuffix(v, ":P") || strings.HasSuffix(v, "T") && strings.HasPrefix(v, "BY_") {
		return "Invalid value `" + value + "` for configuration share.auto.offset.reset. " +
			"The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
	}
	return ""
}

// subsetOf allows any of the choices, none too. Twice the same is not refused: Kafka only warns.
func subsetOf(choices ...string) Whole {
	one := anyOf(choices...)
	return func(key string, items []string) string {
		for _, item := range items {
			if item == "" {
				return "Configuration '" + key + "' values must not be empty."
			}
			if m := one(item); m != "" {
				return head(key, item) + m
			}
		}
		return ""
	}
}

// oneOfEach allows any of the choices, at least one, none twice.
func oneOfEach(choices ...string) Whole {
	one := anyOf(choices...)
	return func(key string, items []string) string {
		if len(items) == 0 {
			return "Configuration '" + key + "' must not be empty. Valid values include: [" + strings.Join(choices, ", ") + "]"
		}
		if m := noneTwice(key, items); m != "" {
			return m
		}
		for _, item := range items {
			if m := one(item); m != "" {
				return head(key, item) + m
			}
		}
		return ""
	}
}

func notEmptyList(key string, items []string) string {
	if len(items) == 0 {
		return "Configuration '" + key + "' must not be empty. Valid values include: any non-empty value"
	}
	return noneTwice(key, items)
}

func noneTwice(key string, items []string) string {
	for n, item := range items {
		if slices.Contains(items[:n], item) {
			return "Configuration '" + key + "' values must not be duplicated."
		}
	}
	if slices.Contains(items, "") {
		return "Configuration '" + key + "' values must not be empty."
	}
	return ""
}

var throttledPattern = regexp.MustCompile(`^([0-9]+:[0-9]+)$`)

func throttledReplicas(key string, items []string) string {
	if len(items) == 1 && items[0] == "*" {
		return ""
	}
	for _, item := range items {
		if !throttledPattern.MatchString(item) {
			return head(key, "["+strings.Join(items, ", ")+"]") + key +
				" must be the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
		}
	}
	return ""
}

func quorumVoters(key string, items []string) string {
	for _, item := range items {
		if _, complaint := parseVoter(item); complaint != "" {
			return head(key, item) + complaint
		}
	}
	return ""
}

// parseVoter reads the id of id@host:port, or returns what Kafka says against it.
func parseVoter(item string) (id int32, complaint string) {
	n, address, ok := strings.Cut(item, "@")
	if !ok {
		return 0, "Each entry in controller.quorum.voters must be in the form `{id}@{host}:{port}`."
	}
	v, err := strconv.ParseInt(n, 10, 32)
	if err != nil {
		return 0, "Failed to parse voter ID as an integer from " + item
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return 0, "Failed to parse host name and port from " + item
	}
	return int32(v), ""
}

func head(key, value string) string {
	return "Invalid value " + value + " for configuration " + key + ": "
}
