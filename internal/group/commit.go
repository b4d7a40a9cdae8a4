package group

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
)

// A Commit is an OffsetCommit under way. The zero Commit is ready. Once it is answered, its memory may serve the next one.
type Commit struct {
	Request  kmsg.OffsetCommitRequest
	Response kmsg.OffsetCommitResponse // what reply gets

	parts []kmsg.OffsetCommitResponseTopicPartition // of all topics of Response
	w     offsetWriter

	shard *Shard
	now   time.Time
	reply func(*kmsg.OffsetCommitResponse)
	then  func(error) // c.carriedOut, made once
}

// OffsetCommit keeps what a group has consumed: versions 2-10. v2-4 may name a retention time, v7 has static members, v9 is for
// members of consumer groups too, v10 names topics by id. A partition that is not there, or whose note is too long, is answered
// by itself; a member that may not commit fails all others.
func (s *Shard) OffsetCommit(now time.Time, c *Commit, reply func(*kmsg.OffsetCommitResponse)) Effect {
	req := &c.Request
	may := s.mayCommit(now, req)
	v := kmeta.OffsetCommitValue{CommitTimestamp: now.UnixMilli(), ExpireTimestamp: -1}
	version := int16(4)
	if req.RetentionTimeMillis >= 0 {
		version, v.ExpireTimestamp = 1, expireAt(now, req.RetentionTimeMillis)
	}
	n := 0
	for i := range req.Topics {
		n += len(req.Topics[i].Partitions)
	}
	c.begin(s, now, n, reply)
	parts := c.parts
	for i := range req.Topics {
		rt := &req.Topics[i]
		t, code := c.w.topic(rt.Topic, rt.TopicID, req.Version >= 10)
		out := &c.Response.Topics[i]
		out.Topic, out.TopicID = rt.Topic, rt.TopicID
		out.Partitions, parts = parts[:len(rt.Partitions):len(rt.Partitions)], parts[len(rt.Partitions):]
		for j := range rt.Partitions {
			rp := &rt.Partitions[j]
			out.Partitions[j].Partition = rp.Partition
			code := code
			if code == 0 {
				code = s.checkPartition(t, rp.Partition, rp.Metadata)
			}
			if code == 0 {
				code = may.code(t.ID, rp.Partition)
			}
			if out.Partitions[j].ErrorCode = code; code != 0 {
				continue
			}
			v.Offset, v.LeaderEpoch, v.Metadata, v.TopicID = rp.Offset, rp.LeaderEpoch, text(rp.Metadata), t.ID
			c.w.add(t.Name, rp.Partition, &v, version)
		}
	}
	return Effect{Records: c.w.recs, Then: c.then}
}

// begin makes room for n partitions.
func (c *Commit) begin(s *Shard, now time.Time, n int, reply func(*kmsg.OffsetCommitResponse)) {
	topics := len(c.Request.Topics)
	c.Response.Version = c.Request.Version
	c.Response.Topics = slices.Grow(c.Response.Topics[:0], topics)[:topics]
	c.parts = slices.Grow(c.parts[:0], n)[:n]
	c.w = offsetWriter{group: c.Request.Group, image: s.opts.Image(), parts: n, buf: c.w.buf[:0], recs: slices.Grow(c.w.recs[:0], n)}
	c.shard, c.now, c.reply = s, now, reply
	if c.then == nil {
		c.then = c.carriedOut
	}
}

func (c *Commit) carriedOut(err error) {
	if err != nil {
		failCommit(&c.Response, codeOf(err))
	} else if len(c.w.recs) > 0 {
		c.shard.watch(c.Request.Group, c.now)
	}
	c.reply(&c.Response)
}

// Refuse makes Response say a code of every partition of Request.
func (c *Commit) Refuse(code int16) {
	c.Response = kmsg.OffsetCommitResponse{Version: c.Request.Version, Topics: make([]kmsg.OffsetCommitResponseTopic, len(c.Request.Topics))}
	for i := range c.Request.Topics {
		rt, out := &c.Request.Topics[i], &c.Response.Topics[i]
		out.Topic, out.TopicID = rt.Topic, rt.TopicID
		for j := range rt.Partitions {
			out.Partitions = append(out.Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: rt.Partitions[j].Partition, ErrorCode: code})
		}
	}
}

