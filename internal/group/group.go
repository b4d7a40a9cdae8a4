package group

import (
	"strings"
	"time"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
)

// A group is all that one group id stands for. At most one of classic, consumer and other is there; with none of them it is the
// group of somebody who commits offsets without being a member.
type group struct {
	s    *Shard
	name string

	classic  *classicGroup
	consumer *consumerGroup
	other    *otherGroup

	// inLog is whether the log has the record of a classic group; stored is what it says, kept only until Loaded. keeps I2
	inLog  bool
	stored *kmeta.GroupMetadataValue

	offsets offsets
	recent  *topicOffsets     // one of offsets, or nil: of what was replayed last
	pending map[int64]offsets // of open transactions, by producer id

	// cleanup looks for offsets that expired or whose topics are gone, and for groups that nothing is left of.
	cleanup timer
}

// An otherGroup is a group that another coordinator leads: it is known, so that nobody takes its id, and listed.
type otherGroup struct {
	kind    string // Share, Streams
	members map[string]struct{}
}

func (s *Shard) groupOf(name string) *group {
	g := s.groups[name]
	if g == nil {
		g = &group{s: s, name: name, offsets: offsets{}}
		g.cleanup.fire = g.clean
		s.groups[name] = g
	}
	return g
}

// loaded makes what is soft from what the log said, and begins its timers.
func (g *group) loaded(now time.Time) {
	if g.stored != nil {
		g.classic = newClassicGroup(g)
		g.classic.load(now, g.stored)
		g.stored = nil
	}
	if g.consumer != nil {
		g.consumer.loaded(now)
	}
	next := now.Add(g.s.config.RetentionCheckInterval)
	if g.hasOrphans() {
		next = now
	}
	g.s.arm(&g.cleanup, next)
}

// keepOrForget takes a group of which nothing is left out of the shard.
func (g *group) keepOrForget() {
	if g.inLog || g.classic != nil || g.consumer != nil || g.other != nil || len(g.offsets) > 0 || len(g.pending) > 0 {
		return
	}
	g.s.stop(&g.cleanup)
	delete(g.s.groups, g.name)
	g.s.recent = nil
}

// watch begins the cleanup of a group that came into being.
func (g *group) watch(now time.Time) {
	if g.s.loaded && g.cleanup.index == 0 {
		g.s.arm(&g.cleanup, now.Add(g.s.config.RetentionCheckInterval))
	}
}

// empty is whether the group has no member, and nobody about to be one.
func (g *group) empty() bool {
	switch {
	case g.classic != nil:
		return g.classic.state == stateEmpty && len(g.classic.pendingJoins) == 0
	case g.consumer != nil:
		return len(g.consumer.members) == 0
	case g.other != nil:
		return false
	}
	return true
}

// tombstone appends the records that end the group itself.
func (g *group) tombstone(recs []Record) []Record {
	switch {
	case g.consumer != nil:
		return g.consumer.tombstones(recs)
	case g.other != nil:
		return recs
	}
	// Kafka writes it for groups that never had a record, too.
	return append(recs, tombstone(&kmeta.GroupMetadataKey{Group: g.name}))
}

// subscribed is whether some member reads a topic, so that its offsets stay.
func (g *group) subscribed(topic string) bool {
	switch {
	case g.classic != nil:
		return g.classic.subscribed(topic)
	case g.consumer != nil:
		return g.consumer.subscribed(topic)
	}
	return false
}

// maxTombstones bounds the offsets that one cleanup forgets; more of them are for the next.
const maxTombstones = 1000

// clean forgets offsets that expired and offsets of topics that are gone, and the group when nothing else is left of it.
func (g *group) clean(now time.Time) Effect {
	s := g.s
	var recs []Record
	orphans, all := 0, true
	image := s.opts.Image()
	g.offsets.each(func(topic string, partition int32, o *committed) bool {
		gone := orphaned(image, topic, o)
		switch {
		case !gone && !g.expired(now, topic, o), g.unstable(topic, partition):
			all = false
		case len(recs) == maxTombstones:
			all = false
			return false
		default:
			if gone {
				orphans++
			}
			recs = append(recs, tombstone(&kmeta.OffsetCommitKey{Group: g.name, Topic: topic, Partition: partition}))
		}
		return true
	})
	forgotten := len(recs)
	next := now.Add(s.config.RetentionCheckInterval)
	if forgotten == maxTombstones {
		next = now
	}
	if all && len(g.pending) == 0 && g.empty() && g.other == nil && (orphans == 0 || forgotten == 0) {
		recs = g.tombstone(recs)
	}
	s.arm(&g.cleanup, next)
	if len(recs) == 0 {
		return Effect{}
	}
	return Effect{Records: recs, Then: func(err error) {
		switch {
		case err != nil:
			return // the next cleanup tries again
		case orphans > 0:
			s.event(Event{Group: g.name, Kind: EventExpired, Cause: "topics were deleted", Count: forgotten})
		case forgotten > 0:
			s.event(Event{Group: g.name, Kind: EventExpired, Cause: "offsets.retention.minutes", Count: forgotten})
		}
		if len(recs) > forgotten {
			s.event(Event{Group: g.name, Kind: EventDeleted, Cause: "no members, no offsets"})
		}
	}}
}

// expired is whether an offset's time is over.
func (g *group) expired(now time.Time, topic string, o *committed) bool {
	base := o.commitMs
	if c := g.classic; c != nil && c.protocolType != "" {
		switch {
		case c.state == stateEmpty:
			if c.stateMs >= 0 {
				base = c.stateMs
			}
		case c.state == stateStable && c.protocolType == kmeta.ConsumerProtocolType:
			if c.subscribed(topic) {
				return false
			}
		default:
			return false
		}
	} else if g.consumer != nil && g.consumer.subscribed(topic) {
		return false
	}
	if o.expireMs >= 0 {
		return now.UnixMilli() >= o.expireMs
	}
	return now.UnixMilli()-base >= g.s.config.OffsetsRetention.Milliseconds()
}

// orphaned is whether an offset's topic is gone, or is another one under its name.
func orphaned(image *metadata.Image, topic string, o *committed) bool {
	t := image.Topic(topic)
	return t == nil || o.topicID != kmeta.UUID{} && o.topicID != t.ID
}

// hasOrphans is whether there may be offsets that are orphaned.
func (g *group) hasOrphans() bool {
	image := g.s.opts.Image()
	for name, t := range g.offsets {
		topic := image.Topic(name)
		if topic == nil || t.other(topic.ID) {
			return true
		}
	}
	return false
}

// maxCause bounds what is kept of a member's own words.
const maxCause = 256

// event tells what happened. Its words may be views of a request. keeps I6
func (s *Shard) event(e Event) {
	e.Group, e.Member, e.Instance = strings.Clone(e.Group), strings.Clone(e.Member), strings.Clone(e.Instance)
	if len(e.Cause) > maxCause {
		e.Cause = strings.ToValidUTF8(e.Cause[:maxCause], "")
	}
	e.Cause = strings.Clone(e.Cause)
	s.opts.OnEvent(e)
}
