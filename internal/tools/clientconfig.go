package tools

import (
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quire-log/quire/internal/config"
)

// clientConfig is the properties of a client, as its Java twin would have them. Keys that it does not know are passed over, as Java does.
type clientConfig map[string]string

// loadProperties reads a properties file.
func loadProperties(path string) (clientConfig, error) {
	f, err := os.Open(path)
	switch {
	case os.IsNotExist(err):
		return nil, throw("java.nio.file.NoSuchFileException", path)
	case os.IsPermission(err):
		return nil, throw("java.nio.file.AccessDeniedException", path)
	case err != nil:
		return nil, throw("java.nio.file.FileSystemException", err.Error())
	}
	defer f.Close()
	read, err := config.ReadProperties(f)
	if err != nil {
		return nil, throw(illegalArgument, err.Error())
	}
	return read, nil
}

// addPairs sets properties given as key=value. A key without = has an empty value.
func (c clientConfig) addPairs(pairs []string) {
	for _, pair := range pairs {
		key, value, _ := strings.Cut(pair, "=")
		c[key] = value
	}
}

// number returns an integer property, or def. Its error is Java's.
func (c clientConfig) number(key string, bits int, def int64) (int64, error) {
	text, ok := c[key]
	if !ok {
		return def, nil
	}
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, bits)
	if err != nil {
		typ := "INT"
		if bits == 64 {
			typ = "LONG"
		}
		return 0, configError(key, text, "Not a number of type "+typ)
	}
	return n, nil
}

// atLeast is number with a lower bound.
func (c clientConfig) atLeast(key string, bits int, def, least int64) (int64, error) {
	n, err := c.number(key, bits, def)
	if err == nil && n < least {
		err = configError(key, strconv.FormatInt(n, 10), fmt.Sprintf("Value must be at least %d", least))
	}
	return n, err
}

// millis is atLeast 0 as a duration.
func (c clientConfig) millis(key string, bits int, def int64) (time.Duration, error) {
	n, err := c.atLeast(key, bits, def, 0)
	return time.Duration(min(n, maxMillis)) * time.Millisecond, err
}

// maxMillis keeps a duration from overflowing: Java's users write 9223372036854775807 for ever.
const maxMillis = int64(1<<63-1) / int64(time.Millisecond)

// boolean returns a property that is true or false.
func (c clientConfig) boolean(key string, def bool) (bool, error) {
	text, ok := c[key]
	if !ok {
		return def, nil
	}
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, configError(key, text, "Expected value to be either true or false")
}

// oneOf returns a property that must be one of some words.
func (c clientConfig) oneOf(key, def string, words ...string) (string, error) {
	text, ok := c[key]
	if !ok {
		return def, nil
	}
	if !slices.Contains(words, text) {
		return "", configError(key, text, "String must be one of: "+strings.Join(words, ", "))
	}
	return text, nil
}

func configError(key, value, message string) error {
	return throw(configException, fmt.Sprintf("Invalid value %s for configuration %s: %s", value, key, message))
}

// addressPattern is an address of bootstrap.servers: an optional protocol://, a host, an IPv6 one in brackets, and a port.
var addressPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:[0-9a-zA-Z\-%._]*://)?(?:\[?([0-9a-zA-Z\-%._:]*)\]?):([0-9]+)$`)
})

// bootstrap returns the addresses of bootstrap.servers that resolve. The rest is told on stderr.
func (c clientConfig) bootstrap(stderr io.Writer) ([]string, error) {
	var found []string
	for address := range strings.SplitSeq(c["bootstrap.servers"], ",") {
		if address = strings.TrimSpace(address); address == "" {
			continue
		}
		m := addressPattern().FindStringSubmatch(address)
		if m == nil {
			return nil, throw(configException, "Invalid url in bootstrap.servers: "+address)
		}
		if port, err := strconv.Atoi(m[2]); err != nil || port > 65535 {
			return nil, throw(configException, "Invalid port in bootstrap.servers: "+address)
		}
		if net.ParseIP(m[1]) == nil {
			if _, err := net.LookupHost(m[1]); err != nil {
				logLine(stderr, "WARN", fmt.Sprintf("Couldn't resolve server %s from bootstrap.servers as DNS resolution failed for %s", address, m[1]),
					"org.apache.kafka.clients.ClientUtils", nil)
				continue
			}
		}
		found = append(found, net.JoinHostPort(m[1], m[2]))
	}
	if found == nil {
		return nil, throw(configException, "No resolvable bootstrap urls given in bootstrap.servers")
	}
	return found, nil
}

// logLine writes a line as Kafka's tools log it, with the exception that it is about.
func logLine(w io.Writer, level, message, logger string, err *javaError) {
	fmt.Fprintf(w, "[%s] %s %s (%s)\n", time.Now().Format("2006-01-02 15:04:05,000"), level, message, logger)
	if err != nil {
		fmt.Fprintln(w, err.trace())
	}
}
