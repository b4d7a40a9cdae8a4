package tools

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/quire-log/quire/internal/config"
)

const explainUsage = `Example:
  quire explain retention orders-1
  quire explain config orders retention.ms

Usage: quire explain retention TOPIC[-PARTITION]
       quire explain compaction TOPIC[-PARTITION]
       quire explain config TOPIC KEY
       quire explain events [TOPIC[-PARTITION]]

Says why data is still there, or no longer: which rule, which value, where the value came from, and what comes next.
It asks a node at its admin.listener.

`

// explainAnswerMax bounds what is read of an answer.
const explainAnswerMax = 64 << 20

// explain is `quire explain`: 0 when there is an answer, 1 when there is none, 2 for a wrong command line.
func explain(env Env, args []string) int {
	o, _ := config.Lookup(config.Broker(), "admin.listener")
	flags := pflag.NewFlagSet("explain", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	admin := flags.String("admin-url", "http://"+o.Default, "where the node's admin.listener is")
	asJSON := flags.Bool("json", false, "print the answer as the node gives it")
	usage := func(w io.Writer) { fmt.Fprint(w, explainUsage, flags.FlagUsages()) }
	err := flagComplaint(flags, flags.Parse(args))
	if errors.Is(err, pflag.ErrHelp) {
		usage(env.Stdout)
		return 0
	}
	words := flags.Args()
	query := url.Values{}
	var path string
	show := showReports
	switch {
	case err != nil:
	case len(words) == 2 && (words[0] == "retention" || words[0] == "compaction"):
		path = "/explain/" + words[0]
	case len(words) == 3 && words[0] == "config":
		path, show = "/explain/config", showSetting
		query.Set("topic", words[1])
		query.Set("key", words[2])
	case (len(words) == 1 || len(words) == 2) && words[0] == "events":
		path, show = "/events", showEvents
	default:
		err = explainMisuse(words)
	}
	if err != nil {
		fmt.Fprintf(env.Stderr, "quire explain: %v\n\n", err)
		usage(env.Stderr)
		return 2
	}
	ask := func() ([]byte, int, error) { return askAdmin(*admin, path, query) }
	var body []byte
	status := 0
	if words[0] != "config" && len(words) == 2 {
		// A topic's name may end like a partition's: the name as it stands is tried first.
		query.Set("topic", words[1])
		body, status, err = ask()
		topic, partition, found := cutPartition(words[1])
		if err == nil && found && (status == http.StatusNotFound || path == "/events" && strings.TrimSpace(string(body)) == "[]") {
			query.Set("topic", topic)
			query.Set("partition", partition)
			body, status, err = ask()
		}
	} else {
		body, status, err = ask()
	}
	if err == nil && status != http.StatusOK {
		err = errors.New(strings.TrimSpace(string(body)) + likeKey(string(body), query.Get("key")))
	}
	if err == nil && !*asJSON {
		err = show(env.Stdout, body)
	}
	if err != nil {
		fmt.Fprintln(env.Stderr, "quire explain:", err)
		return 1
	}
	if path == "/events" && !*asJSON && strings.TrimSpace(string(body)) == "[]" {
		fmt.Fprintln(env.Stderr, "nothing worth telling has happened yet")
	}
	if *asJSON {
		_, _ = env.Stdout.Write(body)
	}
	return 0
}

// likeKey completes a refusal that names a key of a topic's that nobody knows.
func likeKey(refusal, key string) string {
	if key == "" || !strings.Contains(refusal, strconv.Quote(key)) {
		return ""
	}
	near := config.Nearest(config.Topic(), key)
	if near == "" || near == key {
		return ""
	}
	return "; did you mean " + near + "?"
}

// explainMisuse says what is missing from the words of a command line, or wrong with them.
func explainMisuse(words []string) error {
	if len(words) > 0 {
		switch kinds := []string{"retention", "compaction", "config", "events"}; {
		case !slices.Contains(kinds, words[0]):
			if near := nearestOf(kinds, words[0]); near != "" {
				return fmt.Errorf("it does not explain %q; did you mean %s?", words[0], near)
			}
		case words[0] == "config" && len(words) == 2:
			return fmt.Errorf("which key of %s, such as retention.ms?", words[1])
		case len(words) == 1:
			return fmt.Errorf("%s of which topic?", words[0])
		}
	}
	return errors.New("it takes retention or compaction and a topic, config and a topic and a key, or events")
}

// cutPartition cuts a partition's name into topic and number.
func cutPartition(name string) (topic, partition string, ok bool) {
	i := strings.LastIndexByte(name, '-')
	if i <= 0 {
		return "", "", false
	}
	if _, err := strconv.ParseUint(name[i+1:], 10, 31); err != nil {
		return "", "", false
	}
	return name[:i], name[i+1:], true
}

func askAdmin(base, path string, query url.Values) ([]byte, int, error) {
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	client := http.Client{Timeout: 30 * time.Second}
	resp, err := client.Get(strings.TrimSuffix(base, "/") + path + "?" + query.Encode())
	if err != nil {
		return nil, 0, fmt.Errorf("the node cannot be asked (does it run, and is --admin-url its admin.listener?): %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, explainAnswerMax))
	return body, resp.StatusCode, err
}

// explainedReport is what /explain/retention and /explain/compaction answer, both in one: what is absent is zero.
type explainedReport struct {
	Report struct {
		Partition, CleanupPolicy, Clock, Says, Bound, LastDid, Error, Tombstones string
		LogStartOffset, LogEndOffset, HighWatermark, Bytes                       int64
		Segments                                                                 []explainedSegment
		Age                                                                      struct{ Says string }

		Due, Running                                                     bool
		FirstDirtyOffset, FirstUncleanableOffset, CleanBytes, DirtyBytes int64
		DirtyRatio                                                       float64
		LastEnd, RetryAt                                                 int64
		Failures                                                         int
	}
	Settings []explainedSetting
}

type explainedSegment struct {
	BaseOffset, EndOffset, Bytes, LargestTimestamp, Earliest int64
	Active                                                   bool
	KeptBy                                                   []explainedCause
	GoesBy                                                   *explainedCause
}

type explainedCause struct{ Setting, Value, Says string }

type explainedSetting struct {
	Key, Value, Source, Doc string
	WithoutEffect           bool
	OtherLayers             []explainedSetting
}

func (c explainedCause) text(from map[string]string) string {
	if c.Setting == "" {
		return c.Says
	}
	source := ""
	if s := from[c.Setting]; s != "" {
		source = " (" + s + ")"
	}
	return fmt.Sprintf("%s=%s%s: %s", c.Setting, c.Value, source, c.Says)
}

func timeText(ms int64) string {
	if ms < 0 || ms > 253402300799999 { // the year 9999
		return "never"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05 UTC")
}

// sourceText is a source as a sentence has it.
func sourceText(s string) string {
	return cmp.Or(map[string]string{
		"DYNAMIC_TOPIC_CONFIG": "set on the topic", "DYNAMIC_BROKER_CONFIG": "set on the broker", "DYNAMIC_DEFAULT_BROKER_CONFIG": "set for all brokers",
		"STATIC_BROKER_CONFIG": "from server.properties", "DEFAULT_CONFIG": "the default",
	}[s], s)
}

func showReports(w io.Writer, body []byte) error {
	var all []explainedReport
	if err := json.Unmarshal(body, &all); err != nil {
		return err
	}
	for _, e := range all {
		r := e.Report
		from := map[string]string{}
		for _, s := range e.Settings {
			from[s.Key] = sourceText(s.Source)
		}
		if r.Segments == nil { // compaction
			due := "not due"
			if r.Due {
				due = "due"
			}
			if r.Running {
				due = "being cleaned now"
			}
			fmt.Fprintf(w, "%s: %s: %s\n", r.Partition, due, r.Says)
			fmt.Fprintf(w, "  clean up to offset %d (%d bytes), dirty up to %d (%d bytes), ratio %.3f\n", r.FirstDirtyOffset, r.CleanBytes, r.FirstUncleanableOffset, r.DirtyBytes, r.DirtyRatio)
			if r.Bound != "" {
				fmt.Fprintf(w, "  nothing beyond: %s\n", r.Bound)
			}
			if r.LastEnd > 0 {
				fmt.Fprintf(w, "  last cleaned %s: %s\n", timeText(r.LastEnd), r.LastDid)
			}
			if r.Error != "" {
				fmt.Fprintf(w, "  FAILED %d times, tried again at %s: %s\n", r.Failures, timeText(r.RetryAt), r.Error)
			}
			fmt.Fprintf(w, "  tombstones and markers stay for %s\n", r.Tombstones)
		} else {
			fmt.Fprintf(w, "%s: offsets %d to %d, %d bytes, cleanup.policy=%s (%s)\n", r.Partition, r.LogStartOffset, r.LogEndOffset, r.Bytes, r.CleanupPolicy, from["cleanup.policy"])
			fmt.Fprintf(w, "  the clock that counts is %s\n  %s\n", r.Clock, r.Age.Says)
			for _, s := range r.Segments {
				active := ""
				if s.Active {
					active = ", active"
				}
				fmt.Fprintf(w, "  segment %d to %d, %d bytes, newest record %s%s\n", s.BaseOffset, s.EndOffset, s.Bytes, timeText(s.LargestTimestamp), active)
				if s.GoesBy != nil {
					fmt.Fprintf(w, "    goes at the next check: %s\n", s.GoesBy.text(from))
					continue
				}
				for _, k := range s.KeptBy {
					fmt.Fprintf(w, "    kept: %s\n", k.text(from))
				}
				if s.Earliest >= 0 {
					fmt.Fprintf(w, "    goes by age at %s or soon after\n", timeText(s.Earliest))
				}
			}
		}
	}
	return nil
}

func showSetting(w io.Writer, body []byte) error {
	var s explainedSetting
	if err := json.Unmarshal(body, &s); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s=%s, %s\n  %s\n", s.Key, s.Value, sourceText(s.Source), s.Doc)
	if s.WithoutEffect {
		fmt.Fprintln(w, "  It is accepted for Kafka's sake, and has no effect.")
	}
	for i, l := range s.OtherLayers {
		mark := " "
		if i == 0 {
			mark = "*"
		}
		fmt.Fprintf(w, "  %s %s=%s, %s\n", mark, l.Key, l.Value, sourceText(l.Source))
	}
	return nil
}

func showEvents(w io.Writer, body []byte) error {
	var all []struct {
		At, Offset             int64
		Partition, Kind, Cause string
	}
	if err := json.Unmarshal(body, &all); err != nil {
		return err
	}
	for _, e := range all {
		what := timeText(e.At)
		if e.Partition != "" { // else it is of a whole directory
			what += " " + e.Partition
		}
		what += " " + e.Kind
		if e.Offset >= 0 {
			what += fmt.Sprintf(" at %d", e.Offset)
		}
		fmt.Fprintf(w, "%s: %s\n", what, e.Cause)
	}
	return nil
}
