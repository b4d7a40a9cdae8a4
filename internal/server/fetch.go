package server

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/replica"
	"github.com/quire-log/quire/internal/storage"
	"github.com/quire-log/quire/internal/wire"
)

// Fetch, versions 4-18.
//
//	v4   isolation level, aborted transactions
//	v5   log start offset
//	v7   sessions, and an error of the whole answer
//	v9   leader epoch
//	v11  rack (nobody else could be read from, so it is not looked at)
//	v12  flexible, last fetched epoch and where logs diverge
//	v13  topic ids instead of names
//	v15  the replica's id is a tag
//	v16  a refused partition says who leads it, and where that node is
//	v17  the replica's directory (tag 0 of a partition), v18 its high watermark (tag 1): both for followers
//
// Records never pass through here: an answer is made of bytes written by hand and of regions of files.
const (
	fetchSessionsMin  = 7
	fetchEpochMin     = 9
	fetchReplicaMin   = 11 // preferred read replica in the answer, rack in the request
	fetchDivergeMin   = 12
	fetchTopicIDsMin  = 13
	fetchReplicaIDMax = 14 // the last with the replica's id as a plain field
	fetchLeadersMin   = 16
)

// Who fetches: a consumer, somebody who looks at a replica, or (0 and above) a follower.
const (
	consumerReplica  = -1
	debuggingReplica = -2
)

// A fetchRequest is a request's head; its partitions go to fetchState.parts.
type fetchRequest struct {
	byIDs                   bool // topics are named by their ids
	replica                 int32
	maxWaitMs               int32
	minBytes, maxBytes      int32
	committed               bool // isolation level read_committed
	sessionID, sessionEpoch int32
	forgotten               []partitionKey
}

// A fetchPart is one partition of a request, or of its session.
type fetchPart struct {
	key    partitionKey
	ask    fetchAsk
	cached *sessionPartition // nil without a session
	result fetched
	// refused: it was not looked for in a log at all. Such partitions come last in an answer.
	refused bool
	silent  bool // an incremental answer need not name it
}

// fetched is what becomes of a partition.
type fetched struct {
	code          int16
	highWatermark int64
	lastStable    int64
	logStart      int64
	data          storage.Data
	aborted       []storage.AbortedTransaction
	lists         bool // the list of aborted transactions is not null
	diverges      bool
	divergeEpoch  int32
	divergeEnd    int64
}

// A fetchState is what a request needs while it is handled, and until it is sent.
type fetchState struct {
	head    fetchRequest
	parts   []fetchPart
	answers []*fetchPart // those that the answer names, in its order
	body    wire.Body
	free    func()
}

var fetchStates sync.Pool

func newFetchState() *fetchState {
	if s, _ := fetchStates.Get().(*fetchState); s != nil {
		return s
	}
	s := &fetchState{}
	s.free = func() {
		s.release()
		clear(s.parts)
		clear(s.answers)
		s.parts, s.answers = s.parts[:0], s.answers[:0]
		clear(s.head.forgotten)
		s.head = fetchRequest{forgotten: s.head.forgotten[:0]}
		s.body.Reset()
		fetchStates.Put(s)
	}
	return s
}

// release lets go of what was read.
func (s *fetchState) release() {
	for i := range s.parts {
		s.parts[i].result.data.Release()
		s.parts[i].result = fetched{}
	}
}

func (n *Node) handleFetch(ctx context.Context, req *wire.Request) wire.Response {
	s := newFetchState()
	if err := s.decode(req); err != nil {
		s.free()
		return wire.Close(fmt.Errorf("fetch v%d: %w", req.Version, err))
	}
	session, incremental, code := n.fetchSessions.begin(s)
	if code != codeNone {
		s.encodeError(req, code)
		return wire.Stream(req, &s.body, s.free)
	}
	img := n.fetch(ctx, req, s)
	if img == nil {
		s.free()
		return wire.Close(ctx.Err()) // an empty answer would only have the client ask again
	}
	n.noteOutsiders(req, s)
	answers := s.settle(n.fetchSessions, session, incremental)
	s.encode(n, req, img, answers)
	return wire.Stream(req, &s.body, s.free)
}

