package group

import (
	"encoding/binary"
	"hash/maphash"

	"github.com/quire-log/quire/internal/kmeta"
)

// An Ahead does what a replay needs no Shard for: it takes commits apart, and tells which of them have the names of one that came before.
// So one goroutine may read a log and another replay it, and each has about half of the work. It belongs to the one that reads.
//
// Names are told apart by their bytes: there are places for them, by a hash, and names that find theirs taken put others out.
// The Shard has the same places, and in each the offsets that the names stand for.
type Ahead struct {
	seed   maphash.Seed
	places []aheadPlace // a power of two of them, two at least
}

// An aheadPlace has what is common to the commits of a group on a topic.
type aheadPlace struct {
	names []byte // a key's bytes before the partition's number
	id    kmeta.UUID
}

const (
	// aheadPlaces bounds the groups' topics that an Ahead knows at a time.
	aheadPlaces = 1 << 14
	// aheadNamesMax bounds the bytes that a place has for names; longer ones are replayed as they are.
	aheadNamesMax = 128
)

// NewAhead returns one for the records of one load.
func NewAhead() *Ahead {
	return &Ahead{seed: maphash.MakeSeed(), places: make([]aheadPlace, aheadPlaces)}
}

// A Prepared is a record as an Ahead leaves it.
type Prepared struct {
	offset, commitMs, at   int64
	leaderEpoch, partition int32
	place                  uint16
	noteSize               uint8
	kind                   preparedKind
}

type preparedKind uint8

const (
	preparedNot   preparedKind = iota // it is to be replayed as it is
	preparedFirst                     // and its place is for its names
	preparedKnown                     // all is here but the names, which are those of its place, and the note
)

// Prepare prepares a record that no transaction is around, after all records before it.
func (a *Ahead) Prepare(p *Prepared, key, value []byte, offset int64) {
	p.kind = preparedNot
	names := len(key) - 4
	if names < 2 || names > aheadNamesMax || binary.BigEndian.Uint16(key) != offsetCommitType {
		return
	}
	var c committed
	note, ok := c.read(offsetCommitType, value)
	if !ok {
		return
	}
	var known bool
	if p.place, known = a.place(key[:names], &c.topicID); !known {
		p.kind = preparedFirst
		return
	}
	*p = Prepared{
		offset: c.offset, commitMs: c.commitMs, at: offset, leaderEpoch: c.leaderEpoch, partition: int32(binary.BigEndian.Uint32(key[names:])),
		place: p.place, noteSize: uint8(len(note)), kind: preparedKnown,
	}
}

// place returns the place of names, and whether they were there. They may be in two places, so that few put each other out in turn.
func (a *Ahead) place(names []byte, id *kmeta.UUID) (place uint16, known bool) {
	first := uint16(maphash.Bytes(a.seed, names)) & uint16(len(a.places)-1)
	second := first ^ 1
	at := &a.places[first]
	if at.id == *id && string(at.names) == string(names) {
		return first, true
	}
	other := &a.places[second]
	if other.id == *id && string(other.names) == string(names) {
		return second, true
	}
	place = first
	if len(at.names) > 0 && len(other.names) == 0 {
		place, at = second, other
	}
	at.id, at.names = *id, append(at.names[:0], names...)
	return place, false
}

// Noted tells whether the record's value is needed even if all else is known.
func (p *Prepared) Noted() bool { return p.noteSize > 0 }

// A place is what a Shard has in a place of an Ahead.
type place struct {
	topic *topicOffsets // nil, or without partitions: nothing
	id    kmeta.UUID
}

// ReplayPrepared is Replay of a record of which all is known, and of which the value is given only if it is Noted. false: it wants
// ReplayAsIs.
func (s *Shard) ReplayPrepared(p *Prepared, value []byte) bool {
	if p.kind != preparedKnown || int(p.place) >= len(s.places) {
		return false
	}
	at := &s.places[p.place]
	t := at.topic
	if t == nil || t.n == 0 { // a tombstone came between: these are no offsets of the group any more
		return false
	}
	if p.noteSize == 0 && at.id == t.id { // what most are, without the ways that put has for others
		k := t.find(p.partition)
		if k == nil {
			k = t.add(p.partition)
		}
		if !k.noted {
			k.offset, k.commitMs, k.at, k.leaderEpoch, k.there = p.offset, p.commitMs, p.at, p.leaderEpoch, true
			return true
		}
	}
	c := committed{offset: p.offset, leaderEpoch: p.leaderEpoch, commitMs: p.commitMs, expireMs: -1, topicID: at.id, at: p.at}
	var note []byte
	if p.noteSize > 0 {
		note = value[commitNoteAt : commitNoteAt+int(p.noteSize)]
	}
	t.put(p.partition, &c, note)
	return true
}

// ReplayAsIs is Replay of a record that ReplayPrepared is false of.
func (s *Shard) ReplayAsIs(p *Prepared, e *Entry) error {
	err := s.Replay(e)
	if p.kind == preparedNot {
		return err
	}
	if s.places == nil {
		s.places = make([]place, aheadPlaces)
	}
	at := &s.places[p.place]
	*at = place{}
	if err == nil { // it was a commit: its group and its topic were the last that were looked up
		t := s.recent.recent
		partition := int32(binary.BigEndian.Uint32(e.Key[len(e.Key)-4:]))
		*at = place{t, t.committed(partition, t.find(partition)).topicID}
	}
	return err
}
