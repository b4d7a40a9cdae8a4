package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/quire-log/quire/internal/config"
)

const groupLagAbout = `Example:
  quire group lag
  quire group lag billing

Usage: quire group lag [GROUP]

Shows how far groups are behind: records that their consumers may read and have not committed, and the age of the first of
them. "~" stands before a number of offsets, where there may be fewer records than offsets and counting them would take too long.
It asks a node at its admin.listener about the groups that it coordinates.
Exit code: 0 shown; 1 there is no answer; 2 the command line makes no sense.
`

const groupEventsAbout = `Example:
  quire group events billing

Usage: quire group events [GROUP]

Shows the last events of groups, the oldest first: who joined, left, or was removed by which timeout, why the group
rebalanced, and which of its consumers asked for records that are not there.
It asks a node at its admin.listener about the groups that it coordinates.
Exit code: 0 shown; 1 there is no answer; 2 the command line makes no sense.
`

// askGroups runs a command that shows what a node's admin listener says of one group, or of all.
func askGroups(env Env, args []string, name, about, path string, show func(c *ownCommand, body []byte) (rows int, err error)) int {
	own := newOwnCommand(env, name, about)
	o, _ := config.Lookup(config.Broker(), "admin.listener")
	admin := own.flags.String("admin-url", "http://"+o.Default, "where the node's admin.listener is")
	asJSON := own.flags.Bool("json", false, "print the answer as the node gives it")
	group := own.flags.String("group", "", "the group to show, as quire group reset has it; the same as its name alone")
	words, ok, code := own.parse(args)
	if !ok {
		return code
	}
	query := url.Values{}
	if *group != "" {
		words = append(words, *group)
	}
	switch len(words) {
	case 0:
	case 1:
		query.Set("group", words[0])
	default:
		return own.misuse("one group at a time")
	}
	body, status, err := askAdmin(*admin, path, query)
	switch {
	case err != nil:
	case status != http.StatusOK:
		err = errors.New(strings.TrimSpace(string(body)))
	case *asJSON:
		_, err = env.Stdout.Write(body)
	default:
		var rows int
		rows, err = show(own, body)
		if g := query.Get("group"); err == nil && rows == 0 && g != "" {
			fmt.Fprintf(env.Stderr, "nothing is known of group %s: it has committed nothing, is not there, or another node coordinates it\n", g)
		} else if err == nil && rows == 0 {
			fmt.Fprintln(env.Stderr, "nothing is known of any group yet")
		}
	}
	if err != nil {
		return own.fail(err)
	}
	return exitGood
}

// groupLag is `quire group lag`.
func groupLag(env Env, args []string) int {
	return askGroups(env, args, "quire group lag", groupLagAbout, "/groups/lag", func(c *ownCommand, body []byte) (int, error) {
		var answer struct {
			Complete   bool
			Partitions []struct {
				Group, Topic                                string
				Partition                                   int32
				Committed, LogStartOffset, LastStableOffset int64
				Records                                     int64
				Exact                                       bool
				Seconds                                     float64
			}
		}
		if err := json.Unmarshal(body, &answer); err != nil {
			return 0, err
		}
		table := [][]string{{"GROUP", "TOPIC", "PARTITION", "COMMITTED", "LOG-START", "LAST-STABLE", "LAG", "BEHIND"}}
		for _, p := range answer.Partitions {
			lag := strconv.FormatInt(p.Records, 10)
			if !p.Exact {
				lag = "~" + lag
			}
			behind := time.Duration(p.Seconds * float64(time.Second)).Round(time.Millisecond)
			table = append(table, []string{p.Group, p.Topic, strconv.Itoa(int(p.Partition)), strconv.FormatInt(p.Committed, 10),
				strconv.FormatInt(p.LogStartOffset, 10), strconv.FormatInt(p.LastStableOffset, 10), lag, behind.String()})
		}
		printTable(c.env.Stdout, table)
		if !answer.Complete {
			fmt.Fprintln(c.env.Stdout, "\nThere are more partitions than are shown.")
		}
		return len(answer.Partitions), nil
	})
}

// groupEvents is `quire group events`.
func groupEvents(env Env, args []string) int {
	return askGroups(env, args, "quire group events", groupEventsAbout, "/groups/events", func(c *ownCommand, body []byte) (int, error) {
		var answer []struct {
			Time                                         time.Time
			Group, Kind, Member, Instance, Cause, Client string
			Generation                                   int32
			Count                                        int
			Topic                                        string
			Partition                                    int32
			Position, Skipped                            int64
		}
		if err := json.Unmarshal(body, &answer); err != nil {
			return 0, err
		}
		for _, e := range answer {
			line := []string{e.Time.UTC().Format("2006-01-02T15:04:05.000Z")}
			for _, word := range []string{e.Group, e.Kind, e.Member, e.Instance} {
				if word != "" {
					line = append(line, word)
				}
			}
			if e.Topic != "" {
				line = append(line, fmt.Sprintf("client %s at %s offset %d, %s", e.Client, partitionName(e.Topic, e.Partition), e.Position, counted(e.Skipped, "offset")+" skipped"))
				if e.Count > 1 {
					line = append(line, fmt.Sprintf("(%d times)", e.Count))
				}
			} else {
				line = append(line, fmt.Sprintf("generation %d", e.Generation))
				if e.Count > 0 {
					line = append(line, counted(int64(e.Count), "offset"))
				}
			}
			if e.Cause != "" {
				line = append(line, "- "+e.Cause)
			}
			fmt.Fprintln(c.env.Stdout, strings.Join(line, "  "))
		}
		return len(answer), nil
	})
}
