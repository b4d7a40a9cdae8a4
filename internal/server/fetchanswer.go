package server

import (
	"encoding/binary"

	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/wire"
)

func appendFetchHead(b []byte, version int16, code int16, session int32) []byte {
	b = binary.BigEndian.AppendUint32(b, 0) // throttle time
	if version >= fetchSessionsMin {
		b = binary.BigEndian.AppendUint16(b, uint16(code))
		b = binary.BigEndian.AppendUint32(b, uint32(session))
	}
	return b
}

// encodeError answers the request as a whole.
func (s *fetchState) encodeError(req *wire.Request, code int16) {
	b := appendFetchHead(s.body.Buf, req.Version, code, 0)
	b = wire.AppendArrayLen(b, 0, req.Flexible())
	s.body.Buf = wire.AppendNoTags(b, req.Flexible())
}

// encode writes the answer: first the partitions that were read, then those refused; neighbours of the same topic share its entry.
func (s *fetchState) encode(n *Node, req *wire.Request, img *metadata.Image, session int32) {
	for _, refused := range []bool{false, true} {
		for i := range s.parts {
			if p := &s.parts[i]; !p.silent && p.refused == refused {
				s.answers = append(s.answers, p)
			}
		}
	}
	topics := 0
	for i := range s.answers {
		if i == 0 || !s.answers[i].sameTopic(s.answers[i-1]) {
			topics++
		}
	}
	flexible, version := req.Flexible(), req.Version
	s.body.Buf = appendFetchHead(s.body.Buf, version, codeNone, session)
	s.body.Buf = wire.AppendArrayLen(s.body.Buf, topics, flexible)
	var leaders leaderHints
	for rest := s.answers; len(rest) > 0; {
		count := 1
		for count < len(rest) && rest[count].sameTopic(rest[0]) {
			count++
		}
		if s.head.byIDs {
			s.body.Buf = append(s.body.Buf, rest[0].key.id[:]...)
		} else {
			s.body.Buf = wire.AppendString(s.body.Buf, rest[0].key.topic, flexible)
		}
		s.body.Buf = wire.AppendArrayLen(s.body.Buf, count, flexible)
		for _, p := range rest[:count] {
			s.encodePartition(p, req, img, &leaders)
		}
		s.body.Buf = wire.AppendNoTags(s.body.Buf, flexible)
		rest = rest[count:]
	}
	if flexible {
		s.body.Buf = leaders.appendNodes(s.body.Buf, n, img, req.Conn)
	}
}

func (p *fetchPart) sameTopic(q *fetchPart) bool {
	return p.key.topic == q.key.topic && p.key.id == q.key.id
}

// encodePartition writes one partition. The length of its records is never that of null: several clients break on it.
func (s *fetchState) encodePartition(p *fetchPart, req *wire.Request, img *metadata.Image, leaders *leaderHints) {
	r := &p.result
	flexible, version := req.Flexible(), req.Version
	b := s.body.Buf
	b = binary.BigEndian.AppendUint32(b, uint32(p.key.partition))
	b = binary.BigEndian.AppendUint16(b, uint16(r.code))
	b = binary.BigEndian.AppendUint64(b, uint64(r.highWatermark))
	b = binary.BigEndian.AppendUint64(b, uint64(r.lastStable))
	if version >= 5 {
		b = binary.BigEndian.AppendUint64(b, uint64(r.logStart))
	}
	if r.lists {
		b = wire.AppendArrayLen(b, len(r.aborted), flexible)
		for _, a := range r.aborted {
			b = binary.BigEndian.AppendUint64(b, uint64(a.ProducerID))
			b = binary.BigEndian.AppendUint64(b, uint64(a.FirstOffset))
			b = wire.AppendNoTags(b, flexible)
		}
	} else {
		b = wire.AppendNullArray(b, flexible)
	}
	if version >= fetchReplicaMin {
		b = binary.BigEndian.AppendUint32(b, 1<<32-1) // nobody else to read from
	}
	s.body.Buf = wire.AppendBytesLen(b, int(r.data.Size), flexible)
	for _, region := range r.data.Regions {
		s.body.AddRegion(region)
	}
	if !flexible {
		return
	}
	b = s.body.Buf
	switch {
	case r.diverges:
		// Tag 0: the epoch int32 and end offset int64 where the logs part, no tags.
		b = append(b, 1, 0, 13)
		b = binary.BigEndian.AppendUint32(b, uint32(r.divergeEpoch))
		b = binary.BigEndian.AppendUint64(b, uint64(r.divergeEnd))
		b = append(b, 0)
	case version >= fetchLeadersMin && (r.code == codeNotLeaderOrFollower || r.code == codeFencedLeaderEpoch):
		b = leaders.append(b, 1, img, s.head.topic(img, p.key), p.key.partition)
	default:
		b = append(b, 0)
	}
	s.body.Buf = b
}
