package group

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/kmeta"
)

// leave removes a member, or notes that a static one is away and will be back before its session ends.
func (c *consumerGroup) leave(now time.Time, req *kmsg.ConsumerGroupHeartbeatRequest, reply func(*kmsg.ConsumerGroupHeartbeatResponse)) Effect {
	refuse := func(code int16, message string) Effect {
		return Effect{Then: func(error) {
			reply(&kmsg.ConsumerGroupHeartbeatResponse{Version: req.Version, ErrorCode: code, ErrorMessage: &message})
		}}
	}
	m := c.members[req.MemberID]
	if req.InstanceID != nil {
		switch holder := c.members[c.static[*req.InstanceID]]; {
		case holder == nil:
			return refuse(codeUnknownMember, fmt.Sprintf("Instance id %s is unknown.", *req.InstanceID))
		case holder.id != req.MemberID:
			return refuse(codeFencedInstance, fmt.Sprintf("Static member %s with instance id %s was fenced.", req.MemberID, *req.InstanceID))
		}
	}
	if m == nil {
		return refuse(codeUnknownMember, fmt.Sprintf("Member %s is not a member of group %s.", req.MemberID, c.g.name))
	}
	resp := &kmsg.ConsumerGroupHeartbeatResponse{Version: req.Version, MemberID: ptr(m.id), MemberEpoch: req.MemberEpoch}
	var e Effect
	if req.MemberEpoch == staticLeaveEpoch {
		away := *m
		away.previous, away.epoch, away.state, away.revoking = m.epoch, staticLeaveEpoch, memberStable, partitions{}
		e.Records = []Record{away.currentRecord(c.g.name)}
	} else {
		e = c.remove(now, []*consumerMember{m}, EventLeft, "")
	}
	then := e.Then
	e.Then = func(err error) {
		if then != nil {
			then(err)
		}
		if err != nil {
			resp = &kmsg.ConsumerGroupHeartbeatResponse{Version: req.Version, ErrorCode: codeOf(err)}
		} else if live := c.members[req.MemberID]; live != nil {
			c.s.stopAll(live.revocation)
		}
		reply(resp)
	}
	return e
}

// fence removes a member that did not do in time what it should.
func (c *consumerGroup) fence(now time.Time, id, cause string) Effect {
	m := c.members[id]
	if m == nil {
		return Effect{}
	}
	e := c.remove(now, []*consumerMember{m}, EventTimedOut, cause)
	then := e.Then
	e.Then = func(err error) {
		if err != nil {
			if live := c.members[id]; live != nil && c.lives() {
				c.heard(now, live) // the next timeout tries again
				c.watchRevocation(now, live)
			}
			return
		}
		then(nil)
	}
	return e
}

// remove takes members out and raises the group epoch. If only members by the classic protocol are left, the group may become a
// classic one.
func (c *consumerGroup) remove(now time.Time, going []*consumerMember, kind EventKind, cause string) Effect {
	var recs []Record
	d := &draft{c: c, now: now, gone: map[string]struct{}{}, regexes: map[string][]string{}}
	for _, m := range going {
		recs = append(recs, removal(c.g.name, m.id)...)
		d.gone[m.id] = struct{}{}
	}
	unused := map[string]struct{}{}
	for _, m := range going {
		if m.regex != "" && !d.uses(m.regex) {
			unused[m.regex] = struct{}{}
		}
	}
	for _, regex := range slices.Sorted(maps.Keys(unused)) {
		recs = append(recs, tombstone(&kmeta.ConsumerGroupRegularExpressionKey{GroupID: c.g.name, RegularExpression: regex}))
	}
	epoch := c.epoch + 1
	told := func(err error) {
		if err != nil {
			return
		}
		for _, m := range going {
			c.s.event(Event{Group: c.g.name, Kind: kind, Member: m.id, Instance: m.instance, Generation: epoch, Cause: cause})
		}
		if len(d.members()) == 0 {
			c.s.event(Event{Group: c.g.name, Kind: EventEmpty, Generation: epoch})
		}
	}
	if c.mayDowngrade(d.gone) {
		return c.downgrade(now, d.gone, told)
	}
	return Effect{Records: append(recs, epochRecord(c.g.name, epoch, d.hashOf(d.members()))), Then: told}
}
