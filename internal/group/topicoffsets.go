package group

import (
	"maps"
	"slices"

	"github.com/quire-log/quire/internal/kmeta"
)

// topicOffsets are a group's offsets of one topic. Of most partitions there is nothing but an offset and when it was committed: that is
// kept in 32 bytes without a pointer, since a broker may have millions of them. The id of the topic is kept once, and what else there
// may be is a note beside it.
type topicOffsets struct {
	topic *topicName
	id    kmeta.UUID // of the topic, as it was when nothing else was committed of it

	// Most groups commit on all partitions, and those are found by their number; a partition whose number is large for how many there
	// are is in high.
	low   []kept
	notes []note // of low; short or nil where none has one
	high  map[int32]*far
	n     int
}

// A topicName is what all groups' offsets of a topic have in common.
type topicName struct {
	name string
	most int // the longest low that one of them had
}

// kept is what is kept of every partition.
type kept struct {
	offset      int64
	commitMs    int64
	at          int64 // where in the log it stands
	leaderEpoch int32
	there       bool // false: nothing is said of the partition, or it is in high
	noted       bool // there is a note of it
}

// A note is what is special of a partition.
type note struct {
	metadata string
	expireMs int64 // -1: by the broker's retention
	topicID  kmeta.UUID
}

// far is a partition in high.
type far struct {
	kept
	note
}

// lowMin is how many numbers low has room for however few partitions there are.
const lowMin = 16

// manyMore bounds how many partitions low gets room for, for each that there is.
const manyMore = 16

// find returns what is kept of a partition, until the next one is added; nil: nothing.
func (t *topicOffsets) find(partition int32) *kept {
	if uint(partition) < uint(len(t.low)) {
		if k := &t.low[partition]; k.there {
			return k
		}
	}
	if h := t.high[partition]; h != nil {
		return &h.kept
	}
	return nil
}

// note returns the note of a partition that has room for one, nil: it has not.
func (t *topicOffsets) note(partition int32) *note {
	if uint(partition) < uint(len(t.low)) && t.low[partition].there {
		if int(partition) < len(t.notes) {
			return &t.notes[partition]
		}
		return nil
	}
	return &t.high[partition].note
}

// committed is all that was said of a partition of which k is kept.
func (t *topicOffsets) committed(partition int32, k *kept) committed {
	c := committed{offset: k.offset, leaderEpoch: k.leaderEpoch, commitMs: k.commitMs, expireMs: -1, topicID: t.id, at: k.at}
	if k.noted {
		n := t.note(partition)
		c.metadata, c.expireMs, c.topicID = n.metadata, n.expireMs, n.topicID
	}
	return c
}

// put takes over what was said of a partition. Its metadata is a text of bytes that are not kept, or c's own if text is nil; one that is
// as before is not copied.
func (t *topicOffsets) put(partition int32, c *committed, text []byte) {
	k := t.find(partition)
	if k == nil {
		if t.n == 0 {
			t.id = c.topicID
		}
		k = t.add(partition)
	}
	noted := k.noted
	*k = kept{offset: c.offset, commitMs: c.commitMs, at: c.at, leaderEpoch: c.leaderEpoch, there: true}
	if len(text) == 0 && c.metadata == "" && c.expireMs == -1 && c.topicID == t.id {
		if noted {
			*t.note(partition) = note{}
		}
		return
	}
	k.noted = true
	n := t.note(partition)
	if n == nil {
		t.notes = append(t.notes, make([]note, len(t.low)-len(t.notes))...)
		n = &t.notes[partition]
	}
	n.expireMs, n.topicID = c.expireMs, c.topicID
	switch {
	case text == nil:
		n.metadata = c.metadata
	case n.metadata != string(text):
		n.metadata = string(text)
	}
}

// add makes room for a partition that is not there yet.
func (t *topicOffsets) add(partition int32) *kept {
	t.n++
	if partition < 0 || int(partition) >= max(len(t.low), 2*t.n, lowMin) {
		if t.high == nil {
			t.high = map[int32]*far{}
		}
		h := new(far)
		t.high[partition] = h
		return &h.kept
	}
	if need := int(partition) + 1; need > len(t.low) {
		if need > cap(t.low) {
			// A group that has said something of several partitions will have as many as others have.
			room := min(t.topic.most, manyMore*(t.n-1))
			t.low = slices.Grow(t.low, max(need, room)-len(t.low))
		}
		t.low = t.low[:need] // nothing was ever there: low does not get shorter
		t.topic.most = max(t.topic.most, need)
	}
	return &t.low[partition]
}

func (t *topicOffsets) remove(partition int32) {
	k := t.find(partition)
	if k == nil {
		return
	}
	t.n--
	if k.noted {
		*t.note(partition) = note{}
	}
	*k = kept{}
	delete(t.high, partition)
}

// other is whether something may have been said of a topic that had another id. Without an id, it was said of any.
func (t *topicOffsets) other(id kmeta.UUID) bool {
	is := func(said kmeta.UUID) bool { return said != kmeta.UUID{} && said != id }
	if is(t.id) {
		return true
	}
	for i := range t.notes {
		if is(t.notes[i].topicID) {
			return true
		}
	}
	for _, h := range t.high {
		if is(h.topicID) {
			return true
		}
	}
	return false
}

// partitions are those of which something is said, by number.
func (t *topicOffsets) partitions() []int32 {
	all := make([]int32, 0, t.n)
	for i := range t.low {
		if t.low[i].there {
			all = append(all, int32(i))
		}
	}
	if len(t.high) == 0 {
		return all
	}
	all = slices.AppendSeq(all, maps.Keys(t.high))
	slices.Sort(all)
	return all
}
