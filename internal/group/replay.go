package group

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/quire-log/quire/internal/kmeta"
)

// A ReplayError means a record that cannot be understood: the groups of the partition cannot be known.
type ReplayError struct {
	Offset int64
	Err    error
}

func (e *ReplayError) Error() string { return fmt.Sprintf("offset %d: %v", e.Offset, e.Err) }
func (e *ReplayError) Unwrap() error { return e.Err }

// Replay applies one committed record, of which nothing is kept. A record of a type that is not known is skipped, as Kafka does; the error is a
// *ReplayError of damaged bytes.
func (s *Shard) Replay(e *Entry) error {
	if err := s.replay(e); err != nil {
		return &ReplayError{e.Offset, err}
	}
	return nil
}

func (s *Shard) replay(e *Entry) error {
	if len(e.Key) >= 2 && binary.BigEndian.Uint16(e.Key) <= 1 {
		return s.replayOffset(e)
	}
	k, err := kmeta.ReadKey(kmeta.OffsetsLog, e.Key)
	if unknown := (*kmeta.KeyTypeError)(nil); errors.As(err, &unknown) {
		return nil
	} else if err != nil {
		return err
	}
	var v kmeta.Value
	if e.Value != nil {
		if v, _, err = kmeta.ReadVersioned(k, e.Value); err != nil {
			return err
		}
	}
	switch k := k.(type) {
	case *kmeta.GroupMetadataKey:
		value, _ := v.(*kmeta.GroupMetadataValue)
		s.replayClassic(k.Group, value)
	case *kmeta.ShareGroupMetadataKey:
		s.replayOther("Share", k.GroupID, v != nil)
	case *kmeta.ShareGroupMemberMetadataKey:
		s.replayOtherMember("Share", k.GroupID, k.MemberID, v != nil)
	case *kmeta.StreamsGroupMetadataKey:
		s.replayOther("Streams", k.GroupID, v != nil)
	case *kmeta.StreamsGroupMemberMetadataKey:
		s.replayOtherMember("Streams", k.GroupID, k.MemberID, v != nil)
	default:
		s.replayConsumer(k, v)
	}
	return nil
}

// replayOffset is Replay for the records that there are most of: it looks names up without copying them.
//
//	int16 type 0 or 1 | int16 length, group | int16 length, topic | int32 partition
func (s *Shard) replayOffset(e *Entry) error {
	name, rest, ok := plainString(e.Key[2:])
	topic, rest, ok2 := plainString(rest)
	if !ok || !ok2 || len(rest) != 4 {
		_, err := kmeta.ReadKey(kmeta.OffsetsLog, e.Key)
		if err == nil {
			err = errors.New("key of an offset that is no key")
		}
		return err
	}
	partition := int32(binary.BigEndian.Uint32(rest))
	g := s.known(name)
	if e.Value == nil {
		if g != nil {
			g.forget(string(topic), partition)
			g.keepOrForget()
		}
		return nil
	}
	c := committed{leaderEpoch: -1, expireMs: -1, at: e.Offset}
	note, ok := c.read(e.Key[1], e.Value)
	if !ok {
		if err := c.readOther(e.Key[1], e.Value); err != nil {
			return err
		}
	}
	if g == nil {
		g = s.groupOf(string(name))
		s.recent = g
	}
	if e.Producer == nil {
		g.said(topic).put(partition, &c, note)
		return nil
	}
	if g.pending == nil {
		g.pending = map[int64]offsets{}
	}
	if g.pending[e.Producer.ID] == nil {
		g.pending[e.Producer.ID] = offsets{}
	}
	g.pending[e.Producer.ID].topic(s.topic(topic)).put(partition, &c, note)
	if s.open[e.Producer.ID] == nil {
		s.open[e.Producer.ID] = map[*group]struct{}{}
	}
	s.open[e.Producer.ID][g] = struct{}{}
	return nil
}

// known finds a group, which most often is the one of the record before; nil: there is none.
func (s *Shard) known(name []byte) *group {
	if g := s.recent; g != nil && g.name == string(name) {
		return g
	}
	g := s.groups[string(name)]
	s.recent = g
	return g
}

// said are the group's offsets of a topic, which most often is the one of the record before.
func (g *group) said(topic []byte) *topicOffsets {
	if t := g.recent; t != nil && t.topic.name == string(topic) {
		return t
	}
	t := g.offsets[string(topic)]
	if t == nil {
		t = g.offsets.topic(g.s.topic(topic))
	}
	g.recent = t
	return t
}

// commitNoteAt is where the note begins in the values that read reads.
const commitNoteAt = 2 + 8 + 4 + 1

