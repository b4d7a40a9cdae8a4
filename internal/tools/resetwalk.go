package tools

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A resetRow is where a group goes in a partition.
type resetRow struct {
	groupPartition
	offset int64
}

func compareResets(a, b resetRow) int { return comparePartitions(a.groupPartition, b.groupPartition) }

// A resetWalk finds offsets for groups to go to. The tools that reset differ only in what they say of it.
type resetWalk struct {
	*admin
	empty  func(p groupPartition)                  // no record is late enough: it goes to the end
	moved  func(r resetRow, side string, to int64) // the offset lies outside of the log, on that side, and is set to one inside
	failed func(err error) error                   // how an answer's error is thrown
}

// at goes to the first record at or after a time, or to its end where there is none.
func (w *resetWalk) at(partitions []groupPartition, when int64) ([]resetRow, error) {
	found, err := w.offsetsAt(partitions, when, true)
	if err != nil {
		return nil, w.failed(err)
	}
	var none []groupPartition
	for _, p := range partitions {
		if found[p] < 0 {
			none = append(none, p)
		}
	}
	ends, err := w.offsetsAt(none, namedTimes["latest"], true)
	if err != nil {
		return nil, w.failed(err)
	}
	rows := make([]resetRow, len(partitions))
	for i, p := range partitions {
		rows[i] = resetRow{p, found[p]}
		if end, ok := ends[p]; ok {
			w.empty(p)
			rows[i].offset = end
		}
	}
	return rows, nil
}

// within cuts offsets to what the partitions hold.
func (w *resetWalk) within(rows []resetRow) ([]resetRow, error) {
	partitions := make([]groupPartition, len(rows))
	for i, r := range rows {
		partitions[i] = r.groupPartition
	}
	starts, err := w.offsetsAt(partitions, namedTimes["earliest"], true)
	if err != nil {
		return nil, w.failed(err)
	}
	ends, err := w.offsetsAt(partitions, namedTimes["latest"], true)
	if err != nil {
		return nil, w.failed(err)
	}
	for i, r := range rows {
		switch start, end := starts[r.groupPartition], ends[r.groupPartition]; {
		case r.offset > end:
			w.moved(r, "higher than latest", end)
			rows[i].offset = end
		case r.offset < start:
			w.moved(r, "lower than earliest", start)
			rows[i].offset = start
		}
	}
	return rows, nil
}

// timeOfWay is the time, or what names one, that the options of a reset ask for; ok is false if they ask for another way.
func timeOfWay(set *joptSet) (when int64, ok bool, err error) {
	switch {
	case set.has("to-earliest"):
		return namedTimes["earliest"], true, nil
	case set.has("to-latest"):
		return namedTimes["latest"], true, nil
	case set.has("to-datetime"):
		text, err := set.resetValue("to-datetime")
		if err != nil {
			return 0, false, err
		}
		when, err := javaDateTime(text)
		return when, true, err
	case set.has("by-duration"):
		text, err := set.resetValue("by-duration")
		if err != nil {
			return 0, false, err
		}
		d, err := javaDuration(text)
		return time.Now().Add(-d).UnixMilli(), true, err
	}
	return 0, false, nil
}

// resetValue is the value of a way to reset. Of some that are given more than once the first counts, of the others that is an error.
func (s *joptSet) resetValue(way string) (string, error) {
	given := s.all(way)
	if !slices.Contains([]string{"to-offset", "to-datetime", "from-file"}, way) || len(given) == 0 {
		text, _, err := s.text(way)
		return text, err
	}
	for _, value := range given {
		if !s.parser.lookup(way).accepts(value) {
			return "", cannotParse(value, way)
		}
	}
	return given[0], nil
}

// parseException is what Java throws at a text that is no time.
const parseException = "java.text.ParseException"

// javaDateTime reads a time such as 2026-01-31T12:00:00.000, in UTC unless it says otherwise, as milliseconds since 1970.
func javaDateTime(text string) (int64, error) {
	_, clock, ok := strings.Cut(strings.TrimRight(text, "T"), "T")
	if !ok {
		return 0, throw(parseException, "Error parsing timestamp. It does not contain a 'T' according to ISO8601 format")
	}
	if !strings.ContainsAny(clock, "+-Z") {
		text += "Z"
	}
	for _, layout := range []string{"2006-01-02T15:04:05.000Z07:00", "2006-01-02T15:04:05.000Z0700", "2006-01-02T15:04:05.000Z07"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UnixMilli(), nil
		}
	}
	return 0, throw(parseException, fmt.Sprintf("Unparseable date: \"%s\"", text))
}

var durationPattern = regexp.MustCompile(`(?i)^([-+]?)P(?:([-+]?[0-9]+)D)?(T(?:([-+]?[0-9]+)H)?(?:([-+]?[0-9]+)M)?(?:([-+]?[0-9]+)(?:[.,]([0-9]{0,9}))?S)?)?$`)

// javaDuration is Duration.parse, for durations that a time.Duration can hold.
func javaDuration(text string) (time.Duration, error) {
	refused := throw("java.time.format.DateTimeParseException", "Text cannot be parsed to a Duration")
	m := durationPattern.FindStringSubmatch(text)
	if m == nil || strings.EqualFold(m[3], "T") || m[2] == "" && m[3] == "" {
		return 0, refused
	}
	seconds := 0.0
	for i, unit := range map[int]float64{2: 24 * 3600, 4: 3600, 5: 60, 6: 1} {
		if m[i] == "" {
			continue
		}
		n, err := strconv.ParseInt(m[i], 10, 64)
		if err != nil {
			return 0, refused
		}
		seconds += float64(n) * unit
	}
	if m[7] != "" {
		fraction, err := strconv.ParseFloat("0."+m[7], 64)
		if err != nil {
			return 0, refused
		}
		seconds += math.Copysign(fraction, map[bool]float64{true: -1, false: 1}[strings.HasPrefix(m[6], "-")])
	}
	if m[1] == "-" {
		seconds = -seconds
	}
	if math.Abs(seconds) > math.MaxInt64/1e9 {
		return 0, refused
	}
	return time.Duration(seconds * 1e9), nil
}