// commitKeptMax bounds the bytes of records whose memory is kept for the next commit.
const commitKeptMax = 64 << 10

// Reset lets go of all that is not the Commit's own memory, and of that memory if it is much. The partitions of Request are the caller's.
func (c *Commit) Reset() {
	clear(c.Request.Topics)
	clear(c.Response.Topics)
	clear(c.w.recs)
	*c = Commit{
		Request:  kmsg.OffsetCommitRequest{Topics: c.Request.Topics[:0]},
		Response: kmsg.OffsetCommitResponse{Topics: c.Response.Topics[:0]},
		parts:    c.parts[:0], w: offsetWriter{buf: c.w.buf[:0], recs: c.w.recs[:0]}, then: c.then,
	}
	if cap(c.w.buf) > commitKeptMax {
		c.w.buf = nil
	}
}

// failCommit puts a code where none is.
func failCommit(resp *kmsg.OffsetCommitResponse, code int16) {
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			if p := &resp.Topics[i].Partitions[j]; p.ErrorCode == 0 {
				p.ErrorCode = code
			}
		}
	}
}

// watch begins the cleanup of a group that a commit may have made.
func (s *Shard) watch(name string, now time.Time) {
	if g := s.groups[name]; g != nil {
		g.watch(now)
	}
}

// TxnOffsetCommit keeps what a group has consumed for the case that a transaction commits: versions 0-5, v3 with a member.
// Whether the transaction is open was asked of its coordinator before. Its offsets carry no topic id, as in Kafka.
func (s *Shard) TxnOffsetCommit(now time.Time, req *kmsg.TxnOffsetCommitRequest, reply func(*kmsg.TxnOffsetCommitResponse)) Effect {
	may := s.mayCommitTxn(req)
	resp := &kmsg.TxnOffsetCommitResponse{Version: req.Version, Topics: make([]kmsg.TxnOffsetCommitResponseTopic, len(req.Topics))}
	w := offsetWriter{group: req.Group, image: s.opts.Image()}
	for i := range req.Topics {
		w.parts += len(req.Topics[i].Partitions)
	}
	v := kmeta.OffsetCommitValue{CommitTimestamp: now.UnixMilli(), ExpireTimestamp: -1}
	for i := range req.Topics {
		rt := &req.Topics[i]
		t, code := w.topic(rt.Topic, rt.TopicID, req.Version >= 6)
		out := &resp.Topics[i]
		out.Topic, out.TopicID = rt.Topic, rt.TopicID
		out.Partitions = make([]kmsg.TxnOffsetCommitResponseTopicPartition, len(rt.Partitions))
		for j := range rt.Partitions {
			rp := &rt.Partitions[j]
			out.Partitions[j].Partition = rp.Partition
			code := code
			if code == 0 {
				code = s.checkPartition(t, rp.Partition, rp.Metadata)
			}
			if code == 0 {
				code = may.code(t.ID, rp.Partition)
			}
			if out.Partitions[j].ErrorCode = code; code != 0 {
				continue
			}
			v.Offset, v.LeaderEpoch, v.Metadata = rp.Offset, rp.LeaderEpoch, text(rp.Metadata)
			w.add(t.Name, rp.Partition, &v, 4)
		}
	}
	if len(w.recs) == 0 {
		return Effect{Then: func(error) { reply(resp) }}
	}
	return Effect{Records: w.recs, Producer: &Producer{req.ProducerID, req.ProducerEpoch}, Then: func(err error) {
		if code := codeOf(err); code != 0 {
			for i := range resp.Topics {
				for j := range resp.Topics[i].Partitions {
					if p := &resp.Topics[i].Partitions[j]; p.ErrorCode == 0 {
						p.ErrorCode = code
					}
				}
			}
		} else {
			s.watch(req.Group, now)
		}
		reply(resp)
	}}
}

// A permission is whether somebody may commit: one code for all partitions, or one by partition.
type permission struct {
	all    int16
	member *consumerMember // of a consumer group, with an older epoch: partitions it had then may be committed
	epoch  int32
	stale  int16 // for the others
}