// read reads a value of the version that commits are written in, and allocates nothing; false: another one, or
// one that is damaged, is readOther's.
//
//	int16 version 4 | int64 offset | int32 leader epoch | uvarint length + 1, metadata | int64 time | tags: 00, or 01 00 10 and the topic's id
//
// The note is a view of v; nil, of none.
func (c *committed) read(kind byte, v []byte) (note []byte, ok bool) {
	const before, after, tag = commitNoteAt - 1, 8, 3
	if kind == 0 || len(v) < before+1+after+1 || binary.BigEndian.Uint16(v) != 4 {
		return nil, false
	}
	n := int(v[before])
	if n == 0 || n > 0x7f { // null, or longer than is worth it
		return nil, false
	}
	rest := v[before+1:]
	if n--; len(rest) < n+after+1 {
		return nil, false
	}
	tail := rest[n+after:]
	switch {
	case len(tail) == 1 && tail[0] == 0:
	case len(tail) == tag+len(c.topicID) && tail[0] == 1 && tail[1] == 0 && tail[2] == byte(len(c.topicID)):
		copy(c.topicID[:], tail[tag:])
	default:
		return nil, false
	}
	c.offset, c.leaderEpoch = int64(binary.BigEndian.Uint64(v[2:])), int32(binary.BigEndian.Uint32(v[10:]))
	c.commitMs = int64(binary.BigEndian.Uint64(rest[n:]))
	if n == 0 {
		return nil, true
	}
	return rest[:n], true
}

// readOther reads a value of any version.
func (c *committed) readOther(kind byte, value []byte) error {
	if len(value) < 2 {
		return fmt.Errorf("offset of %d bytes, want a version", len(value))
	}
	version := int16(binary.BigEndian.Uint16(value))
	if kind == 0 {
		var v kmeta.LegacyOffsetCommitValue
		if err := v.ReadBody(value[2:], version); err != nil {
			return err
		}
		c.offset, c.metadata, c.commitMs = v.Offset, v.Metadata, v.CommitTimestamp
		return nil
	}
	var v kmeta.OffsetCommitValue
	if err := v.ReadBody(value[2:], version); err != nil {
		return err
	}
	c.offset, c.leaderEpoch, c.metadata = v.Offset, v.LeaderEpoch, v.Metadata
	c.commitMs, c.expireMs, c.topicID = v.CommitTimestamp, v.ExpireTimestamp, v.TopicID
	return nil
}

func plainString(src []byte) (s, rest []byte, ok bool) {
	if len(src) < 2 {
		return nil, nil, false
	}
	n := int(int16(binary.BigEndian.Uint16(src)))
	if n < 0 || n > len(src)-2 {
		return nil, nil, false
	}
	return src[2 : 2+n], src[2+n:], true
}

// forget is what a tombstone of an offset does: it also takes what open transactions have for the partition.
func (g *group) forget(topic string, partition int32) {
	g.recent = nil
	g.offsets.remove(topic, partition)
	for id, p := range g.pending {
		p.remove(topic, partition)
		if len(p) == 0 {
			g.ended(id)
		}
	}
}

// ended takes a producer's open transaction from the group.
func (g *group) ended(producerID int64) {
	delete(g.pending, producerID)
	delete(g.s.open[producerID], g)
	if len(g.s.open[producerID]) == 0 {
		delete(g.s.open, producerID)
	}
}

// ReplayMarker ends a producer's transaction: its offsets show, unless something newer was committed meanwhile, or are forgotten.
func (s *Shard) ReplayMarker(producerID int64, producerEpoch int16, commit bool) {
	for g := range maps.Clone(s.open[producerID]) {
		if commit {
			p := g.pending[producerID]
			p.each(func(topic string, partition int32, c *committed) bool {
				if have, ok := g.offsets.get(topic, partition); !ok || have.at < c.at {
					g.offsets.topic(p[topic].topic).put(partition, c, nil)
				}
				return true
			})
		}
		g.ended(producerID)
		g.keepOrForget()
	}
}

func (s *Shard) replayClassic(name string, v *kmeta.GroupMetadataValue) {
	g := s.groupOf(name)
	g.inLog = v != nil
	switch {
	case !s.loaded:
		g.stored = v
	case v == nil && g.classic != nil:
		g.classic.die()
		g.classic = nil
	case v != nil && g.classic == nil:
		// A consumer group turned classic.
		g.classic = newClassicGroup(g)
		g.classic.load(time.UnixMilli(v.CurrentStateTimestamp), v)
	}
	g.keepOrForget()
}

func (s *Shard) replayOther(kind, name string, there bool) {
	g := s.groupOf(name)
	switch {
	case !there:
		g.other = nil
	case g.other == nil:
		g.other = &otherGroup{kind: kind, members: map[string]struct{}{}}
	}
	g.keepOrForget()
}

func (s *Shard) replayOtherMember(kind, name, member string, there bool) {
	if there {
		g := s.groupOf(name)
		if g.other == nil {
			g.other = &otherGroup{kind: kind, members: map[string]struct{}{}}
		}
		g.other.members[member] = struct{}{}
	} else if g := s.groups[name]; g != nil && g.other != nil {
		delete(g.other.members, member)
	}
}

func newRecord(k kmeta.Key, v kmeta.Value, version int16) Record {
	return Record{Key: kmeta.AppendKey(nil, k), Value: kmeta.AppendVersioned(nil, v, version)}
}

func tombstone(k kmeta.Key) Record { return Record{Key: kmeta.AppendKey(nil, k)} }
