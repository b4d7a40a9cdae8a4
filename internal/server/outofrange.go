package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quire-log/quire/internal/group"
	"github.com/quire-log/quire/internal/replica"
	"github.com/quire-log/quire/internal/storage"
	"github.com/quire-log/quire/internal/wire"
)

// eventOutOfRange: a client asked for an offset that a partition does not have, so its consumer begins somewhere else, as
// auto.offset.reset says.
const eventOutOfRange group.EventKind = "out of range"

// Why an offset is not there.
const (
	goneByRetention = "retention"     // a rule of the topic let go of it
	goneByRequest   = "DeleteRecords" // somebody did
	goneByTruncate  = "truncation"    // it was cut off the end
	goneWithTopic   = "recreated"     // the topic was deleted and made anew
	neverExisted    = "never existed" // the log has not come so far
	goneLongAgo     = "unknown"       // it went before the events that are remembered
)

// sameLately is how many of the last events a client's question is compared with: one that asks again and again is counted.
const sameLately = 64

// outsidersMax bounds the partitions of one request that are remembered: to look for a cause takes a while, and others have events too.
const outsidersMax = 32

// noteOutsiders remembers of which partitions a fetch asked for an offset that they do not have.
func (n *Node) noteOutsiders(req *wire.Request, s *fetchState) {
	noted := 0
	for i := range s.parts {
		p := &s.parts[i]
		if p.result.code != codeOffsetOutOfRange {
			continue
		}
		if noted++; noted > outsidersMax {
			return
		}
		if r := n.partition(&s.head, p.key); r != nil {
			n.noteOutOfRange(req, r, p.ask.offset)
		}
	}
}

// noteOutOfRange remembers that a client asked for an offset that a partition does not have.
func (n *Node) noteOutOfRange(req *wire.Request, p *replica.Partition, offset int64) {
	log := p.Log()
	if log == nil {
		return
	}
	c := groupClient(req)
	tp := p.TopicPartition()
	e := groupEvent{
		Time: time.Now(), Kind: eventOutOfRange, Count: 1,
		Client: strings.Clone(c.ID), Host: c.Host, Topic: tp.Topic, Partition: &tp.Partition, Position: &offset,
	}
	if n.groupEvents.again(&e) {
		return
	}
	start := int64(log.StartOffset())
	skipped := max(0, start-offset)
	e.Skipped = &skipped
	e.Reason, e.Cause = n.whyMissing(tp, offset, start, int64(p.HighWatermark()))
	n.groupEvents.put(e)
}

// whyMissing finds out why an offset outside of [start, end] is not there.
func (n *Node) whyMissing(tp storage.TopicPartition, offset, start, end int64) (reason, cause string) {
	last := func(want func(e *storage.Event) bool) []storage.TimedEvent {
		return n.events.Last(outOfRangeEvents, func(e *storage.Event) bool { return e.Partition == tp && want(e) })
	}
	if offset < start {
		moved := last(func(e *storage.Event) bool { return e.Kind == "log-start" && int64(e.Offset) > offset })
		if len(moved) == 0 {
			return goneLongAgo, fmt.Sprintf("the log begins at %d, and has since before events are remembered", start)
		}
		first := moved[len(moved)-1] // the one that took it
		reason = goneByRetention
		if strings.HasSuffix(first.Cause, "on demand") {
			reason = goneByRequest
		}
		return reason, fmt.Sprintf("the log begins at %d; at %s its start moved to %d: %s", start, first.At.UTC().Format(time.RFC3339), first.Offset, first.Cause)
	}
	cut := last(func(e *storage.Event) bool {
		return e.Kind == "delete-log" || (e.Kind == "truncate" || e.Kind == "recover") && e.Offset >= 0 && int64(e.Offset) <= offset
	})
	if len(cut) == 0 {
		return neverExisted, fmt.Sprintf("the log ends at %d", end)
	}
	reason = goneByTruncate
	if cut[0].Kind == "delete-log" {
		reason = goneWithTopic
	}
	return reason, fmt.Sprintf("the log ends at %d; at %s: %s", end, cut[0].At.UTC().Format(time.RFC3339), cut[0].Cause)
}

// outOfRangeEvents bounds the events of a partition that are looked at for a cause.
const outOfRangeEvents = 1000

// again counts an event that is one of the last ones once more.
func (e *groupEvents) again(x *groupEvent) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range min(len(e.ring), sameLately) {
		y := &e.ring[(e.next+len(e.ring)-1-i)%len(e.ring)]
		if y.Kind == x.Kind && y.Client == x.Client && y.Host == x.Host && y.Topic == x.Topic && *y.Partition == *x.Partition && *y.Position == *x.Position {
			y.Count++
			y.Time = x.Time
			return true
		}
	}
	return false
}

// groupOfClients says of events without a group which of them are a group's: of clients that are its members and have the partition.
func (n *Node) groupOfClients(name string, events []groupEvent) []groupEvent {
	if !slices.ContainsFunc(events, func(e groupEvent) bool { return e.Group == "" }) {
		return events
	}
	owned, code := askGroup(context.Background(), n, name, func(m *groupMachine, _ time.Time, reply func([]bool)) effect {
		owned := make([]bool, len(events))
		for i, e := range events {
			owned[i] = e.Group == "" && m.Reads(name, group.Client{ID: e.Client, Host: e.Host}, e.Topic, *e.Partition)
		}
		reply(owned)
		return effect{}
	})
	kept := events[:0]
	for i, e := range events {
		if e.Group == "" && code == nil && owned[i] {
			e.Group = name
		}
		if e.Group == name {
			kept = append(kept, e)
		}
	}
	return kept
}
