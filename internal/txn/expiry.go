package txn

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/quire-log/quire/internal/kmeta"
)

// tombstonesMax and tombstonesBytesMax bound the batch that forgets transactional ids.
const (
	tombstonesMax      = 1000
	tombstonesBytesMax = 256 << 10
)

// NextTimer is when Tick has something to do. It may be early, never late.
func (s *Shard) NextTimer() (time.Time, bool) {
	switch {
	case !s.loaded:
		return time.Time{}, false
	case len(s.due) > 0:
		return time.Time{}, true // now
	case s.nextTidy.Before(s.nextAbort):
		return s.nextTidy, true
	}
	return s.nextAbort, true
}

// Tick does the next thing that time asks for; the zero Effect if there is none, or if it was only to look.
func (s *Shard) Tick(now time.Time) Effect {
	if len(s.due) == 0 && s.loaded {
		if !now.Before(s.nextAbort) {
			s.nextAbort = now.Add(s.opts.Config.AbortInterval)
			s.findTimedOut(now)
		}
		if !now.Before(s.nextTidy) {
			s.nextTidy = now.Add(s.opts.Config.ExpiryInterval)
			s.findExpired(now)
		}
	}
	if len(s.due) == 0 {
		return Effect{}
	}
	do := s.due[0]
	s.due = s.due[1:]
	return do(now)
}

func (t *transaction) timedOut(now time.Time) bool {
	return t.state == Ongoing && now.Sub(t.startTime()) > time.Duration(t.timeoutMs)*time.Millisecond
}

func (t *transaction) expired(now time.Time, after time.Duration) bool {
	return t.state.idle() && now.Sub(time.UnixMilli(t.lastUpdate)) >= after
}

// having are the transactions that match, by id.
func (s *Shard) having(match func(*transaction) bool) []*transaction {
	var all []*transaction
	for _, t := range s.ids {
		if match(t) {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b *transaction) int { return cmp.Compare(a.id, b.id) })
	return all
}

// findTimedOut sees to it that transactions which are open for too long are aborted.
func (s *Shard) findTimedOut(now time.Time) {
	for _, t := range s.having(func(t *transaction) bool { return t.timedOut(now) }) {
		s.due = append(s.due, func(now time.Time) Effect {
			if s.ids[t.id] != t {
				return Effect{} // something was done with it meanwhile: the next look tells
			}
			s.opts.OnEvent(Event{t.id, EventTimedOut, t.producerID, t.epoch,
				fmt.Sprintf("it was open for %d ms, and its timeout is %d ms", now.UnixMilli()-t.start, t.timeoutMs)})
			return s.fence(now, t, func(error) {}) // if it failed, the next look finds it again
		})
	}
}

// findExpired sees to it that transactional ids which nobody uses are forgotten.
func (s *Shard) findExpired(now time.Time) {
	var found []*transaction
	bytes := 0
	flush := func() {
		if len(found) == 0 {
			return
		}
		batch := found
		s.due = append(s.due, func(now time.Time) Effect { return s.forget(now, batch) })
		found, bytes = nil, 0
	}
	for _, t := range s.having(func(t *transaction) bool { return t.expired(now, s.opts.Config.Expiration) }) {
		if len(found) == tombstonesMax || bytes+len(t.id) > tombstonesBytesMax {
			flush()
		}
		found = append(found, t)
		bytes += len(t.id)
	}
	flush()
}

func (s *Shard) forget(now time.Time, expired []*transaction) Effect {
	var e Effect
	for _, t := range expired {
		if s.ids[t.id] != t || !t.expired(now, s.opts.Config.Expiration) {
			continue
		}
		e.Records = append(e.Records, Record{Key: kmeta.AppendKey(nil, &kmeta.TransactionLogKey{TransactionalID: t.id})})
		s.opts.OnEvent(Event{t.id, EventExpired, t.producerID, t.epoch,
			fmt.Sprintf("it was last used %d ms ago, and transactional.id.expiration.ms is %d", now.UnixMilli()-t.lastUpdate, s.opts.Config.Expiration.Milliseconds())})
	}
	return e
}
