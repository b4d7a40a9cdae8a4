package server

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/group"
	"github.com/quire-log/quire/internal/wire"
)

// OffsetCommit, versions 2-10: where groups are. What the versions changed stands with group.Shard.OffsetCommit. It is what
// coordinators are asked most, so its requests are walked by hand, and all that one takes of memory serves the next.

// A commitCall is an OffsetCommit while it is answered.
type commitCall struct {
	group.Commit
	notes    []string                                 // what the metadata of its partitions points to
	parts    []kmsg.OffsetCommitRequestTopicPartition // of all topics of Request
	question *question[*groupMachine, *kmsg.OffsetCommitResponse]
	release  func()
}

var commitCalls sync.Pool

// takeCommitCall takes one from the pool. Its release gives it back.
func takeCommitCall() *commitCall {
	if c, _ := commitCalls.Get().(*commitCall); c != nil {
		return c
	}
	c := new(commitCall)
	c.question = newQuestion(func(m *groupMachine, now time.Time, reply func(*kmsg.OffsetCommitResponse)) effect {
		return m.effect(m.OffsetCommit(now, &c.Commit, reply))
	})
	c.release = func() {
		c.Reset()
		clear(c.notes)
		clear(c.parts)
		c.notes, c.parts = c.notes[:0], c.parts[:0]
		commitCalls.Put(c)
	}
	return c
}

// commitWalkedMax bounds the requests that are walked, and so the memory that a commitCall keeps.
const commitWalkedMax = 16 << 10

func (n *Node) handleOffsetCommit(_ context.Context, req *wire.Request) wire.Response {
	c := takeCommitCall()
	release := c.release
	if len(req.Body) > commitWalkedMax || !c.walk(req) {
		release = nil // kmsg's memory is no use to the next
		c.Request = kmsg.OffsetCommitRequest{}
		if err := req.Decode(&c.Request); err != nil {
			return wire.Close(err)
		}
	}
	p, code := n.groupOf(c.Request.Group)
	if code == nil {
		_, code = c.question.put(context.Background(), n.groups, p)
	}
	if code != nil {
		c.Refuse(code.Code)
	}
	return wire.ReplyThen(&c.Response, release)
}

// walk reads a request as views; false: let kmsg say what it is.
func (c *commitCall) walk(req *wire.Request) bool {
	r, m := req.Reader(), &c.Request
	nullable := func() *string {
		s, ok := r.NullableString()
		if !ok {
			return nil
		}
		c.notes = append(c.notes, s)
		return &c.notes[len(c.notes)-1] // stays when notes grows: then it is in the old array
	}
	m.Version, m.RetentionTimeMillis = req.Version, -1
	m.Group, m.Generation, m.MemberID = r.String(), r.Int32(), r.String()
	m.InstanceID = nil
	if req.Version >= 7 {
		m.InstanceID = nullable()
	}
	if req.Version <= 4 {
		m.RetentionTimeMillis = r.Int64()
	}
	topicMin, partitionMin := 6, 14 // empty name, no partitions; partition, offset, no metadata
	switch {
	case req.Version >= 10:
		topicMin, partitionMin = 18, 18 // id
	case req.Version >= 8:
		topicMin, partitionMin = 3, 18
	case req.Version >= 6:
		partitionMin = 18 // leader epoch
	}
	topics := r.ArrayLen(topicMin)
	m.Topics = slices.Grow(m.Topics[:0], topics)[:topics]
	for i := range m.Topics {
		t := &m.Topics[i]
		t.Topic, t.TopicID = "", [16]byte{}
		if req.Version >= 10 {
			t.TopicID = r.UUID()
		} else {
			t.Topic = r.String()
		}
		partitions := r.ArrayLen(partitionMin)
		from := len(c.parts)
		c.parts = slices.Grow(c.parts, partitions)[:from+partitions] // as with notes
		t.Partitions = c.parts[from:]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			*p = kmsg.NewOffsetCommitRequestTopicPartition()
			p.Partition, p.Offset = r.Int32(), r.Int64()
			if req.Version >= 6 {
				p.LeaderEpoch = r.Int32()
			}
			p.Metadata = nullable()
			r.Tags(nil)
		}
		r.Tags(nil)
	}
	r.Tags(nil)
	return r.Done() == nil
}