// decode walks the request.
func (s *fetchState) decode(req *wire.Request) error {
	h := &s.head
	r := req.Reader()
	v := req.Version
	h.byIDs = v >= fetchTopicIDsMin
	h.replica = consumerReplica
	if v <= fetchReplicaIDMax {
		h.replica = r.Int32()
	}
	h.maxWaitMs, h.minBytes, h.maxBytes = r.Int32(), r.Int32(), r.Int32()
	h.committed = r.Int8() == 1
	h.sessionEpoch = finalSessionEpoch
	if v >= fetchSessionsMin {
		h.sessionID, h.sessionEpoch = r.Int32(), r.Int32()
	}
	topicMin, partitionMin := 1+1, 4+8+4
	if h.byIDs {
		topicMin = 16 + 1
	}
	for range r.ArrayLen(topicMin) {
		key := h.topicKey(&r)
		for range r.ArrayLen(partitionMin) {
			p := fetchPart{key: key, ask: fetchAsk{leaderEpoch: -1, lastEpoch: -1}}
			p.key.partition = r.Int32()
			if v >= fetchEpochMin {
				p.ask.leaderEpoch = r.Int32()
			}
			p.ask.offset = r.Int64()
			if v >= fetchDivergeMin {
				p.ask.lastEpoch = r.Int32()
			}
			if v >= 5 {
				r.Int64() // a follower's log start
			}
			p.ask.maxBytes = r.Int32()
			r.Tags(nil)
			if r.Err() != nil {
				return r.Err()
			}
			if len(s.parts) == requestPartitionsMax {
				return errManyPartitions
			}
			s.parts = append(s.parts, p)
		}
		r.Tags(nil)
	}
	if v >= fetchSessionsMin {
		for range r.ArrayLen(topicMin) {
			key := h.topicKey(&r)
			for range r.ArrayLen(4) {
				if key.partition = r.Int32(); len(h.forgotten) == requestPartitionsMax {
					return errManyPartitions
				}
				h.forgotten = append(h.forgotten, key)
			}
			r.Tags(nil)
		}
	}
	if v >= fetchReplicaMin {
		_ = r.String() // rack
	}
	r.Tags(func(tag uint32, value []byte) {
		if tag == 1 && len(value) >= 4 {
			h.replica = int32(binary.BigEndian.Uint32(value))
		}
	})
	return r.Done()
}

func (h *fetchRequest) topicKey(r *wire.Reader) (key partitionKey) {
	if h.byIDs {
		key.id = r.UUID()
	} else {
		key.topic = r.String()
	}
	return key
}

// begin finds or makes the session of a request, and puts all that it fetches into s.parts.
func (f *fetchSessions) begin(s *fetchState) (session *fetchSession, incremental bool, code int16) {
	h := &s.head
	if h.sessionEpoch == initialSessionEpoch || h.sessionEpoch == finalSessionEpoch {
		if h.sessionID != 0 {
			f.remove(h.sessionID)
		}
		return nil, false, codeNone // a session is made with the answer
	}
	session = f.touch(h.sessionID)
	if session == nil {
		return nil, false, codeFetchSessionIDNotFound
	}
	size, code := session.update(s)
	if code != codeNone {
		return nil, false, code
	}
	if size == 0 {
		f.remove(session.id)
		h.sessionEpoch = finalSessionEpoch
		return nil, false, codeNone
	}
	if !f.resize(session, size) {
		return nil, false, codeFetchSessionIDNotFound // it has grown too large: the client goes on without one
	}
	return session, true, codeNone
}

// update takes a request into the session, and lists all of its partitions in s.
func (session *fetchSession) update(s *fetchState) (size int, code int16) {
	session.mu.Lock()
	defer session.mu.Unlock()
	h := &s.head
	switch {
	case session.epoch != h.sessionEpoch:
		return 0, codeInvalidFetchSessionEpoch
	case session.byIDs != h.byIDs:
		return 0, codeFetchSessionTopicIDError
	}
	for i := range s.parts {
		session.put(s.parts[i].key, s.parts[i].ask)
	}
	for _, key := range h.forgotten {
		session.forget(key)
	}
	session.epoch = nextSessionEpoch(session.epoch)
	s.parts = s.parts[:0]
	for p := session.first; p != nil; p = p.next {
		s.parts = append(s.parts, fetchPart{key: p.key, ask: p.ask, cached: p})
	}
	return len(s.parts), codeNone
}

