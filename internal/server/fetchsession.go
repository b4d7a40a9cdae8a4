package server

import (
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/quire-log/quire/internal/kmeta"
)

// Epochs of fetch sessions that are not counted ones.
const (
	initialSessionEpoch = 0  // begins a session; ends the one given
	finalSessionEpoch   = -1 // no session; ends the one given
)

// sessionEvictAge is how long a session lives for certain: it is evicted for another only when it was made, or used last, longer ago.
const sessionEvictAge = 2 * time.Minute

// sessionPartitionsMax bounds the partitions of all sessions together: what a client has this node remember costs more than to ask for it.
const sessionPartitionsMax = 1 << 20

// fetchSessions are the incremental fetch sessions of this node's clients.
type fetchSessions struct {
	slots         int // that many sessions at most,
	partitionsMax int // of that many partitions together

	// mu guards the fields below. It may be taken before a session's own mu.
	mu    sync.Mutex
	byID  map[int32]*fetchSession
	total int // partitions of all of them
}

func newFetchSessions(slots int) *fetchSessions {
	return &fetchSessions{slots: slots, partitionsMax: sessionPartitionsMax, byID: map[int32]*fetchSession{}}
}

// A fetchSession remembers what a client fetches and what it was told last, so that requests and answers need name only what changed.
type fetchSession struct {
	id      int32
	byIDs   bool // names topics by ids (v13 and later)
	created time.Time

	// used and size are guarded by fetchSessions.mu.
	used time.Time
	size int

	// mu guards the fields below.
	mu         sync.Mutex
	epoch      int32 // of the next request
	partitions map[partitionKey]*sessionPartition
	// first and last are the ends of the list that says in which order partitions are read. One that gave data goes to the end.
	first, last *sessionPartition
}

// A partitionKey names a partition within a session: by the topic's name or by its id, as the session's requests do.
type partitionKey struct {
	topic     string
	id        kmeta.UUID
	partition int32
}

// A sessionPartition is one partition of a session.
type sessionPartition struct {
	key        partitionKey
	ask        fetchAsk
	prev, next *sessionPartition
	listed     bool // it is in the session's list

	// What the client was told last; -1 makes the next answer tell it again.
	highWatermark, logStart int64
}

// A fetchAsk is what a client wants of a partition.
type fetchAsk struct {
	leaderEpoch int32 // -1: not given
	offset      int64
	lastEpoch   int32 // -1: not given
	maxBytes    int32
}

// nextSessionEpoch goes from the largest back to 1: 0 and -1 mean something else.
func nextSessionEpoch(e int32) int32 {
	if e == math.MaxInt32 {
		return 1
	}
	return e + 1
}

// remove forgets a session, if there is such.
func (f *fetchSessions) remove(id int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop(id)
}

// drop is remove under mu.
func (f *fetchSessions) drop(id int32) {
	if s := f.byID[id]; s != nil {
		f.total -= s.size
		delete(f.byID, id)
	}
}

// touch finds a session and marks it as used.
func (f *fetchSessions) touch(id int32) *fetchSession {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.byID[id]
	if s != nil {
		s.used = time.Now()
	}
	return s
}

// add makes a session of parts, unless all slots are taken by sessions that are worth more: nil.
func (f *fetchSessions) add(byIDs bool, parts []fetchPart) *fetchSession {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for len(f.byID) >= f.slots || f.total+len(parts) > f.partitionsMax {
		if !f.evict(now, len(parts)) {
			return nil
		}
	}
	s := &fetchSession{byIDs: byIDs, created: now, used: now, epoch: 1, partitions: make(map[partitionKey]*sessionPartition, len(parts))}
	for s.id == 0 || f.byID[s.id] != nil {
		s.id = rand.Int32()
	}
	for i := range parts {
		parts[i].cached = s.put(parts[i].key, parts[i].ask)
	}
	s.size = len(s.partitions)
	f.total += s.size
	f.byID[s.id] = s
	return s
}

// evict makes room for a session of size partitions: it takes the place of the one that has lain idle longest, if that is long enough,
// else of the smallest that is old enough and not larger.
func (f *fetchSessions) evict(now time.Time, size int) bool {
	var idlest, smallest *fetchSession
	for _, s := range f.byID {
		if idlest == nil || s.used.Before(idlest.used) {
			idlest = s
		}
		if now.Sub(s.created) > sessionEvictAge && (smallest == nil || s.size < smallest.size || s.size == smallest.size && s.id < smallest.id) {
			smallest = s
		}
	}
	switch {
	case idlest != nil && now.Sub(idlest.used) > sessionEvictAge:
		f.drop(idlest.id)
	case smallest != nil && smallest.size <= size:
		f.drop(smallest.id)
	default:
		return false
	}
	return true
}

// resize tells the cache how large a session has become; false: too large, and the session is gone. One that was evicted
// meanwhile serves its last request.
func (f *fetchSessions) resize(s *fetchSession, size int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byID[s.id] != s {
		return true
	}
	if f.total+size-s.size > f.partitionsMax {
		f.drop(s.id)
		return false
	}
	f.total += size - s.size
	s.size = size
	return true
}

// put adds a partition at the end, or changes what is asked of one that is there. Callers hold mu, or have made s.
func (s *fetchSession) put(key partitionKey, ask fetchAsk) *sessionPartition {
	p := s.partitions[key]
	if p == nil {
		key.topic = strings.Clone(key.topic) // it was a view of a request
		p = &sessionPartition{key: key, highWatermark: -1, logStart: -1}
		s.partitions[key] = p
		s.pushBack(p)
	}
	p.ask = ask
	return p
}

func (s *fetchSession) forget(key partitionKey) {
	if p := s.partitions[key]; p != nil {
		delete(s.partitions, key)
		s.unlink(p)
	}
}

func (s *fetchSession) pushBack(p *sessionPartition) {
	p.prev, p.next, p.listed = s.last, nil, true
	if s.last != nil {
		s.last.next = p
	} else {
		s.first = p
	}
	s.last = p
}

func (s *fetchSession) unlink(p *sessionPartition) {
	if p.prev != nil {
		p.prev.next = p.next
	} else {
		s.first = p.next
	}
	if p.next != nil {
		p.next.prev = p.prev
	} else {
		s.last = p.prev
	}
	p.prev, p.next, p.listed = nil, nil, false
}

// tell notes what the client is told of a partition, and whether an incremental answer has to say it at all.
func (p *sessionPartition) tell(r *fetched) (must bool) {
	must = r.data.Size > 0
	if p.highWatermark != r.highWatermark {
		p.highWatermark, must = r.highWatermark, true
	}
	if p.logStart != r.logStart {
		p.logStart, must = r.logStart, true
	}
	if r.code != codeNone || r.diverges {
		p.highWatermark, must = -1, true // the next answer without error says it again
	}
	return must
}