func (p permission) code(topic kmeta.UUID, partition int32) int16 {
	if p.all != 0 || p.member == nil {
		return p.all
	}
	if since, ok := p.member.ownedSince(topic, partition); ok && p.epoch >= since {
		return 0
	}
	return p.stale
}

func (s *Shard) mayCommit(now time.Time, req *kmsg.OffsetCommitRequest) permission {
	g := s.groups[req.Group]
	switch {
	case len(req.Group) > maxName:
		return permission{all: codeInvalidGroup}
	case g == nil && req.Generation < 0:
		return permission{}
	case g == nil && req.Version >= 9:
		return permission{all: codeNoGroup}
	case g == nil:
		return permission{all: codeIllegalGeneration}
	case g.other != nil:
		return permission{all: codeNoGroup}
	case g.consumer != nil:
		return g.consumer.mayCommit(req.MemberID, req.Generation, false, req.Version)
	case g.classic == nil:
		if req.Generation < 0 {
			return permission{}
		}
		return permission{all: codeUnknownMember}
	}
	return permission{all: g.classic.mayCommit(now, req.MemberID, req.InstanceID, req.Generation, false)}
}

func (s *Shard) mayCommitTxn(req *kmsg.TxnOffsetCommitRequest) permission {
	g := s.groups[req.Group]
	switch {
	case len(req.Group) > maxName:
		return permission{all: codeInvalidGroup}
	case g == nil && req.Generation < 0:
		return permission{}
	case g == nil:
		return permission{all: codeIllegalGeneration}
	case g.other != nil:
		return permission{all: codeNoGroup}
	case g.consumer != nil:
		return g.consumer.mayCommit(req.MemberID, req.Generation, true, math.MaxInt16)
	case g.classic == nil:
		if req.Generation < 0 && req.MemberID == "" && req.InstanceID == nil {
			return permission{}
		}
		return permission{all: codeUnknownMember}
	}
	return permission{all: g.classic.mayCommit(time.Time{}, req.MemberID, req.InstanceID, req.Generation, true)}
}

func (s *Shard) checkPartition(t *metadata.Topic, partition int32, note *string) int16 {
	switch {
	case partition < 0 || int(partition) >= len(t.Partitions):
		return codeUnknownTopic
	case note != nil && len(*note) > s.config.MaxMetadataBytes:
		return codeMetadataTooLarge
	}
	return 0
}

// expireAt is now and so many milliseconds, without an overflow.
func expireAt(now time.Time, ms int64) int64 {
	if at := now.UnixMilli(); ms <= math.MaxInt64-at {
		return at + ms
	}
	return math.MaxInt64
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// An offsetWriter makes the records of one commit, in one buffer where they are few: what the next ones will take is guessed from one,
// and must not be believed of many.
type offsetWriter struct {
	group string
	image *metadata.Image
	parts int // that it makes records of, at most
	buf   []byte
	recs  []Record
}

func (w *offsetWriter) topic(name string, id kmeta.UUID, byID bool) (*metadata.Topic, int16) {
	if byID {
		if t := w.image.TopicByID(id); t != nil {
			return t, 0
		}
		return nil, codeUnknownTopicID
	}
	if t := w.image.Topic(name); t != nil {
		return t, 0
	}
	return nil, codeUnknownTopic
}

const offsetCommitType = 1

func (w *offsetWriter) add(topic string, partition int32, v *kmeta.OffsetCommitValue, version int16) {
	size := len(w.group) + len(topic) + len(v.Metadata) + 64 // all else is less
	if cap(w.buf)-len(w.buf) < size {
		w.buf = make([]byte, 0, max(size, min(size*(w.parts-len(w.recs)), commitKeptMax)))
	}
	start := len(w.buf)
	k := kmeta.OffsetCommitKey{Group: w.group, Topic: topic, Partition: partition}
	w.buf = k.AppendBody(binary.BigEndian.AppendUint16(w.buf, offsetCommitType))
	key := w.buf[start:len(w.buf):len(w.buf)]
	start = len(w.buf)
	w.buf = v.AppendBody(binary.BigEndian.AppendUint16(w.buf, uint16(version)), version)
	w.recs = append(w.recs, Record{Key: key, Value: w.buf[start:len(w.buf):len(w.buf)]})
}