// fetch reads, and waits while there is too little to answer with. It returns the image by which it read last, nil if ctx ended.
func (n *Node) fetch(ctx context.Context, req *wire.Request, s *fetchState) *metadata.Image {
	h := &s.head
	maxBytes := min(h.maxBytes, n.fetchMaxBytes)
	minBytes := int64(min(h.minBytes, maxBytes))
	img := n.controller.Image()
	for i := range s.parts {
		// What metadata does not know is refused, and does not keep the others from waiting.
		s.parts[i].refused = s.head.known(img, s.parts[i].key) != codeNone
	}
	if enough := n.read(s, img, maxBytes, minBytes); enough || h.maxWaitMs <= 0 {
		return img
	}
	waiter, timer := replica.NewWaiter(), time.NewTimer(time.Duration(h.maxWaitMs)*time.Millisecond)
	defer waiter.Stop()
	defer timer.Stop()
	for i := range s.parts {
		if p := &s.parts[i]; !p.refused {
			if rp := n.partition(h, p.key); rp != nil {
				rp.Watch(waiter)
			}
		}
	}
	for first := true; ; first = false {
		// What came between the first look and the watch is seen by the second.
		img = n.controller.Image()
		s.release()
		if enough := n.read(s, img, maxBytes, minBytes); enough {
			return img
		}
		if first {
			req.Waits()
		}
		select {
		case <-waiter.C:
		case <-timer.C:
			return img
		case <-ctx.Done():
			return nil
		}
	}
}

// partition finds what a request names, nil if it is not here.
func (n *Node) partition(h *fetchRequest, key partitionKey) *replica.Partition {
	if h.byIDs {
		return n.replicas.PartitionByID(key.id, key.partition)
	}
	return n.replicas.Partition(key.topic, key.partition)
}

func (h *fetchRequest) topic(img *metadata.Image, key partitionKey) *metadata.Topic {
	if h.byIDs {
		return img.TopicByID(key.id)
	}
	return img.Topic(key.topic)
}

// known tells whether metadata has a partition, else how it is refused.
func (h *fetchRequest) known(img *metadata.Image, key partitionKey) (code int16) {
	t := h.topic(img, key)
	switch {
	case t == nil && h.byIDs:
		return codeUnknownTopicID
	case t == nil, key.partition < 0, int(key.partition) >= len(t.Partitions):
		return codeUnknownTopicOrPartition
	}
	return codeNone
}

func fetchFailed(code int16) fetched {
	return fetched{code: code, highWatermark: -1, lastStable: -1, logStart: -1}
}

// read reads every partition once, in order, and tells whether that is enough to answer with.
func (n *Node) read(s *fetchState, img *metadata.Image, maxBytes int32, minBytes int64) (enough bool) {
	h := &s.head
	left, total := int64(maxBytes), int64(0)
	asked := false
	for i := range s.parts {
		p := &s.parts[i]
		code := h.known(img, p.key)
		if p.refused {
			if code == codeNone {
				code = codeUnknownTopicOrPartition // it came meanwhile; the next request finds it
			}
			p.result = fetchFailed(code)
			p.result.lists = true
			continue
		}
		asked = true
		if code != codeNone {
			p.result, enough = fetchFailed(code), true
			continue
		}
		p.result = n.readPartition(h, img, p, min(int64(p.ask.maxBytes), left), total == 0)
		if p.result.code != codeNone || p.result.diverges {
			enough = true
		}
		total += p.result.data.Size
		if left > 0 {
			left = max(0, left-p.result.data.Size)
		}
	}
	return enough || !asked || total >= minBytes
}

// readPartition finds what a partition has for the client: at most limit bytes, or a batch that is larger if first.
func (n *Node) readPartition(h *fetchRequest, img *metadata.Image, part *fetchPart, limit int64, first bool) fetched {
	p := n.partition(h, part.key)
	if p == nil || p.Gone() {
		said := h.topic(img, part.key).Partitions[part.key.partition]
		switch {
		case !slices.Contains(said.Replicas, n.id):
			return fetchFailed(codeNotLeaderOrFollower)
		case h.byIDs: // it is being deleted: replicas go before metadata says so
			return fetchFailed(codeUnknownTopicID)
		}
		return fetchFailed(codeUnknownTopicOrPartition)
	}
	ask := &part.ask
	if err := p.CheckLeader(replica.Epoch(ask.leaderEpoch)); err != nil {
		code, _ := errorCode(err)
		return fetchFailed(code)
	}
	log := p.Log()
	if log == nil {
		return fetchFailed(codeKafkaStorageError)
	}
	if h.replica >= 0 || limit < 0 {
		// Nobody follows this node. And Kafka has no better code for a negative limit.
		code := codeNotLeaderOrFollower
		if h.replica < 0 {
			code = codeUnknownServerError
		}
		return fetchFailed(code)
	}
	r := fetched{highWatermark: int64(p.HighWatermark()), logStart: int64(log.StartOffset()), lists: h.committed}
	end := replica.Offset(r.highWatermark)
	r.lastStable = int64(log.LastStableOffset(end))
	switch {
	case h.replica == debuggingReplica:
		end = log.EndOffset()
	case h.committed:
		end = replica.Offset(r.lastStable)
	}
	if ask.lastEpoch >= 0 {
		if diverged, failed := diverging(log, ask, &r); failed != codeNone {
			return fetchFailed(failed)
		} else if diverged {
			return r
		}
	}
	offset := replica.Offset(ask.offset)
	if offset == end && int64(offset) >= r.logStart {
		return r // at the end, as most are most of the time: no need to look
	}
	if offset > end && offset <= log.EndOffset() && int64(offset) >= r.logStart {
		return r // there is something, but not to be seen yet
	}
	data, err := log.Read(offset, storage.ReadOptions{MaxBytes: limit, Limit: end, MinOneBatch: first})
	if err != nil {
		code, _ := errorCode(err)
		if p.Gone() {
			code = codeUnknownTopicOrPartition
		}
		if code == codeUnknownServerError || code == codeKafkaStorageError {
			n.log.Error("a fetch failed", "partition", p.TopicPartition().String(), "offset", offset, "error", err)
		}
		return fetchFailed(code)
	}
	r.data = data
	if h.committed && data.Size > 0 {
		r.aborted, err = log.AbortedTransactions(offset, data.UpperBound)
		if err != nil {
			data.Release()
			code, _ := errorCode(err)
			return fetchFailed(code)
		}
	}
	return r
}

// diverging compares the last epoch that a fetcher has with this log: where it ends here, if that is not where the fetcher is.
func diverging(log *storage.Log, ask *fetchAsk, r *fetched) (diverged bool, code int16) {
	epoch, end := log.EndOffsetForEpoch(replica.Epoch(ask.lastEpoch))
	if epoch < 0 || end < 0 {
		return false, codeOffsetOutOfRange
	}
	if int32(epoch) < ask.lastEpoch || int64(end) < ask.offset {
		r.diverges, r.divergeEpoch, r.divergeEnd = true, int32(epoch), int64(end)
		return true, codeNone
	}
	return false, codeNone
}

// settle brings session and answer together: it makes a session if one is wished, drops from an incremental answer what the client
// knows already, and moves those that gave data behind the others. It returns the session id to answer with.
func (s *fetchState) settle(f *fetchSessions, session *fetchSession, incremental bool) (id int32) {
	h := &s.head
	if !incremental {
		if h.sessionEpoch != initialSessionEpoch || len(s.parts) == 0 { // before v7 it is the final one
			return 0
		}
		if session = f.add(h.byIDs, s.parts); session == nil {
			return 0
		}
	}
	session.mu.Lock()
	defer session.mu.Unlock()
	for i := range s.parts {
		p := &s.parts[i]
		p.silent = !p.cached.tell(&p.result) && incremental
		if incremental && p.result.data.Size > 0 && p.cached.listed {
			session.unlink(p.cached)
			session.pushBack(p.cached)
		}
	}
	return session.id
}
